/* The service in the test's own process, with a carrier that keeps the answers: no web server, no worker. */
#ifndef TESTS_SUPPORT_CALLER_H
#define TESTS_SUPPORT_CALLER_H

#include "fcgi/exchange.h"
#include "fcgi/loop.h"
#include "fcgi/service.h"

#include <stdbool.h>

#define CALLER_TOKEN "the-owners-token"

struct caller; /* owns a state directory, a loop and a service */
/* settings: "NAME=VALUE", NULL-ended, may be NULL. */
struct caller *caller_new(const char *const *settings);
void caller_free(struct caller *c);
struct service *caller_service(struct caller *c);
struct loop *caller_loop(struct caller *c);
const struct config *caller_config(struct caller *c);

/* One request and what came of it. */
struct sent {
    struct caller *caller;
    struct exchange *exchange; /* NULL: answered */
    bool answered;
    int status;
    char *content_type, *headers; /* may be NULL */
    struct buffer body;
    json_t *json; /* NULL where the body is none */
};
/* headers: name, value, ..., NULL as "MCP-Protocol-Version"; the owner's token is added unless one of them is
 * Authorization ("" = none at all). Runs the loop until the answer or, with wait_ms, so long at most. Free
 * with sent_free. */
struct sent *caller_send(struct caller *c, const char *method, const char *uri, const char *const *headers,
                         const char *body, int wait_ms);
void caller_turn(struct caller *c, int ms); /* lets the loop run */
void sent_gone(struct sent *s);             /* the client goes away */
void sent_free(struct sent *s);

#endif
