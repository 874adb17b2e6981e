/* The master of a pool: forks workers on one listening socket, replaces dead ones, ends and reloads them.
 * Opens no store. */
#ifndef FCGI_POOL_H
#define FCGI_POOL_H

#include "lib/config/config.h"

/* One worker's life in its own process; exit status. A byte written to wish_fd has the master run pool_wish:
 * it may do what a worker, who gave up root, may not. */
typedef int pool_worker(const struct config *config, int listen_fd, int wish_fd);
typedef void pool_wish(const struct config *config);
/* New settings on SIGHUP; NULL on error. */
typedef struct config *pool_reload(struct error *err);
/* Until SIGTERM or SIGINT, then at most 12 s more. Exit status. */
int pool_run(const struct config *config, int listen_fd, pool_worker *worker, pool_reload *reload,
             pool_wish *wish);

#endif
