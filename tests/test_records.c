/* The FastCGI record codec, cut at every byte. */
#include "fcgi/records.h"
#include "tests/support/fcgi.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fastcgi.h>
#include <stdio.h>

/* Reads input in steps of at most `step` bytes and writes what came as text. -1 = refused. */
static int read_all(const struct buffer *input, size_t step, struct buffer *text)
{
    struct record_reader reader = { 0 };
    struct record_piece piece;
    bool open = false;

    for (size_t at = 0; at < input->length; at += step) {
        const char *data = input->data + at;
        size_t length = input->length - at < step ? input->length - at : step;
        int taken;
        while ((taken = record_read(&reader, &data, &length, &piece)) > 0) {
            if (!open)
                buffer_printf(text, "%d/%d[", piece.type, piece.id);
            for (size_t i = 0; i < piece.length; i++)
                buffer_printf(text, "%02x", (unsigned char)piece.data[i]);
            open = !piece.last;
            if (piece.last)
                buffer_append_text(text, piece.empty ? "end]" : "]");
        }
        if (taken < 0)
            return -1;
    }
    return 0;
}

START_TEST(test_any_cut_reads_the_same)
{
    static const char expected[] =
        "1/258[0001000000000000]4/258[616263]4/258[end]5/258[7879]9/0[end]5/258[end]";
    _cleanup_buffer_ struct buffer input = BUFFER_INIT;

    fcgi_add_begin(&input, 258, 1, false);
    fcgi_add_record(&input, 4, 258, "abc", 3, 5);
    fcgi_add_record(&input, 4, 258, NULL, 0, 8);
    fcgi_add_record(&input, 5, 258, "xy", 2, 255);
    fcgi_add_record(&input, 9, 0, NULL, 0, 0);
    fcgi_add_record(&input, 5, 258, NULL, 0, 0);
    for (size_t step = 1; step <= input.length; step++) {
        _cleanup_buffer_ struct buffer text = BUFFER_INIT;
        ck_assert_int_eq(read_all(&input, step, &text), 0);
        ck_assert_str_eq(buffer_text(&text), expected);
    }
}
END_TEST

START_TEST(test_refused)
{
    static const char version[] = { 2, 1, 0, 1, 0, 8, 0, 0 }, long_begin[] = { 1, 1, 0, 1, 0, 9, 0, 0 },
                      empty_begin[] = { 1, 1, 0, 1, 0, 0, 0, 0 }, null_begin[] = { 1, 1, 0, 0, 0, 8, 0, 0 };
    const char *const rows[] = { version, long_begin, empty_begin, null_begin };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        _cleanup_buffer_ struct buffer input = BUFFER_INIT, text = BUFFER_INIT;
        buffer_append(&input, rows[i], 8);
        ck_assert_int_eq(read_all(&input, 8, &text), -1);
    }
}
END_TEST

START_TEST(test_content_is_not_copied)
{
    _cleanup_buffer_ struct buffer input = BUFFER_INIT;
    _cleanup_free_ char *content = xcalloc(1, 65535);
    struct record_reader reader = { 0 };
    struct record_piece piece;

    fcgi_add_record(&input, 5, 1, content, 65535, 255);
    const char *data = input.data;
    size_t length = input.length;
    ck_assert_int_eq(record_read(&reader, &data, &length, &piece), 1);
    ck_assert_ptr_eq(piece.data, input.data + 8);
    ck_assert_uint_eq(piece.length, 65535);
    ck_assert_int_eq(record_read(&reader, &data, &length, &piece), 0);
    ck_assert_uint_eq(length, 0);
}
END_TEST

START_TEST(test_stdout_of_any_size)
{
    static const size_t sizes[] = { 0, 1, 65527, 65528, 65529, 131056, 200000 };
    _cleanup_free_ char *content = calloc(1, 200000);

    for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
        _cleanup_buffer_ struct buffer out = BUFFER_INIT;
        struct record_reader reader = { 0 };
        struct record_piece piece;
        size_t total = 0;
        record_append_stdout(&out, 513, content, sizes[i]);
        const char *data = out.data;
        size_t length = out.length;
        while (record_read(&reader, &data, &length, &piece) > 0) {
            ck_assert_int_eq(piece.type, FCGI_STDOUT);
            ck_assert_int_eq(piece.id, 513);
            ck_assert(!piece.empty);
            total += piece.length;
        }
        ck_assert_uint_eq(total, sizes[i]);
    }
}
END_TEST

START_TEST(test_values_of_damaged_names)
{
    static const struct {
        const char *names;
        size_t length, values;
    } rows[] = {
        { "", 0, 0 },
        { "\x0e", 1, 0 },
        { "\x0e\0FCGI_MAX_CONN", 15, 0 },
        { "\x0e\0FCGI_MAX_CONNS", 16, 2 + 14 + 5 },
        { "\x0e\0FCGI_MAX_CONNS\x0d\0FCGI_MAX_REQS", 31, 2 + 14 + 5 + 2 + 13 + 5 },
        { "\x80\0\0\x0e\0FCGI_MAX_CONNS", 19, 0 },
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        _cleanup_buffer_ struct buffer out = BUFFER_INIT;
        record_append_values(&out, rows[i].names, rows[i].length);
        ck_assert_uint_eq(out.length, 8 + rows[i].values);
    }
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("records");
    Suite *suite = suite_create("records");

    tcase_add_test(c, test_any_cut_reads_the_same);
    tcase_add_test(c, test_refused);
    tcase_add_test(c, test_content_is_not_copied);
    tcase_add_test(c, test_stdout_of_any_size);
    tcase_add_test(c, test_values_of_damaged_names);
    suite_add_tcase(suite, c);
    return unit_run(suite);
}
