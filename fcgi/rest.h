/* REST: method and path below /api -> an operation's row -> its checked parameters -> dispatch -> the answer.
 */
#ifndef FCGI_REST_H
#define FCGI_REST_H

#include "fcgi/dispatch.h"

#define ROUTE_PARTS_MAX 8

struct route {
    const struct op *op;
    size_t count;
    const char *parts[ROUTE_PARTS_MAX]; /* "{}" = a parameter */
    const char *names[ROUTE_PARTS_MAX]; /* of the parameters; NULL = a fixed part */
    char *text;                         /* holds them */
};
struct routes;

struct routes *routes_new(const struct op *const *rows);
void routes_free(struct routes *r);
/* The row for this method and path, fixed parts before parameters; NULL: allow gets the methods that the path
 * knows ("" = no such path). */
#define ROUTE_ALLOW_SIZE 64
const struct route *routes_find(const struct routes *r, const char *method, char *const *parts, size_t count,
                                char allow[static ROUTE_ALLOW_SIZE]);

/* Is this one whose body is handed on as it comes? Its path begins with /api. */
bool rest_follows(const struct routes *r, const struct request *request);
void rest_handle(struct service *s, struct exchange *x);
/* Is text what Idempotency-Key may be: 1-255 visible ASCII characters? */
bool rest_key_is_valid(const char *text);

#endif
