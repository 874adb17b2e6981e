/* The socket where web server and workers meet. */
#ifndef FCGI_SOCKET_H
#define FCGI_SOCKET_H

#include "lib/config/config.h"

/* path NULL = fcgi.sock in the state directory. Locks <path>.lock first (ERROR_CONFLICT where another server
 * holds it), mode 0660, group of config->user where root. *ret_lock: held until closed. Returns the listening
 * descriptor. */
int socket_open_local(const struct config *config, const char *path, int *ret_lock, struct error *err);
/* "host:port" or ":port". */
int socket_open_network(const char *address, struct error *err);
bool socket_is_listening(int fd);
/* The limit of open files as high as this process may raise it; returns it. */
size_t socket_raise_file_limit(void);

#endif
