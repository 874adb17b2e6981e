/* Many clients at once for the benchmark: libcurl's multi interface, bare sockets for thousands of parked
 * polls, and sums of memory. */
#ifndef BENCH_CLIENTS_H
#define BENCH_CLIENTS_H

#include "lib/base/buffer.h"
#include "tests/bench/figures.h"
#include "tests/support/instance.h"

/* Parks count polls behind the newest event and waits for the next one on all of them; each gives a sample:
 * now - stamp (us -> ms). */
void clients_park_and_wake(const struct instance *i, const char *ws, const char *ex, int count,
                           double (*stamp)(const char *), struct samples *ret);
/* latency may be NULL: then answers other than 200 count too. */
double clients_requests_per_second(const struct instance *i, const char *path, int at_a_time,
                                   long milliseconds, struct samples *latency);
void clients_wait_exit(const struct instance *i, const char *ws, const char *ex);
/* Reads the whole log by cursor in large pages and decodes it; MB/s of output, without hashing. */
double clients_read_back(const struct instance *i, const char *ws, const char *ex, size_t bytes,
                         struct buffer *ret);
/* Summed PSS in KiB: keepers with all below them; the master and its workers. */
double clients_keepers_pss_kib(const struct instance *i);
double clients_workers_pss_kib(const struct instance *i);

struct parked;
struct parked *clients_park(const struct instance *i, const char *ws, const char *ex, size_t count);
size_t clients_parked_count(const struct parked *p); /* those that have no answer yet */
void clients_unpark(struct parked *p);

#endif
