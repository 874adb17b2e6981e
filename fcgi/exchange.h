/* One request and its answer, whoever carries them: a FastCGI connection, `call`, stdio. The carrier
 * implements struct exchange_carrier; all else (routes, MCP, dispatch) knows this header only. Answers may
 * come at once or later; nothing here blocks. */
#ifndef FCGI_EXCHANGE_H
#define FCGI_EXCHANGE_H

#include "fcgi/request.h"

#include <sys/types.h>

struct exchange;
struct exchange_carrier {
    /* The whole answer. headers: further "Name: value\r\n" lines or NULL. body is copied or queued by the
     * carrier. Frees the exchange. */
    void (*reply)(struct exchange *x, int status, const char *content_type, const char *headers,
                  const char *body, size_t length);
    /* A streamed answer: begin, any number of pieces, finish (frees the exchange). stream_queued: bytes not
     * yet taken by the client, so that a slow one gets no more (the caller stops above 256 KiB and goes on in
     * on_drained). */
    void (*stream_begin)(struct exchange *x, int status, const char *content_type, const char *headers);
    void (*stream)(struct exchange *x, const char *data, size_t length);
    size_t (*stream_queued)(struct exchange *x);
    void (*stream_finish)(struct exchange *x);
    /* A streamed answer that will never be whole: the client sees that it broke off. Frees the exchange;
     * NULL: the same as stream_finish. */
    void (*stream_abort)(struct exchange *x);
    /* Where the body follows: whether more of it is read now. It is not until somebody says so. */
    void (*take_body)(struct exchange *x, bool yes);
    /* Bytes of answers that all its clients have not taken yet; NULL: it keeps none. */
    size_t (*backlog)(struct exchange *x);
};
struct exchange {
    const struct exchange_carrier *carrier;
    struct request
        *request; /* owned by the carrier; parked exchanges call exchange_shed to give its memory back */
    int64_t started_us; /* clock_boottime_us */
    /* Set by who handles the exchange: called when the client went away (the exchange is freed right after;
     * no reply may follow) and when a streamed answer drained. */
    void (*on_gone)(struct exchange *x, void *user);
    void (*on_drained)(struct exchange *x, void *user);
    /* Set before the handler returns, where the request's body follows in pieces instead of lying in request:
     * last, with length 0, is its end, and comes only where it came whole. A little may come after
     * take_body(x, false). */
    void (*on_body)(struct exchange *x, void *user, const char *data, size_t length, bool last);
    bool body_follows;
    bool head; /* a HEAD: the carrier leaves the body of the answer out */
    void *user;
    char request_id[33];
};
/* Frees all of the request but its id while it waits: its strings are NULL afterwards. */
void exchange_shed(struct exchange *x);
size_t exchange_backlog(struct exchange *x); /* of its carrier */
void exchange_reply_json(struct exchange *x, int status, const char *headers, const json_t *value);
void exchange_reply_error(struct exchange *x, const struct error *err,
                          const char *headers); /* adds Retry-After */

/* Whoever receives requests from carriers. */
typedef void exchange_handler(void *user, struct exchange *x);

#endif
