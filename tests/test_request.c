/* FastCGI parameters, paths and queries, friendly and hostile. */
#include "fcgi/request.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>

static struct request r;
static struct error err;

static void setup(void)
{
    r = (struct request){ .body = BUFFER_INIT };
    err = (struct error)ERROR_INIT;
}

static void teardown(void)
{
    request_clear(&r);
    error_clear(&err);
}

/* name, value, ..., NULL */
static int parse(const char *mount, ...)
{
    _cleanup_buffer_ struct buffer params = BUFFER_INIT;
    va_list pairs;

    va_start(pairs, mount);
    for (const char *name; (name = va_arg(pairs, const char *)) != NULL;)
        request_add_param(&params, name, va_arg(pairs, const char *));
    va_end(pairs);
    request_clear(&r);
    return request_parse(params.data, params.length, mount, &r, &err);
}

START_TEST(test_members)
{
    ck_assert_int_eq(parse("", "REQUEST_METHOD", "post", "REQUEST_URI", "/api/x%2Fy?a=1&b", "CONTENT_TYPE",
                           "application/json", "CONTENT_LENGTH", "12", "HTTP_AUTHORIZATION", "Bearer t",
                           "HTTP_HOST", "h:1", "REMOTE_ADDR", "::1", "HTTPS", "on",
                           "HTTP_MCP_PROTOCOL_VERSION", "2025-06-18", "HTTP_X_REQUEST_ID", "abc.DEF-1_2",
                           NULL),
                     0);
    ck_assert_str_eq(r.method, "POST");
    ck_assert_str_eq(r.path, "/api/x%2Fy");
    ck_assert_str_eq(r.query, "a=1&b");
    ck_assert_str_eq(r.content_type, "application/json");
    ck_assert_int_eq(r.content_length, 12);
    ck_assert_str_eq(r.authorization, "Bearer t");
    ck_assert_str_eq(r.host, "h:1");
    ck_assert_str_eq(r.peer, "::1");
    ck_assert(r.https);
    ck_assert_str_eq(request_header(&r, "mcp-protocol-version"), "2025-06-18");
    ck_assert_ptr_null(request_header(&r, "accept"));
    ck_assert_str_eq(r.id, "abc.DEF-1_2");
}
END_TEST

START_TEST(test_absent_members)
{
    ck_assert_int_eq(parse("", "REQUEST_METHOD", "GET", "REQUEST_URI", "/", "CONTENT_LENGTH", "", NULL), 0);
    ck_assert_str_eq(r.query, "");
    ck_assert_str_eq(r.content_type, "");
    ck_assert_int_eq(r.content_length, -1);
    ck_assert_ptr_null(r.authorization);
    ck_assert_ptr_null(r.host);
    ck_assert(!r.https);
    ck_assert_uint_eq(strlen(r.id), 32);
}
END_TEST

START_TEST(test_first_of_doubled_counts)
{
    ck_assert_int_eq(parse("", "REQUEST_METHOD", "GET", "REQUEST_URI", "/a", "REQUEST_URI", "/b",
                           "REDIRECT_HTTP_AUTHORIZATION", "one", "HTTP_AUTHORIZATION", "two", NULL),
                     0);
    ck_assert_str_eq(r.path, "/a");
    ck_assert_str_eq(r.authorization, "one");
}
END_TEST

START_TEST(test_mount)
{
    static const struct {
        const char *mount, *uri, *path;
    } rows[] = {
        { "", "/api", "/api" },
        { "/workspace", "/workspace/api?x", "/api" },
        { "/workspace", "/workspace", "/" },
        { "/workspace", "/workspace?x", "/" },
        { "/workspace", "/workspace/", "/" },
        { "/workspace", "/workspaces", NULL },
        { "/workspace", "/", NULL },
        { "", "http://host/api?x", "/api" },
        { "", "HTTPS://host/api", "/api" },
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        int parsed = parse(rows[i].mount, "REQUEST_METHOD", "GET", "REQUEST_URI", rows[i].uri, NULL);
        ck_assert_int_eq(parsed, rows[i].path ? 0 : -1);
        if (rows[i].path != NULL)
            ck_assert_str_eq(r.path, rows[i].path);
        else
            ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    }
}
END_TEST

START_TEST(test_refused)
{
    static char long_uri[20000];
    static const char *const rows[][4] = {
        { "GET", "", "", "empty URI" },
        { "GET", "*", "", "no path" },
        { "GET", "http://host", "", "no path" },
        { "GET", "/a b", "", "space" },
        { "GET", "/a\x01", "", "control" },
        { "GET", "/a#b", "", "fragment" },
        { "GET", long_uri, "", "long" },
        { "", "/", "", "no method" },
        { "G T", "/", "", "method" },
        { "AVERYLONGMETHODNAME", "/", "", "method" },
        { "POST", "/", "-1", "length" },
        { "POST", "/", "1x", "length" },
        { "POST", "/", " 1", "length" },
    };

    memset(long_uri, '/', sizeof(long_uri) - 1);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        int parsed = parse("", "REQUEST_METHOD", rows[i][0], "REQUEST_URI", rows[i][1], "CONTENT_LENGTH",
                           rows[i][2], NULL);
        ck_assert_msg(parsed == -1 && err.code == ERROR_INVALID, "%s", rows[i][3]);
        ck_assert_uint_eq(strlen(r.id), 32);
    }
    ck_assert_int_eq(parse("", "REQUEST_METHOD", "GET", NULL), -1);
    ck_assert_int_eq(parse("", "REQUEST_METHOD", "POST", "REQUEST_URI", "/", "CONTENT_LENGTH",
                           "99999999999999999999", NULL),
                     0);
    ck_assert_int_eq(r.content_length, INT64_MAX);
}
END_TEST

