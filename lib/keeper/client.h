/* A worker's side of keepers and of the warden: one connection to each, requests numbered, subscriptions
 * counted by exec. Never blocks; the owner of the loop watches one descriptor (an epoll set of its own) and
 * calls keeper_client_turn when it is readable. */
#ifndef KEEPER_CLIENT_H
#define KEEPER_CLIENT_H

#include "lib/config/config.h"

#include <stdint.h>

struct keeper_client;

/* ensure: called where no warden answers, at most once in two seconds (the warden's room lies higher); may be
 * NULL. */
typedef void keeper_ensure(void *user);
struct keeper_client *keeper_client_new(const struct config *config, keeper_ensure *ensure, void *user);
void keeper_client_free(struct keeper_client *c);
int keeper_client_fd(const struct keeper_client *c); /* EPOLLIN */
/* True: the kernel had no room for a connection in that set, so turns are needed though it is silent. */
bool keeper_client_needs_turns(const struct keeper_client *c);
/* Handles what is ready, deadlines too (a timer stands in the same set); callbacks run inside. */
void keeper_client_turn(struct keeper_client *c);

/* Exactly once, never inside the call that made the request: either err is NULL and ret borrowed, or ret is
 * NULL. */
typedef void keeper_answer(void *user, const json_t *ret, const struct error *err);

/* A request whose bytes flow while it is under way: those that the worker gives, and those that follow an
 * answer that is no error. */
struct keeper_transfer {
    void (*room)(void *user); /* the keeper takes more now: once after keeper_client_want_room */
    /* The worker's credit goes back by keeper_client_grant, when they are used. */
    void (*data)(void *user, const char *data, size_t length);
    void (*end)(void *user, bool whole); /* the last of it; after an answer that is no error, and once */
};

struct keeper_request {
    const char *workspace_id, *operation, *principal, *request_id;
    const char *idempotency_key, *digest; /* NULL = none */
    const json_t *in;
    const json_t *data; /* NULL, or a text that follows the request as bytes, however long; kept meanwhile */
    bool twice;         /* see keeper_call_twice */
    const struct keeper_transfer
        *transfer;       /* NULL = an answer is all; else timeout_ms counts from the last byte */
    bool start;          /* start the workspace where it has no keeper; else ERROR_CONFLICT ("the workspace is
                            stopped") */
    int64_t timeout_ms;  /* then ERROR_TIMEOUT */
    int64_t patience_ms; /* the same, counted from when a keeper has got it and says nothing, not even that
                            it is about to end; 0 = timeout_ms alone */
};
/* Returns a number for keeper_client_cancel. A keeper that dies before it took the request in is started
 * again (start) once, also later where there is a key; else one that dies later: ERROR_UNAVAILABLE,
 * retryable. A keeper that is about to end is waited for: then who may start it again does, the others get
 * ERROR_CONFLICT. */
uint64_t keeper_client_request(struct keeper_client *c, const struct keeper_request *request,
                               keeper_answer *answer, void *user);
/* Of a transfer. Room is 0 where the keeper takes nothing now; send no more than that, then the end once. */
void keeper_client_want_room(struct keeper_client *c, uint64_t number);
size_t keeper_client_room(struct keeper_client *c, uint64_t number);
void keeper_client_send(struct keeper_client *c, uint64_t number, const char *data, size_t length);
void keeper_client_send_end(struct keeper_client *c, uint64_t number);
void keeper_client_grant(struct keeper_client *c, uint64_t number, size_t bytes);
/* The caller loses interest; no answer will come. A request whose data is under way is taken back. */
void keeper_client_cancel(struct keeper_client *c, uint64_t number);

/* Creates a workspace: record (without uid) and idempotency go by the warden to a new keeper. ret = the
 * record once it runs, or
 * {"existing": {"workspace_id", "digest"}}. */
uint64_t keeper_client_create(struct keeper_client *c, const json_t *record, const char *principal,
                              const char *key, const char *digest, keeper_answer *answer, void *user);
/* The same for one that there is once by its owner and name: where there is one, or one is being made,
 * whoever else asked for it, ret tells of that one. It is not taken back: who asks again finds it. */
uint64_t keeper_client_create_by_name(struct keeper_client *c, const json_t *record, keeper_answer *answer,
                                      void *user);
/* Asks the warden: starts it / removes a workspace that has no keeper (files, logs, record); force: or one
 * whose keeper does not answer. */
uint64_t keeper_client_start(struct keeper_client *c, const char *workspace_id, keeper_answer *answer,
                             void *user);
uint64_t keeper_client_remove(struct keeper_client *c, const char *workspace_id, bool force,
                              keeper_answer *answer, void *user);
/* Who wanted it will never hear of it: removed, whatever became of it. Nobody is told. */
void keeper_client_take_back(struct keeper_client *c, const char *workspace_id);

/* Calls changed after each commit that touched the exec, and when the keeper is gone (read the store again).
 * The keeper answers each FRAME_SUBSCRIBE with one FRAME_NOTIFY at once: who reads the store then has missed
 * nothing. Where no keeper runs, changed is called once, soon. */
typedef void keeper_changed(void *user, bool keeper_gone);
struct keeper_subscription;
struct keeper_subscription *keeper_client_subscribe(struct keeper_client *c, const char *workspace_id,
                                                    const char *exec_id, keeper_changed *changed, void *user);
void keeper_client_unsubscribe(struct keeper_subscription *s); /* allowed inside changed */

#endif
