/* Owns the comparison of the wall clock with the clock that nobody sets. Knows nothing of what ages. */
#include "lib/base/steady.h"

#include <stdio.h>
#include <string.h>

#define JUMP_US    (INT64_C(60) * 1000000) /* less is drift, or a clock that is put right little by little */
#define BELIEVE_US (INT64_C(3600) * 1000000)

/* By how much more the wall clock went on than the machine ran. Over a boot, that is the time it was off. */
static int64_t excess(const struct steady *s, const struct steady_moment *now, bool same_boot)
{
    int64_t ran = same_boot ? now->boot_us - s->last.boot_us : now->boot_us;
    return now->wall_us - s->last.wall_us - ran;
}

static void hold(struct steady *s, int64_t jump, int64_t boot_us)
{
    s->held_us = jump > 0 || -jump < s->held_us ? s->held_us + jump : 0;
    s->jumped_us = boot_us;
}

int64_t steady_take(struct steady *s, const struct steady_moment *now)
{
    bool same_boot = s->known && strcmp(s->last.boot_id, now->boot_id) == 0;
    int64_t jump = s->known ? excess(s, now, same_boot) : 0;
    if (jump > JUMP_US || jump < -JUMP_US)
        hold(s, jump, now->boot_us);
    else if (!same_boot) /* the hour begins again */
        s->jumped_us = now->boot_us;
    if (now->boot_us - s->jumped_us >= BELIEVE_US)
        s->held_us = 0;
    s->known = true;
    s->last = *now;
    return now->wall_us - s->held_us;
}

int64_t steady_look(struct steady *s)
{
    struct steady_moment now = { .boot_us = clock_boottime_us(), .wall_us = clock_wall_us() };
    clock_boot_id(now.boot_id);
    return steady_take(s, &now);
}

json_t *steady_to_json(const struct steady *s)
{
    return json_pack("{s:I, s:I, s:s, s:I, s:I}", "boot_us", (json_int_t)s->last.boot_us, "wall_us",
                     (json_int_t)s->last.wall_us, "boot_id", s->last.boot_id, "held_us",
                     (json_int_t)s->held_us, "jumped_us", (json_int_t)s->jumped_us);
}

void steady_from_json(struct steady *s, const json_t *json)
{
    json_int_t boot_us, wall_us, held_us, jumped_us;
    const char *boot_id;
    *s = (struct steady){ 0 };
    if (json_unpack((json_t *)json, "{s:I, s:I, s:s, s:I, s:I}", "boot_us", &boot_us, "wall_us", &wall_us,
                    "boot_id", &boot_id, "held_us", &held_us, "jumped_us", &jumped_us) < 0 ||
        held_us < 0 || boot_us < 0 || wall_us < 0 || strlen(boot_id) >= sizeof s->last.boot_id)
        return;
    s->known = true;
    s->last.boot_us = boot_us;
    s->last.wall_us = wall_us;
    s->held_us = held_us;
    s->jumped_us = jumped_us;
    strcpy(s->last.boot_id, boot_id);
}
