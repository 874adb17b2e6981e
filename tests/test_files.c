/* File calls of a real agent, as the keeper's end of the channel sees them: what is read and written, what is
 * refused, and that nothing on disk, however odd, leads out of the workspace, hangs a call or leaves a
 * temporary file behind. */
#include "lib/base/io.h"
#include "lib/base/sha256.h"
#include "tests/support/file_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { LOOK = 8192 }; /* what decides whether a file is text */

/* ---- calls ---- */

static const json_t *read_lines(const char *path, int offset, int limit)
{
    return file_ask(file_message("read", "{s:s, s:i, s:i}", "path", path, "offset", offset, "limit", limit));
}

static const json_t *write_reply(const char *content, size_t length, json_t *message)
{
    json_object_set_new(message, "length", json_integer((json_int_t)length));
    struct peer_exec *call = file_begin(message);
    peer_input(peer, call, content, length, true);
    return file_finish(call);
}

static const json_t *written(const char *path, const char *content, bool create_only)
{
    const json_t *reply =
        write_reply(content, strlen(content),
                    file_message("write", "{s:s, s:b}", "path", path, "create_only", create_only));
    const json_t *ret = json_object_get(reply, "ret");
    ck_assert_msg(ret != NULL, "%s", file_refusal(reply));
    return ret;
}

/* ---- the disk ---- */

