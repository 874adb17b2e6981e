/* Logs when things go wrong: a writer killed in the middle of batches, a full disk, files damaged by a power
 * cut. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/store/state.h"
#include "tests/support/logs.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KB 1024
#define MB (1024 * 1024)

static struct error err;
static char workspace[ID_SIZE];

static void setup(void)
{
    scratch_make();
    id_make(ID_WORKSPACE, workspace);
    _cleanup_free_ char *log = xasprintf("%s/log", scratch);
    log_init("test", LOG_LEVEL_WARNING, log);
}

static void teardown(void)
{
    _cleanup_free_ char *disk = xasprintf("%s/disk", scratch);
    umount2(disk, MNT_DETACH);
    error_clear(&err);
    scratch_remove();
}

static bool log_has(const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/log", scratch);
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    io_read_file(AT_FDCWD, path, 64 * MB, &content, NULL);
    return strstr(buffer_text(&content), text) != NULL;
}

/* ---- killed writers ---- */
struct told {
    char id[ID_SIZE];
    _Atomic uint64_t committed;
};

_Noreturn static void write_for_ever(struct told *told, unsigned seed)
{
    struct exec_head head;
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 3 * MB);
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

        struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 3 * MB);
        struct exec_head head;
        struct logs_seen seen = logs_read(events_writer_reader(w), told->id, 0, &head);
        ck_assert_uint_ge(head.last_seq, committed);
        ck_assert_uint_eq(seen.last, head.last_seq);
        ck_assert_uint_eq(seen.first, head.first_seq);
        ck_assert_int_eq(events_verify(events_writer_reader(w), &err), 0);
        lasts[round] = head.last_seq;
        logs_write(w, &head, 1, 5);
        events_writer_close(w);
    }
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 3 * MB);
    for (size_t i = 0; i < 40; i++)
        ck_assert_uint_eq(logs_read(events_writer_reader(w), ids[i], 0, NULL).last, lasts[i] + 1);
    events_writer_close(w);
    ck_assert(!log_has("SET ASIDE"));
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
    struct flusher flusher = { .writer = logs_open(scratch, workspace, 64 * KB, 4 * MB) };
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
    if (events_begin_end(w, &err) < 0)
        return -1;
    if (events_append(w, &next, &output, &err) < 0 || events_append(w, &next, &end, &err) < 0 ||
        events_put_exec(w, &next, &err) < 0) {
        events_abort(w);
        return -1;
    }
    if (events_commit(w, &err) < 0)
        return -1;
    *head = next;
    return 0;
}

/* As many as were promised, each with as much as was promised, whatever ordinary batches take between. */
static void end_all(struct events_writer *w, struct exec_head *heads, size_t count, struct exec_head *noisy)
{
    for (size_t i = 0; i < count; i++) {
        while (logs_try_write(w, noisy, 3, 700, &err) == 0)
            ck_assert_uint_lt(noisy->last_seq, 10000);
        ck_assert_int_eq(err.code, ERROR_FULL);
        ck_assert_msg(write_end(w, &heads[i], EVENT_DATA_MAX) == 0, "%zu of %zu: %s", i, count, err.message);
        ck_assert_int_eq(events_keep_room(w, count - 1 - i, &err), 0);
    }
}

