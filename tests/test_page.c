/* Pages and outputs from a real events environment: bounds hold for whatever bytes, every byte comes back,
 * the end is told only with the exit event, the middle of a long output is left out and said. */
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/lines.h"
#include "lib/base/utf8.h"
#include "lib/op/op.h"
#include "lib/op/output.h"
#include "lib/op/page.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#define WORKSPACE "ws-0123456789abcdef0123456789abcdef"
#define SANDBOX   "sb-0123456789abcdef0123456789abcdef"

static char directory[] = "/tmp/test-page-XXXXXX";
static struct events_writer *writer;
static struct events_reader *reader;
static struct exec_head head;

static void set_up(void)
{
    struct events_options options = { directory, WORKSPACE, 64 << 20, 1 << 30 };
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_ptr_nonnull(mkdtemp(directory));
    writer = events_writer_open(&options, &err);
    ck_assert_msg(writer != NULL, "%s", err.message);
    reader = events_writer_reader(writer);
}

static void tear_down(void)
{
    events_writer_close(writer);
    io_remove_tree(AT_FDCWD, directory, NULL);
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
}

static void begin_exec(void)
{
    json_auto_t *info = json_pack("{s:s}", "command", "true");
    _cleanup_error_ struct error err = ERROR_INIT;

    memset(&head, 0, sizeof head);
    id_make(ID_EXEC, head.id);
    head.created_us = head.updated_us = clock_wall_us();
    ck_assert_int_eq(events_begin(writer, &err), 0);
    ck_assert_int_eq(events_add_exec(writer, &head, info, NULL, NULL, &err), 0);
    ck_assert_int_eq(events_commit(writer, &err), 0);
}

static void add(enum event_type type, unsigned flags, const void *data, size_t length)
{
    struct event event = {
        .type = type, .flags = flags, .wall_us = 1700000000123456, .data = data, .length = length
    };
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_int_eq(events_begin(writer, &err), 0);
    ck_assert_msg(events_append(writer, &head, &event, &err) == 0, "%s", err.message);
    ck_assert_int_eq(events_put_exec(writer, &head, &err), 0);
    ck_assert_int_eq(events_commit(writer, &err), 0);
}

/* As the keeper does: one transaction for the lot. */
static void write_output(enum event_type type, const char *data, size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_int_eq(events_begin(writer, &err), 0);
    while (length > 0) {
        unsigned flags = 0;
        size_t part = events_cut(data, length, true, &flags);
        struct event event = {
            .type = type, .flags = flags, .wall_us = 1700000000123456, .data = data, .length = part
        };
        ck_assert_msg(events_append(writer, &head, &event, &err) == 0, "%s", err.message);
        data += part;
        length -= part;
    }
    ck_assert_int_eq(events_put_exec(writer, &head, &err), 0);
    ck_assert_int_eq(events_commit(writer, &err), 0);
}

static void end_exec(void)
{
    static const char members[] = "\"returncode\":0,\"signal\":null,\"timed_out\":false,\"oom_killed\":false,"
                                  "\"state\":\"finished\",\"duration_ms\":5";

    head.state = EXEC_FINISHED;
    head.has_returncode = true;
    head.exit_seq = head.last_seq + 1;
    head.finished_us = clock_wall_us();
    add(EVENT_EXIT, 0, members, sizeof members - 1);
}

static struct page_request request_from(uint64_t cursor)
{
    return (struct page_request){ .workspace_id = WORKSPACE,
                                  .sandbox_id = SANDBOX,
                                  .exec_id = head.id,
                                  .cursor = cursor,
                                  .max_events = 500,
                                  .max_bytes = 90000 };
}

static json_t *render(const struct page_request *request, struct page *page)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *value;

    ck_assert_msg(page_render(reader, request, &out, page, &err) == 0, "%s", err.message);
    value = json_loadb(out.data, out.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    ck_assert_msg(value != NULL, "%.*s", (int)(out.length < 400 ? out.length : 400), out.data);
    ck_assert_msg(field_check_result(op_find("getRealtimeWorkspaceExecEvents")->result, value, &err) == 0,
                  "%s", err.message);
    if (page->events > 1 || request->max_bytes >= 90000)
        ck_assert_uint_le(out.length + (request->twice ? utf8_json_size(out.data, out.length) + 400 : 0),
                          request->max_bytes);
    return value;
}

static bool text_is(const json_t *value, const char *name, const char *wanted)
{
    const char *text = json_string_value(json_object_get(value, name));

    return text && !strcmp(text, wanted);
}

