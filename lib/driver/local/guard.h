/* The memory limit with a controller: who is ended when it is reached. */
#ifndef DRIVER_LOCAL_GUARD_H
#define DRIVER_LOCAL_GUARD_H

#include "lib/driver/local/cgroup.h"
#include "lib/driver/local/watch.h"

struct guard;

/* A thread that sleeps until the kernel tells that memory is out. NULL: no controller, or it cannot tell;
 * then sampling has to do. Both must live until guard_stop. */
struct guard *guard_start(const struct cgroup *cgroup, struct watch *watch);
void guard_stop(struct guard *g); /* NULL is fine */

#endif
