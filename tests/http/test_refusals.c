/* Bad input of every kind gets the status and body that INTERFACE.md names, and changes nothing. */
#include "lib/base/buffer.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static char ws[40];

#define UNKNOWN_WS "ws-00000000000000000000000000000000"
#define UNKNOWN_EX "ex-00000000000000000000000000000000"

static long status_of(const char *method, const char *path, const struct http_options *o, char *text,
                      size_t size)
{
    struct answer a = http_send(the, method, path, o);
    long status = a.status;
    snprintf(text, size, "%s", a.body ? a.body : "");
    answer_clear(&a);
    return status;
}

static const struct refusal {
    const char *method, *path, *body;
    long status;
    const char *says;
} refusals[] = {
    /* unknown places and methods */
    { "GET", "/api/nothing", NULL, 404, "" },
    { "GET", "/nothing", NULL, 404, "" },
    { "GET", "/api/workspaces/WS/nothing", NULL, 404, "" },
    { "PATCH", "/api/workspaces", "{}", 405, "" },
    { "PUT", "/api/workspaces/WS", "{}", 405, "" },
    { "GET", "/mcp", NULL, 405, "" },
    { "DELETE", "/mcp/", NULL, 405, "" },
    /* ids */
    { "GET", "/api/workspaces/" UNKNOWN_WS, NULL, 404, "" },
    { "DELETE", "/api/workspaces/" UNKNOWN_WS, NULL, 404, "" },
    { "POST", "/api/workspaces/" UNKNOWN_WS "/exec", "{\"command\":\"true\"}", 404, "" },
    { "GET", "/api/workspaces/WS/realtime-execs/" UNKNOWN_EX, NULL, 404, "" },
    { "GET", "/api/workspaces/WS/realtime-execs/" UNKNOWN_EX "/events", NULL, 404, "" },
    { "POST", "/api/workspaces/WS/realtime-execs/" UNKNOWN_EX "/input", "{\"data\":\"x\"}", 404, "" },
    { "POST", "/api/workspaces/WS/realtime-execs/" UNKNOWN_EX "/cancel", "{}", 404, "" },
    /* path tricks */
    { "GET", "/api/workspaces/..%2f..%2fetc", NULL, 0, "" },
    { "GET", "/api/workspaces/%2e%2e", NULL, 0, "" },
    { "GET", "/api/workspaces/ws-%00", NULL, 0, "" },
    { "GET", "/api/workspaces/%ff%fe", NULL, 0, "" },
    { "GET", "/api/workspaces/%zz", NULL, 0, "" },
    { "GET", "/api/workspaces/ws-XYZ", NULL, 0, "" },
    /* members */
    { "POST", "/api/workspaces", "{\"name\":5}", 422, "name" },
    { "POST", "/api/workspaces", "{\"name\":\"has space\"}", 422, "name" },
    { "POST", "/api/workspaces", "{\"no_such\":1}", 422, "no_such" },
    { "POST", "/api/workspaces", "{\"timeout_seconds\":59}", 422, "timeout_seconds" },
    { "POST", "/api/workspaces", "{\"timeout_seconds\":86401}", 422, "timeout_seconds" },
    { "POST", "/api/workspaces", "{\"timeout_seconds\":\"60\"}", 422, "timeout_seconds" },
    { "POST", "/api/workspaces", "{\"cpu\":true}", 422, "cpu" },
    { "POST", "/api/workspaces", "{\"cpu\":0.1}", 422, "cpu" },
    { "POST", "/api/workspaces", "{\"cpu\":4,\"cpu_limit\":2}", 400, "cpu_limit" },
    { "POST", "/api/workspaces", "{\"memory_mib\":9000}", 400, "memory_limit_mib" },
    { "POST", "/api/workspaces", "{\"memory_mib\":1e300}", 422, "memory_mib" },
    { "POST", "/api/workspaces", "{\"env\":{\"a=b\":\"c\"}}", 422, "env" },
    { "POST", "/api/workspaces", "{\"env\":{\"\":\"c\"}}", 422, "env" },
    { "POST", "/api/workspaces", "{\"env\":{\"a\":1}}", 422, "env" },
    { "POST", "/api/workspaces", "{\"gpu\":\"A100\"}", 501, "gpu" },
    { "POST", "/api/workspaces", "{\"image_name\":\"a\",\"image_id\":\"im-1\"}", 400, "image" },
    { "POST", "/api/workspaces", "{\"block_network\":true,\"outbound_cidr_allowlist\":[]}", 400,
      "block_network" },
    { "POST", "/api/workspaces", "{\"outbound_cidr_allowlist\":[\"300.1.1.1\"]}", 422,
      "outbound_cidr_allowlist" },
    { "POST", "/api/workspaces", "{\"tags\":{\"managed-by\":\"me\"}}", 409, "managed-by" },
    { "POST", "/api/workspaces/WS/exec", "{}", 422, "command" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":\"\"}", 422, "command" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":\"   \"}", 0, "command" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":null}", 422, "command" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":[\"ls\"]}", 422, "command" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":\"true\",\"timeout_seconds\":0}", 422,
      "timeout_seconds" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":\"true\",\"workdir\":\"relative\"}", 422, "workdir" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":\"true\",\"workdir\":\"/workspace/../etc\"}", 422,
      "workdir" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":\"a\\u0000b\"}", 422, "command" },
    { "POST", "/api/workspaces/WS/exec", "{\"command\":\"true\",\"workspace_id\":\"x\"}", 422,
      "workspace_id" },
    { "POST", "/api/workspaces/WS/realtime-execs", "{\"command\":\"true\",\"rows\":0}", 422, "rows" },
    { "POST", "/api/workspaces/WS/realtime-execs", "{\"command\":\"true\",\"stdin\":\"file\"}", 422,
      "stdin" },
    { "GET", "/api/workspaces?limit=0", NULL, 422, "limit" },
    { "GET", "/api/workspaces?no_such=1", NULL, 422, "no_such" },
    { "GET", "/api/workspaces/WS/realtime-execs/EX/events?cursor=-1", NULL, 422, "cursor" },
    { "GET", "/api/workspaces/WS/realtime-execs/EX/events?cursor=x", NULL, 422, "cursor" },
    { "GET", "/api/workspaces/WS/realtime-execs/EX/events?cursor=99999999999999999999", NULL, 422, "cursor" },
    { "GET", "/api/workspaces/WS/realtime-execs/EX/events?max_events=501", NULL, 422, "max_events" },
    { "GET", "/api/workspaces/WS/realtime-execs/EX/events?max_bytes=10", NULL, 422, "max_bytes" },
    { "POST", "/api/workspaces/WS/realtime-execs/EX/resize", "{\"rows\":10}", 422, "cols" },
    { "POST", "/api/workspaces/WS/realtime-execs/EX/input", "{\"data_base64\":\"!!\"}", 422, "data_base64" },
    /* bodies */
    { "POST", "/api/workspaces", "", 0, NULL },
    { "POST", "/api/workspaces", "{", 400, "JSON" },
    { "POST", "/api/workspaces", "[]", 422, "" },
    { "POST", "/api/workspaces", "{\"name\":\"a\",\"name\":\"b\"}", 400, "" },
    { "POST", "/api/workspaces", "{\"name\":\"\xff\"}", 400, "" },
    { "POST", "/api/workspaces", "nonsense", 400, "JSON" },
};

