/* A listening FastCGI socket on the loop: accepts in small batches, so that the workers sharing the socket
 * share the load, and owns the connections. Out of descriptors it pauses; draining it accepts no more and
 * says when all is answered. */
#ifndef FCGI_LISTENER_H
#define FCGI_LISTENER_H

#include "fcgi/connection.h"
#include "lib/config/config.h"

struct listener;
struct listener *listener_new(struct loop *l, int listen_fd, const struct config *config,
                              exchange_handler *handler, void *user);
/* Says whose bodies are handed on as they come, however large. */
void listener_set_follows(struct listener *l, connection_follows *follows);
/* The limits in force; tests lower them. */
struct connection_limits *listener_limits(struct listener *l);
/* No further accepts; idle connections are closed; drained is called once no connection is left. */
void listener_drain(struct listener *l, loop_call *drained, void *user);
size_t listener_open_exchanges(const struct listener *l);
/* Ends what is still open: on_gone is called for waiting exchanges. Does not close listen_fd. */
void listener_free(struct listener *l);

#endif
