/* Parked calls. An exec that somebody waits for has one watched record with one subscription; calls parked
 * alike (same operation, form and share text) are one parking, whose parameters are kept as JSON text, run
 * once for all of them when the exec changed. It knows neither what an operation reads nor who carries its
 * answer. */
#include "fcgi/wait.h"

#include "fcgi/away.h"
#include "fcgi/stream.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#include <stdio.h>

#define BUCKETS        256
#define RETRY_FIRST_MS 100 /* the keeper is gone: look again soon, then less often */
#define RETRY_MOST_MS  1000
#define LINGER_MS                                                                                            \
    10000 /* a subscription that nobody uses: the next poll of the same client often comes at once */
#define SSE_COMMENT_MS 15000

TAILQ_HEAD(flight_list, flight);

/* One exec that calls wait for. */
struct watched {
    LIST_ENTRY(watched) in_bucket;
    TAILQ_ENTRY(watched) in_dirty;
    struct waiting *waiting;
    struct keeper_subscription *subscription; /* NULL: the keeper is gone, timer tries again */
    struct loop_timer timer;
    int64_t retry_ms;
    bool dirty;
    char workspace_id[ID_SIZE], exec_id[ID_SIZE];
    TAILQ_HEAD(, parking) parkings;
    size_t count; /* of parkings */
};

/* Calls that will get the same answer. */
struct parking {
    TAILQ_ENTRY(parking) in_watched;
    struct watched *watched;
    const struct op *op;
    enum call_form form;
    char *share;  /* NULL = one call alone */
    char *packed; /* {"in": ..., "kept": ...} */
    void *memo;
    struct flight_list flights;
    size_t count; /* of flights */
    bool pieces;  /* answers may be made in pieces */
    bool busy;    /* answers go out: freed by who sends them */
};

struct tally {
    LIST_ENTRY(tally) entry;
    size_t parked;
    char principal[];
};

struct waiting {
    struct service *service;
    LIST_HEAD(, watched) buckets[BUCKETS];
    TAILQ_HEAD(, watched) dirty;
    LIST_HEAD(, tally) tallies;
    bool deferred;
    size_t parked;
};

struct waiting *wait_new(struct service *s)
{
    struct waiting *w = xcalloc(1, sizeof(*w));
    w->service = s;
    TAILQ_INIT(&w->dirty);
    return w;
}

size_t wait_count(const struct waiting *w)
{
    return w->parked;
}

/* ---- bounds ---- */

static struct tally *tally_of(struct waiting *w, const char *principal)
{
    struct tally *t;
    LIST_FOREACH(t, &w->tallies, entry) {
        if (strcmp(t->principal, principal) == 0)
            return t;
    }
    size_t size = strlen(principal) + 1;
    t = xcalloc(1, sizeof(*t) + size);
    memcpy(t->principal, principal, size);
    LIST_INSERT_HEAD(&w->tallies, t, entry);
    return t;
}

static int count_in(struct flight *f, struct error *err)
{
    struct waiting *w = f->service->waiting;
    const struct config *config = f->service->config;
    struct tally *t = tally_of(w, f->principal.name);
    bool all = (int64_t)w->parked >= config->max_parked;
    if (all || (int64_t)t->parked >= config->max_parked_per_principal) {
        error_set(err, ERROR_TOO_MANY, "too many calls%s wait already", all ? "" : " of yours");
        if (err)
            err->retry_after = 1;
        return -1;
    }
    t->parked++;
    w->parked++;
    f->counted = true;
    return 0;
}

static void count_out(struct flight *f)
{
    if (!f->counted)
        return;
    f->counted = false;
    struct waiting *w = f->service->waiting;
    w->parked--;
    struct tally *t = tally_of(w, f->principal.name);
    if (--t->parked > 0)
        return;
    LIST_REMOVE(t, entry);
    free(t);
}

/* ---- execs ---- */

static size_t bucket_of(const char *exec_id)
{
    unsigned value = 0;
    if (strlen(exec_id) > 4)
        sscanf(exec_id + 3, "%2x", &value);
    return value % BUCKETS;
}

static void serve_dirty(void *user);

static void mark_dirty(struct watched *e)
{
    struct waiting *w = e->waiting;
    if (!e->dirty) {
        e->dirty = true;
        TAILQ_INSERT_TAIL(&w->dirty, e, in_dirty);
    }
    if (!w->deferred) {
        w->deferred = true;
        loop_defer(w->service->loop, serve_dirty, w);
    }
}

