/* Looking at commands: the status of one, the list of all. Reads the store alone, and writes text without a
 * tree: a status is asked for often. */
#include "lib/base/process.h"
#include "lib/base/utf8.h"
#include "lib/op/ops.h"
#include "lib/op/render.h"
#include "lib/op/rows.h"

/* ---- status ---- */

static const struct field on_exec[] = { ROW_WORKSPACE_ID, ROW_EXEC_ID, FIELD_END };
static const struct field status_result[] = {
    RESULT_EXEC_ID,
    RESULT_EXEC_STATE,
    RESULT_TEXT("command", "The command."),
    { "command_truncated", FIELD_BOOLEAN,
      .text = "The command was too long for this answer: its beginning is shown." },
    RESULT_TEXT0("workdir", "Directory that was asked for; null = the workspace's default."),
    RESULT_BOOL("pty", "It runs on a terminal."),
    RESULT_TEXT("created_at", "When it was asked for."),
    RESULT_TEXT0("started_at", "When its process ran."),
    RESULT_TEXT0("updated_at", "When something last happened."),
    RESULT_TEXT0("finished_at", "When it ended."),
    RESULT_INT0("pid", "Process id inside the sandbox."),
    RESULT_INT0("pgid", "Process group inside the sandbox."),
    RESULT_RETURNCODE,
    RESULT_TEXT0("signal", "Name of the signal that ended it."),
    RESULT_BOOL("timed_out", "timeout_seconds ended it."),
    RESULT_BOOL("oom_killed", "The memory limit ended a process of it."),
    RESULT_TEXT0("reason", "Why it failed to start or was lost."),
    RESULT_TEXT0("error", "The same, under its older name."),
    RESULT_BOOL("cancel_requested", "A signal was asked for."),
    RESULT_BOOL("waiting_for_input", "It waits for input now: send some, or eof."),
    RESULT_BOOL("stdin_closed", "It takes no more input."),
    RESULT_INT("first_seq", "The oldest event that is kept."),
    RESULT_INT("last_seq", "The newest event."),
    RESULT_INT("dropped_events",
               "How many events were dropped: the log's limit was reached, or the disk was full."),
    RESULT_INT("total_bytes", "Bytes of its log in all, with what was dropped."),
    RESULT_INT0("rows", "Lines of the terminal at its start."),
    RESULT_INT0("cols", "Columns of the terminal at its start."),
    RESULT_INT0("timeout_seconds", "It is ended after this long; null = no limit of its own."),
    RESULT_INT0("duration_ms", "How long it ran; null until it ended."),
    RESULT_SANDBOX_ID,
    RESULT_WORKSPACE_ID,
    FIELD_END,
};

static void render_positive(struct buffer *out, const char *name, int64_t value)
{
    if (value > 0)
        render_i64(out, name, value);
    else
        render_raw(out, name, "null");
}

/* As much of the command as fits into room encoded bytes. */
static void render_command(struct buffer *out, const char *command, size_t length, size_t room, bool twice)
{
    size_t shown = length;

    while (shown > 0 &&
           utf8_json_size(command, shown) + (twice ? utf8_json_size_twice(command, shown) : 0) > room) {
        shown -= shown > 64 ? shown / 8 : 1;
        shown -= utf8_incomplete_tail(command, shown);
    }
    render_bytes(out, "command", command, shown);
    if (shown < length)
        render_bool(out, "command_truncated", true);
}

static void render_returncode(struct buffer *out, const struct exec_head *head)
{
    if (head->has_returncode)
        render_i64(out, "returncode", head->returncode);
    else
        render_raw(out, "returncode", "null");
}

static void render_outcome(struct buffer *out, const struct exec_head *head)
{
    const char *reason = head->reason[0] ? head->reason : NULL;

    render_returncode(out, head);
    render_text(out, "signal", head->signal ? process_signal_name(head->signal) : NULL);
    render_bool(out, "timed_out", head->timed_out);
    render_bool(out, "oom_killed", head->oom_killed);
    render_text(out, "reason", reason);
    render_text(out, "error", reason);
    render_bool(out, "cancel_requested", head->cancel_requested);
    render_bool(out, "waiting_for_input", head->waiting_for_input && !exec_state_is_terminal(head->state));
    render_bool(out, "stdin_closed", head->stdin_closed || exec_state_is_terminal(head->state));
}

