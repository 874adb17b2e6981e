/* Pages from a real events environment: bounds hold for whatever bytes, every byte comes back, the end is
 * told only with the exit event. */
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/op/op.h"
#include "lib/op/page.h"
#include "tests/support/log_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

START_TEST(test_members)
{
    json_auto_t *first = NULL, *second = NULL, *rest = NULL;
    const json_t *events, *event;
    struct page_request request;
    struct page page;

    kept_begin();
    kept_add(EVENT_STATUS, 0, "\"state\":\"starting\"", 18);
    kept.head.state = EXEC_RUNNING;
    kept_add(EVENT_STATUS, 0, "\"state\":\"running\",\"pid\":7", 25);
    kept_add(EVENT_STDOUT, 0, "hi \"\\\n\x1b\xe2\x82\xac", 10);
    kept_add(EVENT_STDERR, EVENT_BINARY, "\xff\0x", 3);
    kept_end();
    kept_add(EVENT_STDOUT, EVENT_LATE, "late", 4);

    request = kept_request(0);
    request.max_events = 4;
    first = kept_render(&request, &page);
    events = json_object_get(first, "events");
    ck_assert_uint_eq(json_array_size(events), 4);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(events, 1), "pid")), 7);
    ck_assert(kept_says(json_array_get(events, 0), "timestamp", "2023-11-14T22:13:20.123456+00:00"));
    ck_assert(kept_says(json_array_get(events, 2), "data", "hi \"\\\n\x1b\xe2\x82\xac"));
    ck_assert(kept_says(json_array_get(events, 3), "data_base64", "/wB4"));
    /* The exec is over, but this page does not carry its end. */
    ck_assert(kept_says(first, "state", "running"));
    ck_assert(json_is_null(json_object_get(first, "returncode")));
    ck_assert(json_is_true(json_object_get(first, "has_more")));
    ck_assert(page.has_more && !page.final && page.next_cursor == 4);

    request = kept_request(4);
    request.max_events = 1;
    second = kept_render(&request, &page);
    ck_assert(kept_says(second, "state", "finished"));
    ck_assert_int_eq(json_integer_value(json_object_get(second, "returncode")), 0);
    ck_assert(json_is_integer(json_object_get(second, "returncode")));
    ck_assert(!page.final && page.has_more);

    request = kept_request(5);
    rest = kept_render(&request, &page);
    event = json_array_get(json_object_get(rest, "events"), 0);
    ck_assert(json_is_true(json_object_get(event, "late")));
    ck_assert(kept_says(rest, "state", "finished") && page.final && !page.has_more);
}
END_TEST

