/* What the processes of an instance use, by kind. */
#ifndef BENCH_COSTS_H
#define BENCH_COSTS_H

#include "tests/support/instance.h"

enum cost_kind {
    COST_FRONT,
    COST_WORKERS,
    COST_WARDEN,
    COST_KEEPERS,
    COST_BWRAP,
    COST_AGENTS,
    COST_COMMANDS,
    COST_KINDS
};
struct cost {
    size_t processes, descriptors;
    double cpu_us, switches, pss_kib; /* since each process began; of those that live */
};
extern const char *const cost_names[COST_KINDS];
void costs_read(const struct instance *i, struct cost ret[static COST_KINDS], bool with_memory);

#endif
