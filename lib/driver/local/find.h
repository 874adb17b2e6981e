/* Finds the sandboxes of a state directory among the host's processes. */
#ifndef DRIVER_LOCAL_FIND_H
#define DRIVER_LOCAL_FIND_H

#include "lib/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* For each bubblewrap that was started for this state directory: its pid, the sandbox's PID 1 (0 = not there
 * yet). */
typedef void find_hit(void *user, const char *workspace_id, pid_t pid, pid_t child);
int find_sandboxes(const char *state_dir, find_hit *hit, void *user, struct error *err);

#endif
