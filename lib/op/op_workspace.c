/* Workspaces that exist: get, list, terminate, stop, extend. Knows records; ending and extending is the
 * keeper's. */
#include "lib/op/ops.h"
#include "lib/op/workspace_view.h"

/* ---- get and list ---- */

#define RESULT_SEEN                                                                                          \
    RESULT_WORKSPACE_ID, RESULT_SANDBOX_ID, RESULT_RUNNING,                                                  \
        RESULT_INT0("returncode", "How the last sandbox ended; null while it runs or where not known."),     \
        RESULT_ROOT, RESULT_TEXT0("repo_path", "Directory of the cloned repository; null = none."),          \
        RESULT_TEXT0("repo_slug", "OWNER/REPO of the cloned repository."),                                   \
        RESULT_TEXT0("repo_ref", "Ref that was asked for.")

static const struct field row_tag_result = { NULL, FIELD_STRING, .text = "Value." };
static const struct field get_result[] = {
    RESULT_SEEN,
    { "tags", FIELD_OBJECT, .required = true, .items = &row_tag_result,
      .text = "The gateway's own tags and yours." },
    RESULT_BASICS,
    RESULT_TEXT0("reason", "Why it stopped or failed."),
    RESULT_LIMITS,
    FIELD_END,
};
static const struct field get_params[] = { ROW_WORKSPACE_ID, ROW_ENVIRONMENT_NAME, FIELD_END };

static json_t *seen(const json_t *record)
{
    static const char *const names[] = { "root", "repo_path", "repo_slug", "repo_ref" };
    json_t *ret = json_object();

    view_add_identity(ret, record);
    json_object_set_new(ret, "running", json_boolean(view_is_running(record)));
    view_copy(ret, "returncode", record, "returncode");
    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        view_copy(ret, names[i], record, names[i]);
    return ret;
}

static json_t *shown_tags(const json_t *record)
{
    static const char *const repo[][2] = { { "repo-slug", "repo_slug" },
                                           { "repo-path", "repo_path" },
                                           { "repo-ref", "repo_ref" } };
    json_t *tags = view_own_tags(text_of(record, "workspace_id"));

    json_object_update_missing(tags, json_object_get(record, "tags"));
    for (size_t i = 0; i < N_ELEMENTS(repo); i++)
        if (is_given(record, repo[i][1]))
            json_object_set(tags, repo[i][0], json_object_get(record, repo[i][1]));
    return tags;
}

static int get_run(struct call *call, struct error *err)
{
    (void)err;
    call->result = seen(call->workspace);
    json_object_set_new(call->result, "tags", shown_tags(call->workspace));
    view_add_basics(call->result, call->workspace);
    view_copy(call->result, "reason", call->workspace, "reason");
    view_add_limits(call->result, call->config, call->workspace);
    return OP_DONE;
}

const struct op op_get_workspace = {
    .id = "getRemoteWorkspace",
    .tool = "workspace_get",
    .title = "Get workspace",
    .toolset = "workspace",
    .method = "GET",
    .path = "/workspaces/{workspace_id}",
    .summary = "Show a workspace: its state, sandbox, repository, tags and limits.",
    .description =
        "Use it to see whether a workspace still runs, why it stopped (reason) and when it will "
        "(expires_at). It starts nothing: a stopped workspace starts again, with its files, by the "
        "next command or call on files.",
    .params = get_params,
    .result = get_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_IN_ACTIONS,
    .run = get_run,
};

static const char *const list_states[] = { "running", "all", "creating", "stopped", "failed", NULL };
static const struct field list_params[] = {
    { "state", FIELD_STRING, .choices = list_states, .dflt = "\"running\"",
      .text = "Which ones: running, all, or those of one state." },
    { "limit", FIELD_INTEGER, FIELD_RANGE(1, 500), .dflt = "500", .text = "How many at most." },
    { "cursor", FIELD_STRING, .nullable = true, .format = &format_workspace_id,
      .text = "Go on after this workspace_id: the last one of the page before. An empty page is the end." },
    ROW_ENVIRONMENT_NAME,
    FIELD_END,
};
static const struct field list_result[] = { RESULT_SEEN, RESULT_BASICS, FIELD_END };

