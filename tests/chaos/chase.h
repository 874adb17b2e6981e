/* Following one command's log over whatever happens, by cursor or as a stream of events, with each promise of
 * a page checked. */
#ifndef CHAOS_CHASE_H
#define CHAOS_CHASE_H

#include "lib/base/buffer.h"
#include "tests/chaos/ledger.h"
#include "tests/support/instance.h"

struct chase {
    const struct entry *entry;
    unsigned long cursor; /* the last seq that was seen */
    bool ended;           /* the exit event was seen */
    bool more;            /* the last page was not the last */
    bool expired;         /* the oldest was dropped before it was read: what is here begins later */
    struct buffer out, err, late;
    json_t *exit;
    char error[240], state[16];
    struct buffer line; /* of a stream, not whole yet */
};
void chase_begin(struct chase *c, const struct entry *e);
void chase_clear(struct chase *c);

enum visit { VISIT_DONE, VISIT_AGAIN, VISIT_CONFLICT, VISIT_GONE, VISIT_BROKEN };
/* What an answer means while everybody may die at any moment: BROKEN is an answer that nobody may ever get
 * (told as a failure). */
enum visit visit_judge(const char *what, const struct answer *a);

/* One page. more: its size and count vary with it. */
enum visit chase_page(struct chase *c, const struct instance *i, int wait_seconds, uint64_t *random);
/* Events until the stream ends or breaks, or ms are over. */
enum visit chase_stream(struct chase *c, const struct instance *i, long ms);

#endif
