/* lib/text: what a terminal shows, what lines are, and that nothing which matters is left out. */
#include "lib/base/utf8.h"
#include "lib/text/condense.h"
#include "lib/text/fold.h"
#include "lib/text/pattern.h"
#include "lib/text/recognise.h"
#include "tests/support/recordings.h"
#include "tests/support/terminal.h"
#include "tests/support/unit.h"

#include <stdio.h>

#define HOW "exec_id ex-1"

/* A generator whose numbers are the same everywhere. */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

static void take_line(void *context, const char *data, size_t length)
{
    buffer_append(context, data, length);
    buffer_append_char(context, '\n');
}

static void fold_text(const char *raw, size_t length, size_t columns, struct buffer *out)
{
    struct fold_sink sink = { .context = out, .line = take_line };
    fold(raw, length, columns, &sink);
}

static const struct {
    const char *raw, *shown;
    size_t columns;
} folds[] = {
    { "plain\n", "plain\n", 0 },
    { "no end", "no end\n", 0 },
    { "a\n\nb\n", "a\n\nb\n", 0 },
    { "a\r\nb\r\n", "a\nb\n", 0 },
    { "tab\there  \n", "tab\there  \n", 0 },
    { "10%\r55%\r100%\n", "100%\n", 0 },
    { "longer\rab\n", "abnger\n", 0 },
    { "longer\r\x1b[Kab\n", "ab\n", 0 },
    { "abc\b\bX\n", "aXc\n", 0 },
    { "\x1b[31merror:\x1b[0m\tred\n", "error:\tred\n", 0 },
    { "\x1b]0;a title\aok\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\\n", "oklink\n", 0 },
    { "\x1b]0;no end\nerror: kept\n", "0;no end\nerror: kept\n", 0 },
    { "\x1b]0;no end\nerror: kept\n\x1b]0;title\a", "0;no end\nerror: kept\n", 0 },
    { "\x1bPq no end\nkept\n", "q no end\nkept\n", 0 },
    { "one\ntwo\n\x1b[2Aon3\n", "on3\ntwo\n", 0 },
    { "one\ntwo\n\x1b[1A\x1b[2Knew\n", "one\nnew\n", 0 },
    { "one\ntwo\nthree\x1b[1A\x1b[1G\x1b[Jx\n", "one\nx\n", 0 },
    { "a\x1b[5Cb\n", "a     b\n", 0 },
    { "abcdef\x1b[4D\x1b[2Px\n", "abxf\n", 0 },
    { "abcd\x1b[3D\x1b[2@xy\n", "axybcd\n", 0 },
    { "\xC3\xA4\xE2\x82\xACx\r\xC3\xB6\n", "\xC3\xB6\xE2\x82\xACx\n", 0 },
    { "bad \xFF\xC3(\r\n", "bad \xFF\xC3(\n", 0 },
    { "bad \xFF\xC3(\x1b[m\n", "bad \xFF\xC3(\n", 0 },
    { "first\n\x1b[H\x1b[2Jsecond\n", "first\nsecond\n", 0 },
    { "first\n\x1b[2;1Hlow\x1b[1;1Htop\n", "first\ntop\nlow\n", 0 },
    { "log\n\x1b"
      "7\x1b[40;1H\x1b[42mProgress: [ 10%]\x1b[m\x1b"
      "8more\n",
      "log\nmore\n", 0 },
    { "shell\n\x1b[?1049h\x1b[Heditor\x1b[?1049lback\n", "shell\nback\n", 0 },
    { "\x1b[1;2;3", "", 0 },
    { "x\x1b", "x\n", 0 },
    { "\x1b[999999999999999999999Cx", NULL, 0 },
    { "a\x1b(Bb\x1b=c\n", "abc\n", 0 },
    { "nul\0", "nul\n", 0 },
    { "abcdefgh\r\nij\r\n", "abcdefgh\nij\n", 8 }, /* a full row needs no other */
    { "a long line stays one\r\n", "a long line stays one\n", 8 },
    { "\x1b[1ma long line stays one\x1b[m\r\n", "a long line stays one\n", 8 },
    { "\x1b[1m12345678\x1b[Kabc\r\n", "12345678abc\n", 8 },
    { "12345678abc\x1b[A\x1b[2K\rx\x1b[B\x1b[2K", "x\n", 8 },
    { "bar 1   bar 2   \r\x1b[2K\x1b[1A\x1b[2Kdone\r\n", "done\n", 8 },
};

