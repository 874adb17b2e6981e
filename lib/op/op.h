/* One operation, declared once, beside its handlers. From the row come REST routes, parameter places, MCP
 * tools, scopes, both OpenAPI documents, `describe` and the command line. Adding one = a row and its handlers
 * in op_*.c, one line in ops.c, one case in tests/cases. */
#ifndef OP_OP_H
#define OP_OP_H

#include "lib/base/buffer.h"
#include "lib/config/config.h"
#include "lib/keeper/keeper.h"
#include "lib/schema/field.h"

enum op_flag {
    OP_READ_ONLY = 1 << 0, /* readOnlyHint; scope read, else write */
    OP_DESTRUCTIVE = 1 << 1,
    OP_IDEMPOTENT = 1 << 2,
    OP_OPEN_WORLD = 1 << 3,
    OP_CONSEQUENTIAL = 1 << 4, /* x-openai-isConsequential */
    OP_ON_WORKSPACE = 1 << 5,  /* the dispatcher loads {workspace_id} and checks its owner: call->workspace */
    OP_NEEDS_SANDBOX = 1 << 6, /* keep starts the workspace where it is stopped */
    OP_LONG_POLL = 1 << 7,
    OP_KEYED = 1 << 8,      /* Idempotency-Key is honoured */
    OP_IN_ACTIONS = 1 << 9, /* one of the 30 in actions.json */
    OP_REST_ONLY = 1 << 10,
    OP_LIST = 1 << 11,    /* the result is a bare JSON array of `result` rows (A's contract) */
    OP_STREAMS = 1 << 12, /* may answer as server-sent events */
    OP_ADMIN = 1 << 13,
    OP_DEFAULT_WORKSPACE =
        1 << 14,              /* without workspace_id: the principal's own `default`, made on first use */
    OP_STOPPED_TOO = 1 << 16, /* where no keeper lives, run alone answers: call->kept is empty */
    OP_RAW =
        1 << 15, /* bytes of a file: the answer of keep is followed by them, or they are the request's body */
};

struct principal {
    char *name; /* "owner" or the token's */
    bool read, write, admin;
    char *workspace_id; /* NULL, or the only workspace this token may touch */
};

enum call_form { CALL_REST, CALL_MCP /* the JSON will stand twice */, CALL_SSE };
enum { OP_DONE = 0, OP_FAILED = -1, OP_PARKED = 1, OP_MORE = 2, OP_AWAY = 3 };

/* What takes longer than a loop may be held up: the beginning of a handler's own structure. */
struct call_work {
    void (*run)(struct call_work *work); /* in a helper thread: touches nothing but the work */
    void (*release)(struct call_work *work);
};

struct call;
struct keeper_client;
struct events_cache;

struct op {
    const char *id;   /* operationId */
    const char *tool; /* MCP name; NULL = REST only */
    const char *title;
    const char *toolset;       /* workspace, repo, file, watch, sandbox, function */
    const char *method, *path; /* "/workspaces/{workspace_id}/exec", below <mount>/api */
    const char *summary;       /* <= 300 characters */
    const char *description;   /* may be NULL */
    const char *example; /* JSON members for a call to try, beside the ids that the path names; NULL = none */
    const struct field *params, *result;
    unsigned flags;
    const char *data; /* the parameter whose text keep does not see: it goes on as bytes; NULL = none */
    int keep_ms;      /* how long keep may take; 0 = as long as what only the keeper does */
    /* The half that runs in the workspace's keeper, first, where there is one; see keeper_dispatch for what
     * it returns. NULL = none. */
    int (*keep)(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err);
    /* The half that runs in the worker's loop: never blocks (store reads only). With keep: afterwards,
     * call->kept is its answer; NULL = the keeper's answer is the result. OP_DONE: call->result or call->body
     * is the result. OP_PARKED: call->park says what for; it is called again when that changed and, with
     * call->last set, at the deadline or when the worker must go: then it must answer. A parked call with a
     * body streams it (CALL_SSE) and is called again when it is its turn, until its body is empty or the
     * client is slow. OP_MORE, where call->pieces is set: body is a piece of the answer, the next is made
     * when it is its turn and the client has taken this one; from then on it must not fail, and with
     * call->last set it ends the answer where it is. A piece is a millisecond of work at most. OP_AWAY, also
     * with call->last set, of calls that are parked alone: call->work is done by a helper thread, and it is
     * called again with it. Without call->may_work it returns it with no work: it is called again when there
     * is room, and reads what the work is about only then. */
    int (*run)(struct call *call, struct error *err);
    /* Optional: rules between fields, before anything else happens (ERROR_INVALID); may change in
     * (normalising). */
    int (*check)(const struct config *config, json_t *in, struct error *err);
    /* Optional: what of a result is worth a line to people who watch (MCP notifications); the caller frees,
     * NULL = nothing. */
    char *(*told)(const json_t *result);
    /* Optional, instead of keep: the dispatcher's own kind of action on the warden or a keeper. */
    enum op_action {
        OP_ACTION_NONE,
        OP_ACTION_CREATE,
        OP_ACTION_TERMINATE,
        OP_ACTION_STOP,
        OP_ACTIONS
    } action;
};

struct call {
    const struct op *op;
    const struct config *config;
    struct state *state;
    struct events_cache *events;
    const struct principal *principal;
    const char *request_id;
    const char *idempotency_key; /* NULL = none */
    enum call_form form;
    json_t *in;        /* checked, defaults filled; owned */
    json_t *workspace; /* record; owned; NULL without OP_ON_WORKSPACE */
    json_t *kept;      /* the keeper's (or the action's) answer; owned */
    /* result: one of the two */
    json_t *result;       /* owned */
    struct buffer body;   /* JSON text (REST, MCP) or server-sent events (SSE) */
    struct buffer blocks; /* CALL_MCP: the content's blocks (blocks.h); empty = the result as text */
    bool failed;          /* CALL_MCP: what the result tells is a failure of the tool */
    /* parking */
    struct {
        char exec_id[ID_SIZE];
        int64_t deadline_ms; /* clock_boottime_ms() */
        char share[192];     /* calls parked with equal non-empty text get one rendered answer (CALL_REST and
                                CALL_MCP apart); "" = alone */
    } park;
    bool last;
    bool pieces;            /* a large answer may be made in pieces: OP_MORE */
    bool going_on;          /* the first of them is out */
    void *memo;             /* the handler's own between calls; freed with free() */
    struct call_work *work; /* of OP_AWAY: owned; there again once it is done */
    bool may_work;
};
void call_clear(struct call *call);

/* The record of a workspace to be created (for keeper_client_create) from the checked parameters of
 * createRemoteWorkspace; a new reference. */
json_t *op_workspace_record(const struct config *config, const struct principal *principal, const json_t *in);

extern const struct op *const ops[]; /* NULL-ended, in the order of the documents */
const struct op *op_find(const char *id);
const struct op *op_find_tool(const char *tool);
bool op_path_has(const struct op *op, const char *name); /* does {name} stand in its path? */
extern const char op_raw_way[];                          /* how those with OP_RAW are called: a sentence */
/* The rows' keeper halves by operationId: give it to keeper_run. */
keeper_dispatch op_keep;
/* Digest of operation and parameters for Idempotency-Key: SHA-256 over canonical JSON. */
void op_digest(const struct op *op, const json_t *in, char hex[static ID_HASH_SIZE]);

#endif
