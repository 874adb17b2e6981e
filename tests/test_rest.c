/* Routes, parameters and refusals of REST, and the open documents: what needs no workspace. */
#include "fcgi/rest.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/support/caller.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>

static struct caller *the;

static void setup(void)
{
    the = caller_new((const char *const[]){ "WORKSPACE_BASE_URL=https://w.example.org/", NULL });
}

static void teardown(void)
{
    caller_free(the);
}

static const char *text(const json_t *value, const char *name)
{
    const char *found = json_string_value(json_object_get(value, name));
    return found ? found : "";
}

/* ---- routes ---- */

static const struct op row_a = { .id = "a", .method = "GET", .path = "/things/{id}" };
static const struct op row_b = { .id = "b", .method = "POST", .path = "/things/special" };
static const struct op row_c = { .id = "c", .method = "GET", .path = "/things/special" };
static const struct op row_d = { .id = "d", .method = "DELETE", .path = "/things/{id}" };
static const struct op row_e = { .id = "e", .method = "GET", .path = "/things/{id}/parts/{part}" };
static const struct op *const rows[] = { &row_a, &row_b, &row_c, &row_d, &row_e, NULL };

static const struct {
    const char *method, *path, *id, *allow;
} routings[] = {
    { "GET", "things/x", "a", "GET, DELETE" },
    { "GET", "things/special", "c", NULL },
    { "POST", "things/special", "b", NULL },
    { "DELETE", "things/special", "d", NULL },
    { "POST", "things/x", NULL, "GET, DELETE" },
    { "PUT", "things/special", NULL, "GET, POST, DELETE" },
    { "GET", "things/x/parts/y", "e", NULL },
    { "GET", "things", NULL, "" },
    { "GET", "things/x/parts", NULL, "" },
    { "GET", "things/", NULL, "" },
    { "GET", "thing/x", NULL, "" },
};

START_TEST(routes_prefer_fixed_parts)
{
    struct routes *r = routes_new(rows);
    _cleanup_free_ char **parts = NULL;
    size_t count;
    char allow[ROUTE_ALLOW_SIZE];
    struct error err = ERROR_INIT;
    ck_assert_int_eq(request_split_path(routings[_i].path, &parts, &count, &err), 0);
    const struct route *found = routes_find(r, routings[_i].method, parts, count, allow);
    if (routings[_i].id)
        ck_assert_msg(found && strcmp(found->op->id, routings[_i].id) == 0, "%s", routings[_i].path);
    else
        ck_assert_ptr_null(found);
    if (routings[_i].allow && !routings[_i].id)
        for (const char *at = routings[_i].allow; *at; at += strcspn(at, ", "), at += strspn(at, ", ")) {
            _cleanup_free_ char *method = xstrndup(at, strcspn(at, ", "));
            ck_assert_msg(strstr(allow, method) != NULL, "%s lacks %s", allow, method);
        }
    if (!routings[_i].id && routings[_i].allow && routings[_i].allow[0] == '\0')
        ck_assert_str_eq(allow, "");
    routes_free(r);
}
END_TEST

/* ---- refusals ---- */

#define WS "ws-0123456789abcdef0123456789abcdef"
#define EX "ex-0123456789abcdef0123456789abcdef"
#define NONE                                                                                                 \
    {                                                                                                        \
        NULL                                                                                                 \
    }

