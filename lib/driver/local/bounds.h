/* A sandbox's share of what the kernel counts for a user or for the whole machine. */
#ifndef DRIVER_LOCAL_BOUNDS_H
#define DRIVER_LOCAL_BOUNDS_H

#include "lib/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* Terminals that a sandbox may have open at once. */
#define BOUNDS_TERMINALS 128

/* Once the sandbox whose PID 1 is first stands, and before it runs anything. shared_user: other sandboxes are
 * the same user of the kernel's. */
int bounds_set(pid_t first, bool shared_user, struct error *err);

#endif