START_TEST(folding)
{
    _cleanup_buffer_ struct buffer shown = BUFFER_INIT;
    fold_text(folds[_i].raw, strlen(folds[_i].raw), folds[_i].columns, &shown);
    if (folds[_i].shown != NULL)
        ck_assert_str_eq(buffer_text(&shown), folds[_i].shown);
}
END_TEST

/* What a terminal shows, tabs as the blanks that they stand for and without the empty end. */
static void comparable(const struct buffer *lines, struct buffer *out)
{
    size_t column = 0, full = 0;
    for (size_t at = 0; at < lines->length; at++) {
        char c = lines->data[at];
        size_t times = c == '\t' ? 8 - column % 8 : 1;
        for (size_t n = 0; n < times && c != '\n'; n++)
            buffer_append_char(out, c == '\t' ? ' ' : c);
        column = c == '\n' ? 0 : column + times;
        if (c != '\n')
            continue;
        while (out->length > 0 && out->data[out->length - 1] == ' ')
            out->length--;
        full = out->length > 0 && out->data[out->length - 1] != '\n' ? out->length + 1 : full;
        buffer_append_char(out, '\n');
    }
    out->length = full;
}

static void random_redraws(uint64_t *state, struct buffer *out)
{
    static const char *const pieces[] = {
        "word",
        "x",
        "10%",
        "  ",
        "\n",
        "\n",
        "\r\n",
        "\r",
        "\r",
        "\b\b",
        "\t",
        "\x1b[K",
        "\x1b[1K",
        "\x1b[2K",
        "\x1b[A",
        "\x1b[2A",
        "\x1b[B",
        "\x1b[3C",
        "\x1b[2D",
        "\x1b[5G",
        "\x1b[E",
        "\x1b[F",
        "\x1b[1m",
        "\x1b[m",
        "\x1b[2P",
        "\x1b[P",
        "\x1b[@",
        "\x1b[3@",
        "\x1b[2X",
        "\x1b]0;t\a",
        "\x1b[0;32mok",
        "\x1b[1J",
        "a longer piece of text",
        "\x1b[38;5;12mc\x1b[0m",
    };
    size_t count = 1 + draw(state) % 40;
    buffer_append_text(out, "start"); /* so that J at the home position, which scrolls, is not meant */
    for (size_t at = 0; at < count; at++)
        buffer_append_text(out, pieces[draw(state) % N_ELEMENTS(pieces)]);
}

START_TEST(folding_is_what_a_terminal_shows)
{
    uint64_t state = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        _cleanup_buffer_ struct buffer raw = BUFFER_INIT, folded = BUFFER_INIT, ours = BUFFER_INIT,
                                       theirs = BUFFER_INIT;
        random_redraws(&state, &raw);
        size_t columns = round % 2 == 0 ? 24 : 0;
        fold_text(raw.data, raw.length, columns, &folded);
        comparable(&folded, &ours);
        terminal_show(raw.data, raw.length, columns, &theirs);
        if (ours.length != theirs.length ||
            (ours.length > 0 && memcmp(ours.data, theirs.data, ours.length) != 0)) {
            _cleanup_buffer_ struct buffer seen = BUFFER_INIT;
            buffer_append_json(&seen, raw.data, raw.length);
            ck_abort_msg("round %d: %s\n--- ours\n%s\n--- a terminal\n%s", round, buffer_text(&seen),
                         buffer_text(&ours), buffer_text(&theirs));
        }
    }
}
END_TEST

