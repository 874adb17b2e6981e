/* The grammar of patterns that name files, as tables. Nothing here opens a file. */
#include "lib/agent/search/glob.h"
#include "tests/support/unit.h"

#include <check.h>

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

int main(void)
{
    Suite *suite = suite_create("search_patterns");
    TCase *tests = tcase_create("patterns");
    tcase_add_loop_test(tests, test_patterns_find, 0, N_ELEMENTS(finds));
    tcase_add_loop_test(tests, test_piece_by_piece_is_the_same, 0, N_ELEMENTS(finds));
    tcase_add_loop_test(tests, test_patterns_exclude, 0, N_ELEMENTS(excludes));
    tcase_add_loop_test(tests, test_patterns_refused, 0, N_ELEMENTS(refused));
    tcase_add_test(tests, test_a_walk_sees_early_that_nothing_matches);
    tcase_add_test(tests, test_no_pattern_takes_long);
    tcase_add_loop_test(tests, test_what_ripgrep_is_told, 0, N_ELEMENTS(told));
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
