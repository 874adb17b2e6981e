/* The owner of one live workspace: its sandbox, its agent's channel, its execs, its events environment, its
 * record, its timeouts. One process for each, `workspace-fcgi keep WS`, single-threaded but for the flusher.
 * Knows nothing of HTTP, MCP or operations: their halves that run here come in by keeper_options.dispatch.
 *
 * On run/<ws>.sock, frames: REQUEST {"operation", "in", "principal", "request_id", "key"?, "digest"?,
 * "twice"?, "data"?, "streams"?} -> REPLY (with "data", so many bytes of DATA and END follow the request, -1
 * = as many as come; the worker's CLOSE takes it back; with "streams", a reply that is no error is followed
 * by DATA of channel 1 and a CLOSE of one byte, 1 = what came is not whole), or an empty CLOSE where the
 * keeper is about to end and has not taken it in (start the workspace again, repeat it). A keeper that is
 * about to end says CLOSE on stream 0 to all, and END on stream 0 behind its last reply: what was sent to it
 * and has no answer then was not taken in either. SUBSCRIBE id of an exec or a watch -> NOTIFY at once and
 * after each commit that touched it, at most one waiting for a worker that does not read; UNSUBSCRIBE. */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include "lib/config/config.h"
#include "lib/store/events.h"
#include "lib/store/state.h"

struct keeper;
struct keeper_call; /* one request of a worker, until it is answered */

/* Runs the keeper's half of an operation. 0 = *ret is the answer, -1 = err, 1 = keeper_reply comes later. */
typedef int keeper_dispatch(struct keeper_call *call, const char *operation, const json_t *in, json_t **ret,
                            struct error *err);

struct keeper_options {
    const struct config *config;
    const char *workspace_id;
    int spec_fd; /* -1, or a descriptor with {"record": workspace record, "idempotency": {...}} of a workspace
                    to be created */
    int ready_fd; /* -1, or where one JSON line goes: {"ret": record} | {"existing": {...}} | {"error":
                     packed} */
    keeper_dispatch *dispatch;
};
/* Until the workspace stops: 0 = stopped in order, 1 = could not start. */
int keeper_run(const struct keeper_options *options);

/* ---- for the operations' keeper halves ---- */
struct keeper *keeper_of(struct keeper_call *call);
const char *keeper_call_principal(const struct keeper_call *call);
const char *keeper_call_idempotency_key(const struct keeper_call *call); /* NULL = none */
const char *keeper_call_digest(const struct keeper_call *call);
const char *keeper_call_request_id(const struct keeper_call *call);
void keeper_reply(struct keeper_call *call, const json_t *ret, const struct error *err);
const json_t *keeper_record(const struct keeper *k); /* the workspace's record as last written */
const struct config *keeper_config(const struct keeper *k);
bool keeper_call_twice(const struct keeper_call *call);   /* the answer's text will stand in it twice */
int64_t keeper_call_data(const struct keeper_call *call); /* bytes that follow the request; -1 = none */
/* A call on files: request (stolen) goes to the agent, what follows the worker's request with it, and the
 * agent's reply is the answer. Returns 1 (the answer comes later) or -1. */
int keeper_file_call(struct keeper_call *call, json_t *request, struct error *err);

struct exec_request {
    const char *command, *workdir; /* workdir NULL = the workspace's default */
    const json_t *env;             /* {name: text or null}; NULL = none */
    bool pty, merge_stderr, stdin_is_null;
    bool rtk; /* where the sandbox has that program, it is asked for another command first */
    int rows, cols;
    int64_t timeout_s; /* 0 = none */
};
/* Records it (state starting, first event) and sends it to the agent; a key used before gives the first one's
 * head. */
int keeper_exec_start(struct keeper_call *call, const struct exec_request *request, struct exec_head *ret,
                      struct error *err);
/* ERROR_CONFLICT after EOF or exit; ERROR_TOO_MANY when KEEPER_INPUT_MAX bytes wait already (nothing of this
 * call is taken). */
#define KEEPER_INPUT_MAX (4u << 20)
int keeper_exec_input(struct keeper *k, const char *exec_id, const void *data, size_t length, bool eof,
                      struct error *err);
/* tree: the signal to every descendant, what is left 2 s later is killed (KILL: at once). Also after exit.
 * ERROR_CONFLICT where the exec ended and tree is false. */
int keeper_exec_signal(struct keeper *k, const char *exec_id, int signal_number, bool tree,
                       struct error *err);
int keeper_exec_resize(struct keeper *k, const char *exec_id, int rows, int cols, struct error *err);
struct watch_request {
    const char *path;
    bool recursive;
    const json_t *types;   /* names of change types */
    const json_t *exclude; /* patterns */
    int64_t timeout_s;
};
/* Begins to watch; the answer (watch_id, path, state, sandbox_id, workspace_id) comes when all is watched.
 * Returns 1 or -1; ERROR_TOO_MANY where KEEPER_WATCHES_MAX live already. */
#define KEEPER_WATCHES_MAX 64
int keeper_watch_start(struct keeper_call *call, const struct watch_request *request, struct error *err);
/* Ends it; of one that has ended nothing. ERROR_NOT_FOUND. */
int keeper_watch_cancel(struct keeper *k, const char *watch_id, struct error *err);
/* New deadlines from now, until the workspace stops. 0 = as it is; timeout_s: -1 = as the spec says;
 * idle_timeout_s: -1 = none. Returns the new record. */
int keeper_extend(struct keeper *k, int64_t timeout_s, int64_t idle_timeout_s, json_t **ret,
                  struct error *err);
/* Ends the sandbox, writes the last events and the record, answers the call (record, with returncode), and
 * the process ends. remove: files, logs and record go too (renamed into trash). Returns 1 (the answer comes
 * later). */
int keeper_stop(struct keeper_call *call, bool remove, struct error *err);

#endif
