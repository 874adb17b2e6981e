/* Changes on their way from the kernel to the keeper: the halves of a rename find each other, what is written
 * on and on is told now and then, and where more waits than may, all of it becomes one overflow. Pure: times
 * come in, nothing is read or written. Times are microseconds of one clock. */
#ifndef AGENT_WATCH_PENDING_H
#define AGENT_WATCH_PENDING_H

#include "lib/wire/change.h"

#include <stdbool.h>

#define PENDING_MOST     4096
#define PENDING_BYTES    (1u << 20)
#define PENDING_PAIR_US  20000  /* one half of a rename waits so long for the other */
#define PENDING_QUIET_US 100000 /* between two times that a file is told to be modified */

struct pending;
/* types: 1 << change_type of what is wanted; base: the path that an overflow names. */
struct pending *pending_new(unsigned types, const char *base);
void pending_free(struct pending *p);

/* Paths are copied. */
void pending_add(struct pending *p, enum change_type type, unsigned flags, const char *path, int64_t now_us);
void pending_tell(struct pending *p, enum change_type type, enum change_why why, const char *path,
                  int64_t now_us); /* OVERFLOW, END */
void pending_from(struct pending *p, unsigned flags, const char *path, uint32_t cookie, int64_t now_us);
/* The second half; known: that it is there was told already, with all that is in it, and the first half says
 * that it has gone. Returns whether the first half was there. */
bool pending_to(struct pending *p, unsigned flags, const char *path, uint32_t cookie, bool known,
                int64_t now_us);

/* The next one that is to be told, until pending_done; NULL: none yet. */
const struct change *pending_next(struct pending *p, int64_t now_us);
void pending_done(struct pending *p, int64_t now_us);
/* When pending_next is to be asked again; INT64_MAX: not before something is added. */
int64_t pending_due(const struct pending *p);

#endif
