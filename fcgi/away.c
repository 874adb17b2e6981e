/* Owns the queue of those who wait for room, and what lies between a flight and the helper thread: either may
 * be over before the other. It knows nothing of what is done there. */
#include "fcgi/away.h"

#define AT_ONCE 2 /* one is worked for, the next has read what it needs */

struct aways {
    struct service *service;
    TAILQ_HEAD(, flight) waiting;
    size_t busy;
};

/* In the thread's hands. */
struct away {
    struct aways *all;
    struct flight *flight; /* NULL: over */
    struct call_work *work;
    bool takes_room; /* what is short as it is looked at may be long once it is read */
};

struct aways *aways_new(struct service *s)
{
    struct aways *all = xcalloc(1, sizeof(*all));

    all->service = s;
    TAILQ_INIT(&all->waiting);
    return all;
}

void aways_free(struct aways *all)
{
    free(all);
}

/* ---- room ---- */

static void take_turn(void *user)
{
    dispatch_go_on(user);
}

static void let_in(struct aways *all)
{
    struct flight *f;

    while (all->busy < AT_ONCE && (f = TAILQ_FIRST(&all->waiting)) != NULL) {
        TAILQ_REMOVE(&all->waiting, f, in_list);
        f->waits_for_room = false;
        f->may_work = true;
        all->busy++;
        turns_wait(all->service->turns, &f->turn, take_turn, f);
    }
}

static void leave(struct aways *all)
{
    all->busy--;
    let_in(all);
}

/* ---- work ---- */

static void work(void *user)
{
    struct away *a = user;
    a->work->run(a->work);
}

static void back(void *user)
{
    struct away *a = user;
    struct flight *f = a->flight;

    if (f) {
        f->away = NULL;
        f->work = a->work;
        dispatch_go_on(f);
    } else {
        a->work->release(a->work);
        if (a->takes_room)
            leave(a->all);
    }
    free(a);
}

static void send(struct flight *f, struct call_work *job)
{
    struct away *a = xcalloc(1, sizeof(*a));

    *a = (struct away){ f->service->aways, f, job, f->may_work };
    f->away = a;
    loop_offload(f->service->loop, work, back, a);
}

void away_begin(struct flight *f, struct call *call)
{
    struct aways *all = f->service->aways;

    f->in = STEAL(call->in);
    f->kept = STEAL(call->kept);
    f->workspace = STEAL(call->workspace);
    f->memo = STEAL(call->memo);
    if (call->work) {
        send(f, STEAL(call->work));
        return;
    }
    f->waits_for_room = true;
    TAILQ_INSERT_TAIL(&all->waiting, f, in_list);
    let_in(all);
}

void away_forget(struct flight *f)
{
    struct aways *all = f->service->aways;

    if (f->waits_for_room)
        TAILQ_REMOVE(&all->waiting, f, in_list);
    if (f->work)
        f->work->release(f->work);
    if (f->away)
        f->away->flight = NULL; /* its room is given back with the work */
    else if (f->may_work) {
        turns_leave(all->service->turns, &f->turn);
        leave(all);
    }
}
