/* What each workspace needs next: a start (four at a time, with back-off after failures, shared by all who
 * ask), a mend after its keeper died, a removal. One thing at a time for each workspace; nothing here waits.
 */
#include "lib/base/io.h"
#include "lib/warden/internal.h"

#define DISCARD_ATTEMPTS 20
#define DISCARD_AGAIN_MS 250

static struct place *place_find(struct warden *w, const char *id)
{
    for (struct place *p = w->places; p != NULL; p = p->next)
        if (strcmp(p->id, id) == 0)
            return p;
    return NULL;
}

struct place *place_get(struct warden *w, const char *id)
{
    struct place *p = place_find(w, id);
    if (p != NULL)
        return p;
    p = xcalloc(1, sizeof(*p));
    memcpy(p->id, id, ID_SIZE);
    p->next = w->places;
    w->places = p;
    return p;
}

void place_free(struct place *p)
{
    ping_end(p);
    waiters_free(p->starters);
    waiters_free(p->removers);
    json_decref(p->spec);
    error_clear(&p->last);
    error_clear(&p->conflict);
    free(p);
}

void place_forget_peer(struct warden *w, const struct peer *peer)
{
    for (struct place *p = w->places; p != NULL; p = p->next) {
        waiters_forget(&p->starters, peer);
        waiters_forget(&p->removers, peer);
    }
}

/* ---- answers ---- */

static void answer_record(struct place *p, const json_t *record)
{
    json_auto_t *ret = json_pack("{s:O}", "record", record);
    waiters_answer(&p->starters, ret, NULL);
}

static void answer_stored_record(struct warden *w, struct place *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *record = NULL;
    if (state_get_workspace(w->state, p->id, &record, &err) < 0)
        waiters_answer(&p->starters, NULL, &err);
    else
        answer_record(p, record);
}

static void answer_backoff(struct place *p, int64_t now)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, ERROR_DRIVER, "the workspace could not be started: %s", p->last.message);
    err.retry_after = (int)((p->not_before_ms - now + 999) / 1000);
    waiters_answer(&p->starters, NULL, &err);
}

/* ---- starting ---- */

/* What the workspace itself is to blame for, not the place where it runs, is no reason to wait. */
static bool counts_as_failure(enum error_code code)
{
    return code != ERROR_NOT_FOUND && code != ERROR_TOO_MANY && code != ERROR_CONFLICT &&
           code != ERROR_INVALID;
}

static void start_failed(struct place *p, struct error *err)
{
    waiters_answer(&p->starters, NULL, err);
    if (p->spec != NULL || !counts_as_failure(err->code))
        return;
    int64_t pause = WARDEN_BACKOFF_MIN_MS << (p->failures < 6 ? p->failures : 6);
    p->failures++;
    p->not_before_ms = clock_boottime_ms() + (pause < WARDEN_BACKOFF_MAX_MS ? pause : WARDEN_BACKOFF_MAX_MS);
    error_clear(&p->last);
    error_move(&p->last, err);
}

static void start_keeper(struct warden *w, struct place *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    p->keeper = child_start(w, CHILD_KEEPER, p, p->spec, &err);
    if (p->keeper == NULL) {
        start_failed(p, &err);
        json_decref(STEAL(p->spec));
        return;
    }
    p->keeper->deadline_ms = clock_boottime_ms() + WARDEN_START_MS;
    w->starting++;
}

/* Whatever there is of it, its keeper too. */
static void place_discard(struct place *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, ERROR_UNAVAILABLE, "the workspace is being removed");
    if (p->keeper == NULL && p->spec != NULL) {
        waiters_answer(&p->starters, NULL, &err);
        json_decref(STEAL(p->spec));
    }
    p->discard = true;
    p->discard_attempts = 0;
    p->discard_ms = 0;
    if (p->keeper != NULL)
        child_kill(p->keeper);
}

