/* Bytes of files as HTTP has them (RFC 9110): HEAD, tags and conditions, ranges. */
#include "tests/support/workspace_case.h"

#include <stdio.h>
#include <string.h>

static struct answer raw(const char *method, const char *path, const char *header, const char *header2,
                         const char *body)
{
    const char *headers[] = { header, header2, NULL };
    struct http_options o = { .headers = header ? headers : NULL,
                              .body = body,
                              .content_type = "application/octet-stream",
                              .unchecked = true };
    char target[400];
    snprintf(target, sizeof target, "/api/workspaces/%s/raw?path=%s", ws, path);
    return http_send(the, method, target, &o);
}

static const char *header_of(const struct answer *a, const char *name)
{
    static char value[8][200];
    static int next;
    const char *found = answer_header(a, name, value[next++ & 7], sizeof value[0]);
    return found ? found : "";
}

static void put(const char *path, const char *body, char tag[static 120])
{
    struct answer up = raw("PUT", path, NULL, NULL, body);
    ck_assert_msg(up.status == 200, "%ld %s", up.status, up.body);
    snprintf(tag, 120, "\"%s\"", member_text(up.json, "hash"));
    answer_clear(&up);
}

/* Status, body and the value of one header, "" = absent. */
static void expect(struct answer a, long status, const char *body, const char *name, const char *value)
{
    ck_assert_msg(a.status == status, "%ld instead of %ld: %.200s", a.status, status, a.body);
    if (body)
        ck_assert_str_eq(a.body, body);
    if (name)
        ck_assert_msg(strcmp(header_of(&a, name), value) == 0, "%s: %s instead of %s", name,
                      header_of(&a, name), value);
    answer_clear(&a);
}

START_TEST(head_tells_what_get_would)
{
    char tag[120];
    put("f", "0123456789", tag);
    struct answer a = raw("HEAD", "f", NULL, NULL, NULL);
    ck_assert_int_eq(a.status, 200);
    ck_assert_uint_eq(a.length, 0);
    ck_assert_str_eq(header_of(&a, "Content-Length"), "10");
    ck_assert_str_eq(header_of(&a, "ETag"), tag);
    ck_assert_str_eq(header_of(&a, "Accept-Ranges"), "bytes");
    ck_assert_str_eq(header_of(&a, "Content-Type"), "application/octet-stream");
    answer_clear(&a);
    expect(raw("HEAD", "f", "Range: bytes=2-4", NULL, NULL), 200, "", "Content-Length", "10");
    char header[160];
    snprintf(header, sizeof header, "If-None-Match: %s", tag);
    expect(raw("HEAD", "f", header, NULL, NULL), 304, "", "ETag", tag);
    expect(raw("HEAD", "f", "If-Match: \"sha256:0\"", NULL, NULL), 412, "", NULL, NULL);
    expect(raw("HEAD", "none", NULL, NULL, NULL), 404, "", NULL, NULL);
    expect(raw("HEAD", "%2e", NULL, NULL, NULL), 400, "", NULL, NULL);
    expect(raw("GET", "f", NULL, NULL, NULL), 200, "0123456789", NULL, NULL); /* the connection goes on */
}
END_TEST

/* Each names what its own caller can do. */
START_TEST(refusals_name_a_cure_of_this_operation)
{
    char tag[120], digits[200];
    put("f", "0123456789", tag);
    struct answer a = raw("PUT", "f", "If-None-Match: *", NULL, "again");
    ck_assert_int_eq(a.status, 412);
    ck_assert_msg(strstr(a.body, "leave out If-None-Match") && !strstr(a.body, "create_only"), "%s", a.body);
    answer_clear(&a);
    expect(raw("GET", "f&range=0-3", NULL, NULL, NULL), 422, NULL, NULL, NULL);
    expect(raw("GET", "f&range=bytes=0-3", NULL, NULL, NULL), 206, "0123", NULL, NULL);
    expect(raw("GET", "f", "Range: pages=0-3", NULL, NULL), 200, "0123456789", NULL, NULL);
    snprintf(digits, sizeof digits, "If-None-Match: \"%.64s\"", tag + 8);
    expect(raw("GET", "f", digits, NULL, NULL), 304, "", NULL, NULL);
}
END_TEST