static void fill_ids(char *path, size_t size, const char *pattern, const char *ex)
{
    size_t at = 0;
    for (const char *p = pattern; *p && at + 40 < size;) {
        const char *with = strncmp(p, "/WS", 3) == 0 && (p[3] == '/' || !p[3]) ? ws
                           : strncmp(p, "/EX/", 4) == 0                        ? ex
                                                                               : NULL;
        if (with) {
            at += (size_t)snprintf(path + at, size - at, "/%s", with);
            p += 3;
        } else {
            path[at++] = *p++;
        }
    }
    path[at] = '\0';
}

START_TEST(each_is_refused_as_it_should)
{
    const struct refusal *r = &refusals[_i];
    char path[300], text[2000], ex[40];
    exec_start_command(the, ws, "sleep 5", ex);
    fill_ids(path, sizeof path, r->path, ex);
    if (r->says == NULL)
        return;
    struct http_options o = { .body = r->body };
    long status = status_of(r->method, path, &o, text, sizeof text);
    if (r->status)
        ck_assert_msg(status == r->status, "%s %s %s: %ld, expected %ld: %s", r->method, path,
                      r->body ? r->body : "", status, r->status, text);
    else
        ck_assert_msg(status >= 400 && status < 500, "%s %s: %ld: %s", r->method, path, status, text);
    ck_assert_msg(strstr(text, r->says), "%s %s: '%s' is not named: %s", r->method, path, r->says, text);
    ck_assert_msg(!strstr(text, instance_state(the)), "a path of the host is told: %s", text);
}
END_TEST

START_TEST(every_problem_is_listed)
{
    struct http_options o = {
        .body = "{\"name\":5,\"cpu\":\"x\",\"no_such\":1,\"timeout_seconds\":1,\"env\":{\"a=\":1}}"
    };
    struct answer a = http_send(the, "POST", "/api/workspaces", &o);
    ck_assert_int_eq(a.status, 422);
    ck_assert_str_eq(member_text(a.json, "type"), "ValidationError");
    ck_assert_uint_ge(json_array_size(json_object_get(a.json, "detail")), 5);
    const json_t *first = json_array_get(json_object_get(a.json, "detail"), 0);
    ck_assert(json_is_array(json_object_get(first, "loc")) && json_is_string(json_object_get(first, "msg")));
    answer_clear(&a);
}
END_TEST

