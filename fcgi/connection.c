/* Life of a connection and its socket: reading, sending what was queued, deadlines, what to wait for next. A
 * connection is watched only once it must wait: a request that came whole and whose answer the socket took
 * costs recv, send and close. */
#include "fcgi/connection_private.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { READS_PER_TURN = 4, SENT_PER_TURN = 256 << 10, LARGE = 64 << 10, LARGE_SEND_BUFFER = 32 << 10 };

static void on_timer(void *user);
static void on_ready(void *user, uint32_t events);

/* ---- end ---- */

void connection_forget(struct connection *c)
{
    struct carried *carried = STEAL(c->carried);
    struct exchange *x = &carried->exchange;
    bool dispatched = c->dispatched;

    c->all->exchanges--;
    if (!dispatched || x->on_gone != NULL) {
        if (!dispatched && c->params_ended)
            c->all->body_bytes -= carried->request.body.length;
        if (dispatched)
            x->on_gone(x, x->user);
        request_clear(&carried->request);
        free(carried);
    } else {
        carried->connection = NULL; /* its answer will be thrown away */
    }
    c->dispatched = c->streaming = c->drain_wanted = c->following = c->stopped = false;
}

/* After a change of its queue. */
static void account(struct connection *c, size_t before)
{
    c->all->queued = c->all->queued - before + connection_queued(c);
}

static void free_buffer(struct buffer **b)
{
    if (*b != NULL) {
        buffer_free(*b);
        free(STEAL(*b));
    }
}

static void end(struct connection *c)
{
    struct connections *all = c->all;

    c->busy = true; /* on_gone must not lead back here */
    if (c->carried != NULL)
        connection_forget(c);
    loop_unwatch(c->watch);
    loop_timer_stop(all->loop, &c->timer);
    close(c->fd);
    all->queued -= connection_queued(c);
    free_buffer(&c->queue);
    free_buffer(&c->names);
    *(c->previous ? &c->previous->next : &all->first) = c->next;
    if (c->next != NULL)
        c->next->previous = c->previous;
    all->count--;
    free(c);
    if (all->changed != NULL)
        all->changed(all->changed_user);
}

/* After the shutdown the loop reports EPOLLHUP: who waits with an exchange hears of it from there, never
 * inside a call of his own. */
void connection_break(struct connection *c)
{
    c->broken = true;
    shutdown(c->fd, SHUT_RDWR);
}

/* ---- output ---- */

/* Sends up to about SENT_PER_TURN bytes; returns how many went. */
static size_t send_some(struct connection *c, const char *data, size_t length)
{
    size_t sent = 0;

    while (sent < length && sent < SENT_PER_TURN) {
        ssize_t n = send(c->fd, data + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
                connection_break(c);
            break;
        }
        sent += (size_t)n;
    }
    return sent;
}

/* A web server that spools takes what lies there of every answer in each turn of its own loop: in smaller
 * helpings 64 large answers hold up its other clients less, and one alone is as fast. */
void connection_small_helpings(struct connection *c)
{
    setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &(int){ LARGE_SEND_BUFFER }, sizeof(int));
}

/* A large rest is taken over as it lies: copying megabytes, and faulting their pages in again, would hold the
 * loop up. */
static void queue_rest(struct connection *c, struct buffer *bytes, size_t sent)
{
    c->queue = xcalloc(1, sizeof(*c->queue));
    c->queue_offset = 0;
    c->progress_ms = clock_boottime_ms();
    if (bytes->length - sent < LARGE) {
        buffer_append(c->queue, bytes->data + sent, bytes->length - sent);
        return;
    }
    *c->queue = *bytes;
    c->queue_offset = sent;
    connection_small_helpings(c);
    *bytes = (struct buffer)BUFFER_INIT;
}

void connection_send(struct connection *c, struct buffer *bytes)
{
    size_t before = connection_queued(c);

    if (c->broken)
        return;
    if (c->queue == NULL) {
        size_t sent = send_some(c, bytes->data, bytes->length);
        if (sent == bytes->length || c->broken)
            return;
        queue_rest(c, bytes, sent);
    } else {
        if (c->queue_offset > c->queue->length / 2) {
            buffer_consume(c->queue, c->queue_offset);
            c->queue_offset = 0;
        }
        buffer_append(c->queue, bytes->data, bytes->length);
    }
    account(c, before);
    c->drain_wanted = c->streaming;
}

static void flush(struct connection *c)
{
    size_t sent = send_some(c, c->queue->data + c->queue_offset, connection_queued(c));

    if (sent > 0)
        c->progress_ms = clock_boottime_ms();
    c->queue_offset += sent;
    c->all->queued -= sent;
    if (connection_queued(c) > 0 && !c->broken)
        return;
    c->all->queued -= connection_queued(c);
    free_buffer(&c->queue);
    if (c->drain_wanted && !c->broken && c->carried != NULL) {
        struct exchange *x = &c->carried->exchange;
        c->drain_wanted = false;
        if (x->on_drained != NULL)
            x->on_drained(x, x->user);
    }
}

void connection_end_exchange(struct connection *c)
{
    struct carried *carried = STEAL(c->carried);

    c->all->exchanges--;
    request_clear(&carried->request);
    free(carried);
    c->dispatched = c->streaming = c->drain_wanted = c->following = c->stopped = false;
    if (c->watch != NULL)
        c->progress_ms = clock_boottime_ms();
    if (!c->keep || c->all->draining)
        c->closing = true;
}

