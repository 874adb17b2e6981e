/* One worker: listener + service on one loop, graceful end on SIGTERM (parked polls answered, others
 * finished, at most 10 s). */
#ifndef FCGI_WORKER_H
#define FCGI_WORKER_H

#include "lib/config/config.h"

/* wish_fd: see pool.h; the wish is a warden. Exit status. */
int worker_run(const struct config *config, int listen_fd, int wish_fd);

#endif
