/* Log notifications about a call, for clients that ask for them: the level that a request names in its own
 * _meta (2026-07-28; taken in older revisions too, whose logging/setLevel needs sessions, which there are
 * none of), and the messages. */
#ifndef FCGI_MCP_NOTIFY_H
#define FCGI_MCP_NOTIFY_H

#include "fcgi/mcp/rpc.h"
#include "lib/op/op.h"

/* RFC 5424, 6.2.1, from the least; NONE: nothing is asked for. */
enum notify_level {
    NOTIFY_NONE,
    NOTIFY_DEBUG,
    NOTIFY_INFO,
    NOTIFY_NOTICE,
    NOTIFY_WARNING,
    NOTIFY_ERROR,
    NOTIFY_CRITICAL,
    NOTIFY_ALERT,
    NOTIFY_EMERGENCY
};
bool notify_level_find(const json_t *name, enum notify_level *ret); /* false: it is none */
/* Of the message's _meta; RPC_INVALID_PARAMS where that is no level. */
int notify_level_of(const struct rpc_message *m, enum notify_level *ret, struct rpc_error *err);

/* One notifications/message each, where least asks for its level; returns whether. failed: the result tells of
 * a failure, which is none of the call itself. */
bool notify_started(struct buffer *out, enum notify_level least, const struct op *op);
bool notify_ended(struct buffer *out, enum notify_level least, const struct op *op, bool failed,
                  const char *text, size_t length, const struct error *err);

#endif
