/* Output of synchronous commands from a real events environment: the middle of a long one is left out and
 * said, what is shown holds its bounds and costs no more than itself. */
#include "lib/base/lines.h"
#include "lib/base/utf8.h"
#include "lib/op/output.h"
#include "lib/op/page.h"
#include "tests/support/log_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <time.h>

static void collect(size_t max_bytes, bool twice, struct output *ret)
{
    const struct output_request request = {
        .exec_id = kept.head.id, .max_bytes = max_bytes, .max_chars = 120000, .twice = twice
    };
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_msg(output_read(kept.reader, &request, ret, &err) == 0, "%s", err.message);
    output_show(ret, &request);
    for (int i = 0; i < 2; i++)
        ck_assert_uint_le(utf8_count(ret->streams[i].data, ret->streams[i].length), 120000 + 200);
}

static size_t encoded(const struct output *output, bool twice)
{
    size_t size = 0;

    for (int i = 0; i < 2; i++)
        size += utf8_json_size(output->streams[i].data, output->streams[i].length) +
                (twice ? utf8_json_size_twice(output->streams[i].data, output->streams[i].length) : 0);
    return size;
}

START_TEST(test_output_whole)
{
    struct output output = { 0 };

    kept_begin();
    kept_write(EVENT_STDOUT, "one\n", 4);
    kept_write(EVENT_STDERR, "two\n", 4);
    kept_write(EVENT_STDOUT, "three\n", 6);
    kept_end();
    kept_add(EVENT_STDOUT, EVENT_LATE, "late\n", 5);
    collect(88000, false, &output);
    ck_assert_str_eq(buffer_text(&output.streams[0]), "one\nthree\n");
    ck_assert_str_eq(buffer_text(&output.streams[1]), "two\n");
    ck_assert(!output.truncated[0] && !output.truncated[1]);
    ck_assert_uint_eq(output.next_cursor, 4);
    output_clear(&output);
}
END_TEST

/* Head and tail are kept, the number between them is right, the cursor continues the head, and the bound
 * holds. */
static void check_cut(const struct buffer *shown, const char *data, size_t length)
{
    char *text = xmalloc(shown->length + 1), *marker;
    unsigned long long left, lines, cursor;
    char id[ID_SIZE];
    size_t front, back;

    memcpy(text, shown->data, shown->length);
    text[shown->length] = '\0';
    marker = memmem(text, shown->length, "\n... [", 6);
    ck_assert_ptr_nonnull(marker);
    ck_assert_int_eq(
        sscanf(marker, "\n... [%llu bytes and %llu lines left out: read events of %35s from cursor %llu] ...",
               &left, &lines, id, &cursor),
        4);
    ck_assert_str_eq(id, kept.head.id);
    front = (size_t)(marker - text);
    front += data[front] == '\n'; /* the line's own end, else one for the marker */
    back = shown->length - (size_t)(strstr(marker, "] ...\n") + 6 - text);
    ck_assert_uint_eq(front + back + left, length);
    ck_assert_uint_eq(lines, lines_count(data + front, left));
    ck_assert(!memcmp(text, data, front));
    ck_assert(!memcmp(text + shown->length - back, data + length - back, back));
    ck_assert_uint_gt(front, 0);
    ck_assert_uint_gt(back, 0);
    if (memchr(data, '\n', front / 2) && memchr(data + length - back / 2, '\n', back / 2))
        ck_assert(data[front - 1] == '\n' && data[length - back - 1] == '\n');
    ck_assert(utf8_is_valid(text, front) == utf8_is_valid(data, length) || !utf8_is_valid(data, length));
    free(text);
}

