/* Owns calling run_bash for tests. Every answer is held against its bound here. */
#include "tests/support/bash_case.h"

#include <stdio.h>
#include <string.h>

enum { ANSWER_MOST = 90000, AROUND = 400 /* what JSON-RPC puts around a result */ };

char bash_ws[40];

void bash_make_workspace(void)
{
    workspace_create(the, NULL, bash_ws);
}

void bash_end_workspace(void)
{
    workspace_terminate(the, bash_ws);
}

json_t *bash_with(json_t *body)
{
    char path[100], *text = json_dumps(body, 0);
    snprintf(path, sizeof path, "/api/workspaces/%s/bash", bash_ws);
    struct http_options o = { .body = text, .timeout_ms = 100000 };
    struct answer a = http_send(the, "POST", path, &o);
    ck_assert_msg(a.status == 200, "%ld %.300s", a.status, a.body);
    ck_assert_uint_le(a.length, ANSWER_MOST);
    json_t *result = json_incref(a.json);
    answer_clear(&a);
    free(text);
    json_decref(body);
    return result;
}

json_t *bash(const char *command)
{
    return bash_with(make_json("{s:s}", "command", command));
}

json_t *bash_tool_default(json_t *arguments)
{
    static const char *const headers[] = { "Accept: application/json, text/event-stream",
                                           "MCP-Protocol-Version: 2025-06-18", NULL };
    json_t *message = make_json("{s:s, s:i, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "id", 1, "method",
                                "tools/call", "params", "name", "run_bash", "arguments", arguments);
    char *body = json_dumps(message, 0);
    struct http_options o = { .body = body, .headers = headers, .unchecked = true, .timeout_ms = 100000 };
    struct answer a = http_send(the, "POST", "/mcp", &o);
    ck_assert_msg(a.status == 200, "%ld %.300s", a.status, a.body);
    ck_assert_uint_le(a.length, ANSWER_MOST + AROUND);
    json_t *result = json_incref(json_object_get(a.json, "result"));
    ck_assert_msg(result != NULL, "%.300s", a.body);
    free(body);
    json_decref(message);
    answer_clear(&a);
    return result;
}

json_t *bash_tool(json_t *arguments)
{
    if (!json_object_get(arguments, "workspace_id"))
        json_object_set_new(arguments, "workspace_id", json_string(bash_ws));
    return bash_tool_default(arguments);
}

const char *bash_block(const json_t *result, size_t index)
{
    return member_text(json_array_get(json_object_get(result, "content"), index), "text");
}

size_t bash_blocks(const json_t *result)
{
    return json_array_size(json_object_get(result, "content"));
}

void bash_log(const json_t *result, struct exec_log *ret)
{
    exec_follow(the, bash_ws, member_text(result, "exec_id"), 30000, ret);
}

void bash_upload(const char *path, const char *data, size_t length)
{
    char url[300];
    snprintf(url, sizeof url, "/api/workspaces/%s/raw?path=%s", bash_ws, path);
    struct http_options o = {
        .body = data, .length = length, .content_type = "application/octet-stream", .unchecked = true
    };
    struct answer a = http_send(the, "PUT", url, &o);
    ck_assert_msg(a.status == 200, "%ld %.300s", a.status, a.body);
    answer_clear(&a);
}
