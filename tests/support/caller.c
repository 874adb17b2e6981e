/* The service in the test's own process: requests are made as a web server would make them, answers are kept.
 */
#include "tests/support/caller.h"

#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/config/config.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>

struct caller {
    char state_dir[64];
    struct config *config;
    struct loop *loop;
    struct service *service;
};
struct carried {
    struct exchange exchange;
    struct request request;
    struct sent *sent;
};

static void give_up(const char *what, const struct error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    abort();
}

struct caller *caller_new(const char *const *settings)
{
    struct caller *c = xcalloc(1, sizeof(*c));
    const char *overrides[16];
    char dir[96];
    size_t count = 0;
    struct error err = ERROR_INIT;
    snprintf(c->state_dir, sizeof(c->state_dir), "/tmp/caller-XXXXXX");
    if (!mkdtemp(c->state_dir))
        abort();
    snprintf(dir, sizeof(dir), "WORKSPACE_STATE_DIR=%s", c->state_dir);
    overrides[count++] = dir;
    overrides[count++] = "WORKSPACE_TOKEN=" CALLER_TOKEN;
    for (; settings && *settings; settings++)
        overrides[count++] = *settings;
    overrides[count] = NULL;
    log_init("test", LOG_LEVEL_ERROR, NULL);
    if (!(c->config = config_load(NULL, overrides, &err)))
        give_up("settings", &err);
    c->loop = loop_new();
    if (!(c->service = service_new(c->loop, c->config, &err)))
        give_up("service", &err);
    return c;
}

void caller_free(struct caller *c)
{
    service_free(c->service);
    loop_free(c->loop);
    config_free(c->config);
    io_remove_tree(AT_FDCWD, c->state_dir, NULL);
    free(c);
}

struct service *caller_service(struct caller *c)
{
    return c->service;
}

struct loop *caller_loop(struct caller *c)
{
    return c->loop;
}

const struct config *caller_config(struct caller *c)
{
    return c->config;
}

/* ---- the carrier ---- */

static struct sent *sent_of(struct exchange *x)
{
    return ((struct carried *)x)->sent;
}

static void end(struct exchange *x)
{
    struct carried *carried = (struct carried *)x;
    struct sent *s = carried->sent;
    s->exchange = NULL;
    request_clear(&carried->request);
    free(carried);
}

static void begin(struct exchange *x, int status, const char *content_type, const char *headers)
{
    struct sent *s = sent_of(x);
    s->status = status;
    s->content_type = content_type ? xstrdup(content_type) : NULL;
    s->headers = headers ? xstrdup(headers) : NULL;
}

static void stream(struct exchange *x, const char *data, size_t length)
{
    buffer_append(&sent_of(x)->body, data, length);
}

static void finish(struct exchange *x)
{
    struct sent *s = sent_of(x);
    s->json =
        json_loadb(s->body.data ? s->body.data : "", s->body.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    s->answered = true;
    loop_stop(s->caller->loop);
    end(x);
}

static void reply(struct exchange *x, int status, const char *content_type, const char *headers,
                  const char *body, size_t length)
{
    begin(x, status, content_type, headers);
    stream(x, body, length);
    finish(x);
}

static size_t queued(struct exchange *x)
{
    (void)x;
    return 0;
}

static const struct exchange_carrier carrier = {
    .reply = reply, .stream_begin = begin, .stream = stream, .stream_queued = queued, .stream_finish = finish
};

/* ---- requests ---- */

static void add_headers(struct buffer *params, const char *const *headers)
{
    bool authorized = false;
    for (; headers && headers[0]; headers += 2) {
        _cleanup_free_ char *name = xasprintf("HTTP_%s", headers[0]);
        for (char *at = name; *at; at++)
            *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
        authorized = authorized || strcmp(name, "HTTP_AUTHORIZATION") == 0;
        if (strcmp(name, "HTTP_CONTENT_TYPE") == 0)
            request_add_param(params, "CONTENT_TYPE", headers[1]);
        else if (strcmp(name, "HTTP_AUTHORIZATION") != 0 || headers[1][0])
            request_add_param(params, name, headers[1]);
    }
    if (!authorized)
        request_add_param(params, "HTTP_AUTHORIZATION", "Bearer " CALLER_TOKEN);
}

static bool names(const char *const *headers, const char *name)
{
    for (; headers && headers[0]; headers += 2) {
        if (strcmp(headers[0], name) == 0)
            return true;
    }
    return false;
}

static void stop(void *user)
{
    loop_stop(user);
}

void caller_turn(struct caller *c, int ms)
{
    struct loop_timer timer = { 0 };
    loop_timer_start(c->loop, &timer, clock_boottime_ms() + ms, stop, c->loop);
    loop_run(c->loop);
    loop_timer_stop(c->loop, &timer);
}

struct sent *caller_send(struct caller *c, const char *method, const char *uri, const char *const *headers,
                         const char *body, int wait_ms)
{
    struct sent *s = xcalloc(1, sizeof(*s));
    struct carried *carried = xcalloc(1, sizeof(*carried));
    _cleanup_buffer_ struct buffer params = BUFFER_INIT;
    struct error err = ERROR_INIT;
    request_add_param(&params, "REQUEST_METHOD", method);
    request_add_param(&params, "REQUEST_URI", uri);
    if (body && !names(headers, "Content-Type"))
        request_add_param(&params, "CONTENT_TYPE", "application/json");
    add_headers(&params, headers);
    if (request_parse(params.data, params.length, "", &carried->request, &err) < 0)
        give_up("request", &err);
    if (body)
        buffer_append_text(&carried->request.body, body);
    s->caller = c;
    s->exchange = &carried->exchange;
    carried->sent = s;
    carried->exchange = (struct exchange){ .carrier = &carrier,
                                           .request = &carried->request,
                                           .started_us = clock_boottime_us() };
    snprintf(carried->exchange.request_id, sizeof(carried->exchange.request_id), "%s", carried->request.id);
    service_handle(c->service, &carried->exchange);
    if (!s->answered && wait_ms > 0)
        caller_turn(c, wait_ms);
    return s;
}

void sent_gone(struct sent *s)
{
    struct exchange *x = s->exchange;
    if (!x)
        return;
    if (x->on_gone)
        x->on_gone(x, x->user);
    end(x);
}

void sent_free(struct sent *s)
{
    sent_gone(s);
    free(s->content_type);
    free(s->headers);
    buffer_free(&s->body);
    json_decref(s->json);
    free(s);
}
