/* Wall time for counting ages in: a jump of the wall clock, or time that passed with the machine off, counts
 * only after the clock was seen to stay there for an hour of running. What ages is never removed because
 * somebody set the clock, and always in the end. Pure but for steady_look. */
#ifndef BASE_STEADY_H
#define BASE_STEADY_H

#include "lib/base/clock.h"

#include <jansson.h>
#include <stdbool.h>

struct steady_moment {
    int64_t boot_us, wall_us;
    char boot_id[CLOCK_BOOT_ID_SIZE];
};
struct steady {
    bool known; /* last is */
    struct steady_moment last;
    int64_t held_us;   /* by how much the wall clock is not believed yet */
    int64_t jumped_us; /* since when, on the clock of last.boot_id's boot */
};

/* Takes a moment in, returns the wall time to count ages by. */
int64_t steady_take(struct steady *s, const struct steady_moment *now);
int64_t steady_look(struct steady *s); /* steady_take of this moment */
json_t *steady_to_json(const struct steady *s);
/* What makes no sense is as if nothing were known. */
void steady_from_json(struct steady *s, const json_t *json);

#endif
