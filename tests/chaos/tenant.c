/* One thread each: a workspace, some commands in it at a time, their input, their ends, then its removal or
 * not. Every request is repeated until it got a proper answer; what is not idempotent and got none is
 * remembered as doubtful. */
#include "tests/chaos/tenant.h"

#include "lib/base/ids.h"
#include "tests/chaos/work.h"
#include "tests/support/must.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#define AT_A_TIME 4
#define PATIENCE  120000 /* ms; stops, full disks and restarts included */

struct tenant {
    const struct instance *instance;
    unsigned number;
    uint64_t random;
    struct place *place;
    pthread_t thread;
};
struct tenants {
    unsigned count;
    struct tenant all[];
};

/* ---- requests ---- */

static enum visit ask(const struct tenant *t, const char *method, const char *path, const json_t *body,
                      const char *key, json_t **ret)
{
    char header[100];
    const char *headers[] = { header, NULL };
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct http_options o = {
        .body = text, .unchecked = true, .timeout_ms = 30000, .headers = key ? headers : NULL
    };
    snprintf(header, sizeof header, "Idempotency-Key: %s", key ? key : "");
    struct answer a = http_send(t->instance, method, path, &o);
    enum visit v = visit_judge(path, &a);
    if (ret)
        *ret = v == VISIT_DONE ? json_incref(a.json) : NULL;
    if (v == VISIT_CONFLICT)
        tell("tenant %u: %s %s: %.200s", t->number, method, path, a.body);
    answer_clear(&a);
    return v;
}

static void pause_between(struct tenant *t)
{
    sleep_ms((long)random_between(&t->random, 20, 250));
}

/* Repeats while that may help. *ret may be NULL. */
static enum visit insist(struct tenant *t, const char *method, const char *path, const json_t *body,
                         const char *key, json_t **ret)
{
    long long deadline = now_ms() + PATIENCE;
    for (;;) {
        enum visit v = ask(t, method, path, body, key, ret);
        if (v != VISIT_AGAIN)
            return v;
        if (now_ms() > deadline) {
            fail("%s %s got no proper answer for %d s", method, path, PATIENCE / 1000);
            return VISIT_BROKEN;
        }
        pause_between(t);
    }
}

/* ---- workspaces ---- */

static bool make_place(struct tenant *t)
{
    char key[40];
    json_t *made = NULL;
    json_auto_t *body = json_object();
    id_random_hex(key, 32);
    enum visit v = insist(t, "POST", "/api/workspaces", body, key, &made);
    if (v != VISIT_DONE) {
        if (v != VISIT_BROKEN)
            fail("tenant %u: creating a workspace: answer of kind %d", t->number, (int)v);
        return false;
    }
    t->place = ledger_place(member_text(made, "workspace_id"));
    atomic_store(&t->place->state, PLACE_LIVE);
    json_decref(made);
    return true;
}

static void close_entries(const struct place *place)
{
    unsigned count = atomic_load(&ledger->entry_count);
    for (unsigned i = 0; i < count; i++)
        if (entry_place(&ledger->entries[i]) == place)
            atomic_store(&ledger->entries[i].state, ENTRY_REMOVED);
}

static void remove_place(struct tenant *t)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s", t->place->id);
    close_entries(t->place);
    atomic_fetch_add(&t->place->deaths[DEATH_STOP], 1);
    atomic_store(&t->place->state, PLACE_REMOVED);
    enum visit v;
    while ((v = insist(t, "DELETE", path, NULL, NULL, NULL)) == VISIT_CONFLICT)
        pause_between(t);
    if (v == VISIT_BROKEN)
        return;
    v = insist(t, "GET", path, NULL, NULL, NULL);
    if (v != VISIT_GONE)
        fail("%s: it is still there after it was removed", t->place->id);
}

