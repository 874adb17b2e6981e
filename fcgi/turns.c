/* The queue of those who wait for their turn. Knows time and the loop; not what is done. */
#include "fcgi/turns.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"

#define TURN_US 1000 /* then the loop looks at its descriptors again */

struct turns {
    struct loop *loop;
    TAILQ_HEAD(, turn) waiting;
    bool deferred;
};

struct turns *turns_new(struct loop *l)
{
    struct turns *t = xcalloc(1, sizeof(*t));

    t->loop = l;
    TAILQ_INIT(&t->waiting);
    return t;
}

void turns_free(struct turns *t)
{
    free(t);
}

static void run(void *user);

static void defer(struct turns *t)
{
    if (t->deferred || TAILQ_EMPTY(&t->waiting))
        return;
    t->deferred = true;
    loop_defer(t->loop, run, t);
}

static void run(void *user)
{
    struct turns *t = user;
    int64_t until_us = clock_boottime_us() + TURN_US;

    t->deferred = false;
    do {
        struct turn *turn = TAILQ_FIRST(&t->waiting);
        if (turn == NULL)
            return;
        turns_leave(t, turn);
        turn->take(turn->user);
    } while (clock_boottime_us() < until_us);
    defer(t);
}

void turns_wait(struct turns *t, struct turn *turn, loop_call *take, void *user)
{
    if (turn->waiting)
        return;
    turn->take = take;
    turn->user = user;
    turn->waiting = true;
    TAILQ_INSERT_TAIL(&t->waiting, turn, entry);
    defer(t);
}

void turns_leave(struct turns *t, struct turn *turn)
{
    if (!turn->waiting)
        return;
    turn->waiting = false;
    TAILQ_REMOVE(&t->waiting, turn, entry);
}
