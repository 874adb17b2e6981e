/* Rows of fields: what is accepted, what is refused and how it is said, defaults, JSON Schema, texts of
 * queries, the scan before parsing. */
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/schema/formats.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

static const char *const colours[] = { "red", "green", NULL };
static const struct field inner[] = {
    { "x", FIELD_INTEGER, .required = true, .text = "x" },
    { "y", FIELD_STRING, .dflt = "\"why\"", .text = "y" },
    FIELD_END,
};
static const struct field item_word = { NULL, FIELD_STRING, FIELD_RANGE(1, 3) };
static const struct field item_inner = { NULL, FIELD_OBJECT, .members = inner };
static const struct field rows[] = {
    { "must", FIELD_STRING, .required = true, FIELD_RANGE(1, 5), .nonblank = true, .text = "must" },
    { "count", FIELD_INTEGER, FIELD_RANGE(0, 10), .dflt = "3", .text = "count" },
    { "wide", FIELD_INTEGER, .text = "no bounds" },
    { "large", FIELD_INTEGER, FIELD_RANGE(0, 9007199254740991.0), .text = "large" },
    { "share", FIELD_NUMBER, FIELD_RANGE(0.25, 0.75), .text = "share" },
    { "wait", FIELD_NUMBER, FIELD_RANGE(0, 30), .clamp = true, .dflt = "0", .text = "wait" },
    { "maybe", FIELD_INTEGER, .nullable = true, .dflt = "9", .text = "maybe" },
    { "none", FIELD_STRING, .nullable = true, .text = "none" },
    { "flag", FIELD_BOOLEAN, .dflt = "false", .text = "flag" },
    { "colour", FIELD_STRING, .choices = colours, .text = "colour" },
    { "words", FIELD_ARRAY, FIELD_RANGE(1, 2), .items = &item_word, .text = "words" },
    { "list", FIELD_ARRAY, .items = &item_inner, .text = "list" },
    { "map", FIELD_OBJECT, FIELD_RANGE(0, 2), .items = &item_word, .keys = &format_env_name, .text = "map" },
    { "in", FIELD_OBJECT, .members = inner, .text = "in" },
    { "either", FIELD_STRING, .also = &(const struct field){ NULL, FIELD_ARRAY, .items = &item_word },
      .text = "either" },
    { "path", FIELD_STRING, .format = &format_remote_path, .text = "path" },
    { "any", FIELD_ANY, .text = "any" },
    FIELD_END,
};

static const struct {
    const char *in, *out; /* out: members that the result must have */
} accepted[] = {
    { "{\"must\":\"a\"}",
      "{\"must\":\"a\",\"count\":3,\"wait\":0.0,\"maybe\":9,\"none\":null,\"flag\":false}" },
    { "{\"must\":\"\u00e4\u00f6\u00fc\U0001F600\u00df\"}", "{}" },
    { "{\"must\":\"a\",\"count\":3.0}", "{\"count\":3}" },
    { "{\"must\":\"a\",\"count\":10,\"wide\":9007199254740993}", "{\"count\":10,\"wide\":9007199254740993}" },
    { "{\"must\":\"a\",\"wait\":1e9}", "{\"wait\":30.0}" },
    { "{\"must\":\"a\",\"wait\":2}", "{\"wait\":2.0}" },
    { "{\"must\":\"a\",\"maybe\":null}", "{\"maybe\":null}" },
    { "{\"must\":\"a\",\"in\":{\"x\":1}}", "{\"in\":{\"x\":1,\"y\":\"why\"}}" },
    { "{\"must\":\"a\",\"list\":[{\"x\":1.0}]}", "{\"list\":[{\"x\":1,\"y\":\"why\"}]}" },
    { "{\"must\":\"a\",\"map\":{\"a b\":\"c\"}}", "{\"map\":{\"a b\":\"c\"}}" },
    { "{\"must\":\"a\",\"either\":[\"b\"]}", "{\"either\":[\"b\"]}" },
    { "{\"must\":\"a\",\"either\":\"b\"}", "{\"either\":\"b\"}" },
    { "{\"must\":\"a\",\"any\":[1,{}]}", "{\"any\":[1,{}]}" },
    { "{\"must\":\"a\\u0000\"}", "{}" },
};