static const struct refusal {
    const char *method, *uri, *headers[5], *body;
    int status;
    const char *contains; /* in the body or the headers */
} refusals[] = {
    { "GET", "/api/workspaces", { "Authorization", "" }, NULL, 401, "WWW-Authenticate: Bearer" },
    { "GET", "/api/workspaces", { "Authorization", "Bearer wrong" }, NULL, 401, "invalid_token" },
    { "GET", "/api/workspaces", { "Authorization", "Basic the-owners-token" }, NULL, 401, "AuthError" },
    { "GET", "/api/workspaces", { "Authorization", "Bearer  the-owners-token" }, NULL, 401, "AuthError" },
    { "GET", "/api/nothing", { "Authorization", "" }, NULL, 401, "AuthError" },
    { "GET", "/api/nothing", NONE, NULL, 404, "NotFoundError" },
    { "GET", "/api", NONE, NULL, 404, "NotFoundError" },
    { "GET", "/apix", NONE, NULL, 404, "NotFoundError" },
    { "GET", "/api/workspaces/", NONE, NULL, 404, "NotFoundError" },
    { "GET", "/api/../etc/passwd", NONE, NULL, 400, "ValueError" },
    { "GET", "/api/workspaces/%2e%2e", NONE, NULL, 400, "ValueError" },
    { "PUT", "/api/workspaces", NONE, NULL, 405, "HEAD" },
    { "HEAD", "/api/workspaces/" WS "/exec", NONE, NULL, 405, "Allow: POST, OPTIONS" },
    { "GET", "/api/workspaces/" WS, NONE, NULL, 404, "NotFoundError" },
    { "GET", "/api/workspaces/nonsense", NONE, NULL, 422, "[\"path\",\"workspace_id\"]" },
    { "GET", "/api/workspaces?nonsense=1", NONE, NULL, 422, "[\"query\",\"nonsense\"]" },
    { "GET", "/api/workspaces?nonsense=1", NONE, NULL, 422, "there are: " },
    { "POST", "/api/workspaces/" WS "/exec", NONE, "{\"nonsense\":1}", 422, "there are: command," },
    { "POST", "/api/workspaces", NONE, "{\"a\":1}", 422, "there are: name," },
    { "GET", "/api/workspaces?environment_name=a&environment_name=b", NONE, NULL, 422, "more than once" },
    { "GET", "/api/workspaces?x=%zz", NONE, NULL, 400, "ValueError" },
    { "GET", "/api/workspaces?workspace_id=" WS, NONE, NULL, 422, "workspace_id" },
    { "GET", "/api/workspaces", NONE, "{\"a\":1}", 422, "[\"body\"" },
    { "POST", "/api/workspaces?name=x", NONE, "{}", 422, "[\"query\",\"name\"]" },
    { "POST", "/api/workspaces", NONE, "{", 400, "ValueError" },
    { "POST", "/api/workspaces", NONE, "[]", 422, "ValidationError" },
    { "POST", "/api/workspaces", NONE, "{\"cpu\":1,\"cpu\":2}", 400, "ValueError" },
    { "POST", "/api/workspaces", { "Content-Type", "text/plain" }, "{}", 415, "UnsupportedMediaTypeError" },
    { "POST",
      "/api/workspaces",
      { "Content-Type", "application/jsonx" },
      "{}",
      415,
      "UnsupportedMediaTypeError" },
    { "POST", "/api/workspaces", NONE, "{\"nonsense\":1,\"cpu\":\"many\"}", 422, "[\"body\",\"nonsense\"]" },
    { "POST", "/api/workspaces", { "Idempotency-Key", "a b" }, "{}", 422, "Idempotency-Key" },
    { "POST", "/api/workspaces", { "Idempotency-Key", "" }, "{}", 422, "Idempotency-Key" },
    { "POST", "/api/workspaces", NONE, "{\"cpu\":4,\"cpu_limit\":2}", 400, "cpu_limit" },
    { "POST", "/api/workspaces", NONE, "{\"gpu\":\"H100\"}", 501, "gpu" },
    { "POST", "/api/workspaces/" WS "/exec", NONE, "{\"command\":\"x\",\"workspace_id\":\"" WS "\"}", 422,
      "[\"body\",\"workspace_id\"]" },
    { "POST", "/api/workspaces/" WS "/exec", NONE, "{}", 422, "[\"body\",\"command\"]" },
    { "POST", "/api/workspaces/" WS "/exec", NONE, "{\"command\":\"x\"}", 404, "NotFoundError" },
    { "GET", "/api/workspaces/" WS "/realtime-execs/" EX "/events", NONE, NULL, 404, "NotFoundError" },
    { "DELETE", "/api/workspaces/" WS, NONE, "{}", 404, "NotFoundError" },
    { "GET", "/nothing", NONE, NULL, 404, "NotFoundError" },
    { "POST", "/healthz", NONE, "{}", 405, "Allow: GET" },
};

START_TEST(refusals_have_their_status)
{
    const struct refusal *r = &refusals[_i];
    struct sent *s = caller_send(the, r->method, r->uri, r->headers, r->body, 2000);
    ck_assert_msg(s->answered && s->status == r->status, "%s %s: %d %s", r->method, r->uri, s->status,
                  buffer_text(&s->body));
    ck_assert_msg(strstr(buffer_text(&s->body), r->contains) ||
                      (s->headers && strstr(s->headers, r->contains)),
                  "%s %s: %s %s", r->method, r->uri, s->headers ? s->headers : "", buffer_text(&s->body));
    ck_assert_str_ne(text(s->json, "error"), "");
    ck_assert_str_ne(text(s->json, "type"), "");
    sent_free(s);
}
END_TEST

/* What is told before there is an operation is what the rows say. */
START_TEST(bodies_follow_where_the_rows_say)
{
    struct routes *routes = routes_new(ops);
    for (const struct op *const *op = ops; *op; op++) {
        _cleanup_free_ char *path = xasprintf("/api%s", (*op)->path);
        struct request r = { .method = (char *)(*op)->method, .path = path };
        bool takes = (*op)->flags & OP_RAW && strcmp((*op)->method, "PUT") == 0;
        ck_assert_msg(rest_follows(routes, &r) == takes, "%s", (*op)->id);
    }
    routes_free(routes);
}
END_TEST

