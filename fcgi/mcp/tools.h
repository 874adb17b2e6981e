/* The tools of the operations' rows as MCP shows them: lists rendered once, headers that repeat arguments,
 * results and errors of calls. */
#ifndef FCGI_MCP_TOOLS_H
#define FCGI_MCP_TOOLS_H

#include "fcgi/mcp/eras.h"
#include "lib/op/op.h"

struct mcp_tools;
struct mcp_tools *mcp_tools_new(const struct config *config);
void mcp_tools_free(struct mcp_tools *t);
/* The array of tools as JSON text for these sets ("repo,file"; NULL or "" = as the settings say). NULL: one
 * of them is unknown. */
const struct buffer *mcp_tools_list(struct mcp_tools *t, const char *sets);
/* Names those of the sets that no tool belongs to in this version, and all that have some: "repo,sandbox". */
void mcp_tools_part_sets(const struct mcp_tools *t, const char *sets, struct buffer *empty,
                         struct buffer *filled);
/* Mcp-Param-* headers of this tool against its arguments. */
int mcp_tools_check_headers(struct mcp_tools *t, const struct op *op, const struct request *r,
                            const json_t *arguments, struct rpc_error *err);
/* The result object of tools/call, appended: text is the operation's result as JSON, which is its content too
 * where there are no blocks. failed: it tells of a failure. */
void mcp_append_call_result(struct buffer *out, const struct op *op, enum era era,
                            const struct buffer *blocks, bool failed, const char *text, size_t length);
void mcp_append_call_error(struct buffer *out, enum era era, const struct error *err);
/* What every modern result has: "resultType" and the server's name, with a comma behind. */
void mcp_append_result_head(struct buffer *out, enum era era);

#endif
