/* Starting commands: the short synchronous one, and the realtime one that answers with a handle at once.
 * Knows how a request becomes an exec and how its end becomes an answer; reading and steering a running one
 * is op_realtime.c's. */
#include "lib/op/ops.h"
#include "lib/op/outcome.h"

/* ---- keeper halves ---- */

static int start(struct keeper_call *call, const json_t *in, struct exec_request *request, json_t **ret,
                 struct error *err)
{
    struct exec_head head;

    request->command = text_of(in, "command");
    request->workdir = text_of(in, "workdir");
    request->env = is_given(in, "env") ? json_object_get(in, "env") : NULL;
    request->pty = is_true(in, "pty");
    request->timeout_s = integer_of(in, "timeout_seconds");
    if (keeper_exec_start(call, request, &head, err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s, s:b, s:s?}", "exec_id", head.id, "state", exec_state_name(head.state), "pty",
                     head.pty, "sandbox_id", text_of(keeper_record(keeper_of(call)), "sandbox_id"));
    return 0;
}

static int exec_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    struct exec_request request = { .stdin_is_null = true, .rows = 24, .cols = 80 };

    return start(call, in, &request, ret, err);
}

static int start_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    struct exec_request request = {
        .stdin_is_null = !strcmp(text_of(in, "stdin"), "null"),
        .merge_stderr = is_true(in, "merge_stderr"),
        .rows = (int)integer_of(in, "rows"),
        .cols = (int)integer_of(in, "cols"),
    };
    return start(call, in, &request, ret, err);
}

static int exec_check(const struct config *config, json_t *in, struct error *err)
{
    return check_secret_names(config, in, err);
}

/* ---- synchronous ---- */

static const struct field exec_params[] = {
    ROW_WORKSPACE_ID,
    ROW_COMMAND,
    { "timeout_seconds", FIELD_INTEGER, FIELD_RANGE(1, 3600), .dflt = "600",
      .text = "The command is ended after this long." },
    ROW_WORKDIR,
    ROW_SECRET_NAMES("the command"),
    ROW_ENV,
    ROW_PTY,
    ROW_WAIT_FOR_END,
    ROW_COMPACT("false"),
    ROW_MAX_BYTES,
    FIELD_END,
};
static const struct field exec_result[] = {
    OUTCOME_ROWS("What it wrote; with pty all of it.", "What it wrote to stderr."),
    FIELD_END,
};

/* The rest of the answer: names, ids, reason, the line about dropped bytes. */
enum { REST_ONCE = 1100, REST_TWICE = 2800 };

static int exec_run(struct call *call, struct error *err)
{
    bool twice = call->form == CALL_MCP;
    size_t rest = twice ? REST_TWICE : REST_ONCE, most = (size_t)integer_of(call->in, "max_bytes");
    const struct output_request request = {
        .max_bytes = most > rest + 256 ? most - rest : 256,
        .max_chars = (size_t)call->config->max_output_chars,
        .twice = twice,
        .compact = is_true(call->in, "compact"),
    };
    const struct output *output;
    int rc = outcome_collect(call, &request, &output, err);

    if (rc != OP_DONE)
        return rc;
    buffer_append_char(&call->body, '{');
    outcome_render(call, output);
    buffer_append_char(&call->body, '}');
    return OP_DONE;
}

const struct op op_exec = {
    .id = "executeInRemoteWorkspace",
    .tool = "workspace_exec",
    .title = "Run short command",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/exec",
    .summary = "Run a short command and wait for its end.",
    .description = "For commands of a few seconds. One that takes longer than wait_seconds goes on: the "
                   "answer has state running, exec_id and next_cursor; read on with "
                   "{{getRealtimeWorkspaceExecEvents}}. For installs and builds use "
                   "{{startRealtimeWorkspaceExec}} instead.",
    .params = exec_params,
    .example = "\"command\": \"uname -a\"",
    .result = exec_result,
    .flags = OP_DESTRUCTIVE | OP_OPEN_WORLD | OP_ON_WORKSPACE | OP_NEEDS_SANDBOX | OP_LONG_POLL | OP_KEYED |
             OP_IN_ACTIONS,
    .check = exec_check,
    .keep = exec_keep,
    .run = exec_run,
};

/* ---- realtime ---- */

static const char *const stdin_kinds[] = { "pipe", "null", NULL };
static const struct field start_params[] = {
    ROW_WORKSPACE_ID,
    ROW_COMMAND,
    ROW_WORKDIR,
    ROW_SECRET_NAMES("the command"),
    ROW_ENV,
    ROW_PTY,
    { "timeout_seconds", FIELD_INTEGER, .nullable = true, FIELD_RANGE(1, 86400),
      .text = "The command and all it started are ended after this long; null = no limit of its own." },
    { "rows", FIELD_INTEGER, FIELD_RANGE(1, 1000), .dflt = "24", .text = "Lines of the terminal, with pty." },
    { "cols", FIELD_INTEGER, FIELD_RANGE(1, 1000), .dflt = "80",
      .text = "Columns of the terminal, with pty." },
    { "stdin", FIELD_STRING, .choices = stdin_kinds, .dflt = "\"pipe\"",
      .text = "pipe: open for {{sendRealtimeWorkspaceExecInput}} until eof; null: the command reads end of "
              "file at "
              "once." },
    { "merge_stderr", FIELD_BOOLEAN, .dflt = "false",
      .text = "Send stderr into stdout, in the order it was written." },
    FIELD_END,
};
static const struct field start_result[] = {
    RESULT_SANDBOX_ID,
    RESULT_EXEC_ID,
    RESULT_EXEC_STATE,
    RESULT_INT("cursor", "Where reading begins: 0."),
    RESULT_BOOL("pty", "It runs on a terminal."),
    RESULT_TEXT("events_hint", "Relative URL of its events."),
    RESULT_WORKSPACE_ID,
    FIELD_END,
};

static int start_run(struct call *call, struct error *err)
{
    const char *workspace_id = text_of(call->workspace, "workspace_id"),
               *exec_id = text_of(call->kept, "exec_id");

    (void)err;
    call->result =
        json_pack("{s:s?, s:s, s:s, s:i, s:b, s:o, s:s}", "sandbox_id", text_of(call->kept, "sandbox_id"),
                  "exec_id", exec_id, "state", text_of(call->kept, "state"), "cursor", 0, "pty",
                  is_true(call->kept, "pty"), "events_hint",
                  json_sprintf("%s/api/workspaces/%s/realtime-execs/%s/events?cursor=0&wait_seconds=15",
                               config_prefix(call->config), workspace_id, exec_id),
                  "workspace_id", workspace_id);
    return OP_DONE;
}

const struct op op_start_exec = {
    .id = "startRealtimeWorkspaceExec",
    .tool = "workspace_realtime_exec_start",
    .title = "Start command",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/realtime-execs",
    .summary = "Start a command and answer at once with its exec_id.",
    .description = "Use it for git, installs, builds, servers and experiments. Then read with "
                   "{{getRealtimeWorkspaceExecEvents}}, cursor 0 and wait_seconds, and pass each next_cursor "
                   "back as cursor until an exit event comes. It goes on when nobody reads.",
    .params = start_params,
    .example = "\"command\": \"make -j2\", \"timeout_seconds\": 600",
    .result = start_result,
    .flags = OP_DESTRUCTIVE | OP_OPEN_WORLD | OP_ON_WORKSPACE | OP_NEEDS_SANDBOX | OP_KEYED | OP_IN_ACTIONS,
    .check = exec_check,
    .keep = start_keep,
    .run = start_run,
};