START_TEST(test_members)
{
    json_auto_t *first = NULL, *second = NULL, *rest = NULL;
    const json_t *events, *event;
    struct page_request request;
    struct page page;

    begin_exec();
    add(EVENT_STATUS, 0, "\"state\":\"starting\"", 18);
    head.state = EXEC_RUNNING;
    add(EVENT_STATUS, 0, "\"state\":\"running\",\"pid\":7", 25);
    add(EVENT_STDOUT, 0, "hi \"\\\n\x1b\xe2\x82\xac", 10);
    add(EVENT_STDERR, EVENT_BINARY, "\xff\0x", 3);
    end_exec();
    add(EVENT_STDOUT, EVENT_LATE, "late", 4);

    request = request_from(0);
    request.max_events = 4;
    first = render(&request, &page);
    events = json_object_get(first, "events");
    ck_assert_uint_eq(json_array_size(events), 4);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(events, 1), "pid")), 7);
    ck_assert(text_is(json_array_get(events, 0), "timestamp", "2023-11-14T22:13:20.123456+00:00"));
    ck_assert(text_is(json_array_get(events, 2), "data", "hi \"\\\n\x1b\xe2\x82\xac"));
    ck_assert(text_is(json_array_get(events, 3), "data_base64", "/wB4"));
    /* The exec is over, but this page does not carry its end. */
    ck_assert(text_is(first, "state", "running"));
    ck_assert(json_is_null(json_object_get(first, "returncode")));
    ck_assert(json_is_true(json_object_get(first, "has_more")));
    ck_assert(page.has_more && !page.final && page.next_cursor == 4);

    request = request_from(4);
    request.max_events = 1;
    second = render(&request, &page);
    ck_assert(text_is(second, "state", "finished"));
    ck_assert_int_eq(json_integer_value(json_object_get(second, "returncode")), 0);
    ck_assert(json_is_integer(json_object_get(second, "returncode")));
    ck_assert(!page.final && page.has_more);

    request = request_from(5);
    rest = render(&request, &page);
    event = json_array_get(json_object_get(rest, "events"), 0);
    ck_assert(json_is_true(json_object_get(event, "late")));
    ck_assert(text_is(rest, "state", "finished") && page.final && !page.has_more);
}
END_TEST

START_TEST(test_edges)
{
    json_auto_t *empty = NULL, *beyond = NULL, *tail = NULL;
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct page_request request;
    struct page page;

    begin_exec();
    request = request_from(0);
    empty = render(&request, &page);
    ck_assert_uint_eq(page.events, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(empty, "next_cursor")), 0);
    for (int i = 0; i < 10; i++)
        add(EVENT_STDOUT, 0, "x", 1);
    request = request_from(2147483647);
    beyond = render(&request, &page);
    ck_assert_int_eq(json_integer_value(json_object_get(beyond, "next_cursor")), 2147483647);
    ck_assert(!page.has_more);
    request = request_from(0);
    request.tail = 3;
    tail = render(&request, &page);
    ck_assert_uint_eq(page.events, 3);
    ck_assert_uint_eq(page.next_cursor, 10);
    ck_assert_uint_eq(json_array_size(json_object_get(tail, "events")), 3);
    request.exec_id = "ex-00000000000000000000000000000000";
    ck_assert_int_eq(page_render(reader, &request, &out, &page, &err), -1);
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

    begin_exec();
    add(EVENT_STDOUT, 0, "a\r\nb", 4);
    end_exec();
    request = request_from(0);
    request.as_sse = true;
    ck_assert_int_eq(page_render(reader, &request, &out, &page, &err), 0);
    ck_assert_msg(!strncmp(buffer_text(&out), wanted, sizeof wanted - 1), "%s", buffer_text(&out));
    ck_assert(page.final);
    ck_assert(!strcmp(buffer_text(&out) + out.length - 3, "}\n\n"));
}
END_TEST

/* ---- bounds and exactness ---- */

