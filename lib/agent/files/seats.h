/* The places that calls run in, so many of each kind at once, and the rates at which they keep them: what
 * moves nothing for long is over, and what moves too little gives way where others wait. Times are
 * milliseconds of CLOCK_BOOTTIME. */
#ifndef AGENT_FILES_SEATS_H
#define AGENT_FILES_SEATS_H

#include "lib/agent/files/process.h"

#include <stdint.h>

#define NO_PLACE     (-1)
#define SEAT_LOOK_MS 20000 /* so often each call that runs is looked at */

/* Zero-initialised. */
struct seats {
    unsigned running[FILE_PLACES];
    int64_t wanted_ms[FILE_PLACES]; /* when a call waited for one of them, the last time */
};
/* A call's: where it runs, and how fast it is. */
struct seat {
    int place;     /* NO_PLACE where there is no process */
    uint64_t seen; /* bytes that had moved at the last look */
    int silent_ms; /* so long nothing had */
};

/* false is remembered: somebody waits there. */
bool seats_have_room(struct seats *seats, int place);
/* Leaves the place that it has for another one, or for none (NO_PLACE). */
void seats_change(struct seats *seats, struct seat *seat, int place);

enum seat_rate { SEAT_GOES_ON, SEAT_IS_SILENT, SEAT_IS_SLOW };
/* SEAT_LOOK_MS after the last look. moved: bytes so far; all_here: what it reads is whole, and it is at work
 * on the disk. */
enum seat_rate seats_rate(const struct seats *seats, struct seat *seat, const struct file_kind *kind,
                          uint64_t moved, bool all_here);

#endif
