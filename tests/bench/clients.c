/* Clients for the benchmark. They check that each answer is a proper one, and leave all judging to the
 * figures. */
#include "tests/bench/clients.h"

#include "tests/support/must.h"
#include "tests/support/proc.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

struct one {
    CURL *curl;
    struct buffer body;
    double started;
};

static size_t take(char *data, size_t size, size_t count, void *user)
{
    buffer_append(user, data, size * count);
    return size * count;
}

static struct curl_slist *authorization(const struct instance *i)
{
    char line[200];
    snprintf(line, sizeof line, "Authorization: Bearer %s", instance_token(i));
    return curl_slist_append(NULL, line);
}

static void one_open(struct one *o, const char *url, struct curl_slist *headers)
{
    memset(o, 0, sizeof *o);
    o->curl = curl_easy_init();
    curl_easy_setopt(o->curl, CURLOPT_URL, url);
    curl_easy_setopt(o->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(o->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(o->curl, CURLOPT_WRITEDATA, &o->body);
    curl_easy_setopt(o->curl, CURLOPT_PRIVATE, o);
    curl_easy_setopt(o->curl, CURLOPT_NOSIGNAL, 1L);
    o->started = now_us();
}

/* A set of transfers that run at once. */
struct many {
    CURLM *multi;
    struct curl_slist *headers;
    struct one *all;
    int count;
};

static void many_open(struct many *m, const struct instance *i, const char *url, int count)
{
    m->multi = curl_multi_init();
    m->headers = authorization(i);
    m->all = xcalloc((size_t)count, sizeof *m->all);
    m->count = count;
    for (int k = 0; k < count; k++) {
        one_open(&m->all[k], url, m->headers);
        curl_multi_add_handle(m->multi, m->all[k].curl);
    }
}

static void many_close(struct many *m)
{
    for (int k = 0; k < m->count; k++) {
        curl_multi_remove_handle(m->multi, m->all[k].curl);
        curl_easy_cleanup(m->all[k].curl);
        buffer_free(&m->all[k].body);
    }
    free(m->all);
    curl_slist_free_all(m->headers);
    curl_multi_cleanup(m->multi);
}

/* The next transfer that is over, or NULL where there is none at the moment. */
static struct one *many_next(struct many *m, long *ret_status)
{
    int left;
    CURLMsg *message = curl_multi_info_read(m->multi, &left);
    struct one *o = NULL;
    if (!message)
        return NULL;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&o);
    *ret_status = 0;
    if (message->data.result == CURLE_OK)
        curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, ret_status);
    return o;
}

void clients_park_and_wake(const struct instance *i, const char *ws, const char *ex, int count,
                           double (*stamp)(const char *), struct samples *ret)
{
    char path[240], url[400];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?tail=1", ws, ex);
    json_auto_t *page = api(i, 200, "GET", path, NULL);
    snprintf(url, sizeof url, "%s/api/workspaces/%s/realtime-execs/%s/events?cursor=%lld&wait_seconds=20",
             instance_url(i), ws, ex, member_number(page, "next_cursor"));
    struct many m;
    many_open(&m, i, url, count);
    for (int done = 0, running = 1; done < count;) {
        struct one *o;
        long status;
        curl_multi_perform(m.multi, &running);
        while ((o = many_next(&m, &status))) {
            double at = stamp(buffer_text(&o->body));
            must(status == 200 && at > 0, "status %ld: %.200s", status, buffer_text(&o->body));
            samples_add(ret, (now_us() - at) / 1000);
            done++;
        }
        if (done < count)
            curl_multi_poll(m.multi, NULL, 0, 1000, NULL);
    }
    many_close(&m);
}

double clients_requests_per_second(const struct instance *i, const char *path, int at_a_time,
                                   long milliseconds, struct samples *latency)
{
    char url[400];
    snprintf(url, sizeof url, "%s%s", instance_url(i), path);
    struct many m;
    size_t count = 0;
    many_open(&m, i, url, at_a_time);
    double begun = now_us(), deadline = begun + (double)milliseconds * 1000;
    for (int running = 1; now_us() < deadline;) {
        struct one *o;
        long status;
        curl_multi_perform(m.multi, &running);
        while ((o = many_next(&m, &status))) {
            must(status == 200 || !latency, "status %ld", status);
            count++;
            if (latency)
                samples_add(latency, (now_us() - o->started) / 1000);
            o->body.length = 0;
            curl_multi_remove_handle(m.multi, o->curl);
            o->started = now_us();
            curl_multi_add_handle(m.multi, o->curl);
        }
        curl_multi_poll(m.multi, NULL, 0, 100, NULL);
    }
    double rate = (double)count / ((now_us() - begun) / 1e6);
    many_close(&m);
    return rate;
}