/* Who asked for it went away, and cannot ask for it again. */
static bool is_nobodys(const struct place *p)
{
    return p->spec != NULL && p->starters == NULL && json_object_get(p->spec, "idempotency") == NULL;
}

/* Who wants it removed asks its keeper first, now that there is one. */
static void answer_running(struct place *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, ERROR_CONFLICT, "the workspace is running");
    waiters_answer(&p->removers, NULL, &err);
}

static void take_back(struct place *p)
{
    log_info("workspace=%s is removed: nobody waits for it any more", p->id);
    place_discard(p);
}

static void keeper_told(struct place *p, const json_t *line)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *record = json_object_get(line, "ret"), *existing = json_object_get(line, "existing"),
           *packed = json_object_get(line, "error");
    if (record != NULL && (p->unwanted || is_nobodys(p))) {
        take_back(p);
    } else if (record != NULL) {
        p->failures = 0;
        answer_record(p, record);
        if (!p->discard)
            answer_running(p);
    } else if (existing != NULL) {
        json_auto_t *ret = json_pack("{s:O}", "existing", existing);
        waiters_answer(&p->starters, ret, NULL);
    } else {
        if (packed != NULL)
            error_unpack(&err, packed);
        else
            error_set(&err, ERROR_DRIVER, "the workspace's process in the gateway ended while it started");
        if (err.code == ERROR_CONFLICT)
            error_move(&p->conflict, &err);
        else
            start_failed(p, &err);
    }
    p->unwanted = false;
    json_decref(STEAL(p->spec));
}

static void look_after(struct warden *w, struct place *p);

/* A keeper that this warden did not know of holds the workspace. It may not have written its record yet. */
static bool discard_again(struct warden *w, struct place *p, const struct error *err)
{
    if (!p->discard || err->code != ERROR_CONFLICT || ++p->discard_attempts > DISCARD_ATTEMPTS)
        return false;
    p->discard_ms = clock_boottime_ms() + DISCARD_AGAIN_MS;
    look_after(w, p);
    if (p->keeper != NULL)
        child_kill(p->keeper);
    return true;
}

static void remove_told(struct warden *w, struct place *p, const json_t *line)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *ret = json_object_get(line, "ret"), *packed = json_object_get(line, "error");
    if (packed != NULL)
        error_unpack(&err, packed);
    else if (ret == NULL)
        error_set(&err, ERROR_INTERNAL, "the removal ended without a word");
    if (ret == NULL && discard_again(w, p, &err))
        return;
    p->discard = false;
    p->mend = p->mend && ret == NULL;
    waiters_answer(&p->removers, ret, ret != NULL ? NULL : &err);
}

static void mend_told(struct place *p, const json_t *line)
{
    p->mend = json_object_get(line, "ret") == NULL;
    if (!p->mend) {
        p->mend_failures = 0;
        return;
    }
    int64_t pause = WARDEN_BACKOFF_MIN_MS << (p->mend_failures < 6 ? p->mend_failures : 6);
    p->mend_failures++;
    p->mend_ms = clock_boottime_ms() + (pause < WARDEN_BACKOFF_MAX_MS ? pause : WARDEN_BACKOFF_MAX_MS);
}

void place_told(struct child *c, const json_t *line)
{
    c->deadline_ms = INT64_MAX;
    if (c->kind == CHILD_KEEPER) {
        c->warden->starting--;
        keeper_told(c->place, line);
    } else if (c->kind == CHILD_REMOVE) {
        remove_told(c->warden, c->place, line);
    } else {
        mend_told(c->place, line);
    }
}

/* A keeper that ended in order has written so; whatever else the record says is to be mended, but where
 * another keeper lives. */
static void look_after(struct warden *w, struct place *p)
{
    json_auto_t *record = NULL;
    p->mend = false;
    p->mend_ms = 0;
    if (state_get_workspace(w->state, p->id, &record, NULL) == 0)
        round_look_at(w, p->id, record);
    if (p->mend && !p->discard)
        log_warning("workspace=%s its keeper died", p->id);
}

