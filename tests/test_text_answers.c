/* lib/text: what a command was asked for (names, ids, values) is no noise. It stays whole while it is short;
 * of what is longer both ends stay, and no count is of two different things. */
#include "lib/base/memory.h"
#include "tests/support/text_case.h"
#include "tests/support/unit.h"

/* "@" is the line's number from 1 on, "~" one of no order, "&" one that only rises, by uneven steps, "%" a
 * hash. */
static void add_lines(struct buffer *out, const char *form, unsigned count)
{
    uint64_t state = 4711;
    for (unsigned n = 1, risen = 10; n <= count; n++, risen += 1 + n * 37 % 89) {
        for (const char *at = form; *at != '\0'; at++)
            if (*at == '@')
                buffer_printf(out, "%u", n);
            else if (*at == '~')
                buffer_printf(out, "%u", 10 + n * 37 % 89);
            else if (*at == '&')
                buffer_printf(out, "%u", risen);
            else if (*at == '%')
                buffer_printf(out, "a%07x", (unsigned)text_draw(&state) & 0xFFFFFFFu);
            else
                buffer_append_char(out, *at);
        buffer_append_char(out, '\n');
    }
}

static const struct {
    const char *what, *form;
    unsigned lines;
} answers[] = {
    { "ls", "module_@.py", 72 },
    { "ls of short names", "f@.py", 31 },
    { "git ls-files, grep -rl", "src/pkg/module_@.py", 72 },
    { "git diff --stat", " src/pkg/module_@.py | ~ ++--", 72 },
    { "git status --short", " M src/pkg/module_@.py", 72 },
    { "git branch", "  feature/number-@", 60 },
    { "ls -l", "-rw-r--r-- 1 ada ada ~ Nov 30 10:00 module_@.py", 72 },
    { "grep -n", "src/pkg/module_@.py:~:import os", 72 },
    { "wc -l, sorted", "  & src/pkg/module_@.py", 60 },
    { "md5sum", "%%%%  file@.txt", 60 },
    { "hosts", "web-@.example.org", 50 },
    { "ids", "id_%", 50 },
    { "ids behind a word", "container %", 50 },
    { "process ids", "&", 60 },
    { "numbers in a row", "@", 500 },
    { "values", "~.~", 60 },
    { "values that rise", "&.25", 60 },
    { "values side by side", "@\t@0\t@5", 60 },
    { "dates", "2026-11-10 10:@:00", 49 },
    { "settings", "KEY_@=value@", 60 },
    { "ports that rise", "worker @ listens on port &", 60 },
    { "a loss that falls", "epoch @ loss 0.&1 acc 0.&2", 60 },
    { "what was measured", "run @: ~ ms", 60 },
    { "uv add", " + library==@.~.0", 27 },
    { "poetry add", "  - Installing library (@.~.0)", 60 },
    { "apk add", "(@/60) Installing library (@.~.0)", 60 },
    { "bundle install", "Installing library @.~.0", 60 },
    { "go get", "go: added example.org/library v@.~.0", 60 },
    { "cargo update", "    Adding library v@.~.0", 60 },
};

/* Between other lines, so that more than a name could be taken for what is around it. */
START_TEST(a_short_answer_stays_whole)
{
    static const char before[] = "a line before it\nthe second thing said\n12 lines were read\n";
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    buffer_append_text(&raw, before);
    add_lines(&raw, answers[_i].form, answers[_i].lines);
    buffer_append_text(&raw, "done and over\n");
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(c.unchanged, "%s:\n%s", answers[_i].what, text);
}
END_TEST

/* Behind noise, which goes. */
START_TEST(an_answer_outlives_the_noise_around_it)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT, answer = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_lines(&answer, answers[_i].form, answers[_i].lines);
    add_lines(&raw, "Collecting package@==1.0", 100);
    buffer_append_text(&raw, "here it is:\n");
    buffer_append(&raw, answer.data, answer.length);
    add_lines(&raw, "Collecting package@==2.0", 100);
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(!c.unchanged && memmem(text, c.text.length, answer.data, answer.length) != NULL, "%s:\n%s",
                  answers[_i].what, text);
}
END_TEST

START_TEST(the_names_of_three_commands_stay)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_lines(&raw, " src/pkg/module_@.py | 2 +-", 72);
    buffer_append_text(&raw, " 72 files changed, 72 insertions(+), 72 deletions(-)\n");
    add_lines(&raw, "src/pkg/module_@.py", 72);
    add_lines(&raw, " M src/pkg/module_@.py", 72);
    text_condense(&raw, &c);
    ck_assert(c.unchanged);
}
END_TEST

/* What a long answer is told by: its first ten lines, its last two, and what was left out between. */
static const struct {
    const char *form, *count;
    unsigned lines;
} long_answers[] = {
    { "src/pkg/module_@.py", "[988 entries: 988 .py]\n", 1000 },
    { "id_%", "[988 entries]\n", 1000 },
    { "@000", "[1988 similar lines]\n", 2000 },
    { " M src/pkg/module_@.py", "[988 similar lines]\n", 1000 },
    { "container %", "[988 similar lines]\n", 1000 },
    { "epoch @ loss &.1", "[988 similar lines]\n", 1000 },
};

