/* How this server presents itself, in each revision's form. */
#ifndef FCGI_MCP_HELLO_H
#define FCGI_MCP_HELLO_H

#include "fcgi/mcp/tools.h"

#define MCP_TTL_MS 300000 /* how long lists may be kept */

/* What a client may tell its model of these sets of tools, below the prefix of the settings. Caller frees. */
char *hello_instructions(struct mcp_tools *tools, const char *prefix, const char *sets);
void hello_append_initialize(struct buffer *out, const struct rpc_message *m, const char *instructions);
void hello_append_discover(struct buffer *out, enum era era, const char *instructions);

#endif
