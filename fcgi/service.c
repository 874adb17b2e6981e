/* Ties the rooms of the front together: opens the stores, holds the keeper client on the loop, and sends each
 * request to REST, MCP or a document. It decides nothing else. */
#include "fcgi/service.h"

#include "fcgi/audited.h"
#include "fcgi/away.h"
#include "fcgi/dispatch.h"
#include "fcgi/documents.h"
#include "fcgi/mcp/mcp.h"
#include "fcgi/rest.h"
#include "fcgi/stream.h"
#include "fcgi/wait.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#include <errno.h>
#include <sys/epoll.h>

#define EVENTS_CACHED 256
#define SWEEP_MS      2000
#define LOOK_MS       5

static void wish_for_warden(void *user)
{
    struct service *s = user;
    if (s->wish_fd >= 0 && write(s->wish_fd, "w", 1) < 0 && errno != EAGAIN) /* enough is asked already */
        log_error("nobody can be asked for a warden: %s", strerror(errno));
}

static void client_ready(void *user, uint32_t events)
{
    (void)events;
    struct service *s = user;
    keeper_client_turn(s->client);
}

static void sweep(void *user)
{
    struct service *s = user;
    events_cache_sweep(s->events);
    loop_timer_start(s->loop, &s->sweep, clock_boottime_ms() + SWEEP_MS, sweep, s);
}

/* One set inside another can say nothing of what it had no room for. */
static void look_at_client(void *user)
{
    struct service *s = user;
    keeper_client_turn(s->client);
}

static void turn_ended(void *user)
{
    struct service *s = user;
    if (keeper_client_needs_turns(s->client) && s->client_timer.heap_index == 0)
        loop_timer_start(s->loop, &s->client_timer, clock_boottime_ms() + LOOK_MS, look_at_client, s);
}

struct service *service_new(struct loop *l, const struct config *config, struct error *err)
{
    struct state *state = state_open(config->state_dir, err);
    if (!state)
        return NULL;
    struct service *s = xcalloc(1, sizeof(*s));
    s->loop = l;
    s->config = config;
    s->wish_fd = -1;
    s->state = state;
    s->events = events_cache_new(config->state_dir, EVENTS_CACHED);
    s->client = keeper_client_new(config, wish_for_warden, s);
    s->client_watch = loop_watch_fd(l, keeper_client_fd(s->client), EPOLLIN, client_ready, s);
    loop_at_turn_end(l, turn_ended, s);
    loop_timer_start(l, &s->client_timer, 0, look_at_client, s); /* the first turn ends at once */
    s->routes = routes_new(ops);
    s->documents = documents_new(config);
    s->tools = mcp_tools_new(config);
    s->turns = turns_new(l);
    s->waiting = wait_new(s);
    sweep(s);
    s->streaming = streaming_new(s);
    s->aways = aways_new(s);
    s->checks_results = log_enabled(LOG_LEVEL_DEBUG);
    return s;
}

void service_free(struct service *s)
{
    if (!s)
        return;
    loop_timer_stop(s->loop, &s->sweep);
    wait_free(s->waiting);
    loop_timer_stop(s->loop, &s->client_timer);
    streaming_free(s->streaming);
    aways_free(s->aways);
    turns_free(s->turns);
    loop_unwatch(s->client_watch);
    keeper_client_free(s->client);
    mcp_tools_free(s->tools);
    documents_free(s->documents);
    routes_free(s->routes);
    events_cache_free(s->events);
    state_close(s->state);
    free(s);
}

void service_ask_for_warden(struct service *s, int wish_fd)
{
    s->wish_fd = wish_fd;
}

void service_drain(struct service *s)
{
    s->draining = true;
    wait_drain(s->waiting);
    streaming_drain(s->streaming);
}

static bool is_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

static bool is_known(const char *path)
{
    return is_below(path, "/api") || is_below(path, "/mcp") || (path[1] && documents_has(path));
}

/* The usual slip: the web server passes a prefix on that the settings do not name. Said once. */
static void hint_at_mount(struct service *s, const char *path)
{
    for (const char *at = strchr(path + 1, '/'); at && !s->hinted; at = strchr(at + 1, '/')) {
        if (!is_known(at))
            continue;
        s->hinted = true;
        log_warning("there is no %.200s; where the web server passes on the prefix %s%.*s, "
                    "WORKSPACE_MOUNT must name it",
                    path, s->config->mount, (int)(at - path), path);
    }
}

bool service_follows(void *user, const struct request *r)
{
    const struct service *s = user;
    return is_below(r->path, "/api") && rest_follows(s->routes, r);
}

void service_handle(void *user, struct exchange *x)
{
    struct service *s = user;
    const char *path = x->request->path;
    if (is_below(path, "/api")) {
        rest_handle(s, x);
    } else if (is_below(path, "/mcp")) {
        mcp_handle(s, x);
    } else if (!documents_handle(s, x)) {
        _cleanup_error_ struct error err = ERROR_INIT;
        error_set(&err, ERROR_NOT_FOUND, "there is no such path");
        hint_at_mount(s, path);
        exchange_reply_error(x, &err, NULL);
    }
}

/* ---- without HTTP ---- */

/* One service_call: its answer waits for the end of the turn where it came inside the call. */
struct direct {
    struct service *service;
    service_done *done;
    void *user;
    bool inside;
    int status;
    struct buffer text;
};

static void tell(void *user)
{
    struct direct *d = user;
    d->done(d->user, d->status, d->text.data, d->text.length);
    buffer_free(&d->text);
    free(d);
}

static void take_error(struct direct *d, const struct error *err)
{
    json_auto_t *value = error_to_json(err);
    _cleanup_free_ char *text = json_dumps(value, JSON_COMPACT);
    d->status = error_status(err->code);
    buffer_append_text(&d->text, text);
}

static void direct_answer(void *user, struct flight *f, const char *text, size_t length,
                          const struct error *err)
{
    (void)f;
    struct direct *d = user;
    if (err) {
        take_error(d, err);
    } else {
        d->status = 200;
        buffer_append(&d->text, text, length);
    }
    if (d->inside)
        loop_defer(d->service->loop, tell, d);
    else
        tell(d);
}

static const struct dispatch_sink direct_sink = { .answer = direct_answer };

void service_call(struct service *s, const struct op *op, const struct principal *principal, json_t *in,
                  service_done *done, void *user)
{
    struct direct *d = xcalloc(1, sizeof(*d));
    d->service = s;
    d->done = done;
    d->user = user;
    d->inside = true;
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *checked = NULL;
    if (field_check(op->params, "arguments", NULL, in, &checked, &err) < 0) {
        audited_refusal(op, principal, CALL_REST, in, NULL, &err);
        take_error(d, &err);
        loop_defer(s->loop, tell, d);
        return;
    }
    char request_id[33];
    id_random_hex(request_id, sizeof(request_id) - 1);
    struct dispatch_request request = { .op = op,
                                        .principal = principal,
                                        .form = CALL_REST,
                                        .in = checked,
                                        .request_id = request_id,
                                        .started_us = clock_boottime_us() };
    dispatch_start(s, &request, &direct_sink, d);
    d->inside = false;
}
