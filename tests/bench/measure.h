/* One client's view, timed: what the benchmarks share. All times in milliseconds. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "tests/bench/figures.h"
#include "tests/support/instance.h"

/* GET of an exec's events; the answer must be 200. */
struct answer measure_events(const struct instance *i, const char *ws, const char *ex, const char *query);
void measure_cancel(const struct instance *i, const char *ws, const char *ex); /* KILL */

/* From POST of a workspace to the first output byte of its first command; *ret_created (may be NULL): to the
 * answer of the POST. */
double measure_create(const struct instance *i, char ws[static 40], double *ret_created);
double measure_start(const struct instance *i, const char *ws); /* POST -> first stdout event */
/* A command prints its own clock count times; each sample is from there to the client, one poll parked. */
void measure_wake(const struct instance *i, const char *ws, int count, const char *pause,
                  struct samples *ret);
double measure_status(const struct instance *i, const char *ws, const char *ex);

/* A command that prints its own clock at each turn (count, seconds between them); the newest stamp in what it
 * wrote, in microseconds as now_us, 0 = none. */
#define MEASURE_STAMPS                                                                                       \
    "python3 -uc 'import time\nfor k in range(%d):\n  time.sleep(%s)\n  print(\"stamp\", "                   \
    "time.monotonic_ns(), flush=True)'"
double measure_stamp_in(const char *text);

#endif
