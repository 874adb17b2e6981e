/* Watches of files: begun and ended in the keeper, looked at in the store. Their events are
 * op_watch_events.c's.
 */
#include "lib/op/ops.h"
#include "lib/op/search.h"
#include "lib/op/watch.h"
#include "lib/wire/change.h"

#define LIST_MAX 64
#define LOOK_MAX 4096 /* that many records, for those that live */

int watch_not_found(const char *watch_id, struct error *err)
{
    if (!err || err->code == ERROR_NOT_FOUND)
        return error_set(err, ERROR_NOT_FOUND, "watch %s is not known in this workspace", watch_id);
    return -1;
}

struct events_reader *watch_reader(struct call *call, const char *watch_id, struct error *err)
{
    struct events_reader *reader = call_reader(call, NULL, err);
    if (!reader)
        watch_not_found(watch_id, err);
    return reader;
}

/* ---- start ---- */

static const struct field start_params[] = {
    ROW_WORKSPACE_ID,
    { "path", FIELD_STRING, .nullable = true, FIELD_RANGE(1, 4095), .format = &format_no_nul,
      .text = "Folder or file to watch, relative to /workspace or absolute inside of it; by default the "
              "repository's, else /workspace." },
    { "recursive", FIELD_BOOLEAN, .dflt = "true", .text = "With all folders below, also new ones." },
    { "event_types", FIELD_ARRAY, .nullable = true, FIELD_RANGE(0, 50), .items = &row_text_item,
      .text = "Of create, modify, remove, access and unknown; by default create, modify and remove. overflow "
              "is always told." },
    { "exclude_patterns", FIELD_ARRAY, FIELD_RANGE(0, 100), .dflt = "[]", .items = &search_pattern_row,
      .text = "Paths that are not told and not looked into: .git, node_modules (at any depth, with all in "
              "it), *.log, build/; * crosses slashes. By default none." },
    { "timeout_seconds", FIELD_INTEGER, FIELD_RANGE(1, 3600), .dflt = "600",
      .text = "The watch ends by itself after this long." },
    FIELD_END,
};
static const struct field start_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_SANDBOX_ID,
    RESULT_WATCH_ID,
    RESULT_WATCH_PATH,
    RESULT_WATCH_RECURSIVE,
    RESULT_WATCH_TYPES,
    RESULT_EXEC_STATE,
    RESULT_INT("cursor", "Where reading begins: 0."),
    RESULT_TEXT("status_endpoint_hint", "Relative URL of its status."),
    RESULT_TEXT("events_endpoint_hint", "Relative URL of its events."),
    FIELD_END,
};

static bool array_has(const json_t *array, const char *text)
{
    const json_t *item;
    size_t index;
    json_array_foreach(array, index, item)
        if (!strcmp(json_string_value(item), text))
            return true;
    return false;
}

/* Each once, in the order that was asked for. */
static int start_check(const struct config *config, json_t *in, struct error *err)
{
    const json_t *given = json_object_get(in, "event_types"), *item;
    json_t *types = json_array();
    size_t index;
    (void)config;
    if (!json_is_array(given)) {
        json_decref(types);
        return json_object_set_new(in, "event_types", json_pack("[s, s, s]", "create", "modify", "remove"));
    }
    json_array_foreach(given, index, item) {
        enum change_type type;
        if (!change_type_find(json_string_value(item), &type)) {
            json_decref(types);
            return error_set(err, ERROR_INVALID,
                             "event_types: '%.40s' is none of unknown, access, create, modify, remove",
                             json_string_value(item));
        }
        if (!array_has(types, change_type_names[type]))
            json_array_append_new(types, json_string(change_type_names[type]));
    }
    bool none = json_array_size(types) == 0;
    json_object_set_new(in, "event_types", types);
    return none ? error_set(err, ERROR_INVALID, "event_types: must name at least one, or be left out") : 0;
}

