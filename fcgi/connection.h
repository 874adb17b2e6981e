/* One FastCGI connection on the loop: records in and out (FastCGI 1.0), never blocking either way; a peer
 * that sends or reads slowly, sends garbage or goes away costs nobody else anything. It carries one exchange
 * at a time; output for a slow client is bounded by what one answer holds. */
#ifndef FCGI_CONNECTION_H
#define FCGI_CONNECTION_H

#include "fcgi/exchange.h"
#include "fcgi/loop.h"

struct connection_limits {
    int64_t silent_ms;   /* a request is incomplete and no byte comes */
    int64_t idle_ms;     /* between two requests of a kept connection */
    int64_t stuck_ms;    /* an answer is waiting and none of it is taken */
    int64_t linger_ms;   /* the rest of a refused body is read away */
    size_t params, body; /* bytes for each request */
    size_t bodies;       /* bytes of all bodies that are being received */
};
#define CONNECTION_LIMITS_DEFAULT                                                                            \
    {                                                                                                        \
        60000, 75000, 360000, 10000, 64 << 10, 10 << 20, 256 << 20                                           \
    }

typedef bool connection_follows(void *user, const struct request *r); /* user: the handler's */

/* What the connections of one listener share. */
struct connection;
struct connections {
    struct loop *loop;
    struct connection_limits limits;
    const char *mount;
    exchange_handler *handler;
    void *handler_user;
    connection_follows *follows; /* whose body is handed on as it comes; NULL = nobody's */
    loop_call *changed;          /* a connection ended */
    void *changed_user;
    struct connection *first;
    size_t count, exchanges;
    size_t body_bytes;
    size_t queued;        /* output that clients have not taken yet, in all */
    struct buffer output; /* answers are put together here */
    char *input;          /* CONNECTION_INPUT bytes: what recv gives is taken apart here */
    bool draining;
    bool hinted; /* at the mount */
    bool local;  /* UNIX sockets: a peer that closed shows as EPOLLHUP, one that only ended its sending does
                    not */
};
enum { CONNECTION_INPUT = 65536 };

/* Takes over an accepted, non-blocking socket; serves at once what has come. */
void connection_accept(struct connections *all, int fd);
/* Closes those that wait for a next request; the others close after their answer. */
void connections_drain(struct connections *all);
void connections_free(struct connections *all);

#endif
