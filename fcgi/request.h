/* FastCGI parameters and body -> struct request. Pure: no socket, no store, no operation. Fuzzed. */
#ifndef FCGI_REQUEST_H
#define FCGI_REQUEST_H

#include "lib/base/buffer.h"
#include "lib/base/error.h"

#include <stdbool.h>

struct request_pair {
    char *name, *value;
};
struct request {
    char *method; /* upper case, <= 16 */
    char *path;   /* REQUEST_URI without query and mount prefix, still percent-encoded, begins with "/" */
    char *query;  /* still encoded; "" = none */
    char *content_type;  /* "" = none */
    char *authorization; /* HTTP_AUTHORIZATION or REDIRECT_HTTP_AUTHORIZATION; NULL = none */
    char *host, *peer;   /* HTTP_HOST, REMOTE_ADDR; NULL = none */
    bool https;
    struct request_pair *headers; /* HTTP_* as "accept", "mcp-protocol-version": lower case, "-" for "_" */
    size_t header_count;
    struct buffer body;
    int64_t content_length; /* -1 = not told: the body goes to FCGI_STDIN's end */
    char *storage;          /* the one block that all strings above lie in */
    char id[33]; /* X-Request-Id of the front where it is 1-64 of [A-Za-z0-9._-] (cut to 32), else random hex
                  */
};
/* params: the joined payload of the FCGI_PARAMS records (FastCGI 1.0, 3.4). mount: "" or "/workspace".
 * ERROR_INVALID; ERROR_NOT_FOUND where REQUEST_URI lies outside the mount. */
int request_parse(const char *params, size_t length, const char *mount, struct request *ret,
                  struct error *err);
void request_clear(struct request *r);
/* Appends one name-value pair of a FCGI_PARAMS payload (FastCGI 1.0, 3.4): for whoever makes a request
 * himself. */
void request_add_param(struct buffer *params, const char *name, const char *value);
const char *request_header(const struct request *r, const char *name); /* NULL = absent */
/* Splits on "/", then percent-decodes each part; refuses ".", "..", NUL, bad escapes, invalid UTF-8
 * (ERROR_INVALID). ret: NULL-ended, one block to free. */
int request_split_path(const char *path, char ***ret, size_t *ret_count, struct error *err);
/* Calls take(user, name, value) decoded ("+" is a space) for each parameter. */
typedef int request_take(void *user, const char *name, const char *value, size_t value_length,
                         struct error *err);
int request_each_query(const char *query, request_take *take, void *user, struct error *err);

#endif
