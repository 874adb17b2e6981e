/* Every revision of MCP through the service: how a request chooses its revision, and the status and code of
 * each refusal. What needs a workspace is tested through a web server. */
#include "fcgi/mcp/eras.h"
#include "tests/support/caller.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

#define P                   "io.modelcontextprotocol/"
#define MODERN              "2026-07-28"
#define META                "\"_meta\":{\"" P "protocolVersion\":\"" MODERN "\",\"" P "clientCapabilities\":{}}"
#define META_OF(version)    "\"_meta\":{\"" P "protocolVersion\":\"" version "\",\"" P "clientCapabilities\":{}}"
#define RPC(method, params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"
#define VERSION(v)          "MCP-Protocol-Version", v
#define METHOD(m)           "Mcp-Method", m
#define NONE                                                                                                 \
    {                                                                                                        \
        NULL                                                                                                 \
    }
#define WS "ws-0123456789abcdef0123456789abcdef"

static struct caller *the;

static void setup(void)
{
    the = caller_new((const char *const[]){ "WORKSPACE_BASE_URL=https://w.example.org/m", NULL });
}

static void teardown(void)
{
    caller_free(the);
}

static const struct row {
    const char *headers[9], *body;
    int status, code; /* code 0 = a result */
    const char *contains;
} rows[] = {
    /* legacy: by header, or assumed */
    { NONE, RPC("ping", ""), 200, 0, "\"result\":{}" },
    { { VERSION("2024-11-05") }, RPC("ping", ""), 200, 0, "\"result\":{}" },
    { { VERSION("2025-03-26") }, RPC("ping", ""), 200, 0, "\"result\":{}" },
    { { VERSION("2025-06-18") }, RPC("ping", ""), 200, 0, "\"result\":{}" },
    { { VERSION("2025-11-25") }, RPC("ping", ""), 200, 0, "\"result\":{}" },
    { NONE, RPC("initialize", "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}"), 200, 0,
      "\"protocolVersion\":\"2025-06-18\"" },
    { NONE, RPC("initialize", "\"protocolVersion\":\"2024-11-05\",\"capabilities\":{}"), 200, 0,
      "\"protocolVersion\":\"2024-11-05\"" },
    { NONE, RPC("initialize", "\"protocolVersion\":\"1999-01-01\",\"capabilities\":{}"), 200, 0,
      "\"protocolVersion\":\"2025-11-25\"" },
    { NONE, RPC("initialize", "\"protocolVersion\":\"2026-07-28\",\"capabilities\":{}"), 200, 0,
      "\"protocolVersion\":\"2025-11-25\"" },
    { NONE, RPC("initialize", ""), 200, 0, "\"serverInfo\":{\"name\":\"workspace-fcgi\"" },
    { NONE, RPC("tools/list", ""), 200, 0, "\"tools\":[{" },
    { NONE, RPC("tools/list", "\"cursor\":\"\""), 200, 0, "\"tools\":[{" },
    { NONE, RPC("tools/list", "\"cursor\":\"x\""), 200, -32602, "cursor" },
    { NONE, RPC("server/discover", ""), 200, -32601, "server/discover" },
    { NONE, RPC("logging/setLevel", "\"level\":\"info\""), 200, 0, "\"result\":{}" },
    { NONE, RPC("logging/setLevel", "\"level\":\"loud\""), 200, -32602, "level" },
    { NONE, RPC("logging/setLevel", ""), 200, -32602, "level" },
    { NONE, RPC("resources/list", ""), 200, -32601, "resources/list" },
    { NONE, RPC("tools/call", "\"name\":\"nonsense\",\"arguments\":{}"), 200, -32602,
      "Unknown tool: nonsense" },
    { NONE, RPC("tools/call", "\"name\":\"workspace_get\",\"arguments\":[]"), 200, -32602, "arguments" },
    { NONE, RPC("tools/call", "\"name\":\"workspace_list\""), 200, 0,
      "\"structuredContent\":{\"result\":[]}" },
    { NONE, RPC("tools/call", "\"name\":\"workspace_get\",\"arguments\":{}"), 200, 0, "\"isError\":true" },
    { NONE, RPC("tools/call", "\"name\":\"workspace_get\",\"arguments\":{\"workspace_id\":\"" WS "\"}"), 200,
      0, "NotFoundError: " },
    { NONE, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 202, 0, "" },
    { NONE, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 202, 0, "" },
    { NONE, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}", 202,
      0, "" },
    /* broken messages */
    { NONE, "{", 400, -32700, "" },
    { NONE, "", 400, -32700, "" },
    { NONE, "\"x\"", 400, -32600, "" },
    { NONE, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", 400, -32600, "\"id\":1" },
    { NONE, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", 400, -32600, "id must be" },
    { NONE, "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", 400, -32600, "id must be" },
    { NONE, "{\"jsonrpc\":\"2.0\",\"id\":1}", 400, -32600, "method" },
    { NONE, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\\u0000ng\"}", 400, -32600, "method" },
    { NONE, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", 400, -32600, "params" },
    /* batches */
    { NONE,
      "[" RPC("ping", "") "," RPC("nothing", "") ",{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}]",
      200, 0, "-32601" },
    { { VERSION("2025-03-26") },
      "[" RPC("ping", "") "]",
      200,
      0,
      "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]" },
    { NONE, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}]", 202, 0, "" },
    { NONE, "[" RPC("initialize", "") "]", 200, 0, "-32600" },
    { NONE, "[]", 400, -32600, "" },
    { { VERSION("2025-06-18") }, "[" RPC("ping", "") "]", 400, -32600, "" },
    { { VERSION(MODERN) }, "[" RPC("ping", "") "]", 400, -32600, "" },
    /* modern */
    { { VERSION(MODERN), METHOD("server/discover") },
      RPC("server/discover", META),
      200,
      0,
      "\"supportedVersions\":[\"2026-07-28\"" },
    { { VERSION(MODERN), METHOD("tools/list") },
      RPC("tools/list", META),
      200,
      0,
      "\"cacheScope\":\"public\"" },
    { { VERSION(MODERN), METHOD("tools/list") },
      RPC("tools/list", META),
      200,
      0,
      "\"resultType\":\"complete\"" },
    { { VERSION(MODERN), METHOD("tools/list") }, RPC("tools/list", META), 200, 0, P "serverInfo" },
    { { VERSION(MODERN), METHOD("tools/list") }, RPC("tools/list", ""), 400, -32602, "protocolVersion" },
    { { VERSION(MODERN), METHOD("tools/list") },
      RPC("tools/list", "\"_meta\":{}"),
      400,
      -32602,
      "protocolVersion" },
    { { VERSION(MODERN), METHOD("tools/list") },
      RPC("tools/list", "\"_meta\":{\"" P "protocolVersion\":\"" MODERN "\"}"),
      400,
      -32602,
      "clientCapabilities" },
    { { METHOD("tools/list") }, RPC("tools/list", META), 400, -32020, "MCP-Protocol-Version" },
    { { VERSION("2025-11-25"), METHOD("tools/list") },
      RPC("tools/list", META),
      400,
      -32020,
      "MCP-Protocol-Version" },
    { { VERSION(MODERN ", " MODERN), METHOD("tools/list") },
      RPC("tools/list", META),
      400,
      -32020,
      "MCP-Protocol-Version" },
    { { VERSION("2027-01-01"), METHOD("tools/list") },
      RPC("tools/list", META_OF("2027-01-01")),
      400,
      -32022,
      "\"requested\":\"2027-01-01\"" },
    { { VERSION("2025-11-25"), METHOD("tools/list") },
      RPC("tools/list", META_OF("2025-11-25")),
      400,
      -32022,
      "\"supported\":[" },
    { { VERSION("1900-01-01"), METHOD("tools/list") },
      RPC("tools/list", ""),
      400,
      -32022,
      "\"supported\":[" },
    { { VERSION(MODERN) }, RPC("tools/list", META), 400, -32020, "Mcp-Method" },
    { { VERSION(MODERN), METHOD("Tools/List") }, RPC("tools/list", META), 400, -32020, "Mcp-Method" },
    { { VERSION(MODERN), METHOD("initialize") }, RPC("initialize", META), 404, -32601, "" },
    { { VERSION(MODERN), METHOD("ping") }, RPC("ping", META), 404, -32601, "" },
    { { VERSION(MODERN), METHOD("logging/setLevel") }, RPC("logging/setLevel", META), 404, -32601, "" },
    { { VERSION(MODERN), METHOD("resources/subscribe") }, RPC("resources/subscribe", META), 404, -32601, "" },
    { { VERSION(MODERN), METHOD("tools/call") },
      RPC("tools/call", META ",\"name\":\"workspace_list\""),
      400,
      -32020,
      "Mcp-Name" },
    { { VERSION(MODERN), METHOD("tools/call"), "Mcp-Name", "other" },
      RPC("tools/call", META ",\"name\":\"workspace_list\""),
      400,
      -32020,
      "Mcp-Name" },
    { { VERSION(MODERN), METHOD("tools/call"), "Mcp-Name", " workspace_list " },
      RPC("tools/call", META ",\"name\":\"workspace_list\""),
      200,
      0,
      "\"isError\":false" },
    { { VERSION(MODERN), METHOD("tools/call"), "Mcp-Name", "=?base64?d29ya3NwYWNlX2xpc3Q=?=" },
      RPC("tools/call", META ",\"name\":\"workspace_list\""),
      200,
      0,
      "\"isError\":false" },
    { { VERSION(MODERN), METHOD("tools/call"), "Mcp-Name", "=?base64?d29ya3NwYWNlX2xpc3Q?=" },
      RPC("tools/call", META ",\"name\":\"workspace_list\""),
      400,
      -32020,
      "Mcp-Name" },
    { { VERSION(MODERN), METHOD("tools/call"), "Mcp-Name", "nonsense" },
      RPC("tools/call", META ",\"name\":\"nonsense\""),
      200,
      -32602,
      "Unknown tool" },
    { { VERSION(MODERN), METHOD("tools/call") },
      RPC("tools/call", META),
      200,
      -32602,
      "Invalid params: name must be the name of a tool" },
    { { VERSION(MODERN) }, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}", 202, 0, "" },
    /* who may come */
    { { "Authorization", "" }, RPC("ping", ""), 401, 0, "AuthError" },
    { { "Origin", "https://evil.example.com" }, RPC("ping", ""), 403, 0, "PermissionDeniedError" },
    { { "Origin", "https://w.example.org.evil.com" }, RPC("ping", ""), 403, 0, "PermissionDeniedError" },
    { { "Origin", "null" }, RPC("ping", ""), 403, 0, "PermissionDeniedError" },
    { { "Origin", "https://w.example.org" }, RPC("ping", ""), 200, 0, "" },
    { { "Origin", "http://localhost:6274" }, RPC("ping", ""), 200, 0, "" },
    { { "Content-Type", "text/plain" }, RPC("ping", ""), 415, 0, "UnsupportedMediaTypeError" },
};

