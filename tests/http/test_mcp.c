/* MCP through a real web server: every revision, the tools, the same results as REST. */
#include "lib/base/buffer.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#define MODERN "2026-07-28"
static const char *const legacy[] = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" };

static struct answer send_rpc(const char *version, const char *const *more, json_t *message)
{
    const char *headers[8] = { "Accept: application/json, text/event-stream" };
    char line[64];
    int n = 1;
    if (version) {
        snprintf(line, sizeof line, "MCP-Protocol-Version: %s", version);
        headers[n++] = line;
    }
    for (; more && *more; more++)
        headers[n++] = *more;
    char *body = json_dumps(message, 0);
    struct http_options o = { .body = body, .headers = headers, .unchecked = true };
    struct answer a = http_send(the, "POST", "/mcp", &o);
    free(body);
    json_decref(message);
    char value[64];
    ck_assert_ptr_null(answer_header(&a, "Mcp-Session-Id", value, sizeof value));
    return a;
}

static json_t *modern_meta(void)
{
    return make_json("{s:s, s:{}}", "io.modelcontextprotocol/protocolVersion", MODERN,
                     "io.modelcontextprotocol/clientCapabilities");
}

static size_t answer_most = 90000;

/* tools/call in the modern form; returns the result (new reference). */
static json_t *call_tool(const char *name, json_t *arguments)
{
    char line[100];
    snprintf(line, sizeof line, "Mcp-Name: %s", name);
    const char *more[] = { "Mcp-Method: tools/call", line, NULL };
    struct answer a = send_rpc(MODERN, more,
                               make_json("{s:s, s:i, s:s, s:{s:s, s:o, s:o}}", "jsonrpc", "2.0", "id", 7,
                                         "method", "tools/call", "params", "name", name, "arguments",
                                         arguments, "_meta", modern_meta()));
    ck_assert_msg(a.status == 200, "%s: %ld %.300s", name, a.status, a.body);
    ck_assert_msg(a.length <= answer_most, "answer of %zu characters", a.length);
    json_t *result = json_incref(json_object_get(a.json, "result"));
    ck_assert_msg(result != NULL, "%.300s", a.body);
    answer_clear(&a);
    return result;
}

START_TEST(each_legacy_revision_is_answered_in_kind)
{
    struct answer a =
        send_rpc(NULL, NULL,
                 make_json("{s:s, s:i, s:s, s:{s:s, s:{}, s:{s:s, s:s}}}", "jsonrpc", "2.0", "id", 1,
                           "method", "initialize", "params", "protocolVersion", legacy[_i], "capabilities",
                           "clientInfo", "name", "test", "version", "1"));
    ck_assert_int_eq(a.status, 200);
    const json_t *result = json_object_get(a.json, "result");
    ck_assert_str_eq(member_text(result, "protocolVersion"), legacy[_i]);
    ck_assert_str_eq(member_text(json_object_get(result, "serverInfo"), "name"), "workspace-fcgi");
    answer_clear(&a);
    a = send_rpc(legacy[_i], NULL,
                 make_json("{s:s, s:s}", "jsonrpc", "2.0", "method", "notifications/initialized"));
    ck_assert_int_eq(a.status, 202);
    ck_assert_uint_eq(a.length, 0);
    answer_clear(&a);
    a = send_rpc(legacy[_i], NULL, make_json("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", 2, "method", "ping"));
    ck_assert_int_eq(a.status, 200);
    ck_assert_uint_eq(json_object_size(json_object_get(a.json, "result")), 0);
    answer_clear(&a);
    a = send_rpc(legacy[_i], NULL,
                 make_json("{s:s, s:s, s:s}", "jsonrpc", "2.0", "id", "three", "method", "tools/list"));
    ck_assert_int_eq(a.status, 200);
    ck_assert_str_eq(member_text(a.json, "id"), "three");
    const json_t *tools = json_object_get(json_object_get(a.json, "result"), "tools");
    ck_assert_uint_ge(json_array_size(tools), 13);
    size_t index;
    json_t *tool;
    json_array_foreach(tools, index, tool) {
        const json_t *hints = json_object_get(tool, "annotations");
        ck_assert(json_object_get(tool, "title") && json_object_get(tool, "description") &&
                  json_object_get(tool, "inputSchema") && json_object_get(tool, "outputSchema"));
        for (const char *const *hint = (const char *const[]){ "readOnlyHint", "destructiveHint",
                                                              "idempotentHint", "openWorldHint", NULL };
             *hint; hint++)
            ck_assert_msg(json_is_boolean(json_object_get(hints, *hint)), "%s has no %s",
                          member_text(tool, "name"), *hint);
    }
    answer_clear(&a);
}
END_TEST

