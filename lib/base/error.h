/* What went wrong, on the caller's stack, last parameter, untouched on success.
 * One table (error.c) maps a code to its type name, HTTP status, JSON-RPC code and whether a retry helps.
 * message reaches the client: never a path of the host, a stack, a secret. Details go to the log. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "lib/base/memory.h"

#include <jansson.h>
#include <stdbool.h>

enum error_code {
    ERROR_NONE,
    ERROR_INVALID,      /* 400 ValueError: a rule between fields or against state */
    ERROR_UNAUTHORIZED, /* 401 AuthError */
    ERROR_FORBIDDEN,    /* 403 PermissionDeniedError */
    ERROR_NOT_FOUND,    /* 404 NotFoundError: unknown or another principal's */
    ERROR_METHOD,       /* 405 MethodNotAllowedError */
    ERROR_CONFLICT,     /* 409 ConflictError */
    ERROR_PRECONDITION, /* 412 PreconditionFailedError */
    ERROR_TOO_LARGE,    /* 413 PayloadTooLargeError */
    ERROR_MEDIA_TYPE,   /* 415 UnsupportedMediaTypeError */
    ERROR_RANGE,        /* 416 RangeError */
    ERROR_VALIDATION,   /* 422 ValidationError: detail is an array of {"loc": [...], "msg": text} */
    ERROR_TOO_MANY,     /* 429 ResourceExhaustedError; retry_after in seconds */
    ERROR_INTERNAL,     /* 500 InternalError */
    ERROR_UNSUPPORTED,  /* 501 UnsupportedError: this driver cannot */
    ERROR_DRIVER,       /* 502 DriverError */
    ERROR_UNAVAILABLE,  /* 503 UnavailableError: no token configured, keeper or warden out of reach */
    ERROR_TIMEOUT,      /* 504 TimeoutError */
    ERROR_FULL,         /* 507 StorageFullError: disk or store full */
    ERROR_CODE_COUNT
};

struct error {
    enum error_code code;
    int retry_after; /* seconds; 0 = not told */
    json_t *detail;  /* owned; NULL unless ERROR_VALIDATION, or problems of the settings */
    char message[512];
};
#define ERROR_INIT                                                                                           \
    {                                                                                                        \
        ERROR_NONE, 0, NULL, ""                                                                              \
    }
#define _cleanup_error_ __attribute__((cleanup(error_clear)))

void error_clear(struct error *err);
/* Each is -1, so that `return error_set(err, ...)` reads well; written out, so that compilers and analyzers,
 * which see one file at a time, know it. err may be NULL. */
#define error_set(err, ...)                                                                                  \
    ({                                                                                                       \
        error_put((err), __VA_ARGS__);                                                                       \
        -1;                                                                                                  \
    })
#define error_errno(err, ...)                                                                                \
    ({                                                                                                       \
        error_put_errno((err), __VA_ARGS__);                                                                 \
        -1;                                                                                                  \
    })
#define error_wrap(err, ...)                                                                                 \
    ({                                                                                                       \
        error_put_before((err), __VA_ARGS__);                                                                \
        -1;                                                                                                  \
    })
void error_put(struct error *err, enum error_code code, const char *format, ...) PRINTF_LIKE(3, 4);
/* Appends ": " and the errno's name and text; ENOSPC and EDQUOT make the code ERROR_FULL. */
void error_put_errno(struct error *err, enum error_code code, int number, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* Puts "context: " before the message. */
void error_put_before(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);
/* Moves the error; from is cleared. */
void error_move(struct error *to, struct error *from);

const char *error_type(enum error_code code); /* "ValueError" */
int error_status(enum error_code code);       /* HTTP */
int error_rpc_code(enum error_code code);     /* JSON-RPC 2.0 */
bool error_is_retryable(enum error_code code);
/* {"error", "type"[, "detail"]}: a new reference. */
json_t *error_to_json(const struct error *err);
/* How an error crosses a process: {"code": number, "message", "retry_after", "detail"}. Hostile input gives
 * ERROR_INTERNAL. */
json_t *error_pack(const struct error *err);
void error_unpack(struct error *err, const json_t *packed);
const char *error_errno_name(int number); /* "ENOENT"; "E?" where unknown */

#endif
