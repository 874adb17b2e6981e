/* One connection of a worker to a keeper or to the warden: opened when there is business, started through the
 * warden where nobody listens, closed when idle. It knows frames and phases, not what requests mean. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/json_text.h"
#include "lib/base/log.h"
#include "lib/keeper/client_state.h"

#include <stdio.h>
#include <sys/epoll.h>

#define IDLE_MS          60000
#define ENSURE_EVERY_MS  2000
#define WARDEN_WAIT_MS   8000
#define START_TIMEOUT_MS 20000
#define START_ATTEMPTS   5
#define READ_LIMIT       (256 << 10)
#define ROOM_LEAST       (64 << 10) /* less is not told of */

static void client_link_open(struct client_link *l);

static bool is_warden(const struct client_link *l)
{
    return l->workspace_id[0] == '\0';
}

/* The ids are random, so that one of their bytes is a fair hash; an odd id only makes its bucket longer. */
static size_t bucket_of(const char *workspace_id)
{
    unsigned value = 0;
    if (strlen(workspace_id) > 4)
        sscanf(workspace_id + 3, "%2x", &value);
    return value % LINK_BUCKETS;
}

struct client_link *client_link_get(struct keeper_client *c, const char *workspace_id)
{
    size_t bucket = bucket_of(workspace_id);
    struct client_link *l;
    SLIST_FOREACH(l, &c->buckets[bucket], in_bucket)
    {
        if (strcmp(l->workspace_id, workspace_id) == 0)
            return l;
    }
    l = xcalloc(1, sizeof(*l));
    l->client = c;
    snprintf(l->workspace_id, sizeof(l->workspace_id), "%s", workspace_id);
    l->used_ms = clock_boottime_ms();
    SLIST_INSERT_HEAD(&c->buckets[bucket], l, in_bucket);
    return l;
}

/* Leaves the set by name: a child between fork and exec may keep the closed descriptor's file alive. */
static void close_channel(struct client_link *l)
{
    poller_remove(&l->client->poller, channel_fd(l->channel));
    channel_free(STEAL(l->channel));
    l->phase = LINK_DOWN;
    l->broken = false;
}

void client_link_free(struct client_link *l)
{
    if (l->channel)
        close_channel(l);
    free(l);
}

/* ---- sending ---- */

static uint32_t next_stream(struct client_link *l)
{
    if (++l->last_stream == 0)
        l->last_stream = 1;
    return l->last_stream;
}

/* What of p's data the keeper takes now. Returns whether that was something. */
static bool push_data(struct client_link *l, struct pending *p)
{
    size_t length = json_string_length(p->data), room, before = p->data_sent;
    if (p->stream == 0 || p->data == NULL || p->data_ended)
        return false;
    while (p->data_sent < length && (room = channel_data_room(l->channel, p->stream)) > 0) {
        size_t left = length - p->data_sent, piece = left < room ? left : room;
        channel_send_data(l->channel, 0, p->stream, json_string_value(p->data) + p->data_sent, piece);
        p->data_sent += piece;
    }
    if (p->data_sent == length) {
        channel_send_after_data(l->channel, FRAME_END, 0, p->stream, NULL, 0);
        p->data_ended = true;
    }
    return p->data_sent > before || p->data_ended;
}

static bool push_all_data(struct client_link *l)
{
    bool some = false;
    struct pending *p;
    LIST_FOREACH(p, &l->pendings, in_link)
        some |= push_data(l, p);
    return some;
}

void client_link_forget(struct client_link *l, struct pending *p, bool taken_back)
{
    uint32_t stream = p->stream;
    if (l->phase != LINK_UP || stream == 0)
        return;
    p->stream = 0; /* nothing more is pushed on it */
    channel_forget(l->channel, stream);
    if (!taken_back)
        return;
    channel_send(l->channel, FRAME_CLOSE, 0, stream, NULL, 0);
    client_link_flush(l);
}

/* What was written made room for more data. */
static int write_all(struct client_link *l)
{
    bool some;
    do {
        some = push_all_data(l);
        if (channel_write(l->channel, NULL) < 0)
            return -1;
    } while (some && (channel_events(l->channel) & EPOLLOUT) == 0);
    return 0;
}

void client_link_flush(struct client_link *l)
{
    if (l->phase != LINK_UP || l->broken)
        return;
    if (write_all(l) < 0) {
        l->broken = true;
        client_arm(l->client, clock_boottime_ms());
        return;
    }
    uint32_t wanted = channel_events(l->channel);
    if (wanted == l->interest)
        return;
    l->interest = wanted;
    poller_change(&l->client->poller, channel_fd(l->channel), wanted, l);
}