START_TEST(test_edges)
{
    json_auto_t *empty = NULL, *beyond = NULL, *tail = NULL;
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct page_request request;
    struct page page;

    kept_begin();
    request = kept_request(0);
    empty = kept_render(&request, &page);
    ck_assert_uint_eq(page.events, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(empty, "next_cursor")), 0);
    for (int i = 0; i < 10; i++)
        kept_add(EVENT_STDOUT, 0, "x", 1);
    request = kept_request(2147483647);
    beyond = kept_render(&request, &page);
    ck_assert_int_eq(json_integer_value(json_object_get(beyond, "next_cursor")), 2147483647);
    ck_assert(!page.has_more);
    request = kept_request(0);
    request.tail = 3;
    tail = kept_render(&request, &page);
    ck_assert_uint_eq(page.events, 3);
    ck_assert_uint_eq(page.next_cursor, 10);
    ck_assert_uint_eq(json_array_size(json_object_get(tail, "events")), 3);
    request.exec_id = "ex-00000000000000000000000000000000";
    ck_assert_int_eq(page_render(kept.reader, &request, &out, &page, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_uint_eq(out.length, 0);
}
END_TEST

START_TEST(test_sse)
{
    static const char wanted[] =
        "id: 1\nevent: stdout\ndata: "
        "{\"seq\":1,\"timestamp\":\"2023-11-14T22:13:20.123456+00:00\",\"type\":\"stdout\","
        "\"data\":\"a\\r\\nb\"}\n\nid: 2\nevent: exit\ndata: {\"seq\":2,";
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct page_request request;
    struct page page;

    kept_begin();
    kept_add(EVENT_STDOUT, 0, "a\r\nb", 4);
    kept_end();
    request = kept_request(0);
    request.as_sse = true;
    ck_assert_int_eq(page_render(kept.reader, &request, &out, &page, &err), 0);
    ck_assert_msg(!strncmp(buffer_text(&out), wanted, sizeof wanted - 1), "%s", buffer_text(&out));
    ck_assert(page.final);
    ck_assert(!strcmp(buffer_text(&out) + out.length - 3, "}\n\n"));
}
END_TEST

/* ---- bounds and exactness ---- */

/* What one event says, as the bytes that were written. */
static void append_event(struct buffer *all, const json_t *event)
{
    const json_t *exact = json_object_get(event, "data_base64"), *text = json_object_get(event, "data");

    if (exact)
        ck_assert(base64_decode(json_string_value(exact), json_string_length(exact), all));
    else if (text)
        buffer_append(all, json_string_value(text), json_string_length(text));
}

static void read_back(size_t max_bytes, bool twice, struct buffer *all)
{
    struct page_request request = kept_request(0);
    struct page page;

    request.twice = twice;
    request.max_bytes = max_bytes;
    do {
        json_auto_t *value = kept_render(&request, &page);
        const json_t *event;
        size_t index;
        ck_assert_uint_ge(page.events, 1);
        json_array_foreach(json_object_get(value, "events"), index, event) {
            ck_assert_int_eq(json_integer_value(json_object_get(event, "seq")),
                             (json_int_t)(request.cursor + index + 1));
            append_event(all, event);
        }
        ck_assert(kept_says(value, "state", page.final ? "finished" : "running"));
        request.cursor = page.next_cursor;
    } while (!page.final);
}

START_TEST(test_bounds)
{
    static const size_t bounds[] = { 1024, 90000, 1000000 };
    const size_t length = 300000 / 12 * 12;
    char *data = malloc(length);

    kept_fill(data, length, _i);
    kept_begin();
    kept_write(EVENT_STDOUT, data, length);
    kept_end();
    for (size_t i = 0; i < N_ELEMENTS(bounds); i++)
        for (int twice = 0; twice < 2; twice++) {
            _cleanup_buffer_ struct buffer all = BUFFER_INIT;
            read_back(bounds[i], twice, &all);
            ck_assert_uint_eq(all.length, length);
            ck_assert(!memcmp(all.data, data, length));
        }
    free(data);
}
END_TEST

/* A log over its limit: the page says that the cursor expired and begins with what is kept. */
START_TEST(test_expired)
{
    struct events_options options = { kept_directory, "ws-ffffffffffffffffffffffffffffffff", 64 << 20,
                                      200000 };
    _cleanup_error_ struct error err = ERROR_INIT;
    struct events_writer *all = kept.writer;
    json_auto_t *value = NULL;
    char *data = malloc(1000000);
    struct page_request request;
    struct page page;

    kept.writer = events_writer_open(&options, &err);
    kept.reader = events_writer_reader(kept.writer);
    kept_fill(data, 1000000, 9);
    kept_begin();
    kept_write(EVENT_STDOUT, data, 1000000);
    request = kept_request(1);
    value = kept_render(&request, &page);
    ck_assert(json_is_true(json_object_get(value, "cursor_expired")));
    ck_assert_int_gt(json_integer_value(json_object_get(value, "dropped_events")), 0);
    ck_assert(json_equal(json_object_get(value, "first_seq"),
                         json_object_get(json_array_get(json_object_get(value, "events"), 0), "seq")));
    events_writer_close(kept.writer);
    kept.writer = all;
    free(data);
}
END_TEST

/* ---- in parts ---- */

/* One page in parts; between(user) runs between two of them. Returns how many parts there were. */
static size_t in_parts(const struct page_request *request, size_t most, void (*between)(void *), void *user,
                       struct buffer *out, struct page *page)
{
    size_t parts = 0;

    *page = (struct page){ 0 };
    for (; !page->over; parts++) {
        size_t mark = out->length;
        if (parts > 0 && between)
            between(user);
        ck_assert_int_eq(page_part(kept.reader, request, most, page, out, NULL), 0);
        ck_assert_uint_le(out->length - mark, most + EVENT_ENCODED_MAX + 1000);
    }
    return parts;
}

static json_t *parsed(const struct buffer *out)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *value = json_loadb(out->data, out->length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

    ck_assert_msg(value != NULL, "%.*s", (int)(out->length < 400 ? out->length : 400), out->data);
    ck_assert_msg(field_check_result(op_find("getRealtimeWorkspaceExecEvents")->result, value, &err) == 0,
                  "%s", err.message);
    return value;
}

/* However it is cut, it is the same page. */
START_TEST(test_parts_are_the_page)
{
    static const size_t mosts[] = { 1, 5000, 100000, 1000000 };
    static const size_t bounds[] = { 1024, 90000, 700000, 8388608 };
    char *data = malloc(1200000);

    kept_fill(data, 1200000, _i);
    kept_begin();
    kept_write(EVENT_STDOUT, data, 1200000);
    kept_end();
    for (size_t b = 0; b < N_ELEMENTS(bounds); b++)
        for (size_t m = 0; m < N_ELEMENTS(mosts); m++) {
            _cleanup_buffer_ struct buffer whole = BUFFER_INIT, parts = BUFFER_INIT;
            struct page_request request = kept_request(m * 3);
            struct page one, other;
            request.max_bytes = bounds[b];
            ck_assert_int_eq(page_render(kept.reader, &request, &whole, &one, NULL), 0);
            size_t count = in_parts(&request, mosts[m], NULL, NULL, &parts, &other);
            ck_assert_uint_eq(whole.length, parts.length);
            ck_assert(!memcmp(whole.data, parts.data, whole.length));
            ck_assert(count == 1 || whole.length > mosts[m]);
            ck_assert(one.final == other.final && one.next_cursor == other.next_cursor &&
                      one.events == other.events);
        }
    free(data);
}
END_TEST

static void grow(void *user)
{
    int *left = user;

    if (*left == 0)
        return;
    kept_write(EVENT_STDOUT, "more", 4);
    if (--*left == 0)
        kept_end();
}

/* The members behind the events are those of the last part's moment. */
START_TEST(test_parts_of_a_growing_log)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char *data = malloc(400000);
    struct page page;
    int left = 3;

    kept_fill(data, 400000, 9);
    kept_begin();
    kept.head.state = EXEC_RUNNING;
    kept_write(EVENT_STDOUT, data, 400000);
    struct page_request request = kept_request(0);
    request.max_bytes = 8388608;
    ck_assert_uint_gt(in_parts(&request, 50000, grow, &left, &out, &page), 4);
    json_auto_t *value = parsed(&out);
    ck_assert_uint_eq(json_array_size(json_object_get(value, "events")), kept.head.last_seq);
    ck_assert(kept_says(value, "state", "finished") && page.final);
    ck_assert(json_is_false(json_object_get(value, "has_more")));
    ck_assert_int_eq(json_integer_value(json_object_get(value, "returncode")), 0);
    free(data);
}
END_TEST

