/* Reading what a watch saw: pages by cursor, waiting for more. Never passes through the keeper; the form of a
 * page is watch_page.c's. */
#include "lib/op/ops.h"
#include "lib/op/watch.h"
#include "lib/op/watch_page.h"
#include "lib/wire/change.h"

static const struct field events_params[] = {
    ROW_WORKSPACE_ID,
    ROW_WATCH_ID,
    { "cursor", FIELD_INTEGER, FIELD_RANGE(0, 9007199254740991.0), .dflt = "0",
      .text = "The seq that you want next: next_cursor of the answer before; 0 = from the beginning." },
    { "wait_seconds", FIELD_NUMBER, FIELD_RANGE(0, 30), .clamp = true, .dflt = "0",
      .text = "How long to wait where there is nothing yet; 15 to 25 is good. More than 30 is taken as 30." },
    { "max_events", FIELD_INTEGER, FIELD_RANGE(1, 500), .dflt = "100", .text = "How many events at most." },
    { "max_bytes", FIELD_INTEGER, FIELD_RANGE(1024, 262144), .dflt = ANSWER_BYTES_TEXT,
      .text = "Largest answer, in encoded bytes; one event always fits." },
    FIELD_END,
};

static const struct field item_path = { NULL, FIELD_STRING, .text = NULL };
static const struct field move_rows[] = {
    RESULT_TEXT("from", "Its name before, from /workspace on."),
    RESULT_TEXT("to", "Its name now."),
    FIELD_END,
};
static const struct field event_rows[] = {
    RESULT_INT("seq", "0, 1, 2 ... without gap."),
    RESULT_TEXT("timestamp", "When, in UTC."),
    { "type", FIELD_STRING, .required = true, .choices = &change_type_names[CHANGE_UNKNOWN],
      .text = "What happened; overflow: changes were not seen, look at the path anew." },
    { "paths", FIELD_ARRAY, .required = true, .items = &item_path, .text = "To what, as an absolute path." },
    RESULT_TEXT("path", "The same from /workspace on; bytes that are not UTF-8 are shown as U+FFFD."),
    { "path_base64", FIELD_STRING, .text = "The exact bytes of path where it is not plain text." },
    RESULT_BOOL("directory", "It is a folder."),
    { "move", FIELD_OBJECT, .members = move_rows,
      .text = "Of a remove and the create after it that are one renaming: both names." },
    { "move_base64", FIELD_OBJECT, .members = move_rows, .text = "The same as exact bytes." },
    { "reason", FIELD_STRING,
      .text = "Of overflow: queue, buffer or ring (more changed than could be told), watches (the system has "
              "no more), unreadable." },
    { "rescan", FIELD_BOOLEAN, .text = "Of overflow: true." },
    FIELD_END,
};
static const struct field row_event = { NULL, FIELD_OBJECT, .members = event_rows };
static const struct field events_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_WATCH_ID,
    RESULT_WATCH_PATH,
    { "events", FIELD_ARRAY, .required = true, .items = &row_event, .text = "In order." },
    { "state", FIELD_STRING, .required = true, .choices = exec_states,
      .text = "Final (finished, cancelled, failed) only where no event is left." },
    RESULT_WATCH_REASON,
    RESULT_WATCH_RING,
    RESULT_BOOL("cursor_expired", "Events from the cursor on were dropped: the first event is an overflow."),
    RESULT_BOOL("has_more", "There are further events already: read on without waiting."),
    FIELD_END,
};

static int check_cursor(struct call *call, uint64_t cursor, const struct watch_head *head, struct error *err)
{
    if (cursor <= head->next)
        return 0;
    buffer_free(&call->body);
    return error_set(err, ERROR_INVALID, "cursor: %llu lies beyond this watch's next event, %llu",
                     (unsigned long long)cursor, (unsigned long long)head->next);
}

static int park(struct call *call, const struct watch_page_request *request)
{
    buffer_free(&call->body);
    snprintf(call->park.exec_id, sizeof call->park.exec_id, "%s", request->watch_id);
    snprintf(call->park.share, sizeof call->park.share, "changes %s %llu %zu %zu %d", request->watch_id,
             (unsigned long long)request->cursor, request->max_events, request->max_bytes, (int)call->form);
    return OP_PARKED;
}

static int events_run(struct call *call, struct error *err)
{
    const char *watch_id = text_of(call->in, "watch_id");
    double wait = json_number_value(json_object_get(call->in, "wait_seconds"));
    struct events_reader *reader = watch_reader(call, watch_id, err);
    json_auto_t *info = NULL;
    struct watch_page page;
    if (!reader || watches_get_info(reader, watch_id, &info, err) < 0)
        return watch_not_found(watch_id, err);
    const struct watch_page_request request = {
        .workspace_id = text_of(call->workspace, "workspace_id"),
        .watch_id = watch_id,
        .path = text_of(info, "path"),
        .cursor = (uint64_t)integer_of(call->in, "cursor"),
        .max_events = (size_t)integer_of(call->in, "max_events"),
        .max_bytes = (size_t)integer_of(call->in, "max_bytes"),
        .twice = call->form == CALL_MCP,
    };
    if (watch_page_render(reader, &request, &call->body, &page, err) < 0)
        return watch_not_found(watch_id, err);
    if (check_cursor(call, request.cursor, &page.head, err) < 0)
        return OP_FAILED;
    if (page.events > 0 || page.over || call->last || wait <= 0)
        return OP_DONE;
    if (call->park.deadline_ms == 0)
        call->park.deadline_ms = clock_boottime_ms() + (int64_t)(wait * 1000);
    return park(call, &request);
}

const struct op op_watch_events = {
    .id = "getWorkspaceFileWatchEvents",
    .tool = "workspace_file_watch_events",
    .title = "Read file changes",
    .toolset = "watch",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/file-watches/{watch_id}/events",
    .summary = "Read what a watch saw from a cursor on; waits for more if asked.",
    .description =
        "Pass next_cursor of each answer as cursor of the next call, with wait_seconds 15 to 25, until "
        "state is final. After an overflow look at the files yourself.",
    .params = events_params,
    .example = "\"cursor\": 0, \"wait_seconds\": 20",
    .result = events_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_LONG_POLL | OP_IN_ACTIONS,
    .run = events_run,
};
