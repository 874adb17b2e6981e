/* Lines that a real agent finds in files, as the keeper's end of the channel sees them: odd, huge and binary
 * ones, in pages of any size, until time is over; nothing hangs them, and nobody else waits for them. */
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "tests/support/find_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

/* ---- lines ---- */

START_TEST(lines_are_found)
{
    in_workspace("mkdir d && printf 'one\\nA needle, needle\\nthree\\nneedles\\n' > d/f.c && printf 'needle' "
                 "> a.h && printf 'x\\r\\nNeedle\\r\\n' > z");
    expect_lines(grep("{s:s}", "pattern", "needle"),
                 "a.h:1:needle\nd/f.c:2:A needle, needle\nd/f.c:4:needles\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "case_sensitive", 0),
                 "a.h:1:needle\nd/f.c:2:A needle, needle\nd/f.c:4:needles\nz:2:Needle\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "whole_words", 1),
                 "a.h:1:needle\nd/f.c:2:A needle, needle\n");
    expect_lines(grep("{s:s}", "pattern", "^ne+dles$"), "d/f.c:4:needles\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "^ne+dles$", "literal", 1), "");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle, n", "literal", 1), "d/f.c:2:A needle, needle\n");
    expect_lines(grep("{s:s}", "pattern", "--files"), "");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "*.h"), "a.h:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "d/**"),
                 "d/f.c:2:A needle, needle\nd/f.c:4:needles\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "exclude_patterns", "d"), "a.h:1:needle\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "three", "path", "d"), "d/f.c:3:three\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "three", "path", "/workspace/d/f.c"), "d/f.c:3:three\n");
    expect_lines(grep("{s:s, s:i}", "pattern", "three", "context_lines", 1),
                 "d/f.c-2-A needle, needle\nd/f.c:3:three\nd/f.c-4-needles\n");
    const json_t *line = json_array_get(
        json_object_get(
            json_array_get(json_object_get(grep("{s:s}", "pattern", "needle,? needle|needle"), "files"), 1),
            "lines"),
        0);
    ck_assert_int_eq(ret_number(line, "column"), 3);
    ck_assert_int_eq(ret_number(line, "count"), 1);
}
END_TEST

START_TEST(an_end_of_a_line_is_one_before_a_carriage_return)
{
    folder_put_text("f", "foo\r\n\r\na foo\nfoo b$\r\n\nfoo");
    expect_lines(grep("{s:s}", "pattern", "foo$"), "f:1:foo\nf:3:a foo\nf:6:foo\n");
    expect_lines(grep("{s:s}", "pattern", "^$"), "f:2:\nf:5:\n");
    expect_lines(grep("{s:s}", "pattern", "b\\$$"), "f:4:foo b$\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "b$", "literal", 1), "f:4:foo b$\n");
    expect_lines(grep("{s:s}", "pattern", "foo\\r$"), "f:1:foo\n");
    expect_lines(grep("{s:s}", "pattern", "[ab]\\s*$"), "");
}
END_TEST

START_TEST(what_is_no_pattern_or_place_is_refused)
{
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(foo"), "unclosed group") != NULL);
    folder_put_text("f", "x");
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(foo"), "unclosed group") != NULL);
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(?=foo)"), "look-around") != NULL);
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(?=foo)"), "Consider") == NULL);
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "a{99999}{99999}"), "pattern") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:[s]}", "pattern", "x", "include_patterns", "[a"),
                     "include_patterns") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:[s]}", "pattern", "x", "exclude_patterns", "../a"),
                     "exclude_patterns") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "none"), "does not exist") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "/etc"), "leads out") != NULL);
    in_workspace("mkfifo fifo && ln -s /etc out");
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "fifo"), "FIFO") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "out"), "leads out") != NULL);
    char pattern[1001];
    memset(pattern, 'a', 1000);
    pattern[999] = '(';
    pattern[1000] = '\0';
    const char *message = grep_refused("{s:s}", "pattern", pattern);
    ck_assert_msg(strstr(message, "unclosed group") != NULL && strlen(message) < 500, "%s", message);
}
END_TEST

/* ripgrep takes "NAME:include:OTHERS" for words of its own. */
START_TEST(a_colon_in_a_pattern_is_a_character)
{
    in_workspace("echo needle > include:c; echo needle > include:a; echo needle > c.c; echo needle > x:y:z");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "include:{c,h}"),
                 "include:c:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "include:c"),
                 "include:c:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "{x:y:z,q}"),
                 "x:y:z:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "exclude_patterns", "include:{c,a}"),
                 "c.c:1:needle\nx:y:z:1:needle\n");
}
END_TEST

