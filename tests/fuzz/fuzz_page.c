/* Whatever commands wrote, pages of it are JSON (or server-sent events) of the declared form and within their
 * bound, and put together again they are the bytes that were written. An input is four bytes of how to read,
 * then events: kind, times 256, length, bytes. */
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/utf8.h"
#include "lib/op/op.h"
#include "lib/op/output.h"
#include "lib/op/page.h"
#include "tests/fuzz/input.h"

#include <fcntl.h>
#include <stdio.h>

#define WORKSPACE "ws-00000000000000000000000000000000"
#define SANDBOX   "sb-00000000000000000000000000000000"

enum { RUNS_A_STORE = 500, WRITTEN_MOST = 80000 };

static char directory[64];
static struct events_writer *writer;
static struct exec_head head;
static struct buffer written[2]; /* stdout, stderr */

static void leave(void)
{
    events_writer_close(writer);
    io_remove_tree(AT_FDCWD, directory, NULL);
}

/* A new store now and then: it would else grow without end. */
static void open_store(void)
{
    static unsigned runs;
    if (runs++ % RUNS_A_STORE != 0)
        return;
    if (writer == NULL) {
        log_init("fuzz", LOG_LEVEL_ERROR, "/dev/null");
        snprintf(directory, sizeof(directory), "%s", "/dev/shm/wsf-fuzz-XXXXXX");
        holds(mkdtemp(directory) != NULL);
        atexit(leave);
    } else {
        events_writer_close(writer);
        io_remove_tree(AT_FDCWD, directory, NULL);
        io_ensure_directory(directory, 0700, NULL);
    }
    struct events_options options = { directory, WORKSPACE, 64 << 20, 1 << 30 };
    writer = events_writer_open(&options, NULL);
    holds(writer != NULL);
}

static void append(enum event_type type, unsigned flags, const char *data, size_t length)
{
    struct event event = {
        .type = type, .flags = flags, .wall_us = 1700000000123456, .data = data, .length = length
    };
    holds(events_append(writer, &head, &event, NULL) == 0);
}

/* As the keeper cuts it. */
static void append_output(unsigned channel, const char *data, size_t length)
{
    buffer_append(&written[channel], data, length);
    while (length > 0) {
        unsigned flags = 0;
        size_t part = events_cut(data, length, true, &flags);
        append(channel == 0 ? EVENT_STDOUT : EVENT_STDERR, flags, data, part);
        data += part;
        length -= part;
    }
}

static void write_one(struct input *in)
{
    unsigned kind = input_u8(in), times = (input_u8(in) >> 5) * 40 + 1;
    size_t length;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    uint16_t wanted = input_u16(in);
    const char *bytes = input_bytes(in, wanted, &length);
    for (unsigned i = 0; i < times && text.length + length < WRITTEN_MOST / 4; i++)
        buffer_append(&text, bytes, length);
    if (kind % 8 == 7)
        append(EVENT_STATUS, 0, "\"state\":\"running\",\"pid\":7", 25);
    else if (kind % 8 == 6 && text.length > 0) {
        size_t valid = utf8_valid_prefix(text.data, text.length < 1000 ? text.length : 1000);
        append(EVENT_ERROR, 0, text.data, valid);
    } else
        append_output(kind & 1, text.data, text.length);
}

static void write_exec(struct input *in)
{
    static const char members[] = "\"returncode\":0,\"signal\":null,\"timed_out\":false,\"oom_killed\":false,"
                                  "\"state\":\"finished\",\"duration_ms\":5";
    json_auto_t *info = json_pack("{s:s}", "command", "true");
    head = (struct exec_head){ .created_us = clock_wall_us(), .state = EXEC_RUNNING };
    id_make(ID_EXEC, head.id);
    written[0].length = written[1].length = 0;
    holds(events_begin(writer, NULL) == 0 && events_add_exec(writer, &head, info, NULL, NULL, NULL) == 0);
    while (in->left > 0 && written[0].length + written[1].length < WRITTEN_MOST)
        write_one(in);
    head.state = EXEC_FINISHED;
    head.has_returncode = true;
    head.exit_seq = head.last_seq + 1;
    append(EVENT_EXIT, 0, members, sizeof(members) - 1);
    holds(events_put_exec(writer, &head, NULL) == 0 && events_commit(writer, NULL) == 0);
}

/* ---- reading back ---- */

static void take_event(const json_t *event, struct buffer read[static 2])
{
    const char *type = json_string_value(json_object_get(event, "type"));
    const json_t *exact = json_object_get(event, "data_base64"), *text = json_object_get(event, "data");
    struct buffer *to = strcmp(type, "stdout") == 0   ? &read[0]
                        : strcmp(type, "stderr") == 0 ? &read[1]
                                                      : NULL;
    if (to == NULL)
        return;
    if (exact != NULL)
        holds(base64_decode(json_string_value(exact), json_string_length(exact), to));
    else
        buffer_append(to, json_string_value(text), json_string_length(text));
}