/* It met another keeper, started last by the warden before this one. Where that has been found now, who waits
 * is told by it. */
static void settle_conflict(struct place *p)
{
    if (p->conflict.code != ERROR_NONE && p->keeper == NULL)
        start_failed(p, &p->conflict);
    error_clear(&p->conflict);
}

void place_ended(struct child *c)
{
    struct warden *w = c->warden;
    struct place *p = c->place;
    if (p->chore == c) {
        p->chore = NULL;
        w->chores--;
    }
    if (p->keeper == c) {
        p->keeper = NULL;
        look_after(w, p);
        settle_conflict(p);
    }
    /* Not later than it would be anyway: on a machine at full speed something ends every few milliseconds. */
    int64_t soon = clock_boottime_ms() + TRASH_AFTER_MS;
    if (w->trash_ms > soon)
        w->trash_ms = soon;
}

/* ---- requests ---- */

/* A keeper that is about to end takes no more connections; its end is then waited for. */
static bool keeper_listens(struct warden *w, const struct place *p)
{
    _cleanup_free_ char *leaf = xasprintf("%s.sock", p->id);
    _cleanup_free_ char *path = config_path(w->config, "run", leaf);
    _cleanup_close_ int fd = io_connect_unix(path, NULL);
    return fd >= 0;
}

void place_request_start(struct warden *w, const char *id, struct peer *peer, uint32_t stream)
{
    struct place *p = place_get(w, id);
    waiter_add(&p->starters, peer, stream);
    p->probe_ms = 0;
}

static const char *wanted_text(const json_t *spec, const char *member)
{
    const char *text = json_string_value(json_object_get(json_object_get(spec, "record"), member));
    return text != NULL ? text : "";
}

static bool goes_by_name(const json_t *spec)
{
    return json_is_true(json_object_get(json_object_get(spec, "idempotency"), "by_name"));
}

/* Where the one of that name is being made. Not knowing it is no harm, only work: the record is what decides.
 */
static struct place *find_maker(struct warden *w, const json_t *spec)
{
    if (!goes_by_name(spec))
        return NULL;
    for (struct place *p = w->places; p != NULL; p = p->next)
        if (goes_by_name(p->spec) && !p->discard &&
            strcmp(wanted_text(p->spec, "owner"), wanted_text(spec, "owner")) == 0 &&
            strcmp(wanted_text(p->spec, "name"), wanted_text(spec, "name")) == 0)
            return p;
    return NULL;
}

/* Workers make ids at random: a second request for one is the first again, whose warden died over it. It
 * joins whatever is under way. */
void place_request_create(struct warden *w, const char *id, json_t *spec, struct peer *peer, uint32_t stream)
{
    struct place *maker = find_maker(w, spec), *p = maker != NULL ? maker : place_get(w, id);
    if (p->keeper == NULL && p->spec == NULL)
        p->spec = json_incref(spec);
    waiter_add(&p->starters, peer, stream);
    p->probe_ms = 0;
}

void place_request_remove(struct warden *w, const char *id, bool force, struct peer *peer, uint32_t stream)
{
    struct place *p = place_get(w, id);
    waiter_add(&p->removers, peer, stream);
    if (force && p->keeper != NULL)
        log_error("workspace=%s its keeper does not answer: it is ended, the workspace is removed", id);
    if (force)
        place_discard(p);
    else if (p->keeper != NULL && p->keeper->told && keeper_listens(w, p))
        answer_running(p);
}

/* A sandbox that is being put up may outlive who is killed over it, so that comes first. */
void place_request_take_back(struct warden *w, const char *id, struct peer *peer, uint32_t stream)
{
    struct place *p = place_get(w, id);
    waiter_add(&p->removers, peer, stream);
    p->unwanted = p->keeper != NULL && !p->keeper->told;
    if (!p->unwanted)
        take_back(p);
}

