/* Calls that wait for an exec to change: one subscription for each exec, one run of the operation for all
 * that are parked alike, deadlines, bounds, server-sent events. A parked call without anybody alike costs its
 * parameters as text; one that joins others costs its flight alone. */
#ifndef FCGI_WAIT_H
#define FCGI_WAIT_H

#include "fcgi/dispatch.h"

struct waiting *wait_new(struct service *s);
void wait_free(struct waiting *w); /* no call may be parked any more */
/* After OP_PARKED: takes over what call holds. OP_PARKED: f is answered later. OP_DONE, OP_FAILED: answer now
 * (draining, or too many are parked: ERROR_TOO_MANY). */
int wait_park(struct flight *f, struct call *call, struct error *err);
void wait_forget(struct flight *f);  /* of a flight that is not parked: nothing */
void wait_drained(struct flight *f); /* its slow client took what was queued */
/* Everybody gets a last turn, now. */
void wait_drain(struct waiting *w);
size_t wait_count(const struct waiting *w);

#endif