/* No temporary file in the folder. */
static size_t entries_in(const char *name)
{
    size_t count = 0;
    DIR *folder = fdopendir(openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}

/* ---- reading ---- */

START_TEST(reads_lines_and_tells_what_is_left)
{
    _cleanup_buffer_ struct buffer lines = BUFFER_INIT;
    for (int i = 1; i <= 250; i++)
        buffer_printf(&lines, "line %d\n", i);
    folder_put("f", lines.data, lines.length);
    const json_t *ret = read_lines("f", 0, 100);
    ck_assert_int_eq(ret_number(ret, "total_lines"), 250);
    ck_assert_int_eq(ret_number(ret, "lines"), 100);
    ck_assert_int_eq(ret_number(ret, "next_offset"), 100);
    ck_assert(!strncmp(ret_text(ret, "content"), "line 1\nline 2\n", 14));
    ck_assert_str_eq(strrchr(ret_text(ret, "content"), '\n'), "\nline 100");
    ret = read_lines("/workspace/f", 248, 100);
    ck_assert_str_eq(ret_text(ret, "content"), "line 249\nline 250");
    ck_assert(json_is_null(json_object_get(ret, "next_offset")));
    ck_assert_str_eq(ret_text(read_lines("f", -2, 100), "content"), "line 249\nline 250");
    ck_assert_int_eq(ret_number(read_lines("f", -1000, 1), "offset"), 0);
    ck_assert_str_eq(ret_text(read_lines("f", 250, 100), "content"), "");
    ck_assert_int_eq(ret_number(read_lines("f", 0, 0), "lines"), 250);
    ret = file_ask(file_message("read", "{s:s, s:i, s:i, s:b}", "path", "f", "offset", 9, "limit", 2,
                                "line_numbers", 1));
    ck_assert_str_eq(ret_text(ret, "content"), "    10\tline 10\n    11\tline 11");
}
END_TEST

START_TEST(the_hash_is_that_of_the_content)
{
    folder_put_text("abc", "abc");
    ck_assert_str_eq(ret_text(read_lines("abc", 0, 1), "hash"),
                     "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    folder_put_text("empty", "");
    const json_t *ret = read_lines("empty", 0, 100);
    ck_assert_str_eq(ret_text(ret, "hash"),
                     "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ck_assert_str_eq(ret_text(ret, "content"), "");
    ck_assert_int_eq(ret_number(ret, "total_lines"), 0);
}
END_TEST

START_TEST(line_ends_and_marks_are_left_as_they_are)
{
    folder_put_text("crlf", "a\r\nb\r\nc");
    const json_t *ret = read_lines("crlf", 0, 2);
    ck_assert_str_eq(ret_text(ret, "content"), "a\r\nb\r");
    ck_assert_int_eq(ret_number(ret, "total_lines"), 3);
    folder_put_text("bom", "\xef\xbb\xbfhello\n");
    ret = read_lines("bom", 0, 1);
    ck_assert_str_eq(ret_text(ret, "content"), "hello");
    ck_assert(ret_flag(ret, "bom"));
    folder_put("odd",
               "a\fb\vc\xc2\x85"
               "d\xe2\x80\xa8"
               "e\n",
               13);
    ck_assert_int_eq(ret_number(read_lines("odd", 0, 9), "total_lines"), 1);
}
END_TEST

START_TEST(what_is_no_text_is_named)
{
    folder_put("bin", "a\0b", 3);
    file_refused(file_message("read", "{s:s}", "path", "bin"), "binary data (3 bytes)");
    folder_put("utf16",
               "\xff\xfe"
               "a\0",
               4);
    file_refused(file_message("read", "{s:s}", "path", "utf16"), "UTF-16 text");
    folder_put("latin", "caf\xe9\nok\n", 8);
    const json_t *ret = read_lines("latin", 0, 9);
    ck_assert(!ret_flag(ret, "utf8"));
    ck_assert_str_eq(ret_text(ret, "content"), "caf\xef\xbf\xbd\nok");
    ck_assert_str_eq(ret_text(ret, "content_base64"), "Y2Fm6Qpvaw==");
    folder_put("png", "\x89PNG\r\n\x1a\n....", 12);
    ret = read_lines("png", 0, 100);
    ck_assert_str_eq(ret_text(ret, "media_type"), "image/png");
    ck_assert_str_eq(ret_text(ret, "data_base64"), "iVBORw0KGgouLi4u");
    file_refused(file_message("read", "{s:s, s:i}", "path", "png", "max_size", 11), "MAX_READ_SIZE_BYTES");
}
END_TEST

START_TEST(a_page_holds_its_bound)
{
    _cleanup_buffer_ struct buffer lines = BUFFER_INIT;
    for (int i = 0; i < 5000; i++)
        buffer_append_text(&lines, "\"quoted\" and \xe2\x82\xac 0123456789 0123456789 0123456789\n");
    folder_put("f", lines.data, lines.length);
    for (int twice = 0; twice < 2; twice++) {
        const json_t *ret = file_ask(file_message("read", "{s:s, s:i, s:i, s:b}", "path", "f", "limit", 0,
                                                  "max_bytes", 20000, "twice", twice));
        _cleanup_free_ char *encoded = json_dumps(json_object_get(ret, "content"), JSON_ENCODE_ANY);
        size_t most = twice ? 10000 : 20000;
        ck_assert_uint_le(strlen(encoded), most + 2);
        ck_assert_uint_ge(strlen(encoded), most - 100);
        ck_assert_int_eq(ret_number(ret, "next_offset"), ret_number(ret, "lines"));
    }
    lines.length = 0;
    for (int i = 0; i < 300000; i++)
        buffer_append_text(&lines, "\xe2\x82\xac");
    folder_put("one", lines.data, lines.length);
    const json_t *ret = file_ask(file_message("read", "{s:s, s:i}", "path", "one", "max_bytes", 20000));
    ck_assert(ret_flag(ret, "line_cut") && ret_flag(ret, "utf8"));
    ck_assert_uint_ge(strlen(ret_text(ret, "content")), 15000);
    ck_assert_uint_le(strlen(ret_text(ret, "content")), 20000);
}
END_TEST

START_TEST(a_file_of_three_gigabytes_is_read_by_offset)
{
    int fd = openat(folder_fd, "big", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    _cleanup_free_ char *spaces = xmalloc(LOOK);
    memset(spaces, ' ', LOOK);
    ck_assert_int_eq(pwrite(fd, spaces, LOOK, 0), LOOK);
    ck_assert_int_eq(pwrite(fd, "\nlast\n", 6, 3LL << 30), 6);
    close(fd);
    const json_t *ret = read_lines("big", 1, 10);
    ck_assert_str_eq(ret_text(ret, "content"), "last");
    ck_assert_int_eq(ret_number(ret, "size"), (3LL << 30) + 6);
    file_refused(file_message("read", "{s:s, s:i}", "path", "big", "limit", 0), "MAX_READ_SIZE_BYTES");
}
END_TEST

/* ---- paths ---- */

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
    ck_assert_str_eq(ret_text(read_lines("absolute", 0, 1), "content"), "content");
    ck_assert_str_eq(ret_text(read_lines("absolute", 0, 1), "path"), "a/file");
    ck_assert_str_eq(ret_text(read_lines("root/root/./a//file", 0, 1), "content"), "content");
    written("a/b/up", "changed", false);
    folder_expect("a/file", "changed");
    written("dangling", "new", true);
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
        reply =
            write_reply("inside", 6, file_message("write", "{s:s, s:b}", "path", "d/f", "create_only", 0));
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
        ck_assert_ptr_nonnull(
            strstr(file_refusal(write_reply("x", 1, file_message("write", "{s:s}", "path", kinds[i].name))),
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

/* ---- writing ---- */

START_TEST(writes_whole_or_not_at_all)
{
    const json_t *ret = written("new/er/file", "hello\n", true);
    ck_assert(ret_flag(ret, "created"));
    ck_assert_str_eq(ret_text(ret, "path"), "new/er/file");
    ck_assert_int_eq(ret_number(ret, "size"), 6);
    folder_expect("new/er/file", "hello\n");
    ck_assert_str_eq(ret_text(read_lines("new/er/file", 0, 1), "hash"), ret_text(ret, "hash"));
    const json_t *reply =
        write_reply("x", 1, file_message("write", "{s:s, s:b}", "path", "new/er/file", "create_only", 1));
    ck_assert_ptr_nonnull(strstr(file_refusal(reply), "exists already"));
    folder_expect("new/er/file", "hello\n");
    ck_assert_int_eq(fchmodat(folder_fd, "new/er/file", 0751, 0), 0);
    ck_assert(!ret_flag(written("new/er/file", "", false), "created"));
    folder_expect("new/er/file", "");
    struct stat stat;
    ck_assert_int_eq(fstatat(folder_fd, "new/er/file", &stat, 0), 0);
    ck_assert_int_eq(stat.st_mode & 07777, 0751);
    ck_assert_uint_eq(entries_in("new/er"), 1);
    ck_assert_int_eq(linkat(folder_fd, "new/er/file", folder_fd, "other", 0), 0);
    ck_assert(ret_flag(written("other", "1", false), "hard_link_broken"));
}
END_TEST

static void not_written(const char *call, const char *path, const char *says)
{
    const char *said = file_refusal(write_reply("x", 1, file_message(call, "{s:s}", "path", path)));
    ck_assert_msg(strstr(said, says) != NULL, "%s", said);
}

/* A slash at the end is said of folders. */
START_TEST(a_file_has_no_slash_at_its_end)
{
    written("f", "x", true);
    for (int i = 0; i < 2; i++) {
        const char *call = i ? "upload" : "write";
        not_written(call, "trail/", "ends with a slash");
        not_written(call, "/workspace/new/trail//", "ends with a slash");
        not_written(call, "base64:dHJhaWwv", "ends with a slash"); /* trail/ */
        not_written(call, "f/", "no folder");
    }
    ck_assert(!folder_has("trail") && !folder_has("new"));
    folder_expect("f", "x");
    file_refused(file_message("read", "{s:s}", "path", "f/"), "no folder");
    file_refused(file_message("edit", "{s:s, s:[{s:s, s:s}]}", "path", "f/", "edits", "old", "x", "new", "y"),
                 "no folder");
    file_refused(file_message("remove", "{s:s}", "path", "f/"), "no folder");
    file_refused(file_message("move", "{s:s, s:s}", "source", "f", "destination", "g/"), "ends with a slash");
    ck_assert(folder_has("f") && !folder_has("g"));
    file_ask(file_message("mkdir", "{s:s}", "path", "d/"));
    file_ask(file_message("move", "{s:s, s:s}", "source", "d/", "destination", "e/"));
    file_ask(file_message("list", "{s:s}", "path", "e/"));
    file_ask(file_message("remove", "{s:s}", "path", "e/"));
    ck_assert(!folder_has("e"));
}
END_TEST

START_TEST(content_that_is_cut_is_not_written)
{
    folder_put_text("f", "before");
    json_t *message = file_message("write", "{s:s, s:b, s:i}", "path", "f", "create_only", 0, "length", 100);
    struct peer_exec *call = file_begin(message);
    peer_input(peer, call, "half", 4, true);
    ck_assert_ptr_nonnull(strstr(file_refusal(file_finish(call)), "did not come whole"));
    call = file_begin(file_message("write", "{s:s, s:b, s:i}", "path", "f", "create_only", 0, "length", 100));
    peer_input(peer, call, "half", 4, false);
    channel_send(peer->channel, FRAME_CLOSE, 0, call->number, NULL, 0);
    ck_assert(peer_until(peer, call->closed, 5000));
    ck_assert(!call->replied);
    folder_expect("f", "before");
    ck_assert_uint_eq(entries_in("."), 1);
    _cleanup_free_ char *large = xcalloc(1, 2000);
    const json_t *reply =
        write_reply(large, 2000, file_message("write", "{s:s, s:i}", "path", "g", "max_size", 1999));
    ck_assert_ptr_nonnull(strstr(file_refusal(reply), "more than 1999 bytes"));
    ck_assert(!folder_has("g"));
}
END_TEST

START_TEST(a_stale_hash_is_a_conflict)
{
    char hash[SHA256_TEXT_SIZE];
    snprintf(hash, sizeof hash, "%s", ret_text(written("f", "one", true), "hash"));
    folder_put_text("f", "two");
    const json_t *reply =
        write_reply("three", 5, file_message("write", "{s:s, s:s}", "path", "f", "if_match", hash));
    const json_t *error = json_object_get(reply, "error");
    ck_assert_int_eq(ret_number(error, "code"), ERROR_CONFLICT);
    const char *present = ret_text(read_lines("f", 0, 1), "hash");
    ck_assert_ptr_nonnull(strstr(file_refusal(reply), present));
    folder_expect("f", "two");
    reply = write_reply("three", 5, file_message("write", "{s:s, s:s}", "path", "f", "if_match", present));
    ck_assert_ptr_nonnull(json_object_get(reply, "ret"));
    reply = write_reply("x", 1, file_message("write", "{s:s, s:s}", "path", "none/f", "if_match", hash));
    ck_assert_int_eq(ret_number(json_object_get(reply, "error"), "code"), ERROR_CONFLICT);
    ck_assert(!folder_has("none"));
}
END_TEST

/* Ten writers of one new name: one makes it. */
START_TEST(only_one_creates)
{
    struct peer_exec *calls[10];
    int made = 0;
    for (int i = 0; i < 10; i++) {
        calls[i] =
            file_begin(file_message("write", "{s:s, s:b, s:i}", "path", "f", "create_only", 1, "length", 1));
        char digit = (char)('0' + i);
        peer_input(peer, calls[i], &digit, 1, true);
    }
    for (int i = 0; i < 10; i++)
        made += json_object_get(file_finish(calls[i]), "ret") != NULL;
    ck_assert_int_eq(made, 1);
    ck_assert_uint_eq(entries_in("."), 1);
}
END_TEST

START_TEST(a_full_disk_changes_nothing)
{
    ck_assert_int_eq(mkdirat(folder_fd, "full", 0755), 0);
    _cleanup_free_ char *target = xasprintf("%s/full", peer->workspace);
    if (mount("none", target, "tmpfs", 0, "size=64k") < 0)
        return; /* only root can */
    folder_put_text("full/f", "before");
    size_t length = 200 << 10;
    _cleanup_free_ char *large = xcalloc(1, length);
    const json_t *reply =
        write_reply(large, length, file_message("write", "{s:s, s:b}", "path", "full/f", "create_only", 0));
    ck_assert_int_eq(ret_number(json_object_get(reply, "error"), "code"), ERROR_FULL);
    folder_expect("full/f", "before");
    ck_assert_uint_eq(entries_in("full"), 1);
    ck_assert_int_eq(umount2(target, MNT_DETACH), 0);
}
END_TEST

/* ---- editing ---- */

static json_t *edit(const char *path, const char *old, const char *new)
{
    return file_message("edit", "{s:s, s:[{s:s, s:s}], s:b}", "path", path, "edits", "old", old, "new", new,
                        "validate", 1);
}

START_TEST(an_edit_changes_what_it_names_and_nothing_else)
{
    folder_put("f",
               "\xef\xbb\xbf"
               "one\r\n\xff two\r\nthree",
               20);
    ck_assert_int_eq(fchmodat(folder_fd, "f", 0700, 0), 0);
    ck_assert_int_eq(symlinkat("f", folder_fd, "link"), 0);
    const json_t *ret = file_ask(edit("link", "one", "1\n2"));
    ck_assert_int_eq(ret_number(ret, "exact"), 1);
    ck_assert_str_eq(ret_text(ret, "path"), "f");
    folder_expect("f", "\xef\xbb\xbf"
                       "1\r\n2\r\n\xff two\r\nthree");
    ck_assert_str_eq(ret_text(ret, "hash"), ret_text(read_lines("f", 0, 1), "hash"));
    ck_assert_ptr_nonnull(strstr(ret_text(ret, "diff"), "+++ b/f\n"));
    struct stat stat;
    ck_assert_int_eq(fstatat(folder_fd, "f", &stat, 0), 0);
    ck_assert_int_eq(stat.st_mode & 07777, 0700);
    json_t *message = edit("f", "three", "3");
    json_object_set_new(message, "dry_run", json_true());
    ck_assert(ret_flag(file_ask(message), "changed"));
    file_refused(edit("f", "four", "4"), "not found");
    message = edit("f", "three", "3");
    json_object_set_new(message, "if_match", json_string("sha256:0"));
    file_refused(message, "its hash is now sha256:");
    folder_expect("f", "\xef\xbb\xbf"
                       "1\r\n2\r\n\xff two\r\nthree");
    folder_put("bin", "a\0b", 3);
    file_refused(edit("bin", "a", "b"), "binary data");
    file_refused(edit("none", "a", "b"), "does not exist");
    file_refused(edit("../f", "a", "b"), "'..' is not taken");
    ck_assert_uint_eq(entries_in("."), 3);
}
END_TEST

START_TEST(broken_syntax_is_not_written)
{
    static const struct {
        const char *name, *good, *bad, *says;
    } rows[] = {
        { "a.json", "{\"a\": 1}", "{\"a\": }", "line 1" },
        { "a.yaml", "a: 1\n---\nb: !t 2\n", "a: [1\n", "YAML" },
        { "a.py", "def f():\n    return 1\n", "def f(:\n", "line 1" },
        { "a.toml", "a = 1\n", "a = \n", "TOML" },
    };
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        const json_t *reply =
            write_reply(rows[i].bad, strlen(rows[i].bad),
                        file_message("write", "{s:s, s:b}", "path", rows[i].name, "validate", 1));
        ck_assert_msg(strstr(file_refusal(reply), rows[i].says) != NULL, "%s: %s", rows[i].name,
                      file_refusal(reply));
        ck_assert_ptr_nonnull(strstr(file_refusal(reply), "NOT written"));
        ck_assert(!folder_has(rows[i].name));
        reply = write_reply(rows[i].good, strlen(rows[i].good),
                            file_message("write", "{s:s, s:b}", "path", rows[i].name, "validate", 1));
        const json_t *ret = json_object_get(reply, "ret");
        ck_assert_msg(ret && !strcmp(ret_text(ret, "validated"), "true"), "%s: %s %s", rows[i].name,
                      ret ? ret_text(ret, "validated") : file_refusal(reply),
                      ret ? ret_text(ret, "validation") : "");
        file_refused(edit(rows[i].name, rows[i].good, rows[i].bad), rows[i].says);
        folder_expect(rows[i].name, rows[i].good);
        reply = write_reply(rows[i].bad, strlen(rows[i].bad),
                            file_message("write", "{s:s}", "path", rows[i].name));
        ck_assert_str_eq(ret_text(json_object_get(reply, "ret"), "validated"), "false");
        const json_t *again = file_ask(edit(rows[i].name, rows[i].bad, rows[i].bad)); /* nothing changes */
        ck_assert(!ret_flag(again, "changed"));
    }
}
END_TEST

/* ---- bytes ---- */

START_TEST(bytes_are_given_after_what_they_are)
{
    enum { LENGTH = 5 << 20 };
    _cleanup_free_ char *bytes = xmalloc(LENGTH);
    for (int i = 0; i < LENGTH; i++)
        bytes[i] = (char)(i * 7 + i / 1000);
    folder_put("f", bytes, LENGTH);
    struct peer_exec *call = file_begin(file_message("download", "{s:s}", "path", "f"));
    const json_t *ret = json_object_get(file_finish(call), "ret");
    ck_assert_int_eq(ret_number(ret, "length"), LENGTH);
    ck_assert_uint_eq(call->bytes[1], LENGTH);
    ck_assert(memcmp(call->out[1].data, bytes, LENGTH) == 0);
    call = file_begin(file_message("download", "{s:s, s:i, s:i}", "path", "f", "first", 100, "last", 199));
    ck_assert_int_eq(ret_number(json_object_get(file_finish(call), "ret"), "length"), 100);
    ck_assert(call->out[1].length == 100 && memcmp(call->out[1].data, bytes + 100, 100) == 0);
    call = file_begin(file_message("download", "{s:s, s:i}", "path", "f", "first", LENGTH));
    const json_t *none = json_object_get(file_finish(call), "ret");
    ck_assert(json_is_true(json_object_get(none, "unsatisfiable")) && ret_number(none, "size") == LENGTH);
    ck_assert(!call->broken && call->bytes[1] == 0);
    file_refused(file_message("download", "{s:s}", "path", "."), "is a folder");
}
END_TEST

/* The client must not take what came for the file. */
START_TEST(bytes_that_break_off_are_told)
{
    int fd = openat(folder_fd, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(ftruncate(fd, 64 << 20), 0);
    struct peer_exec *call = file_begin(file_message("download", "{s:s}", "path", "f"));
    call->holds = true;
    ck_assert(peer_until(peer, call->bytes[1] >= FRAME_WINDOW, 10000));
    ck_assert_int_eq(ftruncate(fd, 1000), 0);
    close(fd);
    call->holds = false;
    channel_grant(peer->channel, call->number, FRAME_WINDOW);
    ck_assert(peer_until(peer, call->closed, 10000));
    ck_assert(call->replied && call->broken);
}
END_TEST

/* Nobody takes the bytes: the call waits, and its end is heard of. */
START_TEST(bytes_wait_for_credit)
{
    folder_put_text("g", "small");
    int fd = openat(folder_fd, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(ftruncate(fd, 64 << 20), 0);
    close(fd);
    struct peer_exec *call = file_begin(file_message("download", "{s:s}", "path", "f"));
    call->holds = true;
    ck_assert(peer_until(peer, call->bytes[1] >= FRAME_WINDOW, 10000));
    peer_until(peer, false, 200);
    ck_assert_uint_eq(call->bytes[1], FRAME_WINDOW);
    ck_assert_str_eq(ret_text(read_lines("g", 0, 1), "content"), "small");
    channel_send(peer->channel, FRAME_CLOSE, 0, call->number, NULL, 0);
    ck_assert(peer_until(peer, call->closed, 5000));
    ck_assert(peer_until(peer, count_left() == 0, 5000));
}
END_TEST

START_TEST(an_upload_takes_its_name_at_the_end)
{
    folder_put_text("f", "before");
    struct peer_exec *call = file_begin(file_message("upload", "{s:s}", "path", "f"));
    _cleanup_free_ char *bytes = xcalloc(1, 3 << 20);
    peer_input(peer, call, bytes, 3 << 20, false);
    peer_until(peer, false, 100);
    folder_expect("f", "before");
    ck_assert_uint_eq(entries_in("."), 1);
    peer_input(peer, call, "", 0, true);
    ck_assert_int_eq(ret_number(json_object_get(file_finish(call), "ret"), "size"), 3 << 20);
    struct stat stat;
    ck_assert_int_eq(fstatat(folder_fd, "f", &stat, 0), 0);
    ck_assert_int_eq(stat.st_size, 3 << 20);
    call = file_begin(file_message("upload", "{s:s}", "path", "f"));
    peer_input(peer, call, bytes, 100, false);
    peer_until(peer, false, 100);
    channel_send(peer->channel, FRAME_CLOSE, 0, call->number, NULL, 0);
    ck_assert(peer_until(peer, call->closed, 5000));
    ck_assert_int_eq(fstatat(folder_fd, "f", &stat, 0), 0);
    ck_assert_int_eq(stat.st_size, 3 << 20);
    ck_assert_uint_eq(entries_in("."), 1);
}
END_TEST

/* ---- folders ---- */

START_TEST(lists_sorted_and_in_pages)
{
    ck_assert_int_eq(mkdirat(folder_fd, "l", 0755), 0);
    ck_assert_int_eq(mkdirat(folder_fd, "l/z", 0755), 0);
    ck_assert_int_eq(mkdirat(folder_fd, "l/.git", 0755), 0);
    folder_put_text("l/b", "12");
    folder_put_text("l/.hidden", "");
    folder_put_text("l/A", "");
    folder_put_text("l/\xff"
                    "name",
                    "");
    ck_assert_int_eq(symlinkat("z", folder_fd, "l/link"), 0);
    ck_assert_int_eq(symlinkat("/etc", folder_fd, "l/out"), 0);
    static const char *const expected[] = { "link", "z", ".hidden", "A", "b", "out", "\xef\xbf\xbdname" };
    _cleanup_free_ char *after = xstrdup("");
    size_t seen = 0;
    for (int pages = 0; pages < 5; pages++) {
        const json_t *ret = file_ask(
                         file_message("list", "{s:s, s:i, s:s}", "path", "l", "limit", 2, "after", after)),
                     *entry;
        size_t index;
        ck_assert_int_eq(ret_number(ret, "total"), 7);
        json_array_foreach(json_object_get(ret, "entries"), index, entry) {
            ck_assert_str_eq(ret_text(entry, "name"), expected[seen]);
            ck_assert(ret_flag(entry, "directory") == (seen < 2));
            seen++;
        }
        if (!json_is_string(json_object_get(ret, "next_cursor")))
            break;
        free(after);
        after = xstrdup(ret_text(ret, "next_cursor"));
    }
    ck_assert_uint_eq(seen, 7);
    const json_t *ret = file_ask(file_message("list", "{s:s}", "path", "l"));
    const json_t *last = json_array_get(json_object_get(ret, "entries"), 6);
    ck_assert_str_eq(ret_text(last, "name_base64"), "/25hbWU=");
    file_refused(file_message("list", "{s:s}", "path", "l/b"), "not a folder");
    file_refused(file_message("list", "{s:s}", "path", "l/none"), "does not exist");
    file_refused(file_message("list", "{s:s, s:s}", "path", "l", "after", "?"), "cursor");
}
END_TEST

START_TEST(folders_are_made_and_things_moved_and_removed)
{
    ck_assert(ret_flag(file_ask(file_message("mkdir", "{s:s, s:b}", "path", "a/b/c", "create_parents", 1)),
                       "created"));
    ck_assert(!ret_flag(file_ask(file_message("mkdir", "{s:s, s:b}", "path", "a/b/c", "create_parents", 1)),
                        "created"));
    file_refused(file_message("mkdir", "{s:s}", "path", "x/y"), "does not exist");
    folder_put_text("f", "f");
    file_refused(file_message("mkdir", "{s:s}", "path", "f"), "is a file");
    file_ask(file_message("move", "{s:s, s:s}", "source", "f", "destination", "a/n/g"));
    folder_expect("a/n/g", "f");
    folder_put_text("f", "2");
    file_refused(file_message("move", "{s:s, s:s}", "source", "f", "destination", "a/n/g"), "exists already");
    ck_assert(ret_flag(file_ask(file_message("move", "{s:s, s:s, s:b}", "source", "f", "destination", "a/n/g",
                                             "overwrite", 1)),
                       "replaced"));
    folder_expect("a/n/g", "2");
    file_refused(file_message("move", "{s:s, s:s}", "source", "a", "destination", "a/b/x"), "into itself");
    folder_put_text("f", "3"); /* no cure is named that would fail as well */
    for (int overwrite = 0; overwrite < 2; overwrite++) {
        file_refused(file_message("move", "{s:s, s:s, s:b}", "source", "f", "destination", "a/n", "overwrite",
                                  overwrite),
                     "is a folder: destination is the new path itself, such as a/n/f");
        file_refused(file_message("move", "{s:s, s:s, s:b}", "source", "a", "destination", "f", "overwrite",
                                  overwrite),
                     "is a file, which a folder does not replace");
    }
    file_ask(file_message("mkdir", "{s:s}", "path", "empty"));
    file_refused(file_message("move", "{s:s, s:s}", "source", "a/n", "destination", "empty"),
                 "such as empty/n; only with overwrite true");
    file_ask(
        file_message("move", "{s:s, s:s, s:b}", "source", "a/n", "destination", "empty", "overwrite", 1));
    folder_expect("empty/g", "2");
    file_ask(file_message("move", "{s:s, s:s}", "source", "empty", "destination", "a/n"));
    file_refused(file_message("move", "{s:s, s:s}", "source", ".", "destination", "q"), "workspace itself");
    file_refused(file_message("remove", "{s:s, s:b}", "path", "/workspace", "recursive", 1),
                 "workspace itself");
    ck_assert_int_eq(symlinkat("/etc/passwd", folder_fd, "link"), 0);
    file_ask(file_message("remove", "{s:s}", "path", "link"));
    ck_assert(!folder_has("link"));
    file_refused(file_message("remove", "{s:s}", "path", "link"), "does not exist");
    file_refused(file_message("remove", "{s:s}", "path", "a"), "not empty");
    file_ask(file_message("remove", "{s:s, s:b}", "path", "a", "recursive", 1));
    ck_assert(!folder_has("a"));
}
END_TEST

/* ---- the process ---- */

START_TEST(a_killed_call_fails_and_the_next_works)
{
    struct peer_exec *call = file_begin(file_message("write", "{s:s, s:i}", "path", "f", "length", 10));
    ck_assert(peer_until(peer, false, 200) == false);
    _cleanup_free_ char *command = xasprintf("pkill -KILL -P %d ws-files", (int)peer->agent);
    run_to_end(command, "{}");
    ck_assert_ptr_nonnull(strstr(file_refusal(file_finish(call)), "ended before it had answered"));
    ck_assert(!folder_has("f"));
    written("f", "x", true);
}
END_TEST

START_TEST(calls_beyond_the_places_wait)
{
    struct peer_exec *calls[40];
    for (int i = 0; i < 40; i++)
        calls[i] = file_begin(file_message("write", "{s:s, s:i}", "path", "f", "length", 1));
    peer_until(peer, false, 200);
    _cleanup_free_ char *command = xasprintf("pgrep -c -P %d ws-files", (int)peer->agent);
    expect_output(command, "{}", "8\n", 0);
    for (int i = 0; i < 40; i++)
        peer_input(peer, calls[i], "x", 1, true);
    for (int i = 0; i < 40; i++)
        ck_assert_ptr_nonnull(json_object_get(file_finish(calls[i]), "ret"));
    file_refused(file_message("nothing", "{}"), "no file operation of that name");
}
END_TEST

/* A call has nothing of the agent: neither the channel nor another call's pipes. */
START_TEST(a_call_holds_nothing_of_the_agent)
{
    file_begin(file_message("write", "{s:s, s:i}", "path", "f", "length", 1));
    file_begin(file_message("write", "{s:s, s:i}", "path", "g", "length", 1));
    peer_until(peer, false, 200);
    _cleanup_free_ char *command =
        xasprintf("for p in $(pgrep ws-files -P %d); do ls /proc/$p/fd | wc -l; done", (int)peer->agent);
    FILE *out = popen(command, "r");
    int one = 0, two = 0;
    ck_assert_int_eq(fscanf(out, "%d %d", &one, &two), 2);
    pclose(out);
    ck_assert_msg(one <= 8 && two <= 8, "%d and %d descriptors", one, two);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        reads_lines_and_tells_what_is_left,
        the_hash_is_that_of_the_content,
        line_ends_and_marks_are_left_as_they_are,
        what_is_no_text_is_named,
        a_page_holds_its_bound,
        a_file_of_three_gigabytes_is_read_by_offset,
        no_path_leads_out,
        links_inside_are_followed,
        a_swapped_folder_leads_nowhere,
        special_files_are_refused_and_hang_nobody,
        ten_thousand_levels_are_removed,
        writes_whole_or_not_at_all,
        a_file_has_no_slash_at_its_end,
        content_that_is_cut_is_not_written,
        a_stale_hash_is_a_conflict,
        only_one_creates,
        a_full_disk_changes_nothing,
        an_edit_changes_what_it_names_and_nothing_else,
        broken_syntax_is_not_written,
        bytes_are_given_after_what_they_are,
        bytes_that_break_off_are_told,
        bytes_wait_for_credit,
        an_upload_takes_its_name_at_the_end,
        lists_sorted_and_in_pages,
        folders_are_made_and_things_moved_and_removed,
        a_killed_call_fails_and_the_next_works,
        calls_beyond_the_places_wait,
        a_call_holds_nothing_of_the_agent,
    };
    return unit_run_tests("files", tests, N_ELEMENTS(tests), files_set_up, files_tear_down, 120);
}