static const struct {
    const char *pattern, *line;
    bool matches;
} patterns[] = {
    { "ok ~ #s*", "ok  \tpkg/x\t0.012s", true },
    { "ok ~ #s*", "ok then", false },
    { "# passed", "12 passed", true },
    { "# passed", "1,204 passed", true },
    { "# passed", "twelve passed", false },
    { "*a*b*c", "xxaxxbxxbxxc  ", true },
    { "*a*b*c", "xxaxxbxxbxxcx", false },
    { "~::* PASSED*", "t/a.py::x[a b] PASSED [ 3%]", true },
    { "~.py ^ [*#%]", "tests/a.py ..s..x [ 12%]", true },
    { "~.py ^ [*#%]", "tests/a.py ..F..x [ 12%]", false },
    { "~.py !", "tests/a.py ..F..x", true },
    { "~.py !", "tests/a.py ..s..x", false },
    { "~: Waiting", "a b: Waiting", false },
    { "", "  ", true },
    { "x", "", false },
    { "[#/#] *", "[12/340] CC x.o", true },
    { "~.^ ok*", "t/a.t .. ok", false },
    { "~ .^ ok*", "t/a.t .. ok", true },
};

START_TEST(patterns_match)
{
    ck_assert_msg(pattern_matches(patterns[_i].pattern, patterns[_i].line, strlen(patterns[_i].line)) ==
                      patterns[_i].matches,
                  "%s: %s", patterns[_i].pattern, patterns[_i].line);
}
END_TEST

static const struct {
    const char *line;
    enum line_kind kind;
    enum line_level level;
    bool sure;
} lines[] = {
    { "src/main.c:12:5: error: expected ';' before '}' token", KIND_PLAIN, LEVEL_FAILURE, false },
    { "src/main.c:12:5: warning: unused variable 'x'", KIND_PLAIN, LEVEL_WARNING, false },
    { "Traceback (most recent call last):", KIND_PLAIN, LEVEL_FAILURE, false },
    { "ValueError: bad literal", KIND_PLAIN, LEVEL_FAILURE, false },
    { "java.lang.NullPointerException", KIND_NAME, LEVEL_FAILURE, false },
    { "npm ERR! code E404", KIND_PLAIN, LEVEL_FAILURE, false },
    { "make: *** [Makefile:3: all] Error 1", KIND_PLAIN, LEVEL_FAILURE, false },
    { "FAILED tests/test_a.py::test_b - assert 1 == 2", KIND_PLAIN, LEVEL_FAILURE, false },
    { "tests/test_error.py::test_fail[error] PASSED   [ 12%]", KIND_PASS, LEVEL_FAILURE, true },
    { "tests/test_a.py::test_b[x y] FAILED   [ 12%]", KIND_PASS, LEVEL_FAILURE, false },
    { "tests/test_a.py::test_b ERROR   [ 12%]", KIND_PLAIN, LEVEL_FAILURE, false },
    { "  3/60 Test #3: sums ......***Failed    0.01 sec", KIND_PLAIN, LEVEL_FAILURE, false },
    { "    \u2715 adds 5", KIND_PLAIN, LEVEL_FAILURE, false },
    { "tests/test_a.py ..F..  [ 12%]", KIND_PLAIN, LEVEL_FAILURE, false },
    { "...F...   [ 12%]", KIND_PLAIN, LEVEL_FAILURE, false },
    { "F......   [ 12%]", KIND_PLAIN, LEVEL_FAILURE, false },
    { "tests/test_a.py .....  [ 12%]", KIND_PASS, LEVEL_NOTHING, true },
    { "test tests::adds ... ok", KIND_PASS, LEVEL_NOTHING, true },
    { "test tests::adds ... FAILED", KIND_PLAIN, LEVEL_FAILURE, false },
    { "not ok 3 - sums", KIND_PLAIN, LEVEL_FAILURE, false },
    { "ok 3 - dies with an error", KIND_PASS, LEVEL_FAILURE, true },
    { "12 passed, 0 failed", KIND_PLAIN, LEVEL_NOTHING, false },
    { "Failures: 0, Errors: 0", KIND_PLAIN, LEVEL_NOTHING, false },
    { "Failures: 1, Errors: 0", KIND_PLAIN, LEVEL_FAILURE, false },
    { "./docs/errors/error.md", KIND_LISTING, LEVEL_NOTHING, false },
    { "-rw-r--r-- 1 demo demo 12 Jan  1 10:00 error.log", KIND_LISTING, LEVEL_NOTHING, false },
    { "   45% [=========>          ] 3.1/7.0 MB", KIND_PROGRESS, LEVEL_NOTHING, false },
    { "certifi   ------------------------------ 16.00 KiB/130.91 KiB", KIND_PROGRESS, LEVEL_NOTHING, false },
    { "\u283c installing", KIND_PROGRESS, LEVEL_NOTHING, false },
    { "  Compiling serde v1.0.200", KIND_BUILD, LEVEL_NOTHING, true },
    { "[ 45%] Building C object a.c.o", KIND_BUILD, LEVEL_NOTHING, false },
    { "#12 sha256:0a1b2c3d 3.15MB / 28.4MB 0.2s", KIND_PROGRESS, LEVEL_NOTHING, false },
    { "#7 12.34 Get:3 http://x bookworm/main amd64 tree amd64 2.1.0-1 [52 kB]", KIND_INSTALL, LEVEL_NOTHING,
      false },
    { "#7 12.34 E: Unable to locate package nothing", KIND_PLAIN, LEVEL_FAILURE, false },
    { "#7 DONE 3.1s", KIND_BUILD, LEVEL_NOTHING, false },
    { "2026-11-30T10:30:00.123Z Collecting flask", KIND_INSTALL, LEVEL_NOTHING, true },
    { "npm http fetch GET 200 https://x/y 5ms (cache hit)", KIND_INSTALL, LEVEL_NOTHING, false },
    { "npm http fetch GET 404 https://x/y 5ms (cache skip)", KIND_PLAIN, LEVEL_FAILURE, false },
    { "Err:1 http://x bookworm InRelease", KIND_PLAIN, LEVEL_FAILURE, false },
    { "bash: line 1: foo: command not found", KIND_PLAIN, LEVEL_FAILURE, false },
    { "checking for foo... not found", KIND_BUILD, LEVEL_NOTE, true },
    { "write: No space left on device", KIND_PLAIN, LEVEL_FAILURE, false },
    { "Segmentation fault (core dumped)", KIND_PLAIN, LEVEL_FAILURE, false },
    { "thread 'main' panicked at src/main.rs:3:5:", KIND_PLAIN, LEVEL_FAILURE, false },
    { "the moon rose over quiet fields", KIND_PLAIN, LEVEL_NOTHING, false },
};

