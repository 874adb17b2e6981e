/* lib/text: what is counted, what stays, and what is left alone. */
#include "tests/support/text_case.h"
#include "tests/support/unit.h"

static void add_times(struct buffer *out, const char *text, uint64_t count)
{
    for (uint64_t at = 0; at < count; at++) {
        text_add_numbered(out, text, at);
        buffer_append_char(out, '\n');
    }
}

START_TEST(passing_tests_are_counted)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    buffer_append_text(&raw, "collected 41 items\n");
    add_times(&raw, "t/test_a.py::test_@ PASSED [ 50%]", 40);
    buffer_append_text(&raw,
                       "t/test_a.py::test_last FAILED [100%]\n\nE   assert 1 == 2\n1 failed, 40 passed\n");
    ck_assert_str_eq(text_condense(&raw, &c),
                     "collected 41 items\n[40 passing-test lines]\n"
                     "t/test_a.py::test_last FAILED [100%]\n\nE   assert 1 == 2\n1 failed, 40 passed\n"
                     "[condensed: 45 lines -> 6; 40 passing-test lines; raw: " TEXT_HOW "]\n");
    ck_assert_uint_eq(c.lines_before, 45);
    ck_assert_uint_eq(c.lines_after, 6);
}
END_TEST

/* ok at the end alone makes no test of a step. */
START_TEST(steps_that_end_well_are_no_tests)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, "Downloading package @ ... ok", 40);
    add_times(&raw, "Compiling module @... ok", 40);
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(strstr(text, "39 install steps") && strstr(text, "39 build steps") && !strstr(text, "test"),
                  "%s", text);
}
END_TEST

/* "@" is a number. A step that went wrong in its own line stays. */
static const struct {
    const char *step, *wrong;
} steps[] = {
    { "checking for header@.h... yes",
      "checking for C compiler... ./configure: line 4242: gcc-99: command not found" },
    { "checking for header@.h... yes",
      "checking build system type... Invalid configuration foo-bar: machine foo not recognized" },
    { "checking for header@.h... yes", "checking for sed... /usr/bin/sed9: No such file or directory" },
    { "-- Detecting C@ - done", "-- Check for working C compiler: /usr/bin/cc - broken" },
    { "go: downloading github.com/a/b@ v1.0.0",
      "go: downloading github.com/x/y v1.2.3: dial tcp: connection refused" },
    { "[INFO] Downloading from central: https://x/a@.jar",
      "[INFO] Downloading from central: https://x/bad.jar failed: 403 Forbidden" },
    { "Processing triggers for pkg@ (1.0) ...", "Processing triggers for libc-bin: failed: exit status 1" },
    { "Setting up pkg@ (1.0) ...", "Setting up foo (1.0) ... chown: invalid user: foo" },
    { "Collecting pkg@==1.0", "Collecting foo==9 ERROR: Could not find a version" },
    { "Get:@ http://x bookworm/main amd64 p@ amd64 1.0 [12 kB]",
      "Ign:33 http://x bookworm/main amd64 p33 amd64" },
    { "ok @ - t@", "ok 34 - t33 # TODO broken" },
    { "ok @ - t@", "ok 34 - t33 # SKIP no floats here" },
    { "test t@ ... ok", "test t33 ... ignored" },
    { "tests/test_@.py .......... [ @%]", "tests/test_33.py .....x.... [ 33%]" },
    { "test_@ (t.T) ... ok", "ERROR:root:could not connect to database ... ok" },
};

START_TEST(a_step_that_went_wrong_stays)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, steps[_i].step, 40);
    buffer_printf(&raw, "%s\n", steps[_i].wrong);
    add_times(&raw, steps[_i].step, 40);
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(!c.unchanged && strstr(text, steps[_i].wrong), "%s", text);
}
END_TEST

/* Few are news; of many the first ones are enough. */
START_TEST(many_skipped_tests_are_counted_apart)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT, wanted = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, "test a@ ... ok", 40);
    add_times(&raw, "test b@ ... ignored", 40);
    add_times(&raw, "test c@ ... ok", 40);
    buffer_append_text(&raw, "test result: ok\n");
    buffer_append_text(&wanted, "test a0 ... ok\n[39 passing-test lines]\n");
    add_times(&wanted, "test b@ ... ignored", 10);
    buffer_append_text(&wanted, "[40 passing-test lines, 30 lines of skipped tests]\ntest result: ok\n");
    const char *text = text_condense(&raw, &c);
    ck_assert_msg(strncmp(text, buffer_text(&wanted), wanted.length) == 0, "%s", text);
}
END_TEST

START_TEST(repeated_lines_are_counted)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, "epoch @ of 50: saved", 50);
    add_times(&raw, "the very same line", 30);
    ck_assert_str_eq(text_condense(&raw, &c),
                     "epoch 0 of 50: saved\nepoch 1 of 50: saved\n[47 similar lines]\nepoch 49 of 50: saved\n"
                     "the very same line\n[the same 29 times more]\n"
                     "[condensed: 80 lines -> 6; 76 similar lines; raw: " TEXT_HOW "]\n");
}
END_TEST

START_TEST(short_listings_and_code_stay)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, "./src/file_@.c", 30);
    buffer_append_text(&raw, "diff --git a/x b/x\n@@ -1,9 +1,9 @@\n");
    add_times(&raw, "+        value[@] = 0;\n", 30);
    for (char x = 'a'; x <= 'z'; x++) /* a table of packages */
        buffer_printf(&raw, "lib%cfirst     1.%c\nlib%csecond    2.%c\n", x, x, x, x);
    text_condense(&raw, &c);
    ck_assert(c.unchanged);
}
END_TEST

