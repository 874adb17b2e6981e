/* Files through a real web server and a real sandbox: as REST and as tools, what one writes and another
 * reads, what is refused, and that waiting bytes hold nobody up. */
#include "lib/base/buffer.h"
#include "tests/support/workspace_case.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- REST ---- */

START_TEST(what_is_written_is_there_and_read)
{
    json_auto_t *made =
        ws_post("file", make_json("{s:s, s:s}", "filepath", "a/b.txt", "content", "one\ntwo\n"));
    ck_assert(member_flag(made, "created"));
    ck_assert_int_eq(member_number(made, "size"), 8);
    ws_expect_output("cat a/b.txt; stat -c %a a/b.txt", "one\ntwo\n644\n");
    json_auto_t *got = ws_get("file?filepath=a/b.txt&offset=1&line_numbers=true");
    ck_assert_str_eq(member_text(got, "content"), "     2\ttwo");
    ck_assert_str_eq(member_text(got, "hash"), member_text(made, "hash"));
    ws_refused(409, "exists already", "POST", "file",
               make_json("{s:s, s:s}", "filepath", "/workspace/a/b.txt", "content", ""));
    json_auto_t *again = ws_post("file", make_json("{s:s, s:s, s:s}", "filepath", "a/b.txt", "content",
                                                   "three", "if_match", member_text(made, "hash")));
    ck_assert(!member_flag(again, "created"));
    ws_refused(
        422, "64 lowercase hex digits", "POST", "file",
        make_json("{s:s, s:s, s:s}", "filepath", "a/b.txt", "content", "four", "if_match", "sha256:12"));
    ws_refused(422, "64 lowercase hex digits", "POST", "edit",
               make_json("{s:s, s:[{s:s, s:s}], s:s}", "filepath", "a/b.txt", "edits", "old", "three", "new",
                         "3", "if_match", "three"));
    json_decref(ws_post("file", make_json("{s:s, s:s, s:s}", "filepath", "a/b.txt", "content", "three",
                                          "if_match", member_text(again, "hash") + strlen("sha256:"))));
    json_decref(ws_post("edit", make_json("{s:s, s:[{s:s, s:s}], s:s}", "filepath", "a/b.txt", "edits", "old",
                                          "three", "new", "three", "if_match",
                                          member_text(again, "hash") + strlen("sha256:"))));
    ws_refused(409, member_text(again, "hash"), "POST", "file",
               make_json("{s:s, s:s, s:s}", "filepath", "a/b.txt", "content", "four", "if_match",
                         member_text(made, "hash")));
    ws_expect_output("cat a/b.txt; find . -name '.ws-*' | wc -l", "three0\n");
}
END_TEST

START_TEST(problems_have_their_status)
{
    ws_refused(404, "does not exist", "GET", "file?filepath=none", NULL);
    ws_refused(400, "'..' is not taken", "GET", "file?filepath=../../etc/passwd", NULL);
    ws_refused(400, "'/etc/passwd' leads out of the workspace", "GET", "file?filepath=/etc/passwd", NULL);
    ws_refused(400, "is a folder", "GET", "file?filepath=.", NULL);
    ws_refused(422, "filepath", "GET", "file", NULL);
    ws_refused(400, "NUL", "GET", "file?filepath=a%00b", NULL);
    ws_refused(422, "NUL", "POST", "remove", make_json("{s:s%}", "path", "a\0b", (size_t)3));
    ws_expect_output("mkfifo f; ln -s /etc out; printf 'a\\0b' > bin", "");
    ws_refused(400, "is a FIFO", "GET", "file?filepath=f", NULL);
    ws_refused(400, "'out' is a symbolic link, or lies below one, that leads out", "GET", "files?path=out",
               NULL);
    ws_refused(400, "binary data", "GET", "file?filepath=bin", NULL);
    ws_refused(400, "is a FIFO", "POST", "file",
               make_json("{s:s, s:s, s:b}", "filepath", "f", "content", "x", "create_only", 0));
    size_t length = 5242881;
    char *large = malloc(length + 1);
    memset(large, 'x', length);
    large[length] = '\0';
    ws_refused(413, "by PUT /api/workspaces/{workspace_id}/raw", "POST", "file",
               make_json("{s:s, s:s}", "filepath", "x", "content", large));
    large[length - 1] = '\0';
    json_auto_t *most = ws_post("file", make_json("{s:s, s:s}", "filepath", "x", "content", large));
    ck_assert_int_eq(member_number(most, "size"), 5242880);
    free(large);
    ws_expect_output("wc -c < x", "5242880\n");
}
END_TEST

