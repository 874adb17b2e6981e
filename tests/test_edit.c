/* Editing bytes: a table of cases, then random files and edits against an implementation that is slow and
 * plain. */
#include "lib/agent/edit/edit.h"
#include "lib/base/ids.h"
#include "tests/support/plain_edit.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <time.h>

#define B(text)                                                                                              \
    {                                                                                                        \
        (text), sizeof(text) - 1                                                                             \
    }
#define E(old, new)                                                                                          \
    {                                                                                                        \
        B(old), B(new), false, 0                                                                             \
    }
#define ALL(old, new)                                                                                        \
    {                                                                                                        \
        B(old), B(new), true, 0                                                                              \
    }
#define NTH(n, old, new)                                                                                     \
    {                                                                                                        \
        B(old), B(new), false, n                                                                             \
    }
enum { LIMIT = 64 << 20, EDITS = 3 };

static int apply(struct bytes file, const struct edit *edits, size_t count, struct edit_result *ret,
                 struct error *err)
{
    return edit_apply(file, edits, count, LIMIT, ret, err);
}

/* Outside of the spans both are the same, and what lies between them is in order. */
static void check_spans(struct bytes file, const struct edit_result *result)
{
    size_t at = 0, new_at = 0;
    for (size_t i = 0; i <= result->span_count; i++) {
        bool last = i == result->span_count;
        struct edit_span end = { file.length, 0, result->bytes.length, 0 };
        struct edit_span span = last ? end : result->spans[i];
        ck_assert_uint_ge(span.old_at, at);
        ck_assert_uint_ge(span.new_at, new_at);
        ck_assert_uint_eq(span.old_at - at, span.new_at - new_at);
        if (span.old_at > at)
            ck_assert_mem_eq(file.data + at, result->bytes.data + new_at, span.old_at - at);
        at = span.old_at + span.old_length;
        new_at = span.new_at + span.new_length;
        ck_assert_uint_le(at, file.length);
        ck_assert_uint_le(new_at, result->bytes.length);
    }
}

/* ---- the table ---- */

struct sample {
    const char *name;
    struct bytes file;
    struct edit edits[EDITS];
    struct bytes expected;
    size_t exact, fuzzy; /* 0 and 0: it is refused, expected is part of the message */
};

