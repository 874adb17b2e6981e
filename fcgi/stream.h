/* Answers that are made in pieces (OP_MORE), because they are large or their clients slow: the next piece is
 * made when the client has taken the last one and it is this answer's turn, from a fresh look at the store.
 * One answer holds about a piece in memory, whatever its length. */
#ifndef FCGI_STREAM_H
#define FCGI_STREAM_H

#include "fcgi/dispatch.h"

struct streaming;
struct streaming *streaming_new(struct service *s);
void streaming_free(struct streaming *all); /* no answer may be under way any more */
/* All end where they are, now: the service is draining. */
void streaming_drain(struct streaming *all);

/* Sends a piece of f's answer; next is called with f when it is its turn again and the client took all. */
void stream_piece(struct flight *f, const struct buffer *piece, void (*next)(void *));
/* A run of f gave OP_MORE: sends its piece and keeps what call holds for the next one. */
void stream_go_on(struct flight *f, struct call *call);
/* f has what a run needs and waits for its turn to begin. */
void stream_begin(struct flight *f);
void stream_drained(struct flight *f); /* its client took what was queued */
void stream_forget(struct flight *f);  /* of a flight that is not here: nothing */

#endif
