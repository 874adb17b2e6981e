/* Lines found by what they hold. ripgrep does the work in the sandbox; here is what is asked of it and how
 * the answer looks: as JSON, and for models in MCP as plain text. */
#include "lib/op/blocks.h"
#include "lib/op/ops.h"
#include "lib/op/search.h"

static const struct field grep_params[] = {
    ROW_ITS_WORKSPACE,
    { "pattern", FIELD_STRING, .required = true, FIELD_RANGE(1, SEARCH_PATTERN_CHARACTERS),
      .format = &format_no_nul,
      .text = "A regular expression (ripgrep's: no look-around, no back-references), or with literal plain "
              "text; within one line." },
    { "path", FIELD_STRING, FIELD_RANGE(1, 4095), .format = &format_no_nul, .dflt = "\".\"",
      .text = "The folder, or one file, to search: " FILE_PATH_TEXT },
    { "literal", FIELD_BOOLEAN, .dflt = "false", .text = "The pattern is plain text." },
    { "case_sensitive", FIELD_BOOLEAN, .dflt = "true", .text = "False: upper and lower case are the same." },
    { "whole_words", FIELD_BOOLEAN, .dflt = "false", .text = "Only where words begin and end around it." },
    { "include_patterns", FIELD_ARRAY, FIELD_RANGE(0, 100), .dflt = "[]", .items = &search_pattern_row,
      .text = "Only in these files, by the patterns of {{searchWorkspaceFiles}}: *.py, src/**/*.c, docs/." },
    SEARCH_ROW_EXCLUDE,
    { "context_lines", FIELD_INTEGER, FIELD_RANGE(0, 20), .dflt = "0",
      .text = "Lines to show before and behind each match." },
    { "gitignore", FIELD_BOOLEAN, .dflt = "true",
      .text = "Leave out what .gitignore, .ignore and .git/info/exclude say." },
    { "hidden", FIELD_BOOLEAN, .dflt = "true",
      .text = "Also in files and folders whose names begin with a dot." },
    { "default_ignores", FIELD_BOOLEAN, .dflt = "true",
      .text = "Leave out node_modules, .git, .venv, .venv_container, .mcp, __pycache__ and .ruff_cache." },
    { "max_per_file", FIELD_INTEGER, FIELD_RANGE(1, 1000), .dflt = "20",
      .text = "Matching lines of one file at most; more says where there were more." },
    SEARCH_ROW_LIMIT(
        "Matching lines at most; null = 50, or what the operator set as WORKSPACE_MAX_SEARCH_RESULTS."),
    SEARCH_ROW_CURSOR,
    SEARCH_ROW_WAIT,
    ROW_MAX_BYTES,
    FIELD_END,
};
static const struct field line_rows[] = {
    RESULT_INT("line", "Its number, counted from 1."),
    RESULT_BOOL("matched", "False: it is shown for context."),
    { "column", FIELD_INTEGER, .text = "Of the first match: its first byte, counted from 1." },
    { "count", FIELD_INTEGER, .text = "How many matches the line has." },
    RESULT_TEXT("text", "The line; one of more than 500 bytes is clipped around its first match, with [... N "
                        "bytes ...] for the rest."),
    { "text_base64", FIELD_STRING, .text = "The exact bytes of what is shown, where those are not UTF-8." },
    { "clipped", FIELD_BOOLEAN, .text = "True: it is longer than what is shown." },
    FIELD_END,
};
static const struct field line_row = { NULL, FIELD_OBJECT, .members = line_rows };
static const struct field file_rows[] = {
    RESULT_TEXT("path", "From /workspace on; bytes that are not UTF-8 are shown as U+FFFD."),
    RESULT_EXACT_PATH,
    RESULT_INT("matches", "Matching lines shown."),
    RESULT_BOOL("more", "The file has more than max_per_file."),
    { "lines", FIELD_ARRAY, .required = true, .items = &line_row, .text = "In order." },
    FIELD_END,
};
static const struct field file_row = { NULL, FIELD_OBJECT, .members = file_rows };
static const struct field path_rows[] = {
    RESULT_TEXT("path", "From /workspace on."),
    RESULT_EXACT_PATH,
    FIELD_END,
};
static const struct field path_row = { NULL, FIELD_OBJECT, .members = path_rows };
static const struct field grep_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("pattern", "As it was asked for."),
    RESULT_TEXT("path", "As it was asked for."),
    { "files", FIELD_ARRAY, .required = true, .items = &file_row, .text = "In order, folder by folder." },
    RESULT_INT("matches", "Matching lines in this page."),
    RESULT_INT("binary_files", "Files that match and are binary: their lines are not shown."),
    { "binary", FIELD_ARRAY, .required = true, .items = &path_row, .text = "The first 20 of those." },
    { "skipped", FIELD_ARRAY, .required = true, .items = &path_row,
      .text = "A file that takes longer than wait_seconds alone: it was not searched to its end." },
    RESULT_INT("unreadable", "Files and folders that could not be read."),
    RESULT_BOOL("has_more", "There are more, or the time was over: pass next_cursor."),
    RESULT_TEXT0("next_cursor", "For the next page; null at the end."),
    RESULT_BOOL("timed_out", "The search was ended at its deadline."),
    RESULT_TEXT0("notice", "What was left out, and how to go on; where little was found also what is not "
                           "searched; null: nothing."),
    FIELD_END,
};