/* ---- advancing ---- */

/* A keeper that somebody waits for, and of which no further word will come: it is an adopted one that still
 * starts, or one that is about to end. */
static bool must_probe(const struct place *p)
{
    return p->starters != NULL && p->chore == NULL && p->keeper != NULL && p->keeper->told;
}

static void probe(struct warden *w, struct place *p, int64_t now)
{
    p->probe_ms = now + WARDEN_PROBE_MS;
    if (keeper_listens(w, p))
        answer_stored_record(w, p);
}

static void start_chore(struct warden *w, struct place *p, enum child_kind kind)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (w->chores >= WARDEN_CHORES_MAX)
        return;
    p->chore = child_start(w, kind, p, NULL, &err);
    if (p->chore != NULL) {
        p->chore->deadline_ms = clock_boottime_ms() + WARDEN_CHORE_MS;
        w->chores++;
        return;
    }
    log_error("%s: %s", p->id, err.message);
    p->discard_ms = clock_boottime_ms() + WARDEN_BACKOFF_MIN_MS;
    if (kind == CHILD_REMOVE)
        waiters_answer(&p->removers, NULL, &err);
    else
        p->mend_ms = clock_boottime_ms() + WARDEN_BACKOFF_MIN_MS;
}

static void advance(struct warden *w, struct place *p, int64_t now)
{
    struct child *busy = p->chore != NULL ? p->chore : p->keeper;
    if (must_probe(p) && p->probe_ms <= now)
        probe(w, p, now);
    if (busy != NULL && busy->deadline_ms <= now) {
        log_error("%s: a process of it takes too long and is killed", p->id);
        busy->deadline_ms = INT64_MAX;
        child_kill(busy);
    }
    if (busy != NULL)
        return;
    if (p->discard ? p->discard_ms <= now : p->removers != NULL)
        start_chore(w, p, CHILD_REMOVE);
    else if (p->discard)
        return;
    else if (p->starters != NULL && p->not_before_ms > now)
        answer_backoff(p, now);
    else if (p->starters != NULL && w->starting < WARDEN_STARTS_MAX)
        start_keeper(w, p);
    else if (p->starters == NULL && p->mend && p->mend_ms <= now)
        start_chore(w, p, CHILD_MEND);
}

static bool is_over(const struct place *p, int64_t now)
{
    return p->keeper == NULL && p->chore == NULL && p->starters == NULL && p->removers == NULL &&
           p->spec == NULL && !p->mend && !p->discard && p->not_before_ms + WARDEN_BACKOFF_MAX_MS <= now;
}

void places_advance(struct warden *w)
{
    int64_t now = clock_boottime_ms();
    for (struct place **link = &w->places; *link != NULL;) {
        struct place *p = *link;
        advance(w, p, now);
        if (p->spec != NULL && p->starters == NULL &&
            p->keeper == NULL) /* who wanted it went away before it was begun */
            json_decref(STEAL(p->spec));
        if (!is_over(p, now)) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        place_free(p);
    }
}

int64_t places_deadline(const struct warden *w)
{
    int64_t deadline = INT64_MAX;
    for (const struct place *p = w->places; p != NULL; p = p->next) {
        const struct child *busy = p->chore != NULL ? p->chore : p->keeper;
        if (busy != NULL && busy->deadline_ms < deadline)
            deadline = busy->deadline_ms;
        if (must_probe(p) && p->probe_ms < deadline)
            deadline = p->probe_ms;
        if (busy == NULL && p->discard && p->discard_ms < deadline && w->chores < WARDEN_CHORES_MAX)
            deadline = p->discard_ms;
        if (busy == NULL && p->mend && p->mend_ms < deadline && w->chores < WARDEN_CHORES_MAX)
            deadline = p->mend_ms;
    }
    return deadline;
}
