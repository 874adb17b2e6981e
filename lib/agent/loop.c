/* Owns the list of watched descriptors and the list of timers. Knows nothing of what its sources mean. It is
 * poll(2) on purpose: the kernel counts epoll's watches by user, and commands run as the same user, so they
 * could use them up. */
#include "lib/agent/loop.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"

#include <errno.h>

struct loop {
    struct pollfd *fds;
    struct loop_source **sources; /* of the same slots; NULL = taken out during a turn */
    unsigned count, capacity;
    struct loop_timer *timers;
};

struct loop *loop_new(void)
{
    return xcalloc(1, sizeof(struct loop));
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    free(loop->fds);
    free(loop->sources);
    free(loop);
}

static void add_source(struct loop *loop, struct loop_source *source)
{
    if (loop->count == loop->capacity) {
        loop->capacity = loop->capacity ? loop->capacity * 2 : 8;
        loop->fds = xreallocarray(loop->fds, loop->capacity, sizeof *loop->fds);
        loop->sources = xreallocarray(loop->sources, loop->capacity, sizeof(struct loop_source *));
    }
    source->slot = loop->count++;
    loop->sources[source->slot] = source;
    loop->fds[source->slot] = (struct pollfd){ .fd = source->fd };
}

/* The slot stays until the turn is over; a negative descriptor is one that poll ignores. */
static void drop_source(struct loop *loop, struct loop_source *source)
{
    loop->sources[source->slot] = NULL;
    loop->fds[source->slot].fd = -1;
}

void loop_watch(struct loop *loop, struct loop_source *source, short events)
{
    if (events == source->events)
        return;
    if (!source->events)
        add_source(loop, source);
    if (events)
        loop->fds[source->slot].events = events;
    else
        drop_source(loop, source);
    source->events = events;
}

static void close_gaps(struct loop *loop)
{
    for (unsigned slot = 0; slot < loop->count;) {
        if (loop->sources[slot]) {
            slot++;
            continue;
        }
        loop->count--;
        loop->fds[slot] = loop->fds[loop->count];
        loop->sources[slot] = loop->sources[loop->count];
        if (loop->sources[slot])
            loop->sources[slot]->slot = slot;
    }
}

void loop_arm(struct loop *loop, struct loop_timer *timer, int64_t in_ms)
{
    timer->due_us = clock_boottime_us() + in_ms * 1000;
    if (timer->armed)
        return;
    timer->armed = true;
    timer->next = loop->timers;
    loop->timers = timer;
}

void loop_disarm(struct loop *loop, struct loop_timer *timer)
{
    if (!timer->armed)
        return;
    struct loop_timer **at = &loop->timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    timer->armed = false;
}

static int wait_ms(const struct loop *loop)
{
    int64_t first = INT64_MAX;
    for (const struct loop_timer *timer = loop->timers; timer; timer = timer->next)
        if (timer->due_us < first)
            first = timer->due_us;
    if (first == INT64_MAX)
        return -1;
    int64_t left = (first - clock_boottime_us() + 999) / 1000;
    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static struct loop_timer *due_timer(const struct loop *loop, int64_t now)
{
    for (struct loop_timer *timer = loop->timers; timer; timer = timer->next)
        if (timer->due_us <= now)
            return timer;
    return NULL;
}

static void fire_timers(struct loop *loop)
{
    if (!loop->timers)
        return;
    int64_t now = clock_boottime_us();
    for (struct loop_timer *timer; (timer = due_timer(loop, now));) {
        loop_disarm(loop, timer);
        timer->fire(timer->user);
    }
}

void loop_turn(struct loop *loop)
{
    close_gaps(loop);
    int ready = poll(loop->fds, loop->count, wait_ms(loop));
    if (ready < 0 && errno != EINTR && errno != ENOMEM)
        abort();
    /* What is added meanwhile comes behind count and waits for the next turn. */
    unsigned count = ready > 0 ? loop->count : 0;
    for (unsigned slot = 0; slot < count; slot++) {
        struct loop_source *source = loop->sources[slot];
        if (source && loop->fds[slot].revents)
            source->ready(source->user, loop->fds[slot].revents);
    }
    fire_timers(loop);
}