START_TEST(test_output_cut)
{
    static const size_t lengths[] = { 120000, 400000, 3000000 };

    for (size_t i = 0; i < N_ELEMENTS(lengths); i++)
        for (int twice = 0; twice < 2; twice++) {
            size_t length = lengths[i] / 12 * 12;
            struct output output = { 0 };
            char *data = malloc(length);
            kept_fill(data, length, _i);
            kept_begin();
            kept_write(EVENT_STDOUT, data, length);
            kept_write(EVENT_STDERR, "small", 5);
            kept_end();
            collect(88000, twice, &output);
            ck_assert(output.truncated[0] && !output.truncated[1]);
            ck_assert_uint_le(encoded(&output, twice), 88000);
            ck_assert_uint_ge(encoded(&output, twice), 60000);
            ck_assert_uint_eq(output.streams[1].length, 5);
            check_cut(&output.streams[0], data, length);
            output_clear(&output);
            free(data);
        }
}
END_TEST

START_TEST(test_output_both)
{
    struct output output = { 0 };
    char *data = malloc(500000);

    kept_fill(data, 500000, 9);
    kept_begin();
    for (int i = 0; i < 50; i++) {
        kept_write(EVENT_STDOUT, data + i * 10000, 10000);
        kept_write(EVENT_STDERR, data + i * 10000, 10000);
    }
    collect(88000, false, &output); /* still running */
    ck_assert(output.truncated[0] && output.truncated[1]);
    ck_assert_uint_le(encoded(&output, false), 88000);
    check_cut(&output.streams[0], data, 500000);
    check_cut(&output.streams[1], data, 500000);
    ck_assert_uint_eq(output.head.exit_seq, 0);
    output_clear(&output);
    collect(1024, true, &output);
    ck_assert_uint_le(encoded(&output, true), 1024);
    output_clear(&output);
    free(data);
}
END_TEST

/* What lies in the middle of a long log is not looked at, but told exactly, with the place where to read it.
 */
START_TEST(test_output_middle)
{
    struct output output = { 0 };
    char *data = malloc(1000000);
    unsigned long long left, cursor;

    kept_fill(data, 1000000, 9);
    kept_begin();
    kept_write(EVENT_STDERR, "first", 5);
    kept_write(EVENT_STDOUT, data, 1000000);
    kept_write(EVENT_STDERR, "a warning", 9);
    kept_write(EVENT_STDOUT, data, 1000000);
    kept_end();
    kept_add(EVENT_STDERR, EVENT_LATE, "late", 4);
    collect(88000, _i, &output);
    ck_assert(output.truncated[0] && output.truncated[1]);
    ck_assert_uint_le(encoded(&output, _i), 88000);
    ck_assert_uint_eq(output.next_cursor, output.head.exit_seq);
    ck_assert_int_eq(
        sscanf(buffer_text(&output.streams[1]),
               "first\n... [%llu bytes and 0 lines left out: read events of %*35s from cursor %llu] ...\n",
               &left, &cursor),
        2);
    ck_assert_uint_eq(left, 9);
    const char *marker = strstr(buffer_text(&output.streams[0]), "\n... [");
    ck_assert_ptr_nonnull(marker);
    ck_assert_int_eq(sscanf(marker, "\n... [%llu bytes", &left), 1);
    size_t marker_length = (size_t)(strstr(marker, "] ...\n") + 6 - marker);
    ck_assert_uint_eq(left + output.streams[0].length - marker_length, 2000000);

    /* The very next event of stderr behind that cursor is the warning. */
    struct page_request request = kept_request(cursor);
    struct page page;
    bool found = false;
    do {
        json_auto_t *value = kept_render(&request, &page);
        const json_t *event;
        size_t index;
        json_array_foreach(json_object_get(value, "events"), index, event) {
            if (kept_says(event, "type", "stderr") && !found) {
                ck_assert(kept_says(event, "data", "a warning"));
                found = true;
            }
        }
        request.cursor = page.next_cursor;
    } while (!found && page.has_more);
    ck_assert(found);
    output_clear(&output);
    free(data);
}
END_TEST

