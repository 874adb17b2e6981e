/* Owns a set of descriptors and a boot-time timer. A source that is removed while its event is pending is
 * skipped. Knows nothing of what its sources are. */
#include "lib/keeper/reactor.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "lib/base/poller.h"

#include <errno.h>
#include <sys/timerfd.h>

#define EVENTS_A_TURN 64
#define SHORT_WAIT_MS                                                                                        \
    1000 /* shorter waits go by epoll's own clock: a suspend in between is late by less than that */

struct reactor_source {
    struct reactor *reactor;
    int fd;
    uint32_t events;
    reactor_ready *ready;
    void *user;
};

struct reactor {
    struct poller poller;
    int timer_fd;
    int64_t armed_ms;
    struct epoll_event pending[EVENTS_A_TURN];
    int pending_count;
};

struct reactor *reactor_new(struct error *err)
{
    struct reactor *r = xcalloc(1, sizeof(*r));
    r->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (poller_open(&r->poller) < 0 || r->timer_fd < 0 ||
        poller_add(&r->poller, r->timer_fd, EPOLLIN, NULL) < 0) {
        error_errno(err, ERROR_INTERNAL, errno, "cannot make an event loop");
        reactor_free(r);
        return NULL;
    }
    return r;
}

void reactor_free(struct reactor *r)
{
    if (r == NULL)
        return;
    poller_close(&r->poller);
    memory_close_fd(&r->timer_fd);
    free(r);
}

struct reactor_source *reactor_try_add(struct reactor *r, int fd, uint32_t events, reactor_ready *ready,
                                       void *user)
{
    struct reactor_source *s = xcalloc(1, sizeof(*s));
    *s = (struct reactor_source){ .reactor = r, .fd = fd, .events = events, .ready = ready, .user = user };
    if (poller_add(&r->poller, fd, events, s) == 0)
        return s;
    free(s);
    return NULL;
}

struct reactor_source *reactor_add(struct reactor *r, int fd, uint32_t events, reactor_ready *ready,
                                   void *user)
{
    struct reactor_source *s = reactor_try_add(r, fd, events, ready, user);
    if (s == NULL)
        abort(); /* a bug of the caller, or nothing more can be had of the kernel: nobody could go on */
    return s;
}

void reactor_change(struct reactor_source *s, uint32_t events)
{
    if (s->events == events)
        return;
    if (poller_change(&s->reactor->poller, s->fd, events, s) == 0)
        s->events = events;
}

void reactor_remove(struct reactor_source *s)
{
    if (s == NULL)
        return;
    struct reactor *r = s->reactor;
    poller_remove(&r->poller, s->fd);
    for (int i = 0; i < r->pending_count; i++)
        if (r->pending[i].data.ptr == s)
            r->pending[i].data.ptr = NULL;
    free(s);
}

static int arm(struct reactor *r, int64_t deadline_ms)
{
    if (deadline_ms == INT64_MAX)
        return -1;
    int64_t left = deadline_ms - clock_boottime_ms();
    if (left <= SHORT_WAIT_MS)
        return left < 0 ? 0 : (int)left;
    if (r->armed_ms != deadline_ms) {
        struct itimerspec when = { .it_value = { deadline_ms / 1000, (deadline_ms % 1000) * 1000000 } };
        timerfd_settime(r->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
        r->armed_ms = deadline_ms;
    }
    return -1;
}

static void timer_drain(struct reactor *r)
{
    uint64_t count;
    if (read(r->timer_fd, &count, sizeof(count)) > 0)
        r->armed_ms = 0;
}

void reactor_turn(struct reactor *r, int64_t deadline_ms)
{
    int count = poller_wait(&r->poller, r->pending, EVENTS_A_TURN, arm(r, deadline_ms));
    if (count <= 0)
        return;
    r->pending_count = count;
    timer_drain(r);
    for (int i = 0; i < count; i++) {
        struct reactor_source *s = r->pending[i].data.ptr;
        if (s != NULL)
            s->ready(s->user, r->pending[i].events);
    }
    r->pending_count = 0;
}