static void overflow(void *user)
{
    kept_write(EVENT_STDOUT, user, 1000000);
}

/* The oldest events go while a slow client reads: the page ends before the gap, the next one tells it. */
START_TEST(test_parts_end_before_a_gap)
{
    struct events_options options = { kept_directory, "ws-ffffffffffffffffffffffffffffffff", 64 << 20,
                                      500000 };
    struct events_writer *all = kept.writer;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_error_ struct error err = ERROR_INIT;
    char *data = malloc(1000000);
    struct page page;

    kept.writer = events_writer_open(&options, &err);
    kept.reader = events_writer_reader(kept.writer);
    kept_fill(data, 1000000, 9);
    kept_begin();
    kept.head.state = EXEC_RUNNING;
    kept_write(EVENT_STDOUT, data, 400000);
    struct page_request request = kept_request(0);
    request.max_bytes = 8388608;
    ck_assert_uint_eq(in_parts(&request, 50000, overflow, data, &out, &page), 2);
    json_auto_t *value = parsed(&out), *next = NULL;
    ck_assert_uint_eq(page.events, 4);
    ck_assert_uint_eq(page.next_cursor, 4);
    ck_assert(json_is_true(json_object_get(value, "has_more")));
    ck_assert(json_is_false(json_object_get(value, "cursor_expired"))); /* it has all after its cursor */
    ck_assert_int_gt(json_integer_value(json_object_get(value, "first_seq")), 5);
    request.cursor = page.next_cursor;
    next = kept_render(&request, &page);
    ck_assert(json_is_true(json_object_get(next, "cursor_expired")));
    events_writer_close(kept.writer);
    kept.writer = all;
    free(data);
}
END_TEST

