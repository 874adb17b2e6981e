/* JSON text with long strings, read past jansson and written: jansson is the judge of both. */
#include "lib/base/clock.h"
#include "lib/base/json_text.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

/* ---- what comes out ---- */

/* @ stands for 300 letters. */
static const char *const texts[] = {
    "\"@\"",
    " \"@\" ",
    "[\"@\",\"@b\",1,null]",
    "{\"a\":\"@\",\"b\":{\"c\":[[\"x@\"],\"@y\"]}}",
    "{\"@\":\"@\",\"b@\" \n:1}",
    "{\"a\":\"@\",\"a\":\"@2\"}",
    "{\"@\":1,\"@\":2}",
    "[\"@\\n\\t\\r\\b\\f\\/\\\\\\\"\"]",
    "[\"@\\\\\",\"@\"]",
    "[\"\\\\\\\"@\",\"\\\"\"]",
    "[\"@\\u0041\\u00e4\\u20AC\\ud83d\\ude00\"]",
    "[\"@\\u0000@\"]",
    "[\"@\303\244\342\202\254\360\237\230\200\"]",
    "[\"@\\ud83d\"]",
    "[\"@\\ude00\"]",
    "[\"@\\ud83d\\u0041\"]",
    "[\"@\\ud83dx\"]",
    "[\"@\\u12\"]",
    "[\"@\\u12g4\"]",
    "[\"@\\x\"]",
    "[\"@\\\"]",
    "[\"@",
    "[\"@\\",
    "[\"@\n\"]",
    "[\"@\377\"]",
    "[\"@\355\240\200\"]",
    "[\"@\300\200\"]",
    "[\"@\"",
    "[\"@\"]]",
    "[\"@\"\"@\"]",
    "\"@\":1",
    "[\"@\" : \"@\"]",
    "{\"a\" \"@\"}",
    "x\"@\"",
    "[1e999,\"@\"]",
    "[99999999999999999999,\"@\"]",
    "[0.5,-1,true,false,{},[],\"@\"]",
};

static void fill(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++)
        for (int i = 0; i < (*text == '@' ? 300 : 1); i++)
            buffer_append_char(out, *text == '@' ? (char)('a' + i % 26) : *text);
}

static void compare(const struct buffer *text, size_t flags, size_t least)
{
    json_error_t own, theirs;
    json_auto_t *value = json_text_read_long(text->data, text->length, flags, least, &own);
    json_auto_t *judge = json_loadb(text->data, text->length, flags, &theirs);
    ck_assert_msg((value != NULL) == (judge != NULL), "%.*s", (int)text->length, text->data);
    if (judge != NULL) {
        ck_assert_msg(json_equal(value, judge), "%.*s", (int)text->length, text->data);
        return;
    }
    ck_assert_str_eq(own.text, theirs.text);
    ck_assert_int_eq(own.line, theirs.line);
    ck_assert_int_eq(own.column, theirs.column);
}

START_TEST(a_text_means_what_it_means_to_jansson)
{
    static const size_t flags[] = { 0, JSON_DECODE_ANY, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                                    JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                                    JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL };
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    fill(&text, texts[_i]);
    for (size_t i = 0; i < N_ELEMENTS(flags); i++) {
        compare(&text, flags[i], 256);
        compare(&text, flags[i], 0);
    }
}
END_TEST

START_TEST(what_is_written_is_what_was_read)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, out = BUFFER_INIT;
    fill(&text, texts[_i]);
    json_auto_t *value = json_loadb(text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (value == NULL)
        return;
    ck_assert(json_text_append(&out, value));
    json_auto_t *again = json_loadb(out.data, out.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    ck_assert_msg(again != NULL && json_equal(value, again), "%.*s", (int)out.length, out.data);
}
END_TEST

/* What stands for a long string has a name that nobody can know: a text that repeats those of another one is
 * read as any other. */
START_TEST(a_short_string_never_becomes_a_long_one)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    fill(&text, "[\"@\",\"0123456789abcdef0123456789abcdef00000000\",\"\"]");
    json_auto_t *value = json_text_read(text.data, text.length, 0, NULL);
    ck_assert_str_eq(json_string_value(json_array_get(value, 1)), "0123456789abcdef0123456789abcdef00000000");
    ck_assert_uint_eq(json_string_length(json_array_get(value, 0)), 300);
}
END_TEST

START_TEST(nothing_is_written_of_what_holds_itself)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    json_t *outer = json_array(), *inner = json_array();
    json_array_append_new(outer, inner);
    json_array_append(inner, outer);
    buffer_append_text(&out, "kept");
    ck_assert(!json_text_append(&out, outer));
    ck_assert(!json_text_append(&out, NULL));
    ck_assert_str_eq(buffer_text(&out), "kept");
    json_array_clear(inner);
    json_decref(outer);
}
END_TEST

/* ---- how long it takes ---- */

static double seconds_of(const struct buffer *text)
{
    int64_t begun = clock_boottime_us();
    json_auto_t *value = json_text_read(text->data, text->length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    ck_assert_ptr_nonnull(value);
    return (double)(clock_boottime_us() - begun) / 1e6;
}

START_TEST(a_file_is_read_at_more_than_jansson_s_speed)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    double own = 1e9, theirs = 1e9;
    buffer_append_char(&text, '"');
    while (text.length < 1 << 20)
        buffer_append_text(&text, "\\tif (there == \\\"are\\\") return many_escapes; // as in C\\n");
    buffer_append_char(&text, '"');
    for (int i = 0; i < 5; i++) {
        double took = seconds_of(&text);
        own = took < own ? took : own;
        int64_t begun = clock_boottime_us();
        json_decref(json_loadb(text.data, text.length, JSON_DECODE_ANY, NULL));
        took = (double)(clock_boottime_us() - begun) / 1e6;
        theirs = took < theirs ? took : theirs;
    }
    printf("1 MiB of source: %.2f ms, jansson %.2f ms\n", own * 1000, theirs * 1000);
    ck_assert(own < theirs / 2);
}
END_TEST

/* Whatever stands in it, the time grows as the text does. */
START_TEST(no_text_takes_long)
{
    static const char *const pieces[] = { "\\\\", "\\\"", "\\u0041", "\",\"", "\" : \"", "\\ud83d\\ude00" };
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_append_text(&text, "[\"");
    while (text.length < 4 << 20)
        buffer_append_text(&text, pieces[_i]);
    buffer_append_text(&text, "\"]");
    int64_t begun = clock_boottime_us();
    json_decref(json_text_read(text.data, text.length, JSON_ALLOW_NUL, NULL));
    ck_assert_int_lt(clock_boottime_us() - begun, 10000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_text");
    TCase *cases = tcase_create("json_text"), *times = tcase_create("times");
    tcase_add_loop_test(cases, a_text_means_what_it_means_to_jansson, 0, (int)N_ELEMENTS(texts));
    tcase_add_loop_test(cases, what_is_written_is_what_was_read, 0, (int)N_ELEMENTS(texts));
    tcase_add_test(cases, a_short_string_never_becomes_a_long_one);
    tcase_add_test(cases, nothing_is_written_of_what_holds_itself);
    suite_add_tcase(suite, cases);
    tcase_set_tags(times, "timing");
    tcase_set_timeout(times, 60);
    tcase_add_test(times, a_file_is_read_at_more_than_jansson_s_speed);
    tcase_add_loop_test(times, no_text_takes_long, 0, 6);
    suite_add_tcase(suite, times);
    return unit_run(suite);
}