START_TEST(the_modern_revision_is_discovered)
{
    const char *more[] = { "Mcp-Method: server/discover", NULL };
    struct answer a = send_rpc(MODERN, more,
                               make_json("{s:s, s:i, s:s, s:{s:o}}", "jsonrpc", "2.0", "id", 1, "method",
                                         "server/discover", "params", "_meta", modern_meta()));
    ck_assert_msg(a.status == 200, "%ld %s", a.status, a.body);
    const json_t *result = json_object_get(a.json, "result");
    ck_assert_str_eq(member_text(result, "resultType"), "complete");
    ck_assert(json_is_array(json_object_get(result, "supportedVersions")));
    answer_clear(&a);
    const char *wrong[] = { "Mcp-Method: tools/list", NULL };
    a = send_rpc(MODERN, wrong,
                 make_json("{s:s, s:i, s:s, s:{s:o}}", "jsonrpc", "2.0", "id", 1, "method", "server/discover",
                           "params", "_meta", modern_meta()));
    ck_assert_int_eq(a.status, 400);
    ck_assert_int_eq(member_number(json_object_get(a.json, "error"), "code"), -32020);
    answer_clear(&a);
    a = send_rpc("2027-01-01", more,
                 make_json("{s:s, s:i, s:s, s:{s:{s:s, s:{}}}}", "jsonrpc", "2.0", "id", 1, "method",
                           "server/discover", "params", "_meta", "io.modelcontextprotocol/protocolVersion",
                           "2027-01-01", "io.modelcontextprotocol/clientCapabilities"));
    ck_assert_int_eq(a.status, 400);
    ck_assert_int_eq(member_number(json_object_get(a.json, "error"), "code"), -32022);
    answer_clear(&a);
    const char *ping[] = { "Mcp-Method: ping", NULL };
    a = send_rpc(MODERN, ping,
                 make_json("{s:s, s:i, s:s, s:{s:o}}", "jsonrpc", "2.0", "id", 1, "method", "ping", "params",
                           "_meta", modern_meta()));
    ck_assert_int_eq(a.status, 404);
    ck_assert_int_eq(member_number(json_object_get(a.json, "error"), "code"), -32601);
    answer_clear(&a);
}
END_TEST

