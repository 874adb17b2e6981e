/* Names of files that are no UTF-8: shown, told exactly, and addressed again by what was told. */
#include "lib/base/buffer.h"
#include "lib/base/memory.h"
#include "tests/support/workspace_case.h"

#include <stdio.h>
#include <string.h>

/* A path as a parameter: the words that every operation takes, from what an answer told. */
static char *words(const char *base64)
{
    static char text[4][3000];
    static int next;
    char *to = text[next++ & 3];
    snprintf(to, sizeof text[0], "base64:%s", base64);
    return to;
}

static char *words_of(const char *bytes)
{
    _cleanup_buffer_ struct buffer exact = BUFFER_INIT;
    buffer_append_base64(&exact, bytes, strlen(bytes));
    return words(buffer_text(&exact));
}

/* As a query takes it. */
static char *in_query(const char *before, const char *text)
{
    static char query[4][6000];
    static int next;
    char *to = query[next++ & 3], *at = to + sprintf(to, "%s", before);
    for (; *text; text++)
        at += sprintf(at, "%%%02x", (unsigned char)*text);
    return to;
}

/* The only entry of a folder. */
static json_t *only_entry(const char *folder)
{
    json_auto_t *list = ws_get(in_query("files?path=", folder));
    ck_assert_uint_eq(json_array_size(json_object_get(list, "entries")), 1);
    return json_incref(json_array_get(json_object_get(list, "entries"), 0));
}

static void expect_content(const char *path, const char *content)
{
    json_auto_t *got = ws_get(in_query("file?filepath=", path));
    ck_assert_str_eq(member_text(got, "content"), content);
}

START_TEST(a_name_goes_round)
{
    ws_expect_output("printf one > $'na\\xffme'", "");
    json_auto_t *entry = only_entry(".");
    ck_assert_str_eq(member_text(entry, "name"), "na\xef\xbf\xbdme");
    ck_assert_str_eq(member_text(entry, "name_base64"), "bmH/bWU=");
    ck_assert_str_eq(member_text(entry, "path_base64"), "bmH/bWU=");
    const char *path = words(member_text(entry, "path_base64"));
    expect_content(path, "one");
    json_decref(ws_post(
        "file", make_json("{s:s, s:s, s:b}", "filepath", path, "content", "two\n", "create_only", 0)));
    ws_expect_output("cat $'na\\xffme'", "two\n");
    json_decref(ws_post(
        "edit", make_json("{s:s, s:[{s:s, s:s}]}", "filepath", path, "edits", "old", "two", "new", "three")));
    ws_expect_output("cat $'na\\xffme'; ls | wc -l", "three\n1\n");
    json_auto_t *moved =
        ws_post("move", make_json("{s:s, s:s}", "source", path, "destination", words_of("d\xfe/x\xfdy")));
    ck_assert_str_eq(member_text(moved, "source_base64"), "bmH/bWU=");
    ck_assert_str_eq(member_text(moved, "destination"), "d\xef\xbf\xbd/x\xef\xbf\xbdy");
    expect_content(words(member_text(moved, "destination_base64")), "three");
    /* A name that is UTF-8 itself, in a folder that is none. */
    ws_expect_output("printf plain > $'d\\xfe/plain'; rm $'d\\xfe/x\\xfdy'", "");
    json_auto_t *folder = only_entry(".");
    json_auto_t *plain = only_entry(words(member_text(folder, "path_base64")));
    ck_assert_str_eq(member_text(plain, "name"), "plain");
    ck_assert(json_is_null(json_object_get(plain, "name_base64")));
    expect_content(words(member_text(plain, "path_base64")), "plain");
    json_auto_t *removed = ws_post(
        "remove", make_json("{s:s, s:b}", "path", words(member_text(folder, "path_base64")), "recursive", 1));
    ck_assert_str_eq(member_text(removed, "path_base64"), member_text(folder, "path_base64"));
    ws_expect_output("ls -A | wc -l", "0\n");
}
END_TEST