static void send_pending(struct client_link *l, struct pending *p)
{
    p->stream = next_stream(l);
    p->data_sent = 0;
    p->data_ended = false;
    p->sent_ms = clock_boottime_ms();
    if (p->patience_ms != 0)
        client_arm(l->client, p->sent_ms + p->patience_ms);
    channel_send(l->channel, FRAME_REQUEST, 0, p->stream, p->text, p->length);
}

static void send_watch(struct client_link *l, struct watch *w)
{
    w->stream = next_stream(l);
    channel_send(l->channel, FRAME_SUBSCRIBE, 0, w->stream, w->exec_id, strlen(w->exec_id));
}

static void send_waiting(struct client_link *l)
{
    struct pending *p;
    LIST_FOREACH(p, &l->pendings, in_link) {
        if (p->stream == 0)
            send_pending(l, p);
    }
    struct watch *w;
    LIST_FOREACH(w, &l->watches, entry) {
        if (w->stream == 0)
            send_watch(l, w);
    }
    client_link_flush(l);
}

/* ---- up and down ---- */

static void fail_all(struct client_link *l, const struct error *err)
{
    while (!LIST_EMPTY(&l->pendings))
        client_fail(LIST_FIRST(&l->pendings), err);
}

/* Nobody is there for the watches any more. */
static void orphan_watches(struct client_link *l)
{
    struct watch *w;
    while ((w = LIST_FIRST(&l->watches)) != NULL) {
        LIST_REMOVE(w, entry);
        w->link = NULL;
        w->stream = 0;
        LIST_INSERT_HEAD(&l->client->orphans, w, entry);
        client_arm(l->client, clock_boottime_ms());
    }
}

static int client_link_connect(struct client_link *l, struct error *err)
{
    char leaf[ID_SIZE + 8];
    snprintf(leaf, sizeof(leaf), "%s.sock", is_warden(l) ? "warden" : l->workspace_id);
    _cleanup_free_ char *path = config_path(l->client->config, "run", leaf);
    int fd = io_connect_unix(path, err);
    if (fd < 0)
        return -1;
    l->channel = channel_new(fd);
    l->interest = EPOLLIN | EPOLLOUT;
    if (poller_add(&l->client->poller, channel_fd(l->channel), l->interest, l) < 0) {
        channel_free(STEAL(l->channel));
        return error_set(err, ERROR_UNAVAILABLE, "no room for another connection");
    }
    l->phase = LINK_UP;
    l->broken = l->retiring = false;
    l->attempts = 0;
    l->retry_ms = l->give_up_ms = 0;
    l->used_ms = clock_boottime_ms();
    client_arm(l->client, l->used_ms + IDLE_MS);
    send_waiting(l);
    return 0;
}

static void retry_in(struct client_link *l, int64_t ms)
{
    l->phase = LINK_STARTING;
    l->retry_ms = clock_boottime_ms() + ms;
    client_arm(l->client, l->retry_ms);
}

/* Nobody listens at the warden's socket: get one started and knock again, soon and then less often. */
static void call_warden(struct client_link *l)
{
    struct keeper_client *c = l->client;
    int64_t now = clock_boottime_ms();
    if (l->give_up_ms == 0)
        l->give_up_ms = now + WARDEN_WAIT_MS;
    if (now >= l->give_up_ms) {
        _cleanup_error_ struct error err = ERROR_INIT;
        error_set(&err, ERROR_UNAVAILABLE, "the gateway's warden does not answer");
        l->phase = LINK_DOWN;
        l->give_up_ms = l->retry_ms = 0;
        l->attempts = 0;
        fail_all(l, &err);
        return;
    }
    if (c->ensure && (c->ensured_ms == 0 || now - c->ensured_ms >= ENSURE_EVERY_MS)) {
        c->ensured_ms = now;
        c->ensure(c->ensure_user);
    }
    l->attempts++;
    retry_in(l, l->attempts < 20 ? 10 : 100);
}

static void keeper_started(void *user, const json_t *ret, const struct error *err)
{
    (void)ret;
    struct client_link *l = user;
    if (err) {
        l->phase = LINK_DOWN;
        l->attempts = 0;
        fail_all(l, err);
        orphan_watches(l);
        return;
    }
    if (client_link_connect(l, NULL) < 0)
        retry_in(l, 20 << l->attempts); /* it ended at once, or does not listen yet */
}

