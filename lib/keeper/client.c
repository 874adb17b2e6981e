/* Requests and subscriptions of a worker on keepers and on the warden: numbers them, keeps their deadlines,
 * hands answers out. Connections are client_link.c's. It must not know what an operation means, and it never
 * blocks. */
#include "lib/keeper/client.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/keeper/client_state.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define WARDEN_TIMEOUT_MS 30000
#define CREATE_TIMEOUT_MS 18000
#define TURN_EVENTS       64

struct keeper_client *keeper_client_new(const struct config *config, keeper_ensure *ensure, void *user)
{
    struct keeper_client *c = xcalloc(1, sizeof(*c));
    c->config = config;
    c->ensure = ensure;
    c->ensure_user = user;
    TAILQ_INIT(&c->pendings);
    c->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (poller_open(&c->poller) < 0 || c->timer_fd < 0 ||
        poller_add(&c->poller, c->timer_fd, EPOLLIN, NULL) < 0) {
        log_error("no descriptors for the connections to keepers");
        abort();
    }
    return c;
}

static void watch_free(struct watch *w)
{
    struct keeper_subscription *s;
    while ((s = LIST_FIRST(&w->subscriptions)) != NULL) {
        LIST_REMOVE(s, entry);
        free(s);
    }
    LIST_REMOVE(w, entry);
    free(w);
}

static void pending_free(struct pending *p)
{
    if (p->link)
        LIST_REMOVE(p, in_link);
    free(p->text);
    json_decref(p->data);
    error_clear(&p->error);
    free(p);
}

void keeper_client_free(struct keeper_client *c)
{
    if (!c)
        return;
    struct pending *p;
    while ((p = TAILQ_FIRST(&c->pendings)) != NULL) {
        TAILQ_REMOVE(&c->pendings, p, in_client);
        pending_free(p);
    }
    for (size_t i = 0; i < LINK_BUCKETS; i++) {
        struct client_link *l;
        while ((l = SLIST_FIRST(&c->buckets[i])) != NULL) {
            SLIST_REMOVE_HEAD(&c->buckets[i], in_bucket);
            while (!LIST_EMPTY(&l->watches))
                watch_free(LIST_FIRST(&l->watches));
            client_link_free(l);
        }
    }
    while (!LIST_EMPTY(&c->orphans))
        watch_free(LIST_FIRST(&c->orphans));
    while (!LIST_EMPTY(&c->told))
        watch_free(LIST_FIRST(&c->told));
    close(c->timer_fd);
    poller_close(&c->poller);
    free(c);
}

int keeper_client_fd(const struct keeper_client *c)
{
    return c->poller.epoll_fd;
}

bool keeper_client_needs_turns(const struct keeper_client *c)
{
    return c->poller.n_extras > 0;
}

