/* The event loop: one set of descriptors, a binary heap of timers, one signalfd, one eventfd for other
 * threads. It knows descriptors and callbacks; it must not know what a connection, a request or a store is.
 * The helper thread is in offload.c. */
#include "fcgi/loop.h"

#include "fcgi/offload.h"
#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "lib/base/poller.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

enum { EVENTS_PER_TURN = 128, LONGEST_SLEEP_MS = 60 * 1000 };

struct call {
    loop_call *call;
    void *user;
};
struct calls {
    struct call *items;
    size_t count, capacity;
};

struct loop_watch {
    struct loop *loop;
    loop_ready *ready; /* NULL = unwatched, freed at the end of the turn */
    void *user;
    struct loop_watch *next_dead;
    int fd;
    uint32_t events;
};

struct loop {
    struct poller poller;
    int event_fd, signal_fd;
    bool stop;
    struct loop_timer **heap; /* heap[1] is the earliest */
    uint32_t heap_count, heap_capacity;
    struct calls deferred, turn_end;
    struct loop_watch *dead;
    sigset_t signals;
    struct call signal_calls[65];
    pthread_mutex_t posted_lock;
    struct calls posted;
    struct offload *offload;
    struct loop_watch *own[2]; /* of event_fd and signal_fd */
};

static void die(const char *what)
{
    fprintf(stderr, "event loop: %s: %s\n", what, strerror(errno));
    abort();
}

static void calls_add(struct calls *calls, loop_call *call, void *user)
{
    if (calls->count == calls->capacity) {
        calls->capacity = calls->capacity ? calls->capacity * 2 : 8;
        calls->items = xreallocarray(calls->items, calls->capacity, sizeof(*calls->items));
    }
    calls->items[calls->count++] = (struct call){ call, user };
}

/* Calls may add calls to the same list: those wait for the next turn. */
static void calls_run(struct calls *calls)
{
    struct calls taken = *calls;

    *calls = (struct calls){ NULL, 0, 0 };
    for (size_t i = 0; i < taken.count; i++)
        taken.items[i].call(taken.items[i].user);
    if (calls->items == NULL) {
        *calls = (struct calls){ taken.items, 0, taken.capacity };
        return;
    }
    free(taken.items);
}

/* ---- posts of other threads ---- */

