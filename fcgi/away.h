/* Calls whose operation has work that would hold the loop up (OP_AWAY): the loop's helper thread does it,
 * then the operation runs again. Only a few hold what such work is about at once; others wait with nothing.
 */
#ifndef FCGI_AWAY_H
#define FCGI_AWAY_H

#include "fcgi/dispatch.h"

struct aways;
struct aways *aways_new(struct service *s);
void aways_free(struct aways *all); /* no call may be here any more */

/* call->work goes to the thread; without one f gets its turn when there is room (call->may_work). What f
 * keeps meanwhile is taken out of call. */
void away_begin(struct flight *f, struct call *call);
/* f ends: what the thread has in hand is given up when it is back. Of a flight that is not here: nothing. */
void away_forget(struct flight *f);

#endif
