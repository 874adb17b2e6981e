/* Owns the listening socket and its connections. A peer is only ever freed in peers_flush and peers_free, so
 * that a handler may drop it at any time. Knows neither workspace nor exec. */
#include "lib/keeper/peers.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define PEERS_MAX   256
#define READ_A_TURN (256u << 10)
#define QUEUED_MAX  (16u << 20)

struct peer {
    struct peer *next;
    struct peers *peers;
    struct channel *channel;
    struct reactor_source *source;
    bool doomed;
};

struct peers {
    struct reactor *reactor;
    int listen_fd;
    struct reactor_source *listen_source;
    char *path, *directory;
    const struct peers_handlers *handlers;
    void *user;
    struct peer *first;
    size_t count;
};

static void peer_receive(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct peer *p = user;
    if (!p->doomed)
        p->peers->handlers->frame(p->peers->user, p, frame, data, length);
}

static void peer_ready(void *user, uint32_t events)
{
    struct peer *p = user;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (p->doomed || (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
        return;
    int rc = channel_read(p->channel, READ_A_TURN, peer_receive, p, &err);
    if (rc < 0)
        log_warning("dropping a connection: %s", err.message);
    if (rc != 0)
        p->doomed = true;
}

static void peer_add(struct peers *ps, int fd)
{
    struct peer *p = xcalloc(1, sizeof(*p));
    p->peers = ps;
    p->channel = channel_new(fd);
    p->source = reactor_try_add(ps->reactor, fd, channel_events(p->channel), peer_ready, p);
    if (p->source == NULL) {
        log_error("a connection is dropped: it cannot be watched: %s", strerror(errno));
        channel_free(p->channel);
        free(p);
        return;
    }
    p->next = ps->first;
    ps->first = p;
    ps->count++;
}

static void peers_accept(void *user, uint32_t events)
{
    struct peers *ps = user;
    (void)events;
    for (;;) {
        int fd = accept4(ps->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (ps->count < PEERS_MAX && io_peer_is_trusted(fd, ps->directory)) {
            peer_add(ps, fd);
            continue;
        }
        log_warning("refused a connection: %s",
                    ps->count < PEERS_MAX ? "its user is not trusted" : "too many");
        close(fd);
    }
}

struct peers *peers_listen(struct reactor *r, const char *path, const char *directory,
                           const struct peers_handlers *handlers, void *user, struct error *err)
{
    int fd = io_listen_unix(path, 0600, 1024, err);
    if (fd < 0)
        return NULL;
    struct peers *ps = xcalloc(1, sizeof(*ps));
    *ps = (struct peers){ .reactor = r,
                          .listen_fd = fd,
                          .path = xstrdup(path),
                          .directory = xstrdup(directory),
                          .handlers = handlers,
                          .user = user };
    ps->listen_source = reactor_add(r, fd, EPOLLIN, peers_accept, ps);
    return ps;
}

void peers_close_listener(struct peers *ps)
{
    if (ps->listen_fd < 0)
        return;
    unlink(ps->path);
    reactor_remove(STEAL(ps->listen_source));
    close(STEAL_FD(ps->listen_fd));
}

static void peer_free(struct peer *p)
{
    p->peers->handlers->gone(p->peers->user, p);
    reactor_remove(p->source);
    channel_free(p->channel);
    p->peers->count--;
    free(p);
}

static void peers_reap(struct peers *ps)
{
    for (struct peer **link = &ps->first; *link != NULL;) {
        struct peer *p = *link;
        if (!p->doomed) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        peer_free(p);
    }
}

/* After a write that emptied the queue the owner may queue more (what it held back), which goes out at once
 * too. */
static void peer_write(struct peer *p)
{
    while (!p->doomed && (channel_events(p->channel) & EPOLLOUT) != 0) {
        if (channel_write(p->channel, NULL) < 0)
            p->doomed = true;
        else if (channel_control_queued(p->channel) > QUEUED_MAX) {
            log_warning("dropping a connection: it does not read");
            p->doomed = true;
        }
        if (p->doomed || (channel_events(p->channel) & EPOLLOUT) != 0)
            return;
        if (p->peers->handlers->drained != NULL)
            p->peers->handlers->drained(p->peers->user, p);
    }
}

void peers_flush(struct peers *ps)
{
    for (struct peer *p = ps->first; p != NULL; p = p->next) {
        peer_write(p);
        if (!p->doomed)
            reactor_change(p->source, channel_events(p->channel));
    }
    peers_reap(ps);
}

void peers_tell(struct peers *ps, enum frame_type type, uint32_t stream)
{
    for (struct peer *p = ps->first; p != NULL; p = p->next)
        if (!p->doomed)
            channel_send(p->channel, type, 0, stream, NULL, 0);
}

void peers_read(struct peers *ps)
{
    for (struct peer *p = ps->first; p != NULL; p = p->next)
        peer_ready(p, EPOLLIN);
}

static struct peer *first_waiting(struct peers *ps)
{
    for (struct peer *p = ps->first; p != NULL; p = p->next)
        if (!p->doomed && (channel_events(p->channel) & EPOLLOUT) != 0)
            return p;
    return NULL;
}

void peers_drain(struct peers *ps, int64_t deadline_ms)
{
    struct peer *p;
    while (peers_flush(ps), (p = first_waiting(ps)) != NULL) {
        int64_t left = deadline_ms - clock_boottime_ms();
        struct pollfd poll_fd = { .fd = channel_fd(p->channel), .events = POLLOUT };
        if (left <= 0 || poll(&poll_fd, 1, (int)left) <= 0)
            return;
    }
}

void peers_free(struct peers *ps)
{
    if (ps == NULL)
        return;
    peers_close_listener(ps);
    for (struct peer *p = ps->first; p != NULL; p = p->next)
        p->doomed = true;
    peers_reap(ps);
    free(ps->path);
    free(ps->directory);
    free(ps);
}

struct channel *peer_channel(struct peer *p)
{
    return p->channel;
}

void peer_refuse(struct peer *p, uint32_t stream, enum error_code code, const char *text)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, code, "%s", text);
    channel_send_reply(p->channel, stream, NULL, &err);
}

void peer_drop(struct peer *p)
{
    p->doomed = true;
}
