/* Editing bytes: the least and the most there can be, in bounded time and space. */
#include "tests/support/edit_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <time.h>

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

/* What edit_try returns; says and tells how long it took. */
static int try_timed(const char *name, const struct buffer *file, const struct edit *edits, size_t count,
                     struct edit_result *result, double *took)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    double begun = cpu_seconds();
    int status = edit_try((struct bytes){ file->data, file->length }, edits, count, result, &err);
    *took = cpu_seconds() - begun;
    printf("%s: %.0f ms, %s\n", name, *took * 1000, status < 0 ? err.message : "done");
    fflush(stdout);
    return status;
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
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    double took;
    ck_assert_int_eq(try_timed("a hundred edits", &file, edits, LARGE_EDITS, &result, &took), 0);
    ck_assert_uint_eq(result.exact, LARGE_EDITS / 2);
    ck_assert_uint_eq(result.fuzzy, LARGE_EDITS / 2);
    ck_assert_uint_eq(result.span_count, LARGE_EDITS);
    edit_check_spans((struct bytes){ file.data, file.length }, &result);
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
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    double took;
    repeat(&file, h->line, h->times);
    repeat(&old, h->old_line, h->old_times);
    buffer_append_text(&old, h->old_last);
    struct edit edit = { { old.data, old.length }, { h->new, strlen(h->new) }, h->replace_all, 0 };
    ck_assert_int_eq(try_timed(h->name, &file, &edit, 1, &result, &took) < 0, !h->replace_all);
    ck_assert_uint_eq(result.replaced, h->replaced);
    ck_assert_msg(took < 10, "%s: %.3f s", h->name, took);
}
END_TEST

START_TEST(nothing_may_be_null)
{
    const struct bytes nothing = { NULL, 0 };
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT, filled = EDIT_RESULT_INIT;
    struct edit same = { nothing, nothing, false, 0 }, fill = { nothing, B("a"), false, 0 };
    ck_assert_int_eq(edit_try(nothing, &same, 1, &result, NULL), 0);
    ck_assert_uint_eq(result.bytes.length, 0);
    ck_assert_int_eq(edit_try(nothing, &fill, 1, &filled, NULL), 0);
    ck_assert_uint_eq(filled.bytes.length, 1);
    struct edit other = { B("a"), nothing, false, 0 };
    ck_assert_int_lt(edit_try(nothing, &other, 1, &result, NULL), 0);
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
        edit_try((struct bytes){ file.data, file.length }, &edit, 1, &result, NULL);
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
        ck_assert_int_eq(edit_try(original, &edit, 1, &result, NULL), 0);
        ck_assert_uint_eq(result.replaced, rows[i].places * 70000);
        ck_assert_msg(bytes_equal((struct bytes){ result.bytes.data, result.bytes.length },
                                  (struct bytes){ wanted.data, wanted.length }),
                      "row %zu: %zu bytes of %zu", i, result.bytes.length, wanted.length);
        edit_check_spans(original, &result);
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
        ck_assert_int_lt(edit_try((struct bytes){ file.data, file.length }, &edit, 1, &result, &err), 0);
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
    Suite *suite = suite_create("edit_sizes");
    TCase *cases = tcase_create("places"), *large = tcase_create("large");
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, nothing_may_be_null);
    tcase_add_test(cases, places_among_many_alike);
    tcase_add_test(cases, very_many_places);
    tcase_set_tags(large, "timing");
    tcase_set_timeout(large, 120);
    tcase_add_test(large, a_hundred_edits_of_five_megabytes);
    tcase_add_loop_test(large, hostile_sizes_are_bounded, 0, (int)N_ELEMENTS(hostile));
    tcase_add_test(large, the_result_is_bounded);
    suite_add_tcase(suite, cases);
    suite_add_tcase(suite, large);
    return unit_run(suite);
}
