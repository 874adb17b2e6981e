/* Owns one epoll set and the few descriptors beside it. While there are any of these, a wait is a poll(2) of
 * all of them and the set. Knows nothing of what is watched. */
#include "lib/base/poller.h"

#include "lib/base/memory.h"

#include <errno.h>
#include <poll.h>

struct poller_extra {
    int fd;
    uint32_t events;
    void *data;
};

int poller_open(struct poller *p)
{
    *p = (struct poller)POLLER_INIT;
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return p->epoll_fd < 0 ? -1 : 0;
}

void poller_close(struct poller *p)
{
    memory_close_fd(&p->epoll_fd);
    free(p->extras);
    *p = (struct poller)POLLER_INIT;
}

static struct poller_extra *find_extra(struct poller *p, int fd)
{
    for (size_t i = 0; i < p->n_extras; i++)
        if (p->extras[i].fd == fd)
            return &p->extras[i];
    return NULL;
}

static void add_extra(struct poller *p, struct poller_extra extra)
{
    p->extras = xreallocarray(p->extras, p->n_extras + 1, sizeof *p->extras);
    p->extras[p->n_extras++] = extra;
}

int poller_add(struct poller *p, int fd, uint32_t events, void *data)
{
    struct epoll_event event = { .events = events, .data.ptr = data };
    if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    if (errno != ENOSPC && errno != ENOMEM)
        return -1;
    add_extra(p, (struct poller_extra){ fd, events, data });
    return 0;
}

int poller_change(struct poller *p, int fd, uint32_t events, void *data)
{
    struct poller_extra *extra = find_extra(p, fd);
    if (extra != NULL) {
        *extra = (struct poller_extra){ fd, events, data };
        return 0;
    }
    struct epoll_event event = { .events = events, .data.ptr = data };
    return epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

int poller_remove(struct poller *p, int fd)
{
    struct poller_extra *extra = find_extra(p, fd);
    if (extra == NULL)
        return epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    *extra = p->extras[--p->n_extras];
    return 0;
}

/* The bits of poll(2) and epoll have the same values; what only epoll knows lies above 16 bits. */
static int wait_for_any(struct poller *p, struct pollfd *fds, int timeout_ms)
{
    for (size_t i = 0; i < p->n_extras; i++)
        fds[i] = (struct pollfd){ .fd = p->extras[i].fd, .events = (short)p->extras[i].events };
    fds[p->n_extras] = (struct pollfd){ .fd = p->epoll_fd, .events = POLLIN };
    return poll(fds, p->n_extras + 1, timeout_ms);
}

static int wait_with_extras(struct poller *p, struct epoll_event *ret, int size, int timeout_ms)
{
    _cleanup_free_ struct pollfd *fds = xcalloc(p->n_extras + 1, sizeof *fds);
    if (wait_for_any(p, fds, timeout_ms) < 0)
        return -1;
    int count = 0;
    /* At most half for these: the set must not starve behind them. */
    for (size_t i = 0; i < p->n_extras && count < (size + 1) / 2; i++)
        if (fds[i].revents != 0)
            ret[count++] =
                (struct epoll_event){ .events = (uint16_t)fds[i].revents, .data.ptr = p->extras[i].data };
    int more = count < size ? epoll_wait(p->epoll_fd, ret + count, size - count, 0) : 0;
    return more < 0 ? more : count + more;
}

int poller_wait(struct poller *p, struct epoll_event *ret, int size, int timeout_ms)
{
    return p->n_extras == 0 ? epoll_wait(p->epoll_fd, ret, size, timeout_ms)
                            : wait_with_extras(p, ret, size, timeout_ms);
}
