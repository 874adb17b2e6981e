/* Logs when things go wrong around them: a writer killed in the middle of batches, a full disk. */
#include "lib/base/io.h"
#include "lib/store/state.h"
#include "tests/support/logs.h"
#include "tests/support/logs_case.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- killed writers ---- */
struct told {
    char id[ID_SIZE];
    _Atomic uint64_t committed;
};

_Noreturn static void write_for_ever(struct told *told, unsigned seed)
{
    struct exec_head head;
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 3 * MB);
    logs_add(w, &head);
    memcpy(told->id, head.id, ID_SIZE);
    for (;;) {
        logs_write(w, &head, 1 + (size_t)rand_r(&seed) % 40, 1 + (size_t)rand_r(&seed) % EVENT_DATA_MAX);
        atomic_store(&told->committed, head.last_seq);
    }
}

START_TEST(a_killed_writer_loses_nothing_that_it_committed)
{
    struct told *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char ids[40][ID_SIZE];
    uint64_t lasts[40];
    for (unsigned round = 0; round < 40; round++) {
        int status;
        unsigned seed = round * 77 + 1;
        atomic_store(&told->committed, 0);
        pid_t pid = fork();
        if (pid == 0)
            write_for_ever(told, seed);
        while (atomic_load(&told->committed) == 0)
            usleep(200);
        usleep(rand_r(&seed) % 30000);
        kill(pid, SIGKILL); /* our child, not yet reaped */
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        uint64_t committed = atomic_load(&told->committed);
        memcpy(ids[round], told->id, ID_SIZE);

        struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 3 * MB);
        struct exec_head head;
        struct logs_seen seen = logs_read(events_writer_reader(w), told->id, 0, &head);
        ck_assert_uint_ge(head.last_seq, committed);
        ck_assert_uint_eq(seen.last, head.last_seq);
        ck_assert_uint_eq(seen.first, head.first_seq);
        ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
        lasts[round] = head.last_seq;
        logs_write(w, &head, 1, 5);
        events_writer_close(w);
    }
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 3 * MB);
    for (size_t i = 0; i < 40; i++)
        ck_assert_uint_eq(logs_read(events_writer_reader(w), ids[i], 0, NULL).last, lasts[i] + 1);
    events_writer_close(w);
    ck_assert(!logs_told("SET ASIDE"));
}
END_TEST

/* ---- flushing beside writing ---- */
struct flusher {
    struct events_writer *writer;
    atomic_bool stop;
    atomic_int flushes;
};

static void *flush_again_and_again(void *user)
{
    struct flusher *flusher = user;
    while (!atomic_load(&flusher->stop)) {
        struct error mine = ERROR_INIT;
        if (events_writer_flush(flusher->writer, &mine) < 0)
            return flusher;
        atomic_fetch_add(&flusher->flushes, 1);
    }
    return NULL;
}

START_TEST(another_thread_flushes_while_the_owner_writes)
{
    struct flusher flusher = { .writer = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB) };
    struct exec_head head;
    pthread_t thread;
    void *failed;
    logs_add(flusher.writer, &head);
    ck_assert_int_eq(pthread_create(&thread, NULL, flush_again_and_again, &flusher), 0);
    for (int i = 0; i < 300 || atomic_load(&flusher.flushes) < 3; i++)
        logs_write(flusher.writer, &head, 20, 9000);
    atomic_store(&flusher.stop, true);
    pthread_join(thread, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_uint_eq(logs_read(events_writer_reader(flusher.writer), head.id, 0, NULL).last, head.last_seq);
    events_writer_close(flusher.writer);
}
END_TEST

/* ---- a full disk ---- */
static bool mount_small_disk(char *path, size_t size, const char *options)
{
    snprintf(path, size, "%s/disk", scratch);
    mkdir(path, 0700);
    if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("tmpfs", path, "tmpfs", 0, options) == 0)
        return true;
    printf("SKIPPED: a full disk needs the right to mount\n");
    return false;
}