static int start_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    const char *path = text_of(in, "path");
    (void)ret;
    if (!path)
        path = text_of(keeper_record(keeper_of(call)), "repo_path");
    const struct watch_request request = { .path = path ? path : "/workspace",
                                           .recursive = is_true(in, "recursive"),
                                           .types = json_object_get(in, "event_types"),
                                           .exclude = json_object_get(in, "exclude_patterns"),
                                           .timeout_s = integer_of(in, "timeout_seconds") };
    return keeper_watch_start(call, &request, err);
}

static json_t *hint(const struct call *call, const char *watch_id, const char *rest)
{
    return json_sprintf("%s/api/workspaces/%s/file-watches/%s%s", config_prefix(call->config),
                        text_of(call->workspace, "workspace_id"), watch_id, rest);
}

static int start_run(struct call *call, struct error *err)
{
    const char *watch_id = text_of(call->kept, "watch_id");
    (void)err;
    call->result = json_pack(
        "{s:s, s:O?, s:s, s:O?, s:O, s:O, s:O?, s:i, s:o, s:o}", "workspace_id",
        text_of(call->workspace, "workspace_id"), "sandbox_id", json_object_get(call->kept, "sandbox_id"),
        "watch_id", watch_id, "path", json_object_get(call->kept, "path"), "recursive",
        json_object_get(call->in, "recursive"), "event_types", json_object_get(call->in, "event_types"),
        "state", json_object_get(call->kept, "state"), "cursor", 0, "status_endpoint_hint",
        hint(call, watch_id, ""), "events_endpoint_hint",
        hint(call, watch_id, "/events?cursor=0&wait_seconds=15"));
    return OP_DONE;
}

const struct op op_start_watch = {
    .id = "startWorkspaceFileWatch",
    .tool = "workspace_file_watch_start",
    .title = "Watch files",
    .toolset = "watch",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/file-watches",
    .summary = "Watch a folder (or file) for changes; read them with {{getWorkspaceFileWatchEvents}}.",
    .description = "When it answers, all is watched: what changes from then on is told. A workspace has at "
                   "most 64 watches that live at once; each ends by itself after timeout_seconds, or with "
                   "the workspace.",
    .params = start_params,
    .example = "\"path\": \"src\"",
    .result = start_result,
    .flags = OP_ON_WORKSPACE | OP_NEEDS_SANDBOX | OP_IN_ACTIONS,
    .keep_ms = WATCH_KEEP_MS,
    .check = start_check,
    .keep = start_keep,
    .run = start_run,
};

/* ---- status ---- */

static const struct field on_watch[] = { ROW_WORKSPACE_ID, ROW_WATCH_ID, FIELD_END };
static const struct field status_result[] = {
    RESULT_WATCH_ID,
    RESULT_WORKSPACE_ID,
    RESULT_SANDBOX_ID,
    RESULT_WATCH_PATH,
    RESULT_WATCH_RECURSIVE,
    RESULT_WATCH_TYPES,
    RESULT_INT("timeout_seconds", "It ends by itself this long after its start."),
    RESULT_EXEC_STATE,
    RESULT_WATCH_RING,
    RESULT_TEXT0("function_call_id", "Always null here."),
    RESULT_TEXT("created_at", "When it was asked for."),
    RESULT_TEXT0("started_at", "When it began to watch."),
    RESULT_TEXT0("finished_at", "When it ended."),
    RESULT_WATCH_REASON,
    FIELD_END,
};

static json_t *time_text(int64_t wall_us)
{
    char text[CLOCK_TEXT_SIZE];
    if (wall_us == 0)
        return json_null();
    clock_format(wall_us, text);
    return json_string(text);
}

