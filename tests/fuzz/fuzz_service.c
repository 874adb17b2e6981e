/* Whole requests into the service of a worker: REST, MCP, documents, each operation up to where a keeper
 * would be asked. A stopped workspace with a finished and an open exec is there. An input is a method, a URI
 * and headers, each a line, an empty line, and the body. Every answer must be one that is documented. */
#include "fcgi/dispatch.h"
#include "fcgi/rest.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/warden/warden.h"
#include "tests/fuzz/input.h"
#include "tests/support/caller.h"

#include <ctype.h>
#include <stdio.h>

#define WORKSPACE "ws-00000000000000000000000000000000"
#define FINISHED  "ex-00000000000000000000000000000001"
#define OPEN      "ex-00000000000000000000000000000002"

static struct caller *caller;
static struct service *service;
static struct loop *loop;

/* Nobody answers for keepers here. */
int warden_ensure(const struct config *config, const char *program, unsigned flags, struct error *err)
{
    (void)config;
    (void)program;
    (void)flags;
    return error_set(err, ERROR_UNAVAILABLE, "no warden");
}

/* ---- what is there ---- */

static void add_exec(struct events_writer *w, const char *id, bool finished)
{
    static const char output[] = "one\ntwo \"three\"\n\xE2\x82\xAC\n";
    static const char members[] = "\"returncode\":0,\"signal\":null,\"timed_out\":false,\"oom_killed\":false,"
                                  "\"state\":\"finished\",\"duration_ms\":5";
    struct exec_head head = { .created_us = clock_wall_us(), .state = EXEC_RUNNING };
    struct event event = { .type = EVENT_STDOUT, .wall_us = 1, .data = output, .length = sizeof(output) - 1 };
    json_auto_t *info = json_pack("{s:s, s:s, s:b}", "command", "true", "workdir", "/workspace", "pty", 0);
    snprintf(head.id, sizeof(head.id), "%s", id);
    holds(events_begin(w, NULL) == 0 && events_add_exec(w, &head, info, NULL, NULL, NULL) == 0);
    for (int i = 0; i < 20; i++)
        holds(events_append(w, &head, &event, NULL) == 0);
    if (finished) {
        head.state = EXEC_FINISHED;
        head.has_returncode = true;
        head.exit_seq = head.last_seq + 1;
        event = (struct event){
            .type = EVENT_EXIT, .wall_us = 2, .data = members, .length = sizeof(members) - 1
        };
        holds(events_append(w, &head, &event, NULL) == 0);
    }
    holds(events_put_exec(w, &head, NULL) == 0 && events_commit(w, NULL) == 0);
}

static void add_workspace(void)
{
    const struct config *config = caller_config(caller);
    const struct principal owner = { .name = (char *)"owner", .read = true, .write = true, .admin = true };
    json_auto_t *given = json_object(), *in = NULL;
    holds(field_check(op_find("createRemoteWorkspace")->params, "body", NULL, given, &in, NULL) == 0);
    json_auto_t *record = op_workspace_record(config, &owner, in);
    json_object_set_new(record, "workspace_id", json_string(WORKSPACE));
    json_object_set_new(record, "state", json_string("stopped"));
    holds(state_create_workspace(service->state, record, NULL, 10, 0, 0, NULL, NULL) == 0);
    struct events_options options = { config->state_dir, WORKSPACE, 1 << 20, 1 << 20 };
    struct events_writer *w = events_writer_open(&options, NULL);
    holds(w != NULL);
    add_exec(w, FINISHED, true);
    add_exec(w, OPEN, false);
    events_writer_close(w);
}

static void leave(void)
{
    caller_free(caller);
}

static void begin(void)
{
    caller = caller_new(NULL);
    log_init("fuzz", LOG_LEVEL_DEBUG, "/dev/null");
    service = caller_service(caller);
    service->checks_results = true;
    loop = caller_loop(caller);
    add_workspace();
    atexit(leave);
}

/* ---- a carrier that looks at answers ---- */

struct asked {
    struct exchange exchange; /* first */
    struct request request;
    bool answered, streams;
    int status;
    const struct route *route;
    bool *over;
};

static void finish(struct exchange *x)
{
    struct asked *a = (struct asked *)x;
    *a->over = true;
    request_clear(&a->request);
    free(a);
}

static void check_status(int status)
{
    static const int known[] = { 200, 202, 204, 206, 302, 400, 401, 403, 404, 405, 406, 409,
                                 412, 413, 415, 416, 422, 429, 501, 502, 503, 504, 507 };
    for (size_t i = 0; i < N_ELEMENTS(known); i++)
        if (known[i] == status)
            return;
    abort();
}

static void check_value(const struct op *op, const json_t *value)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (field_check_result(op->result, value, &err) == 0)
        return;
    fprintf(stderr, "%s: %s\n", op->id, err.message);
    abort();
}

static void check_result(const struct op *op, const json_t *value)
{
    const json_t *item;
    size_t index;
    if ((op->flags & OP_LIST) == 0)
        check_value(op, value);
    json_array_foreach(value, index, item)
        check_value(op, item);
}