START_TEST(ends_have_room_on_a_full_disk)
{
    enum { EXECS = 200 };
    static struct exec_head heads[EXECS], noisy, read;
    char disk[128];
    if (!mount_small_disk(disk, sizeof disk, "size=64m"))
        return;
    struct events_writer *w = logs_open(disk, workspace, 64 * KB, 64 * MB);
    logs_add(w, &noisy);
    for (size_t i = 0; i < EXECS; i++) {
        ck_assert_int_eq(events_keep_room(w, i + 1, &err), 0);
        logs_add(w, &heads[i]);
    }
    fill_up(disk);
    while (logs_try_write(w, &noisy, 3, 700, &err) == 0)
        ck_assert_uint_lt(noisy.last_seq, 10000);
    ck_assert_int_eq(events_keep_room(w, EXECS + 50, &err), -1);
    ck_assert_int_eq(err.code, ERROR_FULL);
    ck_assert_int_eq(events_keep_room(w, EXECS, &err), 0);
    end_all(w, heads, EXECS, &noisy);
    drop_ballast(disk);
    logs_write(w, &noisy, 30, 10000);
    for (size_t i = 0; i < EXECS; i++) {
        ck_assert_int_eq(events_get_exec(events_writer_reader(w), heads[i].id, &read, &err), 0);
        ck_assert_uint_eq(read.exit_seq, heads[i].exit_seq);
    }
    ck_assert_uint_eq(logs_read(events_writer_reader(w), noisy.id, 0, NULL).last, noisy.last_seq);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &err), 0);
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
    struct events_writer *w = logs_open(disk, workspace, 64 * KB, 64 * MB);
    logs_add(w, &noisy);
    ck_assert_int_eq(events_keep_room(w, EXECS, &err), 0);
    for (size_t i = 0; i < EXECS; i++)
        logs_add(w, &heads[i]);
    events_writer_drop(w);
    fill_up(disk);
    pid_t pid = fork();
    if (pid == 0) {
        w = logs_open(disk, workspace, 64 * KB, 64 * MB);
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
    struct events_writer *w = logs_open(disk, workspace, 64 * KB, 2 * MB);
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
    _cleanup_free_ char *path = xasprintf("%s/events/%s/data.mdb", disk, workspace);
    ck_assert_int_eq(stat(path, &st), 0);
    return (int64_t)st.st_blocks * 512 - st.st_size;
}

START_TEST(a_closed_log_keeps_no_room)
{
    struct exec_head head;
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 2 * MB);
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
    struct events_writer *w = logs_open(disk, workspace, 64 * KB, 64 * MB);
    logs_add(w, &head);
    while (logs_try_write(w, &head, 30, 10000, &err) == 0)
        ck_assert_uint_lt(head.last_seq, 10000);
    ck_assert_int_eq(err.code, ERROR_FULL);
    ck_assert_uint_gt(head.last_seq, 100);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(logs_try_write(w, &head, 30, 10000, &err), -1);
        ck_assert_int_eq(err.code, ERROR_FULL);
        ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, &more).last, head.last_seq);
        ck_assert_uint_eq(more.last_seq, head.last_seq);
    }
    drop_ballast(disk);
    logs_write(w, &head, 30, 10000);
    logs_add(w, &more);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).last, head.last_seq);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &err), 0);
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
    struct events_writer *w = logs_open(disk, workspace, 64 * KB, 64 * MB);
    logs_add(w, &old);
    for (int i = 0; i < 13; i++)
        logs_write(w, &old, 30, 10000);
    logs_finish(w, &old, 5);
    logs_add(w, &head);
    while (logs_try_write(w, &head, 10, 10000, &err) == 0)
        ck_assert_uint_lt(head.last_seq, 10000);
    ck_assert_int_eq(err.code, ERROR_FULL);
    uint64_t before = head.last_seq;
    for (int more = 1; more == 1; total += removed) {
        more = events_prune(w, 10, &removed, &err);
        ck_assert_msg(more >= 0, "%s", err.message);
    }
    ck_assert_uint_eq(total, 1);
    for (int i = 0; i < 25; i++)
        logs_write(w, &head, 10, 10000);
    ck_assert_uint_eq(head.last_seq, before + 250);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).last, head.last_seq);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &err), 0);
    events_writer_close(w);
}
END_TEST

START_TEST(opening_on_a_full_disk_is_an_error)
{
    char disk[128];
    if (!mount_small_disk(disk, sizeof disk, "size=1m"))
        return;
    for (off_t left = 0; left < 128 * KB; left += 4 * KB) {
        struct events_options options = { disk, workspace, 64 * KB, MB };
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
        events_discard(disk, workspace, &ignored);
        _cleanup_free_ char *trash = xasprintf("%s/events/.trash", disk);
        io_remove_tree(AT_FDCWD, trash, NULL);
    }
    struct events_writer *w = logs_open(disk, workspace, 64 * KB, MB);
    events_writer_close(w);
}
END_TEST