static void unsubscribe(struct watched *e)
{
    if (e->subscription)
        keeper_client_unsubscribe(STEAL(e->subscription));
}

static void watched_free(struct watched *e)
{
    unsubscribe(e);
    loop_timer_stop(e->waiting->service->loop, &e->timer);
    if (e->dirty)
        TAILQ_REMOVE(&e->waiting->dirty, e, in_dirty);
    LIST_REMOVE(e, in_bucket);
    free(e);
}

static void subscribe(struct watched *e);

static void timer_fired(void *user)
{
    struct watched *e = user;
    if (TAILQ_EMPTY(&e->parkings)) {
        watched_free(e);
        return;
    }
    if (!e->subscription)
        subscribe(e);
    mark_dirty(e);
}

static void timer_in(struct watched *e, int64_t ms)
{
    loop_timer_start(e->waiting->service->loop, &e->timer, clock_boottime_ms() + ms, timer_fired, e);
}

static void changed(void *user, bool keeper_gone)
{
    struct watched *e = user;
    if (keeper_gone) {
        unsubscribe(e);
        timer_in(e, e->retry_ms);
        e->retry_ms = e->retry_ms * 2 < RETRY_MOST_MS ? e->retry_ms * 2 : RETRY_MOST_MS;
    } else {
        e->retry_ms = RETRY_FIRST_MS;
    }
    if (!TAILQ_EMPTY(&e->parkings))
        mark_dirty(e);
    else if (!keeper_gone)
        unsubscribe(e); /* the timer frees it */
}

static void subscribe(struct watched *e)
{
    struct service *s = e->waiting->service;
    e->subscription = keeper_client_subscribe(s->client, e->workspace_id, e->exec_id, changed, e);
}

static struct watched *watched_of(struct waiting *w, const char *workspace_id, const char *exec_id)
{
    size_t bucket = bucket_of(exec_id);
    struct watched *e;
    LIST_FOREACH(e, &w->buckets[bucket], in_bucket) {
        if (strcmp(e->exec_id, exec_id) == 0)
            break;
    }
    if (!e) {
        e = xcalloc(1, sizeof(*e));
        e->waiting = w;
        e->retry_ms = RETRY_FIRST_MS;
        snprintf(e->exec_id, sizeof(e->exec_id), "%s", exec_id);
        snprintf(e->workspace_id, sizeof(e->workspace_id), "%s", workspace_id);
        TAILQ_INIT(&e->parkings);
        LIST_INSERT_HEAD(&w->buckets[bucket], e, in_bucket);
    }
    if (!e->subscription && e->timer.heap_index != 0 && !TAILQ_EMPTY(&e->parkings))
        return e; /* the keeper is gone, the timer tries again */
    if (!e->subscription)
        subscribe(e);
    loop_timer_stop(w->service->loop, &e->timer);
    return e;
}

/* ---- parkings ---- */

static void parking_free(struct parking *p)
{
    struct watched *e = p->watched;
    TAILQ_REMOVE(&e->parkings, p, in_watched);
    e->count--;
    free(p->share);
    free(p->packed);
    free(p->memo);
    free(p);
    if (TAILQ_EMPTY(&e->parkings))
        timer_in(e, LINGER_MS);
}

static void join(struct flight *f, struct parking *p)
{
    TAILQ_INSERT_TAIL(&p->flights, f, in_list);
    p->count++;
    f->parking = p;
}

static void leave(struct flight *f)
{
    struct parking *p = f->parking;
    loop_timer_stop(f->service->loop, &f->timer);
    turns_leave(f->service->turns, &f->turn);
    TAILQ_REMOVE(&p->flights, f, in_list);
    p->count--;
    f->parking = NULL;
    count_out(f);
}

void wait_forget(struct flight *f)
{
    struct parking *p = f->parking;
    if (!p)
        return;
    leave(f);
    if (p->count == 0 && !p->busy)
        parking_free(p);
}

static void pack(struct parking *p, struct call *call)
{
    json_auto_t *both = json_object();
    json_object_set(both, "in", call->in);
    if (call->kept)
        json_object_set(both, "kept", call->kept);
    free(p->packed);
    p->packed = json_dumps(both, JSON_COMPACT);
    free(p->memo);
    p->memo = STEAL(call->memo);
}

