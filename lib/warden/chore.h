/* What the chores share. */
#ifndef WARDEN_CHORE_H
#define WARDEN_CHORE_H

#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/memory.h"
#include "lib/store/events.h"
#include "lib/store/state.h"
#include "lib/warden/warden.h"

struct chore {
    const struct config *config;
    struct state *state;
    int64_t now_us; /* sweep: wall time that ages are counted by */
};

/* The workspace's lock, or ERROR_CONFLICT where a keeper lives. */
int chore_lock(const struct chore *c, const char *id, struct error *err);
/* Of a workspace that is gone, while it is held. */
void chore_forget_lock(const struct chore *c, const char *id);
bool chore_is_live(const json_t *record); /* its record says that it runs */
int chore_end_sandbox(const struct chore *c, const json_t *record, const json_t *handle, struct error *err);
int chore_mend_locked(const struct chore *c, const char *id, struct error *err);
int chore_remove_locked(const struct chore *c, const char *id, struct error *err);

int chore_sweep(const struct chore *c, const char *unused, struct error *err); /* sweep.c */
int chore_share(const struct chore *c, const char *unused, struct error *err); /* share.c */
int chore_trash(const struct chore *c, const char *unused, struct error *err); /* trash.c */

#endif