START_TEST(what_is_left_out_is_asked_for)
{
    in_workspace("mkdir -p .git node_modules/m sub/.hidden .venv && echo 'ignored*' > .gitignore && echo "
                 "needle > ignored.txt && "
                 "echo needle > sub/ignored.txt && echo needle > .git/x && echo needle > node_modules/m/x && "
                 "echo needle > "
                 "sub/.hidden/x && echo needle > .venv/x && echo needle > .h && echo needle > seen && echo "
                 "needle > sub/z");
    expect_lines(grep("{s:s}", "pattern", "needle"),
                 ".h:1:needle\nseen:1:needle\nsub/.hidden/x:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "hidden", 0), "seen:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:b, s:[s]}", "pattern", "needle", "hidden", 0, "include_patterns", ".h"), "");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "gitignore", 0),
                 ".h:1:needle\nignored.txt:1:needle\nseen:1:needle\nsub/.hidden/x:1:needle\nsub/"
                 "ignored.txt:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "default_ignores", 0),
                 ".git/x:1:needle\n.h:1:needle\n.venv/x:1:needle\nnode_modules/m/"
                 "x:1:needle\nseen:1:needle\nsub/.hidden/x:1:needle\nsub/z:1:needle\n");
    /* What a pattern asks for is not brought back by it. */
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "*.txt"), "");
    /* The rules of folders above hold in one below; a place that is named is searched. */
    expect_lines(grep("{s:s, s:s}", "pattern", "needle", "path", "sub"),
                 "sub/.hidden/x:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "needle", "path", "node_modules/m"),
                 "node_modules/m/x:1:needle\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "needle", "path", "ignored.txt"), "ignored.txt:1:needle\n");
}
END_TEST

static void long_line(const char *name, const char *before, size_t n_before, const char *match,
                      const char *after, size_t n_after)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    for (size_t i = 0; i < n_before; i++)
        buffer_append_text(&line, before);
    buffer_append_text(&line, match);
    for (size_t i = 0; i < n_after; i++)
        buffer_append_text(&line, after);
    folder_put(name, line.data, line.length);
}

static const json_t *the_line(const json_t *ret)
{
    ck_assert_int_eq(ret_number(ret, "matches"), 1);
    return json_array_get(json_object_get(json_array_get(json_object_get(ret, "files"), 0), "lines"), 0);
}

