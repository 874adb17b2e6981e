/* File calls of a real agent, as the keeper's end of the channel sees them: what is read, carried, listed and
 * moved, what is refused, and the process that does it. Paths and writing have suites of their own. */
#include "tests/support/file_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { LOOK = 8192 }; /* what decides whether a file is text */

/* ---- reading ---- */

START_TEST(reads_lines_and_tells_what_is_left)
{
    _cleanup_buffer_ struct buffer lines = BUFFER_INIT;
    for (int i = 1; i <= 250; i++)
        buffer_printf(&lines, "line %d\n", i);
    folder_put("f", lines.data, lines.length);
    const json_t *ret = file_read_lines("f", 0, 100);
    ck_assert_int_eq(ret_number(ret, "total_lines"), 250);
    ck_assert_int_eq(ret_number(ret, "lines"), 100);
    ck_assert_int_eq(ret_number(ret, "next_offset"), 100);
    ck_assert(!strncmp(ret_text(ret, "content"), "line 1\nline 2\n", 14));
    ck_assert_str_eq(strrchr(ret_text(ret, "content"), '\n'), "\nline 100");
    ret = file_read_lines("/workspace/f", 248, 100);
    ck_assert_str_eq(ret_text(ret, "content"), "line 249\nline 250");
    ck_assert(json_is_null(json_object_get(ret, "next_offset")));
    ck_assert_str_eq(ret_text(file_read_lines("f", -2, 100), "content"), "line 249\nline 250");
    ck_assert_int_eq(ret_number(file_read_lines("f", -1000, 1), "offset"), 0);
    ck_assert_str_eq(ret_text(file_read_lines("f", 250, 100), "content"), "");
    ck_assert_int_eq(ret_number(file_read_lines("f", 0, 0), "lines"), 250);
    ret = file_ask(file_message("read", "{s:s, s:i, s:i, s:b}", "path", "f", "offset", 9, "limit", 2,
                                "line_numbers", 1));
    ck_assert_str_eq(ret_text(ret, "content"), "    10\tline 10\n    11\tline 11");
}
END_TEST

START_TEST(the_hash_is_that_of_the_content)
{
    folder_put_text("abc", "abc");
    ck_assert_str_eq(ret_text(file_read_lines("abc", 0, 1), "hash"),
                     "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    folder_put_text("empty", "");
    const json_t *ret = file_read_lines("empty", 0, 100);
    ck_assert_str_eq(ret_text(ret, "hash"),
                     "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ck_assert_str_eq(ret_text(ret, "content"), "");
    ck_assert_int_eq(ret_number(ret, "total_lines"), 0);
}
END_TEST

START_TEST(line_ends_and_marks_are_left_as_they_are)
{
    folder_put_text("crlf", "a\r\nb\r\nc");
    const json_t *ret = file_read_lines("crlf", 0, 2);
    ck_assert_str_eq(ret_text(ret, "content"), "a\r\nb\r");
    ck_assert_int_eq(ret_number(ret, "total_lines"), 3);
    ck_assert(ret_flag(ret, "no_final_newline"));
    folder_put_text("bom", "\xef\xbb\xbfhello\n");
    ret = file_read_lines("bom", 0, 1);
    ck_assert_str_eq(ret_text(ret, "content"), "hello");
    ck_assert(ret_flag(ret, "bom") && !ret_flag(ret, "no_final_newline"));
    folder_put("odd",
               "a\fb\vc\xc2\x85"
               "d\xe2\x80\xa8"
               "e\n",
               13);
    ck_assert_int_eq(ret_number(file_read_lines("odd", 0, 9), "total_lines"), 1);
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
    const json_t *ret = file_read_lines("latin", 0, 9);
    ck_assert(!ret_flag(ret, "utf8"));
    ck_assert_str_eq(ret_text(ret, "content"), "caf\xef\xbf\xbd\nok");
    ck_assert_str_eq(ret_text(ret, "content_base64"), "Y2Fm6Qpvaw==");
    folder_put("png", "\x89PNG\r\n\x1a\n....", 12);
    ret = file_read_lines("png", 0, 100);
    ck_assert_str_eq(ret_text(ret, "media_type"), "image/png");
    ck_assert_str_eq(ret_text(ret, "data_base64"), "iVBORw0KGgouLi4u");
    ck_assert_int_eq(ret_number(ret, "total_lines"), 0);
    ck_assert(!ret_flag(ret, "no_final_newline"));
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
    const json_t *ret = file_read_lines("big", 1, 10);
    ck_assert_str_eq(ret_text(ret, "content"), "last");
    ck_assert_int_eq(ret_number(ret, "size"), (3LL << 30) + 6);
    file_refused(file_message("read", "{s:s, s:i}", "path", "big", "limit", 0), "MAX_READ_SIZE_BYTES");
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
    ck_assert_str_eq(ret_text(file_read_lines("g", 0, 1), "content"), "small");
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
    ck_assert_uint_eq(folder_entries("."), 1);
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
    ck_assert_uint_eq(folder_entries("."), 1);
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
    for (int i = 0; i < 2; i++) { /* one file of two names, then onto itself */
        const char *source = i == 0 ? "other" : "a/n/g";
        ck_assert(i > 0 || linkat(folder_fd, "a/n/g", folder_fd, "other", 0) == 0);
        file_ask(file_message("move", "{s:s, s:s, s:b}", "source", source, "destination", "a/n/g", "overwrite", 1));
        ck_assert(!folder_has("other"));
        folder_expect("a/n/g", "2");
    }
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
    file_written("f", "x", true);
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
