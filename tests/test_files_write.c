/* Writing and editing by a real agent: whole or not at all, told what was refused, and no temporary file left
 * behind. */
#include "lib/base/sha256.h"
#include "tests/support/file_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* ---- writing ---- */

START_TEST(writes_whole_or_not_at_all)
{
    const json_t *ret = file_written("new/er/file", "hello\n", true);
    ck_assert(ret_flag(ret, "created"));
    ck_assert_str_eq(ret_text(ret, "path"), "new/er/file");
    ck_assert_int_eq(ret_number(ret, "size"), 6);
    folder_expect("new/er/file", "hello\n");
    ck_assert_str_eq(ret_text(file_read_lines("new/er/file", 0, 1), "hash"), ret_text(ret, "hash"));
    const json_t *reply = file_write_reply(
        "x", 1, file_message("write", "{s:s, s:b}", "path", "new/er/file", "create_only", 1));
    ck_assert_ptr_nonnull(strstr(file_refusal(reply), "exists already"));
    folder_expect("new/er/file", "hello\n");
    ck_assert_int_eq(fchmodat(folder_fd, "new/er/file", 0751, 0), 0);
    ck_assert(!ret_flag(file_written("new/er/file", "", false), "created"));
    folder_expect("new/er/file", "");
    struct stat stat;
    ck_assert_int_eq(fstatat(folder_fd, "new/er/file", &stat, 0), 0);
    ck_assert_int_eq(stat.st_mode & 07777, 0751);
    ck_assert_uint_eq(folder_entries("new/er"), 1);
    ck_assert_int_eq(linkat(folder_fd, "new/er/file", folder_fd, "other", 0), 0);
    ck_assert(ret_flag(file_written("other", "1", false), "hard_link_broken"));
}
END_TEST

static void not_written(const char *call, const char *path, const char *says)
{
    const char *said = file_refusal(file_write_reply("x", 1, file_message(call, "{s:s}", "path", path)));
    ck_assert_msg(strstr(said, says) != NULL, "%s", said);
}

/* A slash at the end is said of folders. */
START_TEST(a_file_has_no_slash_at_its_end)
{
    file_written("f", "x", true);
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
    ck_assert_uint_eq(folder_entries("."), 1);
    _cleanup_free_ char *large = xcalloc(1, 2000);
    const json_t *reply =
        file_write_reply(large, 2000, file_message("write", "{s:s, s:i}", "path", "g", "max_size", 1999));
    ck_assert_ptr_nonnull(strstr(file_refusal(reply), "more than 1999 bytes"));
    ck_assert(!folder_has("g"));
}
END_TEST

START_TEST(a_stale_hash_is_a_conflict)
{
    char hash[SHA256_TEXT_SIZE];
    snprintf(hash, sizeof hash, "%s", ret_text(file_written("f", "one", true), "hash"));
    folder_put_text("f", "two");
    const json_t *reply =
        file_write_reply("three", 5, file_message("write", "{s:s, s:s}", "path", "f", "if_match", hash));
    const json_t *error = json_object_get(reply, "error");
    ck_assert_int_eq(ret_number(error, "code"), ERROR_CONFLICT);
    const char *present = ret_text(file_read_lines("f", 0, 1), "hash");
    ck_assert_ptr_nonnull(strstr(file_refusal(reply), present));
    folder_expect("f", "two");
    reply =
        file_write_reply("three", 5, file_message("write", "{s:s, s:s}", "path", "f", "if_match", present));
    ck_assert_ptr_nonnull(json_object_get(reply, "ret"));
    reply = file_write_reply("x", 1, file_message("write", "{s:s, s:s}", "path", "none/f", "if_match", hash));
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
    ck_assert_uint_eq(folder_entries("."), 1);
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
    const json_t *reply = file_write_reply(
        large, length, file_message("write", "{s:s, s:b}", "path", "full/f", "create_only", 0));
    ck_assert_int_eq(ret_number(json_object_get(reply, "error"), "code"), ERROR_FULL);
    folder_expect("full/f", "before");
    ck_assert_uint_eq(folder_entries("full"), 1);
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
    ck_assert_str_eq(ret_text(ret, "hash"), ret_text(file_read_lines("f", 0, 1), "hash"));
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
    file_refused(message, "read it again, and make your change on what is there now (sha256:");
    folder_expect("f", "\xef\xbb\xbf"
                       "1\r\n2\r\n\xff two\r\nthree");
    folder_put("bin", "a\0b", 3);
    file_refused(edit("bin", "a", "b"), "binary data");
    file_refused(edit("none", "a", "b"), "does not exist");
    file_refused(edit("../f", "a", "b"), "'..' is not taken");
    ck_assert_uint_eq(folder_entries("."), 3);
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
            file_write_reply(rows[i].bad, strlen(rows[i].bad),
                             file_message("write", "{s:s, s:b}", "path", rows[i].name, "validate", 1));
        ck_assert_msg(strstr(file_refusal(reply), rows[i].says) != NULL, "%s: %s", rows[i].name,
                      file_refusal(reply));
        ck_assert_ptr_nonnull(strstr(file_refusal(reply), "NOT written"));
        ck_assert(!folder_has(rows[i].name));
        reply = file_write_reply(rows[i].good, strlen(rows[i].good),
                                 file_message("write", "{s:s, s:b}", "path", rows[i].name, "validate", 1));
        const json_t *ret = json_object_get(reply, "ret");
        ck_assert_msg(ret && !strcmp(ret_text(ret, "validated"), "true"), "%s: %s %s", rows[i].name,
                      ret ? ret_text(ret, "validated") : file_refusal(reply),
                      ret ? ret_text(ret, "validation") : "");
        file_refused(edit(rows[i].name, rows[i].good, rows[i].bad), rows[i].says);
        folder_expect(rows[i].name, rows[i].good);
        reply = file_write_reply(rows[i].bad, strlen(rows[i].bad),
                                 file_message("write", "{s:s}", "path", rows[i].name));
        ck_assert_str_eq(ret_text(json_object_get(reply, "ret"), "validated"), "false");
        const json_t *again = file_ask(edit(rows[i].name, rows[i].bad, rows[i].bad)); /* nothing changes */
        ck_assert(!ret_flag(again, "changed"));
        ck_assert_str_eq(ret_text(again, "validated"), "skipped");
        ck_assert_str_eq(ret_text(again, "validation"), "nothing changed");
    }
}
END_TEST