START_TEST(a_huge_line_is_shown_around_its_match)
{
    long_line("min.js", "var a=1;", 655360, "/*needle*/", "b();", 1310720);
    const json_t *line = the_line(grep("{s:s}", "pattern", "needle"));
    ck_assert_int_eq(ret_number(line, "column"), 8 * 655360 + 3);
    ck_assert(json_is_true(json_object_get(line, "clipped")));
    ck_assert_msg(strlen(found_text(line, "text")) < 600, "%zu", strlen(found_text(line, "text")));
    ck_assert(strstr(found_text(line, "text"), "a=1;var a=1;/*needle*/b();b();") != NULL);
    ck_assert(strncmp(found_text(line, "text"), "[... 52427", 10) == 0);
    long_line("min.js", "\xc3\xa9", 1000000, "needle", "\xe2\x98\xba", 1000000);
    line = the_line(grep("{s:s}", "pattern", "needle"));
    ck_assert(strstr(found_text(line, "text"), "\xc3\xa9needle\xe2\x98\xba") != NULL);
    ck_assert(strstr(found_text(line, "text"), "\xef\xbf\xbd") == NULL);
    ck_assert_ptr_null(json_object_get(line, "text_base64"));
    long_line("min.js", "\xe9", 1000000, "needle", "\xe9", 1000000);
    line = the_line(grep("{s:s}", "pattern", "needle"));
    _cleanup_buffer_ struct buffer exact = BUFFER_INIT;
    ck_assert(
        base64_decode(found_text(line, "text_base64"), strlen(found_text(line, "text_base64")), &exact));
    ck_assert(strstr(buffer_text(&exact), "\xe9needle\xe9") != NULL);
    /* A match that is longer than what is shown. */
    long_line("min.js", "x", 1000000, "", "y", 1000000);
    line = the_line(grep("{s:s}", "pattern", "y+"));
    ck_assert_int_eq(ret_number(line, "column"), 1000001);
    ck_assert(strncmp(found_text(line, "text"), "[... 1000000 bytes ...] yyyy", 28) == 0);
    long_line("min.js", "\n", 0, "a\nneedle\n", "z", 5000000);
    expect_lines(grep("{s:s, s:i, s:i}", "pattern", "needle", "context_lines", 1, "max_bytes", 300),
                 "min.js-1-a\nmin.js:2:needle\n");
}
END_TEST

START_TEST(binary_files_are_told_not_shown)
{
    folder_put("before", "\0\0needle\n", 9);
    folder_put("behind", "needle\n\0\0", 9);
    folder_put_text("good", "needle\n");
    folder_put("wide", "\xff\xfen\0e\0e\0d\0l\0e\0\n\0", 16);
    const json_t *ret = grep("{s:s}", "pattern", "needle");
    expect_lines(ret, "good:1:needle\nwide:1:needle\n");
    ck_assert_int_eq(ret_number(ret, "binary_files"), 2);
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    append_paths(&found, json_object_get(ret, "binary"));
    ck_assert_msg(strstr(buffer_text(&found), "before\n") && strstr(buffer_text(&found), "behind\n"), "%s",
                  buffer_text(&found));
}
END_TEST

START_TEST(odd_things_are_no_lines)
{
    in_workspace("mkfifo fifo && ln -s . loop && ln -s /etc/passwd passwd && ln -s /etc etc && echo root: > "
                 "$'new\\nline' && echo root: > "
                 "$'bad\\xff' && echo root: > ./- && echo root: > ./--files && echo root: > no && chmod 0 no "
                 "&& ln -s - link");
    const json_t *ret = grep("{s:s}", "pattern", "root:");
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    append_paths(&found, json_object_get(ret, "files"));
    bool reads_all = geteuid() == 0;
    ck_assert_str_eq(buffer_text(&found), reads_all ? "-\n--files\nbad\xff\nnew\\nline\nno\n"
                                                    : "-\n--files\nbad\xff\nnew\\nline\n");
    ck_assert_int_eq(ret_number(ret, "unreadable"), reads_all ? 0 : 1);
}
END_TEST

/* ---- pages of lines ---- */

static int grep_in_pages(const char *pattern, int limit, int context, struct buffer *found)
{
    _cleanup_free_ char *at = xstrdup("");
    int pages = 0;
    for (; at; pages++) {
        ck_assert_int_lt(pages, 3000);
        const json_t *ret = grep("{s:s, s:i, s:s, s:i, s:i}", "pattern", pattern, "limit", limit, "at", at,
                                 "context_lines", context, "max_bytes", 8000000);
        const char *next = json_string_value(json_object_get(ret, "next_cursor"));
        append_lines(found, ret);
        ck_assert(next ? ret_number(ret, "matches") == limit : ret_number(ret, "matches") <= limit);
        free(at);
        at = next ? xstrdup(next) : NULL;
    }
    return pages;
}

