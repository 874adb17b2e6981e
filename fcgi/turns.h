/* Work that comes in pieces and must not hold anybody up: who has a piece to make waits for his turn, first
 * come, first served. Our own loop gives about a millisecond to it in each of its turns, with requests in
 * between. The web server's loop is spared too: while several clients have a piece that they have not taken,
 * no other piece is made, so that it never finds dozens of large answers at once; a client that takes his
 * time stops counting soon. */
#ifndef FCGI_TURNS_H
#define FCGI_TURNS_H

#include "fcgi/loop.h"

#include <sys/queue.h>

/* Intrusive: lives in its owner's struct, zero-initialised. */
struct turn {
    TAILQ_ENTRY(turn) entry;
    loop_call *take;
    void *user;
    int64_t until_ms; /* of one that holds */
    enum { TURN_AWAY, TURN_WAITS, TURN_HOLDS } state;
};

struct turns;
struct turns *turns_new(struct loop *l);
void turns_free(struct turns *t); /* nobody may wait any more */
/* take(user) will be called once; who waits already keeps his place. */
void turns_wait(struct turns *t, struct turn *turn, loop_call *take, void *user);
/* A piece was made and lies there: call turns_wait when it was taken. */
void turns_hold(struct turns *t, struct turn *turn);
void turns_leave(struct turns *t, struct turn *turn); /* of one that is away: nothing */

#endif
