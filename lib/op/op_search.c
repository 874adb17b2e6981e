/* Files found by name. The agent walks; here is what is asked of it and how its answer looks: as JSON, and
 * for models in MCP as plain text. */
#include "lib/op/blocks.h"
#include "lib/op/ops.h"
#include "lib/op/search.h"

/* ---- shared with op_grep.c ---- */

const struct field search_pattern_row = { NULL, FIELD_STRING, FIELD_RANGE(1, SEARCH_PATTERN_CHARACTERS),
                                          .format = &format_no_nul };

void search_set_common(json_t *request, struct keeper_call *call, const json_t *in)
{
    int64_t limit =
        is_given(in, "limit") ? integer_of(in, "limit") : keeper_config(keeper_of(call))->max_search_results;
    json_object_set_new(request, "limit", json_integer(limit));
    json_object_set_new(request, "wait_ms", json_integer(1000 * integer_of(in, "wait_seconds")));
    const char *cursor = text_of(in, "cursor");
    json_object_set_new(request, "at", json_string(cursor ? cursor : ""));
}

static void add_count(struct buffer *notice, int64_t count, const char *what)
{
    if (count > 0)
        buffer_printf(notice, "%s%lld %s", notice->length ? "; " : "", (long long)count, what);
}

void search_append_lost(struct buffer *notice, const json_t *kept, int64_t wait_seconds)
{
    const char *over = text_of(kept, "over");
    if (over && !strcmp(over, "time"))
        buffer_printf(notice, "the search was ended after %lld seconds: this is what it had found by then",
                      (long long)wait_seconds);
    add_count(notice, integer_of(kept, "unreadable"), "files or folders could not be read");
    add_count(notice, integer_of(kept, "too_deep"),
              "paths are longer than 4095 bytes and were not looked at");
}

/* A comma that is plain text: outside of braces, and without a \ before it. */
static bool has_bare_comma(const char *pattern)
{
    int depth = 0;
    for (const char *at = pattern; *at; at++) {
        if (*at == '\\' && at[1])
            at++;
        else if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        else if (*at == ',' && depth == 0)
            return true;
    }
    return false;
}

void search_append_commas(struct buffer *notice, const json_t *in, const char *member)
{
    const json_t *pattern, *list = json_object_get(in, member);
    size_t index;
    json_array_foreach(list, index, pattern) {
        if (!has_bare_comma(json_string_value(pattern)))
            continue;
        buffer_printf(
            notice, "%sa comma in %s is part of a name: give several patterns as several items, or as {a,b}",
            notice->length ? "; " : "", member);
        return;
    }
}

json_t *search_notice(const struct buffer *notice)
{
    return notice->length ? json_sprintf("[%.*s]", (int)notice->length, notice->data) : json_null();
}

/* ---- searching ---- */

static const struct field search_params[] = {
    ROW_ITS_WORKSPACE,
    { "pattern", FIELD_STRING, .required = true, FIELD_RANGE(1, SEARCH_PATTERN_CHARACTERS),
      .format = &format_no_nul, .text = "Which files: " SEARCH_GRAMMAR_TEXT },
    SEARCH_ROW_EXCLUDE,
    SEARCH_ROW_LIMIT("Files at most; null = 50, or what the operator set as WORKSPACE_MAX_SEARCH_RESULTS."),
    SEARCH_ROW_CURSOR,
    SEARCH_ROW_WAIT,
    ROW_MAX_BYTES,
    FIELD_END,
};
static const char *const match_types[] = { "file", "link", "other", NULL };
static const struct field match_rows[] = {
    RESULT_TEXT("path", "From /workspace on; bytes that are not UTF-8 are shown as U+FFFD."),
    RESULT_EXACT_PATH,
    { "type", FIELD_STRING, .required = true, .choices = match_types,
      .text = "What it is; folders are not told." },
    RESULT_INT("size", "Its bytes."),
    FIELD_END,
};
static const struct field match_row = { NULL, FIELD_OBJECT, .members = match_rows };
static const struct field search_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("pattern", "As it was asked for."),
    { "matches", FIELD_ARRAY, .required = true, .items = &match_row, .text = "In order, folder by folder." },
    RESULT_BOOL("has_more", "There are more, or the time was over: pass next_cursor."),
    RESULT_TEXT0("next_cursor", "For the next page; null at the end."),
    RESULT_BOOL("timed_out", "The search was ended at its deadline; next_cursor goes on where it was."),
    RESULT_TEXT0("notice", "What was not looked at, and why, and what the pattern may have meant; null: "
                           "nothing."),
    FIELD_END,
};