static int grep_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    static const char *const same[] = { "pattern",          "path",
                                        "literal",          "case_sensitive",
                                        "whole_words",      "include_patterns",
                                        "exclude_patterns", "context_lines",
                                        "gitignore",        "hidden",
                                        "default_ignores",  "max_per_file" };
    json_t *request = json_pack("{s:s}", "call", "grep");
    (void)ret;
    for (size_t i = 0; i < N_ELEMENTS(same); i++)
        json_object_set(request, same[i], json_object_get(in, same[i]));
    search_set_common(request, call, in);
    _cleanup_free_ char *echoed = xasprintf("%s%s", text_of(in, "pattern"), text_of(in, "path"));
    file_set_room(request, call, in, echoed);
    return keeper_file_call(call, request, err);
}

static int grep_check(const struct config *config, json_t *in, struct error *err)
{
    (void)config;
    if (!strchr(text_of(in, "pattern"), '\n'))
        return 0;
    return error_set(err, ERROR_INVALID,
                     "pattern: it is matched within one line and must have no line end in it");
}

/* ---- results ---- */

static json_t *with_exact_path(const json_t *kept)
{
    json_t *shown = json_pack("{s:O?, s:s?}", "path", json_object_get(kept, "path"), "path_base64",
                              text_of(kept, "path_base64"));
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)kept, name, value)
        json_object_set(shown, name, value);
    return shown;
}

static json_t *list_of(const json_t *kept, const char *name)
{
    json_t *list = json_array();
    const json_t *item;
    size_t index;
    json_array_foreach(json_object_get(kept, name), index, item)
        json_array_append_new(list, with_exact_path(item));
    return list;
}

#define LITTLE 5 /* matching lines: who finds fewer may miss some */

/* What no search counts, for it is never looked at: told where little was found. */
static void append_ignored(struct buffer *notice, const struct call *call)
{
    const struct {
        bool is_left_out;
        const char *text;
    } rows[] = {
        { is_true(call->in, "gitignore"), "what .gitignore says (gitignore=false)" },
        { is_true(call->in, "default_ignores"),
          "node_modules, .git, .venv and the like (default_ignores=false)" },
        { !is_true(call->in, "hidden"), "names that begin with a dot (hidden=true)" },
    };
    const char *between = notice->length ? "; not searched: " : "not searched: ";
    if (integer_of(call->kept, "matches") >= LITTLE || is_given(call->in, "cursor") ||
        is_given(call->kept, "next_cursor") || is_true(call->kept, "one_file"))
        return;
    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        if (rows[i].is_left_out) {
            buffer_printf(notice, "%s%s", between, rows[i].text);
            between = ", ";
        }
}

static void append_skipped(struct buffer *notice, const struct call *call)
{
    const json_t *file;
    size_t index;
    json_array_foreach(json_object_get(call->kept, "skipped"), index, file) {
        buffer_append_text(notice, notice->length ? "; " : "");
        file_append_name(notice, file, "path");
        buffer_append_text(notice,
                           " alone takes longer than that and was not searched to its end, nor will "
                           "the next pages: give path and more wait_seconds, or use rg or tail on it");
    }
}

static void append_cut_files(struct buffer *notice, const struct call *call)
{
    const json_t *file;
    size_t index, cut = 0;
    json_array_foreach(json_object_get(call->kept, "files"), index, file)
        cut += is_true(file, "more");
    if (cut > 0)
        buffer_printf(notice, "%s%zu file%s more matching lines than max_per_file (%lld)",
                      notice->length ? "; " : "", cut, cut == 1 ? " has" : "s have",
                      (long long)integer_of(call->in, "max_per_file"));
}