START_TEST(test_accepted)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *in = json_loads(accepted[_i].in, JSON_ALLOW_NUL, NULL), *before = json_deep_copy(in),
                *ret = NULL;
    json_auto_t *wanted = json_loads(accepted[_i].out, 0, NULL);
    const char *name;
    json_t *value;

    ck_assert_msg(field_check(rows, "body", NULL, in, &ret, &err) == 0, "%s: %s", accepted[_i].in,
                  err.message);
    ck_assert(json_equal(in, before));
    json_object_foreach(wanted, name, value)
        ck_assert_msg(json_equal(json_object_get(ret, name), value), "%s: %s", accepted[_i].in, name);
}
END_TEST

static const struct {
    const char *in, *problems; /* "loc msg; loc msg" */
} refused[] = {
    { "{}", "body.must is required" },
    { "[]", "body must be an object" },
    { "{\"must\":\"\"}", "body.must must not be empty" },
    { "{\"must\":\" \\n\"}", "body.must must not be blank" },
    { "{\"must\":\"abcdef\"}", "body.must must have at most 5 characters, not 6" },
    { "{\"must\":5,\"count\":true,\"flag\":1}",
      "body.must must be a string; body.count must be a whole number; body.flag must be a boolean" },
    { "{\"must\":\"a\",\"count\":11}", "body.count must be at most 10" },
    { "{\"must\":\"a\",\"large\":9007199254740992}", "body.large must be at most 9007199254740991" },
    { "{\"must\":\"a\",\"share\":0.125}", "body.share must be at least 0.25" },
    { "{\"must\":\"a\",\"count\":-1}", "body.count must be at least 0" },
    { "{\"must\":\"a\",\"count\":1e300}", "body.count must be at most 10" },
    { "{\"must\":\"a\",\"count\":2.5}", "body.count must be a whole number" },
    { "{\"must\":\"a\",\"count\":\"2\"}", "body.count must be a whole number" },
    { "{\"must\":\"a\",\"count\":null}", "body.count must be a whole number" },
    { "{\"must\":\"a\",\"wide\":1e17}", "body.wide must be a whole number of at most 53 bits" },
    { "{\"must\":\"a\",\"maybe\":false}", "body.maybe must be a whole number or null" },
    { "{\"must\":\"a\",\"colour\":\"blue\"}", "body.colour must be one of: red, green" },
    { "{\"must\":\"a\",\"words\":[]}", "body.words must not be empty" },
    { "{\"must\":\"a\",\"words\":[\"a\",\"b\",\"c\"]}", "body.words must have at most 2 items, not 3" },
    { "{\"must\":\"a\",\"words\":[\"long\",1]}",
      "body.words.0 must have at most 3 characters, not 4; body.words.1 must be a string" },
    { "{\"must\":\"a\",\"list\":[{\"x\":1},{\"z\":1}]}",
      "body.list.1.z is not a known member; there are: x, y; body.list.1.x is required" },
    { "{\"must\":\"a\",\"map\":{\"a=b\":\"c\",\"d\":\"long\"}}",
      "body.map.a=b name: must not be empty and must not contain '=' or NUL; body.map.d must have at most 3 "
      "characters, not 4" },
    { "{\"must\":\"a\",\"map\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}}",
      "body.map must have at most 2 members, not 3" },
    { "{\"must\":\"a\",\"either\":7}", "body.either must be a string or an array" },
    { "{\"must\":\"a\",\"path\":\"a\"}",
      "body.path must be an absolute path without '..' of at most 4096 characters" },
    { "{\"must\":\"a\",\"path\":\"/a\\u0000\"}", "body.path must not contain a NUL character" },
    { "{\"must\":\"a\",\"other\":1,\"more\":null}",
      "body.other is not a known member; there are: must, count, wide, large, share, wait, maybe, none, "
      "flag, colour, "
      "words, "
      "list, map, in, either, path, any; body.more is not a known member" },
};

static void show(const json_t *detail, char *out, size_t size)
{
    const json_t *one, *part;
    size_t index, at, used = 0;

    out[0] = '\0';
    json_array_foreach(detail, index, one) {
        used += (size_t)snprintf(out + used, size - used, "%s", index ? "; " : "");
        json_array_foreach(json_object_get(one, "loc"), at, part) {
            if (json_is_integer(part))
                used += (size_t)snprintf(out + used, size - used, ".%d", (int)json_integer_value(part));
            else
                used +=
                    (size_t)snprintf(out + used, size - used, "%s%s", at ? "." : "", json_string_value(part));
        }
        used +=
            (size_t)snprintf(out + used, size - used, " %s", json_string_value(json_object_get(one, "msg")));
    }
}

