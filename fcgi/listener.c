/* The listening socket: accepting, pausing when descriptors are out, draining. Knows connections as a whole,
 * nothing of records. */
#include "fcgi/listener.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { ACCEPTS_PER_TURN = 8, PAUSE_MS = 100 };

struct listener {
    struct connections all;
    struct loop_watch *watch;
    struct loop_timer pause;
    loop_call *drained;
    void *drained_user;
    bool told;
    int fd;
};

static void on_ready(void *user, uint32_t events);

static void watch(void *user);

static void pause_accepts(struct listener *l, int number)
{
    log_error("accepting a connection failed, trying again in %d ms: %s", PAUSE_MS, strerror(number));
    loop_unwatch(STEAL(l->watch));
    loop_timer_start(l->all.loop, &l->pause, clock_boottime_ms() + PAUSE_MS, watch, l);
}

/* EPOLLEXCLUSIVE: a connection wakes one worker, not all. */
static void watch(void *user)
{
    struct listener *l = user;

    if (l->watch != NULL || l->all.draining)
        return;
    l->watch = loop_try_watch_fd(l->all.loop, l->fd, EPOLLIN | EPOLLEXCLUSIVE, on_ready, l);
    if (l->watch == NULL)
        pause_accepts(l, errno);
}

static bool is_passing(int number)
{
    return number == EINTR || number == ECONNABORTED || number == EPROTO || number == ENETDOWN ||
           number == EHOSTUNREACH;
}

static void on_ready(void *user, uint32_t events)
{
    struct listener *l = user;

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN && l->watch != NULL; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && is_passing(errno))
            continue;
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0) {
            pause_accepts(l, errno);
            return;
        }
        if (!l->all.local)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        connection_accept(&l->all, fd);
    }
}

static bool is_local(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t length = sizeof(address);

    return getsockname(fd, (struct sockaddr *)&address, &length) < 0 || address.ss_family == AF_UNIX;
}

static void tell(void *user)
{
    struct listener *l = user;

    if (l->drained != NULL)
        l->drained(l->drained_user);
}

static void on_changed(void *user)
{
    struct listener *l = user;

    if (!l->all.draining || l->all.count > 0 || l->told)
        return;
    l->told = true;
    loop_defer(l->all.loop, tell, l);
}

struct listener *listener_new(struct loop *loop, int listen_fd, const struct config *config,
                              exchange_handler *handler, void *user)
{
    struct listener *l = xcalloc(1, sizeof(*l));

    l->fd = listen_fd;
    l->all = (struct connections){
        .loop = loop,
        .limits = CONNECTION_LIMITS_DEFAULT,
        .mount = config->mount ? config->mount : "",
        .handler = handler,
        .handler_user = user,
        .changed = on_changed,
        .changed_user = l,
        .input = xmalloc(CONNECTION_INPUT),
        .local = is_local(listen_fd),
    };
    io_set_nonblocking(listen_fd, NULL);
    watch(l);
    return l;
}

void listener_set_follows(struct listener *l, connection_follows *follows)
{
    l->all.follows = follows;
}

struct connection_limits *listener_limits(struct listener *l)
{
    return &l->all.limits;
}

static void stop_accepting(struct listener *l)
{
    loop_unwatch(STEAL(l->watch));
    loop_timer_stop(l->all.loop, &l->pause);
}

void listener_drain(struct listener *l, loop_call *drained, void *user)
{
    l->drained = drained;
    l->drained_user = user;
    stop_accepting(l);
    connections_drain(&l->all);
    on_changed(l);
}

size_t listener_open_exchanges(const struct listener *l)
{
    return l->all.exchanges;
}

void listener_free(struct listener *l)
{
    if (l == NULL)
        return;
    stop_accepting(l);
    l->all.changed = NULL;
    connections_free(&l->all);
    free(l);
}
