/* Reading a command's log: pages by cursor, waiting for more, server-sent events. Never passes through the
 * keeper; the form of a page is page.c's. */
#include "lib/base/clock.h"
#include "lib/op/ops.h"
#include "lib/op/rows.h"

#define EVENTS_STREAM_MS (300 * 1000) /* of server-sent events, then the client connects anew */
#define EVENTS_SSE_PAGE  (128u << 10)
#define EVENTS_PIECE     (128u << 10) /* a larger page is made in pieces of about this */
#define EVENTS_MCP_MAX   262144       /* an answer of MCP is made whole */

static const struct field events_params[] = {
    ROW_WORKSPACE_ID,
    ROW_EXEC_ID,
    ROW_CURSOR,
    { "wait_seconds", FIELD_NUMBER, FIELD_RANGE(0, 30), .clamp = true, .dflt = "0",
      .text = "How long to wait where there is nothing after the cursor yet; 15 to 25 is good. More than "
              "30 is taken as 30." },
    { "max_events", FIELD_INTEGER, FIELD_RANGE(1, 500), .dflt = "100", .text = "How many events at most." },
    { "max_bytes", FIELD_INTEGER, FIELD_RANGE(1024, 8388608), .dflt = ANSWER_BYTES_TEXT,
      .text = "Largest answer, in encoded bytes; one event always fits. MCP gives at most 262144." },
    { "tail", FIELD_INTEGER, .nullable = true, FIELD_RANGE(1, 500),
      .text = "Only the last so many events after the cursor." },
    { "stream", FIELD_BOOLEAN, .dflt = "false", .http_only = true,
      .text = "Answer as server-sent events (HTTP only)." },
    FIELD_END,
};

static const char *const event_types[] = { "status", "stdout", "stderr", "error", "exit", NULL };
static const struct field event_rows[] = {
    RESULT_INT("seq", "1, 2, 3 ... without gap."),
    RESULT_TEXT("timestamp", "When, in UTC."),
    { "type", FIELD_STRING, .required = true, .choices = event_types,
      .text = "exit is the last one but for late output." },
    { "data", FIELD_STRING,
      .text = "Output, or the message of an error; bytes that are not UTF-8 read as U+FFFD." },
    { "data_base64", FIELD_STRING, .text = "The exact bytes where data is not UTF-8." },
    { "late", FIELD_BOOLEAN, .text = "Written by a background process after exit." },
    { "state", FIELD_STRING, .choices = exec_states, .text = "Of status and exit." },
    { "pid", FIELD_INTEGER, .nullable = true, .text = "Of status running: its process inside the sandbox." },
    { "rewritten_command", FIELD_STRING,
      .text = "Of status running: what rtk made of the command, which runs instead." },
    { "returncode", FIELD_INTEGER, .nullable = true,
      .text = "Of exit; null where it never started or was lost." },
    { "signal", FIELD_ANY, .nullable = true, .text = "Of exit: the signal that ended it." },
    { "timed_out", FIELD_BOOLEAN, .text = "Of exit: timeout_seconds ended it." },
    { "oom_killed", FIELD_BOOLEAN, .text = "Of exit: the memory limit ended a process of it." },
    { "duration_ms", FIELD_INTEGER, .nullable = true, .text = "Of exit: how long it ran." },
    { "reason", FIELD_STRING, .nullable = true, .text = "Why it failed to start or was lost." },
    FIELD_END,
};
static const struct field row_event = { NULL, FIELD_OBJECT, .members = event_rows };
static const struct field events_result[] = {
    RESULT_EXEC_ID,
    { "events", FIELD_ARRAY, .required = true, .items = &row_event, .text = "In order." },
    RESULT_INT("cursor", "The cursor that was asked for."),
    RESULT_INT("next_cursor", "Pass this as cursor to read on."),
    { "state", FIELD_STRING, .required = true, .choices = exec_states,
      .text = "Final (finished, cancelled, failed) only when the exit event was given." },
    RESULT_RETURNCODE,
    RESULT_SANDBOX_ID,
    RESULT_WORKSPACE_ID,
    RESULT_BOOL("has_more", "There are further events already: read on without waiting."),
    RESULT_INT("first_seq", "The oldest event that is still kept."),
    RESULT_BOOL("cursor_expired", "Events after the cursor were dropped: the log's limit was reached."),
    RESULT_INT("dropped_events", "How many events were dropped in all."),
    FIELD_END,
};

static size_t max_bytes_of(const struct call *call)
{
    size_t asked = (size_t)integer_of(call->in, "max_bytes");

    return call->form == CALL_MCP && asked > EVENTS_MCP_MAX ? EVENTS_MCP_MAX : asked;
}

static struct page_request page_request_of(const struct call *call)
{
    return (struct page_request){
        .workspace_id = text_of(call->workspace, "workspace_id"),
        .sandbox_id = call_sandbox_id(call),
        .exec_id = text_of(call->in, "exec_id"),
        .cursor = (uint64_t)integer_of(call->in, "cursor"),
        .max_events = (size_t)integer_of(call->in, "max_events"),
        .max_bytes = max_bytes_of(call),
        .tail = (size_t)integer_of(call->in, "tail"),
        .twice = call->form == CALL_MCP,
    };
}