static void expect(const struct row *r, const struct sent *s)
{
    const json_t *error = json_object_get(s->json, "error");
    const char *body = buffer_text((struct buffer *)&s->body);
    ck_assert_msg(s->answered && s->status == r->status, "%s: %d %s", r->body, s->status, body);
    if (r->code)
        ck_assert_msg(json_integer_value(json_object_get(error, "code")) == r->code, "%s: %s", r->body, body);
    else if (r->status == 200)
        ck_assert_msg(!error, "%s: %s", r->body, body);
    if (r->status == 202)
        ck_assert_uint_eq(s->body.length, 0);
    ck_assert_msg(strstr(body, r->contains) != NULL, "%s: %s", r->body, body);
    ck_assert_ptr_null(strstr(body, "\"id\":null"));
    ck_assert(!s->headers || !strcasestr(s->headers, "mcp-session-id"));
}

START_TEST(each_request_speaks_its_revision)
{
    static const char *const paths[] = { "/mcp", "/mcp/" };
    for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
        struct sent *s = caller_send(the, "POST", paths[i], rows[_i].headers, rows[_i].body, 2000);
        expect(&rows[_i], s);
        sent_free(s);
    }
}
END_TEST

START_TEST(an_id_comes_back_whole_or_not_at_all)
{
    for (int length = 1024; length <= 1025; length++) {
        _cleanup_free_ char *body =
            xasprintf("{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"ping\"}", length, 7);
        struct sent *s = caller_send(the, "POST", "/mcp", NULL, body, 0);
        ck_assert_int_eq(s->status, length > 1024 ? 400 : 200);
        ck_assert_uint_eq(json_string_length(json_object_get(s->json, "id")), length > 1024 ? 0 : 1024);
        sent_free(s);
    }
}
END_TEST