static const struct sample samples[] = {
    { "two edits",
      B("a = 1\nb = 2\n"),
      { E("a = 1", "a = 10"), E("b = 2", "b = 20") },
      B("a = 10\nb = 20\n"),
      2,
      0 },
    { "each on the result of the one before",
      B("one\n"),
      { E("one", "two"), E("two", "three") },
      B("three\n"),
      2,
      0 },
    { "the second fails: nothing is done",
      B("one\n"),
      { E("one", "two"), E("one", "three") },
      B("Edit 1: 'one' not found (tried exact and fuzzy match). An earlier edit of this call changed it."),
      0,
      0 },
    { "not found", B("print('hi')\n"), { E("absent", "x") }, B("Edit 0: 'absent' not found"), 0, 0 },
    { "not found: what comes near",
      B("int a;\nint main(void)\n{\n}\n"),
      { E("int main(int argc)", "x") },
      B("Nearest: line 2 is 'int main(void)'"),
      0,
      0 },
    { "not found: the line that differs",
      B("int a;\nif (x) {\n\tyy();\n}\n"),
      { E("if (x) {\n\tzz();\n}", "x") },
      B("Nearest: lines 2-4, where line 3 is '\\tyy();'"),
      0,
      0 },
    { "not found: nothing near", B("int a;\n"), { E("zzzzzzzzzz", "x") }, B("Nothing comes near it"), 0, 0 },
    { "lines told are the original's",
      B("a\nb\nxx1\nxx2\n"),
      { E("a\nb\n", "0\n1\n2\n3\n4\n5\n"), E("xx", "y") },
      B("found 2 times (exact match). Make it unique. It stands at lines 3, 4;"),
      0,
      0 },
    { "two exact matches",
      B("x = 1\nx = 1\n"),
      { E("x = 1", "x = 2") },
      B("Edit 0: 'x = 1' found 2 times (exact match). Make it unique. It stands at lines 1, 2;"),
      0,
      0 },
    { "matches that overlap are two",
      B("}\n}\n}\n"),
      { E("}\n}\n", "x\n") },
      B("found 2 times (exact match)"),
      0,
      0 },
    { "an occurrence", B("x\nx\nx\n"), { NTH(2, "x", "y") }, B("x\ny\nx\n"), 1, 0 },
    { "no such occurrence",
      B("x\nx\n"),
      { NTH(3, "x", "y") },
      B("has no occurrence 3: found 2 times, at lines 1, 2."),
      0,
      0 },
    { "all", B("x x\nx\n"), { ALL("x", "yy") }, B("yy yy\nyy\n"), 1, 0 },
    { "all and one", B("x\n"), { { B("x"), B("y"), true, 1 } }, B("exclude each other"), 0, 0 },
    { "nothing to do", B("a\nb\n"), { E("a", "a") }, B("a\nb\n"), 1, 0 },
    { "replacement is literal",
      B("x\n"),
      { E("x", "$$ $& $1 $' $` \\1 \\n & %s") },
      B("$$ $& $1 $' $` \\1 \\n & %s\n"),
      1,
      0 },
    { "what is looked for is literal", B("a.c abc\n"), { E("a.c", "x") }, B("x abc\n"), 1, 0 },
    /* deletion */
    { "a line goes with its end", B("a\nb\nc\n"), { E("b", "") }, B("a\nc\n"), 1, 0 },
    { "so it does with CRLF", B("a\r\nb\r\nc\r\n"), { E("b", "") }, B("a\r\nc\r\n"), 1, 0 },
    { "part of a line goes alone", B("a\nbc\n"), { E("b", "") }, B("a\nc\n"), 1, 0 },
    { "the last line without end", B("a\nb"), { E("b", "") }, B("a\n"), 1, 0 },
    { "everything", B("a\nb\n"), { E("a\nb\n", "") }, B(""), 1, 0 },
    { "the end of the file too", B("a\nb\n"), { E("\nb\n", "") }, B("a\n"), 1, 0 },
    { "fuzzy", B("if x:\n\tfoo\nbar\n"), { E("if x:\n  foo", "") }, B("bar\n"), 0, 1 },
    { "fuzzy, in the middle", B("a\n  b  \nc\n"), { E("b \nc", "c") }, B("a\nc\n"), 0, 1 },
    { "all lines that are", B("x\nax\nx\n"), { ALL("x", "") }, B("a\n"), 1, 0 },
    { "all that leaves no end", B("ab\nb\n"), { ALL("b\n", "") }, B("a\n"), 1, 0 },
    { "all, where an end is part of the next", B("\nx\nx\ny\n"), { ALL("\nx", "") }, B("\ny\n"), 1, 0 },
    /* an empty old */
    { "content for an empty file", B(""), { E("", "a\r\nb\n") }, B("a\r\nb\n"), 1, 0 },
    { "and for one with a mark", B("\xEF\xBB\xBF"), { E("", "\xEF\xBB\xBFx") }, B("\xEF\xBB\xBFx"), 1, 0 },
    { "but not for others", B("a"), { E("", "b") }, B("Edit 0: 'old' is empty, and the file is not"), 0, 0 },
    { "emptied, then filled", B("a\r\n"), { E("a\n", ""), E("", "b\nc\n") }, B("b\r\nc\r\n"), 2, 0 },
    /* line ends */
    { "CRLF stays", B("a\r\nb\r\nc\r\n"), { E("a\nb", "1\n2\n3") }, B("1\r\n2\r\n3\r\nc\r\n"), 1, 0 },
    { "new with CRLF in a file without", B("a\nb\n"), { E("a", "x\r\ny") }, B("x\ny\nb\n"), 1, 0 },
    { "old with CRLF in a file without", B("a\nb\n"), { E("a\r\nb", "x\r\ny") }, B("x\ny\n"), 1, 0 },
    { "mixed: the end of the place",
      B("a\nb\r\nc\r\nd\ne\nf\n"),
      { E("b\nc", "x\ny\nz") },
      B("a\nx\r\ny\r\nz\r\nd\ne\nf\n"),
      1,
      0 },
    { "mixed: the file's most", B("a\nb\r\nc\r\n"), { E("a", "x\ny") }, B("x\r\ny\nb\r\nc\r\n"), 1, 0 },
    { "mixed: lines that stay keep theirs",
      B("a\nb\r\nc\nd\r\n"),
      { E("a\nb\nc\nd", "a\nb\nX\nY\nd") },
      B("a\nb\r\nX\nY\nd\r\n"),
      1,
      0 },
    { "lone CR is a byte", B("10%\r20%\r\nend\n"), { E("10%\r20%", "1\r2") }, B("1\r2\r\nend\n"), 1, 0 },
    { "lone CR everywhere is an end", B("a\rb\rc\r"), { E("a\nb", "x\ny\nz") }, B("x\ry\rz\rc\r"), 1, 0 },
    { "no end at the end stays", B("a\nb"), { E("b", "c") }, B("a\nc"), 1, 0 },
    { "an end at the end stays", B("a\nb\n"), { E("b\n", "c") }, B("a\nc\n"), 1, 0 },
    { "no end at all: new's own", B("a"), { E("a", "b\r\nc\nd") }, B("b\r\nc\nd"), 1, 0 },
    { "a byte order mark stays",
      B("\xEF\xBB\xBF"
        "a\nb\n"),
      { E("a", "x") },
      B("\xEF\xBB\xBF"
        "x\nb\n"),
      1,
      0 },
    { "and is none of old's",
      B("\xEF\xBB\xBF"
        "a\nb\n"),
      { E("\xEF\xBB\xBF"
          "a",
          "x") },
      B("\xEF\xBB\xBF"
        "x\nb\n"),
      1,
      0 },
    { "nor doubled",
      B("\xEF\xBB\xBF"
        "a\n"),
      { E("a", "\xEF\xBB\xBFx") },
      B("\xEF\xBB\xBFx\n"),
      1,
      0 },
    { "a first line is fuzzy with it too",
      B("\xEF\xBB\xBF"
        "a  \nb\n"),
      { E("a\nb", "x\nb") },
      B("\xEF\xBB\xBF"
        "x\nb\n"),
      0,
      1 },
    /* bytes */
    { "form feed, VT, NEL, LS stay",
      B("a\f\n\vb\xC2\x85\xE2\x80\xA8"
        "c\nz\n"),
      { E("z", "y") },
      B("a\f\n\vb\xC2\x85\xE2\x80\xA8"
        "c\ny\n"),
      1,
      0 },
    { "and in a fuzzy edit",
      B("\fint a;  \nb\n\f\n\n"),
      { E("int a;\nb\n", "int c;\nb\n") },
      B("\fint c;\nb\n\f\n\n"),
      0,
      1 },
    { "NFC and NFD are not one",
      B("\xC3\xA9 e\xCC\x81\n"),
      { E("e\xCC\x81", "x") },
      B("\xC3\xA9 x\n"),
      1,
      0 },
    { "no UTF-8",
      B("\xFF\xFE\x80 a\xC3\n\xE2\x80"),
      { E(" a", " b") },
      B("\xFF\xFE\x80 b\xC3\n\xE2\x80"),
      1,
      0 },
    { "NULs", B("a\0b\0\n"), { E("\0b", "\0\0c") }, B("a\0\0c\0\n"), 1, 0 },
    { "UTF-16 is said",
      B("\xFF\xFE"
        "a\0b\0"),
      { E("ab", "c") },
      B("UTF-16"),
      0,
      0 },
    /* fuzzy */
    { "indentation is kept",
      B("def f():\n    return 1\n"),
      { E("def f():\n  return 1", "def f():\n  return 2") },
      B("def f():\n    return 2\n"),
      0,
      1 },
    { "of several lines",
      B("class A:\n    def f(self):\n        return 1\n"),
      { E("def f(self):\n    return 1\n", "def f(self):\n    x = 2\n    return x\n") },
      B("class A:\n    def f(self):\n        x = 2\n        return x\n"),
      0,
      1 },
    { "of a line deeper than any found",
      B("    a()\n    b()\n"),
      { E("a()\nb() ", "if c:\n    a()\nb()") },
      B("    if c:\n        a()\n    b()\n"),
      0,
      1 },
    { "of a line less deep",
      B("\tx {\n\t\ty\n\t}\n"),
      { E("    y\n}", "    z\n}") },
      B("\tx {\n\t\tz\n\t}\n"),
      0,
      1 },
    { "tabs for blanks",
      B("\tif (a)\n\t\tb();\n"),
      { E("if (a)\n    b();", "if (a) {\n    while (c)\n        b();\n}") },
      B("\tif (a) {\n\t\twhile (c)\n\t\t\tb();\n\t}\n"),
      0,
      1 },
    { "blanks for tabs",
      B("  if (a)\n    b();\n"),
      { E("if (a)\n\tb();", "if (a)\n\twhile (c)\n\t\tb();") },
      B("  if (a)\n    while (c)\n      b();\n"),
      0,
      1 },
    { "steps of two for steps of four",
      B("  x:\n      a\n  b\n"),
      { E("x:\n  a\nb", "x:\n  if y:\n    c\n  a\nb") },
      B("  x:\n      if y:\n          c\n      a\n  b\n"),
      0,
      1 },
    { "blanks that are no step stay",
      B("\tf(a,\n\t\tb);\n"),
      { E("f(a,\n    b);", "f(a,\n    b,\n      c);") },
      B("\tf(a,\n\t\tb,\n\t\t  c);\n"),
      0,
      1 },
    { "less deep than the first",
      B("\t\ta\n\t\tb\n"),
      { E("      a\n      b", "        x\n    y\n    z") },
      B("\t\tx\n\ty\n\tz\n"),
      0,
      1 },
    { "less deep than the file goes", B(" a\n b\n"), { E("a \nb", "    x\ny") }, B(" x\ny\n"), 0, 1 },
    { "blank lines stay blank", B("    a\n    b\n"), { E("a \nb", "x\n\ny") }, B("    x\n\n    y\n"), 0, 1 },
    { "lines that old gave flat",
      B("    if x:\n        a\n    b\n"),
      { E("if x:\na\nb", "if x:\nA\nb") },
      B("    if x:\n        A\n    b\n"),
      0,
      1 },
    { "old is right but for blanks at ends",
      B("  a  \n  b\n"),
      { E("  a\n  b", "c\n  d") },
      B("c\n  d\n"),
      0,
      1 },
    { "lines that stay are not touched",
      B("\ta  \n  b\n c \n"),
      { E("a\nb\nc", "a\nX\nc") },
      B("\ta  \n  X\n c \n"),
      0,
      1 },
    { "CRLF", B("\ta\r\n\tb\r\nc\r\n"), { E("a\nb ", "x\ny\nz") }, B("\tx\r\n\ty\r\n\tz\r\nc\r\n"), 0, 1 },
    { "both trailing ends stay", B("a \nb\n\n"), { E("a\nb", "c\nd") }, B("c\nd\n\n"), 0, 1 },
    { "the last line without end, fuzzy",
      B("x\n  a\n  b"),
      { E("a\n b", "c\n d\n") },
      B("x\n  c\n  d"),
      0,
      1 },
    { "one more behind it", B("x\n  a\n  b"), { E("a\n b", "a\n b\n c") }, B("x\n  a\n  b\n  c"), 0, 1 },
    { "insertion before", B("  a  \n  b\n"), { E("a\nb", "z\na\nb") }, B("  z\n  a  \n  b\n"), 0, 1 },
    { "insertion between", B("  a  \n  b\n"), { E("a\nb", "a\nz\nb") }, B("  a  \n  z\n  b\n"), 0, 1 },
    { "two fuzzy matches",
      B("\tx()\n\ty()\n  x()\n  y()\n"),
      { E("x()\ny()\n", "z") },
      B("Edit 0: Found 2 fuzzy matches. Make search text more unique. It stands at lines 1, 3;"),
      0,
      0 },
    { "an occurrence of them",
      B("\tx()\n\ty()\n  x()\n  y()\n"),
      { NTH(2, "x()\ny()", "z()") },
      B("\tx()\n\ty()\n  z()\n"),
      0,
      1 },
    { "all of them",
      B("\tx()\n\ty()\n  x()\n  y()\n"),
      { ALL("x()\ny()", "z()") },
      B("\tz()\n  z()\n"),
      0,
      1 },
    { "exact is before fuzzy", B("  a\nb\na\nb\n"), { E("\na\nb", "\nc") }, B("  a\nb\nc\n"), 1, 0 },
    { "one exact, one fuzzy",
      B("a\n  b\n  c\n"),
      { E("a", "x"), E("b\nc", "y\nz") },
      B("x\n  y\n  z\n"),
      1,
      1 },
    { "white space alone is never fuzzy",
      B("a\n\nb\n"),
      { E("  \n", "x") },
      B("White space alone matches exactly only"),
      0,
      0 },
    { "blanks between words",
      B("int  a =\t1;\nx\n"),
      { E("int a = 1;", "int b = 2;") },
      B("int b = 2;\nx\n"),
      0,
      1 },
    { "blanks at the ends are tried first", B(" a b\n a  b\n"), { E("a  b ", "c") }, B(" a b\n c\n"), 0, 1 },
    { "white space of several bytes is whole",
      B("\xC2\xA0x\n\xC2\xA0y\n"),
      { E(" x\n y", " u\nv") },
      B("\xC2\xA0u\n\xC2\xA0v\n"),
      0,
      1 },
    { "but not their absence", B("int a=1;\n"), { E("int a = 1;", "x") }, B("not found"), 0, 0 },
    { "lines that differ only between words are two",
      B("a  b\na   b\n"),
      { E("a b", "x") },
      B("Found 2 fuzzy matches"),
      0,
      0 },
    { "a part of a line is never fuzzy",
      B("foo   bar baz\n"),
      { E("foo bar", "XY") },
      B("Nearest: line 1 is 'foo   bar baz'"),
      0,
      0 },
};