START_TEST(tools_do_what_rest_does)
{
    json_auto_t *created = call_tool("workspace_create", json_object());
    const char *ws = member_text(json_object_get(created, "structuredContent"), "workspace_id");
    json_auto_t *run = call_tool("workspace_exec",
                                 make_json("{s:s, s:s}", "workspace_id", ws, "command", "echo hi; exit 3"));
    const json_t *structured = json_object_get(run, "structuredContent");
    ck_assert_str_eq(member_text(structured, "stdout"), "hi\n");
    ck_assert_int_eq(member_number(structured, "returncode"), 3);
    json_auto_t *text =
        json_loads(member_text(json_array_get(json_object_get(run, "content"), 0), "text"), 0, NULL);
    ck_assert(json_equal(text, structured));
    json_auto_t *started =
        call_tool("workspace_realtime_exec_start",
                  make_json("{s:s, s:s}", "workspace_id", ws, "command", "head -c 200000 /dev/zero"));
    const char *ex = member_text(json_object_get(started, "structuredContent"), "exec_id");
    long cursor = 0;
    size_t bytes = 0;
    for (bool ended = false; !ended;) {
        json_auto_t *page = call_tool("workspace_realtime_exec_events",
                                      make_json("{s:s, s:s, s:i, s:i}", "workspace_id", ws, "exec_id", ex,
                                                "cursor", (int)cursor, "wait_seconds", 5));
        const json_t *value = json_object_get(page, "structuredContent");
        size_t index;
        json_t *event;
        json_array_foreach(json_object_get(value, "events"), index, event) {
            if (strcmp(member_text(event, "type"), "stdout") == 0)
                bytes += json_string_length(json_object_get(event, "data"));
            ended = ended || strcmp(member_text(event, "type"), "exit") == 0;
        }
        cursor = (long)member_number(value, "next_cursor");
    }
    ck_assert_uint_eq(bytes, 200000);
    json_auto_t *wrong = call_tool("workspace_exec", make_json("{s:s}", "workspace_id", ws));
    ck_assert(member_flag(wrong, "isError"));
    json_auto_t *unknown =
        call_tool("workspace_get", make_json("{s:s}", "workspace_id", "ws-00000000000000000000000000000000"));
    ck_assert(member_flag(unknown, "isError"));
    json_auto_t *list = call_tool("workspace_list", json_object());
    ck_assert(json_is_array(json_object_get(json_object_get(list, "structuredContent"), "result")));
    json_auto_t *gone = call_tool("workspace_terminate", make_json("{s:s}", "workspace_id", ws));
    ck_assert(member_flag(json_object_get(gone, "structuredContent"), "terminated"));
}
END_TEST

/* REST gives such a page in pieces; here it is made whole, and smaller. */
START_TEST(large_pages_are_bounded)
{
    char ws[40], ex[40];
    workspace_create(the, NULL, ws);
    exec_start_command(the, ws, "head -c 2000000 /dev/zero | tr '\\0' '\"'", ex);
    struct exec_log log;
    exec_follow(the, ws, ex, 30000, &log);
    exec_log_clear(&log);
    answer_most = 262144;
    json_auto_t *page = call_tool("workspace_realtime_exec_events",
                                  make_json("{s:s, s:s, s:i, s:i}", "workspace_id", ws, "exec_id", ex,
                                            "max_events", 500, "max_bytes", 8388608));
    const json_t *content = json_object_get(page, "structuredContent");
    ck_assert_uint_ge(json_array_size(json_object_get(content, "events")), 3);
    ck_assert(member_flag(content, "has_more"));
    workspace_terminate(the, ws);
}
END_TEST