START_TEST(test_refused)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *in = json_loads(refused[_i].in, JSON_ALLOW_NUL, NULL), *ret = NULL;
    char problems[1024];

    ck_assert_ptr_nonnull(in);
    ck_assert_int_eq(field_check(rows, "body", NULL, in, &ret, &err), -1);
    ck_assert_ptr_null(ret);
    ck_assert_int_eq(err.code, ERROR_VALIDATION);
    show(err.detail, problems, sizeof problems);
    ck_assert_str_eq(problems, refused[_i].problems);
}
END_TEST

/* A hostile object gets a short answer. */
START_TEST(test_many_problems)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *in = json_object(), *ret = NULL;
    char name[400];

    memset(name, 'n', sizeof name);
    for (int i = 0; i < 5000; i++) {
        snprintf(name + 300, 20, "%d", i);
        json_object_set_new(in, name, json_null());
    }
    ck_assert_int_eq(field_check(rows, "body", NULL, in, &ret, &err), -1);
    ck_assert_uint_eq(json_array_size(err.detail), 101);
    ck_assert_ptr_nonnull(strstr(err.message, "(and 5000 more)"));
    ck_assert_uint_lt(json_dumpb(err.detail, NULL, 0, 0), 40000);
}
END_TEST

START_TEST(test_result)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *good = json_loads("{\"must\":\"a\",\"count\":3}", 0, NULL),
                *bad = json_loads("{\"must\":\"a\",\"odd\":3}", 0, NULL);

    ck_assert_int_eq(field_check_result(rows, good, &err), 0);
    ck_assert_int_eq(field_check_result(rows, bad, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "odd"));
}
END_TEST

START_TEST(test_schema)
{
    json_auto_t *schema = field_to_schema(rows, false), *result = field_to_schema(rows, true);
    json_auto_t *words = json_loads(
        "{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"string\",\"minLength\":1,"
        "\"maxLength\":3},\"description\":\"words\"}",
        0, NULL);
    json_auto_t *maybe =
        json_loads("{\"type\":[\"integer\",\"null\"],\"description\":\"maybe\",\"default\":9}", 0, NULL);
    const json_t *properties = json_object_get(schema, "properties");

    ck_assert(json_equal(json_object_get(properties, "words"), words));
    ck_assert(json_equal(json_object_get(properties, "maybe"), maybe));
    ck_assert(json_is_false(json_object_get(schema, "additionalProperties")));
    ck_assert(json_is_null(json_object_get(json_object_get(properties, "none"), "default")));
    ck_assert_ptr_null(
        json_object_get(json_object_get(json_object_get(result, "properties"), "maybe"), "default"));
    ck_assert_uint_eq(json_array_size(json_object_get(json_object_get(properties, "either"), "anyOf")), 2);
}
END_TEST

static const struct {
    const char *row, *text, *json; /* NULL: does not fit */
} texts[] = {
    { "count", "7", "7" },
    { "count", "-1", "-1" },
    { "count", "3.0", "3.0" },
    { "count", "x", NULL },
    { "count", "", NULL },
    { "count", " 1", NULL },
    { "count", "0x10", NULL },
    { "count", "1e400", NULL },
    { "count", "inf", NULL },
    { "flag", "true", "true" },
    { "flag", "0", "false" },
    { "flag", "2", NULL },
    { "maybe", "null", "null" },
    { "maybe", "", "null" },
    { "none", "null", "\"null\"" },
    { "must", "", "\"\"" },
    { "words", "a", "[\"a\"]" },
    { "words", "[\"a\"]", "[\"a\"]" },
    { "words", "[", NULL },
    { "in", "{\"x\":1}", "{\"x\":1}" },
    { "in", "x", NULL },
    { "must", "\xff", NULL },
};

