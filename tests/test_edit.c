/* Editing bytes: a table of cases. */
#include "tests/support/edit_case.h"
#include "tests/support/unit.h"

#include <check.h>

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
    int status = edit_try(sample->file, sample->edits, count, &result, &err);
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
    edit_check_spans(sample->file, &result);
}

START_TEST(case_of_the_table)
{
    check_sample(&samples[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("edit");
    TCase *cases = tcase_create("table");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, case_of_the_table, 0, (int)N_ELEMENTS(samples));
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
