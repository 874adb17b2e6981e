/* One worker: listener + service on one loop, graceful end on SIGTERM (parked polls answered, others
 * finished, at most 10 s). */
#ifndef FCGI_WORKER_H
#define FCGI_WORKER_H

#include "lib/config/config.h"

int worker_run(const struct config *config, int listen_fd); /* exit status */

#endif
