/* The socket where web server and workers meet. */
#ifndef FCGI_SOCKET_H
#define FCGI_SOCKET_H

#include "lib/config/config.h"

/* Whether a web server could reach it: its path is not too long. given: as below. */
int socket_check(const struct config *config, const char *given, struct error *err);
/* given NULL = fcgi.sock in the state directory. Locks <path>.lock first (ERROR_CONFLICT where another server
 * holds it), mode 0660, group of the workers' user where root. *ret_lock: held until closed. Returns the
 * listening descriptor. */
int socket_open(const struct config *config, const char *given, int *ret_lock, struct error *err);
/* What socket_open made, while its lock is held. */
void socket_remove(const struct config *config, const char *given);
/* given, or fcgi.sock in the state directory. Caller frees. */
char *socket_path(const struct config *config, const char *given);
bool socket_is_listening(int fd);
/* The limit of open files as high as this process may raise it; returns it. */
size_t socket_raise_file_limit(void);

#endif
