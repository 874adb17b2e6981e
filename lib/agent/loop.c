/* Owns the epoll descriptor, the batch being handled and the list of timers. Knows nothing of what its
 * sources mean. */
#include "lib/agent/loop.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <sys/epoll.h>

#define LOOP_BATCH 32

struct loop {
    int epoll_fd;
    int ready_count;
    struct epoll_event ready[LOOP_BATCH];
    struct loop_timer *timers;
};

struct loop *loop_new(void)
{
    struct loop *loop = xcalloc(1, sizeof *loop);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        abort();
    return loop;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    close(loop->epoll_fd);
    free(loop);
}

/* A batch may still hold events of a source that an earlier callback of the same batch took out. */
static void forget_ready(struct loop *loop, const struct loop_source *source)
{
    for (int i = 0; i < loop->ready_count; i++)
        if (loop->ready[i].data.ptr == source)
            loop->ready[i].data.ptr = NULL;
}

void loop_watch(struct loop *loop, struct loop_source *source, uint32_t events)
{
    if (events == source->events)
        return;
    struct epoll_event event = { .events = events, .data.ptr = source };
    int how = !source->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    if (epoll_ctl(loop->epoll_fd, how, source->fd, &event) < 0 && how != EPOLL_CTL_DEL)
        abort();
    source->events = events;
    if (!events)
        forget_ready(loop, source);
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
    int count = epoll_wait(loop->epoll_fd, loop->ready, LOOP_BATCH, wait_ms(loop));
    if (count < 0 && errno != EINTR)
        abort();
    loop->ready_count = count < 0 ? 0 : count;
    for (int i = 0; i < loop->ready_count; i++) {
        struct loop_source *source = loop->ready[i].data.ptr;
        if (source)
            source->ready(source->user, loop->ready[i].events);
    }
    loop->ready_count = 0;
    fire_timers(loop);
}
