/* Owns: the one table of error codes, and struct error's text and its ways into JSON and back.
 * It must not know: who reports errors or to whom. Texts may hold bytes of a client, so that they are made
 * UTF-8 before JSON. */
#include "lib/base/error.h"

#include "lib/base/buffer.h"
#include "lib/base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* JSON-RPC keeps -32768..-32000 for itself: what it has no code for carries the HTTP status. */
enum { RPC_PARAMETERS = -32602, RPC_INTERNAL = -32603 };

struct row {
    const char *type;
    int status, rpc_code;
    bool retryable;
};
static const struct row rows[] = {
    [ERROR_NONE] = { "None", 200, 0, false },
    [ERROR_INVALID] = { "ValueError", 400, RPC_PARAMETERS, false },
    [ERROR_UNAUTHORIZED] = { "AuthError", 401, 401, false },
    [ERROR_FORBIDDEN] = { "PermissionDeniedError", 403, 403, false },
    [ERROR_NOT_FOUND] = { "NotFoundError", 404, 404, false },
    [ERROR_METHOD] = { "MethodNotAllowedError", 405, 405, false },
    [ERROR_CONFLICT] = { "ConflictError", 409, 409, false },
    [ERROR_PRECONDITION] = { "PreconditionFailedError", 412, 412, false },
    [ERROR_TOO_LARGE] = { "PayloadTooLargeError", 413, 413, false },
    [ERROR_MEDIA_TYPE] = { "UnsupportedMediaTypeError", 415, 415, false },
    [ERROR_RANGE] = { "RangeError", 416, 416, false },
    [ERROR_VALIDATION] = { "ValidationError", 422, RPC_PARAMETERS, false },
    [ERROR_TOO_MANY] = { "ResourceExhaustedError", 429, 429, true },
    [ERROR_INTERNAL] = { "InternalError", 500, RPC_INTERNAL, false },
    [ERROR_UNSUPPORTED] = { "UnsupportedError", 501, 501, false },
    [ERROR_DRIVER] = { "DriverError", 502, 502, true },
    [ERROR_UNAVAILABLE] = { "UnavailableError", 503, 503, true },
    [ERROR_TIMEOUT] = { "TimeoutError", 504, 504, true },
    [ERROR_FULL] = { "StorageFullError", 507, 507, true },
};
_Static_assert(N_ELEMENTS(rows) == ERROR_CODE_COUNT, "each error code has its row");

enum { RETRY_AFTER_MAX = 86400 };

void error_clear(struct error *err)
{
    json_decref(err->detail);
    *err = (struct error)ERROR_INIT;
}

/* Formatting may cut the text in the middle of a character. */
static void error_format(char *at, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static void error_format(char *at, size_t size, const char *format, va_list args)
{
    int wanted = vsnprintf(at, size, format, args);
    if (wanted < 0)
        at[0] = '\0';
    if (wanted >= (int)size)
        at[size - 1 - utf8_incomplete_tail(at, size - 1)] = '\0';
}

static void error_start(struct error *err, enum error_code code)
{
    error_clear(err);
    err->code = code;
    err->retry_after =
        code == ERROR_TOO_MANY ? 1 : 0; /* every 429 says when; who knows better sets it afterwards */
}

void error_put(struct error *err, enum error_code code, const char *format, ...)
{
    if (err == NULL)
        return;
    char message[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    error_format(message, sizeof(message), format, args);
    va_end(args);
    error_start(err, code);
    memcpy(err->message, message, sizeof(message));
}

void error_put_errno(struct error *err, enum error_code code, int number, const char *format, ...)
{
    if (err == NULL)
        return;
    char context[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    error_format(context, sizeof(context), format, args);
    va_end(args);
    const char *text = strerrordesc_np(number);
    bool full = number == ENOSPC || number == EDQUOT;
    if (full)
        error_put(err, ERROR_FULL, "%s: the disk is full (%s)", context, error_errno_name(number));
    else
        error_put(err, code, "%s: %s (%s)", context, error_errno_name(number),
                  text != NULL ? text : "unknown");
}

void error_put_before(struct error *err, const char *format, ...)
{
    if (err == NULL)
        return;
    struct error inner = *err;
    char context[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    error_format(context, sizeof(context), format, args);
    va_end(args);
    *err = (struct error)ERROR_INIT;
    error_put(err, inner.code, "%s: %s", context, inner.message);
    err->retry_after = inner.retry_after;
    err->detail = inner.detail;
}

void error_move(struct error *to, struct error *from)
{
    if (to == from)
        return;
    if (to == NULL) {
        error_clear(from);
        return;
    }
    json_decref(to->detail);
    *to = *from;
    *from = (struct error)ERROR_INIT;
}

static const struct row *error_row(enum error_code code)
{
    return &rows[(unsigned)code < ERROR_CODE_COUNT ? code : ERROR_INTERNAL];
}

const char *error_type(enum error_code code)
{
    return error_row(code)->type;
}

int error_status(enum error_code code)
{
    return error_row(code)->status;
}

int error_rpc_code(enum error_code code)
{
    return error_row(code)->rpc_code;
}

bool error_is_retryable(enum error_code code)
{
    return error_row(code)->retryable;
}

static json_t *message_to_json(const struct error *err)
{
    size_t length = strnlen(err->message, sizeof(err->message));
    if (utf8_is_valid(err->message, length))
        return json_stringn_nocheck(err->message, length);
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_append_utf8(&text, err->message, length);
    return json_stringn_nocheck(text.data, text.length);
}

json_t *error_to_json(const struct error *err)
{
    json_t *json = json_object();
    json_object_set_new(json, "error", message_to_json(err));
    json_object_set_new(json, "type", json_string(error_type(err->code)));
    if (err->detail != NULL)
        json_object_set(json, "detail", err->detail);
    return json;
}

json_t *error_pack(const struct error *err)
{
    json_t *json = json_object();
    json_object_set_new(json, "code", json_integer(err->code));
    json_object_set_new(json, "message", message_to_json(err));
    json_object_set_new(json, "retry_after", json_integer(err->retry_after));
    if (err->detail != NULL)
        json_object_set(json, "detail", err->detail);
    return json;
}

void error_unpack(struct error *err, const json_t *packed)
{
    const json_t *code = json_object_get(packed, "code"), *detail = json_object_get(packed, "detail");
    const char *message = json_string_value(json_object_get(packed, "message"));
    json_int_t number = json_integer_value(code);
    if (err == NULL)
        return;
    if (message == NULL || number <= ERROR_NONE || number >= ERROR_CODE_COUNT) {
        error_set(err, ERROR_INTERNAL, "an error arrived that cannot be read");
        return;
    }
    error_set(err, (enum error_code)number, "%s", message);
    json_int_t retry_after = json_integer_value(json_object_get(packed, "retry_after"));
    if (retry_after > 0)
        err->retry_after = retry_after < RETRY_AFTER_MAX ? (int)retry_after : RETRY_AFTER_MAX;
    if (err->code == ERROR_VALIDATION && json_is_array(detail))
        err->detail = json_incref((json_t *)detail);
}

const char *error_errno_name(int number)
{
    const char *name = strerrorname_np(number);
    return name != NULL ? name : "E?";
}
