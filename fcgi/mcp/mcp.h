/* MCP over streamable HTTP, stateless, every revision from 2024-11-05 on: POST <mount>/mcp, /mcp/ and
 * /mcp/<set>[,<set>]/. */
#ifndef FCGI_MCP_MCP_H
#define FCGI_MCP_MCP_H

#include "fcgi/dispatch.h"
#include "fcgi/mcp/tools.h"

void mcp_handle(struct service *s, struct exchange *x);

#endif
