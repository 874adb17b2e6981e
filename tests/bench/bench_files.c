/* The figures of files, in one run, through lighttpd: a text read and written, a page of a large folder, and
 * a gigabyte up and down while somebody types. See README, "How fast it is". */
#include "lib/base/buffer.h"
#include "tests/bench/figures.h"
#include "tests/bench/measure.h"
#include "tests/support/instance.h"
#include "tests/support/must.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TEXT_BYTES (100 << 10)
#define BULK_BYTES (1ll << 30)
#define ECHOES     2000

static struct instance *the;
static char ws[40];

static const char *path_of(const char *rest)
{
    static char path[300];
    snprintf(path, sizeof path, "/api/workspaces/%s/%s", ws, rest);
    return path;
}

static double timed(const char *method, const char *rest, const char *body)
{
    struct http_options o = { .body = body, .unchecked = true };
    struct answer a = http_send(the, method, path_of(rest), &o);
    must(a.status == 200, "%s: %ld %.200s", rest, a.status, a.body);
    double ms = a.ms;
    answer_clear(&a);
    return ms;
}

/* ---- short ---- */

/* The same steps on the same disk: written, synced, renamed, its folder synced. */
static double plain_write(const struct buffer *content)
{
    char folder[300], path[320], name[320];
    snprintf(folder, sizeof folder, "%s/plain", instance_state(the));
    snprintf(path, sizeof path, "%s/new", folder);
    snprintf(name, sizeof name, "%s/name", folder);
    mkdir(folder, 0755);
    double started = now_us();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    must(fd >= 0 && write(fd, content->data, content->length) == (ssize_t)content->length && fsync(fd) == 0 &&
             rename(path, name) == 0,
         "a plain write failed");
    close(fd);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(fsync(fd) == 0, "a plain sync failed");
    close(fd);
    return (now_us() - started) / 1000;
}

/* One line of many, there and back. */
static void bench_edit(void)
{
    struct samples editing = { 0 };
    char body[200];
    for (int i = 0; i < 300; i++) {
        snprintf(
            body, sizeof body,
            "{\"filepath\": \"text\", \"edits\": [{\"old\": \"odd line %d\", \"new\": \"odd line %d\"}]}", i,
            i + 1);
        samples_add(&editing, timed("POST", "edit", body));
    }
    table_times("edit a file of 100 KB, on disk", &editing, NULL, 3);
    samples_free(&editing);
}

static void bench_text(void)
{
    struct samples reading = { 0 }, writing = { 0 }, plain = { 0 };
    _cleanup_buffer_ struct buffer body = BUFFER_INIT;
    buffer_append_text(&body, "{\"filepath\": \"text\", \"create_only\": false, \"content\": \"");
    while (body.length < TEXT_BYTES)
        buffer_append_text(&body, "A line of text, as they stand in many a file of source code.\\n");
    buffer_append_text(&body, "The odd line 0.\"}");
    for (int i = 0; i < 300; i++) {
        samples_add(&writing, timed("POST", "file", buffer_text(&body)));
        samples_add(&plain, plain_write(&body));
        samples_add(&reading, timed("GET", "file?filepath=text&limit=0&max_bytes=200000", NULL));
    }
    table_times("read a file of 100 KB", &reading, NULL, 3);
    table_times("write a file of 100 KB, on disk (the same by hand)", &writing, &plain, 3);
    samples_free(&plain);
    samples_free(&reading);
    samples_free(&writing);
    bench_edit();
}

static void bench_folder(void)
{
    struct samples listing = { 0 };
    struct exec_log log;
    exec_run_command(the, ws, "mkdir many && cd many && seq -f 'file-%05g.txt' 10000 | xargs touch", &log);
    exec_log_clear(&log);
    for (int i = 0; i < 100; i++)
        samples_add(&listing, timed("GET", "files?path=many", NULL));
    table_times("a page of a folder of 10,000", &listing, NULL, 25);
    samples_free(&listing);
}

/* ---- searches ---- */

/* 20 x 25 folders of 100 files of 60 lines; in ten of those a line more. */
#define TREE                                                                                                 \
    "mkdir -p tree/m{0..19}/d{0..24} && cd tree && awk 'BEGIN {"                                             \
    " for (l = 0; l < 60; l++) text = text \"static const int value = offset + length; return self;\\n\";"   \
    " for (d = 0; d < 500; d++) for (f = 0; f < 100; f++) {"                                                 \
    " name = \"m\" d % 20 \"/d\" int(d / 20) \"/f\" f \".c\"; printf \"%s\", text > name;"                   \
    " if (f == 7 && d % 50 == 0) print \"a needle\" > name; close(name) } }' && find . -type f | wc -l"

/* In the same sandbox, whose share of the machine it has; the shell's part is not counted. */
static double plain_run(const char *program)
{
    char command[400];
    struct exec_log log;
    snprintf(command, sizeof command,
             "cd tree && s=$EPOCHREALTIME && %s >/dev/null; e=$EPOCHREALTIME; echo $((${e/./} - ${s/./}))",
             program);
    exec_run_command(the, ws, command, &log);
    double ms = strtod(log.out, NULL) / 1000;
    must(ms > 0, "%s: %.200s", program, log.out);
    exec_log_clear(&log);
    return ms;
}

static void bench_one_search(const char *name, const char *rest, const char *program, double most)
{
    struct samples own = { 0 }, plain = { 0 };
    timed("GET", rest, NULL); /* what is read the first time is read for both */
    for (int i = 0; i < 20; i++) {
        samples_add(&plain, plain_run(program));
        samples_add(&own, timed("GET", rest, NULL));
    }
    char ratio[120];
    snprintf(ratio, sizeof ratio, "%s: its time, plain = 1", name);
    table_times(name, &own, &plain, 0);
    table_number(ratio, samples_percentile(&own, 50) / samples_percentile(&plain, 50), "x", 1, most, 0);
    samples_free(&own);
    samples_free(&plain);
}