START_TEST(records_on_a_full_disk_stay_as_they_were)
{
    char disk[128];
    if (!mount_small_disk(disk, sizeof disk, "size=4m"))
        return;
    struct state *s = state_open(disk, &err);
    ck_assert_msg(s != NULL, "%s", err.message);
    json_auto_t *record =
        json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "workspace_id", workspace, "owner", "o", "note", "small");
    ck_assert_int_eq(state_create_workspace(s, record, NULL, 0, 0, 0, NULL, &err), 0);
    char *large = xcalloc(1, 5 * MB);
    memset(large, 'x', 5 * MB - 1);
    json_auto_t *changes = json_pack("{s:s}", "note", large), *read = NULL;
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(state_patch_workspace(s, workspace, changes, NULL, &err), -1);
        ck_assert_int_eq(err.code, ERROR_FULL);
    }
    ck_assert_int_eq(state_get_workspace(s, workspace, &read, &err), 0);
    ck_assert_str_eq(json_string_value(json_object_get(read, "note")), "small");
    json_object_set_new(changes, "note", json_string("other"));
    ck_assert_int_eq(state_patch_workspace(s, workspace, changes, NULL, &err), 0);
    free(large);
    state_close(s);
}
END_TEST

/* ---- damaged files ---- */
static char *path_of(const char *name)
{
    return xasprintf("%s/events/%s/%s", scratch, workspace, name);
}

static void leave_marker(const char *boot_id)
{
    _cleanup_free_ char *path = path_of("open");
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, boot_id, strlen(boot_id), 0660, &err), 0);
}

static size_t count_set_aside(void)
{
    glob_t found;
    _cleanup_free_ char *pattern = xasprintf("%s/events/%s.damaged-*", scratch, workspace);
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static void make_logs(struct exec_head heads[static 3])
{
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
    for (size_t i = 0; i < 3; i++)
        logs_add(w, &heads[i]);
    for (size_t i = 0; i < 30; i++)
        logs_write(w, &heads[i % 3], 10, 1 + i * 1009 % EVENT_DATA_MAX);
    events_writer_close(w);
}

START_TEST(sound_logs_survive_another_boot)
{
    struct exec_head heads[3];
    make_logs(heads);
    leave_marker("01234567-89ab-cdef-0123-456789abcdef");
    struct events_cache *cache = events_cache_new(scratch, 2);
    ck_assert_ptr_null(events_cache_get(cache, workspace, &err));
    ck_assert_int_eq(err.code, ERROR_UNAVAILABLE);
    events_cache_free(cache);
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
    ck_assert(log_has("verifying"));
    ck_assert_uint_eq(count_set_aside(), 0);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(logs_read(events_writer_reader(w), heads[i].id, 0, NULL).last, heads[i].last_seq);
    events_writer_close(w);
    _cleanup_free_ char *marker = path_of("open");
    ck_assert_int_eq(access(marker, F_OK), -1);
    cache = events_cache_new(scratch, 2);
    ck_assert_ptr_nonnull(events_cache_get(cache, workspace, &err));
    events_cache_free(cache);
}
END_TEST

/* Where a byte of the file is, by the pattern that an event was filled with. */
static off_t find_bytes(int fd, const char *text)
{
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    char *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    const char *at = memmem(map, (size_t)st.st_size, text, strlen(text));
    ck_assert_ptr_nonnull(at);
    off_t place = at - map;
    munmap(map, (size_t)st.st_size);
    return place;
}

START_TEST(a_wrong_byte_of_an_event_is_an_error)
{
    struct exec_head heads[3], head;
    make_logs(heads);
    _cleanup_free_ char *path = path_of("data.mdb");
    _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t place = find_bytes(fd, "00000000000000000055.00000000000000000055.");
    ck_assert_int_eq(pwrite(fd, "X", 1, place + 30), 1);
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
    size_t wrong = 0;
    for (size_t i = 0; i < 3; i++) {
        struct logs_seen seen = { 0 };
        if (logs_try_read(events_writer_reader(w), heads[i].id, 0, &seen, &head, &err) == 0)
            continue;
        wrong++;
        ck_assert_int_eq(err.code, ERROR_INTERNAL);
        ck_assert_uint_eq(seen.last, 54);
        ck_assert_int_eq(logs_try_read(events_writer_reader(w), heads[i].id, 55, &seen, &head, &err), 0);
        ck_assert_uint_eq(seen.last, heads[i].last_seq);
    }
    ck_assert_uint_eq(wrong, 1);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &err), -1);
    events_writer_close(w);
    ck_assert(log_has("damaged"));
    leave_marker("01234567-89ab-cdef-0123-456789abcdef");
    w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
    ck_assert_uint_eq(count_set_aside(), 1);
    ck_assert(log_has("SET ASIDE"));
    logs_add(w, &head);
    logs_write(w, &head, 3, 3);
    events_writer_close(w);
    ck_assert_int_eq(events_discard(scratch, workspace, &err), 0);
    ck_assert_uint_eq(count_set_aside(), 0);
}
END_TEST