static void fill(char *data, size_t length, int kind)
{
    static const char *const emoji = "\xf0\x9f\x98\x80", *const han = "\xe6\xbc\xa2";
    uint32_t random = 1;

    for (size_t i = 0; i < length; i++) {
        random = random * 1103515245 + 12345;
        switch (kind) {
        case 0:
            data[i] = '\0';
            break;
        case 1:
            data[i] = '"';
            break;
        case 2:
            data[i] = '\\';
            break;
        case 3:
            data[i] = emoji[i % 4];
            break;
        case 4:
            data[i] = han[i % 3];
            break;
        case 5:
            data[i] = (char)(random >> 16);
            break;
        case 6:
            data[i] = '\xff';
            break;
        case 7:
            data[i] = "\x1b[1;31m\"\\\t"[i % 10];
            break;
        default:
            data[i] = (char)('a' + i % 26);
            break;
        }
    }
}

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
    struct page_request request = request_from(0);
    struct page page;

    request.twice = twice;
    request.max_bytes = max_bytes;
    do {
        json_auto_t *value = render(&request, &page);
        const json_t *event;
        size_t index;
        ck_assert_uint_ge(page.events, 1);
        json_array_foreach(json_object_get(value, "events"), index, event) {
            ck_assert_int_eq(json_integer_value(json_object_get(event, "seq")),
                             (json_int_t)(request.cursor + index + 1));
            append_event(all, event);
        }
        ck_assert(text_is(value, "state", page.final ? "finished" : "running"));
        request.cursor = page.next_cursor;
    } while (!page.final);
}

START_TEST(test_bounds)
{
    static const size_t bounds[] = { 1024, 90000, 1000000 };
    const size_t length = 300000 / 12 * 12;
    char *data = malloc(length);

    fill(data, length, _i);
    begin_exec();
    write_output(EVENT_STDOUT, data, length);
    end_exec();
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
    struct events_options options = { directory, "ws-ffffffffffffffffffffffffffffffff", 64 << 20, 200000 };
    _cleanup_error_ struct error err = ERROR_INIT;
    struct events_writer *all = writer;
    json_auto_t *value = NULL;
    char *data = malloc(1000000);
    struct page_request request;
    struct page page;

    writer = events_writer_open(&options, &err);
    reader = events_writer_reader(writer);
    fill(data, 1000000, 9);
    begin_exec();
    write_output(EVENT_STDOUT, data, 1000000);
    request = request_from(1);
    value = render(&request, &page);
    ck_assert(json_is_true(json_object_get(value, "cursor_expired")));
    ck_assert_int_gt(json_integer_value(json_object_get(value, "dropped_events")), 0);
    ck_assert(json_equal(json_object_get(value, "first_seq"),
                         json_object_get(json_array_get(json_object_get(value, "events"), 0), "seq")));
    events_writer_close(writer);
    writer = all;
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
        ck_assert_int_eq(page_part(reader, request, most, page, out, NULL), 0);
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

    fill(data, 1200000, _i);
    begin_exec();
    write_output(EVENT_STDOUT, data, 1200000);
    end_exec();
    for (size_t b = 0; b < N_ELEMENTS(bounds); b++)
        for (size_t m = 0; m < N_ELEMENTS(mosts); m++) {
            _cleanup_buffer_ struct buffer whole = BUFFER_INIT, parts = BUFFER_INIT;
            struct page_request request = request_from(m * 3);
            struct page one, other;
            request.max_bytes = bounds[b];
            ck_assert_int_eq(page_render(reader, &request, &whole, &one, NULL), 0);
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
    write_output(EVENT_STDOUT, "more", 4);
    if (--*left == 0)
        end_exec();
}

/* The members behind the events are those of the last part's moment. */
START_TEST(test_parts_of_a_growing_log)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char *data = malloc(400000);
    struct page page;
    int left = 3;

    fill(data, 400000, 9);
    begin_exec();
    head.state = EXEC_RUNNING;
    write_output(EVENT_STDOUT, data, 400000);
    struct page_request request = request_from(0);
    request.max_bytes = 8388608;
    ck_assert_uint_gt(in_parts(&request, 50000, grow, &left, &out, &page), 4);
    json_auto_t *value = parsed(&out);
    ck_assert_uint_eq(json_array_size(json_object_get(value, "events")), head.last_seq);
    ck_assert(text_is(value, "state", "finished") && page.final);
    ck_assert(json_is_false(json_object_get(value, "has_more")));
    ck_assert_int_eq(json_integer_value(json_object_get(value, "returncode")), 0);
    free(data);
}
END_TEST

static void overflow(void *user)
{
    write_output(EVENT_STDOUT, user, 1000000);
}