START_TEST(a_folder_comes_in_pages)
{
    ws_expect_output("mkdir d && cd d && mkdir sub .git && touch $(seq 1000 1999) .hidden", "");
    long long seen = 0;
    char rest[600] = "files?path=d&limit=300", last[64] = "";
    for (bool more = true; more;) {
        json_auto_t *page = ws_get(rest);
        size_t index;
        json_t *entry;
        ck_assert_int_eq(member_number(page, "total"), 1002);
        json_array_foreach(json_object_get(page, "entries"), index, entry) {
            bool folder = member_flag(entry, "directory");
            ck_assert(folder == (seen == 0));
            ck_assert(folder || strcmp(last, member_text(entry, "name")) < 0);
            snprintf(last, sizeof last, "%s", folder ? "" : member_text(entry, "name"));
            seen++;
        }
        more = member_flag(page, "has_more");
        if (more)
            snprintf(rest, sizeof rest, "files?path=d&limit=300&cursor=%s", member_text(page, "next_cursor"));
    }
    ck_assert_int_eq(seen, 1002);
    json_auto_t *most = ws_get("files?path=d&limit=5000");
    ck_assert_uint_eq(json_array_size(json_object_get(most, "entries")), 400);
    ck_assert(member_flag(most, "has_more"));
}
END_TEST

START_TEST(things_are_made_moved_and_removed)
{
    json_auto_t *made = ws_post("directories", make_json("{s:s}", "path", "a/b"));
    ck_assert(member_flag(made, "created"));
    ws_expect_output("echo x > a/b/f", "");
    json_auto_t *moved = ws_post("move", make_json("{s:s, s:s}", "source", "a/b/f", "destination", "c/g"));
    ck_assert_str_eq(member_text(moved, "destination"), "c/g");
    ws_refused(409, "recursive", "POST", "remove", make_json("{s:s}", "path", "c"));
    json_auto_t *gone = ws_post("remove", make_json("{s:s, s:b}", "path", "c", "recursive", 1));
    ck_assert(member_flag(gone, "removed"));
    ws_expect_output("find a c 2>/dev/null | sort", "a\na/b\n");
}
END_TEST

START_TEST(a_stopped_workspace_starts_for_a_file)
{
    json_decref(ws_post("file", make_json("{s:s, s:s}", "filepath", "kept", "content", "kept")));
    json_decref(ws_post("stop", json_object()));
    json_auto_t *got = ws_get("file?filepath=kept");
    ck_assert_str_eq(member_text(got, "content"), "kept");
}
END_TEST

/* A command may end what works for it; the call says so and the next one works. */
START_TEST(a_command_that_kills_calls_harms_only_them)
{
    char ex[40];
    exec_start_command(the, ws, "while :; do pkill -KILL ws-files; done", ex);
    for (int i = 0; i < 20; i++) {
        char body[100];
        snprintf(body, sizeof body, "{\"filepath\": \"f%d\", \"content\": \"x\"}", i);
        struct http_options o = { .body = body };
        struct answer a = http_send(the, "POST", ws_path("file"), &o);
        ck_assert_msg(a.status == 200 || a.status == 503, "%ld %s", a.status, a.body);
        answer_clear(&a);
    }
    char cancel[120];
    snprintf(cancel, sizeof cancel, "realtime-execs/%s/cancel", ex);
    json_decref(ws_post(cancel, make_json("{s:s, s:b}", "signal_name", "KILL", "tree", 1)));
    json_decref(ws_post("file", make_json("{s:s, s:s}", "filepath", "after", "content", "x")));
    ws_expect_output("ls -a | grep -c '^[.]ws-'", "0\n");
}
END_TEST

START_TEST(other_principals_files_do_not_exist)
{
    api_refused(the, 404, "no workspace", "GET",
                "/api/workspaces/ws-00000000000000000000000000000000/file?filepath=x", NULL);
}
END_TEST