static void check_sample(const struct sample *sample)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    size_t count = 1;
    while (count < EDITS && sample->edits[count].old.data != NULL)
        count++;
    int status = apply(sample->file, sample->edits, count, &result, &err);
    if (sample->exact + sample->fuzzy == 0) {
        ck_assert_msg(status < 0, "%s: is not refused", sample->name);
        ck_assert_msg(strstr(err.message, sample->expected.data) != NULL, "%s: %s", sample->name,
                      err.message);
        ck_assert_uint_eq(err.code, ERROR_INVALID);
        return;
    }
    ck_assert_msg(status == 0, "%s: %s", sample->name, err.message);
    struct bytes made = { result.bytes.data, result.bytes.length };
    ck_assert_msg(bytes_equal(made, sample->expected), "%s: made '%.*s'", sample->name, (int)made.length,
                  made.data);
    ck_assert_msg(result.exact == sample->exact && result.fuzzy == sample->fuzzy, "%s: %zu exact, %zu fuzzy",
                  sample->name, result.exact, result.fuzzy);
    check_spans(sample->file, &result);
}

START_TEST(case_of_the_table)
{
    check_sample(&samples[_i]);
}
END_TEST

/* ---- random files and edits ---- */

static unsigned dice(unsigned sides)
{
    uint32_t number;
    id_random(&number, sizeof(number));
    return number % sides;
}