static bool is_wanted(const struct call *call, const json_t *record)
{
    const char *wanted = text_of(call->in, "state"), *state = text_of(record, "state");
    const char *only = call->principal->workspace_id;

    if (only && strcmp(only, text_of(record, "workspace_id")) != 0)
        return false;
    return !strcmp(wanted, "all") || (state && !strcmp(wanted, state));
}

static size_t encoded_size(const json_t *value, enum call_form form)
{
    size_t once = json_dumpb(value, NULL, 0, JSON_COMPACT);

    return form == CALL_MCP ? 2 * once + once / 5 : once; /* text escapes its quotes */
}

/* Fills the page from one block of records; returns false when it is full. */
static bool list_take(struct call *call, const json_t *records, size_t *used)
{
    const json_t *record;
    size_t index;

    json_array_foreach(records, index, record) {
        json_auto_t *item = NULL;
        if (!is_wanted(call, record))
            continue;
        item = seen(record);
        view_add_basics(item, record);
        *used += encoded_size(item, call->form) + 2;
        if (json_array_size(call->result) > 0 && *used > ANSWER_BYTES - 600)
            return false;
        json_array_append(call->result, item);
        if (json_array_size(call->result) >= (size_t)integer_of(call->in, "limit"))
            return false;
    }
    return true;
}

static int list_run(struct call *call, struct error *err)
{
    enum { BLOCK = 500 };
    _cleanup_free_ char *after = is_given(call->in, "cursor") ? xstrdup(text_of(call->in, "cursor")) : NULL;
    size_t used = 0, got = BLOCK;

    call->result = json_array();
    while (got == BLOCK) {
        json_auto_t *records = NULL;
        if (state_list_workspaces(call->state, call->principal->name, after, BLOCK, &records, err) < 0)
            return OP_FAILED;
        got = json_array_size(records);
        if (!list_take(call, records, &used))
            break;
        free(after);
        after = got ? xstrdup(text_of(json_array_get(records, got - 1), "workspace_id")) : NULL;
    }
    return OP_DONE;
}

const struct op op_list_workspaces = {
    .id = "listRemoteWorkspaces",
    .tool = "workspace_list",
    .title = "List workspaces",
    .toolset = "workspace",
    .method = "GET",
    .path = "/workspaces",
    .summary = "List your running workspaces, or all of them.",
    .description = "Stopped workspaces keep their files and are shown with state=all. Pages: pass the last "
                   "workspace_id as cursor until an empty "
                   "list comes.",
    .params = list_params,
    .example = "\"state\": \"all\"",
    .result = list_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_LIST | OP_IN_ACTIONS,
    .run = list_run,
};

/* ---- terminate, stop, extend ---- */

static const struct field only_workspace[] = { ROW_WORKSPACE_ID, FIELD_END };
static const struct field terminate_result[] = {
    RESULT_SANDBOX_ID,
    RESULT_BOOL("terminated", "It and its files are gone."),
    RESULT_INT0("returncode", "How its sandbox ended; null where none ran."),
    RESULT_WORKSPACE_ID,
    FIELD_END,
};
static const struct field stop_result[] = {
    RESULT_SANDBOX_ID,
    RESULT_BOOL("stopped", "No sandbox runs; the files are kept."),
    RESULT_INT0("returncode", "How its sandbox ended; null where none ran."),
    RESULT_STATE,
    RESULT_WORKSPACE_ID,
    FIELD_END,
};

/* The keeper answers with the record as it left it; where none ran, the answer is empty. */
static void add_end(struct call *call, const char *done)
{
    const json_t *record = json_object_get(call->kept, "record");

    if (!record)
        record = call->kept;
    call->result = json_object();
    view_copy(call->result, "sandbox_id", is_given(record, "sandbox_id") ? record : call->workspace,
              "sandbox_id");
    json_object_set_new(call->result, done, json_true());
    view_copy(call->result, "returncode", record, "returncode");
    view_copy(call->result, "workspace_id", call->workspace, "workspace_id");
}

static int terminate_run(struct call *call, struct error *err)
{
    (void)err;
    add_end(call, "terminated");
    return OP_DONE;
}

static int stop_run(struct call *call, struct error *err)
{
    (void)err;
    add_end(call, "stopped");
    json_object_set_new(call->result, "state", json_string("stopped"));
    return OP_DONE;
}