START_TEST(bytes_go_there_too)
{
    const char *path = words_of("r\xc3(/raw\xff");
    struct http_options up = { .body = "0123456789", .content_type = "application/octet-stream" };
    struct answer a = http_send(the, "PUT", ws_path(in_query("raw?path=", path)), &up);
    ck_assert_msg(a.status == 200, "%ld %s", a.status, a.body);
    ck_assert_str_eq(words(member_text(a.json, "path_base64")), path);
    answer_clear(&a);
    struct http_options o = { .unchecked = true };
    a = http_send(the, "GET", ws_path(in_query("raw?path=", path)), &o);
    ck_assert_str_eq(a.body, "0123456789");
    answer_clear(&a);
    a = http_send(the, "HEAD", ws_path(in_query("raw?path=", path)), &o);
    ck_assert_int_eq(a.status, 200);
    answer_clear(&a);
    /* A query's + is a blank: the other alphabet of base64 needs no escapes, and padding may be left out. */
    a = http_send(the, "GET", ws_path("raw?path=base64:csMoL3Jhd_8"), &o);
    ck_assert_msg(a.status == 200, "%ld %s", a.status, a.body);
    answer_clear(&a);
    /* What the name says of the content is heeded. */
    ws_refused(400, "NOT written", "POST", "file",
               make_json("{s:s, s:s}", "filepath", words_of("x\xff.json"), "content", "{"));
    json_auto_t *made = ws_post("directories", make_json("{s:s}", "path", words_of("m\xff")));
    ck_assert_str_eq(member_text(made, "path_base64"), "bf8=");
    ws_expect_output("[ -d $'m\\xff' ] && stat -c %s $'r\\xc3(/raw\\xff'", "10\n");
}
END_TEST

START_TEST(searches_tell_what_is_taken)
{
    ws_expect_output("mkdir $'d\\xfe'; echo needle > $'d\\xfe/a\\xff.txt'", "");
    json_auto_t *found = ws_get("search?pattern=*.txt");
    const json_t *match = json_array_get(json_object_get(found, "matches"), 0);
    expect_content(words(member_text(match, "path_base64")), "needle");
    json_auto_t *hits = ws_get("grep?pattern=needle");
    const json_t *file = json_array_get(json_object_get(hits, "files"), 0);
    expect_content(words(member_text(file, "path_base64")), "needle");
    json_auto_t *below = ws_get(in_query("grep?pattern=needle&path=", words_of("d\xfe")));
    ck_assert_uint_eq(json_array_size(json_object_get(below, "files")), 1);
}
END_TEST

START_TEST(what_begins_so_itself_is_reached)
{
    ws_expect_output("printf x > 'base64:YQ=='; printf y > a; mkdir base64:; printf z > base64:/f", "");
    expect_content("./base64:YQ==", "x");
    expect_content("base64:YQ==", "y");
    expect_content("/workspace/base64:/f", "z");
    json_auto_t *list = ws_get("files");
    const json_t *entries = json_object_get(list, "entries");
    ck_assert_uint_eq(json_array_size(entries), 3);
    ck_assert(json_is_null(json_object_get(json_array_get(entries, 2), "path_base64")));
    /* What is found in a folder of that name is found. */
    ws_expect_output("ln -s /workspace/base64: 'base64:/Zg=='", "");
    json_auto_t *inside = ws_get(in_query("files?path=", "./base64:"));
    ck_assert(member_flag(json_array_get(json_object_get(inside, "entries"), 0), "directory"));
}
END_TEST

