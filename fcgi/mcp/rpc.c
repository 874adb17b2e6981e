/* Reading and writing JSON-RPC messages. It knows no method and no revision. */
#include "fcgi/mcp/rpc.h"

#include "lib/base/json_text.h"

#include <stdarg.h>
#include <stdio.h>

void rpc_error_clear(struct rpc_error *err)
{
    json_decref(err->data);
    *err = (struct rpc_error)RPC_ERROR_INIT;
}

int rpc_error_set(struct rpc_error *err, int status, int code, const char *format, ...)
{
    va_list arguments;
    err->status = status;
    err->code = code;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof(err->message), format, arguments);
    va_end(arguments);
    return -1;
}

static int invalid(struct rpc_error *err, const char *message)
{
    return rpc_error_set(err, 400, RPC_INVALID_REQUEST, "Invalid request: %s", message);
}

int rpc_read(const json_t *value, struct rpc_message *ret, struct rpc_error *err)
{
    *ret = (struct rpc_message){ .kind = RPC_REQUEST };
    if (!json_is_object(value))
        return invalid(err, "it must be an object");
    const json_t *id = json_object_get(value, "id"), *method = json_object_get(value, "method");
    const json_t *params = json_object_get(value, "params");
    const char *version = json_string_value(json_object_get(value, "jsonrpc"));
    /* It comes back in every answer, which are bounded. */
    if (json_string_length(id) > RPC_ID_MAX)
        return invalid(err, "id is too long: 1024 bytes are the most");
    if (json_is_string(id) || json_is_integer(id))
        ret->id = id;
    if (!version || strcmp(version, "2.0") != 0)
        return invalid(err, "jsonrpc must be \"2.0\"");
    if (id && !ret->id)
        return invalid(err, "id must be a string or a whole number");
    if (!method && ret->id && (json_object_get(value, "result") || json_object_get(value, "error"))) {
        ret->kind = RPC_RESPONSE;
        return 0;
    }
    if (!json_is_string(method) || json_string_length(method) != strlen(json_string_value(method)))
        return invalid(err, "method must be a string");
    if (params && !json_is_object(params))
        return invalid(err, "params must be an object");
    ret->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    ret->method = json_string_value(method);
    ret->params = params;
    return 0;
}

void rpc_append_value(struct buffer *out, const json_t *value)
{
    json_text_append(out, value);
}

static void begin(struct buffer *out, const json_t *id)
{
    buffer_append_text(out, "{\"jsonrpc\":\"2.0\"");
    if (!id)
        return;
    buffer_append_text(out, ",\"id\":");
    rpc_append_value(out, id);
}

void rpc_begin_result(struct buffer *out, const json_t *id)
{
    begin(out, id);
    buffer_append_text(out, ",\"result\":");
}

/* An error without a known id has no id member: null is not among what clients of this protocol accept. */
void rpc_append_error(struct buffer *out, const json_t *id, const struct rpc_error *err)
{
    begin(out, id);
    buffer_append_text(out, ",\"error\":{\"code\":");
    buffer_append_i64(out, err->code);
    buffer_append_text(out, ",\"message\":\"");
    buffer_append_json(out, err->message, strlen(err->message));
    buffer_append_char(out, '"');
    if (err->data) {
        buffer_append_text(out, ",\"data\":");
        rpc_append_value(out, err->data);
    }
    buffer_append_text(out, "}}");
}
