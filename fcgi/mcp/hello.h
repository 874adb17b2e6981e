/* How this server presents itself, in each revision's form. */
#ifndef FCGI_MCP_HELLO_H
#define FCGI_MCP_HELLO_H

#include "fcgi/mcp/eras.h"

#define MCP_TTL_MS 300000 /* how long lists may be kept */

void hello_append_initialize(struct buffer *out, const struct rpc_message *m);
void hello_append_discover(struct buffer *out, enum era era);

#endif