/* The timer only ever moves nearer here; the turn that it wakes finds the next deadline. */
void client_arm(struct keeper_client *c, int64_t at_ms)
{
    if (c->armed_ms != 0 && c->armed_ms <= at_ms)
        return;
    c->armed_ms = at_ms;
    struct itimerspec when = { .it_value = { .tv_sec = at_ms / 1000,
                                             .tv_nsec = at_ms % 1000 * 1000000 + 1 } };
    timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- requests ---- */

char *client_message(json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    if (!text)
        abort();
    return text;
}

struct pending *client_pend(struct keeper_client *c, struct client_link *l, char *text, int64_t timeout_ms,
                            keeper_answer *answer, void *user)
{
    struct pending *p = xcalloc(1, sizeof(*p));
    p->link = l;
    p->number = ++c->last_number;
    p->text = text;
    p->length = strlen(text);
    p->deadline_ms = clock_boottime_ms() + timeout_ms;
    p->answer = answer;
    p->user = user;
    TAILQ_INSERT_TAIL(&c->pendings, p, in_client);
    LIST_INSERT_HEAD(&l->pendings, p, in_link);
    client_arm(c, p->deadline_ms);
    return p;
}

void client_fail(struct pending *p, const struct error *err)
{
    struct keeper_client *c = p->link->client;
    client_link_forget(p->link, p, true);
    LIST_REMOVE(p, in_link);
    p->link = NULL;
    error_set(&p->error, err->code, "%s", err->message);
    p->error.retry_after = err->retry_after;
    c->has_failed = true;
    client_arm(c, clock_boottime_ms());
}

static void take_out(struct pending *p)
{
    if (!p->link)
        return;
    p->link->used_ms = clock_boottime_ms();
    client_link_forget(p->link, p, false);
    TAILQ_REMOVE(&p->link->client->pendings, p, in_client);
}

void client_end(struct pending *p, bool whole)
{
    const struct keeper_transfer *transfer = p->transfer;
    void *user = p->user;
    take_out(p);
    pending_free(p);
    transfer->end(user, whole);
}

void client_finish(struct pending *p, const json_t *ret, const struct error *err)
{
    if (p->answered) {
        client_end(p, false);
        return;
    }
    keeper_answer *answer = p->answer;
    void *user = p->user;
    struct error copy = err ? *err : (struct error)ERROR_INIT;
    if (err && copy.detail)
        json_incref(copy.detail);
    take_out(p);
    pending_free(p);
    answer(user, err ? NULL : ret, err ? &copy : NULL);
    error_clear(&copy);
}

struct ask {
    int64_t timeout_ms, patience_ms;
    bool start, repeatable;
    json_t *data;
    const struct keeper_transfer *transfer;
};

static uint64_t push(struct keeper_client *c, const char *workspace_id, json_t *message,
                     const struct ask *ask, keeper_answer *answer, void *user)
{
    struct client_link *l = client_link_get(c, workspace_id);
    struct pending *p = client_pend(c, l, client_message(message), ask->timeout_ms, answer, user);
    uint64_t number = p->number;
    p->start = ask->start;
    p->repeatable = ask->repeatable;
    p->patience_ms = ask->patience_ms;
    p->data = json_incref(ask->data);
    p->transfer = ask->transfer;
    p->silence_ms = ask->timeout_ms;
    if (p->length > FRAME_MESSAGE_MAX) {
        _cleanup_error_ struct error err = ERROR_INIT;
        error_set(&err, ERROR_TOO_LARGE, "the request is larger than %u bytes", FRAME_MESSAGE_MAX);
        client_fail(p, &err);
    } else {
        client_link_push(l, p);
    }
    return number;
}

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text)
        json_object_set_new(object, name, json_string(text));
}

uint64_t keeper_client_request(struct keeper_client *c, const struct keeper_request *request,
                               keeper_answer *answer, void *user)
{
    json_t *message = json_object();
    set_text(message, "operation", request->operation);
    json_object_set(message, "in", (json_t *)request->in);
    set_text(message, "principal", request->principal);
    set_text(message, "request_id", request->request_id);
    set_text(message, "key", request->idempotency_key);
    set_text(message, "digest", request->digest);
    if (request->twice)
        json_object_set_new(message, "twice", json_true());
    if (request->data)
        json_object_set_new(message, "data", json_integer((json_int_t)json_string_length(request->data)));
    if (request->transfer)
        json_object_set_new(message, "streams", json_true());
    struct ask ask = { .timeout_ms = request->timeout_ms,
                       .patience_ms = request->patience_ms,
                       .start = request->start,
                       .repeatable = request->idempotency_key != NULL,
                       .data = (json_t *)request->data,
                       .transfer = request->transfer };
    return push(c, request->workspace_id, message, &ask, answer, user);
}

/* ---- transfers ---- */

/* One that is on its way now; NULL where it is not. */
static struct pending *find_transfer(struct keeper_client *c, uint64_t number)
{
    struct pending *p;
    TAILQ_FOREACH(p, &c->pendings, in_client) {
        if (p->number == number)
            return p->transfer && p->link && p->link->phase == LINK_UP && !p->link->broken && p->stream != 0
                       ? p
                       : NULL;
    }
    return NULL;
}

static void touch(struct pending *p)
{
    p->deadline_ms = clock_boottime_ms() + p->silence_ms;
}

void keeper_client_want_room(struct keeper_client *c, uint64_t number)
{
    struct pending *p;
    TAILQ_FOREACH(p, &c->pendings, in_client) {
        if (p->number == number)
            p->wants_room = true;
    }
    client_arm(c, clock_boottime_ms()); /* there may be room, and nothing comes that says so */
}

size_t keeper_client_room(struct keeper_client *c, uint64_t number)
{
    struct pending *p = find_transfer(c, number);
    return p && channel_is_ready(p->link->channel) ? channel_data_room(p->link->channel, p->stream) : 0;
}