START_TEST(lines_are_recognised)
{
    _cleanup_recogniser_ struct recogniser *r = recogniser_new();
    struct line_facts facts;
    recognise(r, lines[_i].line, strlen(lines[_i].line), &facts);
    bool same =
        facts.kind == lines[_i].kind && facts.level == lines[_i].level && facts.sure == lines[_i].sure;
    ck_assert_msg(same, "%s: kind %d, level %d, sure %d", lines[_i].line, facts.kind, facts.level,
                  facts.sure);
}
END_TEST

static const struct {
    const char *one, *other;
    bool same;
} shapes[] = {
    { "step 12 of 400 took 1.5s", "step 7 of 9 took 12s", true },
    { "at 10:31:00.123 commit 3f2a91c0", "at 09:00:01.5 commit deadbeef12", true },
    { "copied src/a/b.c", "copied lib/x.h", true },
    { "wrote core.py", "wrote utils.py", true },
    { "loss=0.5 acc=93%", "loss=1.25 acc=7%", true },
    { "worker finished", "worker started", false },
    { "a b", "a b c", false },
};

START_TEST(shapes_leave_out_what_varies)
{
    _cleanup_recogniser_ struct recogniser *r = recogniser_new();
    struct line_facts one, other;
    recognise(r, shapes[_i].one, strlen(shapes[_i].one), &one);
    recognise(r, shapes[_i].other, strlen(shapes[_i].other), &other);
    ck_assert_msg((one.shape == other.shape) == shapes[_i].same, "%s / %s", shapes[_i].one, shapes[_i].other);
}
END_TEST

/* A text with a number where it says @. */
static void add_numbered(struct buffer *out, const char *text, uint64_t number)
{
    for (; *text != '\0'; text++)
        if (*text == '@')
            buffer_append_u64(out, number);
        else
            buffer_append_char(out, *text);
}

