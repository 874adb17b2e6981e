/* One call from checked parameters to its result: scope, workspace, keeper, the worker's half, parking. What
 * the rooms of the service share is here too; carriers and operators' commands see service.h only. */
#ifndef FCGI_DISPATCH_H
#define FCGI_DISPATCH_H

#include "fcgi/exchange.h"
#include "fcgi/loop.h"
#include "fcgi/turns.h"
#include "lib/keeper/client.h"
#include "lib/op/op.h"
#include "lib/store/events.h"
#include "lib/store/state.h"

#include <sys/queue.h>

struct service {
    struct loop *loop;
    const struct config *config;
    int wish_fd; /* -1 = none */
    struct state *state;
    struct events_cache *events;
    struct loop_timer sweep; /* of events */
    struct keeper_client *client;
    struct loop_watch *client_watch;
    struct loop_timer client_timer;
    struct routes *routes;       /* rest.c */
    struct documents *documents; /* documents.c */
    struct mcp_tools *tools;     /* mcp/tools.c */
    struct waiting *waiting;     /* wait.c */
    struct streaming *streaming; /* stream.c */
    struct aways *aways;         /* away.c */
    struct turns *turns;
    bool draining;
    bool checks_results; /* LOG_LEVEL=debug */
    bool hinted;         /* at the mount, in the log */
};

/* Who gets what comes of a call. */
struct flight;
struct dispatch_sink {
    /* Once; the flight is gone afterwards. err NULL: text is the result as JSON, or the last piece of one
     * where pieces came before (may be empty). */
    void (*answer)(void *user, struct flight *f, const char *text, size_t length, const struct error *err);
    /* A piece, and how much of it all the client has not taken yet. NULL: answers are whole. */
    void (*piece)(void *user, struct flight *f, const char *data, size_t length);
    size_t (*queued)(void *user);
    /* Bytes of a file (OP_RAW): what will come as pieces; whether more of the request's body is wanted. NULL:
     * neither can be carried. */
    void (*head)(void *user, struct flight *f, const json_t *head);
    void (*take_body)(void *user, bool yes);
};

struct dispatch_request {
    const struct op *op;
    const struct principal *principal; /* copied */
    enum call_form form;
    json_t *in;      /* checked by the row; stolen */
    const char *key; /* Idempotency-Key; NULL = none */
    const char *request_id;
    int64_t started_us; /* clock_boottime_us */
    size_t backlog;     /* exchange_backlog: answers that clients have not taken yet */
    const char *peer;   /* the client's address; NULL = none */
};

/* One call under way. Parked, it is nearly nothing: what the operation needs lies in its parking. */
struct parking;
struct away;
struct raw;
struct flight {
    struct service *service;
    const struct op *op;
    const struct dispatch_sink *sink;
    void *user;
    struct principal principal;
    enum call_form form;
    bool begun;         /* of its sink: a piece went out */
    bool streaming;     /* among the answers that are made in pieces */
    bool going_on;      /* of such a one: the operation gave its first piece */
    bool blocked;       /* its client is slow: not run until that drained */
    bool counted;       /* among the parked of its principal */
    bool means_default; /* its client named no workspace */
    bool creating;      /* a workspace that nobody would know of, were it given up now */
    unsigned char attempts;
    bool *over; /* set when it ends inside dispatch_start */
    char *key;
    char *audited; /* the beginning of its line in the audit log; NULL = none */
    json_t *in, *kept, *workspace;
    json_t *data;         /* of a call that may begin again: what stood in its parameters (op->data) */
    struct buffer blocks; /* of an MCP answer; empty = its text alone */
    bool failed;          /* of an MCP answer: it tells of a failure */
    void *memo;
    struct call_work *work; /* that is done, for the next run */
    struct away *away;      /* away.c: a helper thread works for it */
    bool waits_for_room;    /* away.c: until it may have such work */
    bool may_work;
    struct raw *raw; /* of OP_RAW */
    uint64_t number; /* of the keeper's answer that it waits for; 0 = none */
    int64_t started_us;
    char workspace_id[ID_SIZE], exec_id[ID_SIZE]; /* for the log and for parking */
    char request_id[33];
    struct turn turn;            /* of those that stream */
    TAILQ_ENTRY(flight) in_list; /* of its parking, or of all answers in pieces */
    /* wait.c */
    struct parking *parking;
    struct loop_timer timer;
    int64_t deadline_ms;
};

/* NULL: answered already. */
struct flight *dispatch_start(struct service *s, struct dispatch_request *request,
                              const struct dispatch_sink *sink, void *user);
/* The client went away: no answer. What the call set going goes on. */
void dispatch_abandon(struct flight *f);
/* The client took all pieces that were sent. */
void dispatch_drained(struct flight *f);

/* A piece of the request's body, where its operation takes one (OP_RAW); last: it is whole. */
void dispatch_body(struct flight *f, const char *data, size_t length, bool last);

/* ---- for wait.c, stream.c, away.c, raw.c and actions.c ---- */
/* Fills call for a run of f's operation; in, kept, memo and work are moved from f, the workspace is loaded
 * anew where f has none. */
int dispatch_fill(struct flight *f, struct call *call, struct error *err);
/* Runs the worker's half; after OP_DONE call->body is the text. */
int dispatch_run(struct service *s, struct call *call, struct error *err);
/* What of a call's answer is not its text. */
void dispatch_take_blocks(struct flight *f, const struct call *call);
/* A run of f with all that may come of it: an answer, parking, a piece. */
void dispatch_go_on(struct flight *f);
/* The keeper's answer, copied, then the worker's half. */
void dispatch_keep(struct flight *f, const json_t *value);
/* The same as a keeper_answer: of an operation that runs where no keeper is (OP_STOPPED_TOO), nothing comes.
 */
void dispatch_kept(void *user, const json_t *ret, const struct error *err);
/* Asks the workspace's keeper for its half; start: brings it up first. */
void dispatch_ask_keeper(struct flight *f, bool start, keeper_answer *answer);
/* The workspace is known: the action, the keeper's half or the worker's. */
void dispatch_advance(struct flight *f);
/* Takes the ids of an object that tells of an exec or a workspace, for the log and for parking. */
void dispatch_note(struct flight *f, const json_t *object);
int dispatch_load_workspace(struct flight *f, json_t **ret, struct error *err);
/* Answers and frees. */
void dispatch_fail(struct flight *f, const struct error *err);
void dispatch_finish(struct flight *f, const char *text, size_t length, const struct error *err);

#endif
