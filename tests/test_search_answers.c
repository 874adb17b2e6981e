/* ripgrep's answers, whole, cut and broken. Nothing here opens a file. */
#include "lib/agent/search/ripgrep.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

struct taken {
    struct buffer text; /* of all messages, in a form to compare */
    int messages;
};

static void take_message(void *user, const struct ripgrep_message *m)
{
    static const char *const names[] = { "other", "begin", "match", "context", "end", "summary" };
    struct taken *taken = user;
    taken->messages++;
    buffer_printf(&taken->text, "%s path=%zu:", names[m->type], m->path.length);
    buffer_append(&taken->text, m->path.data, m->path.length);
    buffer_printf(&taken->text, " line=%llu:", (unsigned long long)m->line_length);
    buffer_append(&taken->text, m->line.data, m->line.length < 40 ? m->line.length : 40);
    buffer_printf(&taken->text,
                  " number=%lld offset=%lld submatches=%llu %lld-%lld match=%llu:", (long long)m->line_number,
                  (long long)m->offset, (unsigned long long)m->submatches, (long long)m->start,
                  (long long)m->end, (unsigned long long)m->match_length);
    buffer_append(&taken->text, m->match.data, m->match.length);
    buffer_printf(&taken->text, " binary=%lld\n", (long long)m->binary_offset);
}

/* In pieces of this size; false: it was refused. */
static bool read_answer(const char *text, size_t length, size_t piece, struct taken *taken, bool *ret_whole)
{
    struct ripgrep *reader = ripgrep_new(take_message, taken);
    bool good = true;
    for (size_t at = 0; at < length && good; at += piece) {
        /* Exactly as large, so that a sanitizer sees what is read behind it. */
        size_t size = length - at < piece ? length - at : piece;
        char *part = xmemdup(text + at, size);
        good = ripgrep_feed(reader, part, size);
        free(part);
    }
    *ret_whole = good && ripgrep_is_whole(reader);
    ripgrep_free(reader);
    return good;
}

static void expect_answer(const char *text, const char *messages)
{
    size_t length = strlen(text);
    for (size_t piece = 1; piece <= length; piece = piece < 8 ? piece + 1 : piece * 2) {
        struct taken taken = { .text = BUFFER_INIT };
        bool whole;
        ck_assert_msg(read_answer(text, length, piece, &taken, &whole), "refused in pieces of %zu", piece);
        ck_assert(whole);
        ck_assert_str_eq(buffer_text(&taken.text), messages);
        buffer_free(&taken.text);
    }
}

#define BEGIN(path) "{\"type\":\"begin\",\"data\":{\"path\":" path "}}\n"
#define NOTHING     " number=0 offset=-1 submatches=0 -1--1 match=0: binary=-1\n"

START_TEST(test_answers_are_read)
{
    expect_answer(BEGIN("{\"text\":\"./a\"}"), "begin path=3:./a line=0:" NOTHING);
    expect_answer(BEGIN("{\"bytes\":\"Li9iYWT/Cm5hbWU=\"}"), "begin path=11:./bad\xff\nname line=0:" NOTHING);
    expect_answer(BEGIN("{\"text\":\"\\u0041\\u00e9\\u263a\\ud83d\\ude00\\n\\t\\\"\\\\\\/\\b\\f\\r\"}"),
                  "begin path=18:A\xc3\xa9\xe2\x98\xba\xf0\x9f\x98\x80\n\t\"\\/\b\f\r line=0:" NOTHING);
    expect_answer(
        "{\"type\":\"match\",\"data\":{\"path\":{\"text\":\"./a\"},\"lines\":{\"text\":\"x needle "
        "needle\\n\"},"
        "\"line_number\":7,\"absolute_offset\":120,\"submatches\":[{\"match\":{\"text\":\"needle\"},"
        "\"start\":2,"
        "\"end\":8},{\"match\":{\"text\":\"other\"},\"start\":9,\"end\":15}]}}\n",
        "match path=3:./a line=16:x needle needle\n number=7 offset=120 submatches=2 2-8 match=6:needle "
        "binary=-1\n");
    expect_answer("{\"type\":\"context\",\"data\":{\"path\":{\"text\":\"a\"},\"lines\":{\"bytes\":\"/"
                  "wo=\"},\"line_number\":1,"
                  "\"absolute_offset\":0,\"submatches\":[]}}\n",
                  "context path=1:a line=2:\xff\n number=1 offset=0 submatches=0 -1--1 match=0: binary=-1\n");
    expect_answer(
        "{\"type\":\"end\",\"data\":{\"path\":{\"text\":\"a\"},\"binary_offset\":7,\"stats\":{\"elapsed\":{"
        "\"secs\":0,"
        "\"human\":\"0.1s\"},\"matches\":1}}}\n"
        "{\"data\":{\"elapsed_total\":{\"nanos\":1},\"stats\":{\"searches\":6}},\"type\":\"summary\"}\n",
        "end path=1:a line=0: number=0 offset=-1 submatches=0 -1--1 match=0: binary=7\n"
        "summary path=0: line=0:" NOTHING);
    /* What a later ripgrep may add, and where a type is a member of others. */
    expect_answer(
        "{\"new\":[1,[2,{\"path\":{\"text\":\"no\"}}],null,true,-1.5e+3],\"data\":{\"type\":\"match\","
        "\"data\":{\"path\":{\"text\":\"no\"}}},\"type\":\"begin\"}",
        "begin path=0: line=0:" NOTHING);
    expect_answer("{\"type\":{\"x\":\"match\"},\"data\":null}", "other path=0: line=0:" NOTHING);
    expect_answer("", "");
    expect_answer(" \n{ } \r\n\t{\"data\" : { } }\n",
                  "other path=0: line=0:" NOTHING "other path=0: line=0:" NOTHING);
}
END_TEST