/* Pieces that make matches, near matches and torn characters likely. kind: which line ends there are. */
static void add_piece(struct buffer *to, unsigned kind)
{
    static const struct bytes pieces[] = {
        B("a"),        B("b"),
        B("ab"),       B("a b"),
        B("  "),       B(" "),
        B("\t"),       B("\xC3\xA9"),
        B("\xFF"),     B("\xE2\x80"),
        B("\0"),       B("\f"),
        B("{"),        B("}"),
        B("\r"),       B("e\xCC\x81"),
        B("\xC2\xA0"), B("\xE2\x80\xA8"),
        B("x = 1;"),   B("\xF0\x9F\x98\x80"),
    };
    static const struct bytes ends[] = { B("\n"), B("\r\n"), B("\r"), B("\n"), B("\r\n") };
    bool is_end = dice(4) == 0;
    struct bytes piece = is_end ? ends[kind < 3 ? kind : dice(5)] : pieces[dice(N_ELEMENTS(pieces))];
    if (kind == 1 && !is_end && piece.data[0] == '\r')
        return;
    buffer_append(to, piece.data, piece.length);
}

static void random_text(struct buffer *to, unsigned most, unsigned kind)
{
    for (unsigned i = dice(most); i > 0; i--)
        add_piece(to, kind);
}