static void damage(int fd, off_t size, unsigned *seed)
{
    char junk[4096];
    off_t pages = size / 4096, page = rand_r(seed) % pages;
    id_random(junk, sizeof junk);
    switch (rand_r(seed) % 5) {
    case 0: /* a page that never reached the disk */
        memset(junk, 0, sizeof junk);
        ck_assert_int_eq(pwrite(fd, junk, 4096, page * 4096), 4096);
        break;
    case 1: /* half of one */
        ck_assert_int_eq(pwrite(fd, junk, 2048, page * 4096 + 2048), 2048);
        break;
    case 2: /* an older page's content */
        ck_assert_int_eq(pread(fd, junk, 4096, rand_r(seed) % pages * 4096), 4096);
        ck_assert_int_eq(pwrite(fd, junk, 4096, page * 4096), 4096);
        break;
    case 3:
        ck_assert_int_eq(pwrite(fd, junk, 3, rand_r(seed) % size), 3);
        break;
    case 4:
        ck_assert_int_eq(ftruncate(fd, page * 4096 + rand_r(seed) % 4096), 0);
        break;
    }
}

/* Whatever a power cut left: the writer comes up, and what it then has can be read to the end. */
START_TEST(damage_of_any_kind_is_set_aside_or_harmless)
{
    size_t aside = 0;
    for (unsigned round = 0; round < 60; round++) {
        struct exec_head heads[3], listed[10];
        unsigned seed = round + 4711;
        struct stat st;
        id_make(ID_WORKSPACE, workspace);
        make_logs(heads);
        {
            _cleanup_free_ char *path = path_of("data.mdb");
            _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
            ck_assert_int_eq(fstat(fd, &st), 0);
            for (unsigned i = 0; i <= round % 3 && st.st_size >= 8192; i++) {
                damage(fd, st.st_size, &seed);
                ck_assert_int_eq(fstat(fd, &st), 0);
            }
        }
        leave_marker(round % 2 ? "another boot" : "");
        struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
        size_t now = count_set_aside();
        long count = events_list_execs(events_writer_reader(w), 0, listed, 10, &err);
        ck_assert_int_eq(count, now ? 0 : 3);
        for (long i = 0; i < count; i++)
            ck_assert_uint_eq(logs_read(events_writer_reader(w), listed[i].id, 0, NULL).last,
                              listed[i].last_seq);
        logs_add(w, &heads[0]);
        logs_write(w, &heads[0], 50, 5000);
        ck_assert_uint_eq(logs_read(events_writer_reader(w), heads[0].id, 0, NULL).count, 50);
        events_writer_close(w);
        aside += now;
    }
    ck_assert_uint_ge(aside, 20);
    printf("%zu of 60 damaged environments were set aside, the others were sound where it counts\n", aside);
}
END_TEST