START_TEST(get_and_delete_are_not_allowed)
{
    static const char *const methods[] = { "GET", "DELETE", "PUT" };
    for (size_t i = 0; i < N_ELEMENTS(methods); i++) {
        struct sent *s = caller_send(the, methods[i], "/mcp/", NULL, NULL, 0);
        ck_assert_int_eq(s->status, 405);
        ck_assert_ptr_nonnull(strstr(s->headers, "Allow: POST"));
        sent_free(s);
    }
}
END_TEST

START_TEST(legacy_results_have_nothing_modern)
{
    struct sent *s = caller_send(the, "POST", "/mcp", NULL, RPC("tools/list", ""), 0);
    ck_assert_ptr_null(json_object_get(json_object_get(s->json, "result"), "resultType"));
    ck_assert_ptr_null(json_object_get(json_object_get(s->json, "result"), "ttlMs"));
    sent_free(s);
}
END_TEST

START_TEST(sets_choose_what_is_listed)
{
    struct sent *s = caller_send(the, "POST", "/mcp/workspace/", NULL, RPC("tools/list", ""), 0);
    ck_assert_int_eq(s->status, 200);
    ck_assert_uint_gt(json_array_size(json_object_get(json_object_get(s->json, "result"), "tools")), 5);
    sent_free(s);
    s = caller_send(the, "POST", "/mcp/function", NULL, RPC("tools/list", ""), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(json_object_get(s->json, "result"), "tools")), 0);
    sent_free(s);
    static const char *const unknown[] = { "/mcp/nonsense", "/mcp/workspace/x", "/mcp/workspace,nonsense",
                                           "/mcpx", "/mcp/%2e%2e" };
    for (size_t i = 0; i < N_ELEMENTS(unknown); i++) {
        s = caller_send(the, "POST", unknown[i], NULL, RPC("tools/list", ""), 0);
        ck_assert_msg(s->status == 404, "%s", unknown[i]);
        ck_assert_msg((strstr(buffer_text(&s->body), "there are: workspace, file, watch\"") != NULL) ==
                          (i == 0 || i == 2),
                      "%s: %s", unknown[i], buffer_text(&s->body));
        sent_free(s);
    }
}
END_TEST

