/* What execs tell, on its way into the store. Everything that arrives in one turn is collected here and
 * written as one transaction; where the store cannot take it, it stays here whole and in order, and nobody
 * gets credit to send more. What an entry means is tell.c's; what goes on while the store is full, held.c's.
 */
#include "lib/base/utf8.h"
#include "lib/keeper/internal.h"
#include "lib/store/told.h"

#include <malloc.h>

#define KEEP_CAPACITY     (64u << 10) /* of the byte buffer, between batches */
#define SHED_AFTER_MS     500
#define FAILURES_MAX      20
#define TEXT_MAX          1000
#define REWRITTEN_ENCODED 8000

static struct entry *add_entry(struct keeper *k, struct exec *e, enum entry_kind kind)
{
    struct journal *j = &k->journal;
    if (j->count == j->capacity) {
        j->capacity = j->capacity == 0 ? 16 : j->capacity * 2;
        j->entries = xreallocarray(j->entries, j->capacity, sizeof(*j->entries));
    }
    struct entry *entry = &j->entries[j->count++];
    *entry =
        (struct entry){ .kind = kind, .exec = e, .wall_us = clock_wall_us(), .boot_ms = clock_boottime_ms() };
    held_note(k, e, kind);
    return entry;
}

static void add_bytes(struct journal *j, struct entry *entry, const char *data, size_t length)
{
    entry->offset = j->bytes.length;
    entry->length = length;
    buffer_append(&j->bytes, data, length);
}

void journal_add(struct keeper *k, struct exec *e, enum entry_kind kind, int a, int b)
{
    struct entry *entry = add_entry(k, e, kind);
    entry->a = a;
    entry->b = b;
}

/* What the agent says of another command is told as far as an event can carry it. */
void journal_add_started(struct keeper *k, struct exec *e, int pid, int pgid, const char *rewritten)
{
    struct entry *entry = add_entry(k, e, ENTRY_STARTED);
    entry->a = pid;
    entry->b = pgid;
    if (rewritten != NULL && utf8_json_size(rewritten, strlen(rewritten)) <= REWRITTEN_ENCODED)
        add_bytes(&k->journal, entry, rewritten, strlen(rewritten));
}

void journal_add_flush(struct keeper *k, struct exec *e, unsigned channel)
{
    add_entry(k, e, ENTRY_FLUSH)->channel = channel;
}

/* One entry for all of it, or a full disk's hours would make many. */
void journal_add_waiting(struct keeper *k, struct exec *e, bool is_waiting)
{
    e->waiting = is_waiting;
    if (!e->waiting_held)
        add_entry(k, e, ENTRY_WAITING);
    e->waiting_held = true;
}

static void add_refused(struct keeper *k, struct exec *e, unsigned channel, size_t length)
{
    if (e->dropping[channel] == 0)
        add_entry(k, e, ENTRY_REFUSED)->channel = channel;
    e->dropping[channel] += length;
    channel_grant(k->agent, e->now.head.stream, length);
}

void journal_add_text(struct keeper *k, struct exec *e, enum entry_kind kind, const char *text, size_t length)
{
    length = length > TEXT_MAX ? TEXT_MAX : length;
    struct entry *entry = add_entry(k, e, kind);
    add_bytes(&k->journal, entry, text, utf8_valid_prefix(text, length));
}

static bool continues(const struct entry *last, const struct exec *e, unsigned channel)
{
    return last->kind == ENTRY_DATA && last->exec == e && last->channel == channel;
}

void journal_add_data(struct keeper *k, struct exec *e, unsigned channel, const char *data, size_t length)
{
    struct journal *j = &k->journal;
    if (held_refuses(k, e, length)) {
        add_refused(k, e, channel, length);
        return;
    }
    e->used += length;
    e->held += length;
    if (j->count > 0 && continues(&j->entries[j->count - 1], e, channel)) {
        buffer_append(&j->bytes, data, length);
        j->entries[j->count - 1].length += length;
        return;
    }
    struct entry *entry = add_entry(k, e, ENTRY_DATA);
    entry->channel = channel;
    add_bytes(j, entry, data, length);
    e->held += EVENT_COST;
}

/* ---- the batch ---- */