START_TEST(test_texts)
{
    json_auto_t *value =
        field_from_text(field_find(rows, texts[_i].row), texts[_i].text, strlen(texts[_i].text));
    json_auto_t *wanted = texts[_i].json ? json_loads(texts[_i].json, JSON_DECODE_ANY, NULL) : NULL;

    ck_assert_msg((value == NULL) == (wanted == NULL), "%s: %s", texts[_i].row, texts[_i].text);
    ck_assert(!value || json_equal(value, wanted));
}
END_TEST

START_TEST(test_big_texts)
{
    json_auto_t *value = field_from_text(field_find(rows, "count"), "99999999999999999999", 20);

    ck_assert(json_is_real(value)); /* and so its bound refuses it by name */
}
END_TEST

/* ---- JSON text ---- */

static const struct {
    const char *text;
    enum error_code code;
} scans[] = {
    { "{}", ERROR_NONE },          { "{\"a\":[1,2,{\"b\":null}]}", ERROR_NONE },
    { "\"}]\\\"\"", ERROR_NONE },  { "99999999999999999999", ERROR_NONE },
    { "]", ERROR_INVALID },        { "{\"a\":1,\"a\":2}", ERROR_INVALID },
    { "{\"a\":1", ERROR_INVALID }, { "{\"a\":\"\\", ERROR_INVALID },
    { "", ERROR_INVALID },         { "::::", ERROR_INVALID },
    { "1e999", ERROR_INVALID },    { "\"\xff\"", ERROR_INVALID },
};

START_TEST(test_parse)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *value = field_parse_json(scans[_i].text, strlen(scans[_i].text), &err);

    ck_assert_msg(err.code == scans[_i].code, "%s: %s", scans[_i].text, err.message);
    ck_assert((value != NULL) == (err.code == ERROR_NONE));
}
END_TEST

START_TEST(test_million_members)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const size_t count = 1000000, each = sizeof "\"a\":1," - 1;
    char *text = malloc(count * each + 2);
    int64_t begun;

    text[0] = '{';
    for (size_t i = 0; i < count; i++)
        memcpy(text + 1 + i * each, "\"a\":1,", each);
    begun = clock_boottime_us();
    ck_assert_int_eq(field_scan_json(text, count * each + 1, &err), -1);
    ck_assert_int_lt(clock_boottime_us() - begun, 5000);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    free(text);
}
END_TEST

START_TEST(test_deep)
{
    char text[65 * 2];

    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    ck_assert_int_eq(field_scan_json(text, 130, NULL), -1);
    ck_assert_int_eq(field_scan_json(text + 1, 128, NULL), 0);
}
END_TEST

START_TEST(test_value_bound)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    json_auto_t *value = NULL;

    buffer_append_char(&text, '[');
    for (int i = 0; i < 49999; i++)
        buffer_append_text(&text, i ? ",0" : "0");
    buffer_append_char(&text, ']');
    value = field_parse_json(text.data, text.length, NULL);
    ck_assert_uint_eq(json_array_size(value), 49999);
    text.length--;
    buffer_append_text(&text, ",0]");
    ck_assert_ptr_null(field_parse_json(text.data, text.length, NULL));
}
END_TEST

/* ---- formats ---- */