static void posted_ready(void *user, uint32_t events)
{
    struct loop *l = user;
    struct calls taken;
    uint64_t count;

    (void)events;
    if (read(l->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        die("eventfd");
    pthread_mutex_lock(&l->posted_lock);
    taken = l->posted;
    l->posted = (struct calls){ NULL, 0, 0 };
    pthread_mutex_unlock(&l->posted_lock);
    for (size_t i = 0; i < taken.count; i++)
        taken.items[i].call(taken.items[i].user);
    free(taken.items);
}

void loop_post(struct loop *l, loop_call *call, void *user)
{
    uint64_t one = 1;

    pthread_mutex_lock(&l->posted_lock);
    calls_add(&l->posted, call, user);
    bool first = l->posted.count == 1;
    pthread_mutex_unlock(&l->posted_lock);
    if (first && write(l->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
        die("eventfd");
}

void loop_offload(struct loop *l, loop_call *work, loop_call *done, void *user)
{
    if (l->offload == NULL)
        l->offload = offload_new(l);
    offload_add(l->offload, work, done, user);
}

/* ---- watches ---- */

struct loop_watch *loop_try_watch_fd(struct loop *l, int fd, uint32_t epoll_events, loop_ready *ready,
                                     void *user)
{
    struct loop_watch *w = xmalloc(sizeof(*w));

    *w = (struct loop_watch){ .loop = l, .ready = ready, .user = user, .fd = fd, .events = epoll_events };
    if (poller_add(&l->poller, fd, epoll_events, w) == 0)
        return w;
    free(w);
    return NULL;
}

struct loop_watch *loop_watch_fd(struct loop *l, int fd, uint32_t epoll_events, loop_ready *ready, void *user)
{
    struct loop_watch *w = loop_try_watch_fd(l, fd, epoll_events, ready, user);

    if (w == NULL)
        die("epoll_ctl add");
    return w;
}

void loop_watch_change(struct loop_watch *w, uint32_t epoll_events)
{
    if (w->events == epoll_events)
        return;
    w->events = epoll_events;
    if (poller_change(&w->loop->poller, w->fd, epoll_events, w) < 0)
        die("epoll_ctl mod");
}

void loop_unwatch(struct loop_watch *w)
{
    if (w == NULL || w->ready == NULL)
        return;
    if (poller_remove(&w->loop->poller, w->fd) < 0)
        die("epoll_ctl del");
    w->ready = NULL;
    w->next_dead = w->loop->dead;
    w->loop->dead = w;
}

static void bury_dead(struct loop *l)
{
    while (l->dead != NULL) {
        struct loop_watch *w = l->dead;
        l->dead = w->next_dead;
        free(w);
    }
}

/* ---- timers ---- */

static void heap_put(struct loop *l, uint32_t at, struct loop_timer *t)
{
    l->heap[at] = t;
    t->heap_index = at;
}

static void heap_up(struct loop *l, uint32_t at, struct loop_timer *t)
{
    for (; at > 1 && l->heap[at / 2]->deadline_ms > t->deadline_ms; at /= 2)
        heap_put(l, at, l->heap[at / 2]);
    heap_put(l, at, t);
}

static void heap_down(struct loop *l, uint32_t at, struct loop_timer *t)
{
    for (uint32_t child; (child = at * 2) <= l->heap_count; at = child) {
        if (child < l->heap_count && l->heap[child + 1]->deadline_ms < l->heap[child]->deadline_ms)
            child++;
        if (l->heap[child]->deadline_ms >= t->deadline_ms)
            break;
        heap_put(l, at, l->heap[child]);
    }
    heap_put(l, at, t);
}

void loop_timer_stop(struct loop *l, struct loop_timer *t)
{
    uint32_t at = t->heap_index;

    if (at == 0)
        return;
    t->heap_index = 0;
    struct loop_timer *last = l->heap[l->heap_count--];
    if (last == t)
        return;
    if (at > 1 && l->heap[at / 2]->deadline_ms > last->deadline_ms)
        heap_up(l, at, last);
    else
        heap_down(l, at, last);
}

void loop_timer_start(struct loop *l, struct loop_timer *t, int64_t deadline_ms, loop_call *call, void *user)
{
    loop_timer_stop(l, t);
    t->deadline_ms = deadline_ms;
    t->call = call;
    t->user = user;
    if (l->heap_count + 1 >= l->heap_capacity) {
        l->heap_capacity = l->heap_capacity ? l->heap_capacity * 2 : 64;
        l->heap = xreallocarray(l->heap, l->heap_capacity, sizeof(struct loop_timer *));
    }
    heap_up(l, ++l->heap_count, t);
}

static void timers_run(struct loop *l)
{
    if (l->heap_count == 0)
        return;
    /* A timer started by a timer for now or earlier waits for the next turn: `count` bounds the turn. */
    int64_t now = clock_boottime_ms();
    for (uint32_t count = l->heap_count; count > 0 && l->heap_count > 0 && l->heap[1]->deadline_ms <= now;
         count--) {
        struct loop_timer *t = l->heap[1];
        loop_timer_stop(l, t);
        t->call(t->user);
    }
}

static int sleep_ms(const struct loop *l)
{
    if (l->deferred.count > 0 || l->stop)
        return 0;
    if (l->heap_count == 0)
        return -1;
    int64_t left = l->heap[1]->deadline_ms - clock_boottime_ms();
    return left <= 0 ? 0 : left > LONGEST_SLEEP_MS ? LONGEST_SLEEP_MS : (int)left;
}

/* ---- signals ---- */

static void signal_ready(void *user, uint32_t events)
{
    struct loop *l = user;
    struct signalfd_siginfo info;

    (void)events;
    while (read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo < N_ELEMENTS(l->signal_calls) && l->signal_calls[info.ssi_signo].call != NULL)
            l->signal_calls[info.ssi_signo].call(l->signal_calls[info.ssi_signo].user);
}

void loop_signal(struct loop *l, int signal_number, loop_call *call, void *user)
{
    bool first = l->signal_fd < 0;

    l->signal_calls[signal_number] = (struct call){ call, user };
    sigaddset(&l->signals, signal_number);
    if (pthread_sigmask(SIG_BLOCK, &l->signals, NULL) != 0)
        die("sigmask");
    if ((l->signal_fd = signalfd(l->signal_fd, &l->signals, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        die("signalfd");
    if (first)
        l->own[1] = loop_watch_fd(l, l->signal_fd, EPOLLIN, signal_ready, l);
}

/* ---- the loop ---- */

struct loop *loop_new(void)
{
    struct loop *l = xcalloc(1, sizeof(*l));

    l->signal_fd = -1;
    sigemptyset(&l->signals);
    pthread_mutex_init(&l->posted_lock, NULL);
    if (poller_open(&l->poller) < 0)
        die("epoll_create1");
    if ((l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        die("eventfd");
    l->own[0] = loop_watch_fd(l, l->event_fd, EPOLLIN, posted_ready, l);
    return l;
}

/* Watches that their owners did not end are the owners' leak, but for the loop's own two. */
void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    offload_free(l->offload);
    loop_unwatch(l->own[0]);
    loop_unwatch(l->own[1]);
    bury_dead(l);
    close(l->event_fd);
    if (l->signal_fd >= 0)
        close(l->signal_fd);
    poller_close(&l->poller);
    pthread_mutex_destroy(&l->posted_lock);
    free(l->posted.items);
    free(l->deferred.items);
    free(l->turn_end.items);
    free(l->heap);
    free(l);
}

static void turn(struct loop *l)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = poller_wait(&l->poller, events, EVENTS_PER_TURN, sleep_ms(l));

    if (count < 0 && errno != EINTR)
        die("epoll_wait");
    for (int i = 0; i < count; i++) {
        struct loop_watch *w = events[i].data.ptr;
        if (w->ready != NULL)
            w->ready(w->user, events[i].events);
    }
    timers_run(l);
    if (l->deferred.count > 0)
        calls_run(&l->deferred);
    for (size_t i = 0; i < l->turn_end.count; i++)
        l->turn_end.items[i].call(l->turn_end.items[i].user);
    bury_dead(l);
}

void loop_run(struct loop *l)
{
    l->stop = false;
    while (!l->stop)
        turn(l);
}

void loop_stop(struct loop *l)
{
    l->stop = true;
}

void loop_defer(struct loop *l, loop_call *call, void *user)
{
    calls_add(&l->deferred, call, user);
}

void loop_at_turn_end(struct loop *l, loop_call *call, void *user)
{
    calls_add(&l->turn_end, call, user);
}