void clients_wait_exit(const struct instance *i, const char *ws, const char *ex)
{
    char path[240];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    for (;; sleep_ms(5)) {
        json_auto_t *status = api(i, 200, "GET", path, NULL);
        const char *state = member_text(status, "state");
        if (strcmp(state, "finished") == 0)
            return;
        must(strcmp(state, "running") == 0 || strcmp(state, "starting") == 0, "state %s", state);
    }
}

/* The inside of a JSON string that holds text and the simple escapes only. */
static const char *unescape(const char *at, const char *end, struct buffer *out)
{
    while (at < end && *at != '"') {
        const char *stop = at;
        while (stop < end && *stop != '"' && *stop != '\\')
            stop++;
        buffer_append(out, at, (size_t)(stop - at));
        at = stop;
        if (at < end && *at == '\\') {
            must(at[1] == 'n', "escape %c is not expected here", at[1]);
            buffer_append_char(out, '\n');
            at += 2;
        }
    }
    return at;
}

static unsigned long decode_page(const struct buffer *page, struct buffer *out)
{
    const char *at = page->data, *end = page->data + page->length, *found;
    while ((found = memmem(at, (size_t)(end - at), "\"data\":\"", 8)))
        at = unescape(found + 8, end, out);
    found = memmem(page->data, page->length, "\"next_cursor\":", 14);
    must(found != NULL, "no next_cursor in %.200s", page->data);
    return strtoul(found + 14, NULL, 10);
}

double clients_read_back(const struct instance *i, const char *ws, const char *ex, size_t bytes,
                         struct buffer *ret)
{
    char url[400];
    struct curl_slist *headers = authorization(i);
    struct one o;
    one_open(&o, "", headers);
    buffer_reserve(ret, bytes + 65536);
    memset(ret->data, 0, bytes); /* page in before the clock runs */
    double started = now_us();
    for (unsigned long cursor = 0, last = 1; ret->length < bytes; last = cursor) {
        o.body.length = 0;
        snprintf(url, sizeof url,
                 "%s/api/workspaces/%s/realtime-execs/%s/events?cursor=%lu&max_events=500&max_bytes=8388608",
                 instance_url(i), ws, ex, cursor);
        curl_easy_setopt(o.curl, CURLOPT_URL, url);
        must_hold(curl_easy_perform(o.curl) == CURLE_OK);
        cursor = decode_page(&o.body, ret);
        must(cursor != last, "the log ended at %zu bytes: %.300s", ret->length, buffer_text(&o.body));
    }
    double rate = (double)bytes / (now_us() - started);
    curl_easy_cleanup(o.curl);
    buffer_free(&o.body);
    curl_slist_free_all(headers);
    return rate;
}

static double pss_of_tree(pid_t pid)
{
    char path[128];
    double total = proc_pss_kib(pid);
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
        int child;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file && fscanf(file, "%d", &child) == 1)
            total += pss_of_tree(child);
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return total;
}

static double pss_of_all(const struct instance *i, const char *subcommand, double (*pss)(pid_t))
{
    pid_t pids[256];
    double total = 0;
    size_t count = instance_processes(i, subcommand, pids, N_ELEMENTS(pids));
    for (size_t k = 0; k < count; k++)
        total += pss(pids[k]);
    return total;
}

double clients_keepers_pss_kib(const struct instance *i)
{
    return pss_of_all(i, "keep", pss_of_tree);
}

double clients_workers_pss_kib(const struct instance *i)
{
    return pss_of_all(i, "serve", proc_pss_kib);
}

struct parked {
    int *fds;
    size_t count;
};

static int park_one(const struct instance *i, const char *request, size_t length)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = { .sin_family = AF_INET };
    to.sin_port = htons((uint16_t)atoi(strrchr(instance_url(i), ':') + 1));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connecting: %m");
    must_hold(send(fd, request, length, MSG_NOSIGNAL) == (ssize_t)length);
    return fd;
}

struct parked *clients_park(const struct instance *i, const char *ws, const char *ex, size_t count)
{
    struct parked *p = xcalloc(1, sizeof *p);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    char request[600];
    int length = snprintf(request, sizeof request,
                          "GET /api/workspaces/%s/realtime-execs/%s/events?cursor=%ld&wait_seconds=30 "
                          "HTTP/1.1\r\nHost: bench\r\n"
                          "Authorization: Bearer %s\r\n\r\n",
                          ws, ex, exec_end(i, ws, ex), instance_token(i));
    p->fds = xcalloc(count, sizeof *p->fds);
    for (; p->count < count; p->count++)
        p->fds[p->count] = park_one(i, request, (size_t)length);
    sleep_ms(3000);
    return p;
}

size_t clients_parked_count(const struct parked *p)
{
    size_t waiting = 0;
    char byte;
    for (size_t k = 0; k < p->count; k++)
        waiting += recv(p->fds[k], &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
    return waiting;
}

void clients_unpark(struct parked *p)
{
    for (size_t k = 0; k < p->count; k++)
        close(p->fds[k]);
    free(p->fds);
    free(p);
}