/* Such a cursor is another command's: who waits for the end with it would wait for ever. */
static int check_cursor(struct call *call, uint64_t cursor, const struct page *page, struct error *err)
{
    if (cursor <= page->head.last_seq)
        return 0;
    buffer_free(&call->body);
    return error_set(err, ERROR_INVALID, "cursor: %llu lies beyond this command's last event, %llu",
                     (unsigned long long)cursor, (unsigned long long)page->head.last_seq);
}

/* One that is made in pieces is remembered from one to the next. */
static int events_piece(struct call *call, struct events_reader *reader, const struct page_request *request,
                        struct page *page, struct error *err)
{
    size_t most = call->pieces ? EVENTS_PIECE : SIZE_MAX;

    if (call->going_on && (call->last || !reader))
        page_end(request, page, &call->body);
    else if (page_part(reader, request, most, page, &call->body, err) < 0)
        return exec_not_found(request->exec_id, err);
    if (!page->over && call->last)
        page_end(request, page, &call->body);
    return page->over ? OP_DONE : OP_MORE;
}

static int park_events(struct call *call, const struct page_request *request)
{
    snprintf(call->park.exec_id, sizeof call->park.exec_id, "%s", request->exec_id);
    snprintf(call->park.share, sizeof call->park.share, "events %s %llu %zu %zu %zu %d", request->exec_id,
             (unsigned long long)request->cursor, request->max_events, request->max_bytes, request->tail,
             (int)call->form);
    return OP_PARKED;
}

static int events_page(struct call *call, struct events_reader *reader, struct error *err)
{
    const struct page_request request = page_request_of(call);
    double wait = json_number_value(json_object_get(call->in, "wait_seconds"));
    struct page page = { 0 };

    if (call->going_on)
        return events_piece(call, reader, &request, call->memo, err);
    int rc = events_piece(call, reader, &request, &page, err);
    if (rc >= 0 && check_cursor(call, request.cursor, &page, err) < 0)
        return OP_FAILED;
    if (rc == OP_MORE)
        call->memo = xmemdup(&page, sizeof page);
    if (rc != OP_DONE || page.events > 0 || page.head.exit_seq > 0 || call->last || wait <= 0)
        return rc;
    if (call->park.deadline_ms == 0)
        call->park.deadline_ms = clock_boottime_ms() + (int64_t)(wait * 1000);
    buffer_free(&call->body);
    return park_events(call, &request);
}

struct stream_memo {
    uint64_t cursor;
};

/* Server-sent events: a page each turn, until the final event, the time is up or the worker must go. */
static int events_stream(struct call *call, struct events_reader *reader, struct error *err)
{
    struct page_request request = page_request_of(call);
    struct stream_memo *memo = call->memo;
    struct page page;

    if (!memo) {
        memo = call->memo = xcalloc(1, sizeof *memo);
        memo->cursor = request.cursor;
        call->park.deadline_ms = clock_boottime_ms() + EVENTS_STREAM_MS;
        buffer_append_text(&call->body, ": events\n\n"); /* so that the headers go out */
    } else {
        request.tail = 0;
    }
    request.cursor = memo->cursor;
    request.max_events = SIZE_MAX;
    request.max_bytes = EVENTS_SSE_PAGE;
    request.as_sse = true;
    if (page_render(reader, &request, &call->body, &page, err) < 0)
        return exec_not_found(request.exec_id, err);
    if (check_cursor(call, request.cursor, &page, err) < 0)
        return OP_FAILED;
    memo->cursor = page.next_cursor;
    if (page.final || call->last)
        return OP_DONE;
    snprintf(call->park.exec_id, sizeof call->park.exec_id, "%s", request.exec_id);
    return OP_PARKED;
}

static int events_run(struct call *call, struct error *err)
{
    struct events_reader *reader =
        call_reader(call, text_of(call->in, "exec_id"), call->going_on ? NULL : err);

    if (!reader && !call->going_on)
        return OP_FAILED;
    return call->form == CALL_SSE ? events_stream(call, reader, err) : events_page(call, reader, err);
}

const struct op op_exec_events = {
    .id = "getRealtimeWorkspaceExecEvents",
    .tool = "workspace_realtime_exec_events",
    .title = "Read command events",
    .toolset = "workspace",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/realtime-execs/{exec_id}/events",
    .summary = "Read what a command wrote after a cursor; waits for more if asked.",
    .description = "Pass next_cursor of each answer as cursor of the next call, with wait_seconds 15 to 25, "
                   "until an event of type exit comes. An old "
                   "cursor reads the same events again.",
    .params = events_params,
    .example = "\"cursor\": 0, \"wait_seconds\": 20",
    .result = events_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_LONG_POLL | OP_STREAMS | OP_IN_ACTIONS,
    .run = events_run,
};