static void start_keeper(struct client_link *l)
{
    l->phase = LINK_STARTING;
    l->retry_ms = 0;
    if (++l->attempts > START_ATTEMPTS) {
        _cleanup_error_ struct error err = ERROR_INIT;
        error_set(&err, ERROR_UNAVAILABLE, "the workspace ends as soon as it is started");
        keeper_started(l, NULL, &err);
        return;
    }
    struct keeper_client *c = l->client;
    struct client_link *warden = client_link_get(c, "");
    json_t *message = json_pack("{s:s, s:s}", "op", "start", "workspace_id", l->workspace_id);
    struct pending *p = client_pend(c, warden, client_message(message), START_TIMEOUT_MS, keeper_started, l);
    p->repeatable = true;
    client_link_push(warden, p);
}

static bool someone_starts(const struct client_link *l)
{
    const struct pending *p;
    LIST_FOREACH(p, &l->pendings, in_link) {
        if (p->start)
            return true;
    }
    return false;
}

/* Who may not start the workspace has nothing to wait for. */
static void fail_unstarted(struct client_link *l)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, ERROR_CONFLICT, "the workspace is stopped; its next command or call on files starts it");
    struct pending *p = LIST_FIRST(&l->pendings);
    while (p) {
        struct pending *following = LIST_NEXT(p, in_link);
        if (!p->start && p->stream == 0)
            client_fail(p, &err);
        p = following;
    }
}

/* No keeper listens: those who may not start it fail, the others have it started. */
static void keeper_missing(struct client_link *l)
{
    fail_unstarted(l);
    if (someone_starts(l)) {
        start_keeper(l);
        return;
    }
    l->phase = LINK_DOWN;
    orphan_watches(l);
}

static void client_link_open(struct client_link *l)
{
    if (client_link_connect(l, NULL) == 0)
        return;
    if (is_warden(l))
        call_warden(l);
    else
        keeper_missing(l);
}

/* What was sent to a peer that said hello may have been done; what the peer never read is tried again, once.
 */
static void client_link_down(struct client_link *l)
{
    bool greeted = channel_is_ready(l->channel);
    close_channel(l);
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, ERROR_UNAVAILABLE, "%s ended before it answered",
              is_warden(l) ? "the gateway's warden" : "the workspace's process in the gateway");
    err.retry_after = 1;
    struct pending *p = LIST_FIRST(&l->pendings);
    while (p) {
        struct pending *following = LIST_NEXT(p, in_link);
        if (p->gave || p->answered || (p->stream != 0 && ((greeted && !p->repeatable) || p->restarted))) {
            client_fail(p, &err);
        } else {
            p->restarted = p->restarted || p->stream != 0;
            p->stream = 0;
        }
        p = following;
    }
    orphan_watches(l);
    if (l->retiring) /* it was live when they came; whoever starts it again is not theirs to stop */
        fail_unstarted(l);
    if (!LIST_EMPTY(&l->pendings))
        client_link_open(l);
}

/* ---- what the client gives ---- */

/* True: what was put on it may be sent now. One that is down is opened, and then sends all that waits. */
static bool is_ready(struct client_link *l)
{
    l->used_ms = clock_boottime_ms();
    if (l->phase == LINK_DOWN) {
        client_link_open(l);
        return false;
    }
    return l->phase == LINK_UP && !l->retiring;
}

void client_link_push(struct client_link *l, struct pending *p)
{
    if (!is_ready(l))
        return;
    send_pending(l, p);
    client_link_flush(l);
}

void client_link_watch(struct client_link *l, struct watch *w)
{
    LIST_INSERT_HEAD(&l->watches, w, entry);
    w->link = l;
    if (!is_ready(l))
        return;
    send_watch(l, w);
    client_link_flush(l);
}

void client_link_unwatch(struct client_link *l, struct watch *w)
{
    l->used_ms = clock_boottime_ms();
    if (l->phase != LINK_UP || w->stream == 0)
        return;
    channel_send(l->channel, FRAME_UNSUBSCRIBE, 0, w->stream, NULL, 0);
    client_link_flush(l);
}

/* ---- receiving ---- */

static struct pending *find_stream(struct client_link *l, uint32_t stream)
{
    struct pending *p;
    LIST_FOREACH(p, &l->pendings, in_link) {
        if (p->stream == stream)
            return p;
    }
    return NULL; /* cancelled meanwhile */
}

/* What was given once cannot be given to the next keeper. */
static void put_back(struct pending *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, ERROR_UNAVAILABLE, "the workspace stopped meanwhile");
    if (p->gave || p->answered)
        client_fail(p, &err);
    else
        p->stream = 0;
}

/* The keeper stops and has not taken this request in; stream 0: nor will it any other. */
static void take_refusal(struct client_link *l, uint32_t stream)
{
    struct pending *p = stream != 0 ? find_stream(l, stream) : NULL;
    l->retiring = true;
    if (p)
        put_back(p);
}

