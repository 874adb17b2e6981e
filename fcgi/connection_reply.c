/* Answers -> records: struct exchange_carrier of a FastCGI connection. A whole answer is put together in one
 * buffer shared by all connections and sent with one call; only what the socket does not take is kept. */
#include "fcgi/connection_private.h"

#include "fcgi/reply.h"
#include "lib/base/memory.h"

/* The shared buffer is given back above this. */
enum { KEPT_OUTPUT = 256 << 10 };

/* NULL: the client is gone; an answer only frees the exchange. */
static struct connection *connection_of(struct exchange *x)
{
    return ((struct carried *)x)->connection;
}

static void free_abandoned(struct exchange *x)
{
    struct carried *carried = (struct carried *)x;

    request_clear(&carried->request);
    free(carried);
}

static void give_back(struct buffer *out)
{
    if (out->capacity > KEPT_OUTPUT)
        buffer_free(out);
    out->length = 0;
}

static void append_head(struct buffer *out, struct exchange *x, int status, const char *content_type,
                        const char *headers, int64_t length)
{
    size_t opened = record_open_stdout(out, connection_of(x)->id);

    reply_head(out, status, content_type, headers, x->request_id, length);
    record_close_stdout(out, opened);
}

static void reply(struct exchange *x, int status, const char *content_type, const char *headers,
                  const char *body, size_t length)
{
    struct connection *c = connection_of(x);

    if (c == NULL) {
        free_abandoned(x);
        return;
    }
    struct buffer *out = &c->all->output;
    buffer_reserve(out, length + length / 4096 + 1024);
    append_head(out, x, status, content_type, headers, (int64_t)length);
    if (!x->head)
        record_append_stdout(out, c->id, body, length);
    record_append_end(out, c->id);
    connection_end_exchange(c);
    connection_send(c, out);
    give_back(out);
    connection_settle(c);
}

/* A client that turns out to be gone is told of from the loop: who streams is in the middle of his work. */
static void send_piece(struct connection *c, struct buffer *out)
{
    connection_send(c, out);
    give_back(out);
    if (!c->broken)
        connection_settle(c);
}

static void stream_begin(struct exchange *x, int status, const char *content_type, const char *headers)
{
    struct connection *c = connection_of(x);

    if (c == NULL)
        return;
    struct buffer *out = &c->all->output;
    c->streaming = true;
    connection_small_helpings(c);
    append_head(out, x, status, content_type, headers, -1);
    send_piece(c, out);
}

static void stream(struct exchange *x, const char *data, size_t length)
{
    struct connection *c = connection_of(x);

    if (c == NULL || x->head)
        return;
    struct buffer *out = &c->all->output;
    record_append_stdout(out, c->id, data, length);
    send_piece(c, out);
}

static size_t stream_queued(struct exchange *x)
{
    struct connection *c = connection_of(x);

    return c ? connection_queued(c) : 0;
}

static size_t backlog(struct exchange *x)
{
    struct connection *c = connection_of(x);

    return c ? c->all->queued : 0;
}

static void stream_finish(struct exchange *x)
{
    struct connection *c = connection_of(x);

    if (c == NULL) {
        free_abandoned(x);
        return;
    }
    struct buffer *out = &c->all->output;
    record_append_end(out, c->id);
    connection_end_exchange(c);
    connection_send(c, out);
    give_back(out);
    connection_settle(c);
}

static void stream_abort(struct exchange *x)
{
    struct connection *c = connection_of(x);

    if (c == NULL) {
        free_abandoned(x);
        return;
    }
    connection_end_exchange(c);
    connection_break(c);
    connection_settle(c);
}

static void take_body(struct exchange *x, bool yes)
{
    struct connection *c = connection_of(x);

    if (c == NULL || !c->following || c->stopped == !yes)
        return;
    c->stopped = !yes;
    if (!c->broken)
        connection_settle(c);
}

const struct exchange_carrier connection_carrier = {
    .reply = reply,
    .stream_begin = stream_begin,
    .stream = stream,
    .stream_queued = stream_queued,
    .backlog = backlog,
    .stream_finish = stream_finish,
    .stream_abort = stream_abort,
    .take_body = take_body,
};