/* A log of a program that did not count: no number, but the place. */
START_TEST(test_output_uncounted)
{
    struct output output = { 0 };
    char *data = malloc(1000000), wanted[200];

    kept_fill(data, 1000000, 9);
    kept_begin();
    kept.head.counted = kept.head.counted_lines = false;
    kept_write(EVENT_STDOUT, data, 1000000);
    kept_end();
    collect(88000, false, &output);
    ck_assert(output.truncated[0] && output.truncated[1]);
    snprintf(wanted, sizeof wanted, "\n... [the middle left out: read events of %s from cursor ",
             kept.head.id);
    ck_assert_ptr_nonnull(strstr(buffer_text(&output.streams[0]), wanted));
    ck_assert_ptr_nonnull(strstr(buffer_text(&output.streams[1]), wanted));
    output_clear(&output);
    kept_begin();
    kept.head.counted = kept.head.counted_lines = false;
    kept_write(EVENT_STDOUT, data, 100000); /* head and tail meet: nothing else is needed */
    kept_end();
    collect(88000, false, &output);
    ck_assert(!output.truncated[1]);
    check_cut(&output.streams[0], data, 100000);
    output_clear(&output);
    free(data);
}
END_TEST

START_TEST(test_output_dropped)
{
    struct events_options options = { kept_directory, "ws-ffffffffffffffffffffffffffffffff", 64 << 20,
                                      200000 };
    struct events_writer *all = kept.writer;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct output output = { 0 };
    char *data = malloc(500000);
    unsigned long long dropped[2], left;

    kept.writer = events_writer_open(&options, &err);
    kept.reader = events_writer_reader(kept.writer);
    kept_fill(data, 500000, 9);
    kept_begin();
    for (int i = 0; i < 50; i++) {
        kept_write(EVENT_STDOUT, data + i * 10000, 10000);
        kept_write(EVENT_STDERR, data + i * 1000, 1000);
    }
    collect(30000, false, &output);
    for (int i = 0; i < 2; i++) {
        const char *text = buffer_text(&output.streams[i]), *marker = strstr(text, "\n... [");
        size_t written = i == 0 ? 500000 : 50000;
        ck_assert(output.truncated[i]);
        ck_assert_int_eq(sscanf(text,
                                "... [%llu bytes dropped: beyond the log's limit, or the disk was full] ...",
                                &dropped[i]),
                         1);
        ck_assert_uint_eq(dropped[i], output.head.stream_dropped[i]);
        ck_assert(marker && sscanf(marker, "\n... [%llu bytes and", &left) == 1);
        size_t lines =
            (size_t)(strchr(text, '\n') + 1 - text) + (size_t)(strstr(marker, "] ...\n") + 6 - marker);
        ck_assert_uint_eq(dropped[i] + left + output.streams[i].length - lines, written);
    }
    output_clear(&output);
    events_writer_close(kept.writer);
    kept.writer = all;
    free(data);
}
END_TEST

/* Condensed first, cut then: both ends of a log beyond what is looked at, with what lies between in numbers.
 */
