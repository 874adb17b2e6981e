/* run_bash: a command in the workspace, its output in the order it was written, for readers who pay by the
 * token. Knows what the answer looks like, as JSON and, for models in MCP, as plain text; waiting is
 * outcome.c's, bounds are output.c's. */
#include "lib/base/process.h"
#include "lib/base/utf8.h"
#include "lib/op/blocks.h"
#include "lib/op/file.h"
#include "lib/op/ops.h"
#include "lib/op/outcome.h"
#include "lib/op/render.h"

#define VIEW_BYTES 51200 /* of output that is shown */
#define REST_BYTES 2600  /* of the answer beside the output: names, ids, reason, notices */

static const struct field bash_params[] = {
    ROW_ITS_WORKSPACE,
    { "command", FIELD_STRING, .required = true, FIELD_RANGE(1, 100000), .nonblank = true,
      .format = &format_no_nul,
      .text = "Command for bash, run in /workspace unless workdir says else. It gets no input." },
    { "timeout", FIELD_INTEGER, .nullable = true, FIELD_RANGE(1, 86400),
      .text = "Seconds after which the command and all that it started are killed; null = 60, or what "
              "the operator set as WORKSPACE_COMMAND_TIMEOUT." },
    ROW_WORKDIR,
    ROW_ENV,
    ROW_WAIT_FOR_END,
    ROW_COMPACT("true"),
    { "rtk", FIELD_BOOLEAN, .dflt = "true",
      .text = "Where the operator lets the program rtk rewrite commands: false runs this one as it is." },
    FIELD_END,
};
static const struct field bash_result[] = {
    OUTCOME_ROWS("What it wrote to stdout and stderr, in the order it was written.",
                 "Always empty: see stdout."),
    RESULT_TEXT0("rewritten_command",
                 "What rtk made of the command, which ran instead of it; null: nothing."),
    RESULT_TEXT0("error", "Why this counts as a failed call: it ran into its timeout, did not start, or was "
                          "lost. An exit code is none."),
    RESULT_TEXT0("notice", "What else there is to know, and how to go on; null: nothing."),
    FIELD_END,
};

/* ---- the keeper's half ---- */

static int bash_check(const struct config *config, json_t *in, struct error *err)
{
    (void)err;
    if (!is_given(in, "timeout"))
        json_object_set_new(in, "timeout", json_integer(config->command_timeout));
    if (strcmp(config->rtk, "on") != 0)
        json_object_set_new(in, "rtk", json_false());
    return 0;
}

static int bash_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    struct exec_head head;
    const struct exec_request request = {
        .command = text_of(in, "command"),
        .workdir = text_of(in, "workdir"),
        .env = is_given(in, "env") ? json_object_get(in, "env") : NULL,
        .stdin_is_null = true,
        .merge_stderr = true,
        .rtk = is_true(in, "rtk"),
        .rows = 24,
        .cols = 80,
        .timeout_s = integer_of(in, "timeout"),
    };

    if (keeper_exec_start(call, &request, &head, err) < 0)
        return -1;
    *ret = json_pack("{s:s}", "exec_id", head.id);
    return 0;
}

/* ---- the answer ---- */

/* What makes it a failed call, in words; nothing where it is none. */
static void say_error(const struct call *call, const struct exec_head *head, struct buffer *out)
{
    if (head->exit_seq == 0)
        return;
    if (head->timed_out)
        buffer_printf(out,
                      "Command timed out after %llds. The process was killed. So is all that it had "
                      "started. Simplify the command or increase timeout.",
                      (long long)integer_of(call->in, "timeout"));
    else if (!head->has_returncode)
        buffer_printf(out, "Error executing command: %s", head->reason);
}

/* The first line of the text. */
static void say_end(const struct exec_head *head, const char *error, struct buffer *out)
{
    if (*error)
        buffer_append_text(out, error);
    else if (head->exit_seq > 0)
        buffer_printf(out, "[Exit code: %d]", head->returncode);
    else
        buffer_printf(out, "[Still running: no exit code yet, exec_id %s]", head->id);
}

/* An operation's name, as the reader of this answer knows it. */
static const char *name_of(const struct call *call, const struct op *op)
{
    return call->form == CALL_MCP ? op->tool : op->id;
}

static void say_running(const struct call *call, const struct output *output, struct buffer *out)
{
    buffer_printf(out,
                  "[it goes on, until it is killed %llds after its start (timeout): read on with %s, "
                  "workspace_id %s, exec_id %s, cursor %llu, until an event of "
                  "type exit comes; %s ends it]\n",
                  (long long)integer_of(call->in, "timeout"), name_of(call, &op_exec_events),
                  text_of(call->workspace, "workspace_id"), output->head.id,
                  (unsigned long long)output->next_cursor, name_of(call, &op_exec_cancel));
}

static bool is_partial(const struct output *output)
{
    const struct buffer *shown = &output->streams[0];

    return output->condensed[0] || output->truncated[0] || !utf8_is_valid(shown->data, shown->length);
}

