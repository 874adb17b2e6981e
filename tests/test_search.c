/* What searches do to bytes alone: the grammar of patterns, as tables; ripgrep's answers, whole, cut and
 * broken; clipped lines; pages of hits. Nothing here opens a file. */
#include "lib/agent/search/clip.h"
#include "lib/agent/search/glob.h"
#include "lib/agent/search/hits.h"
#include "lib/agent/search/order.h"
#include "lib/agent/search/ripgrep.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

/* ---- patterns ---- */

struct glob_case {
    const char *pattern, *path;
    bool matches;
};

static const struct glob_case finds[] = {
    /* without a slash: at any depth */
    { "*.py", "a.py", true },
    { "*.py", "x/y/a.py", true },
    { "*.py", "a.pyc", false },
    { "*.py", ".py", true },
    { "*.py", "x.py/a.c", false },
    { "main.py", "a/main.py", true },
    { "main.py", "a/domain.py", false },
    { "*", "a/b/.c", true },
    { "a*b*c", "x/aXbYc", true },
    { "a*b*c", "x/acb", false },
    /* hidden names are like others */
    { "*rc", "home/.bashrc", true },
    { ".*", ".a/b", false },
    { ".*", "a/.b", true },
    { "**/x", ".a/.b/x", true },
    /* with one: from the workspace on */
    { "src/*.py", "src/a.py", true },
    { "src/*.py", "lib/src/a.py", false },
    { "src/*.py", "src/x/a.py", false },
    { "./src/*.py", "src/a.py", true },
    { ".//src/*.py", "src/a.py", true },
    { "/workspace/src/*.py", "src/a.py", true },
    { "/workspace/a", "x/a", true }, /* then it has none any more */
    /* ** */
    { "**/*.py", "a.py", true },
    { "**/*.py", "x/y/z/a.py", true },
    { "src/**/*.py", "src/a.py", true },
    { "src/**/*.py", "src/x/a.py", true },
    { "src/**/*.py", "src/x/y/a.py", true },
    { "src/**/*.py", "srca.py", false },
    { "src/**/*.py", "src/xa.p", false },
    { "src/**", "src/a", true },
    { "src/**", "src/a/b/c", true },
    { "src/**", "src", false },
    { "src/**", "src2/a", false },
    { "**", "a", true },
    { "**", "a/b", true },
    { "a/**/**/b", "a/b", true },
    { "a/**/**/b", "a/x/y/b", true },
    { "**/a/**", "x/a/b", true },
    { "**/a/**", "a/b", true },
    { "**/a/**", "xa/b", false },
    { "a**b", "x/aXXb", true },
    { "a**/b", "aX/b", true },
    { "a**/b", "aX/Y/b", false },
    { "a/**b", "a/x/b", false },
    { "a/**b", "a/xb", true },
    { "***/a", "x/a", true }, /* a run of others than two is one star */
    { "***/a", "x/y/a", false },
    /* one character */
    { "?.c", "a.c", true },
    { "?.c", ".c", false },
    { "?.c", "ab.c", false },
    { "a?b", "a/b", false },
    { "x/a?b", "x/a/b", false },
    { "?.c", "\xc3\xa9.c", true },
    { "?.c", "\xff.c", true }, /* a byte that is no character is one */
    { "?.c", "\xe2\x98\xba.c", true },
    { "?.c", "\xe2\x98.c", false },
    /* sets */
    { "[abc].c", "b.c", true },
    { "[abc].c", "d.c", false },
    { "[a-c].c", "b.c", true },
    { "[a-c].c", "-.c", false },
    { "[a-].c", "-.c", true },
    { "[-a].c", "-.c", true },
    { "[!a-c].c", "d.c", true },
    { "[!a-c].c", "a.c", false },
    { "[^a].c", "b.c", true },
    { "[^a].c", "a.c", false },
    { "[!a]", "x/b", true },
    { "x[!a]y", "x/y", false },
    { "x[/]y", "x/y", false },
    { "x/[.-0]y", "x//y", false },
    { "[]]", "]", true },
    { "[]a]", "a", true },
    { "[!]]", "]", false },
    { "[!]]", "a", true },
    { "[\\]]", "]", true },
    { "[a\\-c]", "b", false },
    { "[a\\-c]", "-", true },
    { "[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true },
    { "[\xc3\xa0-\xc3\xbf]", "e", false },
    { "[a]*", "ab", true },
    { "app/[id]/page", "app/i/page", true },
    { "app/\\[id\\]/page", "app/[id]/page", true },
    /* alternatives */
    { "*.{c,h}", "x/a.h", true },
    { "*.{c,h}", "a.cc", false },
    { "*.{c}", "a.c", true },
    { "{a,b}", "x/b", true },
    { "a{,.bak}", "a", true },
    { "a{,.bak}", "a.bak", true },
    { "{src,lib}/*.c", "lib/a.c", true },
    { "{src,lib}/*.c", "x/lib/a.c", false },
    { "{a/b,c}/d", "a/b/d", true },
    { "{a/b,c}/d", "c/d", true },
    { "{a,{b,c}d}e", "bde", true },
    { "{a,{b,c}d}e", "ae", true },
    { "{a,{b,c}d}e", "be", false },
    { "{**/x,y}/z", "a/b/x/z", true },
    { "{**/x,y}/z", "x/z", true },
    { "{**/x,y}/z", "y/z", true },
    { "{**,a}/z", "q/r/z", true },
    { "*.{[ch],py}", "a.h", true },
    { "a,b", "a,b", true },
    { "a}b", "a}b", true },
    { "a]b", "a]b", true },
    { "{a,b\\,c}", "b,c", true },
    { "{a,b\\}}", "b}", true },
    /* below a folder */
    { "docs/", "docs/a", true },
    { "docs/", "x/docs/a/b", true },
    { "docs/", "docs", false },
    { "docs/", "mydocs/a", false },
    { "x/docs/", "x/docs/a", true },
    { "x/docs/", "y/x/docs/a", false },
    { "docs//", "docs/a", true },
    /* plain characters */
    { "\\*", "*", true },
    { "\\*", "a", false },
    { "a\\?", "a?", true },
    { "a\\\\b", "a\\b", true },
    { "a\\", "a\\", true },
    { "A.py", "a.py", false },
    { "a..b", "a..b", true },
    { "...", "x/...", true },
    { "~a", "~a", true },
    { "a\nb", "a\nb", true },
};

static bool glob_case_matches(enum glob_use use, const struct glob_case *c)
{
    struct error err = ERROR_INIT;
    _cleanup_glob_ struct glob *glob = glob_new(use);
    ck_assert_msg(glob_add(glob, "pattern", c->pattern, &err) == 0, "%s: %s", c->pattern, err.message);
    return glob_matches(glob, c->path, strlen(c->path));
}

START_TEST(test_patterns_find)
{
    const struct glob_case *c = &finds[_i];
    ck_assert_msg(glob_case_matches(GLOB_FIND, c) == c->matches, "%s %s %s", c->pattern,
                  c->matches ? "should match" : "should not match", c->path);
}
END_TEST

/* In an exclude a star crosses slashes, and what matches a folder covers what is in it. */
static const struct glob_case excludes[] = {
    { "*.py", "a/b.py", true },
    { "*.py", "a.py/b", true },
    { "main.py", "main.py", true },
    { "a*c", "a/b/c", true },
    { "x/a*c", "x/a/b/c", true },
    { "x/a*c", "a/b/c", false },
    { "tests", "tests/a", true },
    { "tests", "x/tests/a/b", true },
    { "tests", "tests2/a", false },
    { "tests/**", "tests/a/b", true },
    { "tests/**", "tests", false },
    { "tests/", "tests/a", true },
    { "tests/*", "tests/a/b", true },
    { "src/gen", "src/gen/x/y", true },
    { "src/gen", "src/general", false },
    { "a?c", "a/c", false },
    { "*_test.{c,py}", "x/y_test.py", true },
};

START_TEST(test_patterns_exclude)
{
    const struct glob_case *c = &excludes[_i];
    ck_assert_msg(glob_case_matches(GLOB_EXCLUDE, c) == c->matches, "%s %s %s", c->pattern,
                  c->matches ? "should cover" : "should not cover", c->path);
}
END_TEST

static const struct {
    const char *pattern, *contains;
} refused[] = {
    { "", "empty" },
    { "/", "absolute" },
    { "/etc/*", "absolute" },
    { "/workspace/", "empty" },
    { "/workspace2/a", "absolute" },
    { "../a", "traversal" },
    { "a/../b", "traversal" },
    { "a/..", "traversal" },
    { "..", "traversal" },
    { "~", "traversal" },
    { "~/a", "traversal" },
    { "[a", "'[' has no ']'" },
    { "[]", "'[' has no ']'" },
    { "[z-a]", "backwards" },
    { "{a,b", "'{' has no '}'" },
    { "a/{b,{c}", "'{' has no '}'" },
    { "{{{{{{{{{{{{{{{{{{{{a}}}}}}}}}}}}}}}}}}}}", "nested" },
    { "./", "empty" },
};

START_TEST(test_patterns_refused)
{
    struct error err = ERROR_INIT;
    _cleanup_glob_ struct glob *glob = glob_new(GLOB_FIND);
    ck_assert_msg(glob_add(glob, "pattern", refused[_i].pattern, &err) < 0, "%s", refused[_i].pattern);
    ck_assert_int_eq(err.code, ERROR_INVALID);
    ck_assert_msg(strstr(err.message, refused[_i].contains) != NULL, "%s: %s", refused[_i].pattern,
                  err.message);
    error_clear(&err);
}
END_TEST

/* A walk gives a path name by name and must come to the same. */
START_TEST(test_piece_by_piece_is_the_same)
{
    const struct glob_case *c = &finds[_i];
    struct glob_place place = { 0 }, next = { 0 };
    _cleanup_glob_ struct glob *glob = glob_new(GLOB_FIND);
    ck_assert_int_eq(glob_add(glob, "pattern", c->pattern, NULL), 0);
    glob_begin(glob, &place);
    for (const char *at = c->path; *at;) {
        size_t length = strcspn(at, "/");
        length = length ? length : 1;
        glob_go_on(glob, &place, at, length, &next);
        struct glob_place kept = place;
        place = next;
        next = kept;
        at += length;
    }
    ck_assert(glob_accepts(glob, &place) == c->matches);
    ck_assert(!c->matches || !glob_is_dead(&place));
    glob_place_clear(&place);
    glob_place_clear(&next);
}
END_TEST

START_TEST(test_a_walk_sees_early_that_nothing_matches)
{
    struct glob_place place = { 0 }, next = { 0 };
    _cleanup_glob_ struct glob *glob = glob_new(GLOB_FIND);
    ck_assert_int_eq(glob_add(glob, "pattern", "src/**/*.c", NULL), 0);
    ck_assert_int_eq(glob_add(glob, "pattern", "lib/*.c", NULL), 0);
    glob_begin(glob, &place);
    glob_go_on(glob, &place, "src/", 4, &next);
    ck_assert(!glob_is_dead(&next));
    glob_go_on(glob, &place, "lib/x/", 6, &next);
    ck_assert(glob_is_dead(&next));
    glob_go_on(glob, &place, "docs/", 5, &next);
    ck_assert(glob_is_dead(&next));
    glob_place_clear(&place);
    glob_place_clear(&next);
}
END_TEST

/* What makes other matchers try for years. */
START_TEST(test_no_pattern_takes_long)
{
    char pattern[4000] = "", path[4000];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    for (int i = 0; i < 400; i++)
        strcat(pattern, "{a,a*}*");
    strcat(pattern, "b");
    ck_assert(!glob_case_matches(GLOB_FIND, &(struct glob_case){ pattern, path, false }));
}
END_TEST

static const struct {
    const char *pattern, *names, *exclude;
} told[] = {
    { "*.py", "*.py", "!*.py" },
    { "src/**/*.c", "*.c", "!/src/**/*.c" },
    { "/workspace/src/*.c", "*.c", "!/src/*.c" },
    { "src/**", NULL, "!/src/**" },
    { "*.{c,h}", "*.{c,h}", NULL },
    { "*.{c,{h}}", NULL, NULL },
    { "a{,b}", NULL, NULL },
    { "{a,b}/x", NULL, NULL },
    { "[ab].c", NULL, NULL },
    { "?.c", NULL, NULL },
    { "docs/", NULL, "!docs/" },
    { "a ", "a ", NULL },
    { "a:b", NULL, NULL },
    { "!a", NULL, NULL },
    { "#a", NULL, NULL },
    { "a\\*", NULL, NULL },
};

START_TEST(test_what_ripgrep_is_told)
{
    _cleanup_free_ char *names = glob_for_names(told[_i].pattern),
                        *exclude = glob_for_exclude(told[_i].pattern);
    ck_assert_pstr_eq(names, told[_i].names);
    ck_assert_pstr_eq(exclude, told[_i].exclude);
}
END_TEST

/* ---- ripgrep's answers ---- */

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

/* ---- clipped lines ---- */

static const struct {
    uint64_t length, start, end, from, size;
} clips[] = {
    { 0, 0, 0, 0, 0 },
    { 10, 2, 4, 0, 10 },
    { CLIP_BYTES, 0, 1, 0, CLIP_BYTES },
    { CLIP_BYTES + 1, 0, 1, 0, CLIP_BYTES },
    { 10000, 0, 0, 0, CLIP_BYTES },
    { 10000, 100, 110, 0, CLIP_BYTES },
    { 10000, 5000, 5010, 5000 - CLIP_BYTES / 3, CLIP_BYTES },
    { 10000, 9990, 10000, 10000 - CLIP_BYTES, CLIP_BYTES },
    { 10000, 5000, 5400, 4950, CLIP_BYTES },                 /* a match that fits is shown whole */
    { 10000, 5000, 5600, 5000, CLIP_BYTES },                 /* of one that does not, the beginning */
    { 10000, 20000, 30000, 10000 - CLIP_BYTES, CLIP_BYTES }, /* lies are harmless */
    { UINT64_MAX, UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - CLIP_BYTES, CLIP_BYTES },
};

START_TEST(test_lines_are_clipped_around_the_match)
{
    uint64_t from, size;
    clip_choose(clips[_i].length, clips[_i].start, clips[_i].end, &from, &size);
    ck_assert_uint_eq(from, clips[_i].from);
    ck_assert_uint_eq(size, clips[_i].size);
}
END_TEST

START_TEST(test_no_half_characters_are_shown)
{
    const char *data = "\xa9needle\xc3";
    size_t length = strlen(data);
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    clip_to_characters(&data, &length, true, true);
    clip_show(&text, data, length, 4, 0);
    ck_assert_str_eq(buffer_text(&text), "[... 4 bytes ...] needle");
    data = "\xa9needle\xc3";
    length = strlen(data);
    clip_to_characters(&data, &length, false, false);
    ck_assert_uint_eq(length, 8);
    text.length = 0;
    clip_show(&text, data, length, 0, 12);
    ck_assert_str_eq(buffer_text(&text), "\xef\xbf\xbdneedle\xef\xbf\xbd [... 12 bytes ...]");
}
END_TEST

/* ---- the order of paths ---- */

START_TEST(test_paths_are_ordered_folder_by_folder)
{
    static const char *const sorted[] = { "a",
                                          "a/b",
                                          "a/b/c",
                                          "a/c",
                                          "a\x01"
                                          "b",
                                          "a b/x",
                                          "a-b",
                                          "a.c",
                                          "a.d/x",
                                          "aa",
                                          "b",
                                          "\xff" };
    for (size_t i = 0; i < N_ELEMENTS(sorted); i++)
        for (size_t k = 0; k < N_ELEMENTS(sorted); k++) {
            int order = order_of_paths(sorted[i], sorted[k]);
            ck_assert_msg((order < 0) == (i < k) && (order > 0) == (i > k), "%s %s", sorted[i], sorted[k]);
        }
}
END_TEST

/* ---- hits ---- */

static void add_line(struct hits *hits, int64_t line, bool matched, const char *text)
{
    hits_add(hits, &(struct hit){ .line = line,
                                  .matched = matched,
                                  .column = matched,
                                  .count = matched,
                                  .data = text,
                                  .length = strlen(text) });
}

/* "path: 1- 2+ ..." where + is a match. */
static void add_file(struct hits *hits, const char *path, const char *lines)
{
    char *end;
    hits_begin(hits, path, strlen(path));
    for (const char *at = lines; *at; at = end + 1 + (end[1] == ' ')) {
        int64_t line = strtoll(at, &end, 10);
        add_line(hits, line, *end == '+', "text");
        if (!end[1])
            break;
    }
    hits_end(hits, true);
}

static void expect_page(struct hits *hits, const char *expected)
{
    const char *path, *name;
    int64_t line, matches;
    const json_t *file, *shown;
    size_t i, k;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    json_auto_t *page = hits_page(hits, &path, &line, &matches);
    json_array_foreach(page, i, file) {
        name = json_string_value(json_object_get(file, "path"));
        buffer_printf(&text, "%s%s:", i ? " " : "", name);
        json_array_foreach(json_object_get(file, "lines"), k, shown)
            buffer_printf(&text, " %lld%c", (long long)json_integer_value(json_object_get(shown, "line")),
                          json_is_true(json_object_get(shown, "matched")) ? '+' : '-');
        buffer_append_text(&text, json_is_true(json_object_get(file, "more")) ? " more" : "");
    }
    if (path)
        buffer_printf(&text, " -> %s:%lld", path, (long long)line);
    ck_assert_str_eq(buffer_text(&text), expected);
}

static const struct hits_case {
    struct hits_rules rules;
    const char *files[9]; /* path, lines */
    const char *page;
} pages[] = {
    { { .limit = 10, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ 5+ b: 1+" },
    { { .limit = 3, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ 5+ b: 1+" },
    { { .limit = 2, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ 5+ -> b:1" },
    { { .limit = 1, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ -> a:5" },
    { { .limit = 9, .max_per_file = 2, .room = 90000 },
      { "a", "1+ 2+", "b", "1+ 2+ 3+" },
      "a: 1+ 2+ b: 1+ 2+ more" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .at_path = "a", .at_line = 5 },
      { "a", "3+ 5+ 7+", "b", "1+" },
      "a: 5+ 7+ b: 1+" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .at_path = "a", .at_line = INT64_MAX },
      { "a", "3+ 5+ 7+", "b", "1+" },
      "b: 1+" },
    /* the bound of a file counts from its beginning, whatever was on earlier pages */
    { { .limit = 9, .max_per_file = 2, .room = 90000, .at_path = "a", .at_line = 5 },
      { "a", "3+ 5+ 7+" },
      "a: 5+ more" },
    /* lines around */
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 1 },
      { "a", "4- 5+ 6- 9- 10+ 11-" },
      "a: 4- 5+ 6- 9- 10+ 11-" },
    { { .limit = 1, .max_per_file = 9, .room = 90000, .context = 1 },
      { "a", "4- 5+ 6- 9- 10+ 11-" },
      "a: 4- 5+ 6- -> a:10" },
    { { .limit = 9, .max_per_file = 1, .room = 90000, .context = 1 },
      { "a", "4- 5+ 6- 9- 10+ 11-" },
      "a: 4- 5+ 6- more" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 2, .at_path = "a", .at_line = 10 },
      { "a", "3- 4- 5+ 6- 7- 8- 9- 10+ 11- 12-" },
      "a: 8- 9- 10+ 11- 12-" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 3 },
      { "a", "1+ 2- 3+ 4-" },
      "a: 1+ 2- 3+ 4-" },
    /* a line that goes with nothing */
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 1 },
      { "a", "1- 2- 3-", "b", "1+" },
      "b: 1+" },
    /* little room: one match at least, lines around it only where they fit */
    { { .limit = 9, .max_per_file = 9, .room = 1, .context = 1 }, { "a", "1- 2+ 3- 4+" }, "a: 2+ -> a:4" },
    { { .limit = 9, .max_per_file = 9, .room = 500 }, { "b", "1+ 2+ 3+", "a", "1+" }, "a: 1+ b: 1+ 2+ -> b:3" },
    { { .limit = 9, .max_per_file = 9, .room = 90000 }, { NULL }, "" },
};

START_TEST(test_pages_of_hits)
{
    const struct hits_case *c = &pages[_i];
    struct hits *hits = hits_new(&c->rules);
    for (int i = 0; c->files[i]; i += 2)
        add_file(hits, c->files[i], c->files[i + 1]);
    expect_page(hits, c->page);
    hits_free(hits);
}
END_TEST

/* What was found in many small steps is the same page. */
START_TEST(test_hits_of_several_runs_are_one_page)
{
    const struct hits_case *c = &pages[_i];
    struct hits *all = hits_new(&c->rules), *run = hits_new(&c->rules);
    for (int i = 0; c->files[i]; i += 2) {
        add_file(run, c->files[i], c->files[i + 1]);
        hits_move(run, all);
    }
    expect_page(all, c->page);
    hits_free(run);
    hits_free(all);
}
END_TEST

START_TEST(test_a_page_is_all_that_is_kept)
{
    const struct hits_rules rules = { .limit = 3, .max_per_file = 2, .room = 90000 };
    struct hits *hits = hits_new(&rules);
    char path[20];
    for (int i = 99999; i > 0; i--) {
        snprintf(path, sizeof path, "%05d", i);
        add_file(hits, path, "1+ 2+ 3+");
    }
    ck_assert(hits_is_full(hits));
    expect_page(hits, "00001: 1+ 2+ more 00002: 1+ more -> 00002:2");
    hits_free(hits);
}
END_TEST

START_TEST(test_a_page_that_is_just_full_is_not_over)
{
    const struct hits_rules rules = { .limit = 2, .max_per_file = 9, .room = 90000 };
    struct hits *hits = hits_new(&rules);
    add_file(hits, "a", "1+ 2+");
    ck_assert(!hits_is_full(hits));
    add_file(hits, "b", "1+");
    ck_assert(hits_is_full(hits));
    hits_begin(hits, "c", 1); /* one that never ends is forgotten */
    add_line(hits, 1, true, "x");
    hits_free(hits);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("search");
    TCase *tests = tcase_create("patterns");
    tcase_add_loop_test(tests, test_patterns_find, 0, N_ELEMENTS(finds));
    tcase_add_loop_test(tests, test_piece_by_piece_is_the_same, 0, N_ELEMENTS(finds));
    tcase_add_loop_test(tests, test_patterns_exclude, 0, N_ELEMENTS(excludes));
    tcase_add_loop_test(tests, test_patterns_refused, 0, N_ELEMENTS(refused));
    tcase_add_test(tests, test_a_walk_sees_early_that_nothing_matches);
    tcase_add_test(tests, test_no_pattern_takes_long);
    tcase_add_loop_test(tests, test_what_ripgrep_is_told, 0, N_ELEMENTS(told));
    suite_add_tcase(suite, tests);
    tests = tcase_create("answers");
    tcase_add_test(tests, test_answers_are_read);
    tcase_add_loop_test(tests, test_what_is_no_answer_is_refused, 0, N_ELEMENTS(broken));
    tcase_add_test(tests, test_half_an_answer_is_not_whole);
    tcase_add_test(tests, test_little_is_kept_of_a_long_line);
    suite_add_tcase(suite, tests);
    tests = tcase_create("pages");
    tcase_add_loop_test(tests, test_lines_are_clipped_around_the_match, 0, N_ELEMENTS(clips));
    tcase_add_test(tests, test_no_half_characters_are_shown);
    tcase_add_test(tests, test_paths_are_ordered_folder_by_folder);
    tcase_add_loop_test(tests, test_pages_of_hits, 0, N_ELEMENTS(pages));
    tcase_add_loop_test(tests, test_hits_of_several_runs_are_one_page, 0, N_ELEMENTS(pages));
    tcase_add_test(tests, test_a_page_is_all_that_is_kept);
    tcase_add_test(tests, test_a_page_that_is_just_full_is_not_over);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
