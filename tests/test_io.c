/* Files, locks, sockets, hostile trees and the log, on a real file system. */
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { NOBODY = 65534 };

static char directory[64];
static int dir = -1;
static struct error err;

static void make_directory(void)
{
    strcpy(directory, "/tmp/test-io-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir, 0);
}

static void remove_directory(void)
{
    error_clear(&err);
    ck_assert_msg(io_remove_tree(AT_FDCWD, directory, &err) == 0, "%s", err.message);
    ck_assert_int_eq(access(directory, F_OK), -1);
    close(dir);
}

static const char *in_directory(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

START_TEST(file_is_replaced_whole)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    struct stat info;
    ck_assert_int_eq(io_replace_file(dir, "a", "one", 3, 0640, &err), 0);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, in_directory("a"), "second", 6, 0600, &err), 0);
    ck_assert_int_eq(io_read_file(dir, "a", 6, &content, &err), 0);
    ck_assert_str_eq(buffer_text(&content), "second");
    ck_assert_int_eq(io_read_file(dir, "a", 6, &content, &err), 0);
    ck_assert_str_eq(buffer_text(&content), "secondsecond");
    fstatat(dir, "a", &info, 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0600);
    ck_assert_int_eq(io_read_file(dir, "a", 5, &content, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    ck_assert_uint_eq(content.length, 12);
    ck_assert_int_eq(io_replace_file(dir, "missing/a", "x", 1, 0600, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_int_eq(io_replace_file(dir, "a/", "x", 1, 0600, &err), -1);
    mkdirat(dir, "d", 0700);
    ck_assert_int_eq(io_replace_file(dir, "d", "x", 1, 0600, &err), -1);
    ck_assert_int_eq(unlinkat(dir, "d", AT_REMOVEDIR), 0);
    ck_assert_int_eq(unlinkat(dir, "a", 0), 0);
    ck_assert_int_eq(rmdir(directory), 0); /* no temporary file stayed behind */
    ck_assert_int_eq(mkdir(directory, 0700), 0);
}
END_TEST

START_TEST(file_that_is_none_is_refused)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    mkfifoat(dir, "fifo", 0600);
    ck_assert_int_eq(io_read_file(dir, "fifo", 10, &content, &err), -1);
    ck_assert_int_eq(err.code, ERROR_INVALID);
    ck_assert_int_eq(io_read_file(dir, ".", 10, &content, &err), -1);
    ck_assert_int_eq(io_read_file(dir, "missing", 10, &content, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_ptr_null(strstr(err.message, "missing"));
    ck_assert_int_eq(io_read_file(AT_FDCWD, "/proc/self/status", 1 << 16, &content, &err), 0);
    ck_assert_uint_gt(content.length, 100);
}
END_TEST

START_TEST(full_disk_is_told)
{
    _cleanup_close_ int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(io_write_all(full, "x", 1, &err), -1);
    ck_assert_int_eq(err.code, ERROR_FULL);
}
END_TEST

START_TEST(directories_are_made_with_their_parents_owner)
{
    struct stat info;
    if (geteuid() == 0)
        ck_assert_int_eq(fchown(dir, NOBODY, NOBODY), 0);
    mode_t old = umask(0077);
    ck_assert_int_eq(io_ensure_directory(in_directory("a//b/c/"), 0750, &err), 0);
    ck_assert_int_eq(io_ensure_directory(in_directory("a/b/c"), 0700, &err), 0);
    umask(old);
    ck_assert_int_eq(stat(in_directory("a/b/c"), &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0750);
    ck_assert_uint_eq(info.st_uid, geteuid() == 0 ? NOBODY : geteuid());
    ck_assert_int_eq(io_replace_file(dir, "file", "", 0, 0600, &err), 0);
    ck_assert_int_eq(io_ensure_directory(in_directory("file/x"), 0700, &err), -1);
}
END_TEST

START_TEST(lock_has_one_holder)
{
    int first = -1, second = -1;
    ck_assert_int_eq(io_lock_file(in_directory("lock"), &first, &err), 1);
    ck_assert_int_eq(io_lock_file(in_directory("lock"), &second, &err), 0);
    ck_assert_int_eq(second, -1);
    ck_assert(fcntl(first, F_GETFD) & FD_CLOEXEC);
    unlinkat(dir, "lock", 0);
    ck_assert_int_eq(io_lock_file(in_directory("lock"), &second, &err), 1);
    close(first);
    ck_assert_int_eq(io_lock_file(in_directory("lock"), &first, &err), 0);
    close(second);
    ck_assert_int_eq(io_lock_file(in_directory("lock"), &first, &err), 1);
    close(first);
    symlinkat("elsewhere", dir, "link");
    ck_assert_int_eq(io_lock_file(in_directory("link"), &first, &err), -1);
    ck_assert_int_eq(faccessat(dir, "elsewhere", F_OK, 0), -1);
    ck_assert_int_eq(io_lock_file(in_directory("no/lock"), &first, &err), -1);
}
END_TEST

static void expect_socket_works(const char *path)
{
    struct stat info;
    char byte = 0;
    ck_assert_int_eq(io_connect_unix(path, &err), -1);
    ck_assert_int_eq(err.code, ERROR_UNAVAILABLE);
    close(io_listen_unix(path, 0600, 8, &err));
    ck_assert_int_eq(io_connect_unix(path, &err), -1);
    ck_assert_int_eq(err.code, ERROR_UNAVAILABLE);
    _cleanup_close_ int server = io_listen_unix(path, 0660, 8, &err);
    ck_assert_msg(server >= 0, "%s", err.message);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0660);
    _cleanup_close_ int client = io_connect_unix(path, &err);
    ck_assert_msg(client >= 0, "%s", err.message);
    _cleanup_close_ int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(peer, 0);
    ck_assert(fcntl(client, F_GETFL) & O_NONBLOCK);
    ck_assert(fcntl(client, F_GETFD) & FD_CLOEXEC);
    ck_assert_int_eq(write(client, "x", 1), 1);
    ck_assert_int_eq(read(peer, &byte, 1), 1);
    ck_assert(io_peer_is_trusted(peer, directory));
}

START_TEST(sockets_on_short_and_long_paths)
{
    char path[4096];
    size_t length = (size_t)snprintf(path, sizeof(path), "%s", directory);
    expect_socket_works(in_directory("socket"));
    for (int level = 0; level < 20; level++)
        length +=
            (size_t)snprintf(path + length, sizeof(path) - length, "/%s", "a-directory-with-a-long-name");
    ck_assert_int_eq(io_ensure_directory(path, 0700, &err), 0);
    strcpy(path + length, "/socket");
    expect_socket_works(path);
    memset(path + length + 1, 'n', 100);
    path[length + 101] = '\0';
    ck_assert_int_eq(io_listen_unix(path, 0600, 8, &err), -1);
    ck_assert_int_eq(err.code, ERROR_INVALID);
    ck_assert_int_eq(io_connect_unix("/nowhere/at/all", &err), -1);
    ck_assert_int_eq(err.code, ERROR_UNAVAILABLE);
}
END_TEST

/* Where this runs as root, a peer of another user is not trusted unless the directory is its own. */
START_TEST(peers_are_told_apart)
{
    if (geteuid() != 0)
        return;
    _cleanup_close_ int server = io_listen_unix(in_directory("socket"), 0666, 8, &err);
    chmod(directory, 0755);
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(NOBODY) < 0)
            _exit(1);
        _exit(io_connect_unix(in_directory("socket"), NULL) < 0 ? 1 : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    _cleanup_close_ int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    ck_assert(!io_peer_is_trusted(peer, directory));
    ck_assert(!io_peer_is_trusted(0, directory));
    ck_assert_int_eq(fchown(dir, NOBODY, NOBODY), 0);
    ck_assert(io_peer_is_trusted(peer, directory));
}
END_TEST

/* As the user who owns the tree, so that modes count; with few descriptors, so that depth must not cost any.
 */
static void remove_as_owner(const char *name)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit few = { 32, 32 };
        setrlimit(RLIMIT_NOFILE, &few);
        if (geteuid() == 0 && setuid(NOBODY) < 0)
            _exit(2);
        struct error problem = ERROR_INIT;
        int result = io_remove_tree(dir, name, &problem);
        if (result < 0)
            fprintf(stderr, "%s\n", problem.message);
        _exit(result == 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

/* Runs make in a child with the owner's rights and the tree's directory as its own. */
static void build_as_owner(void (*make)(void))
{
    if (geteuid() == 0)
        ck_assert_int_eq(fchown(dir, NOBODY, NOBODY), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if ((geteuid() == 0 && setuid(NOBODY) < 0) || fchdir(dir) < 0)
            _exit(2);
        make();
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static void must(int result)
{
    if (result < 0)
        _exit(3);
}

static void make_deep(void)
{
    must(mkdir("tree", 0700));
    int at = open("tree", O_RDONLY | O_CLOEXEC);
    for (int level = 0; level < 10000; level++) {
        must(mkdirat(at, "d", 0700));
        must(symlinkat("/", at, "root"));
        must(symlinkat("..", at, "up"));
        int next = openat(at, "d", O_RDONLY | O_CLOEXEC);
        must(next);
        must(fchmod(at, level % 3 == 0 ? 0 : level % 3 == 1 ? 0400 : 0100));
        close(at);
        at = next;
    }
}

START_TEST(tree_of_ten_thousand_levels_goes)
{
    build_as_owner(make_deep);
    remove_as_owner("tree");
}
END_TEST

static void make_wide(void)
{
    must(mkdir("tree", 0700));
    must(chdir("tree"));
    for (int at = 0; at < 300; at++) {
        char name[300];
        snprintf(name, sizeof(name), "%d\n\xFF\x01 *%%n", at);
        must(mkdir(name, 0700));
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        must(mkdirat(fd, "same", 0700));
        must(mkdirat(fd, "same/again", 0));
        must(mkfifoat(fd, "fifo", 0));
        memset(name, 'n', 255);
        name[255] = '\0';
        must(mkdirat(fd, name, 0));
        must(fchmod(fd, at % 2 == 0 ? 0 : 0700));
        close(fd);
    }
    must(mkdir(".0000000000000000", 0));
    must(chmod(".", 0));
}

START_TEST(tree_of_odd_names_and_modes_goes)
{
    build_as_owner(make_wide);
    remove_as_owner("tree");
}
END_TEST

static void make_links(void)
{
    must(mkdir("kept", 0700));
    must(mkdir("kept/inside", 0700));
    must(symlink("kept", "link"));
    must(mkdir("tree", 0700));
    must(symlink("../kept", "tree/one"));
    must(symlink("../kept/inside", "tree/two"));
    must(close(open("kept/file", O_WRONLY | O_CREAT, 0600)));
    must(link("kept/file", "tree/hard"));
}

START_TEST(links_are_not_followed)
{
    build_as_owner(make_links);
    remove_as_owner("tree");
    remove_as_owner("link");
    ck_assert_int_eq(faccessat(dir, "kept/inside", F_OK, 0), 0);
    ck_assert_int_eq(faccessat(dir, "kept/file", F_OK, 0), 0);
    ck_assert_int_eq(io_remove_tree(dir, "missing", &err), 0);
    ck_assert_int_eq(io_remove_tree(dir, "missing/too", &err), 0);
}
END_TEST

static void make_foreign(void)
{
    must(mkdir("tree", 0700));
    must(mkdir("tree/a", 0700));
    must(mkdir("tree/a/theirs", 0700));
    must(close(open("tree/a/mine", O_WRONLY | O_CREAT, 0600)));
}

/* What cannot be removed ends in an error, not in a loop. */
START_TEST(what_stays_is_told)
{
    if (geteuid() != 0)
        return;
    build_as_owner(make_foreign);
    _cleanup_close_ int theirs = openat(dir, "tree/a/theirs", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(mkdirat(theirs, "x", 0700), 0);
    ck_assert_int_eq(fchown(theirs, 0, 0), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(setuid(NOBODY) < 0 ? 2 : io_remove_tree(dir, "tree", NULL) < 0 ? 1 : 0);
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(WEXITSTATUS(status), 1);
}
END_TEST

static void read_log(struct buffer *content)
{
    ck_assert_int_eq(io_read_file(dir, "log", 1 << 24, content, &err), 0);
}

START_TEST(log_escapes_and_cuts)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    char *large = xmalloc(20001);
    memset(large, '\x1b', 20000);
    large[20000] = '\0';
    log_init("test", LOG_LEVEL_INFO, in_directory("log"));
    log_debug("unseen");
    log_info("a\nb\x1b[0m \xFF \xC2\x9B \xC3\xA9 %s", "\"x\\");
    log_warning("%s", large);
    memset(large, 'y', 20000);
    log_error("%s", large);
    read_log(&content);
    const char *text = buffer_text(&content);
    ck_assert_ptr_null(strstr(text, "unseen"));
    ck_assert_ptr_nonnull(strstr(text, " INFO test["));
    ck_assert_ptr_nonnull(strstr(text, "] a\\x0Ab\\x1B[0m \\xFF \\xC2\\x9B \xC3\xA9 \"x\\\n"));
    int lines = 0;
    for (const char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, lines++) {
        ck_assert_uint_le((size_t)(end - at) + 1, 8192);
        ck_assert(lines == 0 || strncmp(end - 6, " [cut]", 6) == 0);
    }
    ck_assert_int_eq(lines, 3);
    log_init("test", LOG_LEVEL_INFO, NULL);
    free(large);
}
END_TEST

START_TEST(log_batches_and_a_child_does_not_repeat)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT, later = BUFFER_INIT;
    log_init("test", LOG_LEVEL_INFO, in_directory("log"));
    log_batch(true);
    log_info("first");
    read_log(&content);
    ck_assert_uint_eq(content.length, 0);
    pid_t pid = fork();
    if (pid == 0) {
        log_info("child");
        log_flush();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    log_flush();
    read_log(&later);
    const char *text = buffer_text(&later);
    ck_assert_ptr_nonnull(strstr(text, "child"));
    ck_assert_ptr_nonnull(strstr(text, "first"));
    ck_assert_ptr_null(strstr(strstr(text, "first") + 1, "first"));
    for (int line = 0; line < 2000; line++)
        log_info("%0100d", line);
    read_log(&content);
    ck_assert_uint_gt(content.length, 64 << 10);
    log_batch(false);
    log_init("test", LOG_LEVEL_INFO, NULL);
}
END_TEST

enum { LOG_THREADS = 4, LOG_LINES = 2000 };

static void *log_many(void *number)
{
    for (int line = 0; line < LOG_LINES; line++)
        log_info("thread=%d line=%d %0*d", *(int *)number, line, line % 200, 0);
    return NULL;
}

START_TEST(log_lines_of_threads_stay_whole)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    pthread_t threads[LOG_THREADS];
    int numbers[LOG_THREADS], next[LOG_THREADS] = { 0 };
    log_init("test", LOG_LEVEL_INFO, in_directory("log"));
    log_batch(true);
    for (int at = 0; at < LOG_THREADS; at++) {
        numbers[at] = at;
        ck_assert_int_eq(pthread_create(&threads[at], NULL, log_many, &numbers[at]), 0);
    }
    for (int at = 0; at < LOG_THREADS; at++)
        pthread_join(threads[at], NULL);
    log_batch(false);
    read_log(&content);
    log_init("test", LOG_LEVEL_INFO, NULL);
    for (const char *at = buffer_text(&content), *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        int thread, line;
        const char *found = strstr(at, "thread=");
        ck_assert(found != NULL && found < end);
        ck_assert_int_eq(sscanf(found, "thread=%d line=%d", &thread, &line), 2);
        ck_assert_int_eq(line, next[thread]++);
    }
    for (int at = 0; at < LOG_THREADS; at++)
        ck_assert_int_eq(next[at], LOG_LINES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("io");
    TCase *cases = tcase_create("io");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, make_directory, remove_directory);
    tcase_add_test(cases, file_is_replaced_whole);
    tcase_add_test(cases, file_that_is_none_is_refused);
    tcase_add_test(cases, full_disk_is_told);
    tcase_add_test(cases, directories_are_made_with_their_parents_owner);
    tcase_add_test(cases, lock_has_one_holder);
    tcase_add_test(cases, sockets_on_short_and_long_paths);
    tcase_add_test(cases, peers_are_told_apart);
    tcase_add_test(cases, tree_of_ten_thousand_levels_goes);
    tcase_add_test(cases, tree_of_odd_names_and_modes_goes);
    tcase_add_test(cases, links_are_not_followed);
    tcase_add_test(cases, what_stays_is_told);
    tcase_add_test(cases, log_escapes_and_cuts);
    tcase_add_test(cases, log_batches_and_a_child_does_not_repeat);
    tcase_add_test(cases, log_lines_of_threads_stay_whole);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