static void add_times(struct buffer *out, const char *text, uint64_t count)
{
    for (uint64_t at = 0; at < count; at++) {
        add_numbered(out, text, at);
        buffer_append_char(out, '\n');
    }
}

static const char *condensed_wide(const struct buffer *raw, size_t columns, struct condensed *c)
{
    condense(raw->data, raw->length, columns, HOW, c);
    ck_assert(c->unchanged ? c->text.length == 0 : c->text.length < raw->length);
    return buffer_text(&c->text);
}

static const char *condensed_text(const struct buffer *raw, struct condensed *c)
{
    return condensed_wide(raw, 0, c);
}

START_TEST(passing_tests_are_counted)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    buffer_append_text(&raw, "collected 41 items\n");
    add_times(&raw, "t/test_a.py::test_@ PASSED [ 50%]", 40);
    buffer_append_text(&raw,
                       "t/test_a.py::test_last FAILED [100%]\n\nE   assert 1 == 2\n1 failed, 40 passed\n");
    ck_assert_str_eq(condensed_text(&raw, &c),
                     "collected 41 items\n[40 passing-test lines]\n"
                     "t/test_a.py::test_last FAILED [100%]\n\nE   assert 1 == 2\n1 failed, 40 passed\n"
                     "[condensed: 45 lines -> 6; 40 passing-test lines; raw: " HOW "]\n");
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
    const char *text = condensed_text(&raw, &c);
    ck_assert_msg(strstr(text, "39 install steps") && strstr(text, "39 build steps") && !strstr(text, "test"),
                  "%s", text);
}
END_TEST

START_TEST(repeated_lines_are_counted)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    add_times(&raw, "epoch @ of 50: saved", 50);
    add_times(&raw, "the very same line", 30);
    ck_assert_str_eq(condensed_text(&raw, &c),
                     "epoch 0 of 50: saved\nepoch 1 of 50: saved\n[47 similar lines]\nepoch 49 of 50: saved\n"
                     "the very same line\nthe very same line\n[27 similar lines]\nthe very same line\n"
                     "[condensed: 80 lines -> 8; 74 similar lines; raw: " HOW "]\n");
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
    condensed_text(&raw, &c);
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
    const char *text = condensed_text(&raw, &c);
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
    condensed_text(&raw, &c);
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
    const char *text = condensed_text(&raw, &c);
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
    condensed_text(&raw, &c);
    ck_assert(c.unchanged);
}
END_TEST

START_TEST(little_is_left_unchanged)
{
    static const char *const little[] = { "", "x", "done\n", "a\r\nb\r\n", "ok 1\nok 2\nok 3\n", "\n\n\n\n" };
    for (size_t at = 0; at < N_ELEMENTS(little); at++) {
        struct condensed c;
        condense(little[at], strlen(little[at]), 0, HOW, &c);
        ck_assert(c.unchanged && c.text.length == 0);
    }
}
END_TEST

/* What has to survive, whatever stands around it. The number makes each unique. */
static const char *const needles[] = {
    "error: number @ is out of reach",
    "ERROR: relation \"t@\" does not exist",
    "main.c:@:7: error: expected expression before 'x'",
    "FATAL out of memory in worker @",
    "fatal: unable to read tree @",
    "Traceback (most recent call last): @",
    "KeyError: 'item@'",
    "assert x@ == y",
    "Assertion `n > @' failed.",
    "kernel: prog[@]: segfault at 0 ip 00007f rsp 00007ffd",
    "thread 'main' panicked at src/main.rs:@:5:",
    "panic: runtime error: index out of range [@] with length 3",
    "FAILED tests/test_x.py::test_@ - assert False",
    "--- FAIL: TestThing@ (0.00s)",
    "tests/test_x.py::test_y[a b-@] FAILED                     [ 12%]",
    "tests/test_x.py::test_@ ERROR   [  5%]",
    "test tests::adds_@ ... FAILED",
    "      \u2715 adds @ in gamma (3 ms)",
    " 7/61 Test #@: sums .....................***Failed    0.01 sec",
    "tests/test_@.py ..F.s.  [ 44%]",
    "[ERROR] /src/B.java:[@,35] invalid method declaration; return type required",
    "not ok @ - the sums differ",
    "make: *** [Makefile:@: all] Error 2",
    "npm ERR! code E@",
    "npm error code ENOENT @",
    "Command exited with non-zero status @",
    "Killed process @",
    "warning: unused variable `x@`",
    "E       AssertionError: assert @ == 4",
    "==@==ERROR: AddressSanitizer: heap-use-after-free",
    "[ERROR] Tests run: @, Failures: 1",
    "Connection refused by port @",
    "Downloading thing-@.tar.gz again, for the first try was rejected",
    "[ 50%] Watching the grass of @ fields grow instead of building",
    "the lighthouse keeper forgot lamp @ again",
    "Zebras outnumber @ trains on this quiet platform",
    "please move the piano before noon, says @",
};