/* A part of the file, sometimes with other white space or line ends than it has there. */
static void random_old(struct buffer *to, struct bytes file, unsigned kind)
{
    size_t from = file.length > 0 ? dice((unsigned)file.length) : 0;
    size_t length = dice(4) == 0 ? dice(40) : dice(8) + 1;
    unsigned change = dice(4);
    for (size_t i = from; i < file.length && i < from + length; i++) {
        char c = file.data[i];
        if (change == 1 && c == '\r')
            continue;
        if (change == 2 && (c == ' ' || c == '\t') && dice(2) == 0)
            buffer_append_char(to, '\t');
        else if (change == 2 && c == '\n' && dice(2) == 0)
            buffer_append_text(to, " \n ");
        else
            buffer_append_char(to, c);
    }
    if (dice(20) == 0)
        random_text(to, 4, kind);
}

/* What old becomes: anything, or old with one place changed. */
static void random_new(struct buffer *to, const struct buffer *old, unsigned kind)
{
    unsigned how = dice(4);
    size_t at = old->length > 0 ? dice((unsigned)old->length) : 0;
    if (how == 0)
        return;
    if (how == 1)
        buffer_append(to, old->data, at);
    random_text(to, 8, kind);
    if (how <= 2)
        buffer_append(to, old->data + at, old->length - at);
}

/* What is told of marks stands in the table. */
static void drop_marks(struct buffer *text)
{
    if (memmem(buffer_text(text), text->length, "\xEF\xBB\xBF", 3) != NULL)
        text->length = 0;
}

struct round {
    struct buffer file, old[EDITS], new[EDITS];
    struct edit edits[EDITS];
    size_t count;
};

static void round_make(struct round *round)
{
    unsigned kind = dice(5);
    if (dice(6) == 0)
        buffer_append_text(&round->file, "\xEF\xBB\xBF");
    random_text(&round->file, dice(3) == 0 ? 8 : 60, kind);
    round->count = dice(EDITS) + 1;
    for (size_t i = 0; i < round->count; i++) {
        struct bytes file = { round->file.data, round->file.length };
        random_old(&round->old[i], file, kind);
        random_new(&round->new[i], &round->old[i], dice(4) == 0 ? 4 : kind);
        drop_marks(&round->old[i]);
        drop_marks(&round->new[i]);
        round->edits[i] = (struct edit){ { round->old[i].data, round->old[i].length },
                                         { round->new[i].data, round->new[i].length },
                                         dice(6) == 0,
                                         dice(5) == 0 ? dice(3) : 0 };
    }
}

static void round_free(struct round *round)
{
    buffer_free(&round->file);
    for (size_t i = 0; i < EDITS; i++) {
        buffer_free(&round->old[i]);
        buffer_free(&round->new[i]);
    }
}

