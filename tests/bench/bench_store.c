/* How fast an events environment takes output and gives it back, beside the same bytes written to a plain
 * file. Prints a table; judges nothing. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/store/events.h"
#include "lib/store/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define MEGABYTE (1 << 20)

static _Noreturn void die(const struct error *err)
{
    fprintf(stderr, "bench_store: %s\n", err->message);
    exit(1);
}

static void new_exec(struct events_writer *w, struct exec_head *head)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *info = json_object();
    *head = (struct exec_head){ .state = EXEC_RUNNING };
    id_make(ID_EXEC, head->id);
    if (events_begin(w, &err) < 0 || events_add_exec(w, head, info, NULL, NULL, &err) < 0 ||
        events_commit(w, &err) < 0)
        die(&err);
}

static void write_batch(struct events_writer *w, struct exec_head *head, const char *data, size_t size,
                        size_t bytes)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (events_begin(w, &err) < 0)
        die(&err);
    for (size_t done = 0; done < bytes; done += size) {
        struct event event = {
            .type = EVENT_STDOUT, .wall_us = clock_wall_us(), .data = data, .length = size
        };
        if (events_append(w, head, &event, &err) < 0)
            die(&err);
    }
    if (events_put_exec(w, head, &err) < 0 || events_commit(w, &err) < 0)
        die(&err);
}

static void print_rate(const char *what, int64_t bytes, int64_t started_us, struct events_writer *w)
{
    double seconds = (double)(clock_boottime_us() - started_us) / 1e6;
    printf("%-58s %8.0f MB/s   map in use %3.0f %%\n", what, (double)bytes / 1e6 / seconds,
           w ? 100 * events_fill(w) : 0);
}

static void capture(struct events_writer *w, const char *what, size_t size, size_t batch, int64_t total)
{
    char data[EVENT_DATA_MAX];
    struct exec_head head;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)('a' + i * 7 % 26);
    new_exec(w, &head);
    int64_t started = clock_boottime_us(), done = 0;
    for (; done < total; done += (int64_t)batch)
        write_batch(w, &head, data, size, batch);
    print_rate(what, done, started, w);
}

/* Several loud commands at once, with batches of odd sizes: does the free list stay in order? */
static void capture_interleaved(struct events_writer *w, int64_t total)
{
    char data[EVENT_DATA_MAX];
    struct exec_head heads[4];
    memset(data, 'i', sizeof data);
    for (size_t i = 0; i < 4; i++)
        new_exec(w, &heads[i]);
    int64_t started = clock_boottime_us(), done = 0, batch;
    for (int64_t turn = 0; done < total; turn++, done += batch) {
        batch = 3000 + turn * 7919 % (MEGABYTE / 2);
        write_batch(w, &heads[turn % 4], data, (size_t)(1000 + turn * 3571 % (EVENT_DATA_MAX - 1000)),
                    (size_t)batch);
    }
    print_rate("capture 2 GB of four commands in turn, mixed sizes", done, started, w);
}

static bool count(void *user, const struct event *event)
{
    *(int64_t *)user += (int64_t)event->length;
    return true;
}

static void read_back(struct events_writer *w)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    char data[EVENT_DATA_MAX];
    struct exec_head head;
    int64_t bytes = 0;
    memset(data, 'x', sizeof data);
    new_exec(w, &head);
    for (int i = 0; i < 60; i++)
        write_batch(w, &head, data, sizeof data, MEGABYTE);
    int64_t started = clock_boottime_us();
    for (int i = 0; i < 10; i++)
        if (events_read(events_writer_reader(w), head.id, 0, &head, count, &bytes, &err) < 0)
            die(&err);
    print_rate("read and check 60 MB, ten times", bytes, started, NULL);
    started = clock_boottime_us();
    int64_t reads = 200000, ignored = 0;
    for (int64_t i = 0; i < reads; i++)
        if (events_read(events_writer_reader(w), head.id, head.last_seq, &head, count, &ignored, &err) < 0)
            die(&err);
    printf("%-58s %8.2f us\n", "read at the end of the log (nothing new)",
           (double)(clock_boottime_us() - started) / (double)reads);
}