START_TEST(an_edit_is_made_whole_or_not_at_all)
{
    json_decref(ws_post("file", make_json("{s:s, s:s}", "filepath", "a.py", "content",
                                          "def f():\n    return 1\n\n\ndef g():\n    return 2\n")));
    json_auto_t *dry = ws_post("edit", make_json("{s:s, s:[{s:s, s:s}], s:b}", "filepath", "a.py", "edits",
                                                 "old", "return 1", "new", "return 10", "dry_run", 1));
    ck_assert(member_flag(dry, "changed") && member_flag(dry, "dry_run"));
    ws_refused(400, "NOT written", "POST", "edit",
               make_json("{s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "filepath", "a.py", "edits", "old", "return 1",
                         "new", "return 10", "old", "return 2", "new", "return ("));
    ws_expect_output("grep return a.py", "    return 1\n    return 2\n");
    json_auto_t *done =
        ws_post("edit", make_json("{s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "filepath", "a.py", "edits", "old",
                                  "return 1", "new", "return 10", "old", "  return   2", "new", "return 20"));
    ck_assert_int_eq(member_number(done, "exact"), 1);
    ck_assert_int_eq(member_number(done, "fuzzy"), 1);
    ck_assert_str_eq(member_text(done, "validated"), "true");
    ws_expect_output("python3 -c 'import a; print(a.f(), a.g())'", "10 20\n");
}
END_TEST

/* ---- bytes ---- */

static struct answer raw(const char *method, const char *query, const char *header, const char *body,
                         size_t length)
{
    const char *headers[] = { header, NULL };
    struct http_options o = { .headers = header ? headers : NULL,
                              .body = body,
                              .length = length,
                              .content_type = "application/octet-stream" };
    char rest[400];
    snprintf(rest, sizeof rest, "raw?path=%s", query);
    return http_send(the, method, ws_path(rest), &o);
}

static void expect_raw(long status, const char *body, const char *query, const char *header)
{
    struct answer a = raw("GET", query, header, NULL, 0);
    ck_assert_msg(a.status == status, "%s: %ld %.200s", header ? header : query, a.status, a.body);
    if (body)
        ck_assert_str_eq(a.body, body);
    answer_clear(&a);
}

START_TEST(bytes_go_up_and_down_as_they_are)
{
    enum { LENGTH = 30 << 20 }; /* more than any other body may have */
    char *bytes = malloc(LENGTH), etag[100];
    unsigned seed = 1;
    for (int i = 0; i < LENGTH; i++)
        bytes[i] = (char)(rand_r(&seed) >> 8);
    struct answer up = raw("PUT", "up/big", NULL, bytes, LENGTH);
    ck_assert_msg(up.status == 200, "%ld %.200s", up.status, up.body);
    ck_assert_int_eq(member_number(up.json, "size"), LENGTH);
    ck_assert(member_flag(up.json, "created"));
    struct answer down = raw("GET", "up/big", NULL, NULL, 0);
    ck_assert_int_eq(down.status, 200);
    ck_assert_uint_eq(down.length, LENGTH);
    ck_assert(memcmp(down.body, bytes, LENGTH) == 0);
    answer_header(&down, "ETag", etag, sizeof etag);
    char expected[100], command[200];
    snprintf(expected, sizeof expected, "\"%s\"", member_text(up.json, "hash"));
    ck_assert_str_eq(etag, expected);
    snprintf(command, sizeof command, "echo sha256:$(sha256sum < up/big | cut -d' ' -f1)");
    snprintf(expected, sizeof expected, "%s\n", member_text(up.json, "hash"));
    ws_expect_output(command, expected);
    answer_clear(&up);
    answer_clear(&down);
    free(bytes);
}
END_TEST

START_TEST(ranges_and_conditions_are_honoured)
{
    char etag[100], header[200], value[100];
    struct answer up = raw("PUT", "f", NULL, "0123456789", 10);
    ck_assert_int_eq(up.status, 200);
    snprintf(etag, sizeof etag, "\"%s\"", member_text(up.json, "hash"));
    answer_clear(&up);
    expect_raw(206, "234", "f", "Range: bytes=2-4");
    expect_raw(206, "789", "f", "Range: bytes=-3");
    expect_raw(206, "89", "f", "Range: bytes=8-100");
    expect_raw(200, "0123456789", "f", "Range: bytes=1-2,4-5");
    expect_raw(200, "0123456789", "f", "Range: lines=1-2");
    expect_raw(416, NULL, "f", "Range: bytes=10-");
    struct answer part = raw("GET", "f", "Range: bytes=2-4", NULL, 0);
    answer_header(&part, "Content-Range", value, sizeof value);
    ck_assert_str_eq(value, "bytes 2-4/10");
    answer_clear(&part);
    snprintf(header, sizeof header, "If-None-Match: %s", etag);
    expect_raw(304, "", "f", header);
    expect_raw(412, NULL, "f", "If-Match: \"sha256:0\"");
    snprintf(header, sizeof header, "If-Match: %s", etag);
    expect_raw(200, "0123456789", "f", header);
    up = raw("PUT", "f", "If-Match: \"sha256:0\"", "x", 1);
    ck_assert_int_eq(up.status, 412);
    answer_clear(&up);
    up = raw("PUT", "f", "If-None-Match: *", "x", 1);
    ck_assert_int_eq(up.status, 412);
    answer_clear(&up);
    up = raw("PUT", "f", header, "new", 3);
    ck_assert_int_eq(up.status, 200);
    answer_clear(&up);
    up = raw("PUT", "empty", NULL, NULL, 0);
    ck_assert_int_eq(up.status, 200);
    answer_clear(&up);
    expect_raw(200, "", "empty", NULL);
    expect_raw(200, "new", "f", NULL);
    expect_raw(404, NULL, "none", NULL);
    expect_raw(400, NULL, "../f", NULL);
    ws_expect_output("ls -a | grep -c '^[.]ws-'", "0\n");
}
END_TEST