static void show(const char *name, struct bytes text)
{
    printf("%s: \"", name);
    for (size_t i = 0; i < text.length; i++)
        printf(text.data[i] >= ' ' && text.data[i] < 127 ? "%c" : "\\x%02x", (unsigned char)text.data[i]);
    printf("\"\n");
}

static void show_round(const struct round *round, const struct buffer *plain, const struct buffer *made)
{
    show("file", (struct bytes){ round->file.data, round->file.length });
    for (size_t i = 0; i < round->count; i++) {
        show(" old", round->edits[i].old);
        show(" new", round->edits[i].new);
        printf(" all %d, occurrence %zu\n", round->edits[i].replace_all, round->edits[i].occurrence);
    }
    show("plain", (struct bytes){ plain->data, plain->length });
    show(" made", (struct bytes){ made->data, made->length });
    fflush(stdout);
}

/* Lines that were put by a fuzzy edit are new's but for white space at their start. */
static bool fuzzy_lines_are_new(const struct edit *edit, const struct edit_result *result)
{
    if (edit->replace_all || edit->new.length == 0 || result->span_count != 1)
        return true;
    struct bytes made = { result->bytes.data, result->bytes.length };
    _cleanup_buffer_ struct buffer put = BUFFER_INIT, wanted = BUFFER_INIT;
    plain_strip(bytes_cut(made, result->spans[0].new_at, result->spans[0].new_length), true, &put);
    plain_strip(edit->new, true, &wanted);
    return put.length == 0 || memmem(wanted.data, wanted.length, put.data, put.length) != NULL;
}

static enum plain_outcome check_round(const struct round *round)
{
    struct bytes file = { round->file.data, round->file.length };
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer plain = BUFFER_INIT;
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    enum plain_outcome outcome = plain_edit(file, round->edits, round->count, &plain);
    int status = apply(file, round->edits, round->count, &result, &err);
    bool agrees = outcome == PLAIN_FUZZY ? status < 0 || result.fuzzy > 0
                  : outcome == PLAIN_REFUSED
                      ? status < 0
                      : status == 0 && result.fuzzy == 0 &&
                            bytes_equal((struct bytes){ plain.data, plain.length },
                                        (struct bytes){ result.bytes.data, result.bytes.length });
    if (!agrees) {
        show_round(round, &plain, &result.bytes);
        ck_abort_msg("outcome %d, status %d %s, %zu fuzzy", outcome, status, err.message, result.fuzzy);
    }
    if (status == 0)
        check_spans(file, &result);
    if (outcome == PLAIN_FUZZY && round->count == 1) {
        ck_assert_msg(status == 0 || round->edits[0].occurrence > 1, "%s", err.message);
        if (status == 0 && !fuzzy_lines_are_new(&round->edits[0], &result)) {
            show_round(round, &plain, &result.bytes);
            ck_abort_msg("other lines");
        }
    }
    return outcome;
}

START_TEST(random_edits_are_as_plain_ones)
{
    size_t seen[3] = { 0 };
    for (int i = 0; i < 15000; i++) {
        struct round round = { .count = 0 };
        round_make(&round);
        seen[check_round(&round)]++;
        round_free(&round);
    }
    /* All kinds are common enough to have said something. */
    ck_assert_msg(seen[0] > 2500 && seen[1] > 1500 && seen[2] > 150, "%zu done, %zu refused, %zu fuzzy",
                  seen[0], seen[1], seen[2]);
}
END_TEST

/* ---- size ---- */

enum { LARGE_LINES = 125000, LARGE_EDITS = 100 };

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void repeat(struct buffer *to, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buffer_append_text(to, text);
}

/* Half of the edits match exactly, half but for white space; one line end in twenty is another. */
START_TEST(a_hundred_edits_of_five_megabytes)
{
    _cleanup_buffer_ struct buffer file = BUFFER_INIT;
    struct edit edits[LARGE_EDITS];
    char old[LARGE_EDITS][96], new[LARGE_EDITS][96];
    for (int i = 0; i < LARGE_LINES; i++)
        buffer_printf(&file, "    call_of_something(%06d, \"text\");%s", i, i % 20 == 0 ? "\n" : "\r\n");
    for (int i = 0; i < LARGE_EDITS; i++) {
        int line = i * 1234 + 17;
        const char *indent = i % 2 == 0 ? "    " : "\t";
        snprintf(old[i], sizeof(old[i]), "%scall_of_something(%06d, \"text\");\n%scall_of_something(%06d",
                 indent, line, indent, line + 1);
        if (i % 2 == 1)
            strcat(old[i], ", \"text\");");
        snprintf(new[i], sizeof(new[i]), "%sother(%d);\n%scall_of_something(%06d", indent, i, indent,
                 line + 2000000);
        edits[i] = (struct edit){ { old[i], strlen(old[i]) }, { new[i], strlen(new[i]) }, false, 0 };
    }
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    double begun = cpu_seconds();
    ck_assert_msg(apply((struct bytes){ file.data, file.length }, edits, LARGE_EDITS, &result, &err) == 0,
                  "%s", err.message);
    double took = cpu_seconds() - begun;
    printf("%zu bytes, %d edits: %.0f ms\n", file.length, LARGE_EDITS, took * 1000);
    fflush(stdout);
    ck_assert_uint_eq(result.exact, LARGE_EDITS / 2);
    ck_assert_uint_eq(result.fuzzy, LARGE_EDITS / 2);
    ck_assert_uint_eq(result.span_count, LARGE_EDITS);
    check_spans((struct bytes){ file.data, file.length }, &result);
    ck_assert_msg(took < 3, "%.3f s", took);
}
END_TEST

