/* All deadlines of a keeper, on CLOCK_BOOTTIME: idle and absolute timeouts, timeouts and graces of execs,
 * waiting tails, retries of a full store, pruning, the driver's watch over memory. One function says when the
 * next is due, one acts on those that are. */
#include "lib/keeper/internal.h"

#define PRUNE_EVERY_MS       60000
#define PRUNE_TIGHT_EVERY_MS 2000
#define PRUNE_MORE_MS        20 /* between the steps of one pruning: commands go on between them */
#define PRUNE_FILL           0.8
#define IDLE_ENFORCE_MS      1000 /* while no exec runs: what they left behind is looked at less often */

static int64_t spec_seconds(const struct keeper *k, const char *name)
{
    return spec_integer(k->record, name, 0);
}

static void set_absolute(struct keeper *k, int64_t timeout_s)
{
    k->absolute_ms = timeout_s > 0 ? clock_boottime_ms() + timeout_s * 1000 : INT64_MAX;
}

static void set_idle(struct keeper *k, int64_t idle_s)
{
    k->idle_s = idle_s;
    life_active(k);
}

static int64_t prune_every_ms(const struct keeper *k)
{
    int64_t kept_ms = k->config->event_log_ttl * 1000;
    return kept_ms < PRUNE_EVERY_MS ? kept_ms : PRUNE_EVERY_MS;
}

void life_begin(struct keeper *k)
{
    k->enforce_ms = INT64_MAX;
    k->enforce_over = k->driver->enforce == NULL;
    k->journal.shed_ms = INT64_MAX;
    k->prune_ms = clock_boottime_ms() + prune_every_ms(k);
    json_auto_t *clock = NULL;
    state_get_clock(k->state, &clock);
    steady_from_json(&k->clock, clock);
    set_absolute(k, spec_seconds(k, "timeout_seconds"));
    set_idle(k, spec_seconds(k, "idle_timeout_seconds"));
}

void life_active(struct keeper *k)
{
    k->active_ms = clock_boottime_ms();
    k->idle_ms = k->idle_s > 0 ? k->active_ms + k->idle_s * 1000 : INT64_MAX;
}

static int64_t idle_deadline(const struct keeper *k)
{
    return k->running > 0 || k->relays != NULL || k->watches != NULL ? INT64_MAX : k->idle_ms;
}

int keeper_extend(struct keeper *k, int64_t timeout_s, int64_t idle_timeout_s, json_t **ret,
                  struct error *err)
{
    int64_t timeout = timeout_s < 0 ? spec_seconds(k, "timeout_seconds") : timeout_s;
    int64_t idle = idle_timeout_s > 0 ? idle_timeout_s : idle_timeout_s < 0 ? 0 : k->idle_s;
    int64_t now = clock_wall_us();
    json_t *changes = json_pack("{s:I, s:o}", "used_us", (json_int_t)now, "idle_timeout_seconds",
                                idle > 0 ? json_integer(idle) : json_null());
    if (timeout_s != 0) {
        json_object_set_new(changes, "expires_us", json_integer(timeout > 0 ? now + timeout * 1000000 : 0));
        json_object_set_new(changes, "timeout_seconds", timeout > 0 ? json_integer(timeout) : json_null());
    }
    if (keeper_patch(k, changes, err) < 0)
        return -1;
    if (timeout_s != 0)
        set_absolute(k, timeout);
    set_idle(k, idle);
    *ret = json_incref(k->record);
    return 0;
}

size_t life_ends(const struct keeper *k)
{
    return k->running + k->watch_count;
}

/* ---- memory ---- */

int64_t life_oom_kills(const struct keeper *k)
{
    return k->driver->oom_kills != NULL ? k->driver->oom_kills(k->sandbox) : k->enforce_kills;
}

static void enforce(struct keeper *k, int64_t now)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    bool killed = false;
    int interval = k->driver->enforce(k->sandbox, &killed, &err);
    if (interval < 0) {
        log_warning("%s: cannot watch the limits: %s", k->workspace_id, err.message);
        interval = IDLE_ENFORCE_MS;
    }
    if (killed)
        k->enforce_kills++;
    k->enforce_over = interval == 0;
    if (k->running == 0 && interval < IDLE_ENFORCE_MS)
        interval = IDLE_ENFORCE_MS;
    k->enforce_ms = k->enforce_over ? INT64_MAX : now + interval;
}

/* ---- pruning ---- */

