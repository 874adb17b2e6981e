/* What execs tell, on its way into the store. Everything that arrives in one turn is collected here and
 * written as one transaction; where the store cannot take it, it stays here whole and in order, and nobody
 * gets credit to send more. Only this file appends an exec's events. */
#include "lib/base/process.h"
#include "lib/base/utf8.h"
#include "lib/keeper/internal.h"
#include "lib/keeper/lost.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/wait.h>

#define KEEP_CAPACITY (64u << 10) /* of the byte buffer, between batches */
#define SHED_AFTER_MS 500
#define FAILURES_MAX  20
#define TEXT_MAX      1000

static struct entry *add_entry(struct journal *j, struct exec *e, enum entry_kind kind)
{
    if (j->count == j->capacity) {
        j->capacity = j->capacity == 0 ? 16 : j->capacity * 2;
        j->entries = xreallocarray(j->entries, j->capacity, sizeof(*j->entries));
    }
    struct entry *entry = &j->entries[j->count++];
    *entry =
        (struct entry){ .kind = kind, .exec = e, .wall_us = clock_wall_us(), .boot_ms = clock_boottime_ms() };
    return entry;
}

void journal_add(struct keeper *k, struct exec *e, enum entry_kind kind, int a, int b)
{
    struct entry *entry = add_entry(&k->journal, e, kind);
    entry->a = a;
    entry->b = b;
}

void journal_add_flush(struct keeper *k, struct exec *e, unsigned channel)
{
    add_entry(&k->journal, e, ENTRY_FLUSH)->channel = channel;
}

static void add_bytes(struct journal *j, struct entry *entry, const char *data, size_t length)
{
    entry->offset = j->bytes.length;
    entry->length = length;
    buffer_append(&j->bytes, data, length);
}

void journal_add_text(struct keeper *k, struct exec *e, enum entry_kind kind, const char *text, size_t length)
{
    length = length > TEXT_MAX ? TEXT_MAX : length;
    struct entry *entry = add_entry(&k->journal, e, kind);
    add_bytes(&k->journal, entry, text, utf8_valid_prefix(text, length));
}

static bool continues(const struct entry *last, const struct exec *e, unsigned channel)
{
    return last->kind == ENTRY_DATA && last->exec == e && last->channel == channel;
}

void journal_add_data(struct keeper *k, struct exec *e, unsigned channel, const char *data, size_t length)
{
    struct journal *j = &k->journal;
    e->used += length;
    if (j->count > 0 && continues(&j->entries[j->count - 1], e, channel)) {
        buffer_append(&j->bytes, data, length);
        j->entries[j->count - 1].length += length;
        return;
    }
    struct entry *entry = add_entry(j, e, ENTRY_DATA);
    entry->channel = channel;
    add_bytes(j, entry, data, length);
}

/* ---- output ---- */

static int put_output(struct keeper *k, const struct entry *entry, const char *data, size_t length,
                      unsigned flags, struct error *err)
{
    struct exec_image *now = &entry->exec->now;
    struct event event = { .type = entry->channel == 0 ? EVENT_STDOUT : EVENT_STDERR,
                           .flags = flags | (now->over ? EVENT_LATE : 0),
                           .wall_us = entry->wall_us,
                           .data = data,
                           .length = length };
    return events_append(k->events, &now->head, &event, err);
}

static void keep_tail(struct tail *tail, const char *data, size_t length)
{
    memmove(tail->bytes, data, length);
    tail->length = (unsigned)length;
    tail->deadline_ms = clock_boottime_ms() + KEEPER_TAIL_MS;
}

/* The tail and what follows it, as far as one event reaches. Returns how much of data it used, or -1. */
static long put_joined(struct keeper *k, const struct entry *entry, struct tail *tail, const char *data,
                       size_t length, bool final, struct error *err)
{
    char joined[EVENT_DATA_MAX];
    size_t old = tail->length, take = length < sizeof(joined) - old ? length : sizeof(joined) - old;
    unsigned flags = 0;
    memcpy(joined, tail->bytes, old);
    if (take > 0)
        memcpy(joined + old, data, take);
    size_t cut = events_cut(joined, old + take, final && take == length, &flags);
    if (cut == 0) { /* a character that is still not whole */
        keep_tail(tail, joined, old + take);
        return (long)take;
    }
    if (put_output(k, entry, joined, cut, flags, err) < 0)
        return -1;
    if (cut < old) { /* its bytes were none: one of them went out, the others are looked at again */
        keep_tail(tail, joined + cut, old - cut);
        return 0;
    }
    tail->length = 0;
    return (long)(cut - old);
}

