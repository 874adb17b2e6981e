/* The inside of a connection, for connection.c (life and socket), connection_input.c (records -> request) and
 * connection_reply.c (answer -> records) only. */
#ifndef FCGI_CONNECTION_PRIVATE_H
#define FCGI_CONNECTION_PRIVATE_H

#include "fcgi/connection.h"
#include "fcgi/records.h"

/* An exchange carried by a connection. While parameters come, request.body collects them. */
struct carried {
    struct exchange exchange; /* first: a carrier's function gets its address */
    struct request request;
    int64_t followed;              /* bytes of the body handed on so far */
    struct connection *connection; /* NULL: the client is gone and nobody wanted to know */
};

struct connection {
    struct connections *all;
    struct connection *next, *previous;
    struct loop_watch *watch; /* NULL until something must be waited for */
    struct carried *carried;  /* NULL between requests and after the answer */
    struct loop_timer timer;
    int64_t progress_ms;  /* when bytes last went either way */
    struct buffer *queue; /* what the socket did not take; NULL = nothing */
    size_t queue_offset;
    struct buffer *names; /* content of a FCGI_GET_VALUES that came in pieces */
    struct record_reader reader;
    int fd;
    uint16_t id;   /* of the current or last request */
    bool keep : 1; /* FCGI_KEEP_CONN */
    bool params_ended : 1;
    bool dispatched : 1; /* the handler has the exchange */
    bool streaming : 1;
    bool stdin_ended : 1; /* or no request was begun */
    bool served : 1;      /* at least one request was begun */
    bool closing : 1;     /* after the queue */
    bool lingering : 1;
    bool read_ended : 1;   /* end of file from the peer */
    bool broken : 1;       /* garbage came or the socket failed */
    bool following : 1;    /* the body is handed on as it comes */
    bool stopped : 1;      /* nothing is read meanwhile: nobody takes it */
    bool busy : 1;         /* its functions are on the stack: settle comes later */
    bool drain_wanted : 1; /* on_drained is due when the queue is empty */
};

/* connection_input.c: takes records apart; may call the handler, which may answer at once. */
void connection_feed(struct connection *c, const char *data, size_t length);
/* connection_reply.c */
extern const struct exchange_carrier connection_carrier;
/* connection.c */
void connection_send(struct connection *c,
                     struct buffer *bytes);           /* sends or queues; may take the bytes over */
void connection_small_helpings(struct connection *c); /* a large answer comes */
void connection_break(struct connection *c);          /* garbage came or the socket failed */
void connection_end_exchange(struct connection *c);   /* the answer is out: frees it, keeps or closes */
void connection_forget(struct connection *c);         /* frees the exchange; tells on_gone where dispatched */
void connection_settle(struct connection *c);         /* waits for what is due next, or ends */
static inline size_t connection_queued(const struct connection *c)
{
    return c->queue ? c->queue->length - c->queue_offset : 0;
}

#endif