/* Empty sets that were asked for are told, by the older way and the newer. */
START_TEST(who_asks_for_an_empty_set_is_told)
{
    static const struct {
        const char *path, *said;
    } cases[] = {
        { "/mcp/repo", "No tools are listed here: this version has none of repo yet. Connect to "
                       "/m/mcp/workspace,file,watch instead" },
        { "/mcp/sandbox,function/",
          "this version has none of sandbox,function yet. Connect to /m/mcp/workspace,file,watch" },
        { "/mcp/repo,file",
          "\"This version has no tools of repo yet. Sandboxed Linux workspaces that last. " },
        { "/mcp/watch", "\"Sandboxed Linux workspaces that last. " },
        { "/mcp", "\"Sandboxed Linux workspaces that last. " },
    };
    static const char *const modern[] = { VERSION(MODERN), METHOD("server/discover"), NULL };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        struct sent *s = caller_send(the, "POST", cases[i].path, NULL, RPC("initialize", ""), 0);
        ck_assert_msg(strstr(buffer_text(&s->body), cases[i].said) != NULL, "%s: %s", cases[i].path,
                      buffer_text(&s->body));
        sent_free(s);
        s = caller_send(the, "POST", cases[i].path, modern, RPC("server/discover", META), 0);
        ck_assert_msg(strstr(buffer_text(&s->body), cases[i].said) != NULL, "%s: %s", cases[i].path,
                      buffer_text(&s->body));
        sent_free(s);
    }
}
END_TEST

