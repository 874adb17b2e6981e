/* Bytes of files as they are, of any size, over HTTP. What flows is carried elsewhere (OP_RAW); here is what
 * is asked for. */
#include "lib/op/file.h"
#include "lib/op/ops.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#define ROW_CONDITION(member, said)                                                                          \
    {                                                                                                        \
        member, FIELD_STRING, .nullable = true, FIELD_RANGE(1, 1000), .format = &format_no_nul, .text = said \
    }

/* ---- down ---- */

static const struct field download_params[] = {
    ROW_WORKSPACE_ID,
    ROW_PATH("path", "The file: " FILE_PATH_TEXT),
    { "range", FIELD_STRING, .nullable = true, FIELD_RANGE(1, 1000), .format = &format_byte_range,
      .text = "As the Range header: bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT." },
    ROW_CONDITION("if_match", "As the If-Match header: another content is refused (412)."),
    ROW_CONDITION("if_none_match", "As the If-None-Match header: this content is answered with 304."),
    ROW_CONDITION("if_range",
                  "As the If-Range header: the range is one of this content, else all of it comes."),
    FIELD_END,
};
static const struct field download_result[] = {
    { "bytes", FIELD_STRING,
      .text = "The answer's body is the bytes, not JSON; its ETag says which they are." },
    FIELD_END,
};

/* A number at *at, which moves behind it; -1: none is there. */
static int64_t take_number(const char **at)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return -1;
    errno = 0;
    long long number = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0 ? number : INT64_MAX;
}

/* The only range of a set (RFC 9110, 14.1.1): its text begins at *at; false: there are several, or none. */
static bool find_single(const char **at, size_t *length)
{
    const char *text = *at + strspn(*at, ", \t");
    size_t used = strcspn(text, ", \t");
    *at = text;
    *length = used;
    return used > 0 && text[used + strspn(text + used, ", \t")] == '\0';
}

/* RFC 9110, 14.2: what is no range of bytes, or several, is as if it were not there. */
static void set_range(json_t *request, const char *range)
{
    static const char unit[] = "bytes=";
    size_t length;
    if (!range || strncasecmp(range, unit, sizeof unit - 1) != 0)
        return;
    const char *at = range + sizeof unit - 1;
    if (!find_single(&at, &length))
        return;
    const char *end = at + length;
    int64_t first = take_number(&at);
    if (*at++ != '-')
        return;
    int64_t last = take_number(&at);
    if (at != end || (first < 0 && last < 0) || (first >= 0 && last >= 0 && last < first))
        return;
    if (first < 0) {
        json_object_set_new(request, "suffix", json_integer(last));
        return;
    }
    json_object_set_new(request, "first", json_integer(first));
    if (last >= 0)
        json_object_set_new(request, "last", json_integer(last));
}

static int download_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    json_t *request =
        json_pack("{s:s, s:O, s:O, s:O, s:O}", "call", "download", "path", json_object_get(in, "path"),
                  "if_match", json_object_get(in, "if_match"), "if_none_match",
                  json_object_get(in, "if_none_match"), "if_range", json_object_get(in, "if_range"));
    (void)ret;
    set_range(request, text_of(in, "range"));
    return keeper_file_call(call, request, err);
}

const struct op op_download_file = {
    .id = "downloadWorkspaceFile",
    .title = "Download file",
    .toolset = "file",
    .method = "GET",
    .path = "/workspaces/{workspace_id}/raw",
    .summary = "The bytes of a file of any size, or a range of them.",
    .description =
        "Range and conditions may stand in headers or in the query. A range is answered with 206; of "
        "several ranges all of the file comes. The ETag is the content's hash (sha256:...), or of a "
        "large file that rests a stamp: what If-Match takes.",
    .params = download_params,
    .result = download_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_NEEDS_SANDBOX | OP_REST_ONLY | OP_RAW,
    .keep_ms = RAW_KEEP_MS,
    .keep = download_keep,
};

/* ---- about it ---- */

