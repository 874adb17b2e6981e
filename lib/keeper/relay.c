/* Owns the calls that the agent does on files while bytes may flow: a worker's stream on one side, the
 * agent's on the other, and what lies between them, which is never more than the credit that was given. It
 * must not know what a call does. Streams of the agent from RELAY_STREAMS on are these; execs have those
 * below. */
#include "lib/keeper/internal.h"
#include "lib/schema/field.h"

#define RELAYS_MAX    128
#define CONSUME_ABOVE (256u << 10)

/* One direction. */
struct flow {
    struct buffer bytes; /* sent up to here: */
    size_t sent;
    bool ends, end_sent;
};

struct relay {
    struct relay *next;
    uint32_t stream;          /* the agent's */
    struct keeper_call *call; /* NULL: answered */
    struct peer *peer;        /* NULL: nobody is there */
    uint32_t peer_stream;
    bool streams;       /* the worker wants what the call writes, and its end */
    struct flow up;     /* to the agent */
    struct flow down;   /* to the worker */
    bool closed, whole; /* by the agent */
};

static struct relay *find(const struct keeper *k, uint32_t stream)
{
    for (struct relay *r = k->relays; r != NULL; r = r->next)
        if (r->stream == stream)
            return r;
    return NULL;
}

static struct relay *find_of_peer(const struct keeper *k, const struct peer *peer, uint32_t stream)
{
    for (struct relay *r = k->relays; r != NULL; r = r->next)
        if (r->peer == peer && r->peer_stream == stream)
            return r;
    return NULL;
}

static void relay_free(struct relay *r)
{
    if (r->call != NULL)
        r->call->relay = NULL;
    buffer_free(&r->up.bytes);
    buffer_free(&r->down.bytes);
    free(r);
}

void relays_free(struct keeper *k)
{
    while (k->relays != NULL) {
        struct relay *r = k->relays;
        k->relays = r->next;
        relay_free(r);
    }
}

/* ---- bytes ---- */

/* What a side takes now; the other's credit goes back with it. Returns how much. */
static size_t pump(struct flow *flow, struct channel *to, uint32_t stream, uint8_t channel)
{
    size_t left = flow->bytes.length - flow->sent, before = left, room;
    while (left > 0 && (room = channel_data_room(to, stream)) > 0) {
        size_t piece = left < room ? left : room;
        channel_send_data(to, channel, stream, flow->bytes.data + flow->sent, piece);
        flow->sent += piece;
        left -= piece;
    }
    if (left == 0)
        flow->sent = flow->bytes.length = 0;
    else if (flow->sent >= CONSUME_ABOVE) {
        buffer_consume(&flow->bytes, flow->sent);
        flow->sent = 0;
    }
    return before - left;
}

static bool is_due(const struct flow *flow)
{
    return flow->bytes.length == 0 && flow->ends && !flow->end_sent;
}

static void pump_up(struct keeper *k, struct relay *r)
{
    if (r->closed || k->agent_gone)
        return;
    size_t moved = pump(&r->up, k->agent, r->stream, 0);
    if (moved > 0 && r->peer != NULL)
        channel_grant(peer_channel(r->peer), r->peer_stream, moved);
    k->relayed |= moved > 0;
    if (!is_due(&r->up))
        return;
    channel_send_after_data(k->agent, FRAME_END, 0, r->stream, NULL, 0);
    r->up.end_sent = true;
}

static void pump_down(struct keeper *k, struct relay *r)
{
    if (r->peer == NULL || !r->streams)
        return;
    size_t moved = pump(&r->down, peer_channel(r->peer), r->peer_stream, 1);
    if (moved > 0 && !r->closed)
        channel_grant(k->agent, r->stream, moved);
    k->relayed |= moved > 0;
    if (!is_due(&r->down))
        return;
    char broken = !r->whole;
    channel_send_after_data(peer_channel(r->peer), FRAME_CLOSE, 0, r->peer_stream, &broken, 1);
    channel_forget(peer_channel(r->peer), r->peer_stream);
    r->down.end_sent = true;
}

void relays_pump(struct keeper *k)
{
    for (struct relay *r = k->relays; r != NULL; r = r->next) {
        pump_up(k, r);
        pump_down(k, r);
    }
}

/* ---- from the worker ---- */

void relay_peer_data(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                     size_t length)
{
    struct relay *r = find_of_peer(k, peer, frame->stream);
    if (r == NULL || r->closed || (frame->flags & FRAME_CHANNEL) != 0) { /* it crossed an answer */
        channel_forget(peer_channel(peer), frame->stream);
        return;
    }
    buffer_append(&r->up.bytes, data, length);
    pump_up(k, r);
}

void relay_peer_end(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                    size_t length)
{
    struct relay *r = find_of_peer(k, peer, frame->stream);
    (void)data;
    (void)length;
    if (r == NULL || (frame->flags & FRAME_CHANNEL) != 0)
        return;
    r->up.ends = true;
    pump_up(k, r);
}

