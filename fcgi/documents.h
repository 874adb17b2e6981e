/* What is neither REST nor MCP and open to all: /, /healthz, /privacy and the two OpenAPI documents, made
 * once. */
#ifndef FCGI_DOCUMENTS_H
#define FCGI_DOCUMENTS_H

#include "fcgi/dispatch.h"

struct documents;
struct documents *documents_new(const struct config *config);
void documents_free(struct documents *d);
/* False: no document has this path. */
bool documents_handle(struct service *s, struct exchange *x);
/* The URL of this gateway with its mount path as this client may use it: from the settings; from Host where
 * they name none and the address is loopback; else the mount path alone. Caller frees. */
char *documents_server_url(const struct config *config, const struct request *r);
/* Is that host (with or without a port) this machine's loopback? */
bool documents_host_is_loopback(const char *host);

bool documents_has(const char *path); /* is there one at path? */

#endif