static const struct {
    const struct field_format *format;
    const char *text;
    bool good;
} formats[] = {
    { &format_workspace_id, "ws-0123456789abcdef0123456789abcdef", true },
    { &format_workspace_id, "ws-0123456789ABCDEF0123456789abcdef", false },
    { &format_workspace_id, "ex-0123456789abcdef0123456789abcdef", false },
    { &format_exec_id, "ex-0123456789abcdef0123456789abcdef", true },
    { &format_name, "a.B_c-9", true },
    { &format_name, "", false },
    { &format_name, "a b", false },
    { &format_name, "a/b", false },
    { &format_remote_path, "/", true },
    { &format_remote_path, "/a..b/.../c", true },
    { &format_remote_path, "/a/../b", false },
    { &format_remote_path, "/a/..", false },
    { &format_remote_path, "a", false },
    { &format_remote_path, "", false },
    { &format_mount_path, "/data", true },
    { &format_mount_path, "//", false },
    { &format_mount_path, "/./", false },
    { &format_image_name, "docker.io/a:b-1_2", true },
    { &format_image_name, "-a", false },
    { &format_image_id, "im-a_B-1", true },
    { &format_image_id, "im-", false },
    { &format_package, "git+https://x/y@z", true },
    { &format_package, "a==1.0", true },
    { &format_package, "a>=1.0", false },
    { &format_package, "a[x]", false },
    { &format_env_name, "A-b.c", true },
    { &format_env_name, "", false },
    { &format_env_name, "A=b", false },
    { &format_cidr, "10.0.0.1/24", true },
    { &format_cidr, "10.0.0.1", true },
    { &format_cidr, "10.0.0.0/255.255.0.0", true },
    { &format_cidr, "10.0.0.0/255.0.255.0", false },
    { &format_cidr, "10.0.0.1/33", false },
    { &format_cidr, "10.0.0", false },
    { &format_cidr, "2001:db8::/32", true },
    { &format_cidr, "2001:db8::/129", false },
    { &format_cidr, "10.0.0.1/", false },
    { &format_domain, "*", true },
    { &format_domain, "*.example.com", true },
    { &format_domain, "localhost", true },
    { &format_domain, "*.*.a", false },
    { &format_domain, "-a.b", false },
    { &format_domain, "a..b", false },
    { &format_domain, "a.b.", false },
    { &format_base64, "", true },
    { &format_base64, "eA==", true },
    { &format_base64, "eB==", false },
    { &format_base64, "e", false },
    { &format_base64, "====", false },
    { &format_base64, "e A=", false },
    { &format_signal, "TERM", true },
    { &format_signal, "sigwinch", true },
    { &format_signal, "SIG", false },
    { &format_signal, "SEGV", false },
    { &format_signal, "9", false },
};

START_TEST(test_formats)
{
    ck_assert_msg(formats[_i].format->accepts(formats[_i].text, strlen(formats[_i].text)) == formats[_i].good,
                  "%s: %s", formats[_i].format->name, formats[_i].text);
}
END_TEST

static void check_path(const char *path, const char *wanted)
{
    _cleanup_free_ char *normal = format_normalise_path(path);

    ck_assert_str_eq(normal, wanted);
}

static void check_cidr(const char *text, const char *wanted)
{
    _cleanup_free_ char *normal = format_normalise_cidr(text);

    ck_assert_str_eq(normal, wanted);
}

START_TEST(test_normalise)
{
    _cleanup_buffer_ struct buffer bytes = BUFFER_INIT;
    char *long_path = malloc(9000);

    check_path("/a/./b/", "/a/b");
    check_path("//x", "/x");
    check_path("///", "/");
    check_path("/./.", "/");
    check_cidr("10.0.0.1/24", "10.0.0.0/24");
    check_cidr("10.1.2.3", "10.1.2.3/32");
    check_cidr("2001:DB8::1/64", "2001:db8::/64");
    ck_assert(base64_decode("AAECAwQ=", 8, &bytes));
    ck_assert_mem_eq(bytes.data, "\0\1\2\3\4", 5);
    ck_assert_uint_eq(bytes.length, 5);
    memset(long_path, '/', 9000);
    memset(long_path, 'a', 4096);
    long_path[0] = '/';
    ck_assert(format_remote_path.accepts(long_path, 9000)); /* 4096 are left */
    long_path[4096] = 'a';
    ck_assert(!format_remote_path.accepts(long_path, 9000));
    free(long_path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field");
    TCase *tests = tcase_create("field");

    tcase_add_loop_test(tests, test_accepted, 0, N_ELEMENTS(accepted));
    tcase_add_loop_test(tests, test_refused, 0, N_ELEMENTS(refused));
    tcase_add_test(tests, test_many_problems);
    tcase_add_test(tests, test_result);
    tcase_add_test(tests, test_schema);
    tcase_add_loop_test(tests, test_texts, 0, N_ELEMENTS(texts));
    tcase_add_test(tests, test_big_texts);
    tcase_add_loop_test(tests, test_parse, 0, N_ELEMENTS(scans));
    tcase_add_test(tests, test_deep);
    tcase_add_test(tests, test_value_bound);
    tcase_add_loop_test(tests, test_formats, 0, N_ELEMENTS(formats));
    tcase_add_test(tests, test_normalise);
    suite_add_tcase(suite, tests);
    unit_add(suite, "timing", (const TTest *const[]){ test_million_members }, 1, NULL, NULL, 4, "timing");
    return unit_run(suite);
}