static json_t *make_notice(const struct call *call)
{
    _cleanup_buffer_ struct buffer notice = BUFFER_INIT;
    long long binary = integer_of(call->kept, "binary_files");
    const char *cursor = text_of(call->kept, "next_cursor");
    search_append_lost(&notice, call->kept, integer_of(call->in, "wait_seconds"));
    append_skipped(&notice, call);
    if (binary > 0)
        buffer_printf(&notice, "%s%lld binary file%s and %s not shown", notice.length ? "; " : "", binary,
                      binary == 1 ? " matches" : "s match", binary == 1 ? "is" : "are");
    append_cut_files(&notice, call);
    search_append_commas(&notice, call->in, "include_patterns");
    search_append_commas(&notice, call->in, "exclude_patterns");
    append_ignored(&notice, call);
    if (cursor)
        buffer_printf(&notice, "%sgo on with cursor %s", notice.length ? "; " : "there are more: ", cursor);
    return search_notice(&notice);
}

/* ---- as text ---- */

static void append_file(struct buffer *text, const json_t *file, bool gaps)
{
    const json_t *line;
    size_t index;
    long long before = 0;
    buffer_append_char(text, '\n');
    file_append_name(text, file, "path");
    json_array_foreach(json_object_get(file, "lines"), index, line) {
        long long number = integer_of(line, "line");
        const json_t *shown = json_object_get(line, "text");
        if (before > 0 && number > before + 1 && gaps)
            buffer_append_text(text, "\n--");
        buffer_printf(text, "\n%lld%c ", number, is_true(line, "matched") ? ':' : '-');
        if (is_true(line, "clipped") && is_true(line, "matched"))
            buffer_printf(text, "(column %lld) ", (long long)integer_of(line, "column"));
        buffer_append(text, json_string_value(shown), json_string_length(shown));
        before = number;
    }
    if (is_true(file, "more"))
        buffer_printf(text, "\n... more than %lld lines of this file match.",
                      (long long)integer_of(file, "matches"));
}

static void append_found(struct buffer *text, int64_t lines, size_t files)
{
    buffer_printf(text, "Found %lld matching line%s in %zu file%s:", (long long)lines, lines == 1 ? "" : "s",
                  files, files == 1 ? "" : "s");
}

static void show_files(struct call *call)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    const json_t *files = json_object_get(call->result, "files"), *file;
    const char *notice = text_of(call->result, "notice");
    size_t index;
    if (json_array_size(files) > 0)
        append_found(&text, integer_of(call->result, "matches"), json_array_size(files));
    else
        buffer_printf(&text, "No lines found matching '%s'.", text_of(call->in, "pattern"));
    json_array_foreach(files, index, file)
        append_file(&text, file, integer_of(call->in, "context_lines") > 0);
    blocks_add_text(&call->blocks, text.data, text.length);
    if (notice)
        blocks_add_text(&call->blocks, notice, strlen(notice));
}

static int grep_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = { { "matches", "0" },
                                                  { "binary_files", "0" },
                                                  { "unreadable", "0" },
                                                  { "next_cursor", "null" },
                                                  { NULL, NULL } };
    const char *over = text_of(call->kept, "over");
    (void)err;
    call->result = json_pack("{s:s, s:O, s:O, s:o}", "workspace_id", text_of(call->workspace, "workspace_id"),
                             "pattern", json_object_get(call->in, "pattern"), "path",
                             json_object_get(call->in, "path"), "files", list_of(call->kept, "files"));
    json_auto_t *counts = file_result(call, members);
    json_object_update(call->result, counts);
    json_object_set_new(call->result, "binary", list_of(call->kept, "binary"));
    json_object_set_new(call->result, "skipped", list_of(call->kept, "skipped"));
    json_object_set_new(call->result, "has_more", json_boolean(is_given(call->kept, "next_cursor")));
    json_object_set_new(call->result, "timed_out", json_boolean(over && !strcmp(over, "time")));
    json_object_set_new(call->result, "notice", make_notice(call));
    if (call->form == CALL_MCP)
        show_files(call);
    return OP_DONE;
}

const struct op op_grep_files = {
    .id = "grepWorkspaceFiles",
    .tool = "grep_workspace",
    .title = "Search In Files",
    .toolset = "file",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/grep",
    .summary = "Find lines in files by a regular expression or plain text, sorted and in pages.",
    .description =
        "Links are not followed. Binary files are told, not shown; lines of more than 500 bytes are "
        "clipped around the match. What was left out, and why, stands in notice.",
    .params = grep_params,
    .example = "\"pattern\": \"TODO\"",
    .result = grep_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_IN_ACTIONS | SEARCH_FLAGS,
    .keep_ms = FILE_KEEP_MS,
    .check = grep_check,
    .keep = grep_keep,
    .run = grep_run,
};
