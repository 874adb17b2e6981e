/* Files read, written and listed. The agent does the work; here is what is asked of it and how its answers
 * look: as JSON, and for models in MCP as plain text. */
#include "lib/op/blocks.h"
#include "lib/op/file.h"
#include "lib/op/ops.h"

/* ---- reading ---- */

static const struct field read_params[] = {
    ROW_ITS_WORKSPACE,
    ROW_FILEPATH,
    { "offset", FIELD_INTEGER, FIELD_RANGE(-2147483647, 2147483647), .dflt = "0",
      .text = "First line, counted from 0; negative: from the end." },
    { "limit", FIELD_INTEGER, FIELD_RANGE(-1, 2147483647), .dflt = "100",
      .text = "Lines at most; 0 or less: to the end." },
    { "line_numbers", FIELD_BOOLEAN, .dflt = "false",
      .text = "Put each line's number before it, as cat -n." },
    ROW_MAX_BYTES,
    FIELD_END,
};
static const struct field read_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("filepath", "The file, as it was asked for."),
    RESULT_TEXT("content", "The lines, joined by newlines, without the last newline; empty for an image."),
    RESULT_INT("offset", "The first line of content, counted from 0."),
    RESULT_INT("lines", "How many lines content has."),
    RESULT_INT("total_lines", "How many the file has."),
    RESULT_INT0("next_offset", "The offset to go on with; null at the end."),
    RESULT_BOOL("no_final_newline",
                "The file's last line ends without a newline, which content does not show."),
    RESULT_BOOL("line_cut", "The only line shown is longer than the answer may be, and was cut."),
    RESULT_INT("size", "Bytes of the file."),
    RESULT_TEXT("hash", "Of the whole file: sha256:... for if_match."),
    RESULT_BOOL("utf8", "False: bytes that are not UTF-8 are shown as U+FFFD; content_base64 has them."),
    RESULT_BOOL("bom", "The file begins with a byte order mark, which content leaves out."),
    RESULT_TEXT0("content_base64", "The exact bytes of content where utf8 is false, else null."),
    RESULT_TEXT0("media_type", "Of an image; null for text."),
    RESULT_TEXT0("data_base64",
                 "An image's bytes; null where they are larger than max_bytes, and in MCP, which "
                 "has them in the content."),
    RESULT_TEXT0("notice",
                 "What was left out and how to go on, or what content does not show; null: nothing."),
    FIELD_END,
};

static int read_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    json_t *request =
        json_pack("{s:s, s:O, s:O, s:O, s:O, s:I}", "call", "read", "path", json_object_get(in, "filepath"),
                  "offset", json_object_get(in, "offset"), "limit", json_object_get(in, "limit"),
                  "line_numbers", json_object_get(in, "line_numbers"), "max_size",
                  (json_int_t)keeper_config(keeper_of(call))->max_read_size_bytes);
    (void)ret;
    file_set_room(request, call, in, text_of(in, "filepath"));
    return keeper_file_call(call, request, err);
}

static json_t *read_notice(const json_t *kept)
{
    long long offset = integer_of(kept, "offset"), lines = integer_of(kept, "lines");
    long long total = integer_of(kept, "total_lines");
    if (is_true(kept, "line_cut"))
        return json_sprintf(
            "[line %lld of %lld is too long for an answer and was cut: read it by bytes, with a "
            "command such as cut -c]",
            offset + 1, total);
    if (is_given(kept, "next_offset"))
        return json_sprintf("[lines %lld-%lld of %lld; go on with offset %lld]", offset + 1, offset + lines,
                            total, (long long)integer_of(kept, "next_offset"));
    if (lines == 0 && total > 0)
        return json_sprintf("[the file has %lld lines, and none at offset %lld]", total, offset);
    if (is_given(kept, "content_base64"))
        return json_string("[bytes that are not UTF-8 are shown as U+FFFD; content_base64 has them exactly]");
    if (lines > 0 && offset + lines == total && is_true(kept, "no_final_newline"))
        return json_string("[the last line ends without a newline]");
    return json_null();
}

static void show_text(struct call *call)
{
    const json_t *content = json_object_get(call->result, "content");
    const char *notice = text_of(call->result, "notice");
    blocks_add_text(&call->blocks, json_string_value(content), json_string_length(content));
    if (notice)
        blocks_add_text(&call->blocks, notice, strlen(notice));
    file_show_hash(call);
}

/* In MCP an image stands in the content alone; elsewhere only where the answer may be that long. */
static void place_image(struct call *call)
{
    const char *data = text_of(call->result, "data_base64");
    if (!data)
        return;
    if (call->form == CALL_MCP)
        blocks_add_image(&call->blocks, text_of(call->result, "media_type"), data);
    else if ((int64_t)strlen(data) <= integer_of(call->in, "max_bytes"))
        return;
    else
        json_object_set_new(call->result, "notice",
                            json_string("[the image is larger than max_bytes: ask with a larger one]"));
    json_object_set_new(call->result, "data_base64", json_null());
}