static json_t *describe(const struct call *call, const struct watch_head *head, const json_t *info)
{
    const char *reason = head->reason[0] ? head->reason : NULL;
    json_t *ret = json_pack(
        "{s:s, s:s, s:s?, s:O?, s:O?, s:O?, s:O?, s:s, s:I, s:I, s:I, s:n}", "watch_id", head->id,
        "workspace_id", text_of(call->workspace, "workspace_id"), "sandbox_id", call_sandbox_id(call), "path",
        json_object_get(info, "path"), "recursive", json_object_get(info, "recursive"), "event_types",
        json_object_get(info, "event_types"), "timeout_seconds", json_object_get(info, "timeout_seconds"),
        "state", exec_state_name(head->state), "base_cursor", (json_int_t)head->base, "next_cursor",
        (json_int_t)head->next, "dropped_events", (json_int_t)head->dropped, "function_call_id");
    json_object_set_new(ret, "created_at", time_text(head->created_us));
    json_object_set_new(ret, "started_at", time_text(head->started_us));
    json_object_set_new(ret, "finished_at", time_text(head->finished_us));
    json_object_set_new(ret, "reason", reason ? json_string(reason) : json_null());
    json_object_set_new(ret, "error",
                        reason && head->state == EXEC_FAILED ? json_string(reason) : json_null());
    return ret;
}

static int status_run(struct call *call, struct error *err)
{
    const char *watch_id = text_of(call->in, "watch_id");
    struct events_reader *reader = watch_reader(call, watch_id, err);
    struct watch_head head;
    json_auto_t *info = NULL;
    if (!reader)
        return OP_FAILED;
    if (watches_get(reader, watch_id, &head, err) < 0 || watches_get_info(reader, watch_id, &info, err) < 0)
        return watch_not_found(watch_id, err);
    call->result = describe(call, &head, info);
    return OP_DONE;
}

const struct op op_watch_status = {
    .id = "getWorkspaceFileWatchStatus",
    .tool = "workspace_file_watch_status",
    .title = "Show watch",
    .toolset = "watch",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/file-watches/{watch_id}",
    .summary = "Show a watch's state and counters, without its events.",
    .description =
        "running until it ends: finished (its timeout), cancelled, or failed (lost, or what it watched "
        "is gone; reason says which). It waits for nothing: to wait, read its events with "
        "{{getWorkspaceFileWatchEvents}}.",
    .params = on_watch,
    .result = status_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE,
    .run = status_run,
};

/* ---- list ---- */

static const struct field list_params[] = { ROW_WORKSPACE_ID, FIELD_END };

/* Takes one into the list; false: it has no place any more. */
static bool list_take(struct call *call, json_t *item, size_t *used)
{
    size_t once = json_dumpb(item, NULL, 0, JSON_COMPACT) + 1;
    *used += call->form == CALL_MCP ? 2 * once + once / 5 : once;
    if (json_array_size(call->result) > 0 && *used > ANSWER_BYTES - 600)
        return false;
    json_array_append(call->result, item);
    return true;
}

/* What cannot be listed whole: the oldest that have ended go, those that live and may be cancelled stay. */
struct shortlist {
    struct watch_head heads[2 * LIST_MAX]; /* newest first */
    size_t count, living;
};

static void shorten(struct shortlist *list)
{
    for (size_t at = list->count; at > 0 && list->count > LIST_MAX; at--) {
        if (!exec_state_is_terminal(list->heads[at - 1].state))
            continue;
        memmove(&list->heads[at - 1], &list->heads[at], (list->count - at) * sizeof *list->heads);
        list->count--;
    }
    list->count = list->count < LIST_MAX ? list->count : LIST_MAX;
}

static int fill_shortlist(struct events_reader *reader, struct shortlist *ret, struct error *err)
{
    uint32_t before = 0;
    long got = LIST_MAX;
    for (long looked = 0; got == LIST_MAX && looked < LOOK_MAX && ret->living < LIST_MAX; looked += got) {
        got = watches_list(reader, before, &ret->heads[ret->count], LIST_MAX, err);
        if (got < 0)
            return -1;
        for (long i = 0; i < got; i++)
            ret->living += !exec_state_is_terminal(ret->heads[ret->count + (size_t)i].state);
        before = got > 0 ? ret->heads[ret->count + (size_t)got - 1].stream : 0;
        ret->count += (size_t)got;
        shorten(ret);
    }
    return 0;
}