/* The beginnings of lines, and of redraws of one. */
static size_t random_place(const struct buffer *raw, uint64_t *state)
{
    for (int tries = 0; tries < 200; tries++) {
        size_t at = draw(state) % (raw->length + 1);
        while (at > 0 && raw->data[at - 1] != '\n' && (raw->data[at - 1] != '\r' || raw->data[at] == '\n'))
            at--;
        if (at > 0)
            return at;
    }
    return 0;
}

static void insert(struct buffer *raw, size_t at, const char *line, bool terminal)
{
    struct buffer whole = BUFFER_INIT;
    buffer_append(&whole, raw->data, at);
    buffer_append_text(&whole, line);
    buffer_append_text(&whole, terminal ? "\r\n" : "\n");
    buffer_append(&whole, raw->data + at, raw->length - at);
    buffer_free(raw);
    *raw = whole;
}

enum { NEEDLES = 4 };

static void check_needles(const struct recording *recording, uint64_t *state)
{
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    _cleanup_condensed_ struct condensed c = { 0 };
    struct buffer hidden[NEEDLES] = { 0 };
    size_t first = draw(state) % N_ELEMENTS(needles);
    bool terminal = recording->columns > 0;
    buffer_append(&raw, recording->raw.data, recording->raw.length);
    for (size_t at = 0; at < NEEDLES; at++) {
        add_numbered(&hidden[at], needles[(first + at * 5) % N_ELEMENTS(needles)],
                     draw(state) % 90000 + 10000);
        insert(&raw, random_place(&raw, state), buffer_text(&hidden[at]), terminal);
    }
    condensed_wide(&raw, recording->columns, &c);
    for (size_t at = 0; at < NEEDLES; at++) {
        const char *line = buffer_text(&hidden[at]);
        ck_assert_msg(c.unchanged || memmem(c.text.data, c.text.length, line, hidden[at].length) != NULL,
                      "%s lost \"%s\"", recording->name, line);
        buffer_free(&hidden[at]);
    }
}

/* How often each recording is tried; UNDER = a program that makes everything slow. */
static int seeds(void)
{
    const char *wanted = getenv("SEEDS");
    return wanted != NULL ? atoi(wanted) : getenv("UNDER") != NULL ? 3 : 60;
}

START_TEST(what_went_wrong_survives)
{
    struct recordings all;
    recordings_load(&all);
    ck_assert_uint_ge(all.count, 50);
    for (size_t at = 0; at < all.count; at++) {
        uint64_t state = 1234567 + at * 7919;
        int rounds = all.rows[at].raw.length > 60000 ? seeds() / 3 : seeds();
        for (int round = 0; round < rounds; round++)
            check_needles(&all.rows[at], &state);
    }
    recordings_free(&all);
}
END_TEST

