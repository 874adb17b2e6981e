/* Python packages that all workspaces share, read-only: brought by uv in a sandbox of the gateway's own. */
#ifndef DRIVER_LOCAL_PACKAGES_H
#define DRIVER_LOCAL_PACKAGES_H

#include "lib/config/config.h"
#include "lib/driver/local/tools.h"
#include "lib/driver/local/vector.h"

/* Beside the tools, so that a sandbox needs no mount more for it, and sees it from its first package on. */
#define PACKAGES_FOLDER  "tools/.packages" /* of the state directory */
#define SANDBOX_PACKAGES SANDBOX_TOOLS "/.packages"

/* Not where the settings say so, nor without a uv of ours. */
bool packages_are_shared(const struct config *config);
/* The program `uv` that commands find: takes over what is new, then runs the real one. */
int packages_describe(struct vector *v, struct error *err);
/* Brings "name==version" from the gateway's index, wheels alone: nothing of them is executed. One after the
 * other; none begins when some seconds are over, or after one that took longer than a package may. So
 * *ret_tried, the first so many, may be fewer than all; it is set on failure too, which the last of them may
 * be the reason of. What was tried and cannot be brought is noted in the folder, and no error. */
int packages_bring(const struct config *config, const char *const *packages, size_t count, size_t *ret_tried,
                   struct error *err);

#endif