/* What could take time that grows with the product of two sizes. */
struct hostile {
    const char *name, *line;
    size_t times;
    const char *old_line;
    size_t old_times;
    const char *old_last, *new;
    bool replace_all;
    size_t replaced;
};
static const struct hostile hostile[] = {
    { "equal lines", "x\n", 1000000, "x\n", 500000, "y\n", "z", false, 0 },
    { "equal lines, fuzzy", "x\n", 1000000, " x\n", 300000, " y\n", "z", false, 0 },
    { "equal lines, fuzzy, all", "x\n", 1000000, " x\n", 300000, "", "z", true, 3 },
    { "equal lines, fuzzy, each", "x \n", 1000000, " x\n", 1, "", "  z\n", true, 1000000 },
    { "one long line", "a", 5000000, "a", 1000000, "b", "z", false, 0 },
    { "a short needle that nearly is", "a", 5000000, "a", 120, "b", "z", false, 0 },
    { "every byte is a match", "a", 5000000, "a", 1, "", "bb", true, 5000000 },
    { "every line is a match", "ab\n", 1500000, "b\n", 1, "", "", true, 1500000 },
    { "empty lines", "\n", 5000000, "\n", 1000000, "x", "z", false, 0 },
    { "blanks", " ", 5000000, " ", 1000000, "x", "z", false, 0 },
    { "blanks between words", "a  ", 1500000, "a ", 300000, "b", "z", false, 0 },
    { "half a line", "ab ab ab\n", 600000, "ab\n", 300000, "", "z", false, 0 },
    { "deep indentation", "\t\t\t\t\t\t\t\tx\n", 500000, "x\n\ty\n", 1, "", "x\n\ty\nz", false, 0 },
};

START_TEST(hostile_sizes_are_bounded)
{
    const struct hostile *h = &hostile[_i];
    _cleanup_buffer_ struct buffer file = BUFFER_INIT, old = BUFFER_INIT;
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    repeat(&file, h->line, h->times);
    repeat(&old, h->old_line, h->old_times);
    buffer_append_text(&old, h->old_last);
    struct edit edit = { { old.data, old.length }, { h->new, strlen(h->new) }, h->replace_all, 0 };
    double begun = cpu_seconds();
    int status = apply((struct bytes){ file.data, file.length }, &edit, 1, &result, &err);
    double took = cpu_seconds() - begun;
    printf("%s: %.0f ms, %s\n", h->name, took * 1000, status < 0 ? err.message : "done");
    fflush(stdout);
    ck_assert_int_eq(status < 0, !h->replace_all);
    ck_assert_uint_eq(result.replaced, h->replaced);
    ck_assert_msg(took < 10, "%s: %.3f s", h->name, took);
}
END_TEST

START_TEST(nothing_may_be_null)
{
    const struct bytes nothing = { NULL, 0 };
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT, filled = EDIT_RESULT_INIT;
    struct edit same = { nothing, nothing, false, 0 }, fill = { nothing, B("a"), false, 0 };
    ck_assert_int_eq(apply(nothing, &same, 1, &result, NULL), 0);
    ck_assert_uint_eq(result.bytes.length, 0);
    ck_assert_int_eq(apply(nothing, &fill, 1, &filled, NULL), 0);
    ck_assert_uint_eq(filled.bytes.length, 1);
    struct edit other = { B("a"), nothing, false, 0 };
    ck_assert_int_lt(apply(nothing, &other, 1, &result, NULL), 0);
}
END_TEST