/* ---- damage under a workspace that was stopped in order, and under those that run ---- */
static void read_everything(struct events_cache *cache, const struct exec_head *heads)
{
    struct exec_head listed[10], head;
    json_auto_t *info = NULL;
    struct events_reader *r;
    for (size_t i = 0; i < 3; i++) {
        struct logs_seen seen = { 0 };
        error_clear(&err);
        if ((r = events_cache_get(cache, workspace, &err)) != NULL &&
            logs_try_read(r, heads[i].id, 0, &seen, &head, &err) == 0)
            ck_assert(!seen.broken);
        else
            ck_assert_int_ne(err.code, ERROR_NONE);
        if ((r = events_cache_get(cache, workspace, NULL)) != NULL)
            events_get_exec_info(r, heads[i].id, &info, NULL);
        json_decref(STEAL(info));
    }
    if ((r = events_cache_get(cache, workspace, NULL)) != NULL)
        events_list_execs(r, 0, listed, 10, NULL);
    if ((r = events_cache_get(cache, workspace, NULL)) != NULL)
        events_verify(r, NULL);
    error_clear(&err);
}

static void write_and_read_again(struct events_writer *w)
{
    struct exec_head head;
    logs_add(w, &head);
    logs_write(w, &head, 50, 5000);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).count, 50);
}

static void flip(int fd, off_t size, unsigned *seed)
{
    for (int i = 0; i < 300; i++) {
        char byte = (char)rand_r(seed);
        ck_assert_int_eq(pwrite(fd, &byte, 1, rand_r(seed) % size), 1);
    }
}

/* A reader that has it open, one that opens it, and the writer that comes after: none of them dies, the
 * writer has a log that works. */
START_TEST(damage_while_stopped_crashes_nobody)
{
    size_t aside = 0;
    enum { ROUNDS = 120 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct exec_head heads[3];
        struct stat st;
        unsigned seed = round + 99;
        id_make(ID_WORKSPACE, workspace);
        make_logs(heads);
        struct events_cache *early = events_cache_new(scratch, 2), *late = events_cache_new(scratch, 2);
        read_everything(early, heads);
        {
            _cleanup_free_ char *path = path_of("data.mdb");
            _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
            ck_assert_int_eq(fstat(fd, &st), 0);
            if (round % 3 == 0)
                ck_assert_int_eq(ftruncate(fd, st.st_size * (long)round / ROUNDS + round % 7), 0);
            else if (round % 3 == 1)
                flip(fd, st.st_size, &seed);
            else
                damage(fd, st.st_size, &seed);
        }
        read_everything(early, heads);
        read_everything(late, heads);
        struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
        write_and_read_again(w);
        events_writer_close(w);
        w = logs_open(scratch, workspace, 64 * KB, 4 * MB); /* and it was not put aside for nothing */
        events_writer_close(w);
        ck_assert_uint_le(count_set_aside(), 1);
        aside += count_set_aside();
        events_cache_free(early);
        events_cache_free(late);
    }
    ck_assert_uint_ge(aside, ROUNDS / 2);
    printf("%zu of %d damaged environments were set aside\n", aside, ROUNDS);
}
END_TEST

