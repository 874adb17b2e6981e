/* What a request means: /api (REST), /mcp, documents, /healthz, /privacy, /. Owns the stores' readers, the
 * keeper client, parked calls. Used by the worker, `call` and stdio. */
#ifndef FCGI_SERVICE_H
#define FCGI_SERVICE_H

#include "fcgi/exchange.h"
#include "fcgi/loop.h"
#include "lib/config/config.h"
#include "lib/op/op.h"

struct service;
struct service *service_new(struct loop *l, const struct config *config, struct error *err);
void service_free(struct service *s);
/* Where no warden answers, a byte goes there, and whoever listens starts one: the service itself has given up
 * the rights that a warden needs. */
void service_ask_for_warden(struct service *s, int wish_fd);
/* user = struct service */
bool service_follows(void *user, const struct request *r); /* its body is handed on as it comes */
exchange_handler service_handle;
/* Parked calls get their last turn now; new ones are not parked any more. */
void service_drain(struct service *s);

/* One operation without HTTP: checks in against the row, runs it, calls done once (never inside this call).
 * text = the result as JSON. */
typedef void service_done(void *user, int status, const char *text, size_t length);
void service_call(struct service *s, const struct op *op, const struct principal *principal, json_t *in,
                  service_done *done, void *user);

#endif
