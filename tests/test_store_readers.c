/* Who reads logs while another one writes them: other processes, caches of open environments, other users. */
#include "lib/base/clock.h"
#include "tests/support/logs.h"
#include "tests/support/logs_case.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- readers in other processes ---- */
static int follow(const char *exec_id, uint64_t until)
{
    struct events_cache *cache = events_cache_new(scratch, 4);
    uint64_t cursor = 0;
    int64_t deadline = clock_boottime_ms() + 60000;
    while (cursor < until && clock_boottime_ms() < deadline) {
        struct exec_head head;
        struct logs_seen seen = { .limit = 50 };
        struct events_reader *r = events_cache_get(cache, logs_workspace, &logs_error);
        if (!r || logs_try_read(r, exec_id, cursor, &seen, &head, &logs_error) < 0 || seen.broken) {
            fprintf(stderr, "reader: %s\n", r ? logs_error.message : "no reader");
            return 1;
        }
        if (seen.count > 0 && seen.first != cursor + 1)
            return 2;
        cursor = seen.count > 0 ? seen.last : cursor;
    }
    events_cache_free(cache);
    return cursor == until ? 0 : 3;
}

START_TEST(two_processes_read_while_one_writes)
{
    struct exec_head head;
    struct events_writer *w = logs_open_writer();
    logs_add(w, &head);
    int go[2];
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    pid_t readers[2];
    for (size_t i = 0; i < 2; i++)
        if ((readers[i] = fork()) == 0) {
            char byte;
            /* The child has no use of the writer that it inherited and never touches it. */
            _exit(read(go[0], &byte, 1) == 1 ? follow(head.id, 3000) : 9);
        }
    ck_assert_int_eq(write(go[1], "gg", 2), 2);
    for (int i = 0; i < 300; i++)
        logs_write(w, &head, 10, 1 + (size_t)i * 37 % EVENT_DATA_MAX);
    for (size_t i = 0; i < 2; i++) {
        int status;
        ck_assert_int_eq(waitpid(readers[i], &status, 0), readers[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a reader ended with %x",
                      (unsigned)status);
    }
    events_writer_close(w);
}
END_TEST

/* The writer is another process: one environment is never open twice in one. */
static void write_in_child(size_t count, char id[static ID_SIZE])
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct exec_head head;
        struct events_writer *w = logs_open_writer();
        logs_add(w, &head);
        logs_write(w, &head, count, 100);
        events_writer_close(w);
        _exit(write(ends[1], head.id, ID_SIZE) == ID_SIZE ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(read(ends[0], id, ID_SIZE), ID_SIZE);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(ends[0]);
    close(ends[1]);
}

START_TEST(a_cache_sees_that_logs_were_replaced)
{
    char first[ID_SIZE], second[ID_SIZE];
    struct exec_head head;
    struct events_cache *cache = events_cache_new(scratch, 2);
    ck_assert_ptr_null(events_cache_get(cache, logs_workspace, &logs_error));
    ck_assert_int_eq(logs_error.code, ERROR_NOT_FOUND);
    write_in_child(3, first);
    ck_assert_uint_eq(logs_read(events_cache_get(cache, logs_workspace, &logs_error), first, 0, NULL).count,
                      3);
    ck_assert_int_eq(events_discard(scratch, logs_workspace, &logs_error), 0);
    ck_assert_int_eq(events_discard(scratch, logs_workspace, &logs_error), 0);
    write_in_child(5, second);
    struct events_reader *r = events_cache_get(cache, logs_workspace, &logs_error);
    ck_assert_ptr_nonnull(r);
    ck_assert_uint_eq(logs_read(r, second, 0, NULL).count, 5);
    ck_assert_int_eq(events_get_exec(r, first, &head, &logs_error), -1);
    ck_assert_int_eq(events_discard(scratch, logs_workspace, &logs_error), 0);
    ck_assert_ptr_null(events_cache_get(cache, logs_workspace, &logs_error));
    ck_assert_int_eq(logs_error.code, ERROR_NOT_FOUND);
    events_cache_free(cache);
}
END_TEST

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

START_TEST(a_cache_lets_go_of_what_was_removed)
{
    char id[ID_SIZE];
    struct events_cache *cache = events_cache_new(scratch, 2);
    size_t before = open_descriptors();
    write_in_child(3, id);
    ck_assert_ptr_nonnull(events_cache_get(cache, logs_workspace, &logs_error));
    events_cache_sweep(cache);
    ck_assert_uint_gt(open_descriptors(), before);
    ck_assert_int_eq(events_discard(scratch, logs_workspace, &logs_error), 0);
    usleep(150000);
    events_cache_sweep(cache);
    ck_assert_uint_eq(open_descriptors(), before);
    events_cache_free(cache);
}
END_TEST

START_TEST(a_cache_is_bounded)
{
    char workspaces[5][ID_SIZE], ids[5][ID_SIZE];
    struct events_cache *cache = events_cache_new(scratch, 2);
    for (size_t i = 0; i < 5; i++) {
        id_make(ID_WORKSPACE, logs_workspace);
        memcpy(workspaces[i], logs_workspace, ID_SIZE);
        write_in_child(i + 1, ids[i]);
    }
    for (size_t turn = 0; turn < 25; turn++) {
        size_t i = turn * 3 % 5;
        struct events_reader *r = events_cache_get(cache, workspaces[i], &logs_error);
        ck_assert_ptr_nonnull(r);
        ck_assert_uint_eq(logs_read(r, ids[i], 0, NULL).count, i + 1);
        if (turn % 7 == 0)
            events_cache_drop(cache, workspaces[i]);
    }
    events_cache_free(cache);
}
END_TEST

/* A keeper that is root, workers that are not: the state directory's owner reads what root wrote. */
START_TEST(the_owner_of_the_directory_reads_what_root_wrote)
{
    const struct passwd *user = getpwnam("www-data");
    if (geteuid() != 0 || !user) {
        printf("SKIPPED: writing as root needs root\n");
        return;
    }
    struct exec_head head, read;
    int status;
    ck_assert_int_eq(chown(scratch, user->pw_uid, user->pw_gid), 0);
    umask(077);
    struct events_writer *w = logs_open_writer();
    logs_add(w, &head);
    logs_write(w, &head, 9, 900);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(user->pw_gid) < 0 || setuid(user->pw_uid) < 0)
            _exit(2);
        struct events_cache *cache = events_cache_new(scratch, 2);
        struct events_reader *r = events_cache_get(cache, logs_workspace, &logs_error);
        if (!r)
            fprintf(stderr, "%s\n", logs_error.message);
        bool whole = r && logs_read(r, head.id, 0, &read).count == 9;
        events_cache_free(cache);
        _exit(whole ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    events_writer_close(w);
}
END_TEST

/* A reader process that dies in the middle of a read must not keep pages for ever. */
START_TEST(dead_readers_are_cleared)
{
    struct exec_head head;
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, MB);
    logs_add(w, &head);
    logs_write(w, &head, 10, 100);
    for (int i = 0; i < 400; i++) { /* more than there are slots */
        pid_t pid = fork();
        if (pid == 0) {
            struct events_cache *cache = events_cache_new(scratch, 2);
            struct exec_head read;
            int result = events_get_exec(events_cache_get(cache, logs_workspace, &logs_error), head.id, &read,
                                         &logs_error);
            raise(result == 0 ? SIGKILL : SIGTERM);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "reader %d: %x", i,
                      (unsigned)status);
    }
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).count, 10);
    events_writer_close(w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        two_processes_read_while_one_writes,
        a_cache_sees_that_logs_were_replaced,
        a_cache_lets_go_of_what_was_removed,
        a_cache_is_bounded,
        the_owner_of_the_directory_reads_what_root_wrote,
        dead_readers_are_cleared,
    };
    return unit_run_tests("store_readers", tests, N_ELEMENTS(tests), logs_set_up, logs_tear_down, 120);
}
