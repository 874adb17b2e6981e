/* Folders listed and made, things moved and removed. */
#include "lib/base/clock.h"
#include "lib/op/blocks.h"
#include "lib/op/file.h"
#include "lib/op/ops.h"

#define FLAGS (OP_ON_WORKSPACE | OP_DEFAULT_WORKSPACE | OP_NEEDS_SANDBOX)

/* ---- listing ---- */

static const struct field list_params[] = {
    ROW_ITS_WORKSPACE,
    { "path", FIELD_STRING, FIELD_RANGE(1, 4095), .format = &format_no_nul, .dflt = "\".\"",
      .text = "The folder: " FILE_PATH_TEXT },
    { "limit", FIELD_INTEGER, FIELD_RANGE(1, 5000), .dflt = "500",
      .text = "Entries at most; the gateway may give fewer in a page (500, unless set otherwise)." },
    { "cursor", FIELD_STRING, .nullable = true, FIELD_RANGE(0, 400), .format = &format_base64,
      .text = "next_cursor of the page before." },
    ROW_MAX_BYTES,
    FIELD_END,
};
static const char *const entry_types[] = { "file", "directory", "link", "other", NULL };
static const struct field entry_rows[] = {
    RESULT_TEXT("name", "Its name; bytes that are not UTF-8 are shown as U+FFFD."),
    RESULT_TEXT0("name_base64", "Its exact name where that is not UTF-8, else null."),
    RESULT_EXACT_PATH,
    { "type", FIELD_STRING, .required = true, .choices = entry_types, .text = "What it is." },
    RESULT_BOOL("directory", "It is a folder, or a link to one inside of the workspace."),
    RESULT_INT("size", "Its bytes."),
    RESULT_TEXT("modified_at", "When its content last changed."),
    FIELD_END,
};
static const struct field entry_row = { NULL, FIELD_OBJECT, .members = entry_rows };
static const struct field list_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("path", "The folder, as it was asked for."),
    { "entries", FIELD_ARRAY, .required = true, .items = &entry_row, .text = "Folders first, each by name." },
    RESULT_INT("total", "How many entries the folder has."),
    RESULT_BOOL("has_more", "There are more: pass next_cursor."),
    RESULT_TEXT0("next_cursor", "For the next page; null at the end."),
    FIELD_END,
};

static int list_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    const char *cursor = text_of(in, "cursor");
    int64_t limit = integer_of(in, "limit"), most = keeper_config(keeper_of(call))->max_list_entries;
    json_t *request =
        json_pack("{s:s, s:O, s:I, s:s}", "call", "list", "path", json_object_get(in, "path"), "limit",
                  (json_int_t)(limit < most ? limit : most), "after", cursor ? cursor : "");
    (void)ret;
    file_set_room(request, call, in, text_of(in, "path"));
    return keeper_file_call(call, request, err);
}

static json_t *show_entry(const json_t *kept)
{
    char modified[CLOCK_TEXT_SIZE];
    clock_format(integer_of(kept, "modified_us"), modified);
    return json_pack("{s:O?, s:s?, s:s?, s:O?, s:b, s:I, s:s}", "name", json_object_get(kept, "name"),
                     "name_base64", text_of(kept, "name_base64"), "path_base64", text_of(kept, "path_base64"),
                     "type", json_object_get(kept, "type"), "directory", is_true(kept, "directory"), "size",
                     (json_int_t)integer_of(kept, "size"), "modified_at", modified);
}

static void show_list(struct call *call, const json_t *entries)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    const json_t *entry;
    size_t index;
    json_array_foreach(entries, index, entry) {
        buffer_printf(&text, "%s[%c] ", index ? "\n" : "", is_true(entry, "directory") ? 'D' : 'F');
        file_append_name(&text, entry, "name");
        if (is_given(entry, "path_base64"))
            buffer_printf(&text, " (base64:%s)", text_of(entry, "path_base64"));
    }
    if (json_array_size(entries) == 0)
        buffer_append_text(&text, "Directory is empty.");
    blocks_add_text(&call->blocks, text.data, text.length);
    const char *cursor = text_of(call->kept, "next_cursor");
    if (!cursor)
        return;
    _cleanup_free_ char *more =
        xasprintf("[%zu of %lld entries; go on with cursor %s]", json_array_size(entries),
                  (long long)integer_of(call->kept, "total"), cursor);
    blocks_add_text(&call->blocks, more, strlen(more));
}

static int list_run(struct call *call, struct error *err)
{
    json_t *entries = json_array();
    const json_t *entry, *cursor = json_object_get(call->kept, "next_cursor");
    size_t index;
    (void)err;
    json_array_foreach(json_object_get(call->kept, "entries"), index, entry)
        json_array_append_new(entries, show_entry(entry));
    if (call->form == CALL_MCP)
        show_list(call, entries);
    call->result =
        json_pack("{s:s, s:O, s:o, s:I, s:b, s:O?}", "workspace_id", text_of(call->workspace, "workspace_id"),
                  "path", json_object_get(call->in, "path"), "entries", entries, "total",
                  (json_int_t)integer_of(call->kept, "total"), "has_more", json_is_string(cursor),
                  "next_cursor", cursor);
    return OP_DONE;
}

const struct op op_list_directory = {
    .id = "listWorkspaceDirectory",
    .tool = "list_directory",
    .title = "List Directory",
    .toolset = "file",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/files",
    .summary = "List one folder, sorted and in pages.",
    .description =
        "Folders come before files. .git, .venv, .venv_container, .mcp, __pycache__ and .ruff_cache "
        "are left out; other hidden names are shown.",
    .params = list_params,
    .example = "\"path\": \"src\"",
    .result = list_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_IN_ACTIONS | FLAGS,
    .keep_ms = FILE_KEEP_MS,
    .keep = list_keep,
    .run = list_run,
};

