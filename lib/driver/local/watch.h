/* The memory limit without a controller: sums over the sandbox's processes and ends the largest. */
#ifndef DRIVER_LOCAL_WATCH_H
#define DRIVER_LOCAL_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watch {
    pid_t root;          /* the sandbox's PID 1, which is never ended */
    int64_t limit;       /* bytes; 0 = none */
    int64_t kills;       /* processes ended so far */
    int64_t allowed_rss; /* a sum of RSS whose PSS was found to be below the limit */
    int over;            /* samples over the limit, one after another */
};

/* One sample. Returns ms until the next; *ret_killed: it ended processes. */
int watch_sample(struct watch *w, bool *ret_killed);

#endif