static void bench_searches(void)
{
    struct exec_log log;
    char ex[40];
    exec_start_command(the, ws, TREE, ex);
    exec_follow(the, ws, ex, 600000, &log);
    must(strstr(log.out, "50000") != NULL, "the tree was not made: %.200s", log.out);
    exec_log_clear(&log);
    bench_one_search("10 lines in 50,000 files (rg alone)", "grep?path=tree&pattern=needle",
                     "rg --no-config --json needle ./", 1.5);
    bench_one_search("the first 50 of 3,000,000 lines (rg alone)", "grep?path=tree&pattern=return",
                     "rg --no-config --json return ./", 1.5);
    bench_one_search("90 names of 50,000 (find alone)", "search?pattern=tree/m3/d1?/f?7.c&limit=100",
                     "find . -path './m3/d1?/f?7.c'", 0);
    bench_one_search("500 names of 50,000 (find alone)", "search?pattern=f99.c&limit=500",
                     "find . -name 'f99.c'", 0);
}

/* ---- a gigabyte ---- */

static size_t give(char *to, size_t size, size_t count, void *user)
{
    long long *left = user;
    size_t length = size * count < (size_t)*left ? size * count : (size_t)*left;
    memset(to, 'x', length);
    *left -= (long long)length;
    return length;
}

static size_t count_bytes(char *data, size_t size, size_t count, void *user)
{
    long long *total = user;
    (void)data;
    *total += (long long)(size * count);
    return size * count;
}

/* MB/s */
static double transfer(bool up)
{
    char url[400], authorization[200];
    long long left = BULK_BYTES, total = 0;
    snprintf(url, sizeof url, "%s%s", instance_url(the), path_of("raw?path=bulk"));
    snprintf(authorization, sizeof authorization, "Authorization: Bearer %s", instance_token(the));
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(curl_slist_append(NULL, authorization), "Expect:");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &total);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512l << 10);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 512l << 10);
    if (up) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1l);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, give);
        curl_easy_setopt(curl, CURLOPT_READDATA, &left);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)BULK_BYTES);
    }
    double started = now_us();
    CURLcode code = curl_easy_perform(curl);
    double seconds = (now_us() - started) / 1e6;
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    must(code == CURLE_OK && status == 200 && (up || total == BULK_BYTES), "%s: %s, status %ld, %lld bytes",
         up ? "up" : "down", curl_easy_strerror(code), status, total);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return (double)BULK_BYTES / 1e6 / seconds;
}

struct echoes {
    volatile int count, stop;
    double ms[ECHOES];
};

static void type_and_wait(struct echoes *echoes, const char *ex)
{
    long cursor = 0;
    for (int i = 0; i < ECHOES && !echoes->stop; i++) {
        char query[100], text[32];
        snprintf(text, sizeof text, "typed %d\n", i);
        double started = now_us();
        exec_send(the, ws, ex, text, false);
        text[strlen(text) - 1] = '\0';
        for (bool seen = false; !seen;) {
            snprintf(query, sizeof query, "cursor=%ld&wait_seconds=5", cursor);
            struct answer a = measure_events(the, ws, ex, query);
            cursor = (long)member_number(a.json, "next_cursor");
            seen = strstr(a.body, text) != NULL;
            answer_clear(&a);
        }
        echoes->ms[echoes->count++] = (now_us() - started) / 1000;
        usleep(20000);
    }
}

/* The most memory that a process of this kind ever had, in MiB. */
static double peak_of(const char *subcommand)
{
    pid_t pids[16];
    size_t count = instance_processes(the, subcommand, pids, 16);
    long most = 0;
    for (size_t i = 0; i < count && i < 16; i++) {
        char path[64], line[200];
        long kib = 0;
        snprintf(path, sizeof path, "/proc/%d/status", (int)pids[i]);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "VmHWM: %ld", &kib) == 1 && kib > most)
                most = kib;
        if (file)
            fclose(file);
    }
    return (double)most / 1024;
}

static void bench_bulk(bool up)
{
    char ex[40];
    struct echoes *echoes =
        mmap(NULL, sizeof *echoes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, 0, 0);
    exec_start_command(the, ws, "cat", ex);
    pid_t typist = fork();
    if (typist == 0) {
        type_and_wait(echoes, ex);
        _exit(0);
    }
    usleep(300000);
    int before = echoes->count;
    double speed = transfer(up);
    struct samples waits = { 0 };
    for (int i = before; i < echoes->count; i++)
        samples_add(&waits, echoes->ms[i]);
    echoes->stop = 1;
    waitpid(typist, NULL, 0);
    measure_cancel(the, ws, ex);
    table_number(up ? "upload of 1 GB" : "download of 1 GB", speed, "MB/s", -1, 150, 1);
    table_times(up ? "an echo meanwhile, up" : "an echo meanwhile, down", &waits, NULL, 20);
    table_number("the most memory of a worker", peak_of("serve"), "MiB", -1, 32, 0);
    table_number("the most memory of the keeper", peak_of("keep"), "MiB", -1, 32, 0);
    samples_free(&waits);
    munmap(echoes, sizeof *echoes);
}

int main(void)
{
    curl_global_init(CURL_GLOBAL_ALL);
    the = instance_start(NULL);
    workspace_create(the, NULL, ws);
    table_begin();
    bench_text();
    bench_folder();
    bench_searches();
    bench_bulk(true);
    bench_bulk(false);
    int status = table_end();
    instance_stop(the);
    return status;
}