static void make_ballast(const char *disk, off_t size)
{
    _cleanup_free_ char *path = xasprintf("%s/ballast", disk);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(posix_fallocate(fd, 0, size), 0);
}

static void drop_ballast(const char *disk)
{
    _cleanup_free_ char *path = xasprintf("%s/ballast", disk);
    ck_assert_int_eq(unlink(path), 0);
}

static void fill_up(const char *disk)
{
    static const char block[4096] = { 1 };
    _cleanup_free_ char *path = xasprintf("%s/ballast", disk);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof block) > 0)
        continue;
    ck_assert_int_eq(errno, ENOSPC);
}

static int write_end(struct events_writer *w, struct exec_head *head, size_t size)
{
    static char data[EVENT_DATA_MAX];
    struct event output = { .type = EVENT_STDOUT, .wall_us = 1, .data = data, .length = size },
                 end = { .type = EVENT_EXIT, .wall_us = 2, .data = "\"returncode\":1", .length = 14 };
    struct exec_head next = *head;
    next.state = EXEC_FINISHED;
    next.finished_us = 2;
    if (events_begin_end(w, &logs_error) < 0)
        return -1;
    if (events_append(w, &next, &output, &logs_error) < 0 || events_append(w, &next, &end, &logs_error) < 0 ||
        events_put_exec(w, &next, &logs_error) < 0) {
        events_abort(w);
        return -1;
    }
    if (events_commit(w, &logs_error) < 0)
        return -1;
    *head = next;
    return 0;
}

/* As many as were promised, each with as much as was promised, whatever ordinary batches take between. */
static void end_all(struct events_writer *w, struct exec_head *heads, size_t count, struct exec_head *noisy)
{
    for (size_t i = 0; i < count; i++) {
        while (logs_try_write(w, noisy, 3, 700, &logs_error) == 0)
            ck_assert_uint_lt(noisy->last_seq, 10000);
        ck_assert_int_eq(logs_error.code, ERROR_FULL);
        ck_assert_msg(write_end(w, &heads[i], EVENT_DATA_MAX) == 0, "%zu of %zu: %s", i, count,
                      logs_error.message);
        ck_assert_int_eq(events_keep_room(w, count - 1 - i, &logs_error), 0);
    }
}

START_TEST(ends_have_room_on_a_full_disk)
{
    enum { EXECS = 200 };
    static struct exec_head heads[EXECS], noisy, read;
    char disk[128];
    if (!mount_small_disk(disk, sizeof disk, "size=64m"))
        return;
    struct events_writer *w = logs_open(disk, logs_workspace, 64 * KB, 64 * MB);
    logs_add(w, &noisy);
    for (size_t i = 0; i < EXECS; i++) {
        ck_assert_int_eq(events_keep_room(w, i + 1, &logs_error), 0);
        logs_add(w, &heads[i]);
    }
    fill_up(disk);
    while (logs_try_write(w, &noisy, 3, 700, &logs_error) == 0)
        ck_assert_uint_lt(noisy.last_seq, 10000);
    ck_assert_int_eq(events_keep_room(w, EXECS + 50, &logs_error), -1);
    ck_assert_int_eq(logs_error.code, ERROR_FULL);
    ck_assert_int_eq(events_keep_room(w, EXECS, &logs_error), 0);
    end_all(w, heads, EXECS, &noisy);
    drop_ballast(disk);
    logs_write(w, &noisy, 30, 10000);
    for (size_t i = 0; i < EXECS; i++) {
        ck_assert_int_eq(events_get_exec(events_writer_reader(w), heads[i].id, &read, &logs_error), 0);
        ck_assert_uint_eq(read.exit_seq, heads[i].exit_seq);
    }
    ck_assert_uint_eq(logs_read(events_writer_reader(w), noisy.id, 0, NULL).last, noisy.last_seq);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    events_writer_close(w);
}
END_TEST

