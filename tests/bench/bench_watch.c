/* The figures of watches, through lighttpd: from a change in the sandbox to the client that waits for it, and
 * what a watch costs a command that makes 20,000 files. See README, "How fast it is". */
#include "tests/bench/figures.h"
#include "tests/bench/measure.h"
#include "tests/support/instance.h"
#include "tests/support/must.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define CHANGES 400
#define STAMPS                                                                                               \
    "python3 -uc 'import time, os\nfor k in range(%d):\n  time.sleep(0.02)\n  "                              \
    "os.close(os.open(\"%s/s-%%d\" %% time.monotonic_ns(), os.O_CREAT))'"

static struct instance *the;
static char ws[40], fw[40];

static const char *path_of(const char *rest)
{
    static char path[300];
    snprintf(path, sizeof path, "/api/workspaces/%s/%s", ws, rest);
    return path;
}

static void watch(const char *path)
{
    json_auto_t *started = api(the, 200, "POST", path_of("file-watches"),
                               make_json("{s:s, s:[s]}", "path", path, "event_types", "create"));
    snprintf(fw, sizeof fw, "%s", member_text(started, "watch_id"));
}

static void note(struct samples *samples, const char *name)
{
    const char *stamp = strstr(name, "s-");
    if (stamp)
        samples_add(samples, (now_us() - strtod(stamp + 2, NULL) / 1000) / 1000);
}

static void poll_changes(struct samples *samples)
{
    long long cursor = 0;
    while (samples->count < CHANGES) {
        char rest[200];
        const json_t *event;
        size_t index;
        snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=%lld&wait_seconds=20", fw, cursor);
        struct http_options o = { .unchecked = true };
        struct answer a = http_send(the, "GET", path_of(rest), &o);
        must(a.status == 200, "%ld %.200s", a.status, a.body);
        json_array_foreach(json_object_get(a.json, "events"), index, event)
            note(samples, member_text(event, "path"));
        cursor = member_number(a.json, "next_cursor");
        answer_clear(&a);
    }
}

/* A program that watches for itself. */
static void plain_changes(struct samples *samples)
{
    char folder[] = "/tmp/watch-bench-XXXXXX", command[600], bytes[8192];
    must(mkdtemp(folder) != NULL, "no folder");
    int fd = inotify_init1(IN_CLOEXEC);
    must(inotify_add_watch(fd, folder, IN_CREATE) >= 0, "inotify");
    snprintf(command, sizeof command, STAMPS " &", CHANGES, folder);
    must(system(command) == 0, "python3");
    while (samples->count < CHANGES) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(bytes + at);
            note(samples, event->name);
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    close(fd);
    snprintf(command, sizeof command, "rm -r %s", folder);
    must(system(command) == 0, "rm");
}

static void bench_wake(void)
{
    struct samples told = { 0 }, plain = { 0 };
    char command[600], ex[40];
    json_decref(api(the, 200, "POST", path_of("directories"), make_json("{s:s}", "path", "seen")));
    watch("seen");
    snprintf(command, sizeof command, STAMPS, CHANGES, "seen");
    exec_start_command(the, ws, command, ex);
    poll_changes(&told);
    plain_changes(&plain);
    table_times("a file is made -> long-polling client has it (inotify alone)", &told, &plain, 5);
    samples_free(&told);
    samples_free(&plain);
}

static double make_files(const char *folder)
{
    char command[500];
    struct exec_log log;
    snprintf(command, sizeof command,
             "python3 -c 'import os, time\ns = time.monotonic_ns()\nfor d in range(200):\n"
             "  p = \"%s/%%d\" %% d\n  os.makedirs(p)\n"
             "  for f in range(100): open(\"%%s/%%d\" %% (p, f), \"w\").close()\n"
             "print(time.monotonic_ns() - s)'",
             folder);
    exec_run_command(the, ws, command, &log);
    double ms = strtod(log.out, NULL) / 1e6;
    must(ms > 0, "%s%s", log.out, log.err);
    exec_log_clear(&log);
    return ms;
}

static void bench_storm(void)
{
    struct samples watched = { 0 }, plain = { 0 };
    for (int i = 0; i < 5; i++) {
        char folder[16];
        snprintf(folder, sizeof folder, "p%d", i);
        samples_add(&plain, make_files(folder));
        watch(".");
        folder[0] = 'w';
        samples_add(&watched, make_files(folder));
        char rest[100];
        snprintf(rest, sizeof rest, "file-watches/%s", fw);
        json_decref(api(the, 200, "DELETE", path_of(rest), NULL));
    }
    table_times("a command makes 20,000 files while all is watched (unwatched)", &watched, &plain, 0);
    samples_free(&watched);
    samples_free(&plain);
}

int main(void)
{
    curl_global_init(CURL_GLOBAL_ALL);
    the = instance_start(NULL);
    workspace_create(the, NULL, ws);
    table_begin();
    bench_wake();
    bench_storm();
    int status = table_end();
    instance_stop(the);
    return status;
}