/* The oldest events go while a slow client reads: the page ends before the gap, the next one tells it. */
START_TEST(test_parts_end_before_a_gap)
{
    struct events_options options = { directory, "ws-ffffffffffffffffffffffffffffffff", 64 << 20, 500000 };
    struct events_writer *all = writer;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_error_ struct error err = ERROR_INIT;
    char *data = malloc(1000000);
    struct page page;

    writer = events_writer_open(&options, &err);
    reader = events_writer_reader(writer);
    fill(data, 1000000, 9);
    begin_exec();
    head.state = EXEC_RUNNING;
    write_output(EVENT_STDOUT, data, 400000);
    struct page_request request = request_from(0);
    request.max_bytes = 8388608;
    ck_assert_uint_eq(in_parts(&request, 50000, overflow, data, &out, &page), 2);
    json_auto_t *value = parsed(&out), *next = NULL;
    ck_assert_uint_eq(page.events, 4);
    ck_assert_uint_eq(page.next_cursor, 4);
    ck_assert(json_is_true(json_object_get(value, "has_more")));
    ck_assert(json_is_false(json_object_get(value, "cursor_expired"))); /* it has all after its cursor */
    ck_assert_int_gt(json_integer_value(json_object_get(value, "first_seq")), 5);
    request.cursor = page.next_cursor;
    next = render(&request, &page);
    ck_assert(json_is_true(json_object_get(next, "cursor_expired")));
    events_writer_close(writer);
    writer = all;
    free(data);
}
END_TEST

static void prune(void *user)
{
    size_t removed;

    (void)user;
    while (events_prune(writer, INT64_MAX, &removed, NULL) > 0)
        continue;
}

/* The log is removed meanwhile: what was there is a page. */
START_TEST(test_parts_of_a_removed_log)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char *data = malloc(400000);
    struct page page;

    fill(data, 400000, 9);
    begin_exec();
    write_output(EVENT_STDOUT, data, 400000);
    end_exec();
    struct page_request request = request_from(0);
    request.max_bytes = 8388608;
    ck_assert_uint_eq(in_parts(&request, 50000, prune, NULL, &out, &page), 2);
    json_auto_t *value = parsed(&out);
    ck_assert(json_is_true(json_object_get(value, "has_more")));
    ck_assert(text_is(value, "state", "running") && !page.final);
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
    begin_exec();
    write_output(EVENT_STDOUT, data, length);
    end_exec();
    for (int round = 0; round < 3; round++) {
        request = request_from(0);
        request.max_bytes = 8388608;
        begun = clock_boottime_us();
        do {
            out.length = 0;
            ck_assert_int_eq(page_render(reader, &request, &out, &page, NULL), 0);
            request.cursor = page.next_cursor;
        } while (!page.final);
        if ((double)length / (double)(clock_boottime_us() - begun) > best)
            best = (double)length / (double)(clock_boottime_us() - begun);
    }
    printf("pages: %.0f MB/s\n", best);
    free(data);
}
END_TEST

/* ---- output of synchronous commands ---- */