START_TEST(settings_that_name_empty_sets_are_told)
{
    struct caller *other = caller_new((const char *const[]){ "WORKSPACE_MCP_TOOLSETS=repo", NULL });
    struct sent *s = caller_send(other, "POST", "/mcp", NULL, RPC("initialize", ""), 0);
    ck_assert_ptr_nonnull(
        strstr(buffer_text(&s->body), "none of repo yet. Connect to /mcp/workspace,file,watch"));
    sent_free(s);
    caller_free(other);
}
END_TEST

START_TEST(problems_of_arguments_are_all_told)
{
    struct sent *s = caller_send(
        the, "POST", "/mcp", NULL,
        RPC("tools/call", "\"name\":\"workspace_create\",\"arguments\":{\"cpu\":\"x\",\"nonsense\":1}"), 0);
    const char *body = buffer_text(&s->body);
    ck_assert_ptr_nonnull(strstr(body, "ValidationError: "));
    ck_assert_ptr_nonnull(strstr(body, "- cpu: "));
    ck_assert_ptr_nonnull(strstr(body, "- nonsense: "));
    sent_free(s);
}
END_TEST

static const struct {
    const char *value, *decoded; /* NULL = malformed */
} headers[] = {
    { "plain", "plain" },
    { " \tplain\t ", "plain" },
    { "", "" },
    { "=?base64?"
      "?=",
      "" },
    { "=?base64?YQ==?=", "a" },
    { "=?base64?YWI=?=", "ab" },
    { "=?base64?YWJj?=", "abc" },
    { "=?base64?w6TDtsO8?=", "äöü" },
    { "=?BASE64?YQ==?=", "=?BASE64?YQ==?=" },
    { "=?base64?YQ=?=", NULL },
    { "=?base64?YR==?=", NULL },
    { "=?base64?Y===?=", NULL },
    { "=?base64?====?=", NULL },
    { "=?base64?Y-Jj?=", NULL },
    { "=?base64?/w==?=", NULL },
    { "=?base64?AA==?=", NULL },
    { "=?base64?=", "=?base64?=" },
};

START_TEST(header_values_are_decoded)
{
    _cleanup_free_ char *decoded = NULL;
    int rc = era_decode_header(headers[_i].value, &decoded);
    ck_assert_msg((rc == 0) == (headers[_i].decoded != NULL), "%s", headers[_i].value);
    if (headers[_i].decoded)
        ck_assert_str_eq(decoded, headers[_i].decoded);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mcp");
    TCase *pure = tcase_create("headers"), *served = tcase_create("served");
    tcase_add_loop_test(pure, header_values_are_decoded, 0, N_ELEMENTS(headers));
    tcase_add_checked_fixture(served, setup, teardown);
    tcase_add_loop_test(served, each_request_speaks_its_revision, 0, N_ELEMENTS(rows));
    tcase_add_test(served, get_and_delete_are_not_allowed);
    tcase_add_test(served, an_id_comes_back_whole_or_not_at_all);
    tcase_add_test(served, legacy_results_have_nothing_modern);
    tcase_add_test(served, sets_choose_what_is_listed);
    tcase_add_test(served, who_asks_for_an_empty_set_is_told);
    tcase_add_test(served, settings_that_name_empty_sets_are_told);
    tcase_add_test(served, problems_of_arguments_are_all_told);
    suite_add_tcase(suite, pure);
    suite_add_tcase(suite, served);
    return unit_run(suite);
}
