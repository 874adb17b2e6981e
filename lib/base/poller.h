/* An epoll set that also takes what the kernel refuses to put into one: watches are counted for each user,
 * and another program of the same user may have taken them all. Level-triggered. */
#ifndef BASE_POLLER_H
#define BASE_POLLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

struct poller {
    int epoll_fd;
    struct poller_extra
        *extras; /* descriptors that had no room in the set: slower, and served all the same */
    size_t n_extras;
};
#define POLLER_INIT                                                                                          \
    {                                                                                                        \
        .epoll_fd = -1                                                                                       \
    }

/* As epoll_create1 and epoll_ctl: -1 with errno, but never for want of room. */
int poller_open(struct poller *p);
void poller_close(struct poller *p);
int poller_add(struct poller *p, int fd, uint32_t events, void *data);
int poller_change(struct poller *p, int fd, uint32_t events, void *data);
int poller_remove(struct poller *p, int fd);
/* As epoll_wait. */
int poller_wait(struct poller *p, struct epoll_event *ret, int size, int timeout_ms);

#endif