/* Whatever the path looks like. */
START_TEST(bodies_follow_by_the_route_alone)
{
    static const struct {
        const char *method, *path;
        bool follows;
    } paths[] = {
        { "PUT", "/api/workspaces/ws-1/raw", true },
        { "PUT", "/api/workspaces/ws-1/r%61w", true },
        { "GET", "/api/workspaces/ws-1/raw", false },
        { "PUT", "/api/raw", false },
        { "PUT", "/api/workspaces/ws-1/files/raw", false },
        { "PUT", "/api/workspaces//raw", false },
        { "PUT", "/api", false },
        { "PUT", "/api/../raw", false },
    };
    struct routes *routes = routes_new(ops);
    for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
        struct request r = { .method = (char *)paths[i].method, .path = (char *)paths[i].path };
        ck_assert_msg(rest_follows(routes, &r) == paths[i].follows, "%s", r.path);
    }
    routes_free(routes);
}
END_TEST

START_TEST(every_problem_is_named)
{
    struct sent *s = caller_send(the, "POST", "/api/workspaces?q=1", NULL,
                                 "{\"cpu\":\"x\",\"memory_mib\":1,\"n\":2,\"name\":\"\"}", 0);
    ck_assert_int_eq(s->status, 422);
    ck_assert_uint_eq(json_array_size(json_object_get(s->json, "detail")), 5);
    sent_free(s);
}
END_TEST

START_TEST(big_bodies_are_parsed_apart)
{
    char *body = xmalloc(300001);
    memset(body, ' ', 300000);
    body[300000] = '\0';
    memcpy(body, "{\"nonsense\":", 12);
    memcpy(body + 299990, "1}", 2);
    struct sent *s = caller_send(the, "POST", "/api/workspaces", NULL, body, 0);
    ck_assert(!s->answered);
    caller_turn(the, 3000);
    ck_assert(s->answered);
    ck_assert_int_eq(s->status, 422);
    sent_free(s);
    s = caller_send(the, "POST", "/api/workspaces", NULL, body, 0);
    sent_free(s); /* the client goes away meanwhile */
    caller_turn(the, 200);
    free(body);
}
END_TEST

START_TEST(options_say_what_is_allowed)
{
    struct sent *s = caller_send(the, "OPTIONS", "/api/workspaces",
                                 (const char *const[]){ "Authorization", "", NULL }, NULL, 0);
    ck_assert_int_eq(s->status, 204);
    ck_assert_ptr_nonnull(strstr(s->headers, "Allow: "));
    ck_assert_ptr_nonnull(strstr(s->headers, "POST"));
    sent_free(s);
}
END_TEST

START_TEST(an_empty_list_is_an_array)
{
    struct sent *s = caller_send(the, "GET", "/api/workspaces", NULL, NULL, 0);
    ck_assert_int_eq(s->status, 200);
    ck_assert(json_is_array(s->json) && json_array_size(s->json) == 0);
    sent_free(s);
    s = caller_send(the, "GET", "/api/workspaces",
                    (const char *const[]){ "Authorization", "bEARER " CALLER_TOKEN, NULL }, NULL, 0);
    ck_assert_int_eq(s->status, 200);
    sent_free(s);
}
END_TEST

START_TEST(documents_are_open)
{
    static const char *const open[] = { "/", "/healthz", "/openapi.json", "/action-openapi.json" };
    for (size_t i = 0; i < N_ELEMENTS(open); i++) {
        struct sent *s =
            caller_send(the, "GET", open[i], (const char *const[]){ "Authorization", "", NULL }, NULL, 0);
        ck_assert_msg(s->status == 200 && json_is_object(s->json), "%s", open[i]);
        if (i >= 2)
            ck_assert_str_eq(text(json_array_get(json_object_get(s->json, "servers"), 0), "url"),
                             "https://w.example.org");
        sent_free(s);
    }
    struct sent *s =
        caller_send(the, "GET", "/", (const char *const[]){ "Accept", "text/html,*/*", NULL }, NULL, 0);
    ck_assert_ptr_nonnull(strstr(s->content_type, "text/html"));
    sent_free(s);
    s = caller_send(the, "GET", "/privacy", NULL, NULL, 0);
    ck_assert_ptr_nonnull(strstr(s->content_type, "text/plain"));
    sent_free(s);
}
END_TEST