START_TEST(pages_of_lines_are_the_same)
{
    make_tree(5, 120);
    _cleanup_buffer_ struct buffer whole = BUFFER_INIT;
    ck_assert_int_eq(grep_in_pages("needle", 5000, 0, &whole), 1);
    for (int limit = 5; limit < 100; limit = limit * 7 + 2) {
        _cleanup_buffer_ struct buffer paged = BUFFER_INIT;
        grep_in_pages("needle", limit, 0, &paged);
        ck_assert_str_eq(buffer_text(&paged), buffer_text(&whole));
    }
}
END_TEST

/* More files than are searched one by one: then ripgrep searches the rest at once. */
START_TEST(many_files_are_searched_in_order)
{
    in_workspace("for d in $(seq 10 49); do mkdir d$d; for f in $(seq 10 99); do echo \"a needle $d $f\" > "
                 "d$d/f$f; done; done; "
                 "echo 'rare thing' > d49/f99; echo 'rare thing' > d10/f10; echo 'rare thing' > d49/.f");
    expect_lines(grep("{s:s}", "pattern", "rare"),
                 "d10/f10:1:rare thing\nd49/.f:1:rare thing\nd49/f99:1:rare thing\n");
    expect_lines(grep("{s:s, s:b, s:[s]}", "pattern", "rare", "hidden", 0, "include_patterns", "d49/*"),
                 "d49/f99:1:rare thing\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "rare", "exclude_patterns", "d4?/f99"),
                 "d10/f10:1:rare thing\nd49/.f:1:rare thing\n");
    _cleanup_buffer_ struct buffer whole = BUFFER_INIT, paged = BUFFER_INIT;
    ck_assert_int_eq(grep_in_pages("needle", 2500, 0, &whole), 2);
    grep_in_pages("needle", 900, 0, &paged);
    ck_assert_str_eq(buffer_text(&paged), buffer_text(&whole));
    size_t lines = 0;
    for (size_t i = 0; i < whole.length; i++)
        lines += whole.data[i] == '\n';
    ck_assert_uint_eq(lines, 3598);
    expect_lines(grep("{s:s, s:i}", "pattern", "4[89] 9[89]$", "limit", 2),
                 "d48/f98:1:a needle 48 98\nd48/f99:1:a needle 48 99\n");
}
END_TEST

/* More of them than a page needs have hits, where ripgrep finds by itself which ones do; or seem to have
 * some. */
START_TEST(what_is_left_is_searched_in_order)
{
    in_workspace("for d in $(seq 10 49); do mkdir d$d; for f in $(seq 10 99); do echo \"a needle $d $f\" > "
                 "d$d/f$f; done; done; for f in d4[56]/*; do printf 'a thing\\n\\0' > $f; done; "
                 "echo 'a thing' > d48/f50; echo 'a thing' > d48/f60");
    _cleanup_buffer_ struct buffer whole = BUFFER_INIT, paged = BUFFER_INIT;
    grep_in_pages("needle 4[1-9]", 2500, 0, &whole);
    ck_assert_int_gt(grep_in_pages("needle 4[1-9]", 50, 0, &paged), 10);
    ck_assert_str_eq(buffer_text(&paged), buffer_text(&whole));
    expect_lines(grep("{s:s, s:i}", "pattern", "thing", "limit", 1), "d48/f50:1:a thing\n");
}
END_TEST

