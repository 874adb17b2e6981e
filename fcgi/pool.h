/* The master of a pool: forks workers on one listening socket, replaces dead ones, ends and reloads them.
 * Opens no store. */
#ifndef FCGI_POOL_H
#define FCGI_POOL_H

#include "lib/config/config.h"

/* One worker's life in its own process; exit status. */
typedef int pool_worker(const struct config *config, int listen_fd);
/* New settings on SIGHUP; NULL on error. */
typedef struct config *pool_reload(struct error *err);
/* Until SIGTERM or SIGINT, then at most 12 s more. Exit status. */
int pool_run(const struct config *config, int listen_fd, pool_worker *worker, pool_reload *reload);

#endif