/* A call for one of those parked in p, with what all of them share. */
static int unpack(struct parking *p, struct flight *f, struct call *call, struct error *err)
{
    json_auto_t *both = json_loads(p->packed, JSON_ALLOW_NUL, NULL);
    f->in = json_incref(json_object_get(both, "in"));
    f->kept = json_incref(json_object_get(both, "kept"));
    f->memo = STEAL(p->memo);
    int rc = dispatch_fill(f, call, err);
    call->park.deadline_ms = f->deadline_ms;
    return rc;
}

static struct parking *find_alike(struct watched *e, const struct call *call)
{
    struct parking *p;
    if (call->park.share[0] == '\0' || call->form == CALL_SSE)
        return NULL;
    TAILQ_FOREACH(p, &e->parkings, in_watched) {
        if (p->op == call->op && p->form == call->form && p->pieces == call->pieces && p->share &&
            strcmp(p->share, call->park.share) == 0)
            return p;
    }
    return NULL;
}

static struct parking *parking_new(struct watched *e, struct call *call)
{
    struct parking *p = xcalloc(1, sizeof(*p));
    p->watched = e;
    p->op = call->op;
    p->form = call->form;
    p->pieces = call->pieces;
    if (call->park.share[0] && call->form != CALL_SSE)
        p->share = xstrdup(call->park.share);
    TAILQ_INIT(&p->flights);
    TAILQ_INSERT_TAIL(&e->parkings, p, in_watched);
    e->count++;
    pack(p, call);
    return p;
}

/* ---- answers ---- */

/* Everybody in p whose deadline is not after that (INT64_MAX = all) gets the answer; p is freed when none is
 * left. Each is moved to the end before it is looked at, so that whatever an answer sets off may take others
 * out of the list. */
static void answer_until(struct parking *p, int64_t until_ms, const struct call *call,
                         const struct error *err)
{
    p->busy = true;
    for (size_t left = p->count; left > 0 && p->count > 0; left--) {
        struct flight *f = TAILQ_FIRST(&p->flights);
        TAILQ_REMOVE(&p->flights, f, in_list);
        TAILQ_INSERT_TAIL(&p->flights, f, in_list);
        if (f->deadline_ms > until_ms)
            continue;
        leave(f);
        if (err == NULL)
            dispatch_take_blocks(f, call);
        dispatch_finish(f, call->body.data, call->body.length, err);
    }
    p->busy = false;
    if (p->count == 0)
        parking_free(p);
}

/* The answer is large: each gets it in pieces, as fast as he takes them. */
static void answer_apart(struct parking *p, const struct call *call)
{
    p->busy = true;
    while (p->count > 0) {
        struct flight *f = TAILQ_FIRST(&p->flights);
        leave(f);
        f->in = json_incref(call->in);
        f->kept = json_incref(call->kept);
        stream_begin(f);
    }
    p->busy = false;
    parking_free(p);
}

/* The answer is not to be made here: who waits for it waits elsewhere now. */
static void send_away(struct parking *p, struct call *call)
{
    struct flight *f = TAILQ_FIRST(&p->flights);
    leave(f);
    if (p->count == 0)
        parking_free(p);
    away_begin(f, call);
}

static void still_parked(void *user);
static void send_page(struct flight *f, const struct call *call);

static void arm(struct flight *f)
{
    int64_t at = f->deadline_ms;
    if (f->form == CALL_SSE && at - clock_boottime_ms() > SSE_COMMENT_MS)
        at = clock_boottime_ms() + SSE_COMMENT_MS;
    loop_timer_start(f->service->loop, &f->timer, at, still_parked, f);
}

/* One run of p's operation for who is first; last: those who are due by until_ms must get an answer. Such a
 * run takes the memo away from those who stay: what calls that are alike remember helps to be quick and is
 * never part of the answer. */
static void run_parking(struct parking *p, bool last, int64_t until_ms)
{
    struct flight *f = TAILQ_FIRST(&p->flights);
    _cleanup_error_ struct error err = ERROR_INIT;
    struct call call;
    if (unpack(p, f, &call, &err) < 0) {
        answer_until(p, INT64_MAX, &call, &err);
        return;
    }
    call.last = last;
    int rc = dispatch_run(f->service, &call, &err);
    if (last && (rc == OP_PARKED || rc == OP_MORE))
        rc = error_set(&err, ERROR_INTERNAL, "%s did not end when it had to", p->op->id);
    if (rc == OP_PARKED)
        pack(p, &call);
    else if (rc == OP_MORE)
        answer_apart(p, &call);
    else if (rc == OP_AWAY)
        send_away(p, &call);
    else
        answer_until(p, last ? until_ms : INT64_MAX, &call, rc == OP_DONE ? NULL : &err);
    call_clear(&call);
}