/* What stands between two texts of a recording is a failure with all that belongs to it. */
static const struct {
    const char *recording, *begin, *end;
} whole_failures[] = {
    { "pytest-fail.pipe", "\n====================", "" },
    { "pytest-fail-v.pipe", "\n=================================== FAILURES", "" },
    { "pytest-click-v.pipe", "\n=================================== FAILURES", "" },
    { "cargo-test-fail.pipe", "\nfailures:\n", "" },
    { "cargo-error.pipe", "error[", "" },
    { "cargo-warn.pipe", "warning: ", "    Checking demo" },
    { "go-test-fail.pipe", "--- FAIL: TestWrong", "=== RUN   TestPanics" },
    { "go-test-fail.pipe", "panic: ", "FAIL\t" },
    { "jest-fail.pipe", "  \u25cf gamma", "PASS sums" },
    { "mocha-fail.pipe", "  2 failing", "" },
    { "node-spec.pipe", "\u2716 failing tests:", "" },
    { "ctest-fail.pipe", "***Failed", "" },
    { "prove-v.pipe", "\n#   Failed test", "\nFiles=" },
    { "make-error.pipe", "/tmp/demo/lgbad/src/libgit2/blame.c: In function", "] Error 1\n" },
    { "gcc-warn.pipe", "", "" },
    { "mvn-fail.pipe", "Tests run: 20", "\nTests run: 20, Failures: 1, Errors: 0, Skipped: 0\n" },
    { "tsc.pipe", "", "" },
    { "vitest-fail.pipe", " FAIL  t/two", " Test Files" },
    { "uv-run-pytest.pipe", "\n=================================== FAILURES", "" },
};

static const struct recording *recording_named(const struct recordings *all, const char *name)
{
    for (size_t at = 0; at < all->count; at++)
        if (strcmp(all->rows[at].name, name) == 0)
            return &all->rows[at];
    ck_abort_msg("no recording %s", name);
}

START_TEST(failures_stay_whole)
{
    _cleanup_condensed_ struct condensed c = { 0 };
    struct recordings all;
    recordings_load(&all);
    const struct buffer *raw = &recording_named(&all, whole_failures[_i].recording)->raw;
    const char *begin =
        memmem(raw->data, raw->length, whole_failures[_i].begin, strlen(whole_failures[_i].begin));
    ck_assert_msg(begin != NULL, "%s: no beginning", whole_failures[_i].recording);
    size_t left = raw->length - (size_t)(begin - raw->data);
    const char *end = whole_failures[_i].end[0] == '\0'
                          ? begin + left
                          : memmem(begin, left, whole_failures[_i].end, strlen(whole_failures[_i].end));
    ck_assert_msg(end != NULL, "%s: no end", whole_failures[_i].recording);
    condensed_text(raw, &c);
    ck_assert_msg(c.unchanged || memmem(c.text.data, c.text.length, begin, (size_t)(end - begin)) != NULL,
                  "%s, %s: not whole", whole_failures[_i].recording, whole_failures[_i].begin);
    recordings_free(&all);
}
END_TEST

/* Compilers colour what they write to a terminal, and nothing more: 700 warnings, many wider than it. */
START_TEST(a_terminal_shows_what_a_pipe_got)
{
    _cleanup_condensed_ struct condensed c = { 0 };
    struct recordings all;
    recordings_load(&all);
    const struct recording *terminal = recording_named(&all, "gcc-warn.pty"),
                           *piped = recording_named(&all, "gcc-warn.pipe");
    condensed_wide(&terminal->raw, terminal->columns, &c);
    ck_assert_uint_ge(c.text.length, piped->raw.length);
    ck_assert(memcmp(c.text.data, piped->raw.data, piped->raw.length) == 0);
    recordings_free(&all);
}
END_TEST

/* Each line that a terminal shows and that tells of a failure stands in the result. */
struct lookup {
    struct recogniser *recogniser;
    const struct recording *recording;
    const struct condensed *condensed;
};

static void look_up(void *context, const char *data, size_t length)
{
    struct lookup *l = context;
    struct line_facts facts;
    recognise(l->recogniser, data, length, &facts);
    if (facts.level < LEVEL_WARNING || facts.sure)
        return;
    ck_assert_msg(memmem(l->condensed->text.data, l->condensed->text.length, data, length) != NULL,
                  "%s lost \"%.*s\"", l->recording->name, (int)length, data);
}