/* What a command left behind may write for longer than its log is kept. */
static void forget_pruned(struct keeper *k)
{
    for (struct exec *e = k->execs; e != NULL; e = e->next) {
        _cleanup_error_ struct error err = ERROR_INIT;
        struct exec_head head;
        if (!e->now.over || e->now.closed || e->forgotten ||
            events_get_exec(events_writer_reader(k->events), e->now.head.id, &head, &err) == 0 ||
            err.code != ERROR_NOT_FOUND)
            continue;
        e->forgotten = true;
        e->now.tails[0].length = e->now.tails[1].length = 0;
        box_detach(k, e->now.head.stream);
    }
}

/* Only what is older than it need be: a full store is no reason to break the promise of how long logs are
 * kept. */
static void prune(struct keeper *k, int64_t now)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    int64_t before_us = steady_look(&k->clock) - k->config->event_log_ttl * 1000000;
    size_t removed = 0;
    int more = events_prune(k->events, before_us, &removed, &err);
    if (more < 0)
        log_debug("%s: cannot prune the log: %s", k->workspace_id, err.message);
    if (removed > 0) {
        flusher_mark(k->flusher);
        forget_pruned(k);
    }
    bool tight = k->journal.full || events_fill(k->events) > PRUNE_FILL;
    int64_t every_ms = prune_every_ms(k);
    bool soon = (removed > 0 || tight) && PRUNE_TIGHT_EVERY_MS < every_ms;
    k->prune_ms = now + (more > 0 ? PRUNE_MORE_MS : soon ? PRUNE_TIGHT_EVERY_MS : every_ms);
}

/* ---- execs ---- */

static int64_t tail_deadline(const struct exec *e)
{
    int64_t deadline = INT64_MAX;
    for (unsigned i = 0; i < 2; i++)
        if (e->now.tails[i].length > 0 && e->now.tails[i].deadline_ms < deadline)
            deadline = e->now.tails[i].deadline_ms;
    return deadline;
}

static void earlier(int64_t *deadline, int64_t other)
{
    if (other < *deadline)
        *deadline = other;
}

static int64_t exec_deadline(const struct keeper *k, const struct exec *e)
{
    int64_t deadline = e->timeout_ms;
    earlier(&deadline, e->kill_ms);
    if (!k->journal.full)
        earlier(&deadline, tail_deadline(e));
    return deadline;
}

static void exec_tick(struct keeper *k, struct exec *e, int64_t now)
{
    if (e->timeout_ms <= now) {
        e->timeout_ms = INT64_MAX;
        e->timeout_fired = true;
        live_end_tree(k, e, SIGTERM);
    }
    if (e->kill_ms <= now) {
        e->kill_ms = INT64_MAX;
        e->kill_sent = true;
        box_signal(k, e->now.head.stream, SIGKILL, true);
    }
    for (unsigned i = 0; i < 2 && !k->journal.full; i++)
        if (e->now.tails[i].length > 0 && e->now.tails[i].deadline_ms <= now)
            journal_add_flush(k, e, i);
}

/* ---- all ---- */

int64_t life_deadline(const struct keeper *k)
{
    int64_t deadline = idle_deadline(k);
    earlier(&deadline, k->absolute_ms);
    earlier(&deadline, k->enforce_ms);
    earlier(&deadline, k->prune_ms);
    earlier(&deadline, k->journal.shed_ms);
    earlier(&deadline, watches_deadline(k));
    if (k->journal.full)
        earlier(&deadline, k->journal.retry_ms);
    for (const struct exec *e = k->execs; e != NULL; e = e->next)
        earlier(&deadline, exec_deadline(k, e));
    return deadline;
}

void life_tick(struct keeper *k)
{
    int64_t now = clock_boottime_ms();
    if (k->absolute_ms <= now)
        stop_want(k, "stopped", "workspace stopped: timeout");
    if (idle_deadline(k) <= now)
        stop_want(k, "stopped", "workspace stopped: idle timeout");
    if (k->enforce_ms <= now && !k->agent_gone)
        enforce(k, now);
    if (k->prune_ms <= now)
        prune(k, now);
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        exec_tick(k, e, now);
    held_relieve(k);
    if (k->journal.shed_ms <= now)
        journal_shed(&k->journal);
    journal_write(k);
    watches_tick(k, now);
    live_reap(k);
    if (events_writer_is_damaged(k->events))
        stop_want(k, "failed", "the workspace's log is damaged");
}
