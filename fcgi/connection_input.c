/* Records of one connection -> its request, and the protocol's own questions. Every record is hostile: what
 * cannot be followed breaks the connection, what is too large is refused at once and read away. Knows no
 * socket call. */
#include "fcgi/connection_private.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <fastcgi.h>
#include <stdio.h>

enum { MOST_PIPELINED_OUTPUT = 256 << 10, LONGEST_NAMES = 1024 };

/* ---- answers of the protocol ---- */

static void refuse_request(struct connection *c, uint16_t id, uint8_t protocol_status)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    record_append_refusal(&out, id, protocol_status);
    connection_send(c, &out);
}

static void take_management(struct connection *c, const struct record_piece *piece)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    if (piece->type == FCGI_GET_VALUES && !piece->empty) {
        if (c->names == NULL)
            c->names = xcalloc(1, sizeof(*c->names));
        if (c->names->length + piece->length > LONGEST_NAMES) {
            connection_break(c);
            return;
        }
        buffer_append(c->names, piece->data, piece->length);
    }
    if (!piece->last)
        return;
    if (piece->type == FCGI_GET_VALUES)
        record_append_values(&out, c->names ? c->names->data : "", c->names ? c->names->length : 0);
    else
        record_append_unknown_type(&out, piece->type);
    if (c->names != NULL)
        buffer_free(c->names);
    connection_send(c, &out);
}

/* ---- the request ---- */

static void begin(struct connection *c, const struct record_piece *piece)
{
    const unsigned char *body = (const unsigned char *)piece->data;
    bool keep = body[2] & FCGI_KEEP_CONN;

    if (c->carried != NULL) {
        if (piece->id == c->id)
            connection_break(c);
        else
            refuse_request(c, piece->id, FCGI_CANT_MPX_CONN);
        return;
    }
    /* The answer before is not read: nobody may pile up more behind it. */
    if (c->closing || connection_queued(c) > MOST_PIPELINED_OUTPUT) {
        connection_break(c);
        return;
    }
    c->id = piece->id;
    c->keep = keep;
    c->served = true;
    c->params_ended = c->stdin_ended = false;
    if ((body[0] << 8 | body[1]) != FCGI_RESPONDER) {
        c->stdin_ended = true;
        refuse_request(c, piece->id, FCGI_UNKNOWN_ROLE);
        c->closing = !keep;
        return;
    }
    c->carried = xcalloc(1, sizeof(*c->carried));
    c->carried->connection = c;
    c->all->exchanges++;
}

static void refuse(struct connection *c, const struct error *err)
{
    c->dispatched = true;
    exchange_reply_error(&c->carried->exchange, err, NULL);
}

static void refuse_body(struct connection *c, enum error_code code, const char *message)
{
    struct error err = ERROR_INIT;

    error_set(&err, code, "%s", message);
    if (code == ERROR_UNAVAILABLE)
        err.retry_after = 1;
    c->all->body_bytes -= c->carried->request.body.length;
    buffer_free(&c->carried->request.body);
    refuse(c, &err);
}

static void refuse_large_body(struct connection *c)
{
    char message[160];

    snprintf(message, sizeof(message),
             "the request's body has more than %zu bytes: a file's bytes of any size go up by PUT "
             "/api/workspaces/{workspace_id}/raw",
             c->all->limits.body);
    refuse_body(c, ERROR_TOO_LARGE, message);
}

static void prepare_exchange(struct carried *carried)
{
    struct exchange *x = &carried->exchange;

    x->carrier = &connection_carrier;
    x->request = &carried->request;
    x->started_us = clock_boottime_us();
    x->head = x->request->method != NULL && strcmp(x->request->method, "HEAD") == 0;
    memcpy(x->request_id, carried->request.id, sizeof(x->request_id));
}

/* Said once: the settings and the web server must agree. */
static void hint_at_mount(struct connections *all)
{
    if (!all->hinted)
        log_warning(
            "a request lies outside WORKSPACE_MOUNT=%s: it must be the prefix that the web server passes on",
            all->mount);
    all->hinted = true;
}

/* Handled now; its body comes when it is wanted. */
static void begin_to_follow(struct connection *c)
{
    struct exchange *x = &c->carried->exchange;

    c->dispatched = c->following = c->stopped = true;
    x->body_follows = true;
    c->all->handler(c->all->handler_user, x);
}

static void follow(struct connection *c, const struct record_piece *piece)
{
    struct carried *carried = c->carried;
    struct exchange *x = &carried->exchange;

    carried->followed += (int64_t)piece->length;
    if (!piece->empty) {
        x->on_body(x, x->user, piece->data, piece->length, false);
        return;
    }
    c->following = false;
    if (carried->request.content_length > carried->followed)
        connection_break(c); /* cut on its way: whoever wants it hears that the client is gone */
    else
        x->on_body(x, x->user, NULL, 0, true);
}

