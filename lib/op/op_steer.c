/* Steering a running command: input, signals, the size of its terminal. All of it is done in the keeper. */
#include "lib/base/base64.h"
#include "lib/base/process.h"
#include "lib/op/ops.h"
#include "lib/op/rows.h"

/* ---- input ---- */

static const struct field input_params[] = {
    ROW_WORKSPACE_ID,
    ROW_EXEC_ID,
    { "data", FIELD_STRING, FIELD_RANGE(0, 100000), .dflt = "\"\"", .content = true,
      .text = "Text to write to its input; end a line with a line feed." },
    { "data_base64", FIELD_STRING, .nullable = true, FIELD_RANGE(0, 140000), .format = &format_base64,
      .content = true, .text = "Bytes to write instead of data, as base64." },
    { "eof", FIELD_BOOLEAN, .dflt = "false",
      .text = "Close its input after that; on a terminal, send the end-of-file character." },
    FIELD_END,
};
static const struct field input_result[] = {
    RESULT_EXEC_ID,
    RESULT_BOOL("accepted", "It was taken."),
    RESULT_BOOL("eof", "The input was closed."),
    RESULT_SANDBOX_ID,
    RESULT_WORKSPACE_ID,
    FIELD_END,
};

static int input_check(const struct config *config, json_t *in, struct error *err)
{
    bool text = json_string_length(json_object_get(in, "data")) > 0,
         bytes = json_string_length(json_object_get(in, "data_base64")) > 0;

    (void)config;
    if (text && bytes)
        return error_set(err, ERROR_INVALID, "data and data_base64 exclude each other");
    if (!text && !bytes && !is_true(in, "eof"))
        return error_set(err, ERROR_INVALID, "data, data_base64 or eof must be given");
    return 0;
}

static json_t *kept_answer(struct keeper_call *call, const json_t *in)
{
    const json_t *record = keeper_record(keeper_of(call));

    return json_pack("{s:s, s:s?, s:s}", "exec_id", text_of(in, "exec_id"), "sandbox_id",
                     text_of(record, "sandbox_id"), "workspace_id", text_of(record, "workspace_id"));
}

static int input_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    const json_t *encoded = json_object_get(in, "data_base64"), *text = json_object_get(in, "data");
    _cleanup_buffer_ struct buffer bytes = BUFFER_INIT;

    if (json_string_length(encoded) == 0)
        buffer_append(&bytes, json_string_value(text), json_string_length(text));
    else if (!base64_decode(json_string_value(encoded), json_string_length(encoded), &bytes))
        return error_set(err, ERROR_INVALID, "data_base64 is not valid base64");
    if (keeper_exec_input(keeper_of(call), text_of(in, "exec_id"), bytes.data, bytes.length,
                          is_true(in, "eof"), err) < 0)
        return -1;
    *ret = kept_answer(call, in);
    json_object_set_new(*ret, "accepted", json_true());
    json_object_set(*ret, "eof", json_object_get(in, "eof"));
    return 0;
}

const struct op op_exec_input = {
    .id = "sendRealtimeWorkspaceExecInput",
    .tool = "workspace_realtime_exec_input",
    .title = "Send input",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/realtime-execs/{exec_id}/input",
    .summary = "Write to a running command's input, or close it.",
    .description =
        "What the command answers comes as further events. After eof or exit input is refused (409).",
    .params = input_params,
    .example = "\"data\": \"yes\\n\"",
    .result = input_result,
    .flags = OP_DESTRUCTIVE | OP_OPEN_WORLD | OP_ON_WORKSPACE | OP_IN_ACTIONS,
    .check = input_check,
    .keep = input_keep,
};

/* ---- cancel ---- */

static const struct field cancel_params[] = {
    ROW_WORKSPACE_ID,
    ROW_EXEC_ID,
    { "signal_name", FIELD_STRING, .dflt = "\"TERM\"", .format = &format_signal,
      .text = "TERM, INT, HUP, KILL, QUIT, USR1, USR2, STOP, CONT or WINCH, to its process group." },
    { "tree", FIELD_BOOLEAN, .dflt = "false",
      .text = "To every descendant, also those that left the group; what is left 2 s later is killed. Works "
              "after exit too." },
    FIELD_END,
};
static const struct field cancel_result[] = {
    RESULT_EXEC_ID,
    RESULT_BOOL("cancel_requested", "The signal was sent."),
    RESULT_TEXT("signal", "Its name."),
    RESULT_SANDBOX_ID,
    RESULT_WORKSPACE_ID,
    FIELD_END,
};

static int cancel_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    int number = process_signal_number(text_of(in, "signal_name"));

    if (number < 0)
        return error_set(err, ERROR_INVALID, "signal_name is not known");
    if (keeper_exec_signal(keeper_of(call), text_of(in, "exec_id"), number, is_true(in, "tree"), err) < 0)
        return -1;
    *ret = kept_answer(call, in);
    json_object_set_new(*ret, "cancel_requested", json_true());
    json_object_set_new(*ret, "signal", json_string(process_signal_name(number)));
    return 0;
}

const struct op op_exec_cancel = {
    .id = "cancelRealtimeWorkspaceExec",
    .tool = "workspace_realtime_exec_cancel",
    .title = "Signal command",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/realtime-execs/{exec_id}/cancel",
    .summary = "Send a signal to a command: TERM by default, KILL to end it for sure.",
    .description = "Its end comes as an exit event. With tree all its descendants are ended, also those in "
                   "the background.",
    .params = cancel_params,
    .example = "\"signal_name\": \"INT\"",
    .result = cancel_result,
    .flags = OP_DESTRUCTIVE | OP_ON_WORKSPACE | OP_IN_ACTIONS,
    .keep = cancel_keep,
};

/* ---- resize ---- */

static const struct field resize_params[] = {
    ROW_WORKSPACE_ID,
    ROW_EXEC_ID,
    { "rows", FIELD_INTEGER, .required = true, FIELD_RANGE(1, 1000), .text = "Lines." },
    { "cols", FIELD_INTEGER, .required = true, FIELD_RANGE(1, 1000), .text = "Columns." },
    FIELD_END,
};
static const struct field resize_result[] = {
    RESULT_EXEC_ID,
    RESULT_INT("rows", "Lines now."),
    RESULT_INT("cols", "Columns now."),
    RESULT_SANDBOX_ID,
    RESULT_WORKSPACE_ID,
    FIELD_END,
};

static int resize_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    int rows = (int)integer_of(in, "rows"), cols = (int)integer_of(in, "cols");

    if (keeper_exec_resize(keeper_of(call), text_of(in, "exec_id"), rows, cols, err) < 0)
        return -1;
    *ret = kept_answer(call, in);
    json_object_set_new(*ret, "rows", json_integer(rows));
    json_object_set_new(*ret, "cols", json_integer(cols));
    return 0;
}

const struct op op_exec_resize = {
    .id = "resizeRealtimeWorkspaceExec",
    .tool = "workspace_realtime_exec_resize",
    .title = "Resize terminal",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/realtime-execs/{exec_id}/resize",
    .summary = "Change the size of a command's terminal.",
    .description = "For a running command that was started with pty: it gets SIGWINCH and sees the new size. "
                   "Refused (409) where it has no terminal or has ended.",
    .params = resize_params,
    .example = "\"rows\": 40, \"cols\": 120",
    .result = resize_result,
    .flags = OP_IDEMPOTENT | OP_ON_WORKSPACE,
    .keep = resize_keep,
};
