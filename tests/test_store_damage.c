/* Logs whose files were damaged, by a power cut or by anybody, before they are opened and while they are. */
#include "lib/base/io.h"
#include "tests/support/logs.h"
#include "tests/support/logs_case.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- damaged files ---- */
static char *path_of(const char *name)
{
    return xasprintf("%s/events/%s/%s", scratch, logs_workspace, name);
}

static void leave_marker(const char *boot_id)
{
    _cleanup_free_ char *path = path_of("open");
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, boot_id, strlen(boot_id), 0660, &logs_error), 0);
}

static size_t count_set_aside(void)
{
    glob_t found;
    _cleanup_free_ char *pattern = xasprintf("%s/events/%s.damaged-*", scratch, logs_workspace);
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static void make_logs(struct exec_head heads[static 3])
{
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
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
    ck_assert_ptr_null(events_cache_get(cache, logs_workspace, &logs_error));
    ck_assert_int_eq(logs_error.code, ERROR_UNAVAILABLE);
    events_cache_free(cache);
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
    ck_assert(logs_told("verifying"));
    ck_assert_uint_eq(count_set_aside(), 0);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(logs_read(events_writer_reader(w), heads[i].id, 0, NULL).last, heads[i].last_seq);
    events_writer_close(w);
    _cleanup_free_ char *marker = path_of("open");
    ck_assert_int_eq(access(marker, F_OK), -1);
    cache = events_cache_new(scratch, 2);
    ck_assert_ptr_nonnull(events_cache_get(cache, logs_workspace, &logs_error));
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
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
    size_t wrong = 0;
    for (size_t i = 0; i < 3; i++) {
        struct logs_seen seen = { 0 };
        if (logs_try_read(events_writer_reader(w), heads[i].id, 0, &seen, &head, &logs_error) == 0)
            continue;
        wrong++;
        ck_assert_int_eq(logs_error.code, ERROR_INTERNAL);
        ck_assert_uint_eq(seen.last, 54);
        ck_assert_int_eq(logs_try_read(events_writer_reader(w), heads[i].id, 55, &seen, &head, &logs_error),
                         0);
        ck_assert_uint_eq(seen.last, heads[i].last_seq);
    }
    ck_assert_uint_eq(wrong, 1);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), -1);
    events_writer_close(w);
    ck_assert(logs_told("damaged"));
    leave_marker("01234567-89ab-cdef-0123-456789abcdef");
    w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
    ck_assert_uint_eq(count_set_aside(), 1);
    ck_assert(logs_told("SET ASIDE"));
    logs_add(w, &head);
    logs_write(w, &head, 3, 3);
    events_writer_close(w);
    ck_assert_int_eq(events_discard(scratch, logs_workspace, &logs_error), 0);
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
        id_make(ID_WORKSPACE, logs_workspace);
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
        struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
        size_t now = count_set_aside();
        long count = events_list_execs(events_writer_reader(w), 0, listed, 10, &logs_error);
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
        error_clear(&logs_error);
        if ((r = events_cache_get(cache, logs_workspace, &logs_error)) != NULL &&
            logs_try_read(r, heads[i].id, 0, &seen, &head, &logs_error) == 0)
            ck_assert(!seen.broken);
        else
            ck_assert_int_ne(logs_error.code, ERROR_NONE);
        if ((r = events_cache_get(cache, logs_workspace, NULL)) != NULL)
            events_get_exec_info(r, heads[i].id, &info, NULL);
        json_decref(STEAL(info));
    }
    if ((r = events_cache_get(cache, logs_workspace, NULL)) != NULL)
        events_list_execs(r, 0, listed, 10, NULL);
    if ((r = events_cache_get(cache, logs_workspace, NULL)) != NULL)
        events_verify(r, NULL);
    error_clear(&logs_error);
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
        id_make(ID_WORKSPACE, logs_workspace);
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
        struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
        write_and_read_again(w);
        events_writer_close(w);
        w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB); /* and it was not put aside for nothing */
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
        id_make(ID_WORKSPACE, logs_workspace);
        make_logs(heads);
        pid_t pid = fork();
        if (pid == 0) {
            struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
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
        struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
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
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
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
        id_make(ID_WORKSPACE, logs_workspace);
        make_logs(heads);
        _cleanup_free_ char *path = path_of("data.mdb"), *lock = path_of("lock.mdb"), *folder = path_of("");
        folder[strlen(folder) - 1] = '\0';
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(io_replace_file(AT_FDCWD, target, "", 0, 0600, &logs_error), 0);
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
        struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
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
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, "this is not a store, but long enough to be one", 46,
                                     0660, &logs_error),
                     0);
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 4 * MB);
    ck_assert_uint_eq(count_set_aside(), 1);
    logs_add(w, &heads[0]);
    events_writer_close(w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
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
    Suite *suite = suite_create("store_damage");
    unit_add(suite, "store_damage", tests, N_ELEMENTS(tests), logs_set_up, logs_tear_down, 120, NULL);
    unit_add(suite, "damage", damage, N_ELEMENTS(damage), logs_set_up, logs_tear_down, 120, "faults");
    return unit_run(suite);
}