START_TEST(it_leads_nowhere_else)
{
    static const char *const outside[] = { "../f", "/etc/passwd", "d/../../f", "link/passwd", "" };
    ws_expect_output("mkdir d; ln -s /etc link", "");
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        ws_refused(400, "", "GET", in_query("file?filepath=", words_of(outside[i])), NULL);
        ws_refused(400, "", "POST", "remove", make_json("{s:s}", "path", words_of(outside[i])));
    }
    static const char *const broken[] = { "base64:%", "base64:YQ=", "base64:Y",
                                          "base64:YQ==YQ==", "base64:YQBi" };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        ws_refused(400, "no base64 of a path", "GET", in_query("file?filepath=", broken[i]), NULL);
}
END_TEST

/* ---- as plain text ---- */

static void expect_block(const char *tool, json_t *arguments, const char *line)
{
    json_auto_t *result = tool_call_here(tool, arguments);
    const char *text = tool_block(result, 0);
    _cleanup_free_ char *wanted = xasprintf("\n%s\n", line), *all = xasprintf("\n%s\n", text);
    ck_assert_msg(strstr(all, wanted) != NULL, "'%s' is no line of: %s", line, text);
}

static const struct {
    const char *shell, *shown;
} names[] = {
    { "a\\nb", "a\\x0ab" },
    { "a\\\\x0ab", "a\\\\x0ab" },
    { "esc\\x1b[2J", "esc\\x1b[2J" },
    { "csi\\u009b2J", "csi\\u009b2J" },
    { "nel\\u0085x", "nel\\u0085x" },
    { "byte\\x9bx", "byte\\x9bx" },
    { "rlo\\u202efdp.exe", "rlo\\u202efdp.exe" },
    { "iso\\u2066x\\u2069", "iso\\u2066x\\u2069" },
    { "ls\\u2028ps\\u2029", "ls\\u2028ps\\u2029" },
    { "tag\\U000e0041x", "tag\\U000e0041x" },
    { "plain \\u00e9\\u20ac\\u6587\\U0001f600", "plain \xc3\xa9\xe2\x82\xac\xe6\x96\x87\xf0\x9f\x98\x80" },
    { "fa\\u200ck", "fa\xe2\x80\x8ck" },
};

/* What a terminal or a reader acts on stands there as signs, and no two names as one. */
START_TEST(names_are_shown_as_they_are)
{
    char command[200], line[200];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(command, sizeof command, "echo needle > $'%s'", names[i].shell);
        ws_expect_output(command, "");
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(line, sizeof line, "[F] %s", names[i].shown);
        if (!strstr(line, "byte"))
            expect_block("list_directory", make_json("{}"), line);
        expect_block("search_workspace", make_json("{s:s}", "pattern", "**"), names[i].shown);
        expect_block("grep_workspace", make_json("{s:s}", "pattern", "needle"), names[i].shown);
    }
}
END_TEST

/* The client's own words come back likewise. */
START_TEST(words_are_shown_as_they_are)
{
    static const char path[] = "x\xe2\x80\xae\xc2\x9b\n[F] y";
    json_auto_t *error = tool_call_here("read_file", make_json("{s:s}", "filepath", path));
    ck_assert_msg(strstr(tool_block(error, 0), "'x\\u202e\\u009b") != NULL, "%s", tool_block(error, 0));
    expect_block("write_file", make_json("{s:s, s:s}", "filepath", path, "content", "1"),
                 "Successfully wrote 1 bytes to x\\u202e\\u009b\\x0a[F] y");
    json_auto_t *edit =
        tool_call_here("search_and_replace",
                       make_json("{s:s, s:[{s:s, s:s}]}", "filepath", path, "edits", "old", "1", "new", "2"));
    ck_assert_msg(strstr(tool_block(edit, 0), "to 'x\\u202e\\u009b\\x0a[F] y':") != NULL, "%s",
                  tool_block(edit, 0));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { a_name_goes_round,           bytes_go_there_too,
                                   searches_tell_what_is_taken, what_begins_so_itself_is_reached,
                                   it_leads_nowhere_else,       names_are_shown_as_they_are,
                                   words_are_shown_as_they_are };
    Suite *s = suite_create("names");
    TCase *c = tcase_create("names");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, ws_make, ws_end);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