/* What a dead writer had kept, the next one has. */
START_TEST(kept_room_outlives_its_writer)
{
    enum { EXECS = 20 };
    static struct exec_head heads[EXECS], noisy;
    char disk[128];
    int status;
    if (!mount_small_disk(disk, sizeof disk, "size=16m"))
        return;
    struct events_writer *w = logs_open(disk, logs_workspace, 64 * KB, 64 * MB);
    logs_add(w, &noisy);
    ck_assert_int_eq(events_keep_room(w, EXECS, &logs_error), 0);
    for (size_t i = 0; i < EXECS; i++)
        logs_add(w, &heads[i]);
    events_writer_drop(w);
    fill_up(disk);
    pid_t pid = fork();
    if (pid == 0) {
        w = logs_open(disk, logs_workspace, 64 * KB, 64 * MB);
        for (size_t i = 0; i < EXECS; i++)
            if (write_end(w, &heads[i], 100) < 0)
                _exit(1 + (int)i);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* A log at its limit needs no more disk: it goes on. */
START_TEST(a_log_at_its_limit_goes_on_on_a_full_disk)
{
    char disk[128];
    static struct exec_head head;
    if (!mount_small_disk(disk, sizeof disk, "size=32m"))
        return;
    struct events_writer *w = logs_open(disk, logs_workspace, 64 * KB, 2 * MB);
    logs_add(w, &head);
    for (int i = 0; i < 100; i++)
        logs_write(w, &head, 10, 10000);
    fill_up(disk);
    for (int i = 0; i < 300; i++)
        logs_write(w, &head, 10, 10000);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).last, head.last_seq);
    events_writer_close(w);
}
END_TEST

static int64_t blocks_of(const char *disk)
{
    struct stat st;
    _cleanup_free_ char *path = xasprintf("%s/events/%s/data.mdb", disk, logs_workspace);
    ck_assert_int_eq(stat(path, &st), 0);
    return (int64_t)st.st_blocks * 512 - st.st_size;
}

START_TEST(a_closed_log_keeps_no_room)
{
    struct exec_head head;
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 2 * MB);
    logs_add(w, &head);
    ck_assert_int_ge(blocks_of(scratch), 128 * KB);
    ck_assert_int_lt(blocks_of(scratch), 320 * KB);
    events_writer_close(w);
    ck_assert_int_lt(blocks_of(scratch), 16 * KB);
}
END_TEST

START_TEST(a_full_disk_costs_the_batch_alone)
{
    char disk[128];
    struct exec_head head, more;
    if (!mount_small_disk(disk, sizeof disk, "size=12m"))
        return;
    make_ballast(disk, 6 * MB);
    struct events_writer *w = logs_open(disk, logs_workspace, 64 * KB, 64 * MB);
    logs_add(w, &head);
    while (logs_try_write(w, &head, 30, 10000, &logs_error) == 0)
        ck_assert_uint_lt(head.last_seq, 10000);
    ck_assert_int_eq(logs_error.code, ERROR_FULL);
    ck_assert_uint_gt(head.last_seq, 100);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(logs_try_write(w, &head, 30, 10000, &logs_error), -1);
        ck_assert_int_eq(logs_error.code, ERROR_FULL);
        ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, &more).last, head.last_seq);
        ck_assert_uint_eq(more.last_seq, head.last_seq);
    }
    drop_ballast(disk);
    logs_write(w, &head, 30, 10000);
    logs_add(w, &more);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).last, head.last_seq);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    events_writer_close(w);
}
END_TEST