static int write_all(struct keeper *k, const struct exec *only, struct error *err)
{
    struct journal *j = &k->journal;
    const char *bytes = buffer_text(&j->bytes);
    for (size_t i = 0; i < j->count; i++) {
        struct entry *entry = &j->entries[i];
        struct exec *e = entry->exec;
        if (e == NULL || (only != NULL && e != only))
            continue;
        if (e->forgotten) {
            e->now.closed |= entry->kind == ENTRY_CLOSE;
            continue;
        }
        if (!e->touched)
            e->before = e->now;
        e->touched = true;
        if (tell_entry(k, entry, bytes + entry->offset, err) < 0)
            return -1;
    }
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (e->touched && events_put_exec(k->events, &e->now.head, err) < 0)
            return -1;
    return 0;
}

static int write_batch(struct keeper *k, const struct exec *only, bool is_end, struct error *err)
{
    if ((is_end ? events_begin_end : events_begin)(k->events, err) < 0)
        return -1;
    if (write_all(k, only, err) < 0) {
        events_abort(k->events);
        return -1;
    }
    return events_commit(k->events, err);
}

static void put_back(struct keeper *k)
{
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (e->touched) {
            e->now = e->before;
            e->touched = false;
        }
}

static void settle(struct keeper *k, struct exec *e)
{
    if (!e->now.over || e->settled)
        return;
    e->settled = true;
    told_exec_ended(k->workspace_id, &e->now.head);
    e->timeout_ms = INT64_MAX;
    k->running--;
    buffer_free(&e->input);
    life_active(k);
}

static void after_write(struct keeper *k, struct exec *e)
{
    if (e->touched) {
        e->touched = false;
        settle(k, e);
        server_notify(k, e->now.head.id);
    }
    if (e->used > 0 && !e->now.closed)
        channel_grant(k->agent, e->now.head.stream, e->used);
    e->used = e->held = 0;
    e->dropping[0] = e->dropping[1] = 0;
    e->waiting_held = e->ending = false;
}

static void after_write_all(struct keeper *k)
{
    size_t running = k->running;
    flusher_mark(k->flusher);
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        after_write(k, e);
    if (k->running != running)
        events_keep_room(k->events, life_ends(k), NULL);
}

static void forget_entries(struct keeper *k, const struct exec *e)
{
    for (size_t i = 0; i < k->journal.count; i++)
        if (k->journal.entries[i].exec == e)
            k->journal.entries[i].exec = NULL;
}

int journal_write_exec(struct keeper *k, struct exec *e, size_t allowance, bool is_end, struct error *err)
{
    e->allowance = allowance;
    int result = write_batch(k, e, is_end, err);
    e->allowance = SIZE_MAX;
    if (result < 0) {
        put_back(k);
        return -1;
    }
    forget_entries(k, e);
    flusher_mark(k->flusher);
    after_write(k, e);
    return 0;
}

static void hold(struct keeper *k, const struct error *err)
{
    struct journal *j = &k->journal;
    put_back(k);
    if (!j->full)
        log_error("%s: output is held back, the log takes no more: %s", k->workspace_id, err->message);
    j->full = true;
    j->retry_ms = clock_boottime_ms() + KEEPER_FULL_RETRY_MS;
    k->prune_ms = 0;
    j->failures = err->code == ERROR_FULL ? 0 : j->failures + 1;
    if (j->failures > FAILURES_MAX)
        stop_want(k, "failed", "the log cannot be written");
}

static void empty(struct journal *j)
{
    j->full = j->ends = false;
    j->failures = 0;
    j->count = 0;
    j->bytes.length = 0;
    if (j->bytes.capacity > KEEP_CAPACITY)
        j->shed_ms = clock_boottime_ms() + SHED_AFTER_MS;
}

bool journal_write(struct keeper *k)
{
    struct journal *j = &k->journal;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (j->count == 0)
        return true;
    if (!j->full || clock_boottime_ms() >= j->retry_ms) {
        if (write_batch(k, NULL, false, &err) == 0) {
            if (j->full)
                log_info("%s: the log takes output again", k->workspace_id);
            empty(j);
            after_write_all(k);
            return true;
        }
        hold(k, &err);
        held_retry(k, &err);
    }
    held_write_ends(k);
    if (j->count > 0)
        return false;
    empty(j);
    return true;
}

void journal_shed(struct journal *j)
{
    j->shed_ms = INT64_MAX;
    if (j->count > 0)
        return;
    buffer_free(&j->bytes);
    malloc_trim(0);
}

void journal_free(struct journal *j)
{
    free(j->entries);
    buffer_free(&j->bytes);
}