/* ---- making ---- */

static const struct field make_params[] = {
    ROW_ITS_WORKSPACE,
    ROW_PATH("path", "The folder: " FILE_PATH_TEXT),
    { "create_parents", FIELD_BOOLEAN, .dflt = "true", .text = "Make missing folders above it too." },
    FIELD_END,
};
static const struct field make_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("path", "The folder, from /workspace on."),
    RESULT_EXACT("path"),
    RESULT_BOOL("created", "False: it was there before."),
    FIELD_END,
};

static int make_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    (void)ret;
    return keeper_file_call(call,
                            json_pack("{s:s, s:O, s:O}", "call", "mkdir", "path", json_object_get(in, "path"),
                                      "create_parents", json_object_get(in, "create_parents")),
                            err);
}

static int make_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = {
        { "path", "\"\"" }, { "path_base64", NULL }, { "created", "false" }, { NULL, NULL }
    };
    (void)err;
    call->result = file_result(call, members);
    return OP_DONE;
}

const struct op op_make_directory = {
    .id = "createWorkspaceDirectory",
    .tool = "directory_create",
    .title = "Create Directory",
    .toolset = "file",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/directories",
    .summary = "Make a folder.",
    .description =
        "Missing folders above it are made too, unless create_parents is false. Where the folder is "
        "there already, nothing is done and created is false; a file of that name is a conflict (409).",
    .params = make_params,
    .example = "\"path\": \"docs/drafts\"",
    .result = make_result,
    .flags = OP_IDEMPOTENT | FLAGS,
    .keep_ms = FILE_KEEP_MS,
    .keep = make_keep,
    .run = make_run,
};

/* ---- moving ---- */

static const struct field move_params[] = {
    ROW_ITS_WORKSPACE,
    ROW_PATH("source", "What to move: " FILE_PATH_TEXT),
    ROW_PATH("destination", "Its new path, not the folder to put it into: " FILE_PATH_TEXT),
    { "overwrite", FIELD_BOOLEAN, .dflt = "false",
      .text = "Replace a file, or an empty folder, that is there." },
    FIELD_END,
};
static const struct field move_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("source", "From where, from /workspace on."),
    RESULT_TEXT("destination", "Where it is now."),
    RESULT_EXACT("source"),
    RESULT_EXACT("destination"),
    RESULT_BOOL("replaced", "Something was there before."),
    FIELD_END,
};

static int move_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    (void)ret;
    return keeper_file_call(call,
                            json_pack("{s:s, s:O, s:O, s:O}", "call", "move", "source",
                                      json_object_get(in, "source"), "destination",
                                      json_object_get(in, "destination"), "overwrite",
                                      json_object_get(in, "overwrite")),
                            err);
}

static int move_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = {
        { "source", "\"\"" },           { "destination", "\"\"" }, { "source_base64", NULL },
        { "destination_base64", NULL }, { "replaced", "false" },   { NULL, NULL },
    };
    (void)err;
    call->result = file_result(call, members);
    return OP_DONE;
}

const struct op op_move_file = {
    .id = "moveWorkspaceFile",
    .tool = "file_move",
    .title = "Move File",
    .toolset = "file",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/move",
    .summary = "Move or rename a file or folder.",
    .description = "Missing folders above the destination are made. A link is moved itself.",
    .params = move_params,
    .example = "\"source\": \"notes.txt\", \"destination\": \"docs/notes.txt\"",
    .result = move_result,
    .flags = OP_DESTRUCTIVE | FLAGS,
    .keep_ms = FILE_KEEP_MS,
    .keep = move_keep,
    .run = move_run,
};

/* ---- removing ---- */

static const struct field remove_params[] = {
    ROW_ITS_WORKSPACE,
    ROW_PATH("path", "What to remove: " FILE_PATH_TEXT),
    { "recursive", FIELD_BOOLEAN, .dflt = "false", .text = "A folder goes with all that is in it." },
    FIELD_END,
};
static const struct field remove_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("path", "What it was, from /workspace on."),
    RESULT_EXACT("path"),
    RESULT_BOOL("removed", "It is gone."),
    RESULT_BOOL("recursive", "As it was asked for."),
    FIELD_END,
};

static int remove_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    (void)ret;
    return keeper_file_call(call,
                            json_pack("{s:s, s:O, s:O}", "call", "remove", "path",
                                      json_object_get(in, "path"), "recursive",
                                      json_object_get(in, "recursive")),
                            err);
}

static int remove_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = {
        { "path", "\"\"" }, { "path_base64", NULL }, { "removed", "false" }, { NULL, NULL }
    };
    (void)err;
    call->result = file_result(call, members);
    json_object_set(call->result, "recursive", json_object_get(call->in, "recursive"));
    return OP_DONE;
}

const struct op op_remove_file = {
    .id = "removeWorkspaceFile",
    .tool = "file_remove",
    .title = "Remove File",
    .toolset = "file",
    .method = "POST",
    .path = "/workspaces/{workspace_id}/remove",
    .summary = "Remove a file, a link or a folder.",
    .description = "A link is removed itself, never what it leads to. The workspace's own folder is refused.",
    .params = remove_params,
    .example = "\"path\": \"docs\", \"recursive\": true",
    .result = remove_result,
    .flags = OP_DESTRUCTIVE | FLAGS,
    .keep_ms = FILE_KEEP_MS,
    .keep = remove_keep,
    .run = remove_run,
};
