/* Which workspaces an owner has, and in which order they were made, in the transactions of their records. For
 * lib/store alone. */
#ifndef STORE_STATE_OWNERS_H
#define STORE_STATE_OWNERS_H

#include "lib/base/ids.h"
#include "lib/store/transaction.h"

int state_owner_put(struct transaction *t, const char *owner, const char *id, struct error *err);
int state_owner_delete(struct transaction *t, const char *owner, const char *id, struct error *err);
/* Calls take for each record of the owner by id, after the id `after` (NULL = from the start), until it
 * returns other than 0; returns that, or 0. */
int state_owner_each(struct transaction *t, const char *owner, const char *after, transaction_take *take,
                     void *user, struct error *err);
/* Sets "number" of a record that is about to be written: each is higher than all before it. */
int state_owner_number(struct transaction *t, json_t *record, struct error *err);
/* The first made of the owner's workspaces of that name: 1 = id, 0 = there is none, -1. */
int state_owner_find_named(struct transaction *t, const char *owner, const char *name,
                           char id[static ID_SIZE], struct error *err);

#endif
