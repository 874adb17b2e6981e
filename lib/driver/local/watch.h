/* Memory of a sandbox's processes: summed, and the largest ended. */
#ifndef DRIVER_LOCAL_WATCH_H
#define DRIVER_LOCAL_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WATCH_ENDED_MAX 512

struct watch {
    pid_t root;            /* the sandbox's PID 1, which is never ended */
    int64_t limit;         /* bytes; 0 = none */
    _Atomic int64_t kills; /* processes ended so far; may be read by another thread */
    int64_t allowed_rss;   /* a sum of RSS whose PSS was found to be below the limit */
    int over;              /* samples over the limit, one after another */
    struct {
        pid_t pid;
        int64_t until_ms;
    } ended[WATCH_ENDED_MAX]; /* ended a moment ago: their memory is on its way out */
    size_t n_ended;
};

/* Where nothing else holds the limit: one sample. Returns ms until the next; *ret_killed: it ended processes.
 */
int watch_sample(struct watch *w, bool *ret_killed);
/* Where something else has said that memory is out: ends the largest until the rest is well below the limit,
 * at least one. */
void watch_relieve(struct watch *w);

#endif
