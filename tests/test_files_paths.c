/* Paths of file calls to a real agent: nothing on disk, however odd or deep or quick to change, leads one out
 * of the workspace or hangs it. */
#include "lib/base/io.h"
#include "tests/support/file_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static const char *const outside_paths[] = {
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a/..",
    "/workspace/../etc/passwd",
    "/workspace-evil/x",
    "/",
    "",
    "out",
    "out-file",
    "dangling-out",
    "up/etc/passwd",
    "abs-dir/passwd",
    "loop",
    "deep/out",
};

START_TEST(no_path_leads_out)
{
    ck_assert_int_eq(mkdirat(folder_fd, "a", 0755), 0);
    ck_assert_int_eq(mkdirat(folder_fd, "deep", 0755), 0);
    ck_assert_int_eq(symlinkat("/etc", folder_fd, "out"), 0);
    ck_assert_int_eq(symlinkat("/etc/passwd", folder_fd, "out-file"), 0);
    ck_assert_int_eq(symlinkat("/tmp/nothing-there", folder_fd, "dangling-out"), 0);
    ck_assert_int_eq(symlinkat("..", folder_fd, "up"), 0);
    ck_assert_int_eq(symlinkat("/etc/", folder_fd, "abs-dir"), 0);
    ck_assert_int_eq(symlinkat("loop", folder_fd, "loop"), 0);
    ck_assert_int_eq(symlinkat("../../../../../../../../etc", folder_fd, "deep/out"), 0);
    static const char *const calls[] = { "read", "write", "list", "mkdir" };
    for (size_t i = 0; i < N_ELEMENTS(outside_paths); i++)
        for (size_t j = 0; j < N_ELEMENTS(calls); j++) {
            json_t *message = file_message(calls[j], "{s:s, s:i, s:b, s:b}", "path", outside_paths[i],
                                           "length", 0, "create_only", 0, "create_parents", 1);
            struct peer_exec *call = file_begin(message);
            peer_input(peer, call, "", 0, true);
            const json_t *error = json_object_get(file_finish(call), "error");
            ck_assert_msg(json_integer_value(json_object_get(error, "code")) == ERROR_INVALID, "%s %s: %s",
                          calls[j], outside_paths[i], ret_text(error, "message"));
            ck_assert_msg(strstr(ret_text(error, "message"), peer->workspace) == NULL,
                          "a path of the host is told");
        }
    file_refused(file_message("read", "{s:s%}", "path", "a\0b", (size_t)3), "NUL");
}
END_TEST

