/* lib/text: a line that breaks the pattern of those it is counted with stays, between two counts. */
#include "lib/base/memory.h"
#include "tests/support/text_case.h"
#include "tests/support/unit.h"

#define DIGITS                                                                                               \
    "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999"
enum { ODD = 20 };

/* "@" is the line's number from 0 on, ">" one that rises with it from 8000 on, "<" one that falls from 9000
 * on,
 * "~" one digit of no order, "%" a hash. */
static void add_line(struct buffer *out, const char *form, unsigned n, uint64_t *state)
{
    for (const char *at = form; *at != '\0'; at++)
        if (*at == '@')
            buffer_printf(out, "%u", n);
        else if (*at == '>')
            buffer_printf(out, "%u", 8000 + n);
        else if (*at == '<')
            buffer_printf(out, "%u", 9000 - n);
        else if (*at == '~')
            buffer_printf(out, "%u", n * 7919 % 97 % 10);
        else if (*at == '%')
            buffer_printf(out, "a%07x%08x", (unsigned)text_draw(state) & 0xFFFFFFFu,
                          (unsigned)text_draw(state));
        else
            buffer_append_char(out, *at);
    buffer_append_char(out, '\n');
}

/* odd: the line that stands for number ODD. */
static const struct {
    const char *what, *form, *odd;
} rows[] = {
    { "a port out of order", "svc @ port >", "svc 20 port 22" },
    { "a loss that leaps", "step @ loss 1.<", "step 20 loss 99999.000" },
    { "a value that falls far once", "epoch @ acc >.25", "epoch 20 acc 0.01" },
    { "a price of others' tenth", "item @ price >.99", "item 20 price 999.99" },
    { "a step that is large", "t=@ temp=>.5", "t=20 temp=8100.0" },
    { "nothing among sizes", "backup @: > bytes", "backup 20: 0 bytes" },
    { "nothing among sizes of no order", "backup @: 1~ bytes", "backup 20: 0 bytes" },
    { "nothing in stock", "SKU@ left <", "SKU20 left 0" },
    { "a line number", "+line @", "+line 99999" },
    { "a value of code", "x = @", "x = 99999" },
    { "a slow answer", "GET /x 1~ ms", "GET /x 30000 ms" },
    { "a slow answer in another unit", "job @ took 1~ms", "job 20 took 15s" },
    { "a slow test", "test @ took 0.0~s", "test 20 took 59.01s" },
    { "a counter that stands still", "record @ written", "record 19 written" },
    { "a counter that goes back", "record @ written", "record 3 written" },
    { "a hash of another length", "object % stored", "object 3f2a91c0 stored" },
    { "another version", "pkg@==1.@", "pkg20==0.0.1" },
    { "a number beyond all measure", "sum @ is >", "sum 20 is " DIGITS DIGITS DIGITS DIGITS },
    { "another status", "worker @ answered 200", "worker 20 answered 503" },
    { "another code, one a line", "200", "503" },
    { "another truth, one a line", "True", "False" },
    { "another health", "healthy", "unhealthy" },
    { "a status behind a path", "/p@,200", "/p20,404" },
    { "a scheme", "https://example.org/p@", "http://example.org/p20" },
    { "what is not ready", "pod-@   1/1   Running   0   5d", "pod-20   0/1   Running   0   5d" },
    { "a mode", "-rw-r--r-- 1 root root > Nov 30 15:42 f@", "-rwsrwxrwx 1 root root 330 Nov 30 15:42 f20" },
    { "an owner", "-rw-r--r-- 1 ada ada > Nov 30 15:42 f@", "-rw-r--r-- 1 eve ada 8020 Nov 30 15:42 f20" },
    { "a name among names", "file@", "UNREACHABLE" },
    { "a name among paths", "src/pkg/module_@.py", "core" },
    { "another truth", "check @ says True", "check 20 says False" },
};
static const unsigned sizes[] = { 40, 400, 4000 };

START_TEST(a_line_that_breaks_the_pattern_stays)
{
    for (size_t size = 0; size < N_ELEMENTS(sizes); size++) {
        _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
        _cleanup_condensed_ struct condensed c = { 0 };
        _cleanup_free_ char *wanted = xasprintf("\n%s\n", rows[_i].odd);
        uint64_t state = 4711;
        for (unsigned n = 0; n < sizes[size]; n++)
            add_line(&raw, n == ODD ? rows[_i].odd : rows[_i].form, n, &state);
        const char *text = text_condense(&raw, &c);
        bool stays = c.unchanged ? sizes[size] <= 400 : strstr(text, wanted) != NULL && c.lines_after <= 25;
        ck_assert_msg(stays, "%s, %u lines:\n%s", rows[_i].what, sizes[size], text);
    }
}
END_TEST

START_TEST(a_missing_number_is_shown)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    for (unsigned n = 0; n < 60; n++)
        if (n != ODD)
            buffer_printf(&raw, "record %u written\n", n);
    ck_assert_str_eq(text_condense(&raw, &c),
                     "record 0 written\nrecord 1 written\n[18 similar lines]\nrecord 21 written\n"
                     "[37 similar lines]\nrecord 59 written\n"
                     "[condensed: 59 lines -> 6; 55 similar lines; raw: " TEXT_HOW "]\n");
}
END_TEST

/* What has a pattern, however it looks: none of these lines breaks it. */
static const struct {
    const char *what, *form, *other;
} even[] = {
    { "a number that another line has", "record @ written", "table 20 is full" },
    { "a counter that goes down", "< to go", NULL },
    { "two counters", "record @ of > written", NULL },
    { "digits by turns", "10:00:00.@ took ~ms", NULL },
};

START_TEST(a_pattern_that_holds_shows_nothing)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    uint64_t state = 4711;
    for (unsigned n = 0; n < 400; n++)
        add_line(&raw, n == ODD && even[_i].other ? even[_i].other : even[_i].form, n, &state);
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(!c.unchanged && c.lines_after == (even[_i].other ? 6 : 4), "%s:\n%s", even[_i].what, text);
}
END_TEST

/* A counter within a counter starts again on and on. */
START_TEST(many_exceptions_are_a_pattern)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    for (unsigned n = 0; n < 8000; n++)
        buffer_printf(&raw, "record %u is row %u\n", n, n % 100);
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(!c.unchanged && c.lines_after == 4, "%zu lines:\n%.2000s", c.lines_after, text);
}
END_TEST

START_TEST(the_branches_of_a_tree_are_no_pattern)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    for (unsigned n = 0; n < 400; n++)
        buffer_printf(&raw, "\u2502   %s module_%u.c\n",
                      n % 50 == 20 ? "\u2514\u2500\u2500" : "\u251c\u2500\u2500", n);
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(!c.unchanged && c.lines_after == 13, "%s", text);
}
END_TEST

int main(void)
{
    const struct {
        const TTest *test;
        size_t rows;
    } tests[] = { { a_line_that_breaks_the_pattern_stays, N_ELEMENTS(rows) },
                  { a_missing_number_is_shown, 1 },
                  { many_exceptions_are_a_pattern, 1 },
                  { the_branches_of_a_tree_are_no_pattern, 1 },
                  { a_pattern_that_holds_shows_nothing, N_ELEMENTS(even) } };
    Suite *s = suite_create("text_outliers");
    TCase *c = tcase_create("text_outliers");
    for (size_t i = 0; i < N_ELEMENTS(tests); i++)
        tcase_add_loop_test(c, tests[i].test, 0, (int)tests[i].rows);
    suite_add_tcase(s, c);
    return unit_run(s);
}
