/* Workers' requests and subscriptions on run/<ws>.sock. A request names an operation; what that does comes in
 * by keeper_options.dispatch. */
#include "lib/keeper/internal.h"
#include "lib/schema/field.h"

/* ---- calls ---- */

struct keeper *keeper_of(struct keeper_call *call)
{
    return call->keeper;
}

const char *keeper_call_principal(const struct keeper_call *call)
{
    return call->principal;
}

const char *keeper_call_idempotency_key(const struct keeper_call *call)
{
    return call->key;
}

const char *keeper_call_digest(const struct keeper_call *call)
{
    return call->digest;
}

const char *keeper_call_request_id(const struct keeper_call *call)
{
    return call->request_id;
}

bool keeper_call_twice(const struct keeper_call *call)
{
    return call->twice;
}

int64_t keeper_call_data(const struct keeper_call *call)
{
    return call->data;
}

static char *copy_member(const json_t *message, const char *name)
{
    const char *text = json_string_value(json_object_get(message, name));
    return text != NULL ? xstrdup(text) : NULL;
}

static struct keeper_call *call_new(struct keeper *k, struct peer *peer, uint32_t stream,
                                    const json_t *message)
{
    struct keeper_call *call = xcalloc(1, sizeof(*call));
    const json_t *data = json_object_get(message, "data");
    *call = (struct keeper_call){ .next = k->calls,
                                  .keeper = k,
                                  .peer = peer,
                                  .stream = stream,
                                  .principal = copy_member(message, "principal"),
                                  .request_id = copy_member(message, "request_id"),
                                  .key = copy_member(message, "key"),
                                  .digest = copy_member(message, "digest"),
                                  .twice = json_is_true(json_object_get(message, "twice")),
                                  .streams = json_is_true(json_object_get(message, "streams")),
                                  .data = json_is_integer(data) ? json_integer_value(data) : -1 };
    k->calls = call;
    return call;
}

static void call_free(struct keeper_call *call)
{
    struct keeper_call **link = &call->keeper->calls;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    relay_call_over(call);
    watch_call_over(call->keeper, call);
    free(call->principal);
    free(call->request_id);
    free(call->key);
    free(call->digest);
    free(call);
}

void keeper_reply(struct keeper_call *call, const json_t *ret, const struct error *err)
{
    if (call->peer != NULL)
        channel_send_reply(peer_channel(call->peer), call->stream, ret, err);
    call_free(call);
}

void server_fail_calls(struct keeper *k, const struct error *err)
{
    while (k->calls != NULL)
        keeper_reply(k->calls, NULL, err);
}

/* ---- requests ---- */

static void dispatch(struct keeper *k, struct peer *peer, uint32_t stream, const json_t *message,
                     const char *operation)
{
    struct keeper_call *call = call_new(k, peer, stream, message);
    json_auto_t *ret = NULL;
    _cleanup_error_ struct error err = ERROR_INIT;
    int rc = k->options->dispatch(call, operation, json_object_get(message, "in"), &ret, &err);
    if (rc <= 0)
        keeper_reply(call, rc == 0 ? ret : NULL, rc == 0 ? NULL : &err);
}

static void on_request(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                       size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *message = field_parse_json(data, length, &err);
    const char *operation = json_string_value(json_object_get(message, "operation"));
    if (k->stop.wanted ||
        box_is_over(k)) { /* not taken in: the sender may start the workspace again and repeat it */
        channel_send(peer_channel(peer), FRAME_CLOSE, 0, frame->stream, NULL, 0);
        return;
    }
    life_active(k);
    if (operation == NULL)
        peer_refuse(peer, frame->stream, ERROR_INVALID,
                    message != NULL ? "a request needs an operation" : err.message);
    else
        dispatch(k, peer, frame->stream, message, operation);
}

/* ---- subscriptions ---- */

/* One NOTIFY of a subscription lies in the queue of a slow worker, never more. */
static void notify_one(struct subscription *s)
{
    if (s->queued) {
        s->dirty = true;
        return;
    }
    s->queued = true;
    s->dirty = false;
    channel_send(peer_channel(s->peer), FRAME_NOTIFY, 0, s->stream, NULL, 0);
}

static void on_subscribe(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                         size_t length)
{
    if (length != ID_SIZE - 1 || k->subscription_count >= KEEPER_SUBSCRIPTIONS_MAX) {
        peer_drop(peer);
        return;
    }
    struct subscription *s = xcalloc(1, sizeof(*s));
    s->peer = peer;
    s->stream = frame->stream;
    memcpy(s->id, data, length);
    s->next = k->subscriptions;
    k->subscriptions = s;
    k->subscription_count++;
    notify_one(s);
}

typedef bool subscription_match(const struct subscription *s, const struct peer *peer, uint32_t stream);

static bool matches_stream(const struct subscription *s, const struct peer *peer, uint32_t stream)
{
    return s->peer == peer && s->stream == stream;
}

static bool matches_peer(const struct subscription *s, const struct peer *peer, uint32_t stream)
{
    (void)stream;
    return s->peer == peer;
}

static void unsubscribe(struct keeper *k, subscription_match *match, const struct peer *peer, uint32_t stream)
{
    for (struct subscription **link = &k->subscriptions; *link != NULL;) {
        struct subscription *s = *link;
        if (!match(s, peer, stream)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        k->subscription_count--;
        free(s);
    }
}

static void on_unsubscribe(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                           size_t length)
{
    (void)data;
    (void)length;
    unsubscribe(k, matches_stream, peer, frame->stream);
}

void server_notify(struct keeper *k, const char *id)
{
    for (struct subscription *s = k->subscriptions; s != NULL; s = s->next)
        if (memcmp(s->id, id, ID_SIZE) == 0)
            notify_one(s);
}

/* ---- the socket ---- */

typedef void on_frame(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                      size_t length);
static on_frame *const handlers[FRAME_TYPE_COUNT] = {
    [FRAME_REQUEST] = on_request,   [FRAME_SUBSCRIBE] = on_subscribe, [FRAME_UNSUBSCRIBE] = on_unsubscribe,
    [FRAME_DATA] = relay_peer_data, [FRAME_END] = relay_peer_end,     [FRAME_CLOSE] = relay_peer_close,
};

static void peer_frame(void *user, struct peer *peer, const struct frame *frame, const char *data,
                       size_t length)
{
    on_frame *handler = frame->type < FRAME_TYPE_COUNT ? handlers[frame->type] : NULL;
    if (handler != NULL)
        handler(user, peer, frame, data, length);
}

static void peer_drained(void *user, struct peer *peer)
{
    struct keeper *k = user;
    for (struct subscription *s = k->subscriptions; s != NULL; s = s->next) {
        if (s->peer != peer)
            continue;
        s->queued = false;
        if (s->dirty)
            notify_one(s);
    }
}

static void peer_gone(void *user, struct peer *peer)
{
    struct keeper *k = user;
    unsubscribe(k, matches_peer, peer, 0);
    for (struct keeper_call *call = k->calls; call != NULL; call = call->next)
        if (call->peer == peer)
            call->peer = NULL;
    relays_peer_gone(k, peer);
}

const struct peers_handlers server_handlers = { .frame = peer_frame,
                                                .drained = peer_drained,
                                                .gone = peer_gone };
