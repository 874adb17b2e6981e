/* The documents made from the operation rows. All new references; deterministic. */
#ifndef OP_DESCRIBE_H
#define OP_DESCRIBE_H

#include "lib/op/op.h"

json_t *describe_openapi(const struct config *config,
                         const char *server_url); /* OpenAPI 3.1, all operations */
json_t *describe_actions(const struct config *config,
                         const char *server_url); /* at most 30, for GPT Actions */
json_t *describe_tools(const char *toolsets);     /* MCP tools array; NULL = all */
char *describe_toolsets(void);                    /* "file, watch": those that have tools; caller frees */
json_t *describe_tool(const struct op *op);

#endif
