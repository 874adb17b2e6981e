/* FastCGI connections on the loop: records in and out (FastCGI 1.0), never blocking either way; a peer that sends or reads slowly, sends garbage or goes
 * away costs nobody else anything. Headers that every answer has are added here (Cache-Control, X-Request-Id, X-Content-Type-Options,
 * in debug X-Worker). Output for a slow client is bounded. */
#ifndef FCGI_CONNECTION_H
#define FCGI_CONNECTION_H

#include "fcgi/exchange.h"
#include "fcgi/loop.h"
#include "lib/config/config.h"

struct listener;
struct listener *listener_new(struct loop *l, int listen_fd, const struct config *config, exchange_handler *handler, void *user);
/* No further accepts; idle connections are closed; 0 open exchanges calls drained. */
void listener_drain(struct listener *l, loop_call *drained, void *user);
size_t listener_open_exchanges(const struct listener *l);
void listener_free(struct listener *l);

#endif