static int write_output(struct keeper *k, const struct entry *entry, const char *data, size_t length,
                        bool final, struct error *err)
{
    struct tail *tail = &entry->exec->now.tails[entry->channel];
    while (tail->length > 0 && (length > 0 || final)) {
        long used = put_joined(k, entry, tail, data, length, final, err);
        if (used < 0)
            return -1;
        data += used;
        length -= (size_t)used;
    }
    while (length > 0) {
        unsigned flags = 0;
        size_t cut = events_cut(data, length, final, &flags);
        if (cut == 0) {
            keep_tail(tail, data, length);
            return 0;
        }
        if (put_output(k, entry, data, cut, flags, err) < 0)
            return -1;
        data += cut;
        length -= cut;
    }
    return 0;
}

static int flush_tail(struct keeper *k, const struct entry *entry, unsigned channel, struct error *err)
{
    struct entry of_channel = *entry;
    of_channel.channel = channel;
    return write_output(k, &of_channel, "", 0, true, err);
}

static int flush_tails(struct keeper *k, const struct entry *entry, struct error *err)
{
    return flush_tail(k, entry, 0, err) < 0 || flush_tail(k, entry, 1, err) < 0 ? -1 : 0;
}

/* ---- one function for each kind of entry ---- */

static int write_started(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    struct exec_head *head = &entry->exec->now.head;
    char members[64];
    (void)text;
    if (head->state != EXEC_STARTING)
        return 0;
    head->state = EXEC_RUNNING;
    head->pid = entry->a;
    head->pgid = entry->b;
    head->started_us = head->updated_us = entry->wall_us;
    int length = snprintf(members, sizeof(members), "\"state\":\"running\",\"pid\":%d", entry->a);
    struct event event = {
        .type = EVENT_STATUS, .wall_us = entry->wall_us, .data = members, .length = (size_t)length
    };
    return events_append(k->events, head, &event, err);
}

/* FAILED and LOST differ in who says it only. */
static int write_failed(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    struct exec_image *now = &entry->exec->now;
    _cleanup_free_ char *why = xstrndup(text, entry->length);
    if (now->over)
        return 0;
    if (flush_tails(k, entry, err) < 0 || lost_append(k->events, &now->head, why, entry->wall_us, err) < 0)
        return -1;
    now->over = true;
    return 0;
}

static int write_data(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    return write_output(k, entry, text, entry->length, false, err);
}

static int write_flush(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    (void)text;
    return flush_tail(k, entry, entry->channel, err);
}

static void decide_end(const struct exec *e, struct exec_head *head, int status, bool oom)
{
    int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    bool asked = signal_number > 0 && signal_number < 64 && (e->asked >> signal_number & 1) != 0;
    bool by_us = asked || (signal_number == SIGKILL && e->kill_sent);
    head->has_returncode = true;
    head->returncode = signal_number != 0 ? -signal_number : WEXITSTATUS(status);
    head->signal = signal_number;
    head->timed_out = e->timeout_fired;
    head->oom_killed = oom && !by_us;
    head->state = by_us && !e->timeout_fired ? EXEC_CANCELLED : EXEC_FINISHED;
}

static int exit_members(const struct exec_head *head, char *text, size_t size)
{
    char signal_text[32] = "null";
    const char *name = process_signal_name(head->signal);
    if (head->signal != 0 && name != NULL)
        snprintf(signal_text, sizeof(signal_text), "\"%s\"", name);
    else if (head->signal != 0)
        snprintf(signal_text, sizeof(signal_text), "\"%d\"", head->signal);
    return snprintf(text, size,
                    "\"returncode\":%d,\"signal\":%s,\"timed_out\":%s,\"oom_killed\":%s,\"state\":\"%s\","
                    "\"duration_ms\":%lld",
                    head->returncode, signal_text, head->timed_out ? "true" : "false",
                    head->oom_killed ? "true" : "false", exec_state_name(head->state),
                    (long long)head->duration_ms);
}

static int write_exit(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    struct exec_image *now = &entry->exec->now;
    struct exec_head *head = &now->head;
    char members[256];
    (void)text;
    if (now->over)
        return 0;
    if (flush_tails(k, entry, err) < 0)
        return -1;
    decide_end(entry->exec, head, entry->a, entry->b != 0);
    head->waiting_for_input = false;
    head->finished_us = head->updated_us = entry->wall_us;
    head->duration_ms = entry->boot_ms - entry->exec->started_ms;
    struct event event = { .type = EVENT_EXIT, .wall_us = entry->wall_us, .data = members };
    event.length = (size_t)exit_members(head, members, sizeof(members));
    if (events_append(k->events, head, &event, err) < 0)
        return -1;
    head->exit_seq = event.seq;
    now->over = true;
    return 0;
}

