/* Which revision of MCP a request speaks, chosen for each request from its own headers and parameters, and
 * the checks that the present revision makes before a method is looked at. Pure; fuzzed. */
#ifndef FCGI_MCP_ERAS_H
#define FCGI_MCP_ERAS_H

#include "fcgi/mcp/rpc.h"
#include "fcgi/request.h"

enum era { ERA_2024_11_05, ERA_2025_03_26, ERA_2025_06_18, ERA_2025_11_25, ERA_2026_07_28, ERA_COUNT };
#define ERA_LEGACY_NEWEST ERA_2025_11_25
#define ERA_ASSUMED       ERA_2025_03_26 /* where no header says more */

const char *era_name(enum era era);
bool era_find(const char *name, enum era *ret);
/* No handshake, every request says all about itself. */
static inline bool era_is_modern(enum era era)
{
    return era >= ERA_2026_07_28;
}
json_t *era_names(void); /* newest first; a new reference */

int era_select(const struct request *r, const struct rpc_message *m, enum era *ret, struct rpc_error *err);
/* Of the header alone: may the body be an array of messages? */
bool era_takes_batches(const struct request *r);
/* A header's value without blanks around it, "=?base64?...?=" decoded. 0 = *ret (the caller's), -1 =
 * malformed. */
int era_decode_header(const char *value, char **ret);

#endif