START_TEST(a_refused_upload_is_read_away)
{
    ws_expect_output("mkfifo f", "");
    struct answer up = raw("PUT", "f", NULL, "x", 1);
    ck_assert_int_eq(up.status, 400);
    answer_clear(&up);
    size_t length = 3 << 20;
    char *bytes = calloc(1, length);
    up = raw("PUT", "f/g", NULL, bytes, length); /* refused before its bytes are read */
    ck_assert_int_eq(up.status, 400);
    answer_clear(&up);
    up = raw("PUT", "good", NULL, bytes, length);
    ck_assert_int_eq(up.status, 200);
    answer_clear(&up);
    free(bytes);
}
END_TEST

/* A slow client of a large file, in a process of its own; returns when bytes have come. */
static pid_t download_slowly(const char *to)
{
    char url[8000], authorization[200];
    struct stat stat;
    ws_expect_output("truncate -s 300M big", "");
    snprintf(url, sizeof url, "%s%s", instance_url(the), ws_path("raw?path=big"));
    snprintf(authorization, sizeof authorization, "Authorization: Bearer %s", instance_token(the));
    pid_t pid = fork();
    if (pid == 0) {
        execlp("curl", "curl", "-s", "--limit-rate", "10M", "-o", to, "-H", authorization, url, NULL);
        _exit(127);
    }
    for (long long end = now_ms() + 30000; lstat(to, &stat) < 0 || stat.st_size == 0;) {
        ck_assert_int_lt(now_ms(), end);
        sleep_ms(20);
    }
    return pid;
}

START_TEST(a_download_that_breaks_off_is_seen)
{
    char to[300];
    int status;
    snprintf(to, sizeof to, "%s/download", instance_state(the));
    pid_t pid = download_slowly(to);
    ck_assert_uint_ge(instance_signal(the, "keep", SIGKILL), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 18, "curl: %d", status); /* a part of it came */
    unlink(to);
}
END_TEST

START_TEST(a_client_that_goes_ends_its_download)
{
    char to[300];
    snprintf(to, sizeof to, "%s/download", instance_state(the));
    pid_t pid = download_slowly(to);
    ws_expect_output("pgrep -c ws-files", "1\n");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ws_expect_output(
        "for i in $(seq 100); do pgrep ws-files >/dev/null || break; sleep 0.1; done; pgrep -c ws-files; "
        "true",
        "0\n");
    unlink(to);
}
END_TEST

/* ---- tools ---- */