void keeper_client_send(struct keeper_client *c, uint64_t number, const char *data, size_t length)
{
    struct pending *p = find_transfer(c, number);
    if (!p)
        return;
    p->gave = true;
    touch(p);
    channel_send_data(p->link->channel, 0, p->stream, data, length);
    client_link_flush(p->link);
}

void keeper_client_send_end(struct keeper_client *c, uint64_t number)
{
    struct pending *p = find_transfer(c, number);
    if (!p)
        return;
    p->gave = true;
    touch(p);
    channel_send_after_data(p->link->channel, FRAME_END, 0, p->stream, NULL, 0);
    client_link_flush(p->link);
}

void keeper_client_grant(struct keeper_client *c, uint64_t number, size_t bytes)
{
    struct pending *p = find_transfer(c, number);
    if (!p)
        return;
    touch(p);
    channel_grant(p->link->channel, p->stream, bytes);
    client_link_flush(p->link);
}

void keeper_client_cancel(struct keeper_client *c, uint64_t number)
{
    struct pending *p;
    TAILQ_FOREACH(p, &c->pendings, in_client) {
        if (p->number != number)
            continue;
        if (p->link)
            client_link_forget(p->link, p, true);
        TAILQ_REMOVE(&c->pendings, p, in_client);
        pending_free(p);
        return;
    }
}

/* idempotency: stolen, NULL = none. */
static uint64_t create(struct keeper_client *c, const json_t *record, json_t *idempotency,
                       keeper_answer *answer, void *user)
{
    json_t *message = json_pack("{s:s, s:O}", "op", "create", "record", record);
    struct ask ask = { .timeout_ms = CREATE_TIMEOUT_MS, .repeatable = idempotency != NULL };
    if (idempotency)
        json_object_set_new(message, "idempotency", idempotency);
    return push(c, "", message, &ask, answer, user);
}

uint64_t keeper_client_create(struct keeper_client *c, const json_t *record, const char *principal,
                              const char *key, const char *digest, keeper_answer *answer, void *user)
{
    json_t *idempotency =
        key ? json_pack("{s:s, s:s, s:s}", "principal", principal, "key", key, "digest", digest) : NULL;
    return create(c, record, idempotency, answer, user);
}

uint64_t keeper_client_create_by_name(struct keeper_client *c, const json_t *record, keeper_answer *answer,
                                      void *user)
{
    return create(c, record, json_pack("{s:b}", "by_name", 1), answer, user);
}

/* flags: members that are true; NULL = none. */
static uint64_t ask_warden(struct keeper_client *c, const char *op, const char *workspace_id,
                           const char *const *flags, keeper_answer *answer, void *user)
{
    json_t *message = json_pack("{s:s, s:s}", "op", op, "workspace_id", workspace_id);
    struct ask ask = { .timeout_ms = WARDEN_TIMEOUT_MS, .repeatable = true };
    for (const char *const *flag = flags; flag && *flag; flag++)
        json_object_set_new(message, *flag, json_true());
    return push(c, "", message, &ask, answer, user);
}

uint64_t keeper_client_start(struct keeper_client *c, const char *workspace_id, keeper_answer *answer,
                             void *user)
{
    return ask_warden(c, "start", workspace_id, NULL, answer, user);
}

uint64_t keeper_client_remove(struct keeper_client *c, const char *workspace_id, bool force,
                              keeper_answer *answer, void *user)
{
    static const char *const forced[] = { "force", NULL };
    return ask_warden(c, "remove", workspace_id, force ? forced : NULL, answer, user);
}

static void nobody(void *user, const json_t *ret, const struct error *err)
{
    (void)user;
    (void)ret;
    if (err && err->code != ERROR_NOT_FOUND)
        log_warning("a workspace that nobody waits for is not removed: %s", err->message);
}

void keeper_client_take_back(struct keeper_client *c, const char *workspace_id)
{
    static const char *const flags[] = { "force", "unwanted", NULL };
    ask_warden(c, "remove", workspace_id, flags, nobody, NULL);
}

/* ---- subscriptions ---- */

struct keeper_subscription *keeper_client_subscribe(struct keeper_client *c, const char *workspace_id,
                                                    const char *exec_id, keeper_changed *changed, void *user)
{
    struct client_link *l = client_link_get(c, workspace_id);
    struct watch *w;
    LIST_FOREACH(w, &l->watches, entry) {
        if (strcmp(w->exec_id, exec_id) == 0)
            break;
    }
    if (!w) {
        w = xcalloc(1, sizeof(*w));
        w->client = c;
        snprintf(w->exec_id, sizeof(w->exec_id), "%s", exec_id);
        client_link_watch(l, w);
    }
    struct keeper_subscription *s = xcalloc(1, sizeof(*s));
    s->watch = w;
    s->changed = changed;
    s->user = user;
    LIST_INSERT_HEAD(&w->subscriptions, s, entry);
    return s;
}