/* One page of server-sent events for p's only flight; the next one when it is its turn again, unless there is
 * nothing more for now or its client is slow. */
static void run_page(void *user)
{
    struct flight *f = user;
    struct parking *p = f->parking;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct call call;
    if (f->blocked)
        return;
    if (unpack(p, f, &call, &err) < 0) {
        answer_until(p, INT64_MAX, &call, &err);
        return;
    }
    int rc = dispatch_run(f->service, &call, &err);
    if (rc == OP_PARKED) {
        pack(p, &call);
        send_page(f, &call);
    } else {
        answer_until(p, INT64_MAX, &call, rc == OP_DONE ? NULL : &err);
    }
    call_clear(&call);
}

static void send_page(struct flight *f, const struct call *call)
{
    if (call->body.length > 0)
        stream_piece(f, &call->body, run_page);
}

static void still_parked(void *user)
{
    struct flight *f = user;
    int64_t now = clock_boottime_ms();
    if (f->form == CALL_SSE && now < f->deadline_ms) {
        if (!f->blocked)
            f->sink->piece(f->user, f, ":\n\n", 3);
        arm(f);
        return;
    }
    /* Those of the same moment go together; the run is for the first of the list, whose answer fits them all.
     */
    run_parking(f->parking, true, now);
}

static void serve_parkings(struct watched *e)
{
    for (size_t left = e->count; left > 0 && e->count > 0; left--) {
        struct parking *p = TAILQ_FIRST(&e->parkings);
        TAILQ_REMOVE(&e->parkings, p, in_watched);
        TAILQ_INSERT_TAIL(&e->parkings, p, in_watched);
        if (p->form == CALL_SSE)
            turns_wait(e->waiting->service->turns, &TAILQ_FIRST(&p->flights)->turn, run_page,
                       TAILQ_FIRST(&p->flights));
        else
            run_parking(p, false, 0);
    }
}

static void serve_dirty(void *user)
{
    struct waiting *w = user;
    w->deferred = false;
    /* What gets dirty meanwhile has its own turn. */
    size_t count = 0;
    struct watched *e;
    TAILQ_FOREACH(e, &w->dirty, in_dirty)
        count++;
    while (count-- > 0 && (e = TAILQ_FIRST(&w->dirty)) != NULL) {
        TAILQ_REMOVE(&w->dirty, e, in_dirty);
        e->dirty = false;
        serve_parkings(e);
    }
}

void wait_drained(struct flight *f)
{
    if (f->parking)
        turns_wait(f->service->turns, &f->turn, run_page, f);
}

/* ---- in and out ---- */

int wait_park(struct flight *f, struct call *call, struct error *err)
{
    if (call->last)
        return error_set(err, ERROR_INTERNAL, "%s did not end when it had to", f->op->id);
    if (count_in(f, err) < 0)
        return OP_FAILED;
    if (call->park.exec_id[0])
        snprintf(f->exec_id, sizeof(f->exec_id), "%s", call->park.exec_id);
    struct watched *e = watched_of(f->service->waiting, f->workspace_id, f->exec_id);
    struct parking *p = find_alike(e, call);
    if (!p)
        p = parking_new(e, call);
    f->deadline_ms = call->park.deadline_ms;
    join(f, p);
    arm(f);
    if (call->form == CALL_SSE)
        send_page(f, call);
    return OP_PARKED;
}

void wait_drain(struct waiting *w)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct watched *e;
        LIST_FOREACH(e, &w->buckets[i], in_bucket) {
            while (e->count > 0)
                run_parking(TAILQ_FIRST(&e->parkings), true, INT64_MAX);
        }
    }
}

void wait_free(struct waiting *w)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        while (!LIST_EMPTY(&w->buckets[i])) {
            struct watched *e = LIST_FIRST(&w->buckets[i]);
            while (e->count > 0)
                wait_forget(TAILQ_FIRST(&TAILQ_FIRST(&e->parkings)->flights));
            watched_free(e);
        }
    }
    free(w);
}