START_TEST(test_output_compact)
{
    struct output output = { 0 };
    struct output_request request = {
        .exec_id = kept.head.id, .max_bytes = 88000, .max_chars = 120000, .max_raw = 51200, .compact = true
    };
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer noise = BUFFER_INIT;
    unsigned long long bytes, lines;

    for (int i = 0; i < 100000; i++)
        buffer_printf(&noise, "t/test_a.py::test_%d PASSED\n", i);
    kept_begin();
    kept_write(EVENT_STDOUT, "first\n", 6);
    kept_write(EVENT_STDOUT, noise.data, noise.length);
    kept_write(EVENT_STDERR, "error: 1\nlittle\n", 16);
    kept_write(EVENT_STDOUT, "last", 4);
    kept_end();
    ck_assert_int_eq(output_read(kept.reader, &request, &output, &err), 0);
    const struct ends_stream *s = &output.ends.streams[0];
    uint64_t between = s->between, lines_between = s->lines_between;
    ck_assert_uint_eq(s->head.length + between + s->tail.length, noise.length + 10);
    ck_assert_uint_eq(lines_count(s->head.data, s->head.length) + lines_between +
                          lines_count(s->tail.data, s->tail.length),
                      100001);
    ck_assert_uint_le(output_size(&output), 2 * (OUTPUT_CONDENSED + EVENT_DATA_MAX));
    output_condense(&output, &request);
    output_show(&output, &request);
    ck_assert(output.condensed[0] && !output.condensed[1]);
    ck_assert(output.truncated[0] && !output.truncated[1]);
    ck_assert_str_eq(buffer_text(&output.streams[1]), "error: 1\nlittle\n");
    const char *text = buffer_text(&output.streams[0]), *marker = strstr(text, "\n... [");
    ck_assert_int_eq(strncmp(text, "first\n", 6), 0);
    ck_assert_int_eq(sscanf(marker, "\n... [%llu bytes and %llu lines left out", &bytes, &lines), 2);
    ck_assert(bytes == between && lines == lines_between);
    ck_assert_ptr_nonnull(strstr(marker, "\nlast\n[condensed: "));
    output_clear(&output);
}
END_TEST

static bool count_bytes(void *user, const struct event *event)
{
    *(size_t *)user += event->length;
    return true;
}

static double cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The price is what is shown, not the length of the log; events of a byte are no exception. */
START_TEST(test_output_price)
{
    struct output output = { 0 };
    const size_t length = _i ? 400000 : 60 << 20;
    char *data = malloc(length);
    size_t bytes = 0;
    double all, ends, begun;

    kept_fill(data, length, 9);
    kept_begin();
    if (_i) {
        _cleanup_error_ struct error err = ERROR_INIT;
        ck_assert_int_eq(events_begin(kept.writer, &err), 0);
        for (size_t i = 0; i < length; i++) {
            struct event event = { .type = EVENT_STDOUT, .data = data + i, .length = 1 };
            ck_assert_int_eq(events_append(kept.writer, &kept.head, &event, &err), 0);
        }
        ck_assert_int_eq(events_put_exec(kept.writer, &kept.head, &err), 0);
        ck_assert_int_eq(events_commit(kept.writer, &err), 0);
    } else {
        kept_write(EVENT_STDOUT, data, length);
    }
    begun = cpu_ms();
    ck_assert_int_eq(events_read(kept.reader, kept.head.id, 0, &kept.head, count_bytes, &bytes, NULL), 0);
    all = cpu_ms() - begun;
    ck_assert_uint_eq(bytes, length);
    collect(88000, false, &output);
    check_cut(&output.streams[0], data, length);
    output_clear(&output);
    begun = cpu_ms();
    for (int i = 0; i < 10; i++) {
        collect(88000, false, &output);
        output_clear(&output);
    }
    ends = (cpu_ms() - begun) / 10;
    printf("output of %zu bytes: %.2f ms; all of it read once: %.2f ms\n", length, ends, all);
    ck_assert_msg(ends < all / 5, "%.2f ms of %.2f", ends, all);
    free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output");
    TCase *tests = tcase_create("output");

    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, kept_set_up, kept_tear_down);
    tcase_add_test(tests, test_output_whole);
    tcase_add_loop_test(tests, test_output_cut, 0, 9);
    tcase_add_test(tests, test_output_both);
    tcase_add_loop_test(tests, test_output_middle, 0, 2);
    tcase_add_test(tests, test_output_compact);
    tcase_add_test(tests, test_output_uncounted);
    tcase_add_test(tests, test_output_dropped);
    suite_add_tcase(suite, tests);
    tests = tcase_create("price");
    tcase_set_tags(tests, "timing");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, kept_set_up, kept_tear_down);
    tcase_add_loop_test(tests, test_output_price, 0, 2);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
