/* Calls whose operation has work that would hold the loop up (OP_AWAY): done by the loop's helper thread,
 * then the operation runs again. */
#ifndef FCGI_AWAY_H
#define FCGI_AWAY_H

#include "fcgi/dispatch.h"

/* call->work goes to the thread; what f keeps meanwhile is taken out of call. */
void away_begin(struct flight *f, struct call *call);
/* f ends: what the thread has in hand is given up when it is back. */
void away_forget(struct flight *f);

#endif