static void say_notice(const struct call *call, const struct output *output, struct buffer *out)
{
    const struct exec_head *head = &output->head;
    const struct buffer *shown = &output->streams[0];

    if (output->rewritten)
        buffer_printf(out, "[rtk made another command of it, which ran instead: %s]\n", output->rewritten);
    if (head->exit_seq == 0)
        say_running(call, output, out);
    else if (head->signal && !head->timed_out)
        buffer_printf(out, "[ended by signal %s]\n", process_signal_name(head->signal));
    if (head->exit_seq > 0 && head->oom_killed)
        buffer_append_text(out, "[the memory limit ended a process of it]\n");
    if (!utf8_is_valid(shown->data, shown->length))
        buffer_printf(out,
                      "[bytes that are not UTF-8 are shown as U+FFFD: %s of %s has them exactly, as "
                      "data_base64]\n",
                      name_of(call, &op_exec_events), head->id);
    if (call->form == CALL_MCP && head->exit_seq > 0 &&
        is_partial(output)) /* a text alone, without members */
        buffer_printf(out, "[all of it: %s, workspace_id %s, exec_id %s]\n", name_of(call, &op_exec_events),
                      text_of(call->workspace, "workspace_id"), head->id);
    if (out->length > 0)
        out->length--; /* the last line's end */
}

/* B's layout, and what it did not have in a block of its own. */
static void show(struct call *call, const struct output *output, const char *first, struct buffer *notice)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;

    buffer_append_text(&text, first);
    if (output->streams[0].length > 0) {
        buffer_append_char(&text, '\n');
        buffer_append(&text, output->streams[0].data, output->streams[0].length);
    }
    blocks_add_text(&call->blocks, text.data, text.length);
    if (notice->length > 0)
        blocks_add_text(&call->blocks, notice->data, notice->length);
}

static void answer(struct call *call, const struct output *output)
{
    _cleanup_buffer_ struct buffer error = BUFFER_INIT, first = BUFFER_INIT, notice = BUFFER_INIT;

    say_error(call, &output->head, &error);
    say_end(&output->head, buffer_text(&error), &first);
    say_notice(call, output, &notice);
    buffer_append_char(&call->body, '{');
    outcome_render(call, output);
    render_text(&call->body, "rewritten_command", output->rewritten);
    render_text(&call->body, "error", error.length > 0 ? buffer_text(&error) : NULL);
    render_text(&call->body, "notice", notice.length > 0 ? buffer_text(&notice) : NULL);
    buffer_append_char(&call->body, '}');
    if (call->form != CALL_MCP)
        return;
    show(call, output, buffer_text(&first), &notice);
    call->failed = error.length > 0;
}

static int bash_run(struct call *call, struct error *err)
{
    const struct output_request request = {
        .max_bytes = (ANSWER_BYTES - REST_BYTES) / (call->form == CALL_MCP ? 2 : 1),
        .max_chars = VIEW_BYTES,
        .max_raw = VIEW_BYTES,
        .repeats = 2,
        .compact = is_true(call->in, "compact"),
    };
    const struct output *output;
    int rc = outcome_collect(call, &request, &output, err);

    if (rc == OP_DONE)
        answer(call, output);
    return rc;
}

static char *bash_told(const json_t *result)
{
    _cleanup_buffer_ struct buffer told = BUFFER_INIT;
    if (is_given(result, "error"))
        buffer_append_text(&told, text_of(result, "error"));
    else if (is_given(result, "returncode"))
        buffer_printf(&told, "exit code %lld", (long long)integer_of(result, "returncode"));
    else
        buffer_append_text(&told, "the wait is over, the command still runs");
    if (is_given(result, "rewritten_command"))
        buffer_printf(&told, "; rtk made another command of it, which ran instead: %s",
                      text_of(result, "rewritten_command"));
    return xstrdup(buffer_text(&told));
}

const struct op op_bash = {
    .id = "runWorkspaceBash",
    .tool = "run_bash",
    .title = "Run Shell Command",
    .toolset = "file",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/bash",
    .summary = "Run a shell command and show what it wrote, condensed, with its exit code.",
    .description =
        "Long listings, passing tests, progress and repetition give way to counts (its events keep all of "
        "it), "
        "and the middle of more than 50 KB is left out. What takes longer than wait_seconds goes on: read on "
        "with {{getRealtimeWorkspaceExecEvents}}. At its timeout it is killed.",
    .params = bash_params,
    .example = "\"command\": \"git status\"",
    .result = bash_result,
    .flags = OP_DESTRUCTIVE | OP_OPEN_WORLD | OP_ON_WORKSPACE | OP_DEFAULT_WORKSPACE | OP_NEEDS_SANDBOX |
             OP_LONG_POLL | OP_KEYED | OP_IN_ACTIONS,
    .check = bash_check,
    .keep = bash_keep,
    .run = bash_run,
    .told = bash_told,
};