START_TEST(one_file_is_bounded)
{
    in_workspace("seq 100 | sed 's/^/needle /' > a; echo needle > b");
    const json_t *ret = grep("{s:s, s:i}", "pattern", "needle", "max_per_file", 3);
    expect_lines(ret, "a:1:needle 1\na:2:needle 2\na:3:needle 3\nb:1:needle\n");
    ck_assert(json_is_true(json_object_get(json_array_get(json_object_get(ret, "files"), 0), "more")));
    ck_assert(json_is_false(json_object_get(json_array_get(json_object_get(ret, "files"), 1), "more")));
    ret = grep("{s:s, s:i, s:i}", "pattern", "needle", "max_per_file", 90, "max_bytes", 2000);
    ck_assert_int_lt(ret_number(ret, "matches"), 30);
    ck_assert_str_ne(found_text(ret, "next_cursor"), "");
}
END_TEST

/* ---- time, and harm ---- */

/* All pages of a search, each with so little time. */
struct pages {
    int count, late;
    struct buffer lines, skipped; /* of all of them, in order */
};

static void pages_clear(struct pages *pages)
{
    buffer_free(&pages->lines);
    buffer_free(&pages->skipped);
}
#define _cleanup_pages_ __attribute__((cleanup(pages_clear)))

static json_t *ask_for_page(const char *pattern, const char *path, const char *at, int wait_ms)
{
    json_t *message = file_message("grep", "{s:s, s:s, s:s, s:i, s:i, s:b, s:b, s:b, s:b}", "pattern",
                                   pattern, "path", path, "at", at, "wait_ms", wait_ms, "limit", 50,
                                   "case_sensitive", 1, "gitignore", 1, "hidden", 1, "default_ignores", 1);
    struct peer_exec *call = file_begin(message);
    ck_assert(peer_until(peer, call->closed, 60000));
    return call->reply;
}

/* Where so little time is not enough to get on at all, that is said, and more of it is. */
static const json_t *page_at(const char *pattern, const char *path, const char *at, int wait_ms)
{
    for (; wait_ms < 60000; wait_ms *= 3) {
        const json_t *reply = ask_for_page(pattern, path, at, wait_ms);
        const json_t *ret = json_object_get(reply, "ret"), *error = json_object_get(reply, "error");
        if (ret)
            return ret;
        ck_assert_int_eq(ret_number(error, "code"), ERROR_TIMEOUT);
    }
    ck_abort_msg("no time is enough");
}

static void read_pages(const char *pattern, const char *path, int wait_ms, struct pages *pages)
{
    _cleanup_free_ char *at = xstrdup("");
    for (; at; pages->count++) {
        ck_assert_int_lt(pages->count, 1000);
        const json_t *ret = page_at(pattern, path, at, wait_ms);
        const char *next = json_string_value(json_object_get(ret, "next_cursor"));
        ck_assert_msg(!next || strcmp(next, at) != 0, "page %d leads to itself", pages->count);
        append_lines(&pages->lines, ret);
        append_paths(&pages->skipped, json_object_get(ret, "skipped"));
        pages->late += !strcmp(found_text(ret, "over"), "time");
        free(at);
        at = next ? xstrdup(next) : NULL;
    }
}

#define WAITS                                                                                                \
    {                                                                                                        \
        60, 150, 400, 20000                                                                                  \
    }

/* However little time there is: pages lose no match and repeat none. */
START_TEST(pages_that_time_ends_are_together_the_whole)
{
    static const int waits[] = WAITS;
    in_workspace(
        "head -c 20000 /dev/zero | tr '\\0' x | fold > /dev/shm/body.$$ && echo >> /dev/shm/body.$$ && for d "
        "in $(seq 10 39); do "
        "mkdir d$d; for f in $(seq 100 199); do { cat /dev/shm/body.$$; [ $((f % 25)) != 7 ] || echo "
        "\"a needle $d $f\"; } > d$d/f$f; done; done; rm /dev/shm/body.$$");
    _cleanup_pages_ struct pages whole = { 0 };
    read_pages("needle", ".", 50000, &whole);
    int late = 0;
    for (size_t i = 0; i < N_ELEMENTS(waits); i++) {
        _cleanup_pages_ struct pages pages = { 0 };
        read_pages("needle", ".", waits[i], &pages);
        ck_assert_msg(!strcmp(buffer_text(&pages.lines), buffer_text(&whole.lines)),
                      "in %d ms, %d pages: %zu bytes of lines, not %zu", waits[i], pages.count,
                      pages.lines.length, whole.lines.length);
        ck_assert_str_eq(buffer_text(&pages.skipped), "");
        late += pages.late;
    }
    ck_assert_int_gt(late, 0);
}
END_TEST

