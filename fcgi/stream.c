/* The answers that are under way in pieces. Between two pieces a flight keeps its parameters and what its
 * operation remembers. It knows neither what an operation reads nor who carries its answer. */
#include "fcgi/stream.h"

struct streaming {
    struct service *service;
    TAILQ_HEAD(, flight) all;
};

struct streaming *streaming_new(struct service *s)
{
    struct streaming *all = xcalloc(1, sizeof(*all));

    all->service = s;
    TAILQ_INIT(&all->all);
    return all;
}

void streaming_free(struct streaming *all)
{
    free(all);
}

static void take_turn(void *user)
{
    dispatch_go_on(user);
}

static void enlist(struct flight *f)
{
    if (f->streaming)
        return;
    f->streaming = true;
    TAILQ_INSERT_TAIL(&f->service->streaming->all, f, in_list);
}

void stream_begin(struct flight *f)
{
    enlist(f);
    turns_wait(f->service->turns, &f->turn, take_turn, f);
}

void stream_piece(struct flight *f, const struct buffer *piece, void (*next)(void *))
{
    f->sink->piece(f->user, f, piece->data, piece->length);
    f->blocked = f->sink->queued(f->user) > 0;
    if (f->blocked)
        turns_hold(f->service->turns, &f->turn);
    else
        turns_wait(f->service->turns, &f->turn, next, f);
}

void stream_go_on(struct flight *f, struct call *call)
{
    f->going_on = true;
    f->in = STEAL(call->in);
    f->kept = STEAL(call->kept);
    f->workspace = STEAL(call->workspace);
    f->memo = STEAL(call->memo);
    enlist(f);
    stream_piece(f, &call->body, take_turn);
}

void stream_drained(struct flight *f)
{
    if (f->streaming)
        turns_wait(f->service->turns, &f->turn, take_turn, f);
}

void stream_forget(struct flight *f)
{
    if (!f->streaming)
        return;
    f->streaming = false;
    turns_leave(f->service->turns, &f->turn);
    TAILQ_REMOVE(&f->service->streaming->all, f, in_list);
}

void streaming_drain(struct streaming *all)
{
    struct flight *f;

    while ((f = TAILQ_FIRST(&all->all)) != NULL) {
        turns_leave(all->service->turns, &f->turn);
        dispatch_go_on(f);
    }
}