static void take_end(struct client_link *l, uint32_t stream, bool whole)
{
    struct pending *p = find_stream(l, stream);
    if (p && p->answered)
        client_end(p, whole);
}

static void take_data(struct client_link *l, const struct frame *frame, const char *data, size_t length)
{
    struct pending *p = find_stream(l, frame->stream);
    if (!p || !p->answered) {
        channel_forget(l->channel, frame->stream);
        return;
    }
    p->deadline_ms = clock_boottime_ms() + p->silence_ms;
    p->transfer->data(p->user, data, length);
}

/* The keeper has answered all that it took in: the rest crossed its goodbye. */
static void take_farewell(struct client_link *l)
{
    l->retiring = true;
    for (struct pending *next, *p = LIST_FIRST(&l->pendings); p; p = next) {
        next = LIST_NEXT(p, in_link);
        put_back(p);
    }
}

static void take_reply(struct client_link *l, uint32_t stream, const char *data, size_t length)
{
    struct pending *p = find_stream(l, stream);
    if (!p)
        return;
    json_auto_t *reply = json_text_read(data, length, JSON_ALLOW_NUL, NULL);
    const json_t *packed = json_object_get(reply, "error");
    _cleanup_error_ struct error err = ERROR_INIT;
    if (packed || !reply)
        error_unpack(&err, packed);
    bool failed = packed || !reply;
    if (!failed && p->transfer) {
        p->answered = true;
        p->deadline_ms = clock_boottime_ms() + p->silence_ms;
        p->answer(p->user, json_object_get(reply, "ret"), NULL);
        return;
    }
    client_finish(p, failed ? NULL : json_object_get(reply, "ret"), failed ? &err : NULL);
}

static void take_notice(struct client_link *l, uint32_t stream)
{
    struct watch *w;
    LIST_FOREACH(w, &l->watches, entry) {
        if (w->stream == stream) {
            client_tell(l->client, w, false);
            return;
        }
    }
}

static void receive(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct client_link *l = user;
    if (frame->type == FRAME_REPLY)
        take_reply(l, frame->stream, data, length);
    else if (frame->type == FRAME_DATA)
        take_data(l, frame, data, length);
    else if (frame->type == FRAME_CLOSE && length == 1)
        take_end(l, frame->stream, data[0] == 0);
    else if (frame->type == FRAME_CLOSE)
        take_refusal(l, frame->stream);
    else if (frame->type == FRAME_END && frame->stream == 0)
        take_farewell(l);
    else if (frame->type == FRAME_NOTIFY)
        take_notice(l, frame->stream);
}

/* Whoever is told may end any of them. */
static void tell_room(struct client_link *l)
{
    struct pending *p;
    do {
        LIST_FOREACH(p, &l->pendings, in_link) {
            if (p->wants_room && p->stream != 0 && channel_is_ready(l->channel) &&
                channel_data_room(l->channel, p->stream) >= ROOM_LEAST)
                break;
        }
        if (p) {
            p->wants_room = false;
            p->transfer->room(p->user);
        }
    } while (p && l->phase == LINK_UP && !l->broken);
}

void client_link_ready(struct client_link *l, uint32_t epoll_events)
{
    if (l->phase != LINK_UP)
        return;
    _cleanup_error_ struct error err = ERROR_INIT;
    int got = 0;
    if (epoll_events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        got = channel_read(l->channel, READ_LIMIT, receive, l, &err);
    if (got < 0 && err.code != ERROR_NONE)
        log_debug("connection to %s: %s", is_warden(l) ? "the warden" : l->workspace_id, err.message);
    if (got == 0)
        client_link_flush(l);
    if (got == 0 && !l->broken)
        tell_room(l);
    if (got != 0 || l->broken)
        client_link_down(l);
}

int64_t client_link_tick(struct client_link *l, int64_t now_ms)
{
    if (l->broken)
        client_link_down(l);
    if (l->phase == LINK_UP && !l->broken)
        tell_room(l);
    if (l->retry_ms != 0 && l->retry_ms <= now_ms) {
        l->retry_ms = 0;
        if (is_warden(l))
            client_link_open(l);
        else
            start_keeper(l);
    }
    if (l->phase == LINK_UP && LIST_EMPTY(&l->pendings) && LIST_EMPTY(&l->watches)) {
        if (now_ms - l->used_ms < IDLE_MS)
            return l->used_ms + IDLE_MS;
        close_channel(l);
    }
    return l->retry_ms;
}