static const struct field inspect_params[] = {
    ROW_WORKSPACE_ID,
    ROW_PATH("path", "The file: " FILE_PATH_TEXT),
    ROW_CONDITION("if_match", "As the If-Match header: another content is refused (412)."),
    ROW_CONDITION("if_none_match", "As the If-None-Match header: this content is answered with 304."),
    FIELD_END,
};
static const struct field inspect_result[] = {
    { "bytes", FIELD_STRING, .text = "There is no body: Content-Length and ETag are the answer." },
    FIELD_END,
};

static int inspect_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    (void)ret;
    return keeper_file_call(call,
                            json_pack("{s:s, s:O, s:O, s:O, s:b}", "call", "download", "path",
                                      json_object_get(in, "path"), "if_match",
                                      json_object_get(in, "if_match"), "if_none_match",
                                      json_object_get(in, "if_none_match"), "head_only", 1),
                            err);
}

/* Not the other's answer without its body: the bytes are never read, and a range means nothing here (RFC
 * 9110, 14.2). */
const struct op op_inspect_file = {
    .id = "inspectWorkspaceFile",
    .title = "Inspect file",
    .toolset = "file",
    .method = "HEAD",
    .path = "/workspaces/{workspace_id}/raw",
    .summary = "The size and the tag of a file of any size.",
    .description =
        "There is no body: Content-Length is the size, ETag what If-Match takes. A missing file is a "
        "404, without words, as all answers to HEAD.",
    .params = inspect_params,
    .result = inspect_result,
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_NEEDS_SANDBOX | OP_REST_ONLY | OP_RAW,
    .keep_ms = RAW_KEEP_MS,
    .keep = inspect_keep,
};

/* ---- up ---- */

static const struct field upload_params[] = {
    ROW_WORKSPACE_ID,
    ROW_PATH("path", "The file: " FILE_PATH_TEXT),
    ROW_CONDITION("if_match", "As the If-Match header: only where the file's hash is this one (else 412)."),
    ROW_CONDITION("if_none_match",
                  "As the If-None-Match header: * = only where there is no file (else 412)."),
    FIELD_END,
};
static const struct field upload_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_TEXT("path", "The file, from /workspace on."),
    RESULT_EXACT("path"),
    RESULT_INT("size", "Bytes written."),
    RESULT_TEXT("hash", "Of the content: its ETag."),
    RESULT_BOOL("created", "There was no such file before."),
    RESULT_BOOL("hard_link_broken", "The file had other names, which keep the old content."),
    FIELD_END,
};

static int upload_check(const struct config *config, json_t *in, struct error *err)
{
    const char *none_match = text_of(in, "if_none_match");
    (void)config;
    if (!none_match || strcmp(none_match, "*") == 0)
        return 0;
    return error_set(err, ERROR_INVALID, "if_none_match: only * is taken when a file is written");
}

static int upload_keep(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    (void)ret;
    return keeper_file_call(
        call,
        json_pack("{s:s, s:O, s:b, s:O}", "call", "upload", "path", json_object_get(in, "path"),
                  "create_only", is_given(in, "if_none_match"), "if_match", json_object_get(in, "if_match")),
        err);
}

static int upload_run(struct call *call, struct error *err)
{
    static const struct file_member members[] = {
        { "path", "\"\"" },     { "path_base64", NULL },         { "size", "0" }, { "hash", "\"\"" },
        { "created", "false" }, { "hard_link_broken", "false" }, { NULL, NULL },
    };
    (void)err;
    call->result = file_result(call, members);
    return OP_DONE;
}

const struct op op_upload_file = {
    .id = "uploadWorkspaceFile",
    .title = "Upload file",
    .toolset = "file",
    .method = "PUT",
    .path = "/workspaces/{workspace_id}/raw",
    .summary = "Make or replace a file of any size: the body is its bytes.",
    .description = "The file is replaced at once, when all bytes are here, or not at all.",
    .params = upload_params,
    .result = upload_result,
    .flags = OP_DESTRUCTIVE | OP_IDEMPOTENT | OP_ON_WORKSPACE | OP_NEEDS_SANDBOX | OP_REST_ONLY | OP_RAW,
    .keep_ms = RAW_KEEP_MS,
    .check = upload_check,
    .keep = upload_keep,
    .run = upload_run,
};
