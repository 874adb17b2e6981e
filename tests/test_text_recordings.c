/* lib/text, on outputs that real tools wrote: nothing which matters is left out. */
#include "lib/text/fold.h"
#include "lib/text/recognise.h"
#include "tests/support/recordings.h"
#include "tests/support/text_case.h"
#include "tests/support/unit.h"

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
        size_t at = text_draw(state) % (raw->length + 1);
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
    size_t first = text_draw(state) % N_ELEMENTS(needles);
    bool terminal = recording->columns > 0;
    buffer_append(&raw, recording->raw.data, recording->raw.length);
    for (size_t at = 0; at < NEEDLES; at++) {
        text_add_numbered(&hidden[at], needles[(first + at * 5) % N_ELEMENTS(needles)],
                          text_draw(state) % 90000 + 10000);
        insert(&raw, random_place(&raw, state), buffer_text(&hidden[at]), terminal);
    }
    text_condense_wide(&raw, recording->columns, &c);
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
    text_condense(raw, &c);
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
    text_condense_wide(&terminal->raw, terminal->columns, &c);
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
        text_condense_wide(&all.rows[at].raw, all.rows[at].columns, &c);
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
            size_t begin = text_draw(&state) % raw->length,
                   length = text_draw(&state) % (raw->length - begin + 1);
            struct condensed one, two;
            condense(raw->data + begin, length, all.rows[at].columns, TEXT_HOW, &one);
            condense(raw->data + begin, length, all.rows[at].columns, TEXT_HOW, &two);
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

int main(void)
{
    Suite *suite = suite_create("text_recordings");
    TCase *whole = tcase_create("whole");
    tcase_add_loop_test(whole, failures_stay_whole, 0, (int)N_ELEMENTS(whole_failures));
    tcase_add_test(whole, a_terminal_shows_what_a_pipe_got);
    tcase_add_test(whole, every_recorded_failure_stays);
    tcase_add_test(whole, what_went_wrong_survives);
    tcase_add_test(whole, never_longer_and_always_the_same);
    tcase_set_timeout(whole, 240);
    suite_add_tcase(suite, whole);
    return unit_run(suite);
}
