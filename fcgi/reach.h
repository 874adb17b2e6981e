/* Started as root below a folder that the workers' user may not enter (/root), `run` makes its own paths
 * reachable for its own processes, and for them alone. */
#ifndef FCGI_REACH_H
#define FCGI_REACH_H

#include "lib/config/config.h"

/* Absolute paths of folders and files. Where all can be reached already, nothing is done; else this process
 * gets mounts of its own. Call before children are started. */
int reach_paths(const struct config *config, const char *const *paths, size_t count, struct error *err);
/* The first folder above path that this process, or that user, may not enter; NULL = none. Caller frees. */
char *reach_shut_part(const char *path);
char *reach_find_shut(const struct owner *user, const char *path);

#endif