START_TEST(tokens_are_needed_and_compared_whole)
{
    char longer[64], shorter[64], text[2000];
    snprintf(longer, sizeof longer, "%sx", instance_token(the));
    snprintf(shorter, sizeof shorter, "%.39s", instance_token(the));
    for (const char *const *token = (const char *const[]){ "", "wrong", longer, shorter, "\xc3\xa4", NULL };
         *token; token++) {
        struct http_options o = { .token = *token };
        ck_assert_int_eq(status_of("GET", "/api/workspaces", &o, text, sizeof text), 401);
        o.body = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
        ck_assert_int_eq(status_of("POST", "/mcp", &o, text, sizeof text), 401);
    }
    struct http_options none = { .token = "" };
    struct answer a = http_send(the, "GET", "/api/workspaces", &none);
    char value[200];
    ck_assert_ptr_nonnull(answer_header(&a, "WWW-Authenticate", value, sizeof value));
    ck_assert_ptr_nonnull(strstr(value, "Bearer"));
    answer_clear(&a);
    for (const char *const *path = (const char *const[]){ "/", "/healthz", "/privacy", "/action-openapi.json",
                                                          "/openapi.json", NULL };
         *path; path++)
        ck_assert_int_eq(status_of("GET", *path, &none, text, sizeof text), 200);
}
END_TEST

START_TEST(head_is_answered_like_get_without_a_body)
{
    struct http_options none = { .token = "" };
    for (const char *const *path = (const char *const[]){ "/", "/healthz", "/privacy", "/action-openapi.json",
                                                          "/openapi.json", NULL };
         *path; path++) {
        char value[200], length[32];
        struct answer get = http_send(the, "GET", *path, &none), head = http_send(the, "HEAD", *path, &none);
        ck_assert_int_eq(head.status, 200);
        ck_assert_uint_eq(head.length, 0);
        snprintf(length, sizeof length, "%zu", get.length);
        const char *told = answer_header(&head, "Content-Length", value, sizeof value);
        ck_assert_msg(!told || !strcmp(told, length), "%s: %s, not %s", *path, told, length);
        answer_clear(&get);
        answer_clear(&head);
    }
}
END_TEST

START_TEST(every_answer_has_its_headers)
{
    for (const char *const *path =
             (const char *const[]){ "/healthz", "/api/workspaces", "/api/nothing", NULL };
         *path; path++) {
        char value[200];
        struct answer a = http_send(the, "GET", *path, NULL);
        ck_assert_str_eq(answer_header(&a, "Cache-Control", value, sizeof value), "no-store");
        ck_assert_ptr_nonnull(answer_header(&a, "X-Request-Id", value, sizeof value));
        ck_assert_str_eq(answer_header(&a, "X-Content-Type-Options", value, sizeof value), "nosniff");
        answer_clear(&a);
    }
    struct http_options o = { .body = "{}" };
    struct answer a = http_send(the, "PATCH", "/api/workspaces", &o);
    char value[200];
    ck_assert_ptr_nonnull(answer_header(&a, "Allow", value, sizeof value));
    ck_assert(strstr(value, "GET") && strstr(value, "POST"));
    answer_clear(&a);
    o.content_type = "text/plain";
    char text[2000];
    ck_assert_int_eq(status_of("POST", "/api/workspaces", &o, text, sizeof text), 415);
    ck_assert_msg(strstr(text, "Content-Type") != NULL, "%s", text);
}
END_TEST

START_TEST(huge_bodies_are_refused_quickly)
{
    char text[2000];
    struct buffer body = BUFFER_INIT;
    buffer_append_text(&body, "{\"command\":\"");
    while (body.length < 11u << 20)
        buffer_append_text(&body, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    buffer_append_text(&body, "\"}");
    struct http_options o = { .body = buffer_text(&body), .length = body.length, .unchecked = true };
    ck_assert_int_eq(status_of("POST", "/api/workspaces", &o, text, sizeof text), 413);
    buffer_free(&body);
    buffer_append_text(&body, "{");
    for (int k = 0; k < 1000000; k++)
        buffer_printf(&body, "%s\"a%d\":1", k ? "," : "", k % 10);
    buffer_append_text(&body, "}");
    o.body = buffer_text(&body);
    o.length = body.length;
    long long started = now_ms();
    long status = status_of("POST", "/api/workspaces", &o, text, sizeof text);
    ck_assert_msg(status == 400 || status == 413 || status == 422, "%ld %s", status, text);
    ck_assert_int_lt(now_ms() - started, 3000);
    buffer_free(&body);
    for (int k = 0; k < 100000; k++)
        buffer_append_text(&body, "[");
    o.body = buffer_text(&body);
    o.length = body.length;
    ck_assert_int_eq(status_of("POST", "/api/workspaces", &o, text, sizeof text), 400);
    buffer_free(&body);
}
END_TEST

static void make_workspace(void)
{
    workspace_create(the, NULL, ws);
}

static void end_workspace(void)
{
    workspace_terminate(the, ws);
}

int main(void)
{
    Suite *s = suite_create("refusals");
    TCase *c = tcase_create("refusals");
    tcase_add_unchecked_fixture(c, make_workspace, end_workspace);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, each_is_refused_as_it_should, 0, (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(c, every_problem_is_listed);
    tcase_add_test(c, tokens_are_needed_and_compared_whole);
    tcase_add_test(c, head_is_answered_like_get_without_a_body);
    tcase_add_test(c, every_answer_has_its_headers);
    tcase_add_test(c, huge_bodies_are_refused_quickly);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