static void render_log(struct buffer *out, const struct exec_head *head)
{
    render_u64(out, "first_seq", head->first_seq);
    render_u64(out, "last_seq", head->last_seq);
    render_u64(out, "dropped_events", head->dropped_events);
    render_u64(out, "total_bytes", head->total_bytes);
}

static void render_times(struct buffer *out, const struct exec_head *head)
{
    render_time(out, "created_at", head->created_us);
    render_time(out, "started_at", head->started_us);
    render_time(out, "updated_at", head->updated_us);
    render_time(out, "finished_at", head->finished_us);
}

static void render_status(struct call *call, const struct exec_head *head, const json_t *info)
{
    const json_t *command = json_object_get(info, "command");
    struct buffer *out = &call->body;
    bool twice = call->form == CALL_MCP;

    buffer_append_char(out, '{');
    render_text(out, "exec_id", head->id);
    render_text(out, "state", exec_state_name(head->state));
    render_command(out, json_string_value(command), json_string_length(command),
                   ANSWER_BYTES - (twice ? 14000 : 6000), twice);
    render_text(out, "workdir", text_of(info, "workdir"));
    render_bool(out, "pty", head->pty);
    render_times(out, head);
    render_positive(out, "pid", head->pid);
    render_positive(out, "pgid", head->pgid);
    render_outcome(out, head);
    render_log(out, head);
    render_positive(out, "rows", integer_of(info, "rows"));
    render_positive(out, "cols", integer_of(info, "cols"));
    render_positive(out, "timeout_seconds", integer_of(info, "timeout_seconds"));
    if (head->finished_us)
        render_i64(out, "duration_ms", head->duration_ms);
    else
        render_raw(out, "duration_ms", "null");
    render_text(out, "sandbox_id", call_sandbox_id(call));
    render_text(out, "workspace_id", text_of(call->workspace, "workspace_id"));
    buffer_append_char(out, '}');
}

static int status_run(struct call *call, struct error *err)
{
    const char *exec_id = text_of(call->in, "exec_id");
    struct events_reader *reader = call_reader(call, exec_id, err);
    json_auto_t *info = NULL;
    struct exec_head head;

    if (!reader)
        return OP_FAILED;
    if (events_get_exec(reader, exec_id, &head, err) < 0 ||
        events_get_exec_info(reader, exec_id, &info, err) < 0)
        return exec_not_found(exec_id, err);
    render_status(call, &head, info);
    return OP_DONE;
}

const struct op op_exec_status = {
    .id = "getRealtimeWorkspaceExecStatus",
    .tool = "workspace_realtime_exec_status",
    .title = "Show command",
    .toolset = "workspace",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/realtime-execs/{exec_id}",
    .summary = "Show a command's state, times and result, without its output.",
    .description = "To read output, or to wait for the end, use {{getRealtimeWorkspaceExecEvents}}.",
    .params = on_exec,
    .result = status_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_IN_ACTIONS,
    .run = status_run,
};

/* ---- list ---- */

#define LIST_COMMAND_MAX 300 /* bytes of each command that a list shows */

static const struct field list_params[] = {
    ROW_WORKSPACE_ID,
    { "limit", FIELD_INTEGER, FIELD_RANGE(1, 100), .dflt = "50", .text = "How many at most." },
    { "cursor", FIELD_INTEGER, FIELD_RANGE(0, 4294967295.0), .dflt = "0",
      .text = "Go on with older ones: next_cursor of the page before." },
    FIELD_END,
};
static const struct field listed_rows[] = {
    RESULT_EXEC_ID,
    RESULT_EXEC_STATE,
    RESULT_TEXT("command", "The command, or its beginning."),
    { "command_truncated", FIELD_BOOLEAN, .text = "It is longer: see its status." },
    RESULT_BOOL("pty", "It runs on a terminal."),
    RESULT_TEXT("created_at", "When it was asked for."),
    RESULT_TEXT0("started_at", "When its process ran."),
    RESULT_TEXT0("updated_at", "When something last happened."),
    RESULT_TEXT0("finished_at", "When it ended."),
    RESULT_RETURNCODE,
    RESULT_INT("first_seq", "The oldest event that is kept."),
    RESULT_INT("last_seq", "The newest event."),
    RESULT_INT("dropped_events", "How many events were dropped."),
    RESULT_INT("total_bytes", "Bytes of its log in all, with what was dropped."),
    FIELD_END,
};
static const struct field row_listed = { NULL, FIELD_OBJECT, .members = listed_rows };
static const struct field list_result[] = {
    RESULT_WORKSPACE_ID,
    { "execs", FIELD_ARRAY, .required = true, .items = &row_listed, .text = "Newest first." },
    RESULT_INT0("next_cursor", "Pass this as cursor for older ones; null = there are none."),
    RESULT_BOOL("has_more", "There are older ones."),
    FIELD_END,
};