START_TEST(every_recorded_failure_stays)
{
    _cleanup_recogniser_ struct recogniser *r = recogniser_new();
    struct recordings all;
    recordings_load(&all);
    for (size_t at = 0; at < all.count; at++) {
        _cleanup_condensed_ struct condensed c = { 0 };
        struct lookup l = { .recogniser = r, .recording = &all.rows[at], .condensed = &c };
        struct fold_sink sink = { .context = &l, .line = look_up };
        condensed_wide(&all.rows[at].raw, all.rows[at].columns, &c);
        if (!c.unchanged)
            fold(all.rows[at].raw.data, all.rows[at].raw.length, all.rows[at].columns, &sink);
    }
    recordings_free(&all);
}
END_TEST

/* Of any piece of a recording, and of noise, the result is shorter or the raw bytes, and twice the same. */
START_TEST(never_longer_and_always_the_same)
{
    struct recordings all;
    uint64_t state = 4711;
    recordings_load(&all);
    for (size_t at = 0; at < all.count; at++) {
        const struct buffer *raw = &all.rows[at].raw;
        for (int round = 0; round < 12; round++) {
            size_t begin = draw(&state) % raw->length, length = draw(&state) % (raw->length - begin + 1);
            struct condensed one, two;
            condense(raw->data + begin, length, all.rows[at].columns, HOW, &one);
            condense(raw->data + begin, length, all.rows[at].columns, HOW, &two);
            ck_assert(one.unchanged ? one.text.length == 0 : one.text.length < length);
            ck_assert(one.text.length == two.text.length && one.unchanged == two.unchanged);
            ck_assert(one.text.length == 0 || memcmp(one.text.data, two.text.data, one.text.length) == 0);
            condensed_free(&one);
            condensed_free(&two);
        }
    }
    recordings_free(&all);
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
    condensed_text(&raw, &c);
    ck_assert(!c.unchanged && c.text.length < 2000);
    for (int at = 77; at < 300000; at += 50000) {
        _cleanup_free_ char *line = xasprintf("\nerror: number %d\n", at);
        ck_assert_ptr_nonnull(strstr(buffer_text(&c.text), line));
    }
    struct condensed whole;
    buffer_reserve(&raw, CONDENSE_MAX + 1);
    memset(raw.data, '\n', CONDENSE_MAX + 1);
    condense(raw.data, CONDENSE_MAX + 1, 0, HOW, &whole);
    ck_assert(whole.unchanged);
    condense(raw.data, CONDENSE_MAX, 0, HOW, &whole);
    ck_assert(!whole.unchanged && whole.text.length < 20000);
    condensed_free(&whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tables = tcase_create("tables"), *whole = tcase_create("whole");
    tcase_add_loop_test(tables, folding, 0, (int)N_ELEMENTS(folds));
    tcase_add_loop_test(tables, patterns_match, 0, (int)N_ELEMENTS(patterns));
    tcase_add_loop_test(tables, lines_are_recognised, 0, (int)N_ELEMENTS(lines));
    tcase_add_loop_test(tables, shapes_leave_out_what_varies, 0, (int)N_ELEMENTS(shapes));
    tcase_add_test(whole, folding_is_what_a_terminal_shows);
    tcase_add_test(whole, passing_tests_are_counted);
    tcase_add_test(whole, steps_that_end_well_are_no_tests);
    tcase_add_test(whole, repeated_lines_are_counted);
    tcase_add_test(whole, short_listings_and_code_stay);
    tcase_add_test(whole, failures_are_never_counted);
    tcase_add_test(whole, short_runs_stay);
    tcase_add_test(whole, redrawn_counters_are_no_new_errors);
    tcase_add_test(whole, binary_output_is_left_unchanged);
    tcase_add_test(whole, little_is_left_unchanged);
    tcase_add_loop_test(whole, failures_stay_whole, 0, (int)N_ELEMENTS(whole_failures));
    tcase_add_test(whole, a_terminal_shows_what_a_pipe_got);
    tcase_add_test(whole, every_recorded_failure_stays);
    tcase_add_test(whole, what_went_wrong_survives);
    tcase_add_test(whole, never_longer_and_always_the_same);
    tcase_add_test(whole, long_outputs_go_block_by_block);
    tcase_set_timeout(tables, 20);
    tcase_set_timeout(whole, 240);
    suite_add_tcase(suite, tables);
    suite_add_tcase(suite, whole);
    return unit_run(suite);
}