static const char *const broken[] = { "x",
                                      "[1]",
                                      "1",
                                      "\"text\"",
                                      "{]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{\"a\":1 2}",
                                      "{\"a\":[1,]}",
                                      "{\"a\":[1}",
                                      "{\"a\":{]}",
                                      "{,}",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":\"\\u12g4\"}",
                                      "{\"a\":[[[[[[[[1]]]]]]]]}",
                                      "}",
                                      "{}}",
                                      "error: something\n" };

START_TEST(test_what_is_no_answer_is_refused)
{
    struct taken taken = { .text = BUFFER_INIT };
    bool whole;
    size_t length = strlen(broken[_i]);
    for (size_t piece = 1; piece <= length; piece++)
        ck_assert_msg(!read_answer(broken[_i], length, piece, &taken, &whole) && !whole, "%s", broken[_i]);
    buffer_free(&taken.text);
}
END_TEST

START_TEST(test_half_an_answer_is_not_whole)
{
    static const char text[] = BEGIN("{\"text\":\"./a\"}");
    for (size_t length = 1; length < sizeof text - 2; length++) {
        struct taken taken = { .text = BUFFER_INIT };
        bool whole;
        ck_assert(read_answer(text, length, 5, &taken, &whole));
        ck_assert(!whole);
        ck_assert_int_eq(taken.messages, 0);
        buffer_free(&taken.text);
    }
}
END_TEST

static void keep_lengths(void *user, const struct ripgrep_message *m)
{
    struct ripgrep_message *kept = user;
    ck_assert_uint_le(m->line.capacity, 4 * RIPGREP_LINE_MAX);
    ck_assert_uint_le(m->path.length, RIPGREP_PATH_MAX);
    kept->line_length = m->line_length;
    kept->line.length = m->line.length;
    kept->match_length = m->match_length;
    kept->match.length = m->match.length;
    kept->submatches = m->submatches;
    kept->start = m->start;
    kept->last = m->last;
}

/* A line of any length is counted, not kept. */
START_TEST(test_little_is_kept_of_a_long_line)
{
    enum { LENGTH = 10 << 20 };
    struct ripgrep_message kept = { 0 };
    struct ripgrep *reader = ripgrep_new(keep_lengths, &kept);
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_append_text(&text, "{\"type\":\"match\",\"data\":{\"lines\":{\"text\":\"");
    for (int i = 0; i < LENGTH; i++)
        buffer_append_char(&text, 'x');
    buffer_append_text(&text, "\\n\"},\"submatches\":[");
    for (int i = 0; i < 100000; i++)
        buffer_printf(&text, "%s{\"match\":{\"text\":\"x\"},\"start\":%d,\"end\":%d}", i ? "," : "", 7 + i,
                      8 + i);
    buffer_append_text(&text, "]}}\n");
    ck_assert(ripgrep_feed(reader, text.data, text.length));
    ck_assert_uint_eq(kept.line_length, LENGTH + 1);
    ck_assert_uint_eq(kept.line.length, RIPGREP_LINE_MAX);
    ck_assert_uint_eq(kept.submatches, 100000);
    ck_assert_int_eq(kept.start, 7);
    ck_assert_uint_eq(kept.match_length, 1);
    ck_assert_int_eq(kept.last, '\n');
    ripgrep_free(reader);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("search_answers");
    TCase *tests = tcase_create("answers");
    tcase_add_test(tests, test_answers_are_read);
    tcase_add_loop_test(tests, test_what_is_no_answer_is_refused, 0, N_ELEMENTS(broken));
    tcase_add_test(tests, test_half_an_answer_is_not_whole);
    tcase_add_test(tests, test_little_is_kept_of_a_long_line);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
