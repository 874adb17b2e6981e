/* Transactions on the state environment: one table of tables, JSON values, a body that runs again where the
 * map had to grow. For lib/store alone. Thread-safe: reads of one process take turns (each is microseconds),
 * writes wait for LMDB's writer lock. */
#ifndef STORE_TRANSACTION_H
#define STORE_TRANSACTION_H

#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Names: transaction.c. Appended to, never reordered within a release's migrations. */
enum state_table {
    TABLE_META,          /* "version", "next_uid", "last_number" -> number, "clock" -> object */
    TABLE_WORKSPACE,     /* id -> record */
    TABLE_OWNER,         /* SHA-256 of the owner, id -> true */
    TABLE_UID,           /* uid, 10 digits -> id */
    TABLE_KEY,           /* SHA-256 of principal and key -> {v, workspace_id, digest, expires_s} */
    TABLE_WORKSPACE_KEY, /* id -> the hash of its idempotency key */
    TABLE_TOKEN,         /* SHA-256 of the token -> record */
    TABLE_TOKEN_ID,      /* id of a token -> its hash */
    TABLE_COUNT
};

struct state;
/* state_open with a first size of the map (for tests). */
struct state *state_open_sized(const char *state_dir, int64_t map_bytes, struct error *err);
struct transaction; /* for the body's time only */

/* 0 = commit, 1 = nothing to write (result 1), -1 = err. May run more than once: it must begin from its
 * arguments each time. */
typedef int transaction_body(struct transaction *t, void *arguments, struct error *err);
int transaction_write(struct state *s, transaction_body *body, void *arguments, struct error *err);
/* The same for a body that makes room: on a full disk it takes what is kept back (reserve.h). */
int transaction_remove(struct state *s, transaction_body *body, void *arguments, struct error *err);
int transaction_read(struct state *s, transaction_body *body, void *arguments, struct error *err);

/* 1 = *ret is a new reference, 0 = absent (ret may be NULL). A value that is no JSON is ERROR_INTERNAL. */
int transaction_get(struct transaction *t, enum state_table table, const char *key, json_t **ret,
                    struct error *err);
/* The same for transaction_read, shared: *ret must not be changed. */
int transaction_see(struct transaction *t, enum state_table table, const char *key, json_t **ret,
                    struct error *err);
int transaction_put(struct transaction *t, enum state_table table, const char *key, const json_t *value,
                    struct error *err);
int transaction_delete(struct transaction *t, enum state_table table, const char *key,
                       struct error *err); /* absent is fine */
/* Calls take for each pair whose key is at or after from, in order, until it returns other than 0; returns
 * that, or 0. take must not write. */
typedef int transaction_take(void *user, const char *key, const json_t *value, struct error *err);
int transaction_each(struct transaction *t, enum state_table table, const char *from, transaction_take *take,
                     void *user, struct error *err);
int64_t transaction_count(struct transaction *t, enum state_table table);

#endif
