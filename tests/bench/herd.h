/* A herd of clients in a process of its own: thousands of long polls on bare sockets, each asked again as
 * soon as it is answered, so that as many stay parked as long as it lives. */
#ifndef BENCH_HERD_H
#define BENCH_HERD_H

#include "tests/support/instance.h"

struct herd_exec {
    const char *ws, *ex;
};
struct herd;
/* The polls are spread evenly over the execs. Returns once each has had its first answer (what is logged by
 * then) and is parked behind it. */
struct herd *herd_start(const struct instance *i, const struct herd_exec *execs, size_t count, size_t polls);
unsigned long herd_answers(const struct herd *h);
void herd_end(struct herd *h); /* fails where an answer was no page */

#endif