/* One that takes longer than all the time is told, what stands around it is found. */
START_TEST(a_file_that_takes_too_long_is_told)
{
    static const int waits[] = WAITS;
    in_workspace(
        "yes abcdefghijklmnop | head -c 595000000 > b; for f in b a c0 c1 c2; do echo needle >> $f; done");
    for (size_t i = 0; i < N_ELEMENTS(waits); i++) {
        _cleanup_pages_ struct pages pages = { 0 };
        read_pages("needle", ".", waits[i], &pages);
        const char *lines = buffer_text(&pages.lines);
        bool found = strstr(lines, "\nb:") != NULL;
        ck_assert_str_eq(lines, found
                                    ? "a:1:needle\nb:35000001:needle\nc0:1:needle\nc1:1:needle\nc2:1:needle\n"
                                    : "a:1:needle\nc0:1:needle\nc1:1:needle\nc2:1:needle\n");
        ck_assert_str_eq(buffer_text(&pages.skipped), found ? "" : "b\n");
        ck_assert(i > 0 || !found); /* it takes some tenths of a second */
        ck_assert(waits[i] < 20000 || found);
    }
}
END_TEST

START_TEST(one_file_that_takes_too_long_is_no_endless_loop)
{
    in_workspace(
        "mkdir d; truncate -s 900G d/b; (echo needle; yes) | head -c 1M > d/c; truncate -s 900G d/c");
    _cleanup_pages_ struct pages pages = { 0 };
    read_pages("nothing", "d/b", 500, &pages);
    ck_assert_int_eq(pages.count, 1);
    ck_assert_str_eq(buffer_text(&pages.skipped), "d/b\n");
    ck_assert_str_eq(buffer_text(&pages.lines), "");
    _cleanup_pages_ struct pages both = { 0 };
    read_pages("nothing", ".", 500, &both);
    ck_assert_str_eq(buffer_text(&both.skipped), "d/b\nd/c\n");
    ck_assert_int_le(both.count, 6);
}
END_TEST

/* What was found in it before is told, once, however small the pages are. */
START_TEST(what_a_file_had_until_time_was_over_is_told)
{
    in_workspace("(seq -f 'needle %g' 5; yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | head -c 3000M) > b");
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    _cleanup_free_ char *at = xstrdup("");
    bool skipped = false;
    for (int pages = 0; at; pages++) {
        ck_assert_int_lt(pages, 6);
        const json_t *ret =
            grep("{s:s, s:s, s:i, s:i}", "pattern", "needle", "at", at, "wait_ms", 300, "limit", 2);
        const char *next = json_string_value(json_object_get(ret, "next_cursor"));
        append_lines(&found, ret);
        skipped |= json_array_size(json_object_get(ret, "skipped")) == 1;
        free(at);
        at = next ? xstrdup(next) : NULL;
    }
    ck_assert_str_eq(buffer_text(&found),
                     "b:1:needle 1\nb:2:needle 2\nb:3:needle 3\nb:4:needle 4\nb:5:needle 5\n");
    ck_assert(skipped);
}
END_TEST