/* The writer may die over it, once; whoever comes next starts anew. */
START_TEST(damage_under_a_writer_kills_no_other)
{
    for (unsigned round = 0; round < 30; round++) {
        struct exec_head heads[3];
        struct stat st;
        unsigned seed = round + 7;
        id_make(ID_WORKSPACE, workspace);
        make_logs(heads);
        pid_t pid = fork();
        if (pid == 0) {
            struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
            _cleanup_free_ char *path = path_of("data.mdb");
            _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
            fstat(fd, &st);
            if (round % 2)
                flip(fd, st.st_size, &seed);
            else if (ftruncate(fd, st.st_size / 30 * round) < 0)
                _exit(1);
            for (int i = 0; i < 30; i++)
                logs_try_write(w, &heads[i % 3], 20, 3000, NULL);
            events_writer_close(w);
            _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        struct events_cache *cache = events_cache_new(scratch, 2);
        read_everything(cache, heads);
        events_cache_free(cache);
        struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
        write_and_read_again(w);
        events_writer_close(w);
    }
}
END_TEST

START_TEST(a_damaged_lock_costs_no_log)
{
    struct exec_head heads[3];
    make_logs(heads);
    struct events_cache *cache = events_cache_new(scratch, 2);
    read_everything(cache, heads); /* has the lock file open: the next one does not begin it anew */
    _cleanup_free_ char *path = path_of("lock.mdb");
    _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
    char junk[4096];
    id_random(junk, sizeof junk);
    ck_assert_int_eq(pwrite(fd, junk, 16, 0), 16);
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
    ck_assert_uint_eq(count_set_aside(), 0);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), heads[0].id, 0, NULL).last, heads[0].last_seq);
    write_and_read_again(w);
    events_writer_close(w);
    events_cache_free(cache);
}
END_TEST

/* What is under the name may be anything. */
START_TEST(odd_files_are_set_aside)
{
    struct exec_head heads[3];
    struct stat st;
    _cleanup_free_ char *target = xasprintf("%s/target", scratch);
    for (int kind = 0; kind < 4; kind++) {
        id_make(ID_WORKSPACE, workspace);
        make_logs(heads);
        _cleanup_free_ char *path = path_of("data.mdb"), *lock = path_of("lock.mdb"), *folder = path_of("");
        folder[strlen(folder) - 1] = '\0';
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(io_replace_file(AT_FDCWD, target, "", 0, 0600, &err), 0);
        if (kind == 0)
            ck_assert_int_eq(mkdir(path, 0700), 0);
        else if (kind == 1)
            ck_assert_int_eq(symlink(target, path), 0);
        else if (kind == 2)
            ck_assert_int_eq(mkfifo(path, 0600), 0);
        else
            ck_assert(unlink(lock) == 0 && rmdir(folder) == 0 && mkfifo(folder, 0600) == 0);
        struct events_cache *cache = events_cache_new(scratch, 2);
        read_everything(cache, heads);
        events_cache_free(cache);
        struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
        ck_assert_uint_eq(count_set_aside(), 1);
        write_and_read_again(w);
        events_writer_close(w);
        ck_assert_int_eq(stat(target, &st), 0);
        ck_assert_int_eq(st.st_size, 0); /* not followed */
    }
}
END_TEST

START_TEST(a_file_that_is_no_environment_is_set_aside)
{
    struct exec_head heads[3];
    make_logs(heads);
    _cleanup_free_ char *path = path_of("data.mdb");
    ck_assert_int_eq(
        io_replace_file(AT_FDCWD, path, "this is not a store, but long enough to be one", 46, 0660, &err), 0);
    struct events_writer *w = logs_open(scratch, workspace, 64 * KB, 4 * MB);
    ck_assert_uint_eq(count_set_aside(), 1);
    logs_add(w, &heads[0]);
    events_writer_close(w);
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
        sound_logs_survive_another_boot,
        a_wrong_byte_of_an_event_is_an_error,
        a_damaged_lock_costs_no_log,
        odd_files_are_set_aside,
        a_file_that_is_no_environment_is_set_aside,
    };
    const TTest *const damage[] = {
        damage_of_any_kind_is_set_aside_or_harmless,
        damage_while_stopped_crashes_nobody,
        damage_under_a_writer_kills_no_other,
    };
    Suite *suite = suite_create("store_crash");
    unit_add(suite, "store_crash", tests, N_ELEMENTS(tests), setup, teardown, 120, NULL);
    unit_add(suite, "damage", damage, N_ELEMENTS(damage), setup, teardown, 120, "faults");
    return unit_run(suite);
}