void keeper_client_unsubscribe(struct keeper_subscription *s)
{
    struct watch *w = s->watch;
    if (w->client->next_told == s)
        w->client->next_told = LIST_NEXT(s, entry);
    LIST_REMOVE(s, entry);
    free(s);
    if (!LIST_EMPTY(&w->subscriptions))
        return;
    if (w->link)
        client_link_unwatch(w->link, w);
    watch_free(w);
}

/* A callback may unsubscribe anybody, itself too, so that w may be gone after the last one. */
void client_tell(struct keeper_client *c, struct watch *w, bool gone)
{
    for (struct keeper_subscription *s = LIST_FIRST(&w->subscriptions); s; s = c->next_told) {
        c->next_told = LIST_NEXT(s, entry);
        s->changed(s->user, gone);
    }
    c->next_told = NULL;
}

static void tell_orphans(struct keeper_client *c)
{
    struct watch *w;
    while ((w = LIST_FIRST(&c->orphans)) != NULL) {
        LIST_REMOVE(w, entry);
        LIST_INSERT_HEAD(&c->told, w, entry);
        client_tell(c, w, true);
    }
}

/* ---- a turn ---- */

static void answer_failed(struct keeper_client *c)
{
    while (c->has_failed) {
        c->has_failed = false;
        struct pending *p;
        TAILQ_FOREACH(p, &c->pendings, in_client) {
            if (!p->link)
                break;
        }
        if (!p)
            return;
        TAILQ_REMOVE(&c->pendings, p, in_client);
        c->has_failed = true;
        struct error err = ERROR_INIT;
        error_move(&err, &p->error);
        client_finish(p, NULL, &err);
        error_clear(&err);
    }
}

static int64_t due(const struct pending *p)
{
    bool counts = p->stream != 0 && p->patience_ms != 0 && !p->link->retiring;
    int64_t at = counts ? p->sent_ms + p->patience_ms : INT64_MAX;
    return at < p->deadline_ms ? at : p->deadline_ms;
}

/* Fails what is overdue; returns the next deadline, 0 = none. */
static int64_t expire(struct keeper_client *c, int64_t now_ms)
{
    int64_t next = 0;
    struct pending *p;
    TAILQ_FOREACH(p, &c->pendings, in_client) {
        if (!p->link)
            continue;
        int64_t at = due(p);
        if (at <= now_ms) {
            _cleanup_error_ struct error err = ERROR_INIT;
            error_set(&err, ERROR_TIMEOUT, "the workspace did not answer in time");
            client_fail(p, &err);
        } else if (next == 0 || at < next) {
            next = at;
        }
    }
    return next;
}

static void tick(struct keeper_client *c)
{
    int64_t now = clock_boottime_ms();
    c->armed_ms = 0;
    int64_t next = expire(c, now);
    for (size_t i = 0; i < LINK_BUCKETS; i++) {
        struct client_link *l = SLIST_FIRST(&c->buckets[i]);
        while (l) {
            struct client_link *following = SLIST_NEXT(l, in_bucket);
            int64_t at = client_link_tick(l, now);
            if (at != 0 && (next == 0 || at < next))
                next = at;
            if (l->phase == LINK_DOWN && LIST_EMPTY(&l->pendings) && LIST_EMPTY(&l->watches)) {
                SLIST_REMOVE(&c->buckets[i], l, client_link, in_bucket);
                client_link_free(l);
            }
            l = following;
        }
    }
    if (next != 0)
        client_arm(c, next);
}

void keeper_client_turn(struct keeper_client *c)
{
    struct epoll_event events[TURN_EVENTS];
    int count = poller_wait(&c->poller, events, TURN_EVENTS, 0);
    bool timer = false;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            client_link_ready(events[i].data.ptr, events[i].events);
        else
            timer = true;
    }
    if (timer) {
        uint64_t expirations;
        if (read(c->timer_fd, &expirations, sizeof(expirations)) > 0)
            tick(c);
    }
    answer_failed(c);
    tell_orphans(c);
}
