/* Python packages that all workspaces share, read-only: brought by uv in a sandbox of the gateway's own. */
#ifndef DRIVER_LOCAL_PACKAGES_H
#define DRIVER_LOCAL_PACKAGES_H

#include "lib/config/config.h"
#include "lib/driver/local/vector.h"

#define SANDBOX_PACKAGES "/run/workspace/packages"

/* The folder that sandboxes get to see, NULL where nothing is shared or there is no uv of ours to use it;
 * caller frees. */
char *packages_folder(const struct config *config);
/* The program `uv` that commands find: takes over what is new, then runs the real one. */
int packages_describe(const char *folder, struct vector *v, struct error *err);
/* Brings "name==version" from the gateway's index, wheels alone: nothing of them is executed. What cannot be
 * brought is noted in the folder, and no error. Takes minutes at most. */
int packages_bring(const struct config *config, const char *const *packages, size_t count, struct error *err);

#endif
