/* Idempotency keys of creating workspaces, in the transactions of their records. For lib/store alone. */
#ifndef STORE_STATE_KEYS_H
#define STORE_STATE_KEYS_H

#include "lib/base/ids.h"
#include "lib/store/state.h"
#include "lib/store/transaction.h"

void state_key_hash(const char *principal, const char *key, char hash[static ID_HASH_SIZE]);
/* The key's record while it counts: 1 = *ret is a new reference, 0, -1. */
int state_key_find(struct transaction *t, const char *hash, int64_t now_s, json_t **ret, struct error *err);
int state_key_put(struct transaction *t, const struct state_idempotency *idem, const char *hash,
                  int64_t now_s, const char *id, struct error *err);
/* A workspace goes; forget: its key may be used again. */
int state_key_release(struct transaction *t, const char *id, bool forget, struct error *err);
json_t *state_key_public(const json_t *record); /* {"workspace_id", "digest"} */

#endif