const struct op op_terminate_workspace = {
    .id = "terminateRemoteWorkspace",
    .tool = "workspace_terminate",
    .title = "Terminate workspace",
    .toolset = "workspace",
    .method = "DELETE",
    .path = "/workspaces/{workspace_id}",
    .summary = "End a workspace and remove its files and logs for good.",
    .description = "Use it at the end of the task, unless the user wants to keep the workspace."
                   "[[ To keep the files, use {{stopRemoteWorkspace}} instead.]]",
    .params = only_workspace,
    .result = terminate_result,
    .flags = OP_DESTRUCTIVE | OP_IDEMPOTENT | OP_CONSEQUENTIAL | OP_ON_WORKSPACE | OP_IN_ACTIONS,
    .run = terminate_run,
    .action = OP_ACTION_TERMINATE,
};

const struct op op_stop_workspace = {
    .id = "stopRemoteWorkspace",
    .tool = "workspace_stop",
    .title = "Stop workspace",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/stop",
    .summary = "Stop a workspace: its commands end, its files stay.",
    .description =
        "It starts by itself with the next command, and with the next call that reads, writes, lists, "
        "searches or watches files. To remove it, use {{terminateRemoteWorkspace}}.",
    .params = only_workspace,
    .result = stop_result,
    .flags = OP_DESTRUCTIVE | OP_IDEMPOTENT | OP_ON_WORKSPACE,
    .run = stop_run,
    .action = OP_ACTION_STOP,
};

static const struct field extend_params[] = {
    ROW_WORKSPACE_ID,
    { "timeout_seconds", FIELD_INTEGER, .nullable = true, .unset = true, FIELD_RANGE(60, 86400),
      .text = "Stop this long after now; null = as long after now as its creation said; left out = when it "
              "would have stopped." },
    { "idle_timeout_seconds", FIELD_INTEGER, .nullable = true, .unset = true, FIELD_RANGE(60, 86400),
      .text = "From now on, stop after this long without a request or a running command; null = never for "
              "that reason; left out = as before." },
    FIELD_END,
};
static const struct field extend_result[] = {
    RESULT_WORKSPACE_ID, RESULT_SANDBOX_ID, RESULT_RUNNING,
    RESULT_STATE,        RESULT_TIMEOUTS,   RESULT_TEXT0("expires_at", "When it stops now."),
    FIELD_END,
};

static int extend_check(const struct config *config, json_t *in, struct error *err)
{
    (void)config;
    if (json_object_get(in, "timeout_seconds") || json_object_get(in, "idle_timeout_seconds"))
        return 0;
    return error_set(err, ERROR_INVALID,
                     "nothing to set: timeout_seconds, idle_timeout_seconds or both are needed");
}

/* 0 = left out, -1 = null. */
static int64_t seconds_given(const json_t *in, const char *name)
{
    const json_t *given = json_object_get(in, name);

    return !given ? 0 : json_is_null(given) ? -1 : json_integer_value(given);
}

static int extend_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    return keeper_extend(keeper_of(call), seconds_given(in, "timeout_seconds"),
                         seconds_given(in, "idle_timeout_seconds"), ret, err);
}

static int extend_run(struct call *call, struct error *err)
{
    (void)err;
    call->result = json_object();
    view_add_identity(call->result, call->kept);
    json_object_set_new(call->result, "running", json_boolean(view_is_running(call->kept)));
    view_copy(call->result, "state", call->kept, "state");
    view_add_timeouts(call->result, call->kept);
    view_add_expiry(call->result, call->kept);
    return OP_DONE;
}

const struct op op_extend_workspace = {
    .id = "extendRemoteWorkspace",
    .tool = "workspace_extend",
    .title = "Extend workspace",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/extend",
    .summary = "Set anew how long a running workspace may go on.",
    .description =
        "Call it while work goes on and expires_at comes near: also a running command ends at that "
        "time. A new time counts from now, so it may also be shorter; what is left out stays. Refused (409) "
        "where the workspace is stopped: every start takes the times of its creation again.",
    .params = extend_params,
    .example = "\"timeout_seconds\": 7200",
    .result = extend_result,
    .flags = OP_ON_WORKSPACE,
    .check = extend_check,
    .keep = extend_keep,
    .run = extend_run,
};