static void prune(void *user)
{
    size_t removed;

    (void)user;
    while (events_prune(kept.writer, INT64_MAX, &removed, NULL) > 0)
        continue;
}

/* The log is removed meanwhile: what was there is a page. */
START_TEST(test_parts_of_a_removed_log)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char *data = malloc(400000);
    struct page page;

    kept_fill(data, 400000, 9);
    kept_begin();
    kept_write(EVENT_STDOUT, data, 400000);
    kept_end();
    struct page_request request = kept_request(0);
    request.max_bytes = 8388608;
    ck_assert_uint_eq(in_parts(&request, 50000, prune, NULL, &out, &page), 2);
    json_auto_t *value = parsed(&out);
    ck_assert(json_is_true(json_object_get(value, "has_more")));
    ck_assert(kept_says(value, "state", "running") && !page.final);
    free(data);
}
END_TEST

START_TEST(test_speed)
{
    const size_t length = 64 << 20;
    char *data = malloc(length);
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct page_request request;
    struct page page;
    int64_t begun;
    double best = 0;

    for (size_t i = 0; i < length; i++) /* as a build's log: lines of 80 */
        data[i] = i % 81 == 80 ? '\n' : (char)(' ' + 1 + i % 90 + (i % 90 == 1 || i % 90 == 59));
    kept_begin();
    kept_write(EVENT_STDOUT, data, length);
    kept_end();
    for (int round = 0; round < 3; round++) {
        request = kept_request(0);
        request.max_bytes = 8388608;
        begun = clock_boottime_us();
        do {
            out.length = 0;
            ck_assert_int_eq(page_render(kept.reader, &request, &out, &page, NULL), 0);
            request.cursor = page.next_cursor;
        } while (!page.final);
        if ((double)length / (double)(clock_boottime_us() - begun) > best)
            best = (double)length / (double)(clock_boottime_us() - begun);
    }
    printf("pages: %.0f MB/s\n", best);
    free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page");
    TCase *tests = tcase_create("page");

    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, kept_set_up, kept_tear_down);
    tcase_add_test(tests, test_members);
    tcase_add_test(tests, test_edges);
    tcase_add_test(tests, test_sse);
    tcase_add_loop_test(tests, test_bounds, 0, 9);
    tcase_add_test(tests, test_expired);
    tcase_add_loop_test(tests, test_parts_are_the_page, 0, 10);
    tcase_add_test(tests, test_parts_of_a_growing_log);
    tcase_add_test(tests, test_parts_end_before_a_gap);
    tcase_add_test(tests, test_parts_of_a_removed_log);
    suite_add_tcase(suite, tests);
    tests = tcase_create("price");
    tcase_set_tags(tests, "timing");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, kept_set_up, kept_tear_down);
    tcase_add_test(tests, test_speed);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