static void small_commits(struct events_writer *w)
{
    struct exec_head head;
    new_exec(w, &head);
    int64_t started = clock_boottime_us(), commits = 20000;
    for (int64_t i = 0; i < commits; i++)
        write_batch(w, &head, "hello, world\n", 13, 13);
    printf("%-58s %8.2f us\n", "commit of one small event",
           (double)(clock_boottime_us() - started) / (double)commits);
}

static void plain_file(const char *directory)
{
    _cleanup_free_ char *path = xasprintf("%s/plain", directory), *data = xcalloc(1, MEGABYTE);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    _cleanup_error_ struct error err = ERROR_INIT;
    int64_t started = clock_boottime_us();
    for (int i = 0; i < 500; i++)
        if (io_write_all(fd, data, MEGABYTE, &err) < 0)
            die(&err);
    print_rate("write(2) of 500 MB to a plain file", INT64_C(500) * MEGABYTE, started, NULL);
}

static void state_costs(const char *directory)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct state *s = state_open(directory, &err);
    char id[ID_SIZE];
    if (!s)
        die(&err);
    id_make(ID_WORKSPACE, id);
    json_auto_t *record = json_pack("{s:i, s:s, s:s, s:s, s:{s:s}}", "v", 1, "workspace_id", id, "owner",
                                    "owner", "state", "running", "spec", "name", "bench");
    if (state_create_workspace(s, record, NULL, 0, 0, 0, NULL, &err) < 0)
        die(&err);
    int64_t started = clock_boottime_us();
    for (int i = 0; i < 2000; i++)
        if (state_update_workspace(s, record, &err) < 0)
            die(&err);
    printf("%-58s %8.1f us\n", "durable update of a workspace's record",
           (double)(clock_boottime_us() - started) / 2000);
    started = clock_boottime_us();
    for (int i = 0; i < 200000; i++) {
        json_auto_t *copy = NULL;
        if (state_get_workspace(s, id, &copy, &err) < 0)
            die(&err);
    }
    printf("%-58s %8.2f us\n", "read of a workspace's record",
           (double)(clock_boottime_us() - started) / 200000);
    state_close(s);
}

int main(void)
{
    char directory[] = "/tmp/bench-store-XXXXXX";
    char id[ID_SIZE];
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!mkdtemp(directory))
        return 1;
    id_make(ID_WORKSPACE, id);
    plain_file(directory);
    struct events_options options = { directory, id, INT64_C(256) << 20, INT64_C(64) << 20 };
    struct events_writer *w = events_writer_open(&options, &err);
    if (!w)
        die(&err);
    capture(w, "capture 500 MB, 16 KB events, 256 KB a commit, 64 MB kept", EVENT_DATA_MAX, MEGABYTE / 4,
            INT64_C(500) * MEGABYTE);
    capture(w, "the same, 1 MB a commit", EVENT_DATA_MAX, MEGABYTE, INT64_C(500) * MEGABYTE);
    capture(w, "the same, 16 KB a commit", EVENT_DATA_MAX, EVENT_DATA_MAX, INT64_C(500) * MEGABYTE);
    capture(w, "capture 200 MB, 4000 B events, 256 KB a commit", 4000, MEGABYTE / 4, INT64_C(200) * MEGABYTE);
    capture(w, "capture 50 MB, 100 B events, 256 KB a commit", 100, MEGABYTE / 4, INT64_C(50) * MEGABYTE);
    capture_interleaved(w, INT64_C(2000) * MEGABYTE);
    read_back(w);
    small_commits(w);
    events_writer_close(w);
    state_costs(directory);
    return io_remove_tree(AT_FDCWD, directory, &err) < 0;
}
