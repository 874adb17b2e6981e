/* The durable records: one LMDB environment <state_dir>/state, shared by all processes. Records are JSON with
 * a version "v"; keys sort. API hands out copies, never mapped memory. Open after fork; never open it twice
 * in one process. A read is microseconds; a write is a durable commit (never in a worker's loop). */
#ifndef STORE_STATE_H
#define STORE_STATE_H

#include "lib/base/error.h"
#include "lib/base/ids.h"

#include <stdint.h>

struct state;

/* Runs migrations under the write lock; ERROR_UNAVAILABLE for a store that is newer than this program. */
struct state *state_open(const char *state_dir, struct error *err);
void state_close(struct state *s);
/* Frees reader slots of dead processes. Returns how many. */
int state_check_readers(struct state *s);

/* Workspace record (JSON object), members:
 *   v, workspace_id, number (in the order of their making), owner (principal), name, state ("creating",
 * "running", "stopped", "failed"), created_at (text), created_us, started_us, stopped_us, used_us, expires_us
 * (0 = not running), timeout_seconds and idle_timeout_seconds (in force since the last start or extend),
 * reason (why stopped or failed), returncode, sandbox_id, driver, handle (driver's, any JSON), capabilities
 * (driver's, at the last start), spec (the create parameters, checked, with env), uid, root, tags{},
 * repo_path, repo_slug, repo_ref, keeper {process identity}.
 * ERROR_NOT_FOUND where there is none. */
int state_get_workspace(struct state *s, const char *id, json_t **ret, struct error *err);
/* The same for who reads often: shared with others, it must not be changed; one that did not change since is
 * not parsed again. */
int state_see_workspace(struct state *s, const char *id, json_t **ret, struct error *err);
/* Writes the record as it is; ERROR_NOT_FOUND where it was removed meanwhile (so that a late keeper cannot
 * raise the dead). */
int state_update_workspace(struct state *s, const json_t *record, struct error *err);
/* Sets members of changes in the record in one transaction; *ret (may be NULL) = the new record. */
int state_patch_workspace(struct state *s, const char *id, const json_t *changes, json_t **ret,
                          struct error *err);
struct state_idempotency {
    const char *principal;
    const char *key; /* NULL = the record's owner and name are it, while there is a workspace of that name */
    const char *digest; /* of operation and parameters */
    int64_t ttl_s;
};
/* One transaction: counts against max_workspaces (ERROR_TOO_MANY), picks "uid" in [uid_base, uid_base +
 * uid_count) where uid_count > 0, writes the record, the owner index and the idempotency record. idem may be
 * NULL. Where the key was used before: returns 1 and *ret_existing = {"workspace_id", "digest"}; the caller
 * compares the digest. Where the name is the key: that of the first made of that name, no digest. */
int state_create_workspace(struct state *s, json_t *record, const struct state_idempotency *idem,
                           int64_t max_workspaces, int64_t uid_base, int64_t uid_count, json_t **ret_existing,
                           struct error *err);
/* Removes record and index; also the idempotency record if forget_key. Absent is fine. */
int state_remove_workspace(struct state *s, const char *id, bool forget_key, struct error *err);
/* Records of one owner (NULL = all), by id, after the id `after` (NULL = from the start), at most limit: a
 * new array. */
int state_list_workspaces(struct state *s, const char *owner, const char *after, size_t limit, json_t **ret,
                          struct error *err);
/* The first made of the owner's workspaces of that name: 1 = id, 0 = there is none, -1. */
int state_find_named(struct state *s, const char *owner, const char *name, char id[static ID_SIZE],
                     struct error *err);
/* {"workspace_id", "digest"} of a key, ERROR_NOT_FOUND. */
int state_find_idempotency(struct state *s, const char *principal, const char *key, json_t **ret,
                           struct error *err);
int state_prune(struct state *s, int64_t now_s, struct error *err); /* expired idempotency records */
/* What is known of the machine's clocks (lib/base/steady.h), for who counts ages. */
void state_get_clock(struct state *s, json_t **ret); /* NULL = nothing yet, or it cannot be read */
int state_put_clock(struct state *s, const json_t *clock, struct error *err);

/* Calls visit for each workspace; the records are read by the hundred, so no transaction is open meanwhile,
 * and visit may change what it likes. */
typedef void state_visit(void *user, const char *id, const json_t *record);
int state_visit_workspaces(struct state *s, state_visit *visit, void *user, struct error *err);

/* Tokens: key = SHA-256 in hex of the token; record {v, id, principal, scopes [..], workspace_id?,
 * created_at, hash}. */
int state_add_token(struct state *s, const char *hash, const json_t *record, struct error *err);
int state_find_token(struct state *s, const char *hash, json_t **ret, struct error *err);
int state_list_tokens(struct state *s, json_t **ret, struct error *err);
int state_remove_token(struct state *s, const char *id, struct error *err); /* by id */
int state_count_tokens(struct state *s, struct error *err);

#endif
