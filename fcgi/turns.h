/* Work that comes in pieces and must not hold the loop up: who has a piece to make waits for his turn; first
 * come, first served, about a millisecond of it in each turn of the loop, requests in between. */
#ifndef FCGI_TURNS_H
#define FCGI_TURNS_H

#include "fcgi/loop.h"

#include <sys/queue.h>

/* Intrusive: lives in its owner's struct, zero-initialised. */
struct turn {
    TAILQ_ENTRY(turn) entry;
    loop_call *take;
    void *user;
    bool waiting;
};

struct turns;
struct turns *turns_new(struct loop *l);
void turns_free(struct turns *t); /* nobody may wait any more */
/* take(user) will be called once; who waits already keeps his place. */
void turns_wait(struct turns *t, struct turn *turn, loop_call *take, void *user);
void turns_leave(struct turns *t, struct turn *turn); /* of one that does not wait: nothing */

#endif
