/* What goes on while the log takes no more, because the disk is full. Output waits in the journal, and its
 * command with it: nobody gets credit to send more. Ends do not wait: each is written in a batch of its own,
 * from the room that the log keeps for it, with as much of the exec's output as has a place there. A command
 * that has more output held, and came to its end by itself, ends in the log when that has room for all of it;
 * one that is made to end does not wait for that: what has no place is dropped, counted, and told where it is
 * missing. */
#include "lib/keeper/internal.h"

#define HELD_BYTES_MAX   (32u << 20)
#define HELD_ENTRIES_MAX 65536

static const uint64_t ENDING = 1ull << SIGTERM | 1ull << SIGQUIT | 1ull << SIGKILL;

bool held_is_much(const struct journal *j)
{
    return j->full && (j->bytes.length >= HELD_BYTES_MAX || j->count >= HELD_ENTRIES_MAX);
}

/* Not some other reason, which no room cures. */
static bool is_full(const struct journal *j)
{
    return j->full && j->failures == 0;
}

/* Somebody wants it to end. Not INT and HUP: there are commands that these are input to. */
static bool is_made_to_end(const struct keeper *k, const struct exec *e)
{
    return k->stop.wanted || e->kill_ms != INT64_MAX || e->kill_sent || (e->asked & ENDING) != 0;
}

static bool has_place(const struct exec *e, size_t length)
{
    return e->held + length + EVENT_COST <= EVENTS_END_OUTPUT;
}

bool held_refuses(const struct keeper *k, const struct exec *e, size_t length)
{
    bool refuses = e->dropping[0] + e->dropping[1] > 0; /* nothing after a gap: it would hide it */
    return is_full(&k->journal) && (refuses || (is_made_to_end(k, e) && !has_place(e, length)));
}

void held_relieve(struct keeper *k)
{
    if (!is_full(&k->journal) || k->agent_gone)
        return;
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (e->used > 0 && !e->now.closed && is_made_to_end(k, e)) {
            channel_grant(k->agent, e->now.head.stream, e->used);
            e->used = 0;
        }
}

/* ---- ends ---- */

static bool tells_end(enum entry_kind kind)
{
    return kind == ENTRY_EXIT || kind == ENTRY_FAILED || kind == ENTRY_LOST || kind == ENTRY_CLOSE;
}

void held_note(struct keeper *k, struct exec *e, enum entry_kind kind)
{
    if (tells_end(kind))
        e->ending = k->journal.ends = true;
}

void held_retry(struct keeper *k, const struct error *err)
{
    const struct journal *j = &k->journal;
    k->journal.ends = false;
    for (size_t i = 0; i < j->count && err->code == ERROR_FULL; i++)
        if (j->entries[i].exec != NULL)
            held_note(k, j->entries[i].exec, j->entries[i].kind);
}

/* Where not even the kept room has a place for its output, its end alone may have one. */
static void write_end(struct keeper *k, struct exec *e)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    bool is_made = is_made_to_end(k, e), is_small = e->held <= EVENTS_END_OUTPUT;
    e->ending = false;
    int result = journal_write_exec(k, e, is_small || !is_made ? SIZE_MAX : EVENTS_END_OUTPUT,
                                    is_small || is_made, &err);
    if (result < 0 && err.code == ERROR_FULL && is_made)
        journal_write_exec(k, e, 0, true, NULL);
}

/* What is written leaves the journal: entries and their bytes move up. */
static void close_gaps(struct journal *j)
{
    struct buffer bytes = BUFFER_INIT;
    size_t kept = 0;
    for (size_t i = 0; i < j->count; i++) {
        struct entry entry = j->entries[i];
        if (entry.exec == NULL)
            continue;
        if (entry.length > 0 && entry.kind != ENTRY_REFUSED) {
            size_t offset = bytes.length;
            buffer_append(&bytes, buffer_text(&j->bytes) + entry.offset, entry.length);
            entry.offset = offset;
        }
        j->entries[kept++] = entry;
    }
    buffer_free(&j->bytes);
    j->bytes = bytes;
    j->count = kept;
}

void held_write_ends(struct keeper *k)
{
    size_t running = k->running;
    if (!k->journal.ends || !is_full(&k->journal))
        return;
    k->journal.ends = false;
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (e->ending)
            write_end(k, e);
    close_gaps(&k->journal);
    if (k->running != running)
        events_keep_room(k->events, life_ends(k), NULL);
}