static int read_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = {
        { "content", "\"\"" },    { "offset", "0" },         { "lines", "0" },
        { "total_lines", "0" },   { "next_offset", "null" }, { "no_final_newline", "false" },
        { "line_cut", "false" },  { "size", "0" },           { "hash", "\"\"" },
        { "utf8", "true" },       { "bom", "false" },        { "content_base64", "null" },
        { "media_type", "null" }, { "data_base64", "null" }, { NULL, NULL },
    };
    (void)err;
    call->result = file_result(call, members);
    json_object_set(call->result, "filepath", json_object_get(call->in, "filepath"));
    json_object_set_new(call->result, "notice", read_notice(call->kept));
    if (is_given(call->result, "media_type"))
        place_image(call);
    else if (call->form == CALL_MCP)
        show_text(call);
    return OP_DONE;
}

static char *read_told(const json_t *result)
{
    return xasprintf("read %lld lines (offset %lld, total %lld)", (long long)integer_of(result, "lines"),
                     (long long)integer_of(result, "offset"), (long long)integer_of(result, "total_lines"));
}

const struct op op_read_file = {
    .id = "readWorkspaceFile",
    .tool = "read_file",
    .title = "Read File",
    .toolset = "file",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/file",
    .summary = "Read a text file by lines, or an image.",
    .description = "Says how many lines there are and where to go on. The hash of the whole file comes with "
                   "every page: give it as if_match when you write, so that nobody's change is lost. PNG, "
                   "JPEG, GIF and WebP come as images; other binary files are refused by name.",
    .params = read_params,
    .example = "\"filepath\": \"src/main.c\", \"offset\": 0, \"limit\": 50",
    .result = read_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_DEFAULT_WORKSPACE | OP_NEEDS_SANDBOX |
             OP_IN_ACTIONS,
    .keep_ms = FILE_KEEP_MS,
    .keep = read_keep,
    .run = read_run,
    .told = read_told,
};

/* ---- writing ---- */

static const struct field write_params[] = {
    ROW_ITS_WORKSPACE,
    ROW_FILEPATH,
    { "content", FIELD_STRING, .required = true, .content = true,
      .text = "The whole content; 5 MiB at most as UTF-8, unless the operator set "
              "WORKSPACE_MAX_WRITE_SIZE_BYTES." },
    { "create_only", FIELD_BOOLEAN, .dflt = "true",
      .text = "Refuse (409) where the file exists; false: replace it." },
    ROW_IF_MATCH,
    ROW_VALIDATE,
    FIELD_END,
};
static const struct field write_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("filepath", "The file, as it was asked for."),
    RESULT_INT("size", "Bytes written."),
    RESULT_TEXT("hash", "Of the new content, for if_match."),
    RESULT_BOOL("created", "There was no such file before."),
    RESULT_BOOL("hard_link_broken", "The file had other names, which keep the old content."),
    RESULT_VALIDATED,
    RESULT_VALIDATION,
    FIELD_END,
};

static int write_check(const struct config *config, json_t *in, struct error *err)
{
    size_t length = json_string_length(json_object_get(in, "content"));
    file_complete_match(in);
    if ((int64_t)length <= config->max_write_size_bytes)
        return 0;
    return error_set(
        err, ERROR_TOO_LARGE,
        "content has %zu bytes, more than WORKSPACE_MAX_WRITE_SIZE_BYTES (%lld): bytes of any size go up by "
        "PUT %s/api%s",
        length, (long long)config->max_write_size_bytes, config_prefix(config), op_upload_file.path);
}

/* A file whose hash is named is there, and to be replaced. */
static int write_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    json_t *request =
        json_pack("{s:s, s:O, s:I, s:b, s:O, s:O, s:I}", "call", "write", "path",
                  json_object_get(in, "filepath"), "length", (json_int_t)keeper_call_data(call),
                  "create_only", is_true(in, "create_only") && !is_given(in, "if_match"), "if_match",
                  json_object_get(in, "if_match"), "validate", json_object_get(in, "validate"), "max_size",
                  (json_int_t)keeper_config(keeper_of(call))->max_write_size_bytes);
    (void)ret;
    return keeper_file_call(call, request, err);
}

static int write_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = {
        { "size", "0" },         { "hash", "\"\"" }, { "created", "false" }, { "hard_link_broken", "false" },
        FILE_VALIDATION_MEMBERS, { NULL, NULL },
    };
    (void)err;
    call->result = file_result(call, members);
    json_object_set(call->result, "filepath", json_object_get(call->in, "filepath"));
    if (call->form != CALL_MCP)
        return OP_DONE;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_printf(&text, "Successfully wrote %lld bytes to ", (long long)integer_of(call->result, "size"));
    file_append_name(&text, call->in, "filepath");
    blocks_add_text(&call->blocks, text.data, text.length);
    file_show_hash(call);
    return OP_DONE;
}

const struct op op_write_file = {
    .id = "writeWorkspaceFile",
    .tool = "write_file",
    .title = "Write File",
    .toolset = "file",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/file",
    .summary = "Write a whole text file.",
    .description =
        "Makes missing folders. The file is replaced at once or not at all; its mode is kept, and a "
        "link is followed to the file that it means. With if_match (which implies create_only "
        "false) a file that changed since it was read is a conflict (409) that tells its hash.",
    .params = write_params,
    .example = "\"filepath\": \"notes.txt\", \"content\": \"one line\\n\"",
    .result = write_result,
    .flags = OP_DESTRUCTIVE | OP_ON_WORKSPACE | OP_DEFAULT_WORKSPACE | OP_NEEDS_SANDBOX | OP_IN_ACTIONS,
    .data = "content",
    .keep_ms = FILE_KEEP_MS,
    .check = write_check,
    .keep = write_keep,
    .run = write_run,
};