START_TEST(links_inside_are_followed)
{
    ck_assert_int_eq(mkdirat(folder_fd, "a", 0755), 0);
    ck_assert_int_eq(mkdirat(folder_fd, "a/b", 0755), 0);
    folder_put_text("a/file", "content\n");
    ck_assert_int_eq(symlinkat("../../a/file", folder_fd, "a/b/up"), 0);
    ck_assert_int_eq(symlinkat("/workspace/a/b/up", folder_fd, "absolute"), 0);
    ck_assert_int_eq(symlinkat(peer->workspace, folder_fd, "root"), 0);
    ck_assert_int_eq(symlinkat("a/new", folder_fd, "dangling"), 0);
    ck_assert_str_eq(ret_text(file_read_lines("absolute", 0, 1), "content"), "content");
    ck_assert_str_eq(ret_text(file_read_lines("absolute", 0, 1), "path"), "a/file");
    ck_assert_str_eq(ret_text(file_read_lines("root/root/./a//file", 0, 1), "content"), "content");
    file_written("a/b/up", "changed", false);
    folder_expect("a/file", "changed");
    file_written("dangling", "new", true);
    folder_expect("a/new", "new");
    struct stat stat;
    ck_assert_int_eq(fstatat(folder_fd, "dangling", &stat, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert(S_ISLNK(stat.st_mode));
}
END_TEST

/* A folder and a link to the outside take turns at one name while it is read and written through. */
START_TEST(a_swapped_folder_leads_nowhere)
{
    char outside[] = "/tmp/files-outside-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(outside));
    chmod(outside, 0777);
    _cleanup_free_ char *secret = xasprintf("%s/f", outside);
    int fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    ck_assert_int_eq(write(fd, "secret", 6), 6);
    close(fd);
    ck_assert_int_eq(mkdirat(folder_fd, "d", 0777), 0);
    folder_put_text("d/f", "inside");
    ck_assert_int_eq(mkdirat(folder_fd, "d/deep", 0777), 0);
    ck_assert_int_eq(symlinkat("../f", folder_fd, "d/deep/up"), 0);
    ck_assert_int_eq(symlinkat(outside, folder_fd, "l"), 0);
    folder_put_text("x", "inside");
    ck_assert_int_eq(symlinkat(secret, folder_fd, "y"), 0);
    static const char *const paths[] = { "d/f", "d/deep/up", "x" };
    pid_t swapper = fork();
    if (swapper == 0)
        for (;;)
            for (int i = 0; i < 2; i++)
                syscall(SYS_renameat2, folder_fd, i ? "d" : "x", folder_fd, i ? "l" : "y", 2 /* exchange */);
    int good = 0, refusals = 0;
    for (int i = 0; i < 900; i++) {
        const json_t *reply = file_finish(file_begin(file_message("read", "{s:s}", "path", paths[i % 3])));
        const json_t *ret = json_object_get(reply, "ret");
        ck_assert(!ret || !strcmp(ret_text(ret, "content"), "inside"));
        reply = file_write_reply("inside", 6,
                                 file_message("write", "{s:s, s:b}", "path", "d/f", "create_only", 0));
        good += ret != NULL;
        refusals += json_object_get(reply, "error") != NULL;
    }
    kill(swapper, SIGKILL);
    waitpid(swapper, NULL, 0);
    ck_assert_int_gt(good, 0);
    ck_assert_int_gt(refusals, 0);
    _cleanup_buffer_ struct buffer left = BUFFER_INIT;
    ck_assert_int_eq(io_read_file(AT_FDCWD, secret, 100, &left, NULL), 0);
    ck_assert_int_eq(left.length, 6);
    ck_assert_int_eq(left.data[0], 's');
    unlink(secret);
    ck_assert_int_eq(rmdir(outside), 0); /* nothing was put there */
}
END_TEST

START_TEST(special_files_are_refused_and_hang_nobody)
{
    ck_assert_int_eq(mkfifoat(folder_fd, "fifo", 0666), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", peer->workspace);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    ck_assert_int_eq(mkdirat(folder_fd, "folder", 0755), 0);
    bool device = mknodat(folder_fd, "device", S_IFCHR | 0666, 0x103) == 0; /* null: only for root */
    const struct {
        const char *name, *kind;
    } kinds[] = {
        { "fifo", "a FIFO" }, { "socket", "a socket" }, { "folder", "a folder" }, { "device", "a device" }
    };
    for (size_t i = 0; i < (device ? 4 : 3); i++) {
        file_refused(file_message("read", "{s:s}", "path", kinds[i].name), kinds[i].kind);
        ck_assert_ptr_nonnull(strstr(
            file_refusal(file_write_reply("x", 1, file_message("write", "{s:s}", "path", kinds[i].name))),
            kinds[i].kind));
    }
    file_refused(file_message("list", "{s:s}", "path", "fifo"), "a FIFO, not a folder");
    file_refused(file_message("read", "{s:s}", "path", "fifo/x"), "no folder");
}
END_TEST

START_TEST(ten_thousand_levels_are_removed)
{
    int at = fcntl(folder_fd, F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < 10000; i++) {
        ck_assert_int_eq(mkdirat(at, "d", 0777), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(next, 0);
        close(at);
        at = next;
    }
    close(at);
    ck_assert(folder_has("d/d/d"));
    const json_t *ret = file_ask(file_message("list", "{s:s}", "path", "d/d"));
    ck_assert_int_eq(ret_number(ret, "total"), 1);
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    for (int i = 0; i < 2047; i++)
        buffer_append_text(&path, "d/");
    ck_assert_int_eq(ret_number(file_ask(file_message("list", "{s:s}", "path", buffer_text(&path))), "total"),
                     1);
    for (int i = 0; i < 100; i++)
        buffer_append_text(&path, "d/");
    file_refused(file_message("list", "{s:s}", "path", buffer_text(&path)), "at most");
    file_refused(file_message("remove", "{s:s}", "path", "d"), "not empty");
    file_ask(file_message("remove", "{s:s, s:b}", "path", "d", "recursive", 1));
    ck_assert(!folder_has("d"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        no_path_leads_out,
        links_inside_are_followed,
        a_swapped_folder_leads_nowhere,
        special_files_are_refused_and_hang_nobody,
        ten_thousand_levels_are_removed,
    };
    return unit_run_tests("files paths", tests, N_ELEMENTS(tests), files_set_up, files_tear_down, 120);
}