START_TEST(a_search_ends_at_its_deadline_with_what_it_has)
{
    in_workspace("echo needle > a; truncate -s 900G b; for i in $(seq 300); do echo needle > c$i; done");
    int64_t started = clock_boottime_ms();
    const json_t *ret = grep("{s:s, s:i}", "pattern", "needle", "wait_ms", 700);
    ck_assert_int_lt(clock_boottime_ms() - started, 10000);
    ck_assert_str_eq(found_text(ret, "over"), "time");
    ck_assert_str_ne(found_text(ret, "next_cursor"), "");
    ck_assert(none_left(2000));
    _cleanup_pages_ struct pages pages = { 0 };
    read_pages("needle", ".", 700, &pages);
    size_t lines = 0;
    for (size_t i = 0; i < pages.lines.length; i++)
        lines += pages.lines.data[i] == '\n';
    ck_assert_uint_eq(lines, 301);
    ck_assert_str_eq(buffer_text(&pages.skipped), "b\n");
}
END_TEST

START_TEST(the_rest_goes_on_file_by_file_when_time_was_over)
{
    in_workspace("for i in $(seq 1000 5000); do echo \"needle $i\"> f$i; done; truncate -s 900G g; echo "
                 "'needle rare' > h");
    _cleanup_pages_ struct pages pages = { 0 };
    read_pages("rare", ".", 3000, &pages);
    ck_assert_str_eq(buffer_text(&pages.lines), "h:1:needle rare\n");
    ck_assert_str_eq(buffer_text(&pages.skipped), "g\n");
    ck_assert_int_le(pages.count, 6);
}
END_TEST

static struct peer_exec *begin_grep(const char *pattern, int wait_ms)
{
    json_t *message =
        file_message("grep", "{s:s, s:s, s:i}", "path", ".", "pattern", pattern, "wait_ms", wait_ms);
    return file_begin(message);
}

/* Neither those that run nor those that wait for a place are worked on when nobody waits for them. */
START_TEST(searches_that_nobody_waits_for_give_their_places_back)
{
    struct peer_exec *calls[40];
    in_workspace("echo needle > a; truncate -s 900G b");
    for (size_t i = 0; i < N_ELEMENTS(calls); i++)
        calls[i] = begin_grep("nothing", 50000);
    peer_until(peer, false, 500);
    ck_assert_int_gt(count_left(), 0);
    for (size_t i = 0; i < N_ELEMENTS(calls); i++)
        channel_send(peer->channel, FRAME_CLOSE, 0, calls[i]->number, NULL, 0);
    int64_t started = clock_boottime_ms();
    const json_t *ret = grep("{s:s, s:s, s:i}", "pattern", "needle", "path", "a", "wait_ms", 20000);
    ck_assert_int_lt(clock_boottime_ms() - started, 5000);
    ck_assert_int_eq(ret_number(ret, "matches"), 1);
    for (size_t i = 0; i < N_ELEMENTS(calls); i++) {
        ck_assert(peer_until(peer, calls[i]->closed, 5000));
        ck_assert(!calls[i]->replied);
    }
    ck_assert(none_left(2000));
}
END_TEST

/* The time counts from the request on: who waits for a place has no more of it than who runs. */
START_TEST(a_search_without_a_place_ends_at_its_deadline)
{
    struct peer_exec *busy[8];
    in_workspace("echo needle > a; truncate -s 900G b");
    for (size_t i = 0; i < N_ELEMENTS(busy); i++)
        busy[i] = begin_grep("nothing", 6000);
    peer_until(peer, false, 300);
    int64_t started = clock_boottime_ms();
    struct peer_exec *longer = begin_grep("nothing", 8000), *call = begin_grep("needle", 1000);
    ck_assert(peer_until(peer, call->closed, 30000));
    ck_assert_int_lt(clock_boottime_ms() - started, 4000);
    const json_t *error = json_object_get(call->reply, "error");
    ck_assert_int_eq(ret_number(error, "code"), ERROR_TOO_MANY);
    ck_assert_ptr_nonnull(strstr(found_text(error, "message"), "nothing was done"));
    ck_assert(peer_until(peer, longer->closed, 30000));
    ck_assert_int_lt(clock_boottime_ms() - started, 11000);
    ck_assert_str_eq(found_text(json_object_get(longer->reply, "ret"), "over"), "time");
    for (size_t i = 0; i < N_ELEMENTS(busy); i++)
        ck_assert(busy[i]->closed && json_object_get(busy[i]->reply, "ret") != NULL);
}
END_TEST

