/* Unified diffs: a table, and random changes that the real patch(1) must make again, byte for byte. */
#include "lib/agent/edit/diff.h"
#include "lib/agent/edit/edit.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "tests/support/plain_patch.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#define B(text)                                                                                              \
    {                                                                                                        \
        (text), sizeof(text) - 1                                                                             \
    }
enum { LIMIT = 64 << 20 };

static struct bytes bytes_of(const struct buffer *b)
{
    return (struct bytes){ b->data, b->length };
}

/* The smallest span that has all that differs. */
static size_t one_span(struct bytes old, struct bytes new, struct edit_span *ret)
{
    size_t least = old.length < new.length ? old.length : new.length, before = 0, after = 0;
    while (before < least && old.data[before] == new.data[before])
        before++;
    while (after < least - before && old.data[old.length - 1 - after] == new.data[new.length - 1 - after])
        after++;
    *ret = (struct edit_span){ before, old.length - before - after, before, new.length - before - after };
    return old.length == new.length &&before == old.length ? 0 : 1;
}

static void diff_of(struct bytes old, struct bytes new, const char *path, size_t limit, struct buffer *ret)
{
    struct edit_span span;
    size_t count = one_span(old, new, &span);
    diff_append(old, new, &span, count, path, limit, ret);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    struct bytes old, new;
    const char *expected; /* behind the two lines of names */
} samples[] = {
    { "nothing", B("a\n"), B("a\n"), "" },
    { "one line", B("a\nb\nc\n"), B("a\nx\nc\n"), "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n" },
    { "three lines of context", B("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), B("1\n2\n3\n4\nx\n6\n7\n8\n9\n"),
      "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n" },
    { "two hunks", B("a\n1\n2\n3\n4\n5\n6\n7\nb\n"), B("x\n1\n2\n3\n4\n5\n6\n7\ny\n"),
      "@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+y\n" },
    { "hunks that touch are one", B("a\n1\n2\n3\n4\n5\n6\nb\n"), B("x\n1\n2\n3\n4\n5\n6\ny\n"),
      "@@ -1,8 +1,8 @@\n-a\n+x\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+y\n" },
    { "insertion", B("a\nb\n"), B("a\nx\nb\n"), "@@ -1,2 +1,3 @@\n a\n+x\n b\n" },
    { "deletion", B("a\nx\nb\n"), B("a\nb\n"), "@@ -1,3 +1,2 @@\n a\n-x\n b\n" },
    { "from nothing", B(""), B("a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n" },
    { "to nothing", B("a\n"), B(""), "@@ -1 +0,0 @@\n-a\n" },
    { "no end in both", B("a"), B("b"),
      "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n" },
    { "no end in new", B("a\n"), B("a"), "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n" },
    { "no end in old", B("a"), B("a\n"), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n" },
    { "no end of context", B("a\nb"), B("x\nb"),
      "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n" },
    { "CRLF", B("a\r\nb\r\n"), B("a\r\nx\r\n"), "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+x\r\n" },
    { "an end of another kind", B("a\r\n"), B("a\n"), "@@ -1 +1 @@\n-a\r\n+a\n" },
    { "the shortest way", B("a\nb\nc\nd\ne\n"), B("a\nc\nx\nd\ne\ny\n"),
      "@@ -1,5 +1,6 @@\n a\n-b\n c\n+x\n d\n e\n+y\n" },
};

START_TEST(case_of_the_table)
{
    _cleanup_buffer_ struct buffer diff = BUFFER_INIT, wanted = BUFFER_INIT;
    diff_of(samples[_i].old, samples[_i].new, "dir/file.c", LIMIT, &diff);
    if (samples[_i].expected[0] != '\0')
        buffer_append_text(&wanted, "--- a/dir/file.c\n+++ b/dir/file.c\n");
    buffer_append_text(&wanted, samples[_i].expected);
    ck_assert_msg(bytes_equal(bytes_of(&diff), bytes_of(&wanted)), "%s:\n%s", samples[_i].name,
                  buffer_text(&diff));
}
END_TEST

/* ---- patch(1) ---- */

extern char **environ;

static int run_patch(void)
{
    char directory[80];
    snprintf(directory, sizeof(directory), "--directory=%s", scratch);
    char *argv[] = { "patch", directory, "-p1", "-s", "-f", "-i", "the.diff", NULL };
    pid_t pid;
    int status = -1;
    ck_assert_int_eq(posix_spawnp(&pid, "patch", NULL, NULL, argv, environ), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void put_file(const char *name, struct bytes content)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", scratch, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(io_write_all(fd, content.data, content.length, NULL), 0);
}

static void check_with_patch(struct bytes old, struct bytes new, const char *name, const struct buffer *diff)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", scratch, name);
    _cleanup_buffer_ struct buffer made = BUFFER_INIT;
    put_file(name, old);
    put_file("the.diff", bytes_of(diff));
    int status = diff->length > 0 ? run_patch() : 0;
    bool is_there = io_read_file(AT_FDCWD, path, LIMIT, &made, NULL) == 0;
    bool right = status == 0 && is_there && bytes_equal(bytes_of(&made), new);
    if (!right) {
        printf("status %d, patch made %zu bytes of %zu from %zu:\n", status, made.length, new.length,
               old.length);
        fwrite(diff->data, 1, diff->length, stdout);
        fflush(stdout);
    }
    ck_assert(right);
    unlink(path);
}

static unsigned dice(unsigned sides)
{
    uint32_t number;
    id_random(&number, sizeof(number));
    return number % sides;
}

/* Any bytes, in few enough forms that lines repeat. */
static void random_lines(struct buffer *to, unsigned most)
{
    static const struct bytes pieces[] = { B("a"),        B("b"),    B("\t"),       B("-"),  B("+"),
                                           B("@@ -1 +1"), B("\\ "),  B("\xC3\xA9"), B("\0"), B("--- a/file"),
                                           B("\xFF\x80"), B("\f\r"), B(" "),        B("x") };
    size_t start = to->length;
    for (unsigned i = dice(most + 1); i > 0; i--) {
        for (unsigned n = dice(3); n > 0; n--) {
            struct bytes piece = pieces[dice(N_ELEMENTS(pieces))];
            buffer_append(to, piece.data, piece.length);
        }
        buffer_append_text(to, dice(3) == 0 ? "\r\n" : "\n");
    }
    if (dice(3) == 0 && to->length > start)
        to->length--;
}

enum { SPANS = 6 };

/* Puts random bytes at random places. */
static size_t random_change(struct bytes old, struct buffer *new, struct edit_span spans[static SPANS])
{
    size_t at = 0, count = 0, wanted = dice(SPANS + 1);
    for (; count < wanted && at < old.length; count++) {
        size_t from = at + dice((unsigned)(old.length - at));
        size_t length =
            dice(3) == 0 ? 0 : dice(old.length - from < 20 ? (unsigned)(old.length - from) + 1 : 20);
        buffer_append(new, old.data + at, from - at);
        spans[count] = (struct edit_span){ from, length, new->length, 0 };
        random_lines(new, 3);
        spans[count].new_length = new->length - spans[count].new_at;
        at = from + length;
    }
    buffer_append(new, old.data + at, old.length - at);
    return count;
}

START_TEST(patch_makes_random_changes)
{
    for (int round = 0; round < 250; round++) {
        _cleanup_buffer_ struct buffer old = BUFFER_INIT, new = BUFFER_INIT, diff = BUFFER_INIT;
        struct edit_span spans[SPANS];
        random_lines(&old, 60);
        size_t count = random_change(bytes_of(&old), &new, spans);
        diff_append(bytes_of(&old), bytes_of(&new), spans, count, "file", LIMIT, &diff);
        check_with_patch(bytes_of(&old), bytes_of(&new), "file", &diff);
    }
}
END_TEST

/* The same with a reader that is quick enough for many. */
START_TEST(plain_patch_makes_random_changes)
{
    for (int round = 0; round < 5000; round++) {
        _cleanup_buffer_ struct buffer old = BUFFER_INIT, new = BUFFER_INIT, diff = BUFFER_INIT,
                                       made = BUFFER_INIT;
        struct edit_span spans[SPANS];
        random_lines(&old, dice(2) == 0 ? 60 : 8);
        size_t count = random_change(bytes_of(&old), &new, spans);
        diff_append(bytes_of(&old), bytes_of(&new), spans, count, "file", LIMIT, &diff);
        bool right = plain_patch(bytes_of(&old), bytes_of(&diff), &made) &&
                     bytes_equal(bytes_of(&made), bytes_of(&new));
        ck_assert_msg(right, "%s", buffer_text(&diff));
    }
}
END_TEST

START_TEST(patch_makes_what_edits_made)
{
    for (int round = 0; round < 100; round++) {
        _cleanup_buffer_ struct buffer old = BUFFER_INIT, diff = BUFFER_INIT;
        struct buffer put[2] = { BUFFER_INIT, BUFFER_INIT };
        _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
        random_lines(&old, 100);
        random_lines(&put[0], 3);
        random_lines(&put[1], 3);
        struct edit edits[] = { { B("a"), bytes_of(&put[0]), true, 0 },
                                { B("\nb"), bytes_of(&put[1]), true, 0 } };
        if (edit_apply(bytes_of(&old), edits, 2, LIMIT, &result, NULL) == 0) {
            diff_append(bytes_of(&old), bytes_of(&result.bytes), result.spans, result.span_count, "file",
                        LIMIT, &diff);
            check_with_patch(bytes_of(&old), bytes_of(&result.bytes), "file", &diff);
        }
        buffer_free(&put[0]);
        buffer_free(&put[1]);
    }
}
END_TEST

START_TEST(patch_makes_cases_of_the_table)
{
    for (size_t i = 0; i < N_ELEMENTS(samples); i++) {
        _cleanup_buffer_ struct buffer diff = BUFFER_INIT;
        diff_of(samples[i].old, samples[i].new, "file", LIMIT, &diff);
        check_with_patch(samples[i].old, samples[i].new, "file", &diff);
    }
}
END_TEST

START_TEST(patch_reads_any_name)
{
    static const char *const names[] = { "with blanks in it", "say \"hi\"", "back\\slash",
                                         "tab\there",         "\xC3\xA9.c", "'quoted'" };
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        _cleanup_buffer_ struct buffer diff = BUFFER_INIT;
        diff_of((struct bytes)B("a\n"), (struct bytes)B("b\n"), names[i], LIMIT, &diff);
        check_with_patch((struct bytes)B("a\n"), (struct bytes)B("b\n"), names[i], &diff);
    }
}
END_TEST

/* ---- size ---- */

START_TEST(a_diff_is_cut)
{
    _cleanup_buffer_ struct buffer old = BUFFER_INIT, new = BUFFER_INIT;
    for (int i = 0; i < 1000; i++) {
        buffer_printf(&old, "old line \xC3\xA9 %d\n", i);
        buffer_printf(&new, "new line \xC3\xA9 %d\n", i);
    }
    for (size_t limit = 0; limit < 3000; limit += 7) {
        _cleanup_buffer_ struct buffer diff = BUFFER_INIT;
        diff_of(bytes_of(&old), bytes_of(&new), "f", limit, &diff);
        ck_assert_uint_le(diff.length, limit + 120);
        const char *note = strstr(buffer_text(&diff), "... diff cut at ");
        ck_assert_ptr_nonnull(note);
        size_t shown = 0, cut, left_out;
        for (size_t at = 0; at < diff.length; at = bytes_find(bytes_of(&diff), at, '\n') + 1)
            shown += memcmp(diff.data + at, "-old", 4) == 0 || memcmp(diff.data + at, "+new", 4) == 0;
        ck_assert_int_eq(sscanf(note, "... diff cut at %zu bytes: %zu more changed lines\n", &cut, &left_out),
                         2);
        ck_assert_uint_eq(cut, limit);
        ck_assert_uint_ge(shown + left_out, 2000);
        ck_assert_uint_le(shown + left_out, 2001); /* one may be shown in part */
    }
}
END_TEST

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Few spans of a large file; all of it; lines that are all alike; one line. */
START_TEST(large_files_take_little_time)
{
    static const char *const lines[][2] = { { "line %d of the file\n", "line %d of the file\n" },
                                            { "line %d of the file\n", "other %d of the file\n" },
                                            { "x\n", "x\ny\n" },
                                            { "%d", "%d " } };
    for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
        _cleanup_buffer_ struct buffer old = BUFFER_INIT, new = BUFFER_INIT, diff = BUFFER_INIT;
        struct edit_span spans[100];
        size_t count = 0;
        for (int n = 0; n < 200000; n++) {
            size_t old_at = old.length, new_at = new.length;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
            buffer_printf(&old, lines[i][0], n);
            buffer_printf(&new, i == 0 && n % 2000 == 7 ? "other %d\n" : lines[i][1], n);
#pragma GCC diagnostic pop
            if (i == 0 && n % 2000 == 7)
                spans[count++] =
                    (struct edit_span){ old_at, old.length - old_at, new_at, new.length - new_at };
        }
        if (i > 0)
            count = one_span(bytes_of(&old), bytes_of(&new), spans);
        double begun = cpu_seconds();
        diff_append(bytes_of(&old), bytes_of(&new), spans, count, "f", 100000, &diff);
        double took = cpu_seconds() - begun;
        printf("%zu bytes, %zu spans: %.1f ms\n", old.length, count, took * 1000);
        fflush(stdout);
        ck_assert_uint_gt(diff.length, 100);
        ck_assert_msg(took < 2, "%.3f s", took);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diff");
    TCase *cases = tcase_create("diff"), *large = tcase_create("large");
    tcase_add_checked_fixture(cases, scratch_make, scratch_remove);
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, case_of_the_table, 0, (int)N_ELEMENTS(samples));
    tcase_add_test(cases, patch_makes_random_changes);
    tcase_add_test(cases, plain_patch_makes_random_changes);
    tcase_add_test(cases, patch_makes_what_edits_made);
    tcase_add_test(cases, patch_makes_cases_of_the_table);
    tcase_add_test(cases, patch_reads_any_name);
    tcase_add_test(cases, a_diff_is_cut);
    suite_add_tcase(suite, cases);
    tcase_set_tags(large, "timing");
    tcase_set_timeout(large, 120);
    tcase_add_test(large, large_files_take_little_time);
    suite_add_tcase(suite, large);
    return unit_run(suite);
}