static void check_bound(const struct page_request *request, const struct page *page, const struct buffer *out)
{
    size_t size = out->length + (request->twice ? utf8_json_size(out->data, out->length) + 400 : 0);
    holds(size <= request->max_bytes || (page->events <= 1 && request->max_bytes < 90000));
}

static void take_page(const struct page_request *request, const struct page *page, const struct buffer *out,
                      struct buffer read[static 2])
{
    json_auto_t *value = json_loadb(out->data, out->length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const json_t *event;
    size_t index;
    holds(value != NULL);
    holds(field_check_result(op_find("getRealtimeWorkspaceExecEvents")->result, value, NULL) == 0);
    check_bound(request, page, out);
    json_array_foreach(json_object_get(value, "events"), index, event) {
        holds(json_integer_value(json_object_get(event, "seq")) == (json_int_t)(request->cursor + index + 1));
        take_event(event, read);
    }
    holds(index == page->events && request->cursor + index == page->next_cursor);
}

/* "id: N\nevent: TYPE\ndata: JSON\n\n", and no line end within. */
static void take_sse(const struct page *page, const struct buffer *out, struct buffer read[static 2])
{
    struct input in = { (const uint8_t *)out->data, out->length };
    size_t count = 0, length;
    for (; in.left > 0; count++) {
        const char *line = input_line(&in, &length);
        holds(length > 4 && memcmp(line, "id: ", 4) == 0);
        line = input_line(&in, &length);
        holds(length > 7 && memcmp(line, "event: ", 7) == 0);
        line = input_line(&in, &length);
        holds(length > 6 && memcmp(line, "data: ", 6) == 0 && memchr(line, '\r', length) == NULL);
        json_auto_t *event = json_loadb(line + 6, length - 6, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        holds(json_is_object(event));
        take_event(event, read);
        input_line(&in, &length);
        holds(length == 0);
    }
    holds(count == page->events);
}

static void read_back(struct page_request request)
{
    struct page page = { 0 };
    struct buffer read[2] = { BUFFER_INIT, BUFFER_INIT };
    do {
        _cleanup_buffer_ struct buffer out = BUFFER_INIT;
        holds(page_render(events_writer_reader(writer), &request, &out, &page, NULL) == 0);
        holds(page.events >= 1 && page.events <= request.max_events);
        if (request.as_sse)
            take_sse(&page, &out, read);
        else
            take_page(&request, &page, &out, read);
        request.cursor = page.next_cursor;
    } while (!page.final);
    holds(page.next_cursor == head.last_seq);
    for (int i = 0; i < 2; i++) {
        holds(read[i].length == written[i].length);
        holds(read[i].length == 0 || memcmp(read[i].data, written[i].data, read[i].length) == 0);
        buffer_free(&read[i]);
    }
}

static void check_output(size_t max_bytes, bool twice, bool compact)
{
    struct output_request request = { .exec_id = head.id,
                                      .max_bytes = max_bytes,
                                      .max_chars = 5000,
                                      .twice = twice,
                                      .compact = compact,
                                      .max_raw = compact ? 3000 : 0 };
    struct output output = { 0 };
    size_t size = 0;
    holds(output_read(events_writer_reader(writer), &request, &output, NULL) == 0);
    output_condense(&output, &request);
    output_show(&output, &request);
    for (int i = 0; i < 2; i++) {
        const struct buffer *stream = &output.streams[i];
        size += stream->length > 0 ? utf8_json_size(stream->data, stream->length) : 0;
        holds(!compact || stream->length <= 3000);
        holds(!output.condensed[i] || output.truncated[i] || stream->length < written[i].length);
        holds(output.truncated[i] || output.condensed[i] ||
              (stream->length == written[i].length &&
               (stream->length == 0 || !memcmp(stream->data, written[i].data, stream->length))));
    }
    holds(size <= max_bytes);
    output_clear(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data, size };
    struct page_request request = { .workspace_id = WORKSPACE, .sandbox_id = SANDBOX, .exec_id = head.id };
    unsigned how = input_u8(&in);
    if (size < 4 || size > 60000)
        return 0;
    request.as_sse = how & 1;
    request.twice = !request.as_sse && (how & 2);
    request.max_bytes = 1024 + (size_t)input_u16(&in) * (how & 4 ? 1 : 8);
    request.max_events = how & 8 ? (size_t)input_u8(&in) + 1 : 500;
    open_store();
    write_exec(&in);
    read_back(request);
    for (int compact = 0; compact < 2; compact++)
        check_output(request.max_bytes < 4096 ? 4096 : request.max_bytes, request.twice, compact);
    return 0;
}