/* The file does not shrink, but its pages serve again: an old log's space is enough to go on. */
START_TEST(pruning_makes_room_on_a_full_disk)
{
    char disk[128];
    struct exec_head old, head;
    size_t removed, total = 0;
    if (!mount_small_disk(disk, sizeof disk, "size=8m"))
        return;
    struct events_writer *w = logs_open(disk, logs_workspace, 64 * KB, 64 * MB);
    logs_add(w, &old);
    for (int i = 0; i < 13; i++)
        logs_write(w, &old, 30, 10000);
    logs_finish(w, &old, 5);
    logs_add(w, &head);
    while (logs_try_write(w, &head, 10, 10000, &logs_error) == 0)
        ck_assert_uint_lt(head.last_seq, 10000);
    ck_assert_int_eq(logs_error.code, ERROR_FULL);
    uint64_t before = head.last_seq;
    for (int more = 1; more == 1; total += removed) {
        more = events_prune(w, 10, &removed, &logs_error);
        ck_assert_msg(more >= 0, "%s", logs_error.message);
    }
    ck_assert_uint_eq(total, 1);
    for (int i = 0; i < 25; i++)
        logs_write(w, &head, 10, 10000);
    ck_assert_uint_eq(head.last_seq, before + 250);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).last, head.last_seq);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    events_writer_close(w);
}
END_TEST

START_TEST(opening_on_a_full_disk_is_an_error)
{
    char disk[128];
    if (!mount_small_disk(disk, sizeof disk, "size=1m"))
        return;
    for (off_t left = 0; left < 128 * KB; left += 4 * KB) {
        struct events_options options = { disk, logs_workspace, 64 * KB, MB };
        make_ballast(disk, MB - left);
        struct error problem = ERROR_INIT;
        struct events_writer *w = events_writer_open(&options, &problem);
        if (w) {
            struct exec_head head = { .state = EXEC_STARTING };
            json_auto_t *info = json_object();
            id_make(ID_EXEC, head.id);
            ck_assert_int_eq(events_begin(w, &problem), 0);
            events_add_exec(w, &head, info, NULL, NULL, &problem);
            events_commit(w, &problem);
            events_writer_close(w);
        } else
            ck_assert_msg(problem.code == ERROR_FULL, "%s", problem.message);
        drop_ballast(disk);
        struct error ignored = ERROR_INIT;
        events_discard(disk, logs_workspace, &ignored);
        _cleanup_free_ char *trash = xasprintf("%s/events/.trash", disk);
        io_remove_tree(AT_FDCWD, trash, NULL);
    }
    struct events_writer *w = logs_open(disk, logs_workspace, 64 * KB, MB);
    events_writer_close(w);
}
END_TEST

START_TEST(records_on_a_full_disk_stay_as_they_were)
{
    char disk[128];
    if (!mount_small_disk(disk, sizeof disk, "size=4m"))
        return;
    struct state *s = state_open(disk, &logs_error);
    ck_assert_msg(s != NULL, "%s", logs_error.message);
    json_auto_t *record = json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "workspace_id", logs_workspace, "owner",
                                    "o", "note", "small");
    ck_assert_int_eq(state_create_workspace(s, record, NULL, 0, 0, 0, NULL, &logs_error), 0);
    char *large = xcalloc(1, 5 * MB);
    memset(large, 'x', 5 * MB - 1);
    json_auto_t *changes = json_pack("{s:s}", "note", large), *read = NULL;
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(state_patch_workspace(s, logs_workspace, changes, NULL, &logs_error), -1);
        ck_assert_int_eq(logs_error.code, ERROR_FULL);
    }
    ck_assert_int_eq(state_get_workspace(s, logs_workspace, &read, &logs_error), 0);
    ck_assert_str_eq(json_string_value(json_object_get(read, "note")), "small");
    json_object_set_new(changes, "note", json_string("other"));
    ck_assert_int_eq(state_patch_workspace(s, logs_workspace, changes, NULL, &logs_error), 0);
    free(large);
    state_close(s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_killed_writer_loses_nothing_that_it_committed,
        another_thread_flushes_while_the_owner_writes,
        ends_have_room_on_a_full_disk,
        kept_room_outlives_its_writer,
        a_log_at_its_limit_goes_on_on_a_full_disk,
        a_closed_log_keeps_no_room,
        a_full_disk_costs_the_batch_alone,
        pruning_makes_room_on_a_full_disk,
        opening_on_a_full_disk_is_an_error,
        records_on_a_full_disk_stay_as_they_were,
    };
    return unit_run_tests("store_crash", tests, N_ELEMENTS(tests), logs_set_up, logs_tear_down, 120);
}
