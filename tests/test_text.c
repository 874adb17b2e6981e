/* lib/text: what a terminal shows, and what lines are. */
#include "lib/text/fold.h"
#include "lib/text/pattern.h"
#include "lib/text/recognise.h"
#include "tests/support/terminal.h"
#include "tests/support/text_case.h"
#include "tests/support/unit.h"

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
    size_t count = 1 + text_draw(state) % 40;
    buffer_append_text(out, "start"); /* so that J at the home position, which scrolls, is not meant */
    for (size_t at = 0; at < count; at++)
        buffer_append_text(out, pieces[text_draw(state) % N_ELEMENTS(pieces)]);
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
    { "ok 3 - sums # TODO broken", KIND_SKIP, LEVEL_NOTE, true },
    { "ok 3 - sums # SKIP no floats here", KIND_SKIP, LEVEL_NOTE, true },
    { "ok 3 # SKIP", KIND_SKIP, LEVEL_NOTHING, true },
    { "ok 3 # skip on this machine", KIND_SKIP, LEVEL_NOTHING, true },
    { "test tests::adds ... ignored, too slow", KIND_SKIP, LEVEL_NOTE, true },
    { "test_adds (t.T) ... skipped 'too slow'", KIND_SKIP, LEVEL_NOTE, true },
    { "tests/test_a.py::test_b SKIPPED (too slow)   [ 12%]", KIND_SKIP, LEVEL_NOTE, true },
    { "tests/test_a.py ..s..  [ 12%]", KIND_SKIP, LEVEL_NOTHING, true },
    { ".....x...  [ 12%]", KIND_SKIP, LEVEL_NOTHING, true },
    { "s........  [ 12%]", KIND_SKIP, LEVEL_NOTHING, true },
    { "--- SKIP: TestAdds (0.00s)", KIND_SKIP, LEVEL_NOTHING, true },
    { "Ign:3 http://x bookworm InRelease", KIND_PLAIN, LEVEL_NOTHING, false },
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

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tables = tcase_create("tables"), *whole = tcase_create("whole");
    tcase_add_loop_test(tables, folding, 0, (int)N_ELEMENTS(folds));
    tcase_add_loop_test(tables, patterns_match, 0, (int)N_ELEMENTS(patterns));
    tcase_add_loop_test(tables, lines_are_recognised, 0, (int)N_ELEMENTS(lines));
    tcase_add_loop_test(tables, shapes_leave_out_what_varies, 0, (int)N_ELEMENTS(shapes));
    tcase_add_test(whole, folding_is_what_a_terminal_shows);
    tcase_set_timeout(tables, 20);
    tcase_set_timeout(whole, 240);
    suite_add_tcase(suite, tables);
    suite_add_tcase(suite, whole);
    return unit_run(suite);
}