static void stop_place(struct tenant *t)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s/stop", t->place->id);
    atomic_fetch_add(&t->place->deaths[DEATH_STOP], 1);
    enum visit v;
    while ((v = insist(t, "POST", path, NULL, NULL, NULL)) == VISIT_CONFLICT)
        pause_between(t);
    if (v == VISIT_GONE)
        fail("%s: not found when it was to be stopped", t->place->id);
}

/* ---- commands ---- */

static struct entry *start(struct tenant *t)
{
    char path[120], key[40];
    json_t *answer = NULL;
    int kind = work_choose(&t->random);
    uint64_t seed = random_next(&t->random);
    struct entry *e = ledger_add_entry(t->place, kind, seed);
    json_auto_t *body = work_body(kind, seed);
    id_random_hex(key, 32);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs", t->place->id);
    enum visit v;
    while ((v = insist(t, "POST", path, body, key, &answer)) == VISIT_CONFLICT)
        pause_between(t);
    if (v != VISIT_DONE) {
        if (v == VISIT_GONE)
            fail("%s: not found when a command was to be started", t->place->id);
        return NULL;
    }
    snprintf(e->id, sizeof e->id, "%s", member_text(answer, "exec_id"));
    json_decref(answer);
    atomic_store(&e->state, ENTRY_RUNS);
    return e;
}

static bool is_over(const struct tenant *t, const struct entry *e)
{
    struct chase c;
    chase_begin(&c, e);
    while (c.more && chase_page(&c, t->instance, 0, NULL) == VISIT_DONE)
        ;
    bool over = c.ended;
    chase_clear(&c);
    return over;
}

/* Of what says so before it takes input or signals. false = it ended before. */
static bool wait_ready(struct tenant *t, const struct entry *e)
{
    struct chase c;
    size_t length = strlen(WORK_READY_TEXT);
    chase_begin(&c, e);
    for (long long deadline = now_ms() + PATIENCE; c.out.length < length && !c.ended;) {
        enum visit v = chase_page(&c, t->instance, 2, &t->random);
        if (v == VISIT_AGAIN)
            pause_between(t);
        if ((v != VISIT_DONE && v != VISIT_AGAIN) || now_ms() > deadline)
            break;
    }
    bool ready = c.out.length >= length && !c.ended;
    chase_clear(&c);
    return ready;
}

/* Input is not idempotent: each piece is sent once. false = it takes no more. */
static bool send_piece(struct tenant *t, struct entry *e, const char *path, unsigned number)
{
    _cleanup_buffer_ struct buffer piece = BUFFER_INIT;
    work_piece(e, number, &piece);
    json_auto_t *body = json_pack("{s:s}", "data", buffer_text(&piece));
    atomic_fetch_or(&e->doubtful, UINT64_C(1) << number); /* until it is known; readers look at any time */
    atomic_store(&e->pieces, number + 1);
    enum visit v = ask(t, "POST", path, body, NULL, NULL);
    if (v == VISIT_DONE)
        atomic_fetch_and(&e->doubtful, ~(UINT64_C(1) << number));
    return v == VISIT_DONE || v == VISIT_AGAIN;
}

static void type(struct tenant *t, struct entry *e)
{
    char path[200];
    json_auto_t *eof = json_pack("{s:b}", "eof", 1);
    if ((work_flags(e->kind) & WORK_READY) && !wait_ready(t, e))
        return;
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/input", t->place->id, e->id);
    for (unsigned n = 0; n < work_pieces(e) && !atomic_load(&ledger->closing); n++) {
        if (!send_piece(t, e, path, n))
            break;
        sleep_ms((long)random_below(&t->random, 150));
    }
    enum visit v = insist(t, "POST", path, eof, NULL, NULL);
    if (v == VISIT_GONE)
        fail("%s: not found when it was to get input", e->id);
}

