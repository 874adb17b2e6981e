/* lib/text/varying: of lines that differ in numbers alone, those whose numbers are content stay. */
#include "lib/text/varying.h"

#include "lib/base/buffer.h"
#include "lib/base/memory.h"
#include "lib/text/condense.h"
#include "tests/support/unit.h"

#include <stdio.h>

#define LINES 40
#define ODD   17

/* "@" is the line's number from 1 on, "~" one of no order, "&" one that only rises, by uneven steps, "%%" a
 * per cent sign. odd: the same for the line ODD alone; NULL = it is like all others. */
static const struct {
    const char *what, *line, *odd;
    enum varying varying;
} rows[] = {
    { "a counter", "epoch @ of 50: saved", NULL, VARYING_DULL },
    { "a counter behind letters", "import mod@", NULL, VARYING_DULL },
    { "addresses in order", "192.168.1.@ up", NULL, VARYING_DULL },
    { "thousands", "record 1,0@ written", NULL, VARYING_DULL },
    { "times", "2026-11-30T10:00:@.25Z request done", NULL, VARYING_DULL },
    { "times of a day", "10:@:00 tick", NULL, VARYING_DULL },
    { "times of uneven steps", "10:00:00.& tick", NULL, VARYING_DULL },
    { "seconds since the start", "[   &.25] tick", NULL, VARYING_DULL },
    { "a percentage that rises", "&%% done", NULL, VARYING_DULL },
    { "a measure in a log", "10:00:@ step took ~ms", NULL, VARYING_DULL },
    { "what was measured", "step @ took ~ms", NULL, VARYING_TELLING },
    { "a measure behind a blank", "chunk @ of ~ bytes", NULL, VARYING_TELLING },
    { "hashes", "object a~f~c~dd stored", NULL, VARYING_TELLING },
    { "ports that rise", "worker @ on port &", NULL, VARYING_TELLING },
    { "a value that rises", "epoch @ acc &.5", NULL, VARYING_TELLING },
    { "a value that rises evenly", "epoch @ rate 0.@", NULL, VARYING_TELLING },
    { "addresses that rise", "192.168.1.& up", NULL, VARYING_TELLING },
    { "a port in a path", "GET /p/~ done", NULL, VARYING_DULL },
    { "prices", "@,item@,~.50", NULL, VARYING_CONTENT },
    { "prices with line numbers", "@:@,item,~", NULL, VARYING_CONTENT },
    { "numbers behind line numbers", "1@:~", NULL, VARYING_CONTENT },
    { "ports", "worker listens on port ~", NULL, VARYING_CONTENT },
    { "points", "score ~ of team @", NULL, VARYING_CONTENT },
    { "another status", "GET /p/@ 200", "GET /p/@ 500", VARYING_DULL },
    { "another status between times", "10:00:@ request id=@ status=200", "10:00:@ request id=@ status=500",
      VARYING_DULL },
    { "a full disk", "disk@ 40%% in use", "disk@ 100%% in use", VARYING_DULL },
    { "a retry", "attempt 1 of job @", "attempt 3 of job @", VARYING_DULL },
};

static char *fill(const char *form, unsigned n)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    for (; *form; form++) {
        if (*form == '@')
            buffer_printf(&out, "%02u", n + 10);
        else if (*form == '~')
            buffer_printf(&out, "%u", 10 + n * 37 % 89);
        else if (*form == '&')
            buffer_printf(&out, "%u", 100 + n * (n % 2 ? n : n + 1));
        else if (*form != '%' || form[1] == '%')
            buffer_append_char(&out, *form);
    }
    return xstrdup(buffer_text(&out));
}

START_TEST(numbers_that_are_content_stay)
{
    struct varying_line lines[LINES] = { 0 };
    char *texts[LINES];
    for (unsigned n = 0; n < LINES; n++) {
        texts[n] = fill(n == ODD && rows[_i].odd ? rows[_i].odd : rows[_i].line, n);
        lines[n] = (struct varying_line){ .data = texts[n], .length = strlen(texts[n]) };
    }
    ck_assert_msg(varying_of(lines, LINES) == rows[_i].varying, "%s: %s", rows[_i].what, texts[0]);
    for (unsigned n = 0; n < LINES; n++) {
        ck_assert_msg(lines[n].odd == (n == ODD && rows[_i].odd), "%s: %s", rows[_i].what, texts[n]);
        free(texts[n]);
    }
}
END_TEST