/* Failures that differ in numbers alone, and what belongs to them though it looks like noise. */
START_TEST(failures_are_never_counted)
{
    static const char context[] = "==================== FAILURES ====================\n"
                                  "t/test_a.py::test_1 PASSED\n"
                                  "t/test_a.py::test_2 PASSED\n"
                                  "t/test_a.py::test_3 PASSED\n"
                                  "t/test_a.py::test_4 PASSED\n"
                                  "==================== 1 failed ====================\n"
                                  "make: *** [Makefile:3: all] Error 1\n"
                                  "    [  1%] Building C object a.c.o\n"
                                  "    [  2%] Building C object b.c.o\n"
                                  "    [  3%] Building C object c.c.o\n"
                                  "    [  4%] Building C object d.c.o\n";
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT, errors = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&errors, "src/a.c:@:1: error: expected expression", 40);
    buffer_append(&raw, errors.data, errors.length);
    add_times(&raw, "t/test_a.py::test_@ PASSED", 40);
    buffer_append_text(&raw, context);
    add_times(&raw, "epoch @ of 50: saved", 50);
    const char *text = text_condense(&raw, &c);
    ck_assert(!c.unchanged);
    ck_assert_ptr_nonnull(memmem(text, c.text.length, errors.data, errors.length));
    ck_assert_ptr_nonnull(strstr(text, context));
}
END_TEST

START_TEST(short_runs_stay)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, "a line of some length with the number @ in it, again and again", 5);
    buffer_append_text(&raw, "and one more line that is like no other line in the whole of it\n");
    text_condense(&raw, &c);
    ck_assert(c.unchanged);
}
END_TEST

START_TEST(redrawn_counters_are_no_new_errors)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    buffer_append_text(&raw, "error: the first one\r");
    for (int at = 0; at < 500; at++)
        buffer_printf(&raw, "scanned %d files, errors: 1  \r", at);
    buffer_append_text(&raw, "\ndone\n");
    const char *text = text_condense(&raw, &c);
    ck_assert(!c.unchanged && c.lines_after < 15);
    ck_assert_ptr_nonnull(strstr(text, "error: the first one\n"));
    ck_assert_ptr_nonnull(strstr(text, "scanned 499 files, errors: 1\ndone\n"));
}
END_TEST

START_TEST(binary_output_is_left_unchanged)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    for (int at = 0; at < 500; at++) {
        buffer_printf(&raw, "./src/file_%d.c\r", at);
        buffer_append_char(&raw, '\0');
    }
    text_condense(&raw, &c);
    ck_assert(c.unchanged);
}
END_TEST

START_TEST(little_is_left_unchanged)
{
    static const char *const little[] = { "", "x", "done\n", "a\r\nb\r\n", "ok 1\nok 2\nok 3\n", "\n\n\n\n" };
    for (size_t at = 0; at < N_ELEMENTS(little); at++) {
        struct condensed c;
        condense(little[at], strlen(little[at]), 0, TEXT_HOW, &c);
        ck_assert(c.unchanged && c.text.length == 0);
    }
}
END_TEST

/* More lines and bytes than a block takes; a failure in each block; and what is too long is left alone. */
START_TEST(long_outputs_go_block_by_block)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    for (int at = 0; at < 300000; at++) {
        buffer_printf(&raw, "t/test_a.py::test_%d PASSED\n", at);
        if (at % 50000 == 77)
            buffer_printf(&raw, "error: number %d\n", at);
    }
    text_condense(&raw, &c);
    ck_assert(!c.unchanged && c.text.length < 2000);
    for (int at = 77; at < 300000; at += 50000) {
        _cleanup_free_ char *line = xasprintf("\nerror: number %d\n", at);
        ck_assert_ptr_nonnull(strstr(buffer_text(&c.text), line));
    }
    struct condensed whole;
    buffer_reserve(&raw, CONDENSE_MAX + 1);
    memset(raw.data, '\n', CONDENSE_MAX + 1);
    condense(raw.data, CONDENSE_MAX + 1, 0, TEXT_HOW, &whole);
    ck_assert(whole.unchanged);
    condense(raw.data, CONDENSE_MAX, 0, TEXT_HOW, &whole);
    ck_assert(!whole.unchanged && whole.text.length < 20000);
    condensed_free(&whole);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { passing_tests_are_counted,
                                   steps_that_end_well_are_no_tests,
                                   repeated_lines_are_counted,
                                   short_listings_and_code_stay,
                                   many_skipped_tests_are_counted_apart,
                                   failures_are_never_counted,
                                   short_runs_stay,
                                   redrawn_counters_are_no_new_errors,
                                   binary_output_is_left_unchanged,
                                   little_is_left_unchanged,
                                   long_outputs_go_block_by_block };
    Suite *s = suite_create("text_condense");
    TCase *c = tcase_create("text_condense");
    tcase_set_timeout(c, 240);
    for (size_t i = 0; i < N_ELEMENTS(tests); i++)
        tcase_add_test(c, tests[i]);
    tcase_add_loop_test(c, a_step_that_went_wrong_stays, 0, N_ELEMENTS(steps));
    suite_add_tcase(s, c);
    return unit_run(s);
}