/* Nothing of it is read: 64 GiB would take minutes. */
START_TEST(head_of_a_huge_file_is_quick)
{
    struct exec_log log;
    exec_run_command(the, ws, "truncate -s 64G huge && touch -d '1 hour ago' huge && sleep 3.1", &log);
    exec_log_clear(&log);
    struct answer a = raw("HEAD", "huge", NULL, NULL, NULL);
    ck_assert_int_eq(a.status, 200);
    ck_assert_str_eq(header_of(&a, "Content-Length"), "68719476736");
    ck_assert_msg(a.ms < 2000, "%.0f ms", a.ms);
    char tag[120], range[160];
    snprintf(tag, sizeof tag, "%s", header_of(&a, "ETag"));
    ck_assert_msg(strncmp(tag, "\"stat:", 6) == 0, "%s", tag);
    answer_clear(&a);
    /* The end of it comes at once too, on the condition that it is the same. */
    snprintf(range, sizeof range, "If-Range: %s", tag);
    a = raw("GET", "huge", "Range: bytes=-5", range, NULL);
    ck_assert_int_eq(a.status, 206);
    ck_assert_uint_eq(a.length, 5);
    ck_assert_str_eq(header_of(&a, "Content-Range"), "bytes 68719476731-68719476735/68719476736");
    ck_assert_msg(a.ms < 2000, "%.0f ms", a.ms);
    answer_clear(&a);
    snprintf(range, sizeof range, "If-None-Match: %s", tag);
    expect(raw("GET", "huge", range, NULL, NULL), 304, "", "ETag", tag);
    snprintf(range, sizeof range, "If-Match: %s", tag);
    expect(raw("PUT", "huge", range, NULL, "small"), 200, NULL, NULL, NULL);
    expect(raw("PUT", "huge", range, NULL, "again"), 412, NULL, NULL, NULL);
    expect(raw("GET", "huge", NULL, NULL, NULL), 200, "small", NULL, NULL);
}
END_TEST

/* Its stamp would not tell two changes of one moment apart. */
START_TEST(a_large_file_that_changes_is_told_by_its_content)
{
    struct exec_log log;
    exec_run_command(the, ws, "truncate -s 40M large", &log);
    exec_log_clear(&log);
    struct answer a = raw("HEAD", "large", NULL, NULL, NULL);
    char tag[120], header[160];
    snprintf(tag, sizeof tag, "%s", header_of(&a, "ETag"));
    ck_assert_msg(strncmp(tag, "\"sha256:", 8) == 0, "%s", tag);
    answer_clear(&a);
    sleep_ms(3500);
    snprintf(header, sizeof header, "If-None-Match: %s", tag); /* that form counts for ever */
    expect(raw("HEAD", "large", header, NULL, NULL), 304, "", NULL, NULL);
}
END_TEST

START_TEST(ranges_are_those_of_the_standard)
{
    static const struct {
        const char *range, *body, *content_range;
        long status;
    } cases[] = {
        { "bytes=0-0", "0", "bytes 0-0/10", 206 },
        { "bytes=2-4", "234", "bytes 2-4/10", 206 },
        { "Bytes=2-4", "234", "bytes 2-4/10", 206 },
        { "bytes= 2-4 , ", "234", "bytes 2-4/10", 206 },
        { "bytes=8-", "89", "bytes 8-9/10", 206 },
        { "bytes=8-99999999999999999999999", "89", "bytes 8-9/10", 206 },
        { "bytes=-3", "789", "bytes 7-9/10", 206 },
        { "bytes=-30", "0123456789", "bytes 0-9/10", 206 },
        { "bytes=0-9", "0123456789", "bytes 0-9/10", 206 },
        { "bytes=10-", NULL, "bytes */10", 416 },
        { "bytes=10-20", NULL, "bytes */10", 416 },
        { "bytes=99999999999999999999999-", NULL, "bytes */10", 416 },
        { "bytes=-0", NULL, "bytes */10", 416 },
    };
    char tag[120], header[100];
    put("f", "0123456789", tag);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(header, sizeof header, "Range: %s", cases[i].range);
        struct answer a = raw("GET", "f", header, NULL, NULL);
        ck_assert_msg(a.status == cases[i].status, "%s: %ld %s", header, a.status, a.body);
        ck_assert_msg(!strcmp(header_of(&a, "Content-Range"), cases[i].content_range), "%s: %s", header,
                      header_of(&a, "Content-Range"));
        if (cases[i].body)
            ck_assert_str_eq(a.body, cases[i].body);
        else
            ck_assert_str_eq(member_text(a.json, "type"), "RangeError");
        answer_clear(&a);
    }
    /* What is no range is none, and of several all of it comes; nobody in front takes them out. */
    static const char *const ignored[] = { "bytes=4-2", "bytes=a-b", "bytes=",        "bytes=-",
                                           "lines=1-2", "bytes=1",   "bytes=0-0,5-5", "bytes=0-0,-1" };
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        snprintf(header, sizeof header, "Range: %s", ignored[i]);
        struct answer a = raw("GET", "f", header, NULL, NULL);
        ck_assert_msg(a.status == 200 && !strcmp(a.body, "0123456789"), "%s: %ld %s", header, a.status,
                      a.body);
        answer_clear(&a);
    }
}
END_TEST