/* More places than are looked at one by one. */
START_TEST(places_among_many_alike)
{
    static const struct {
        size_t times;
        const char *file_end;
        size_t old_times;
        const char *old_end;
        size_t replaced;
    } rows[] = {
        { 200, "b\n", 2, " b", 1 },     /* only the last one is followed by it */
        { 200, "b\na\nb", 2, " b", 1 }, /* a window that would begin too late */
        { 200, "b\n", 199, "", 0 },     /* twice, overlapping */
        { 200, "b\n", 200, "", 1 },     { 200, "a", 201, "", 1 }, { 200, "", 201, "", 0 },
    };
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        _cleanup_buffer_ struct buffer file = BUFFER_INIT, old = BUFFER_INIT;
        _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
        repeat(&file, "a\n", rows[i].times);
        buffer_append_text(&file, rows[i].file_end);
        repeat(&old, " a\n", rows[i].old_times);
        buffer_append_text(&old, rows[i].old_end);
        struct edit edit = { { old.data, old.length }, B("z"), false, 0 };
        apply((struct bytes){ file.data, file.length }, &edit, 1, &result, NULL);
        ck_assert_msg(result.fuzzy == rows[i].replaced, "row %zu: %zu", i, result.fuzzy);
    }
}
END_TEST

/* More places than are replaced at once. */
START_TEST(very_many_places)
{
    static const struct {
        const char *first, *line;
        const char *old, *new;
        const char *made_first, *made_line;
        size_t places;
    } rows[] = {
        { "a", "b\n", "b\n", "", "a\n", "", 1 },
        { "", "b\r\n", "b", "", "", "", 1 },
        { "", "\nx\n", "\nx", "", "", "", 1 },
        { "a", "\nx", "\nx", "", "a", "", 1 },
        { "", "b \n  c\n", " b\nc", "d\ne", "", "d\ne\n", 1 },
        { "", "b\n\r\n", "b\n", "1\n2\n3\n", "", "1\n2\n3\n\r\n", 1 },
        { "", "\n\nx\nx\nx", "\nx", "", "", "\n", 3 },
    };
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        _cleanup_buffer_ struct buffer file = BUFFER_INIT, wanted = BUFFER_INIT;
        _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
        buffer_append_text(&file, rows[i].first);
        repeat(&file, rows[i].line, 70000);
        buffer_append_text(&wanted, rows[i].made_first);
        repeat(&wanted, rows[i].made_line, 70000);
        struct edit edit = {
            { rows[i].old, strlen(rows[i].old) }, { rows[i].new, strlen(rows[i].new) }, true, 0
        };
        struct bytes original = { file.data, file.length };
        ck_assert_int_eq(apply(original, &edit, 1, &result, NULL), 0);
        ck_assert_uint_eq(result.replaced, rows[i].places * 70000);
        ck_assert_msg(bytes_equal((struct bytes){ result.bytes.data, result.bytes.length },
                                  (struct bytes){ wanted.data, wanted.length }),
                      "row %zu: %zu bytes of %zu", i, result.bytes.length, wanted.length);
        check_spans(original, &result);
    }
}
END_TEST

START_TEST(the_result_is_bounded)
{
    _cleanup_buffer_ struct buffer file = BUFFER_INIT, new = BUFFER_INIT;
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    repeat(&file, "  a\n", 1000000);
    repeat(&new, "0123456789", 100000);
    for (int fuzzy = 0; fuzzy < 2; fuzzy++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        struct edit edit = { { fuzzy ? "a " : "a", 1 + (size_t)fuzzy }, { new.data, new.length }, true, 0 };
        ck_assert_int_lt(apply((struct bytes){ file.data, file.length }, &edit, 1, &result, &err), 0);
        ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    }
    _cleanup_error_ struct error err = ERROR_INIT;
    struct edit crlf = { B("a"), B("a\nb\nc"), false, 0 };
    ck_assert_int_lt(edit_apply((struct bytes)B("x\r\na"), &crlf, 1, 9, &result, &err), 0);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    ck_assert_int_eq(edit_apply((struct bytes)B("x\r\na"), &crlf, 1, 10, &result, NULL), 0);
    ck_assert_uint_eq(result.bytes.length, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("edit");
    TCase *cases = tcase_create("edit"), *large = tcase_create("large");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, case_of_the_table, 0, (int)N_ELEMENTS(samples));
    tcase_add_test(cases, random_edits_are_as_plain_ones);
    tcase_set_tags(large, "timing");
    tcase_set_timeout(large, 120);
    tcase_add_test(large, a_hundred_edits_of_five_megabytes);
    tcase_add_loop_test(large, hostile_sizes_are_bounded, 0, (int)N_ELEMENTS(hostile));
    tcase_add_test(cases, nothing_may_be_null);
    tcase_add_test(cases, places_among_many_alike);
    tcase_add_test(cases, very_many_places);
    tcase_add_test(large, the_result_is_bounded);
    suite_add_tcase(suite, cases);
    suite_add_tcase(suite, large);
    return unit_run(suite);
}
