/* Where sandboxes' control groups may be made. */
#ifndef DRIVER_LOCAL_PLACE_H
#define DRIVER_LOCAL_PLACE_H

#include "lib/driver/local/cgroup.h"

/* Directories that may be written: one for version 2 and the controllers that its children have, one for each
 * controller of version 1. */
struct place {
    char *unified; /* NULL = none */
    bool in_unified[CGROUP_CONTROLLERS];
    char *separate[CGROUP_CONTROLLERS]; /* NULL = none, or in_unified */
};
#define _cleanup_place_ __attribute__((cleanup(place_clear)))

extern const char *const place_controllers[CGROUP_CONTROLLERS]; /* "memory", "cpu", "pids" */
void place_find(struct place *ret);
void place_clear(struct place *p);
/* The directory for a controller and its version; NULL and 0 = none. */
const char *place_of(const struct place *p, enum cgroup_controller controller, int *ret_version);

#endif
