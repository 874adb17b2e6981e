/* The queue of those who wait for their turn, and the list of those whose last piece was not taken yet. Knows
 * time and the loop; not what is done. */
#include "fcgi/turns.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"

#define TURN_US    1000 /* then the loop looks at its descriptors again */
#define HOLD_MS    10   /* a client who has not taken a piece for so long is slow, and does not count */
#define HOLDS_MOST 6

TAILQ_HEAD(turn_list, turn);

struct turns {
    struct loop *loop;
    struct turn_list waiting, holding; /* the latter in order of their time */
    size_t holds;
    struct loop_timer timer;
    bool deferred;
};

struct turns *turns_new(struct loop *l)
{
    struct turns *t = xcalloc(1, sizeof(*t));

    t->loop = l;
    TAILQ_INIT(&t->waiting);
    TAILQ_INIT(&t->holding);
    return t;
}

void turns_free(struct turns *t)
{
    loop_timer_stop(t->loop, &t->timer);
    free(t);
}

static void run(void *user);

static bool may_run(const struct turns *t)
{
    return !TAILQ_EMPTY(&t->waiting) && t->holds < HOLDS_MOST;
}

static void defer(struct turns *t)
{
    if (t->deferred || !may_run(t))
        return;
    t->deferred = true;
    loop_defer(t->loop, run, t);
}

static void run(void *user)
{
    struct turns *t = user;
    int64_t until_us = clock_boottime_us() + TURN_US;

    t->deferred = false;
    while (may_run(t)) {
        struct turn *turn = TAILQ_FIRST(&t->waiting);
        turns_leave(t, turn);
        turn->take(turn->user);
        if (clock_boottime_us() >= until_us)
            break;
    }
    defer(t);
}

static void time_holds(struct turns *t);

static void holds_over(void *user)
{
    struct turns *t = user;
    struct turn *turn;
    int64_t now = clock_boottime_ms();

    while ((turn = TAILQ_FIRST(&t->holding)) != NULL && turn->until_ms <= now)
        turns_leave(t, turn);
    time_holds(t);
}

static void time_holds(struct turns *t)
{
    if (!TAILQ_EMPTY(&t->holding))
        loop_timer_start(t->loop, &t->timer, TAILQ_FIRST(&t->holding)->until_ms, holds_over, t);
}

void turns_wait(struct turns *t, struct turn *turn, loop_call *take, void *user)
{
    if (turn->state == TURN_WAITS)
        return;
    turns_leave(t, turn);
    turn->take = take;
    turn->user = user;
    turn->state = TURN_WAITS;
    TAILQ_INSERT_TAIL(&t->waiting, turn, entry);
    defer(t);
}

void turns_hold(struct turns *t, struct turn *turn)
{
    turns_leave(t, turn);
    turn->state = TURN_HOLDS;
    turn->until_ms = clock_boottime_ms() + HOLD_MS;
    TAILQ_INSERT_TAIL(&t->holding, turn, entry);
    t->holds++;
    if (t->timer.heap_index == 0)
        time_holds(t);
}

void turns_leave(struct turns *t, struct turn *turn)
{
    if (turn->state == TURN_AWAY)
        return;
    TAILQ_REMOVE(turn->state == TURN_HOLDS ? &t->holding : &t->waiting, turn, entry);
    t->holds -= turn->state == TURN_HOLDS;
    turn->state = TURN_AWAY;
    defer(t);
}