/* As the settings have it: what is not kept is not told of, and what is kept is. */
START_TEST(privacy_is_what_the_settings_make_of_it)
{
    static const char *const settings[][3] = { { NULL },
                                               { "WORKSPACE_AUDIT=off", NULL },
                                               { "WORKSPACE_SHARED_PACKAGES_MIB=0", NULL } };
    for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
        struct caller *c = caller_new(settings[i]);
        struct sent *s = caller_send(c, "GET", "/privacy", NULL, NULL, 0);
        const char *page = buffer_text(&s->body);
        ck_assert_msg((strstr(page, "audit log also keeps your address") != NULL) == (i != 1), "%s", page);
        ck_assert_msg((strstr(page, "asked for once more") != NULL) == (i != 2), "%s", page);
        sent_free(s);
        caller_free(c);
    }
}
END_TEST

START_TEST(host_names_the_server_on_loopback_only)
{
    struct caller *c = caller_new(NULL);
    struct sent *s = caller_send(c, "GET", "/openapi.json",
                                 (const char *const[]){ "Host", "127.0.0.1:8080", NULL }, NULL, 0);
    ck_assert_str_eq(text(json_array_get(json_object_get(s->json, "servers"), 0), "url"),
                     "http://127.0.0.1:8080");
    sent_free(s);
    s = caller_send(c, "GET", "/openapi.json", (const char *const[]){ "Host", "evil.example.com", NULL },
                    NULL, 0);
    ck_assert_ptr_null(strstr(buffer_text(&s->body), "evil"));
    sent_free(s);
    caller_free(c);
}
END_TEST

START_TEST(documents_name_the_mount)
{
    static const char *const paths[] = { "/", "/healthz" };
    struct caller *c = caller_new((const char *const[]){ "WORKSPACE_MOUNT=/workspace", NULL });
    for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
        struct sent *s = caller_send(c, "GET", paths[i], NULL, NULL, 0);
        ck_assert_int_eq(s->status, 200);
        ck_assert_str_eq(text(s->json, "mcp"), "/workspace/mcp/");
        ck_assert_str_eq(text(s->json, "gpt_actions_schema"), "/workspace/action-openapi.json");
        sent_free(s);
    }
    caller_free(c);
}
END_TEST

/* In the log, not to the client; of what anybody may ask for, nothing is hinted at. */
START_TEST(a_forgotten_mount_is_hinted_at_once)
{
    static const char *const paths[] = { "/favicon.ico", "/a/b", "/workspace/api/workspaces", "/x/mcp" };
    char path[] = "/tmp/wsf-rest-XXXXXX";
    close(mkstemp(path));
    struct caller *c = caller_new(NULL);
    log_init("test", LOG_LEVEL_WARNING, path);
    for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
        struct sent *s = caller_send(c, "GET", paths[i], NULL, NULL, 0);
        ck_assert_int_eq(s->status, 404);
        ck_assert_ptr_null(strstr(buffer_text(&s->body), "MOUNT"));
        sent_free(s);
    }
    _cleanup_buffer_ struct buffer log = BUFFER_INIT;
    ck_assert_int_eq(io_read_file(AT_FDCWD, path, 1 << 20, &log, NULL), 0);
    const char *hint = strstr(buffer_text(&log), "the prefix /workspace, WORKSPACE_MOUNT");
    ck_assert_msg(hint && !strstr(hint + 1, "the prefix"), "%s", buffer_text(&log));
    log_init("test", LOG_LEVEL_WARNING, NULL);
    unlink(path);
    caller_free(c);
}
END_TEST

START_TEST(no_token_is_unavailable)
{
    struct caller *c = caller_new((const char *const[]){ "WORKSPACE_TOKEN=", NULL });
    struct sent *s = caller_send(c, "GET", "/api/workspaces", NULL, NULL, 0);
    ck_assert_int_eq(s->status, 503);
    sent_free(s);
    caller_free(c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rest");
    TCase *pure = tcase_create("routes"), *served = tcase_create("served");
    tcase_add_loop_test(pure, routes_prefer_fixed_parts, 0, N_ELEMENTS(routings));
    tcase_add_test(pure, privacy_is_what_the_settings_make_of_it);
    tcase_add_test(pure, host_names_the_server_on_loopback_only);
    tcase_add_test(pure, no_token_is_unavailable);
    tcase_add_test(pure, documents_name_the_mount);
    tcase_add_test(pure, a_forgotten_mount_is_hinted_at_once);
    tcase_add_checked_fixture(served, setup, teardown);
    tcase_add_loop_test(served, refusals_have_their_status, 0, N_ELEMENTS(refusals));
    tcase_add_test(pure, bodies_follow_where_the_rows_say);
    tcase_add_test(pure, bodies_follow_by_the_route_alone);
    tcase_add_test(served, every_problem_is_named);
    tcase_add_test(served, big_bodies_are_parsed_apart);
    tcase_add_test(served, options_say_what_is_allowed);
    tcase_add_test(served, an_empty_list_is_an_array);
    tcase_add_test(served, documents_are_open);
    suite_add_tcase(suite, pure);
    suite_add_tcase(suite, served);
    return unit_run(suite);
}