START_TEST(other_shapes_are_refused_in_kind)
{
    static const struct {
        const char *version, *body;
        long status, code;
    } cases[] = {
        { NULL, "{", 400, -32700 },
        { NULL, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", 400, -32600 },
        { NULL, "\"text\"", 400, -32600 },
        { "2025-06-18", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", 400, -32600 },
        { MODERN, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}", 400, -32602 },
        { "2025-06-18", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}", 200, -32601 },
        { "2025-06-18",
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
          "call\",\"params\":{\"name\":\"no_such\",\"arguments\":{}}}",
          200, -32602 },
        { "2025-06-18", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}}", 200,
          -32602 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char line[64];
        snprintf(line, sizeof line, "MCP-Protocol-Version: %s", cases[k].version ? cases[k].version : "");
        const char *headers[] = { cases[k].version ? line : "X-None: 1", NULL };
        struct http_options o = { .body = cases[k].body, .headers = headers, .unchecked = true };
        struct answer a = http_send(the, "POST", "/mcp/", &o);
        ck_assert_msg(a.status == cases[k].status, "%s: %ld %s", cases[k].body, a.status, a.body);
        ck_assert_msg(member_number(json_object_get(a.json, "error"), "code") == cases[k].code, "%s: %s",
                      cases[k].body, a.body);
        answer_clear(&a);
    }
    struct http_options batch = { .body = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"jsonrpc\":"
                                          "\"2.0\",\"method\":\"notifications/x\"},"
                                          "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}]",
                                  .unchecked = true };
    struct answer a = http_send(the, "POST", "/mcp", &batch);
    ck_assert_int_eq(a.status, 200);
    ck_assert_uint_eq(json_array_size(a.json), 2);
    answer_clear(&a);
    const char *evil[] = { "Origin: https://evil.example.com", NULL };
    struct http_options origin = { .body = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
                                   .headers = evil,
                                   .unchecked = true };
    a = http_send(the, "POST", "/mcp", &origin);
    ck_assert_int_eq(a.status, 403);
    ck_assert_msg(strstr(a.body, "WORKSPACE_BASE_URL") != NULL, "%s", a.body);
    answer_clear(&a);
}
END_TEST

/* Who knows nothing else is told what needs no workspace, and which text goes with which tool. */
START_TEST(texts_fit_their_surface)
{
    struct answer a =
        send_rpc(NULL, NULL,
                 make_json("{s:s, s:i, s:s, s:{s:s, s:{}}}", "jsonrpc", "2.0", "id", 1, "method",
                           "initialize", "params", "protocolVersion", "2025-06-18", "capabilities"));
    const char *text = member_text(json_object_get(a.json, "result"), "instructions");
    for (const char *const *word =
             (const char *const[]){ "read_file", "run_bash", "default", "workspace_list", NULL };
         *word; word++)
        ck_assert_msg(strstr(text, *word) != NULL, "%s", *word);
    answer_clear(&a);
    a = send_rpc(
        "2025-06-18", NULL,
        make_json("{s:s, s:i, s:s, s:{}}", "jsonrpc", "2.0", "id", 1, "method", "tools/call", "params"));
    text = member_text(json_object_get(a.json, "error"), "message");
    ck_assert_msg(strstr(text, "name must be") != NULL, "%s", text);
    answer_clear(&a);
    json_auto_t *streamed =
        call_tool("workspace_realtime_exec_events",
                  make_json("{s:s, s:s, s:b}", "workspace_id", "ws-00000000000000000000000000000000",
                            "exec_id", "ex-00000000000000000000000000000000", "stream", 1));
    text = member_text(json_array_get(json_object_get(streamed, "content"), 0), "text");
    ck_assert_msg(strstr(text, "ValidationError: stream") != NULL, "%s", text);
    json_auto_t *negative =
        call_tool("run_bash", make_json("{s:s, s:i}", "command", "true", "wait_seconds", -1));
    ck_assert(member_flag(negative, "isError"));
}
END_TEST

/* ---- notifications ---- */

#define LEVEL "io.modelcontextprotocol/logLevel"

/* A call in the default workspace, asked in this revision with this level (NULL = none); the
 * messages of the answer, in order, whether it is JSON or events. */
static json_t *call_watched(const char *version, const char *level, const char *tool, json_t *arguments,
                            const char *accept, char type[static 64])
{
    json_t *meta = strcmp(version, MODERN) == 0 ? modern_meta() : json_object();
    if (level)
        json_object_set_new(meta, LEVEL, json_string(level));
    json_auto_t *message =
        make_json("{s:s, s:i, s:s, s:{s:s, s:o, s:o}}", "jsonrpc", "2.0", "id", 7, "method", "tools/call",
                  "params", "name", tool, "arguments", arguments, "_meta", meta);
    char line[80], name[80], *body = json_dumps(message, 0);
    snprintf(line, sizeof line, "MCP-Protocol-Version: %s", version);
    snprintf(name, sizeof name, "Mcp-Name: %s", tool);
    const char *headers[] = { accept, line, "Mcp-Method: tools/call", name, NULL };
    struct http_options o = { .body = body, .headers = headers, .unchecked = true };
    struct answer a = http_send(the, "POST", "/mcp", &o);
    free(body);
    ck_assert_msg(a.status == 200, "%ld %s", a.status, a.body);
    ck_assert_ptr_nonnull(answer_header(&a, "Content-Type", type, 64));
    json_t *messages = json_array();
    if (a.json)
        json_array_append(messages, a.json);
    char *state = NULL;
    for (char *at = a.json ? NULL : strtok_r(a.body, "\n", &state); at; at = strtok_r(NULL, "\n", &state)) {
        if (strncmp(at, "data: ", 6) != 0) {
            ck_assert_str_eq(at, "event: message");
            continue;
        }
        json_t *one = json_loads(at + 6, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(one != NULL, "%s", at);
        json_array_append_new(messages, one);
    }
    answer_clear(&a);
    return messages;
}

static json_t *read_watched(const char *version, const char *level, const char *path, const char *accept,
                            char type[static 64])
{
    return call_watched(version, level, "read_file", make_json("{s:s}", "filepath", path), accept, type);
}

static void expect_notice(const json_t *messages, size_t index, const char *level, const char *text)
{
    const json_t *one = json_array_get(messages, index), *params = json_object_get(one, "params");
    ck_assert_str_eq(member_text(one, "method"), "notifications/message");
    ck_assert_ptr_null(json_object_get(one, "id"));
    ck_assert_str_eq(member_text(params, "level"), level);
    ck_assert_str_eq(member_text(json_object_get(params, "data"), "msg"), text);
}

static const char both[] = "Accept: application/json, text/event-stream";
static const char *const all_versions[] = { "2025-03-26", "2025-06-18", "2025-11-25", MODERN };

START_TEST(a_call_that_asks_is_told_how_it_goes)
{
    const char *version = all_versions[_i];
    char type[64];
    json_decref(call_tool("write_file", make_json("{s:s, s:s, s:b}", "filepath", "told.txt", "content",
                                                  "one\ntwo\n", "create_only", 0)));
    json_auto_t *fine = read_watched(version, "info", "told.txt", both, type);
    ck_assert_str_eq(type, "text/event-stream");
    ck_assert_uint_eq(json_array_size(fine), 3);
    expect_notice(fine, 0, "info", "read_file started");
    expect_notice(fine, 1, "info", "read_file finished: read 2 lines (offset 0, total 2)");
    const json_t *result = json_object_get(json_array_get(fine, 2), "result");
    ck_assert_int_eq(member_number(json_array_get(fine, 2), "id"), 7);
    ck_assert(!member_flag(result, "isError"));
    json_auto_t *failed = read_watched(version, "debug", "nothing.txt", both, type);
    ck_assert_uint_eq(json_array_size(failed), 3);
    expect_notice(failed, 1, "error", "read_file failed: 'nothing.txt' does not exist");
    json_auto_t *errors = read_watched(version, "error", "nothing.txt", both, type);
    ck_assert_uint_eq(json_array_size(errors), 2);
    expect_notice(errors, 0, "error", "read_file failed: 'nothing.txt' does not exist");
    json_auto_t *nothing = read_watched(version, "critical", "nothing.txt", both, type);
    ck_assert_uint_eq(json_array_size(nothing), 1);
}
END_TEST

START_TEST(a_call_that_does_not_ask_is_not_told)
{
    char type[64];
    json_auto_t *silent = read_watched(all_versions[_i], NULL, "told.txt", both, type);
    ck_assert_str_eq(type, "application/json");
    ck_assert_uint_eq(json_array_size(silent), 1);
    json_auto_t *plain = read_watched(all_versions[_i], "info", "told.txt", "Accept: application/json", type);
    ck_assert_str_eq(type, "application/json");
    ck_assert_uint_eq(json_array_size(plain), 1);
}
END_TEST

START_TEST(commands_are_told_by_their_ends)
{
    static const struct {
        const char *command, *level, *text;
        int timeout;
    } cases[] = {
        { "exit 3", "info", "run_bash finished: exit code 3", 60 },
        { "sleep 20", "error", "run_bash failed: ", 1 },
    };
    char type[64];
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        json_auto_t *told = call_watched(
            MODERN, "info", "run_bash",
            make_json("{s:s, s:i}", "command", cases[i].command, "timeout", cases[i].timeout), both, type);
        ck_assert_uint_eq(json_array_size(told), 3);
        const json_t *params = json_object_get(json_array_get(told, 1), "params");
        ck_assert_str_eq(member_text(params, "level"), cases[i].level);
        const char *text = member_text(json_object_get(params, "data"), "msg");
        ck_assert_msg(strncmp(text, cases[i].text, strlen(cases[i].text)) == 0, "%s", text);
    }
}
END_TEST

/* A batch of this many calls of one tool, or (name NULL) lists of tools; its answers. */
static struct answer send_batch(size_t count, const char *name, json_t *arguments)
{
    json_auto_t *batch = json_array();
    for (size_t k = 0; k < count && !name; k++)
        json_array_append_new(
            batch, make_json("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", (int)k, "method", "tools/list"));
    for (size_t k = 0; k < count && name; k++)
        json_array_append_new(batch, make_json("{s:s, s:i, s:s, s:{s:s, s:O}}", "jsonrpc", "2.0", "id",
                                               (int)k, "method", "tools/call", "params", "name", name,
                                               "arguments", arguments));
    json_decref(arguments);
    char *body = json_dumps(batch, 0);
    struct http_options o = { .body = body, .unchecked = true };
    struct answer a = http_send(the, "POST", "/mcp", &o);
    free(body);
    ck_assert_int_eq(a.status, 200);
    ck_assert_uint_eq(json_array_size(a.json), count);
    ck_assert_msg(a.length <= (1u << 20) + count * 400, "%zu bytes", a.length);
    return a;
}

START_TEST(the_answers_of_a_batch_are_bounded_together)
{
    char ws[40], ex[40];
    workspace_create(the, NULL, ws);
    exec_start_command(the, ws, "head -c 2000000 /dev/zero | tr '\\0' '\"'", ex);
    struct exec_log log;
    exec_follow(the, ws, ex, 30000, &log);
    exec_log_clear(&log);
    /* Pages have their share. */
    struct answer a =
        send_batch(40, "workspace_realtime_exec_events",
                   make_json("{s:s, s:s, s:i}", "workspace_id", ws, "exec_id", ex, "max_bytes", 8388608));
    size_t index;
    json_t *one;
    json_array_foreach(a.json, index, one) {
        const json_t *page = json_object_get(json_object_get(one, "result"), "structuredContent");
        ck_assert_uint_ge(json_array_size(json_object_get(page, "events")), 1);
    }
    answer_clear(&a);
    /* What has no share is counted. */
    a = send_batch(60, NULL, NULL);
    size_t refused = 0;
    json_array_foreach(a.json, index, one) {
        const json_t *error = json_object_get(one, "error");
        refused += error != NULL;
        if (error)
            ck_assert_ptr_nonnull(strstr(member_text(error, "message"), "ask for it alone"));
    }
    ck_assert_msg(refused > 0 && refused < 60, "%zu refused", refused);
    answer_clear(&a);
    workspace_terminate(the, ws);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mcp");
    TCase *c = tcase_create("mcp");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, each_legacy_revision_is_answered_in_kind, 0, 4);
    tcase_add_test(c, the_modern_revision_is_discovered);
    tcase_add_test(c, tools_do_what_rest_does);
    tcase_add_test(c, large_pages_are_bounded);
    tcase_add_test(c, other_shapes_are_refused_in_kind);
    tcase_add_test(c, texts_fit_their_surface);
    tcase_add_loop_test(c, a_call_that_asks_is_told_how_it_goes, 0, N_ELEMENTS(all_versions));
    tcase_add_loop_test(c, a_call_that_does_not_ask_is_not_told, 0, N_ELEMENTS(all_versions));
    tcase_add_test(c, commands_are_told_by_their_ends);
    tcase_add_test(c, the_answers_of_a_batch_are_bounded_together);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