static int render_listed(struct buffer *out, struct events_reader *reader, const struct exec_head *head,
                         struct error *err)
{
    json_auto_t *info = NULL;
    const json_t *command;

    if (events_get_exec_info(reader, head->id, &info, err) < 0)
        return -1;
    command = json_object_get(info, "command");
    buffer_append_char(out, '{');
    render_text(out, "exec_id", head->id);
    render_text(out, "state", exec_state_name(head->state));
    render_command(out, json_string_value(command), json_string_length(command), LIST_COMMAND_MAX, false);
    render_bool(out, "pty", head->pty);
    render_times(out, head);
    render_returncode(out, head);
    render_log(out, head);
    buffer_append_char(out, '}');
    return 0;
}

/* Renders what fits, without what was pruned since the list was read; returns how many of heads it is done
 * with, or -1. */
static long render_list(struct call *call, struct events_reader *reader, const struct exec_head *heads,
                        long count, struct error *err)
{
    struct buffer *out = &call->body;
    size_t room = ANSWER_BYTES / (call->form == CALL_MCP ? 3 : 1) - 1000;
    _cleanup_error_ struct error problem = ERROR_INIT;
    bool some = false;
    long done = 0;

    for (; done < count; done++) {
        size_t mark = out->length;
        if (some)
            buffer_append_char(out, ',');
        bool there = render_listed(out, reader, &heads[done], &problem) == 0;
        if (!there && problem.code != ERROR_NOT_FOUND) {
            error_move(err, &problem);
            return -1;
        }
        bool full = some && out->length > room;
        if (!there || full)
            out->length = mark;
        if (full)
            break;
        some |= there;
    }
    return done;
}

static void list_begin(struct call *call)
{
    buffer_append_char(&call->body, '{');
    render_text(&call->body, "workspace_id", text_of(call->workspace, "workspace_id"));
    render_raw(&call->body, "execs", "[");
}

static void list_end(struct call *call, uint32_t next)
{
    buffer_append_char(&call->body, ']');
    render_positive(&call->body, "next_cursor", next);
    render_bool(&call->body, "has_more", next > 0);
    buffer_append_char(&call->body, '}');
}

static int list_run(struct call *call, struct error *err)
{
    size_t limit = (size_t)integer_of(call->in, "limit");
    _cleanup_free_ struct exec_head *heads = xcalloc(limit + 1, sizeof *heads);
    _cleanup_error_ struct error problem = ERROR_INIT;
    struct events_reader *reader = call_reader(call, NULL, &problem);
    long count = 0, shown;

    if (!reader && problem.code != ERROR_NOT_FOUND) {
        error_move(err, &problem);
        return OP_FAILED;
    }
    if (reader) /* one more, to see whether there are more */
        count = events_list_execs(reader, (uint32_t)integer_of(call->in, "cursor"), heads, limit + 1, err);
    if (count < 0)
        return OP_FAILED;
    list_begin(call);
    shown = reader ? render_list(call, reader, heads, count < (long)limit ? count : (long)limit, err) : 0;
    if (shown < 0)
        return OP_FAILED;
    list_end(call, shown > 0 && shown < count ? heads[shown - 1].stream : 0);
    return OP_DONE;
}

const struct op op_list_execs = {
    .id = "listRealtimeWorkspaceExecs",
    .tool = "workspace_realtime_exec_list",
    .title = "List commands",
    .toolset = "workspace",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/realtime-execs",
    .summary = "List a workspace's commands, running and ended, newest first.",
    .description =
        "Use it to find commands again after a break: read each with "
        "{{getRealtimeWorkspaceExecEvents}}. Only the beginning of a command is shown; "
        "{{getRealtimeWorkspaceExecStatus}} shows it whole. Pages: pass next_cursor as cursor while "
        "has_more is true.",
    .params = list_params,
    .result = list_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_IN_ACTIONS,
    .run = list_run,
};
