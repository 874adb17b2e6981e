/* A request's JSON body: scanned and parsed, a big one in the helper thread. */
#ifndef FCGI_BODY_H
#define FCGI_BODY_H

#include "fcgi/exchange.h"
#include "fcgi/loop.h"

/* Once, perhaps inside body_parse. x NULL: the client went away meanwhile. value (the taker's, to free) or
 * err. */
typedef void body_take(void *user, struct exchange *x, json_t *value, const struct error *err);
/* Takes the body away from x's request. Uses x->user and x->on_gone until take is called. */
void body_parse(struct loop *l, struct exchange *x, body_take *take, void *user);
/* application/json, with or without parameters. */
bool body_is_json(const struct request *r);
#define BODY_MUST_BE_JSON "the header Content-Type must say application/json, and the body be that"

#endif
