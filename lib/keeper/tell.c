/* What each kind of entry of the journal makes of an exec: its events and its record. Only this file appends
 * them, but for the first event, with which an exec begins. Knows nothing of when a batch is written. */
#include "lib/base/process.h"
#include "lib/keeper/internal.h"
#include "lib/keeper/lost.h"

#include <stdio.h>
#include <sys/wait.h>

/* ---- output ---- */

/* Where output is missing, its log says so. */
static int tell_refused(struct keeper *k, const struct entry *entry, struct error *err)
{
    struct exec_image *now = &entry->exec->now;
    char text[96];
    if (now->refused == 0 || now->over)
        return 0;
    int length = snprintf(text, sizeof(text), "ENOSPC: %llu bytes of output are dropped: the disk was full",
                          (unsigned long long)now->refused);
    struct event event = {
        .type = EVENT_ERROR, .wall_us = entry->wall_us, .data = text, .length = (size_t)length
    };
    if (events_append(k->events, &now->head, &event, err) < 0)
        return -1;
    now->refused = 0;
    return 0;
}

static void refuse(const struct entry *entry, struct event *event)
{
    struct exec_image *now = &entry->exec->now;
    now->refused += event->length;
    events_refuse(&now->head, event);
}

static int put_output(struct keeper *k, const struct entry *entry, const char *data, size_t length,
                      unsigned flags, struct error *err)
{
    struct exec_image *now = &entry->exec->now;
    struct event event = { .type = entry->channel == 0 ? EVENT_STDOUT : EVENT_STDERR,
                           .flags = flags | (now->over ? EVENT_LATE : 0),
                           .wall_us = entry->wall_us,
                           .data = data,
                           .length = length };
    size_t cost = length + EVENT_COST;
    if (cost > entry->exec->allowance) {
        entry->exec->allowance = 0; /* nothing after a gap that would hide it */
        refuse(entry, &event);
        return 0;
    }
    if (entry->exec->allowance != SIZE_MAX)
        entry->exec->allowance -= cost;
    return tell_refused(k, entry, err) < 0 ? -1 : events_append(k->events, &now->head, &event, err);
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

/* All that comes before an end. */
static int flush_tails(struct keeper *k, const struct entry *entry, struct error *err)
{
    if (flush_tail(k, entry, 0, err) < 0 || flush_tail(k, entry, 1, err) < 0)
        return -1;
    return tell_refused(k, entry, err);
}

/* ---- one function for each kind of entry ---- */

static int write_started(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    struct exec_head *head = &entry->exec->now.head;
    _cleanup_buffer_ struct buffer members = BUFFER_INIT;
    if (head->state != EXEC_STARTING)
        return 0;
    head->state = EXEC_RUNNING;
    head->pid = entry->a;
    head->pgid = entry->b;
    head->started_us = head->updated_us = entry->wall_us;
    buffer_printf(&members, "\"state\":\"running\",\"pid\":%d", entry->a);
    if (entry->length > 0) {
        buffer_append_text(&members, ",\"rewritten_command\":\"");
        buffer_append_json(&members, text, entry->length);
        buffer_append_char(&members, '"');
    }
    struct event event = {
        .type = EVENT_STATUS, .wall_us = entry->wall_us, .data = members.data, .length = members.length
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

static int write_refused(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    struct event event = { .type = entry->channel == 0 ? EVENT_STDOUT : EVENT_STDERR,
                           .flags = entry->exec->now.over ? EVENT_LATE : 0,
                           .length = entry->exec->dropping[entry->channel] };
    (void)text;
    if (flush_tail(k, entry, entry->channel, err) < 0)
        return -1;
    refuse(entry, &event);
    return 0;
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
        entry->exec->now.head.waiting_for_input = entry->exec->waiting;
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
    [ENTRY_REFUSED] = write_refused,
};
_Static_assert(N_ELEMENTS(writers) == ENTRY_KINDS, "each kind of entry has its writer");

int tell_entry(struct keeper *k, const struct entry *entry, const char *text, struct error *err)
{
    return writers[entry->kind](k, entry, text, err);
}
