/* run_bash through a real web server and a real sandbox, as REST and as a tool: order, ends, timeouts, what is
 * condensed and what is cut. */
#include "lib/base/buffer.h"
#include "lib/base/lines.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static char ws[40];

static void make_workspace(void)
{
    workspace_create(the, NULL, ws);
}

static void end_workspace(void)
{
    workspace_terminate(the, ws);
}

static json_t *bash_with(json_t *body)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s/bash", ws);
    return api(the, 200, "POST", path, body);
}

static json_t *bash(const char *command)
{
    return bash_with(make_json("{s:s}", "command", command));
}

/* The result of tools/call. */
static json_t *tool(json_t *arguments)
{
    static const char *const headers[] = { "Accept: application/json, text/event-stream",
                                           "MCP-Protocol-Version: 2025-06-18", NULL };
    json_t *message = make_json("{s:s, s:i, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "id", 1, "method",
                                "tools/call", "params", "name", "run_bash", "arguments", arguments);
    char *body = json_dumps(message, 0);
    struct http_options o = { .body = body, .headers = headers, .unchecked = true };
    struct answer a = http_send(the, "POST", "/mcp", &o);
    ck_assert_msg(a.status == 200, "%ld %.300s", a.status, a.body);
    ck_assert_uint_le(a.length, 90000 + 500);
    json_t *result = json_incref(json_object_get(a.json, "result"));
    ck_assert_msg(result != NULL, "%.300s", a.body);
    free(body);
    json_decref(message);
    answer_clear(&a);
    return result;
}

static const char *block(const json_t *result, size_t index)
{
    return member_text(json_array_get(json_object_get(result, "content"), index), "text");
}

static size_t blocks(const json_t *result)
{
    return json_array_size(json_object_get(result, "content"));
}

/* ---- ends and text ---- */

static const struct {
    const char *command, *out;
    long long returncode;
    const char *signal;
} ends[] = {
    { "true", "", 0, NULL },
    { "echo out; echo err >&2; echo out; exit 3", "out\nerr\nout\n", 3, NULL },
    { "kill -9 $$", "", -9, "KILL" },
    { "pwd; echo \"$BASH_VERSION\" | grep -c .", "/workspace\n1\n", 0, NULL },
    { "cat; read -r x; echo \"$?\"", "1\n", 0, NULL },
    { "cat <<'EOF'\n$not `expanded` \\\nEOF", "$not `expanded` \\\n", 0, NULL },
    { "for k in 1 2 3 4 5 6 7 8 9; do echo $k; echo e$k >&2; done | tail -2", "e1\ne2\ne3\ne4\ne5\ne6\ne7\ne8\ne9\n8\n9\n", 0, NULL },
    { "printf 'no newline'", "no newline", 0, NULL },
};

START_TEST(ends_are_told_in_both_forms)
{
    char first[100];
    json_auto_t *result = bash(ends[_i].command);
    ck_assert_str_eq(member_text(result, "stdout"), ends[_i].out);
    ck_assert_str_eq(member_text(result, "stderr"), "");
    ck_assert_int_eq(member_number(result, "returncode"), ends[_i].returncode);
    ck_assert_str_eq(member_text(result, "state"), "finished");
    ck_assert(json_is_null(json_object_get(result, "error")));

    json_auto_t *shown = tool(make_json("{s:s, s:s}", "workspace_id", ws, "command", ends[_i].command));
    snprintf(first, sizeof first, "[Exit code: %lld]", ends[_i].returncode);
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_printf(&text, "%s%s%s", first, ends[_i].out[0] ? "\n" : "", ends[_i].out);
    ck_assert_str_eq(block(shown, 0), buffer_text(&text));
    ck_assert(!member_flag(shown, "isError"));
    ck_assert_uint_eq(blocks(shown), ends[_i].signal ? 2 : 1);
    if (ends[_i].signal)
        ck_assert_ptr_nonnull(strstr(block(shown, 1), ends[_i].signal));
}
END_TEST

START_TEST(a_tool_needs_no_workspace)
{
    json_auto_t *shown = tool(make_json("{s:s}", "command", "echo one > f; cat f"));
    ck_assert_str_eq(block(shown, 0), "[Exit code: 0]\none\n");
    const json_t *structured = json_object_get(shown, "structuredContent");
    char own[40];
    snprintf(own, sizeof own, "%s", member_text(structured, "workspace_id"));
    json_auto_t *again = tool(make_json("{s:s}", "command", "cat f"));
    ck_assert_str_eq(block(again, 0), "[Exit code: 0]\none\n");
    workspace_terminate(the, own);
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", NULL };
    Suite *suite = suite_create("bash");
    TCase *c = tcase_create("bash");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, make_workspace, end_workspace);
    tcase_add_loop_test(c, ends_are_told_in_both_forms, 0, N_ELEMENTS(ends));
    tcase_add_test(c, a_tool_needs_no_workspace);
    suite_add_tcase(suite, c);
    return suite_main(suite, environment);
}