static int search_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    json_t *request =
        json_pack("{s:s, s:O, s:O}", "call", "search", "pattern", json_object_get(in, "pattern"),
                  "exclude_patterns", json_object_get(in, "exclude_patterns"));
    (void)ret;
    search_set_common(request, call, in);
    file_set_room(request, call, in, text_of(in, "pattern"));
    return keeper_file_call(call, request, err);
}

static json_t *show_match(const json_t *kept)
{
    return json_pack("{s:O?, s:s?, s:O?, s:I}", "path", json_object_get(kept, "path"), "path_base64",
                     text_of(kept, "path_base64"), "type", json_object_get(kept, "type"), "size",
                     (json_int_t)integer_of(kept, "size"));
}

/* The layout that clients of this tool know; what it has not comes behind it. */
static void show_matches(struct call *call)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    const json_t *matches = json_object_get(call->result, "matches"), *match;
    const char *cursor = text_of(call->result, "next_cursor"), *notice = text_of(call->result, "notice");
    const char *over = text_of(call->kept, "over");
    size_t index;
    if (json_array_size(matches) > 0)
        buffer_printf(&text, "Found %zu matches:", json_array_size(matches));
    else
        buffer_printf(&text, "No files found matching pattern '%s'.", text_of(call->in, "pattern"));
    json_array_foreach(matches, index, match) {
        buffer_append_char(&text, '\n');
        file_append_name(&text, match, "path");
    }
    if (cursor && over && strcmp(over, "time") != 0)
        buffer_printf(&text, "\n... truncated at %zu results. Narrow your pattern.",
                      json_array_size(matches));
    blocks_add_text(&call->blocks, text.data, text.length);
    if (notice)
        blocks_add_text(&call->blocks, notice, strlen(notice));
    if (!cursor)
        return;
    _cleanup_free_ char *more = xasprintf("[go on with cursor %s]", cursor);
    blocks_add_text(&call->blocks, more, strlen(more));
}

/* Nothing was found: what the pattern may have meant. */
static void append_meant(struct buffer *notice, const struct call *call)
{
    if (json_array_size(json_object_get(call->kept, "matches")) > 0 || is_given(call->kept, "next_cursor") ||
        is_given(call->in, "cursor"))
        return;
    if (is_true(call->kept, "folder"))
        buffer_printf(notice,
                      "%sonly folders match, which are not told: end the pattern with / (docs/) to find the "
                      "files in them",
                      notice->length ? "; " : "");
    if (has_bare_comma(text_of(call->in, "pattern")))
        buffer_printf(notice, "%sa comma in pattern is part of a name: several patterns are {*.c,*.h}",
                      notice->length ? "; " : "");
}

static int search_run(struct call *call, struct error *err)
{
    _cleanup_buffer_ struct buffer notice = BUFFER_INIT;
    const json_t *match, *cursor = json_object_get(call->kept, "next_cursor");
    const char *over = text_of(call->kept, "over");
    json_t *matches = json_array();
    size_t index;
    (void)err;
    json_array_foreach(json_object_get(call->kept, "matches"), index, match)
        json_array_append_new(matches, show_match(match));
    search_append_lost(&notice, call->kept, integer_of(call->in, "wait_seconds"));
    search_append_commas(&notice, call->in, "exclude_patterns");
    append_meant(&notice, call);
    call->result =
        json_pack("{s:s, s:O, s:o, s:b, s:O?, s:b, s:o}", "workspace_id",
                  text_of(call->workspace, "workspace_id"), "pattern", json_object_get(call->in, "pattern"),
                  "matches", matches, "has_more", json_is_string(cursor), "next_cursor", cursor, "timed_out",
                  over && !strcmp(over, "time"), "notice", search_notice(&notice));
    if (call->form == CALL_MCP)
        show_matches(call);
    return OP_DONE;
}

const struct op op_search_files = {
    .id = "searchWorkspaceFiles",
    .tool = "search_workspace",
    .title = "Search Workspace",
    .toolset = "file",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/search",
    .summary = "Find files by a pattern for their paths, sorted and in pages.",
    .description = "Hidden files are found too; folders are not told, and links to folders not followed. "
                   "What lies in .git, "
                   ".venv, .venv_container, .mcp, __pycache__ and .ruff_cache is left out.",
    .params = search_params,
    .example = "\"pattern\": \"src/**/*.c\"",
    .result = search_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_IN_ACTIONS | SEARCH_FLAGS,
    .keep_ms = FILE_KEEP_MS,
    .keep = search_keep,
    .run = search_run,
};
