/* Can bubblewrap work here? */
#ifndef DRIVER_LOCAL_PROBE_H
#define DRIVER_LOCAL_PROBE_H

#include "lib/base/error.h"

/* Makes the namespaces and mounts /proc in a child, as a sandbox would. The message names the cure. */
int probe_namespaces(struct error *err);

#endif
