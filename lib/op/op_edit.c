/* Editing a file by what stands in it. The agent does the work; here is what is asked of it and how its
 * answer looks. */
#include "lib/op/blocks.h"
#include "lib/op/file.h"
#include "lib/op/ops.h"

static const struct field edit_rows[] = {
    { "old", FIELD_STRING, .required = true, .content = true,
      .text =
          "The text to replace, with its white space; it must stand there once. Empty: only for an "
          "empty file." },
    { "new", FIELD_STRING, .required = true, .content = true,
      .text = "What comes there, literally, but for line ends, which become those of the file; empty: nothing. "
              "Whether the file ends with a newline stays as it is." },
    { "replace_all", FIELD_BOOLEAN, .dflt = "false", .text = "Replace it wherever it stands." },
    { "occurrence", FIELD_INTEGER, .nullable = true, FIELD_RANGE(1, 1000000),
      .text = "Replace this one of several, counted from 1." },
    FIELD_END,
};
static const struct field edit_row = { NULL, FIELD_OBJECT, .members = edit_rows };
static const struct field edit_params[] = {
    ROW_ITS_WORKSPACE,
    ROW_FILEPATH,
    { "edits", FIELD_ARRAY, .required = true, FIELD_RANGE(1, 1000), .items = &edit_row,
      .text = "Made one after the other, each on the result of those before; all or none." },
    { "dry_run", FIELD_BOOLEAN, .dflt = "false", .text = "Show what would change, and change nothing." },
    ROW_IF_MATCH,
    ROW_VALIDATE,
    ROW_MAX_BYTES,
    FIELD_END,
};
static const struct field edit_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("filepath", "The file, as it was asked for."),
    RESULT_BOOL("changed", "False: its content is what it was."),
    RESULT_BOOL("dry_run", "As it was asked for: true = nothing was written."),
    RESULT_INT("edits", "How many were made."),
    RESULT_INT("exact", "How many of them found old as it was given."),
    RESULT_INT("fuzzy", "How many found it but for white space."),
    RESULT_INT("replaced", "In how many places."),
    RESULT_INT("size", "Bytes of the new content."),
    RESULT_TEXT("hash", "Of the new content, for if_match."),
    RESULT_TEXT("diff", "What changed, as a unified diff."),
    RESULT_VALIDATED,
    RESULT_VALIDATION,
    FIELD_END,
};

/* An edit is made of a file that is there: any such file is what * asks for. */
static int edit_check(const struct config *config, json_t *in, struct error *err)
{
    const char *match = text_of(in, "if_match");
    (void)config;
    (void)err;
    file_complete_match(in);
    if (match && strcmp(match, "*") == 0)
        json_object_set_new(in, "if_match", json_null());
    return 0;
}

static int edit_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    json_t *request = json_pack("{s:s, s:O, s:O, s:O, s:O, s:O, s:I}", "call", "edit", "path",
                                json_object_get(in, "filepath"), "edits", json_object_get(in, "edits"),
                                "dry_run", json_object_get(in, "dry_run"), "if_match",
                                json_object_get(in, "if_match"), "validate", json_object_get(in, "validate"),
                                "max_size", (json_int_t)keeper_config(keeper_of(call))->max_write_size_bytes);
    (void)ret;
    file_set_room(request, call, in, text_of(in, "filepath"));
    return keeper_file_call(call, request, err);
}

/* B's words. */
static void show(struct call *call)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, name = BUFFER_INIT;
    const json_t *result = call->result, *diff = json_object_get(result, "diff");
    long long edits = integer_of(result, "edits"), exact = integer_of(result, "exact");
    long long fuzzy = integer_of(result, "fuzzy");
    file_append_name(&name, call->in, "filepath");
    const char *path = buffer_text(&name);
    if (!is_true(result, "changed"))
        buffer_append_text(&text, "No changes made (content matched existing).");
    else if (is_true(result, "dry_run"))
        buffer_printf(
            &text, "DRY RUN - proposed changes for '%s' (%lld edits (%lld exact, %lld fuzzy-matched)):\n\n",
            path, edits, exact, fuzzy);
    else
        buffer_printf(&text, "Successfully applied %lld edits (%lld exact, %lld fuzzy-matched) to '%s':\n\n",
                      edits, exact, fuzzy, path);
    if (is_true(result, "changed"))
        buffer_append(&text, json_string_value(diff), json_string_length(diff));
    blocks_add_text(&call->blocks, text.data, text.length);
    if (!is_true(result, "dry_run"))
        file_show_hash(call);
}

static int edit_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = {
        { "changed", "false" }, { "exact", "0" },        { "fuzzy", "0" },
        { "replaced", "0" },    { "size", "0" },         { "hash", "\"\"" },
        { "diff", "\"\"" },     FILE_VALIDATION_MEMBERS, { NULL, NULL },
    };
    (void)err;
    call->result = file_result(call, members);
    json_object_set(call->result, "filepath", json_object_get(call->in, "filepath"));
    json_object_set(call->result, "dry_run", json_object_get(call->in, "dry_run"));
    json_object_set_new(call->result, "edits",
                        json_integer((json_int_t)json_array_size(json_object_get(call->in, "edits"))));
    if (call->form == CALL_MCP)
        show(call);
    return OP_DONE;
}

const struct op op_edit_file = {
    .id = "editWorkspaceFile",
    .tool = "search_and_replace",
    .title = "Search and Replace",
    .toolset = "file",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/edit",
    .summary = "Edit a text file by replacing parts of it.",
    .description =
        "Read the file first: old must stand there once, as it is or but for white space; indentation "
        "is kept. Where nothing or too much fits, the nearest lines are told and nothing is written. "
        "Outside of what is replaced not one byte changes.",
    .params = edit_params,
    .example = "\"filepath\": \"notes.txt\", \"edits\": [{\"old\": \"one\", \"new\": \"two\"}]",
    .result = edit_result,
    .flags = OP_DESTRUCTIVE | OP_ON_WORKSPACE | OP_DEFAULT_WORKSPACE | OP_NEEDS_SANDBOX | OP_IN_ACTIONS,
    .keep_ms = FILE_KEEP_MS,
    .check = edit_check,
    .keep = edit_keep,
    .run = edit_run,
};