/* ---- input ---- */

static void take_end_of_file(struct connection *c)
{
    c->read_ended = true;
    /* Who ended his sending may still wait for the answer. A web server that sees its client go closes, or
     * sends FCGI_ABORT_REQUEST; lighttpd (1.4.69) does not watch a client before it has a byte for him, so
     * that nothing tells of one that goes while a call waits: such calls end by their own time. A TCP peer
     * that closed looks the same, and web servers never do the former. */
    if (!c->dispatched || !c->all->local || c->following)
        c->broken = true;
}

static void read_some(struct connection *c)
{
    for (int i = 0; i < READS_PER_TURN && !c->broken && !c->stopped; i++) {
        ssize_t n = recv(c->fd, c->all->input, CONNECTION_INPUT, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            connection_break(c);
            return;
        }
        if (n == 0) {
            take_end_of_file(c);
            return;
        }
        if (c->watch != NULL && !c->lingering)
            c->progress_ms = clock_boottime_ms();
        if (!c->lingering)
            connection_feed(c, c->all->input, (size_t)n);
        if (n < CONNECTION_INPUT || connection_queued(c) > 0)
            return;
    }
}

/* ---- waiting ---- */

/* How long this state may last without a byte; -1 = for ever. */
static int64_t patience(const struct connection *c)
{
    const struct connection_limits *limits = &c->all->limits;

    if (connection_queued(c) > 0)
        return limits->stuck_ms;
    if (c->lingering)
        return limits->linger_ms;
    if (c->dispatched && (!c->following || c->stopped))
        return -1;
    return c->carried != NULL || !c->served ? limits->silent_ms : limits->idle_ms;
}

static void set_timer(struct connection *c)
{
    int64_t limit = patience(c), deadline = c->progress_ms + limit;

    /* A running timer that is early finds out and starts again: bytes do not move the heap. */
    if (limit >= 0 && (c->timer.heap_index == 0 || deadline < c->timer.deadline_ms))
        loop_timer_start(c->all->loop, &c->timer, deadline, on_timer, c);
}

static uint32_t wanted_events(const struct connection *c)
{
    uint32_t events = 0;

    if (connection_queued(c) > 0)
        events |= EPOLLOUT;
    /* While output waits no more requests are taken; a refused body is read away all the same. */
    if (!c->read_ended && !c->stopped && (connection_queued(c) == 0 || c->lingering))
        events |= EPOLLIN;
    return events;
}

static void wait_for_more(struct connection *c)
{
    uint32_t events = wanted_events(c);

    if (c->watch != NULL) {
        loop_watch_change(c->watch, events);
    } else {
        c->progress_ms = clock_boottime_ms();
        c->watch = loop_try_watch_fd(c->all->loop, c->fd, events, on_ready, c);
        if (c->watch == NULL) {
            log_error("a connection is dropped: it cannot be watched: %s", strerror(errno));
            end(c);
            return;
        }
    }
    set_timer(c);
}

/* The answer is out but the peer still sends: closing now could reset the socket before he has read it. */
static void begin_linger(struct connection *c)
{
    c->lingering = true;
    c->progress_ms = clock_boottime_ms();
    shutdown(c->fd, SHUT_WR);
}

void connection_settle(struct connection *c)
{
    bool drained = connection_queued(c) == 0;

    if (c->busy)
        return;
    if (c->broken && (!c->dispatched || c->read_ended)) {
        end(c);
        return;
    }
    if (c->closing && drained && !c->lingering) {
        if (c->stdin_ended || c->read_ended || c->all->draining) {
            end(c);
            return;
        }
        begin_linger(c);
    }
    wait_for_more(c);
}

static void on_timer(void *user)
{
    struct connection *c = user;
    int64_t limit = patience(c);

    if (limit < 0)
        return;
    if (c->progress_ms + limit > clock_boottime_ms())
        loop_timer_start(c->all->loop, &c->timer, c->progress_ms + limit, on_timer, c);
    else
        end(c);
}

static void on_ready(void *user, uint32_t events)
{
    struct connection *c = user;

    if (events & (EPOLLHUP | EPOLLERR)) {
        end(c);
        return;
    }
    c->busy = true;
    if ((events & EPOLLOUT) && connection_queued(c) > 0)
        flush(c);
    if (events & EPOLLIN)
        read_some(c);
    c->busy = false;
    connection_settle(c);
}

void connection_accept(struct connections *all, int fd)
{
    struct connection *c = xcalloc(1, sizeof(*c));

    c->all = all;
    c->fd = fd;
    c->stdin_ended = true;
    c->next = all->first;
    if (all->first != NULL)
        all->first->previous = c;
    all->first = c;
    all->count++;
    c->busy = true;
    read_some(c);
    c->busy = false;
    connection_settle(c);
}

void connections_drain(struct connections *all)
{
    all->draining = true;
    all->limits.silent_ms = all->limits.silent_ms < 2000 ? all->limits.silent_ms : 2000;
    for (struct connection *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        if (c->lingering || (c->carried == NULL && c->served && connection_queued(c) == 0))
            end(c);
        else if (c->carried == NULL && c->served)
            c->closing = true;
        else
            set_timer(c);
    }
}

void connections_free(struct connections *all)
{
    for (struct connection *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        end(c);
    }
    buffer_free(&all->output);
    free(all->input);
}