START_TEST(answers_that_are_no_files_have_no_ranges)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    const char *const ranges[] = { "Range: bytes=0-9", "Range: bytes=999999999-", "Range: bytes=-3" };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const char *headers[] = { ranges[i], NULL };
        struct http_options o = { .headers = headers, .unchecked = true };
        struct answer a = http_send(the, "GET", path, &o);
        ck_assert_msg(a.status == 200 && a.json != NULL, "%s: %ld %s", ranges[i], a.status, a.body);
        ck_assert_str_eq(header_of(&a, "Content-Range"), "");
        answer_clear(&a);
        a = raw("GET", "none", ranges[i], NULL, NULL);
        ck_assert_msg(a.status == 404 && a.json != NULL, "%s: %ld %s", ranges[i], a.status, a.body);
        answer_clear(&a);
    }
}
END_TEST

START_TEST(an_empty_file_has_no_range)
{
    char tag[120];
    put("empty", "", tag);
    expect(raw("GET", "empty", "Range: bytes=0-", NULL, NULL), 416, NULL, "Content-Range", "bytes */0");
    expect(raw("GET", "empty", "Range: bytes=-5", NULL, NULL), 200, "", "Content-Length", "0");
    expect(raw("HEAD", "empty", NULL, NULL, NULL), 200, "", "ETag", tag);
}
END_TEST

START_TEST(conditions_are_those_of_the_standard)
{
    char tag[120], header[400];
    put("f", "0123456789", tag);
    snprintf(header, sizeof header, "If-None-Match: \"a\", W/%s, \"b\"", tag);
    expect(raw("GET", "f", header, NULL, NULL), 304, "", "ETag", tag);
    expect(raw("GET", "f", "If-None-Match: *", NULL, NULL), 304, "", NULL, NULL);
    expect(raw("GET", "f", "If-None-Match: \"a\", \"b\"", NULL, NULL), 200, "0123456789", NULL, NULL);
    /* A part of a tag is another one. */
    snprintf(header, sizeof header, "If-None-Match: \"x%s", tag + 1);
    expect(raw("GET", "f", header, NULL, NULL), 200, NULL, NULL, NULL);
    snprintf(header, sizeof header, "If-Match: \"a\",%s", tag);
    expect(raw("GET", "f", header, NULL, NULL), 200, NULL, NULL, NULL);
    snprintf(header, sizeof header, "If-Match: W/%s", tag); /* a weak one is not enough */
    expect(raw("GET", "f", header, NULL, NULL), 412, NULL, NULL, NULL);
    snprintf(header, sizeof header, "If-Match: \"a\", %s", tag);
    expect(raw("PUT", "f", header, NULL, "9876543210"), 200, NULL, NULL, NULL);
    expect(raw("PUT", "f", header, NULL, "0"), 412, NULL, NULL, NULL);
}
END_TEST

START_TEST(a_range_of_another_content_is_all_of_it)
{
    char tag[120], header[160];
    put("f", "0123456789", tag);
    snprintf(header, sizeof header, "If-Range: %s", tag);
    expect(raw("GET", "f", "Range: bytes=2-4", header, NULL), 206, "234", NULL, NULL);
    expect(raw("GET", "f", "Range: bytes=10-", header, NULL), 416, NULL, NULL, NULL);
    static const char *const others[] = { "If-Range: \"sha256:0\"",
                                          "If-Range: Wed, 21 Oct 2025 07:28:00 GMT" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        expect(raw("GET", "f", "Range: bytes=10-", others[i], NULL), 200, "0123456789", NULL, NULL);
    }
    snprintf(header, sizeof header, "If-Range: W/%s", tag);
    expect(raw("GET", "f", "Range: bytes=10-", header, NULL), 200, "0123456789", NULL, NULL);
}
END_TEST

START_TEST(head_works_where_get_does)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    struct http_options o = { .unchecked = true };
    const char *const paths[] = { path, "/api/workspaces", "/healthz", "/openapi.json", "/" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct answer head = http_send(the, "HEAD", paths[i], &o), get = http_send(the, "GET", paths[i], &o);
        ck_assert_msg(head.status == 200 && head.length == 0, "%s: %ld", paths[i], head.status);
        ck_assert_str_eq(header_of(&head, "Content-Type"), header_of(&get, "Content-Type"));
        ck_assert_int_gt(atol(header_of(&head, "Content-Length")), 0);
        answer_clear(&head);
        answer_clear(&get);
    }
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    struct answer a = http_send(the, "HEAD", path, &o);
    ck_assert_int_eq(a.status, 405);
    ck_assert_str_eq(header_of(&a, "Allow"), "POST, OPTIONS");
    answer_clear(&a);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { head_tells_what_get_would,
                                   refusals_name_a_cure_of_this_operation,
                                   head_of_a_huge_file_is_quick,
                                   a_large_file_that_changes_is_told_by_its_content,
                                   ranges_are_those_of_the_standard,
                                   answers_that_are_no_files_have_no_ranges,
                                   an_empty_file_has_no_range,
                                   conditions_are_those_of_the_standard,
                                   a_range_of_another_content_is_all_of_it,
                                   head_works_where_get_does };
    Suite *s = suite_create("raw");
    TCase *c = tcase_create("raw");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, ws_make, ws_end);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