static int list_run(struct call *call, struct error *err)
{
    _cleanup_free_ struct shortlist *list = xcalloc(1, sizeof *list);
    _cleanup_error_ struct error problem = ERROR_INIT;
    struct events_reader *reader = call_reader(call, NULL, &problem);
    size_t used = 0;
    call->result = json_array();
    if (!reader && problem.code == ERROR_NOT_FOUND)
        return OP_DONE;
    if (!reader) {
        error_move(err, &problem);
        return OP_FAILED;
    }
    if (fill_shortlist(reader, list, err) < 0)
        return OP_FAILED;
    for (size_t i = 0; i < list->count; i++) {
        json_auto_t *info = NULL, *item = NULL;
        if (watches_get_info(reader, list->heads[i].id, &info, &problem) < 0 && problem.code != ERROR_NOT_FOUND) {
            error_move(err, &problem);
            return OP_FAILED;
        }
        if (!info) /* it was pruned since the list was read */
            continue;
        item = describe(call, &list->heads[i], info);
        if (!list_take(call, item, &used))
            break;
    }
    return OP_DONE;
}

const struct op op_list_watches = {
    .id = "listWorkspaceFileWatches",
    .tool = "workspace_file_watch_list",
    .title = "List watches",
    .toolset = "watch",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/file-watches",
    .summary = "List watches of a workspace, newest first: all that live, and the newest that ended, 64 together.",
    .description =
        "Also where the workspace is stopped. Use it to find a watch_id again; events are read with "
        "{{getWorkspaceFileWatchEvents}}.",
    .params = list_params,
    .result = status_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_LIST,
    .run = list_run,
};

/* ---- cancel ---- */

static const struct field cancel_result[] = {
    RESULT_WATCH_ID,   RESULT_WORKSPACE_ID, RESULT_BOOL("cancelled", "False: it had ended by itself before."),
    RESULT_EXEC_STATE, FIELD_END,
};

static int cancel_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    const char *watch_id = text_of(in, "watch_id");
    if (keeper_watch_cancel(keeper_of(call), watch_id, err) < 0)
        return watch_not_found(watch_id, err);
    *ret = json_object();
    return 0;
}

static int cancel_run(struct call *call, struct error *err)
{
    const char *watch_id = text_of(call->in, "watch_id");
    struct events_reader *reader = watch_reader(call, watch_id, err);
    struct watch_head head;
    if (!reader)
        return OP_FAILED;
    if (watches_get(reader, watch_id, &head, err) < 0)
        return watch_not_found(watch_id, err);
    if (!exec_state_is_terminal(
            head.state)) /* its keeper has died, and nobody has said so yet; or a full disk */
        return error_set(err, ERROR_UNAVAILABLE, "the watch cannot be ended right now: try again");
    call->result = json_pack("{s:s, s:s, s:b, s:s}", "watch_id", watch_id, "workspace_id",
                             text_of(call->workspace, "workspace_id"), "cancelled",
                             head.state == EXEC_CANCELLED, "state", exec_state_name(head.state));
    return OP_DONE;
}

const struct op op_cancel_watch = {
    .id = "cancelWorkspaceFileWatch",
    .tool = "workspace_file_watch_cancel",
    .title = "End watch",
    .toolset = "watch",
    .method = "DELETE",
    .path = "/workspaces/{workspace_id}/file-watches/{watch_id}",
    .summary = "End a watch. What it has told can still be read.",
    .description =
        "One that had ended before stays as it was: cancelled is false then. Watches end by themselves "
        "too, after their timeout_seconds.",
    .params = on_watch,
    .result = cancel_result,
    .flags = OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_STOPPED_TOO,
    .keep = cancel_keep,
    .run = cancel_run,
};