static void end_params(struct connection *c)
{
    struct carried *carried = c->carried;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct buffer params = carried->request.body;

    c->params_ended = true;
    carried->request.body = (struct buffer)BUFFER_INIT;
    int parsed = request_parse(params.data, params.length, c->all->mount, &carried->request, &err);
    prepare_exchange(carried);
    /* Most bodies fit where the parameters were. */
    params.length = 0;
    carried->request.body = params;
    if (parsed < 0 && err.code == ERROR_NOT_FOUND)
        hint_at_mount(c->all);
    if (parsed < 0)
        refuse(c, &err);
    else if (c->all->follows != NULL && c->all->follows(c->all->handler_user, &carried->request))
        begin_to_follow(c);
    else if (carried->request.content_length > (int64_t)c->all->limits.body)
        refuse_large_body(c);
}

static void take_params(struct connection *c, const struct record_piece *piece)
{
    struct buffer *params = &c->carried->request.body;

    if (c->params_ended) {
        connection_break(c);
        return;
    }
    if (piece->empty) {
        end_params(c);
        return;
    }
    if (params->length + piece->length > c->all->limits.params) {
        struct error err = ERROR_INIT;
        c->params_ended = true;
        buffer_free(params);
        request_parse("", 0, "", &c->carried->request, &err);
        prepare_exchange(c->carried);
        error_set(&err, ERROR_INVALID, "the request's header has more than %zu bytes", c->all->limits.params);
        refuse(c, &err);
        return;
    }
    buffer_append(params, piece->data, piece->length);
}

static void dispatch(struct connection *c)
{
    struct request *r = &c->carried->request;

    /* A shorter body was cut on its way; a longer one was unpacked by the front. */
    if (r->content_length > (int64_t)r->body.length) {
        refuse_body(c, ERROR_INVALID, "the request's body is shorter than its Content-Length");
        return;
    }
    c->all->body_bytes -= r->body.length;
    if (r->body.length == 0)
        buffer_free(&r->body);
    c->dispatched = true;
    c->all->handler(c->all->handler_user, &c->carried->exchange);
}

static void take_stdin(struct connection *c, const struct record_piece *piece)
{
    if (piece->empty)
        c->stdin_ended = true;
    if (c->following && c->carried->exchange.on_body != NULL) {
        follow(c, piece);
        return;
    }
    if (c->carried == NULL || c->dispatched)
        return;
    if (!c->params_ended) {
        connection_break(c);
        return;
    }
    struct buffer *body = &c->carried->request.body;
    if (piece->empty) {
        dispatch(c);
        return;
    }
    if (body->length + piece->length > c->all->limits.body) {
        refuse_large_body(c);
        return;
    }
    if (c->all->body_bytes + piece->length > c->all->limits.bodies) {
        refuse_body(c, ERROR_UNAVAILABLE, "too many large requests at this moment");
        return;
    }
    buffer_append(body, piece->data, piece->length);
    c->all->body_bytes += piece->length;
}

/* A dispatched exchange whose handler cannot be told ends with its answer. */
static void take_abort(struct connection *c)
{
    if (c->carried == NULL || (c->dispatched && c->carried->exchange.on_gone == NULL))
        return;
    c->stdin_ended = true;
    bool streaming = c->streaming;
    connection_forget(c);
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    if (streaming)
        record_append_end(&out, c->id);
    else
        record_append_refusal(&out, c->id, FCGI_REQUEST_COMPLETE);
    connection_send(c, &out);
    c->closing = !c->keep || c->all->draining;
}

static void take_piece(struct connection *c, const struct record_piece *piece)
{
    if (piece->type == FCGI_BEGIN_REQUEST)
        begin(c, piece);
    else if (piece->id == FCGI_NULL_REQUEST_ID)
        take_management(c, piece);
    else if (piece->id != c->id || !c->served)
        return; /* FastCGI 1.0, 3.3: records of an inactive request are ignored */
    else if (piece->type == FCGI_PARAMS && c->carried != NULL)
        take_params(c, piece);
    else if (piece->type == FCGI_STDIN)
        take_stdin(c, piece);
    else if (piece->type == FCGI_ABORT_REQUEST && piece->last)
        take_abort(c);
}

void connection_feed(struct connection *c, const char *data, size_t length)
{
    struct record_piece piece;
    int taken;

    while (!c->broken && (taken = record_read(&c->reader, &data, &length, &piece)) != 0) {
        if (taken < 0)
            connection_break(c);
        else
            take_piece(c, &piece);
    }
}