/* Nobody waits for it any more: the agent ends it, and its CLOSE ends the relay. */
static void abandon(struct keeper *k, struct relay *r)
{
    r->peer = NULL;
    if (r->call != NULL)
        r->call->peer = NULL;
    buffer_free(&r->up.bytes);
    buffer_free(&r->down.bytes);
    r->up = r->down = (struct flow){ 0 };
    if (r->closed || k->agent_gone)
        return;
    channel_send(k->agent, FRAME_CLOSE, 0, r->stream, NULL, 0);
    k->relayed = true; /* it is to be written in this turn */
}

void relay_peer_close(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                      size_t length)
{
    struct relay *r = find_of_peer(k, peer, frame->stream);
    (void)data;
    (void)length;
    if (r != NULL)
        abandon(k, r);
}

void relays_peer_gone(struct keeper *k, const struct peer *peer)
{
    for (struct relay *r = k->relays; r != NULL; r = r->next)
        if (r->peer == peer)
            abandon(k, r);
}

/* ---- from the agent ---- */

static void answer(struct relay *r, const json_t *ret, const struct error *err)
{
    struct keeper_call *call = STEAL(r->call);
    if (call == NULL)
        return;
    call->relay = NULL;
    keeper_reply(call, ret, err);
}

/* The agent's words go on as they are, once it is seen that they are bounded JSON: parsing and printing a
 * large answer again would take longer than all else. */
static void on_reply(struct relay *r, const char *data, size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct keeper_call *call = r->call;
    if (call == NULL)
        return;
    if (field_scan_json(data, length, &err) < 0) {
        answer(r, NULL, &err);
        return;
    }
    if (call->peer != NULL)
        channel_send(peer_channel(call->peer), FRAME_REPLY, 0, call->stream, data, length);
    r->call = NULL;
    call->relay = NULL;
    call->peer = NULL; /* it is answered */
    keeper_reply(call, NULL, NULL);
}

static void on_data(struct keeper *k, struct relay *r, const struct frame *frame, const char *data,
                    size_t length)
{
    if (!r->streams || r->peer == NULL || (frame->flags & FRAME_CHANNEL) != 1) {
        channel_grant(k->agent, r->stream, length);
        return;
    }
    buffer_append(&r->down.bytes, data, length);
    pump_down(k, r);
}

static void on_close(struct keeper *k, struct relay *r, const char *data, size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, ERROR_UNAVAILABLE, "the sandbox ended the file operation without an answer");
    answer(r, NULL, &err);
    r->closed = r->down.ends = true;
    r->whole = length == 1 && data[0] == 0;
    channel_forget(k->agent, r->stream);
    pump_down(k, r);
    life_active(k);
}

void relay_agent_frame(struct keeper *k, const struct frame *frame, const char *data, size_t length)
{
    struct relay *r = find(k, frame->stream);
    if (r == NULL || r->closed) {
        channel_forget(k->agent, frame->stream);
        return;
    }
    if (frame->type == FRAME_REPLY)
        on_reply(r, data, length);
    else if (frame->type == FRAME_DATA)
        on_data(k, r, frame, data, length);
    else if (frame->type == FRAME_CLOSE)
        on_close(k, r, data, length);
}

static bool is_over(const struct relay *r)
{
    return r->closed && (!r->streams || r->peer == NULL || r->down.end_sent);
}

void relays_reap(struct keeper *k)
{
    for (struct relay **link = &k->relays; *link != NULL;) {
        struct relay *r = *link;
        if (!is_over(r)) {
            link = &r->next;
            continue;
        }
        *link = r->next;
        if (r->peer != NULL && !r->streams)
            channel_forget(peer_channel(r->peer), r->peer_stream);
        k->relay_count--;
        relay_free(r);
    }
}

/* ---- for the operations ---- */

uint32_t relay_next_stream(struct keeper *k)
{
    do
        k->last_relay = RELAY_STREAMS | (k->last_relay + 1);
    while (find(k, k->last_relay) != NULL || watch_knows(k, k->last_relay));
    return k->last_relay;
}

int keeper_file_call(struct keeper_call *call, json_t *request, struct error *err)
{
    struct keeper *k = keeper_of(call);
    json_auto_t *message = request;
    if (k->stop.wanted || k->agent_gone)
        return error_set(err, ERROR_UNAVAILABLE, "the workspace is stopping");
    if (k->relay_count >= RELAYS_MAX) {
        error_set(err, ERROR_TOO_MANY, "%d file operations are under way in this workspace", RELAYS_MAX);
        if (err != NULL)
            err->retry_after = 1;
        return -1;
    }
    uint32_t stream = relay_next_stream(k);
    json_object_set_new(message, "op", json_string("file"));
    if (!channel_send_json(k->agent, FRAME_REQUEST, stream, message))
        return error_set(err, ERROR_TOO_LARGE, "the request is larger than one may be");
    struct relay *r = xcalloc(1, sizeof(*r));
    *r = (struct relay){ .next = k->relays,
                         .stream = stream,
                         .call = call,
                         .peer = call->peer,
                         .streams = call->streams,
                         .peer_stream = call->stream };
    k->relays = call->relay = r;
    k->relay_count++;
    return 1;
}

void relay_call_over(struct keeper_call *call)
{
    if (call->relay != NULL)
        call->relay->call = NULL;
}