/* A command may end what works for it: the call says so, or has what it could, and the next one works. */
START_TEST(a_killed_ripgrep_is_noticed)
{
    folder_put_text("f", "needle\n");
    /* Those of this workspace alone: there is no sandbox around this agent. */
    struct peer_exec *killer = peer_run(
        peer,
        "while :; do for p in $(pgrep -x rg); do [ \"$(readlink /proc/$p/cwd)\" != \"$PWD\" ] || kill "
        "-KILL $p; done; done 2>/dev/null",
        "{}");
    for (int i = 0; i < 20; i++) {
        json_t *message = file_message("grep", "{s:s, s:s}", "pattern", "needle", "path", ".");
        struct peer_exec *call = file_begin(message);
        ck_assert(peer_until(peer, call->closed, 60000));
        ck_assert(call->replied);
    }
    peer_signal(peer, killer, SIGKILL, true);
    ck_assert(peer_until(peer, killer->closed, 10000));
    expect_lines(grep("{s:s}", "pattern", "needle"), "f:1:needle\n");
}
END_TEST

/* It breaks by itself: what is left of the files is searched all the same. */
START_TEST(a_line_without_end_harms_itself_alone)
{
    in_workspace("for i in $(seq 20); do echo needle > f$i; done; head -c 700M /dev/zero | tr '\\0' x > "
                 "endless; echo needle > z");
    const json_t *ret = grep("{s:s, s:i}", "pattern", "needle", "wait_ms", 50000);
    ck_assert_int_eq(ret_number(ret, "matches"), 21);
    ck_assert_int_eq(ret_number(ret, "unreadable"), 1);
    ck_assert_str_eq(found_text(ret, "over"), "");
}
END_TEST

START_TEST(without_ripgrep_it_says_so)
{
    peer_free(peer);
    const char *const extra[] = { "--ripgrep", "/nonexistent/rg", NULL };
    peer = peer_start(NULL, extra);
    json_t *message = file_message("grep", "{s:s, s:s}", "pattern", "x", "path", ".");
    const json_t *error = file_error(message);
    ck_assert_int_eq(ret_number(error, "code"), ERROR_UNSUPPORTED);
    ck_assert(strstr(found_text(error, "message"), "apt-get install ripgrep") != NULL);
    ck_assert(strstr(found_text(error, "message"), "/nonexistent") == NULL);
    expect_found("*", "");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        lines_are_found,
        an_end_of_a_line_is_one_before_a_carriage_return,
        what_is_no_pattern_or_place_is_refused,
        a_colon_in_a_pattern_is_a_character,
        what_is_left_out_is_asked_for,
        a_huge_line_is_shown_around_its_match,
        binary_files_are_told_not_shown,
        odd_things_are_no_lines,
        pages_of_lines_are_the_same,
        many_files_are_searched_in_order,
        what_is_left_is_searched_in_order,
        one_file_is_bounded,
        pages_that_time_ends_are_together_the_whole,
        a_file_that_takes_too_long_is_told,
        one_file_that_takes_too_long_is_no_endless_loop,
        what_a_file_had_until_time_was_over_is_told,
        a_search_ends_at_its_deadline_with_what_it_has,
        the_rest_goes_on_file_by_file_when_time_was_over,
        searches_that_nobody_waits_for_give_their_places_back,
        a_search_without_a_place_ends_at_its_deadline,
        a_killed_ripgrep_is_noticed,
        a_line_without_end_harms_itself_alone,
        without_ripgrep_it_says_so,
    };
    return unit_run_tests("finds lines", tests, N_ELEMENTS(tests), files_set_up, finds_tear_down, 120);
}
