/* What the warden does by the clock: it looks for records whose keeper is gone, and starts the processes that
 * sweep and that empty the trash. */
#include "lib/base/process.h"
#include "lib/warden/internal.h"

static bool is_live_state(const json_t *record)
{
    const char *state = json_string_value(json_object_get(record, "state"));
    return state != NULL && (strcmp(state, "running") == 0 || strcmp(state, "creating") == 0);
}

void round_look_at(struct warden *w, const char *id, const json_t *record)
{
    struct process_identity identity;
    if (!is_live_state(record))
        return;
    struct place *p = place_get(w, id);
    if (p->keeper != NULL || p->chore != NULL)
        return;
    bool known = process_identity_from_json(json_object_get(record, "keeper"), &identity) == 0;
    int pidfd = known ? process_open(&identity) : -1;
    if (pidfd >= 0)
        p->keeper = child_adopt(w, p, identity.pid, pidfd);
    else if (!p->mend)
        p->mend = true;
}

static void look_at(void *user, const char *id, const json_t *record)
{
    round_look_at(user, id, record);
}

void round_scan(struct warden *w)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (state_visit_workspaces(w->state, look_at, w, &err) < 0)
        log_error("cannot read the records: %s", err.message);
}

static void start_round(struct warden *w, struct child **slot, enum child_kind kind)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (*slot != NULL)
        return;
    *slot = child_start(w, kind, NULL, NULL, &err);
    if (*slot == NULL)
        log_error("%s", err.message);
}

void round_ended(struct child *c)
{
    struct warden *w = c->warden;
    if (w->sweep == c) {
        w->sweep = NULL;
        w->trash_ms = clock_boottime_ms();
    }
    if (w->trash == c)
        w->trash = NULL;
    if (w->share == c)
        w->share = NULL;
}

void round_tick(struct warden *w)
{
    int64_t now = clock_boottime_ms();
    if (w->round_ms <= now) {
        w->round_ms = now + WARDEN_ROUND_MS;
        state_check_readers(w->state);
        round_scan(w);
        start_round(w, &w->sweep, CHILD_SWEEP);
    }
    if (w->trash_ms <= now) {
        w->trash_ms = INT64_MAX;
        if (w->trash != NULL) /* what came meanwhile */
            w->trash_ms = now + TRASH_AFTER_MS;
        start_round(w, &w->trash, CHILD_TRASH);
    }
}