static void cancel(struct tenant *t, struct entry *e)
{
    static const char *const names[] = {
        [SIGTERM] = "TERM", [SIGKILL] = "KILL", [SIGINT] = "INT", [SIGHUP] = "HUP"
    };
    char path[200];
    json_auto_t *body = json_pack("{s:s}", "signal_name", names[work_signal(e)]);
    if (!wait_ready(t, e))
        return;
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/cancel", t->place->id, e->id);
    enum visit v = insist(t, "POST", path, body, NULL, NULL);
    if (v == VISIT_GONE)
        fail("%s: not found when it was to be cancelled", e->id);
    if (v == VISIT_CONFLICT && !is_over(t, e))
        tell("tenant %u: %s could not be cancelled", t->number, e->id);
}

static void tend(struct tenant *t, struct entry *e)
{
    if (work_flags(e->kind) & WORK_INPUT)
        type(t, e);
    if (work_flags(e->kind) & WORK_CANCEL)
        cancel(t, e);
}

/* ---- reading to the end ---- */

static void judge(const struct entry *e, const struct chase *c)
{
    char why[500];
    bool lost = c->error[0] != '\0';
    atomic_fetch_add(lost ? &ledger->lost : c->expired ? &ledger->shortened : &ledger->whole, 1);
    if (!work_judge(e, c, true, why, sizeof why))
        fail("%s (%s) of %s: %s", e->id, work_name(e->kind), entry_place(e)->id, why);
}

bool tenant_check(const struct instance *i, struct entry *e, long deadline_ms, bool strict, uint64_t *random)
{
    struct chase c;
    long long deadline = now_ms() + deadline_ms;
    chase_begin(&c, e);
    while (!c.ended || c.more) {
        enum visit v = chase_page(&c, i, c.ended ? 0 : 5, random);
        if (now_ms() > deadline || v == VISIT_BROKEN || v == VISIT_GONE || (strict && v != VISIT_DONE)) {
            fail("%s (%s) of %s: its log could not be read to its end, after %lu events (%d)", e->id,
                 work_name(e->kind), entry_place(e)->id, c.cursor, (int)v);
            break;
        }
        if (v == VISIT_AGAIN)
            sleep_ms(100);
    }
    bool whole = c.ended && !c.more;
    if (whole)
        judge(e, &c);
    chase_clear(&c);
    return whole;
}

static void run_round(struct tenant *t)
{
    struct entry *entries[AT_A_TIME];
    unsigned count = random_between(&t->random, 1, AT_A_TIME);
    for (unsigned k = 0; k < count; k++)
        entries[k] = start(t);
    for (unsigned k = 0; k < count; k++)
        if (entries[k])
            tend(t, entries[k]);
    if (random_below(&t->random, 20) == 0)
        stop_place(t);
    for (unsigned k = 0; k < count; k++)
        if (entries[k] && tenant_check(t->instance, entries[k], PATIENCE, false, &t->random))
            atomic_store(&entries[k]->state, ENTRY_ENDED);
}

static void *live(void *user)
{
    struct tenant *t = user;
    while (!atomic_load(&ledger->closing)) {
        if (!make_place(t))
            break;
        for (unsigned rounds = random_between(&t->random, 1, 4); rounds > 0 && !atomic_load(&ledger->closing);
             rounds--)
            run_round(t);
        if (random_below(&t->random, 4) > 0)
            remove_place(t);
    }
    http_thread_end();
    return NULL;
}

struct tenants *tenants_start(const struct instance *i, unsigned count)
{
    struct tenants *all = xcalloc(1, sizeof *all + count * sizeof all->all[0]);
    all->count = count;
    for (unsigned k = 0; k < count; k++) {
        struct tenant *t = &all->all[k];
        *t = (struct tenant){ .instance = i,
                              .number = k,
                              .random = random_seed_of(ledger->seed, "tenant", k) };
        must_hold(pthread_create(&t->thread, NULL, live, t) == 0);
    }
    return all;
}

void tenants_join(struct tenants *all)
{
    for (unsigned k = 0; k < all->count; k++)
        pthread_join(all->all[k].thread, NULL);
    free(all);
}
