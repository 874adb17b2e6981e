/* Owns the workspace of a test over HTTP, and calls of its operations as REST and as tools. */
#include "tests/support/workspace_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MOST = 90000 };

char ws[40];

void ws_make(void)
{
    workspace_create(the, NULL, ws);
}

void ws_end(void)
{
    workspace_terminate(the, ws);
}

/* ---- REST ---- */

const char *ws_path(const char *rest)
{
    static char paths[4][9000];
    static unsigned next;
    char *path = paths[next++ & 3];
    int length = snprintf(path, sizeof paths[0], "/api/workspaces/%s/%s", ws, rest);
    ck_assert_uint_lt((size_t)length, sizeof paths[0]);
    return path;
}

json_t *ws_get(const char *rest)
{
    return api(the, 200, "GET", ws_path(rest), NULL);
}

json_t *ws_post(const char *rest, json_t *body)
{
    return api(the, 200, "POST", ws_path(rest), body);
}

void ws_refused(long status, const char *contains, const char *method, const char *rest, json_t *body)
{
    api_refused(the, status, contains, method, ws_path(rest), body);
}

void ws_expect_output(const char *command, const char *out)
{
    struct exec_log log;
    exec_run_command(the, ws, command, &log);
    ck_assert_msg(strcmp(log.out, out) == 0, "%s: %s instead of %s; %s", command, log.out, out, log.err);
    exec_log_clear(&log);
}

/* ---- tools ---- */

json_t *tool_call(const char *name, json_t *arguments)
{
    static const char *const headers[] = { "Accept: application/json, text/event-stream",
                                           "MCP-Protocol-Version: 2025-06-18", NULL };
    json_auto_t *message = make_json("{s:s, s:i, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "id", 1, "method",
                                     "tools/call", "params", "name", name, "arguments", arguments);
    char *body = json_dumps(message, JSON_COMPACT);
    struct http_options o = { .body = body, .headers = headers, .unchecked = true, .timeout_ms = 100000 };
    struct answer a = http_send(the, "POST", "/mcp", &o);
    ck_assert_msg(a.status == 200, "%ld %.300s", a.status, a.body);
    ck_assert_uint_le(a.length, ANSWER_MOST);
    json_t *result = json_incref(json_object_get(a.json, "result"));
    ck_assert_msg(result != NULL, "%.300s", a.body);
    free(body);
    answer_clear(&a);
    return result;
}

json_t *tool_call_here(const char *name, json_t *arguments)
{
    if (!json_object_get(arguments, "workspace_id"))
        json_object_set_new(arguments, "workspace_id", json_string(ws));
    return tool_call(name, arguments);
}

const char *tool_block(const json_t *result, size_t index)
{
    return member_text(json_array_get(json_object_get(result, "content"), index), "text");
}

size_t tool_blocks(const json_t *result)
{
    return json_array_size(json_object_get(result, "content"));
}