/* Lines whose numbers cannot be compared, one by one, are content; so is a line full of numbers. */
START_TEST(what_cannot_be_compared_is_content)
{
    struct varying_line uneven[] = { { "a 1,37", 6, 0, false },
                                     { "a 1,375", 7, 0, false },
                                     { "a 2,11", 6, 0, false } };
    ck_assert_int_eq(varying_of(uneven, N_ELEMENTS(uneven)), VARYING_CONTENT);
    struct varying_line growing[] = { { "a 998", 5, 0, false },
                                      { "a 999", 5, 0, false },
                                      { "a 1,000", 7, 0, false },
                                      { "a 1,001", 7, 0, false } };
    ck_assert_int_eq(varying_of(growing, N_ELEMENTS(growing)), VARYING_DULL);
    _cleanup_buffer_ struct buffer many = BUFFER_INIT;
    for (int i = 0; i <= VARYING_FIELDS; i++)
        buffer_printf(&many, "%d ", i);
    struct varying_line full[] = { { many.data, many.length, 0, false },
                                   { many.data, many.length, 0, false } };
    ck_assert_int_eq(varying_of(full, N_ELEMENTS(full)), VARYING_CONTENT);
    struct varying_line edges[] = { { "1,024", 5, 0, false }, { "9", 1, 0, false }, { "", 0, 0, false } };
    for (size_t i = 0; i < N_ELEMENTS(edges); i++)
        ck_assert_int_eq(varying_of(&edges[i], 1), VARYING_DULL);
}
END_TEST

/* A number that moves twice in all: where it does is shown. */
START_TEST(where_a_number_moves_at_last_is_odd)
{
    struct varying_line lines[LINES] = { 0 };
    char *texts[LINES];
    for (unsigned n = 0; n < LINES; n++) {
        texts[n] = xasprintf("10:00:%02u code %u", n, n < 10 ? 200 : n < 20 ? 404 : 500);
        lines[n] = (struct varying_line){ .data = texts[n], .length = strlen(texts[n]) };
    }
    ck_assert_int_eq(varying_of(lines, LINES), VARYING_DULL);
    for (unsigned n = 0; n < LINES; n++) {
        ck_assert_msg(lines[n].odd == (n == 10 || n == 20), "%s", texts[n]);
        free(texts[n]);
    }
}
END_TEST

static void condense_rows(const char *form, const char *odd, struct condensed *ret)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    for (unsigned n = 0; n < LINES; n++) {
        _cleanup_free_ char *line = fill(n == ODD && odd ? odd : form, n);
        buffer_printf(&raw, "%s\n", line);
    }
    condense(raw.data, raw.length, 0, "exec_id ex-1", ret);
}

START_TEST(a_table_of_numbers_is_shown_whole)
{
    _cleanup_condensed_ struct condensed prices = { 0 }, counters = { 0 };
    condense_rows("@,item@,~.50", NULL, &prices);
    ck_assert(prices.unchanged);
    condense_rows("epoch @ of 50: saved", NULL, &counters);
    ck_assert(!counters.unchanged && counters.lines_after == 4);
}
END_TEST

START_TEST(what_is_unlike_its_neighbours_is_shown)
{
    _cleanup_condensed_ struct condensed c = { 0 };
    condense_rows("2026-11-30 10:00:@ INFO request id=@ took ~ms code=200",
                  "2026-11-30 10:00:@ INFO request id=@ took ~ms code=503", &c);
    ck_assert(!c.unchanged);
    ck_assert_msg(strstr(buffer_text(&c.text), "10:00:27 INFO request id=27 took 16ms code=503\n"), "%s",
                  c.text.data);
    ck_assert_uint_le(c.lines_after, 7);
}
END_TEST

int main(void)
{
    const struct {
        const TTest *test;
        int rows;
    } tests[] = { { numbers_that_are_content_stay, N_ELEMENTS(rows) },
                  { what_cannot_be_compared_is_content, 1 },
                  { where_a_number_moves_at_last_is_odd, 1 },
                  { a_table_of_numbers_is_shown_whole, 1 },
                  { what_is_unlike_its_neighbours_is_shown, 1 } };
    Suite *s = suite_create("varying");
    TCase *c = tcase_create("varying");
    for (size_t i = 0; i < N_ELEMENTS(tests); i++)
        tcase_add_loop_test(c, tests[i].test, 0, tests[i].rows);
    suite_add_tcase(s, c);
    return unit_run(s);
}
