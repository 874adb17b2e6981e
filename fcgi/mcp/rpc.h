/* JSON-RPC 2.0 messages, as MCP uses them: ids are strings or whole numbers, parameters are objects. Pure;
 * fuzzed. */
#ifndef FCGI_MCP_RPC_H
#define FCGI_MCP_RPC_H

#include "lib/base/buffer.h"

#include <jansson.h>

#define RPC_ID_MAX 1024 /* bytes of an id */

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_HEADER_MISMATCH = -32020,
    RPC_UNSUPPORTED_VERSION = -32022,
};

struct rpc_error {
    int status; /* HTTP */
    int code;
    json_t *data; /* owned; NULL = none */
    char message[256];
};
#define RPC_ERROR_INIT                                                                                       \
    {                                                                                                        \
        0, 0, NULL, ""                                                                                       \
    }
void rpc_error_clear(struct rpc_error *err);
#define _cleanup_rpc_error_ __attribute__((cleanup(rpc_error_clear)))
/* Returns -1. */
int rpc_error_set(struct rpc_error *err, int status, int code, const char *format, ...) PRINTF_LIKE(4, 5);

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };
struct rpc_message {
    enum rpc_kind kind;
    const json_t *id; /* borrowed; NULL = none; set also where the rest is wrong, to be told back */
    const char *method;
    const json_t *params; /* borrowed; an object, or NULL */
};
int rpc_read(const json_t *value, struct rpc_message *ret, struct rpc_error *err);

/* {"jsonrpc": "2.0", "id": id, "result": ...: the caller appends the result and one "}". */
void rpc_begin_result(struct buffer *out, const json_t *id);
void rpc_append_error(struct buffer *out, const json_t *id, const struct rpc_error *err);
void rpc_append_value(struct buffer *out, const json_t *value);

#endif