static int write_waiting(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    (void)k;
    (void)text;
    (void)err;
    if (!entry->exec->now.over)
        entry->exec->now.head.waiting_for_input = entry->a != 0;
    return 0;
}

static int write_touch(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    (void)k;
    (void)text;
    (void)err;
    entry->exec->now.head.updated_us = entry->wall_us;
    return 0;
}

static int write_close(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    static const char reason[] = "lost: the command's end was not seen";
    struct exec_image *now = &entry->exec->now;
    (void)text;
    if (flush_tails(k, entry, err) < 0)
        return -1;
    if (!now->over && lost_append(k->events, &now->head, reason, entry->wall_us, err) < 0)
        return -1;
    now->over = now->closed = true;
    return 0;
}

typedef int entry_write(struct keeper *k, const struct entry *entry, const char *text, struct error *err);
static entry_write *const writers[] = {
    [ENTRY_STARTED] = write_started, [ENTRY_FAILED] = write_failed, [ENTRY_DATA] = write_data,
    [ENTRY_FLUSH] = write_flush,     [ENTRY_EXIT] = write_exit,     [ENTRY_WAITING] = write_waiting,
    [ENTRY_TOUCH] = write_touch,     [ENTRY_LOST] = write_failed,   [ENTRY_CLOSE] = write_close,
};
_Static_assert(N_ELEMENTS(writers) == ENTRY_KINDS, "each kind of entry has its writer");

/* ---- the batch ---- */

static int write_all(struct keeper *k, struct error *err)
{
    struct journal *j = &k->journal;
    const char *bytes = buffer_text(&j->bytes);
    for (size_t i = 0; i < j->count; i++) {
        struct entry *entry = &j->entries[i];
        struct exec *e = entry->exec;
        if (!e->touched)
            e->before = e->now;
        e->touched = true;
        if (writers[entry->kind](k, entry, bytes + entry->offset, err) < 0)
            return -1;
    }
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (e->touched && events_put_exec(k->events, &e->now.head, err) < 0)
            return -1;
    return 0;
}

static int write_batch(struct keeper *k, struct error *err)
{
    if (events_begin(k->events, err) < 0)
        return -1;
    if (write_all(k, err) < 0) {
        events_abort(k->events);
        return -1;
    }
    return events_commit(k->events, err);
}

static bool hold(struct keeper *k, const struct error *err)
{
    struct journal *j = &k->journal;
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (e->touched) {
            e->now = e->before;
            e->touched = false;
        }
    if (!j->full)
        log_error("%s: output is held back, the log takes no more: %s", k->workspace_id, err->message);
    j->full = true;
    j->retry_ms = clock_boottime_ms() + KEEPER_FULL_RETRY_MS;
    k->prune_ms = 0;
    j->failures = err->code == ERROR_FULL ? 0 : j->failures + 1;
    if (j->failures > FAILURES_MAX)
        stop_want(k, "failed", "the log cannot be written");
    return false;
}

static void settle(struct keeper *k, struct exec *e)
{
    if (!e->now.over || e->settled)
        return;
    e->settled = true;
    e->timeout_ms = INT64_MAX;
    k->running--;
    buffer_free(&e->input);
    life_active(k);
}

static void after_write(struct keeper *k)
{
    for (struct exec *e = k->execs; e != NULL; e = e->next) {
        if (e->touched) {
            e->touched = false;
            settle(k, e);
            server_notify(k, e);
        }
        if (e->used > 0 && !e->now.closed)
            channel_grant(k->agent, e->now.head.stream, e->used);
        e->used = 0;
    }
}

bool journal_write(struct keeper *k)
{
    struct journal *j = &k->journal;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (j->count == 0)
        return true;
    if (j->full && clock_boottime_ms() < j->retry_ms)
        return false;
    if (write_batch(k, &err) < 0)
        return hold(k, &err);
    if (j->full)
        log_info("%s: the log takes output again", k->workspace_id);
    j->full = false;
    j->failures = 0;
    j->count = 0;
    j->bytes.length = 0;
    if (j->bytes.capacity > KEEP_CAPACITY)
        j->shed_ms = clock_boottime_ms() + SHED_AFTER_MS;
    flusher_mark(k->flusher);
    after_write(k);
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