START_TEST(test_damaged_params)
{
    static const struct {
        const char *bytes;
        size_t length;
    } rows[] = {
        { "\x05", 1 },
        { "\x05\x05"
          "abc",
          5 },
        { "\x80\x00", 2 },
        { "\xff\xff\xff\xff\xff\xff\xff\xff", 8 },
        { "\x7f\xff\xff\xff\xff"
          "a",
          6 },
        { "\x01\x03"
          "aa\0b",
          6 },
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        request_clear(&r);
        ck_assert_int_eq(request_parse(rows[i].bytes, rows[i].length, "", &r, &err), -1);
        ck_assert_int_eq(err.code, ERROR_INVALID);
    }
}
END_TEST

START_TEST(test_request_id_is_not_trusted)
{
    static const struct {
        const char *given, *kept; /* NULL = a random one */
    } rows[] = {
        { "ok-1", "ok-1" },
        { "a\r\nSet-Cookie: x", NULL },
        { "", NULL },
        { "0123456789012345678901234567890123456789012345678901234567890123456789", NULL },
        { "0123456789012345678901234567890123456789", "01234567890123456789012345678901" },
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        ck_assert_int_eq(
            parse("", "REQUEST_METHOD", "GET", "REQUEST_URI", "/", "HTTP_X_REQUEST_ID", rows[i].given, NULL),
            0);
        if (rows[i].kept != NULL)
            ck_assert_str_eq(r.id, rows[i].kept);
        else
            ck_assert_uint_eq(strspn(r.id, "0123456789abcdef"), 32);
    }
}
END_TEST

START_TEST(test_too_many_headers)
{
    _cleanup_buffer_ struct buffer params = BUFFER_INIT;

    request_add_param(&params, "REQUEST_METHOD", "GET");
    request_add_param(&params, "REQUEST_URI", "/");
    for (int i = 0; i < 201; i++)
        request_add_param(&params, "HTTP_X", "y");
    ck_assert_int_eq(request_parse(params.data, params.length, "", &r, &err), -1);
    ck_assert_int_eq(err.code, ERROR_INVALID);
}
END_TEST

START_TEST(test_split_path)
{
    static const struct {
        const char *path, *parts; /* joined by "|"; NULL = refused */
    } rows[] = {
        { "/", "" },         { "/api", "api" },         { "/api/", "api|" }, { "/a%2Fb%20c/d", "a/b c|d" },
        { "/a//b", "a||b" }, { "/%C3%A9", "\xc3\xa9" }, { "/...", "..." },   { "/.", NULL },
        { "/a/../b", NULL }, { "/a/%2e%2E/b", NULL },   { "/%00", NULL },    { "/a%2", NULL },
        { "/a%", NULL },     { "/%zz", NULL },          { "/%ff", NULL },    { "/%C0%AF", NULL },
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        _cleanup_free_ char **parts = NULL;
        _cleanup_buffer_ struct buffer joined = BUFFER_INIT;
        size_t count = 0;
        int split = request_split_path(rows[i].path, &parts, &count, &err);
        ck_assert_msg((split == 0) == (rows[i].parts != NULL), "%s", rows[i].path);
        if (rows[i].parts == NULL)
            continue;
        for (size_t k = 0; k < count; k++) {
            buffer_append_text(&joined, k ? "|" : "");
            buffer_append_text(&joined, parts[k]);
        }
        ck_assert_ptr_null(parts[count]);
        ck_assert_str_eq(buffer_text(&joined), rows[i].parts);
    }
}
END_TEST

static int take(void *user, const char *name, const char *value, size_t length, struct error *error)
{
    (void)error;
    ck_assert_uint_eq(strlen(value), length);
    buffer_printf(user, "%s=%s;", name, value);
    return 0;
}

START_TEST(test_query)
{
    static const struct {
        const char *query, *pairs; /* NULL = refused */
    } rows[] = {
        { "", "" },
        { "a=1", "a=1;" },
        { "a", "a=;" },
        { "a=1&b=2&&c=", "a=1;b=2;c=;" },
        { "a+b=c+d%2B%26", "a b=c d+&;" },
        { "a==", "a==;" },
        { "=x", "=x;" },
        { "a=%", NULL },
        { "a=%g0", NULL },
        { "a=%00", NULL },
        { "%ff=1", NULL },
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        _cleanup_buffer_ struct buffer pairs = BUFFER_INIT;
        int taken = request_each_query(rows[i].query, take, &pairs, &err);
        ck_assert_msg((taken == 0) == (rows[i].pairs != NULL), "%s", rows[i].query);
        if (rows[i].pairs != NULL)
            ck_assert_str_eq(buffer_text(&pairs), rows[i].pairs);
    }
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("request");
    Suite *suite = suite_create("request");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, test_members);
    tcase_add_test(c, test_absent_members);
    tcase_add_test(c, test_first_of_doubled_counts);
    tcase_add_test(c, test_mount);
    tcase_add_test(c, test_refused);
    tcase_add_test(c, test_damaged_params);
    tcase_add_test(c, test_request_id_is_not_trusted);
    tcase_add_test(c, test_too_many_headers);
    tcase_add_test(c, test_split_path);
    tcase_add_test(c, test_query);
    suite_add_tcase(suite, c);
    return unit_run(suite);
}