START_TEST(of_a_long_answer_both_ends_stay)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT, wanted = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_lines(&raw, long_answers[_i].form, long_answers[_i].lines);
    const char *end = raw.data, *tail = raw.data + raw.length - 1;
    for (int line = 0; line < 10; line++)
        end = strchr(end, '\n') + 1;
    for (int line = 0; line < 2; line++)
        tail = memrchr(raw.data, '\n', (size_t)(tail - raw.data));
    buffer_append(&wanted, raw.data, (size_t)(end - raw.data));
    buffer_append_text(&wanted, long_answers[_i].count);
    buffer_append(&wanted, tail + 1, (size_t)(raw.data + raw.length - tail - 1));
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(strncmp(text, buffer_text(&wanted), wanted.length) == 0, "%s", text);
    ck_assert_uint_eq(c.lines_after, 13);
}
END_TEST

static void add_times(struct buffer *out, const char *text, unsigned count)
{
    while (count-- > 0)
        buffer_append_text(out, text);
}

START_TEST(equal_lines_are_counted_with_no_others)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT, wanted = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, "x\n", 20);
    add_times(&raw, "y\n", 50000);
    add_times(&wanted, "x\n", 20);
    buffer_append_text(&wanted, "y\n[the same 49999 times more]\n"
                                "[condensed: 50020 lines -> 22; 49999 similar lines; raw: " TEXT_HOW "]\n");
    ck_assert_str_eq(text_condense(&raw, &c), buffer_text(&wanted));
}
END_TEST

START_TEST(where_a_status_changes_is_shown)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed equal = { 0 }, timed = { 0 };
    add_times(&raw, "request done with code 200\n", 20);
    add_times(&raw, "request done with code 500\n", 30);
    ck_assert_str_eq(text_condense(&raw, &equal),
                     "request done with code 200\n[the same 19 times more]\n"
                     "request done with code 500\n[the same 29 times more]\n"
                     "[condensed: 50 lines -> 4; 48 similar lines; raw: " TEXT_HOW "]\n");
    raw.length = 0;
    for (int n = 0; n < 50; n++)
        buffer_printf(&raw, "10:00:%02d request done with code %d\n", n, n < 25 ? 200 : 500);
    ck_assert_str_eq(text_condense(&raw, &timed),
                     "10:00:00 request done with code 200\n10:00:01 request done with code 200\n"
                     "[23 similar lines]\n10:00:25 request done with code 500\n"
                     "[23 similar lines]\n10:00:49 request done with code 500\n"
                     "[condensed: 50 lines -> 6; 46 similar lines; raw: " TEXT_HOW "]\n");
}
END_TEST

START_TEST(lines_by_turns_are_counted_apart)
{
    static const char pair[] = "server says hello again\nclient says goodbye now\n";
    static const char *const more[] = { "red light", "green leaf", "blue sky", "brown earth", "white snow" };
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT, wanted = BUFFER_INIT, many = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 }, several = { 0 };
    add_times(&raw, pair, 60);
    add_times(&wanted, pair, 2);
    buffer_append_text(&wanted, "[57 + 57 similar lines]\n");
    add_times(&wanted, pair, 1);
    buffer_append_text(&wanted, "[condensed: 120 lines -> 7; 114 similar lines; raw: " TEXT_HOW "]\n");
    ck_assert_str_eq(text_condense(&raw, &c), buffer_text(&wanted));
    for (size_t n = 0; n < 60 * N_ELEMENTS(more); n++)
        buffer_printf(&many, "%s\n", more[n % N_ELEMENTS(more)]);
    const char *text = text_condense(&many, &several);
    ck_assert_msg(strstr(text, "\n[285 similar lines of several kinds]\n") != NULL, "%s", text);
}
END_TEST

/* Entries of an archive are told of by the way: few are enough, however short they are. */
START_TEST(steps_are_no_answer)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_lines(&raw, "  inflating: doc/page@.txt", 60);
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(strstr(text, "[48 entries: 48 .txt]") != NULL, "%s", text);
}
END_TEST

int main(void)
{
    const struct {
        const TTest *test;
        size_t rows;
    } tests[] = { { a_short_answer_stays_whole, N_ELEMENTS(answers) },
                  { an_answer_outlives_the_noise_around_it, N_ELEMENTS(answers) },
                  { the_names_of_three_commands_stay, 1 },
                  { of_a_long_answer_both_ends_stay, N_ELEMENTS(long_answers) },
                  { equal_lines_are_counted_with_no_others, 1 },
                  { where_a_status_changes_is_shown, 1 },
                  { lines_by_turns_are_counted_apart, 1 },
                  { steps_are_no_answer, 1 } };
    Suite *s = suite_create("text_answers");
    TCase *c = tcase_create("text_answers");
    for (size_t i = 0; i < N_ELEMENTS(tests); i++)
        tcase_add_loop_test(c, tests[i].test, 0, (int)tests[i].rows);
    suite_add_tcase(s, c);
    return unit_run(s);
}