/* Nothing is a program, too, and a table: judged at once. */
START_TEST(nothing_is_judged_at_once)
{
    static const char *const names[] = { "__init__.py", "a.pyi", "a.toml", "a.yaml" };
    int64_t begun = clock_boottime_ms();
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        const json_t *reply =
            file_write_reply("", 0, file_message("write", "{s:s, s:b}", "path", names[i], "validate", 1));
        ck_assert_str_eq(ret_text(json_object_get(reply, "ret"), "validated"), "true");
    }
    ck_assert_int_lt(clock_boottime_ms() - begun, 8000);
}
END_TEST

/* A model is to know whose grammar it was, and the way out. */
START_TEST(a_python_that_judges_says_which_it_is)
{
    const json_t *reply = file_write_reply(
        "type X Y\n", 9, file_message("write", "{s:s, s:b}", "path", "new.py", "validate", 1));
    ck_assert_msg(strstr(file_refusal(reply), "for Python 3.") != NULL, "%s", file_refusal(reply));
    ck_assert_ptr_nonnull(strstr(file_refusal(reply), "validate false"));
}
END_TEST

/* ---- contents that are hard to judge ---- */

static void append_many(struct buffer *content, const char *format, int count)
{
    for (int i = 0; i < count; i++) {
        const char *number = strchr(format, '#');
        buffer_append(content, format, (size_t)(number - format));
        buffer_append_i64(content, i);
        buffer_append_text(content, number + 1);
    }
}

/* Written all the same, and soon. */
static const json_t *judged(const char *path, const struct buffer *content)
{
    int64_t begun = clock_boottime_ms();
    const json_t *reply = file_write_reply(
        content->data, content->length,
        file_message("write", "{s:s, s:b, s:i}", "path", path, "validate", 1, "max_size", 64 << 20));
    int64_t took = clock_boottime_ms() - begun;
    const json_t *ret = json_object_get(reply, "ret");
    ck_assert_msg(ret != NULL, "%s", file_refusal(reply));
    ck_assert_msg(took < 14000, "%s took %lld ms", path, (long long)took);
    return ret;
}

/* libyaml compares each directive with all before it, which takes a minute for these. */
START_TEST(a_judge_has_a_deadline)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    append_many(&content, "%TAG !a#! x:\n", 250000);
    buffer_append_text(&content, "---\na: 2\n");
    const json_t *ret = judged("t.yaml", &content);
    ck_assert_str_eq(ret_text(ret, "validated"), "skipped");
    ck_assert_msg(strstr(ret_text(ret, "validation"), "8 seconds") != NULL, "%s",
                  ret_text(ret, "validation"));
    ck_assert_int_eq(ret_number(ret, "size"), (long long)content.length);
}
END_TEST

START_TEST(a_judge_has_so_much_memory)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    buffer_append_char(&content, '[');
    while (content.length < 24 << 20)
        buffer_append_text(&content, "[],");
    buffer_append_text(&content, "1]");
    const json_t *ret = judged("t.json", &content);
    ck_assert_str_eq(ret_text(ret, "validated"), "skipped");
    ck_assert_msg(strstr(ret_text(ret, "validation"), "memory") != NULL, "%s", ret_text(ret, "validation"));
}
END_TEST

/* What is many and harmless is judged. */
START_TEST(many_names_are_judged)
{
    static const struct {
        const char *path, *begin, *piece, *end;
    } rows[] = {
        { "anchors.yaml", "", "- &a# x\n", "" },
        { "aliases.yaml", "- &b x\n", "- [*b, #]\n", "" },
        { "keys.yaml", "", "k#: 1\n", "" },
        { "same.json", "{", "\"k\": #, ", "\"k\": 1}" },
        { "keys.json", "{", "\"k#\": 1, ", "\"k\": 1}" },
        { "lines.jsonl", "", "{\"k\": #}\n", "" },
    };
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        _cleanup_buffer_ struct buffer content = BUFFER_INIT;
        buffer_append_text(&content, rows[i].begin);
        append_many(&content, rows[i].piece, 200000);
        buffer_append_text(&content, rows[i].end);
        const json_t *ret = judged(rows[i].path, &content);
        ck_assert_msg(strcmp(ret_text(ret, "validated"), "true") == 0, "%s: %s", rows[i].path,
                      ret_text(ret, "validation"));
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        writes_whole_or_not_at_all,
        a_file_has_no_slash_at_its_end,
        content_that_is_cut_is_not_written,
        a_stale_hash_is_a_conflict,
        only_one_creates,
        a_full_disk_changes_nothing,
        an_edit_changes_what_it_names_and_nothing_else,
        broken_syntax_is_not_written,
        nothing_is_judged_at_once,
        a_python_that_judges_says_which_it_is,
        a_judge_has_a_deadline,
        a_judge_has_so_much_memory,
        many_names_are_judged,
    };
    return unit_run_tests("files write", tests, N_ELEMENTS(tests), files_set_up, files_tear_down, 120);
}