START_TEST(tools_answer_in_plain_text_and_need_no_workspace)
{
    json_auto_t *made = tool_call("write_file", make_json("{s:s, s:s, s:b}", "filepath", "t/é.py", "content",
                                                          "print(1)\nprint(2)\n", "create_only", 0));
    ck_assert_str_eq(tool_block(made, 0), "Successfully wrote 18 bytes to t/é.py");
    const char *hash = member_text(json_object_get(made, "structuredContent"), "hash");
    char told[100];
    snprintf(told, sizeof told, "[hash %s]", hash); /* for who reads text alone */
    ck_assert_str_eq(tool_block(made, 1), told);
    json_auto_t *read = tool_call("read_file", make_json("{s:s, s:i}", "filepath", "t/é.py", "limit", 1));
    ck_assert_str_eq(tool_block(read, 0), "print(1)");
    ck_assert_str_eq(tool_block(read, 1), "[lines 1-1 of 2; go on with offset 1]");
    ck_assert_str_eq(tool_block(read, 2), told);
    const json_t *structured = json_object_get(read, "structuredContent");
    ck_assert_int_eq(member_number(structured, "total_lines"), 2);
    json_auto_t *listed = tool_call("list_directory", make_json("{s:s}", "path", "t"));
    ck_assert_str_eq(tool_block(listed, 0), "[F] é.py");
    json_auto_t *edited =
        tool_call("search_and_replace", make_json("{s:s, s:[{s:s, s:s}]}", "filepath", "t/é.py", "edits",
                                                  "old", "print(2)", "new", "print(3)"));
    ck_assert_str_eq(
        tool_block(edited, 0),
        "Successfully applied 1 edits (1 exact, 0 fuzzy-matched) to 't/é.py':\n\n--- a/t/é.py\n+++ "
        "b/t/é.py\n@@ -1,2 +1,2 @@\n print(1)\n-print(2)\n+print(3)\n");
    json_auto_t *empty = tool_call("directory_create", make_json("{s:s}", "path", "t/empty"));
    json_auto_t *none = tool_call("list_directory", make_json("{s:s}", "path", "t/empty"));
    ck_assert_str_eq(tool_block(none, 0), "Directory is empty.");
    /* All of them used one workspace, which is there for REST too. */
    json_auto_t *named = api(the, 200, "GET", "/api/workspaces", NULL);
    size_t index, count = 0;
    json_t *workspace;
    json_array_foreach(named, index, workspace)
        count += !strcmp(member_text(workspace, "workspace_id"), member_text(structured, "workspace_id"));
    ck_assert_uint_eq(count, 1);
    (void)empty;
}
END_TEST

START_TEST(an_image_is_an_image)
{
    ws_expect_output("printf '\\211PNG\\r\\n\\032\\n1234' > p.png", "");
    json_auto_t *result =
        tool_call("read_file", make_json("{s:s, s:s}", "workspace_id", ws, "filepath", "p.png"));
    const json_t *image = json_array_get(json_object_get(result, "content"), 0);
    ck_assert_str_eq(member_text(image, "type"), "image");
    ck_assert_str_eq(member_text(image, "mimeType"), "image/png");
    ck_assert_str_eq(member_text(image, "data"), "iVBORw0KGgoxMjM0");
    ck_assert(json_is_null(json_object_get(json_object_get(result, "structuredContent"), "data_base64")));
    json_auto_t *rest = ws_get("file?filepath=p.png");
    ck_assert_str_eq(member_text(rest, "data_base64"), "iVBORw0KGgoxMjM0");
}
END_TEST

START_TEST(a_tools_answer_holds_its_bound)
{
    ws_expect_output("seq 1 200000 | sed 's/.*/\"&\" \\\\ é &/' > long", "");
    json_auto_t *result = tool_call(
        "read_file", make_json("{s:s, s:s, s:i}", "workspace_id", ws, "filepath", "long", "limit", 150000));
    char *text = json_dumps(result, JSON_COMPACT);
    ck_assert_uint_le(strlen(text), 90000);
    ck_assert_uint_ge(strlen(text), 80000);
    free(text);
    struct answer a = http_send(the, "GET", ws_path("file?filepath=long&limit=150000"), NULL);
    ck_assert_uint_le(a.length, 90000);
    ck_assert_uint_ge(a.length, 85000);
    answer_clear(&a);
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", "WORKSPACE_MAX_LIST_ENTRIES=400",
                                               NULL };
    Suite *suite = suite_create("file");
    TCase *tests = tcase_create("file");
    tcase_add_checked_fixture(tests, ws_make, ws_end);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, what_is_written_is_there_and_read);
    tcase_add_test(tests, problems_have_their_status);
    tcase_add_test(tests, a_folder_comes_in_pages);
    tcase_add_test(tests, things_are_made_moved_and_removed);
    tcase_add_test(tests, a_stopped_workspace_starts_for_a_file);
    tcase_add_test(tests, a_command_that_kills_calls_harms_only_them);
    tcase_add_test(tests, other_principals_files_do_not_exist);
    tcase_add_test(tests, an_edit_is_made_whole_or_not_at_all);
    tcase_add_test(tests, bytes_go_up_and_down_as_they_are);
    tcase_add_test(tests, ranges_and_conditions_are_honoured);
    tcase_add_test(tests, a_refused_upload_is_read_away);
    tcase_add_test(tests, a_download_that_breaks_off_is_seen);
    tcase_add_test(tests, a_client_that_goes_ends_its_download);
    tcase_add_test(tests, tools_answer_in_plain_text_and_need_no_workspace);
    tcase_add_test(tests, an_image_is_an_image);
    tcase_add_test(tests, a_tools_answer_holds_its_bound);
    suite_add_tcase(suite, tests);
    return suite_main(suite, environment);
}
