/* The user ids that workspaces hold, in the transactions of their records. For lib/store alone. */
#ifndef STORE_STATE_UIDS_H
#define STORE_STATE_UIDS_H

#include "lib/store/transaction.h"

struct uid_range {
    int64_t base, count; /* count 0 = workspaces get none */
};
/* Sets "uid" of the record to a free one. ERROR_TOO_MANY where all are taken. */
int state_uid_give(struct transaction *t, const struct uid_range *range, json_t *record, const char *id,
                   struct error *err);
/* Frees the record's, if it is really the workspace's own. */
int state_uid_release(struct transaction *t, const json_t *record, const char *id, struct error *err);

#endif