static void collect(size_t max_bytes, bool twice, struct output *ret)
{
    const struct output_request request = {
        .exec_id = head.id, .max_bytes = max_bytes, .max_chars = 120000, .twice = twice
    };
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_msg(output_read(reader, &request, ret, &err) == 0, "%s", err.message);
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

    begin_exec();
    write_output(EVENT_STDOUT, "one\n", 4);
    write_output(EVENT_STDERR, "two\n", 4);
    write_output(EVENT_STDOUT, "three\n", 6);
    end_exec();
    add(EVENT_STDOUT, EVENT_LATE, "late\n", 5);
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
    ck_assert_str_eq(id, head.id);
    front = (size_t)(marker - text);
    back = shown->length - front - (size_t)(strstr(marker, "] ...\n") + 6 - marker);
    ck_assert_uint_eq(front + back + left, length);
    ck_assert_uint_eq(lines, lines_count(data + front, left));
    ck_assert(!memcmp(text, data, front));
    ck_assert(!memcmp(text + shown->length - back, data + length - back, back));
    ck_assert_uint_gt(front, 0);
    ck_assert_uint_gt(back, 0);
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
            fill(data, length, _i);
            begin_exec();
            write_output(EVENT_STDOUT, data, length);
            write_output(EVENT_STDERR, "small", 5);
            end_exec();
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

    fill(data, 500000, 9);
    begin_exec();
    for (int i = 0; i < 50; i++) {
        write_output(EVENT_STDOUT, data + i * 10000, 10000);
        write_output(EVENT_STDERR, data + i * 10000, 10000);
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

    fill(data, 1000000, 9);
    begin_exec();
    write_output(EVENT_STDERR, "first", 5);
    write_output(EVENT_STDOUT, data, 1000000);
    write_output(EVENT_STDERR, "a warning", 9);
    write_output(EVENT_STDOUT, data, 1000000);
    end_exec();
    add(EVENT_STDERR, EVENT_LATE, "late", 4);
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
    struct page_request request = request_from(cursor);
    struct page page;
    bool found = false;
    do {
        json_auto_t *value = render(&request, &page);
        const json_t *event;
        size_t index;
        json_array_foreach(json_object_get(value, "events"), index, event) {
            if (text_is(event, "type", "stderr") && !found) {
                ck_assert(text_is(event, "data", "a warning"));
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

    fill(data, 1000000, 9);
    begin_exec();
    head.counted = head.counted_lines = false;
    write_output(EVENT_STDOUT, data, 1000000);
    end_exec();
    collect(88000, false, &output);
    ck_assert(output.truncated[0] && output.truncated[1]);
    snprintf(wanted, sizeof wanted, "\n... [the middle left out: read events of %s from cursor ", head.id);
    ck_assert_ptr_nonnull(strstr(buffer_text(&output.streams[0]), wanted));
    ck_assert_ptr_nonnull(strstr(buffer_text(&output.streams[1]), wanted));
    output_clear(&output);
    begin_exec();
    head.counted = head.counted_lines = false;
    write_output(EVENT_STDOUT, data, 100000); /* head and tail meet: nothing else is needed */
    end_exec();
    collect(88000, false, &output);
    ck_assert(!output.truncated[1]);
    check_cut(&output.streams[0], data, 100000);
    output_clear(&output);
    free(data);
}
END_TEST

START_TEST(test_output_dropped)
{
    struct events_options options = { directory, "ws-ffffffffffffffffffffffffffffffff", 64 << 20, 200000 };
    struct events_writer *all = writer;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct output output = { 0 };
    char *data = malloc(500000);
    unsigned long long dropped[2], left;

    writer = events_writer_open(&options, &err);
    reader = events_writer_reader(writer);
    fill(data, 500000, 9);
    begin_exec();
    for (int i = 0; i < 50; i++) {
        write_output(EVENT_STDOUT, data + i * 10000, 10000);
        write_output(EVENT_STDERR, data + i * 1000, 1000);
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
    events_writer_close(writer);
    writer = all;
    free(data);
}
END_TEST

/* Condensed first, cut then: both ends of a log beyond what is looked at, with what lies between in numbers.
 */
START_TEST(test_output_compact)
{
    struct output output = { 0 };
    struct output_request request = {
        .exec_id = head.id, .max_bytes = 88000, .max_chars = 120000, .max_raw = 51200, .compact = true
    };
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer noise = BUFFER_INIT;
    unsigned long long bytes, lines;

    for (int i = 0; i < 100000; i++)
        buffer_printf(&noise, "t/test_a.py::test_%d PASSED\n", i);
    begin_exec();
    write_output(EVENT_STDOUT, "first\n", 6);
    write_output(EVENT_STDOUT, noise.data, noise.length);
    write_output(EVENT_STDERR, "error: 1\nlittle\n", 16);
    write_output(EVENT_STDOUT, "last", 4);
    end_exec();
    ck_assert_int_eq(output_read(reader, &request, &output, &err), 0);
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

    fill(data, length, 9);
    begin_exec();
    if (_i) {
        _cleanup_error_ struct error err = ERROR_INIT;
        ck_assert_int_eq(events_begin(writer, &err), 0);
        for (size_t i = 0; i < length; i++) {
            struct event event = { .type = EVENT_STDOUT, .data = data + i, .length = 1 };
            ck_assert_int_eq(events_append(writer, &head, &event, &err), 0);
        }
        ck_assert_int_eq(events_put_exec(writer, &head, &err), 0);
        ck_assert_int_eq(events_commit(writer, &err), 0);
    } else {
        write_output(EVENT_STDOUT, data, length);
    }
    begun = cpu_ms();
    ck_assert_int_eq(events_read(reader, head.id, 0, &head, count_bytes, &bytes, NULL), 0);
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
    Suite *suite = suite_create("page");
    TCase *tests = tcase_create("page");

    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_members);
    tcase_add_test(tests, test_edges);
    tcase_add_test(tests, test_sse);
    tcase_add_loop_test(tests, test_bounds, 0, 9);
    tcase_add_test(tests, test_expired);
    tcase_add_loop_test(tests, test_parts_are_the_page, 0, 10);
    tcase_add_test(tests, test_parts_of_a_growing_log);
    tcase_add_test(tests, test_parts_end_before_a_gap);
    tcase_add_test(tests, test_parts_of_a_removed_log);
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
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_speed);
    tcase_add_loop_test(tests, test_output_price, 0, 2);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