static void check_refusal(int status, const json_t *value)
{
    if (json_object_get(value, "jsonrpc") != NULL) {
        holds(json_is_object(json_object_get(value, "error")));
        return;
    }
    holds(json_is_string(json_object_get(value, "error")) && json_is_string(json_object_get(value, "type")));
    holds((status == 422) == json_is_array(json_object_get(value, "detail")));
}

static void check_headers(const char *headers)
{
    for (const char *line = headers; line != NULL && *line != '\0';) {
        const char *end = strstr(line, "\r\n"), *colon = strchr(line, ':');
        holds(end != NULL && colon != NULL && colon < end);
        line = end + 2;
    }
}

static void reply(struct exchange *x, int status, const char *content_type, const char *headers,
                  const char *body, size_t length)
{
    struct asked *a = (struct asked *)x;
    check_status(status);
    check_headers(headers);
    if (content_type != NULL && strcmp(content_type, "application/json") == 0) {
        json_auto_t *value =
            json_loadb(body, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
        holds(value != NULL);
        if (status >= 400)
            check_refusal(status, value);
        else if (a->route != NULL)
            check_result(a->route->op, value);
    } else {
        holds(status < 400);
    }
    finish(x);
}

static void stream_begin(struct exchange *x, int status, const char *content_type, const char *headers)
{
    ((struct asked *)x)->streams = true;
    holds(status == 200 && strcmp(content_type, "text/event-stream") == 0);
    check_headers(headers);
}

static void stream(struct exchange *x, const char *data, size_t length)
{
    holds(((struct asked *)x)->streams && (length == 0 || data != NULL));
}

static size_t stream_queued(struct exchange *x)
{
    (void)x;
    return 0;
}

static const struct exchange_carrier carrier = { .reply = reply,
                                                 .stream_begin = stream_begin,
                                                 .stream = stream,
                                                 .stream_queued = stream_queued,
                                                 .stream_finish = finish };

/* ---- asking ---- */

static void stop(void *user)
{
    loop_stop(user);
}

static void turn(void)
{
    loop_defer(loop, stop, loop);
    loop_run(loop);
}

static bool is_content(const char *name)
{
    return strcasecmp(name, "content-type") == 0 || strcasecmp(name, "content-length") == 0;
}

static void add_header(struct buffer *params, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    if (colon == NULL)
        return;
    _cleanup_free_ char *name = xstrndup(line, (size_t)(colon - line));
    _cleanup_free_ char *value = xstrndup(colon + 1, length - (size_t)(colon - line) - 1);
    _cleanup_free_ char *param = xasprintf("%s%s", is_content(name) ? "" : "HTTP_", name);
    for (char *at = param; *at != '\0'; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    request_add_param(params, param, value + strspn(value, " "));
}

static bool make_request(struct input *in, struct request *ret)
{
    _cleanup_buffer_ struct buffer params = BUFFER_INIT;
    size_t length;
    const char *line = input_line(in, &length);
    _cleanup_free_ char *method = xstrndup(line, length);
    line = input_line(in, &length);
    _cleanup_free_ char *uri = xstrndup(line, length);
    request_add_param(&params, "REQUEST_METHOD", method);
    request_add_param(&params, "REQUEST_URI", uri);
    while ((line = input_line(in, &length)), length > 0)
        add_header(&params, line, length);
    if (memmem(params.data, params.length, "HTTP_AUTHORIZATION", 18) == NULL)
        request_add_param(&params, "HTTP_AUTHORIZATION", "Bearer " CALLER_TOKEN);
    if (request_parse(params.data, params.length, "", ret, NULL) == 0)
        return true;
    request_clear(ret);
    return false;
}

static const struct route *find_route(const struct request *r)
{
    _cleanup_free_ char **parts = NULL;
    size_t count = 0;
    char allow[ROUTE_ALLOW_SIZE];
    if (strncmp(r->path, "/api/", 5) != 0 || request_split_path(r->path, &parts, &count, NULL) < 0)
        return NULL;
    return routes_find(service->routes, r->method, parts + 1, count - 1, allow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data, size };
    bool over = false;
    if (caller == NULL)
        begin();
    if (size > 60000)
        return 0;
    struct asked *a = xcalloc(1, sizeof(*a));
    if (!make_request(&in, &a->request)) {
        free(a);
        return 0;
    }
    a->over = &over;
    a->route = find_route(&a->request);
    buffer_append(&a->request.body, in.at, in.left);
    a->exchange =
        (struct exchange){ .carrier = &carrier, .request = &a->request, .started_us = clock_boottime_us() };
    snprintf(a->exchange.request_id, sizeof(a->exchange.request_id), "%s", a->request.id);
    service_handle(service, &a->exchange);
    for (int i = 0; i < 4 && !over; i++)
        turn();
    if (!over) {
        if (a->exchange.on_gone != NULL)
            a->exchange.on_gone(&a->exchange, a->exchange.user);
        finish(&a->exchange);
    }
    turn();
    return 0;
}
