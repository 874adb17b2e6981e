/* Writes the end of execs that cannot tell it themselves. Knows the store only. */
#include "lib/keeper/lost.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "lib/base/utf8.h"
#include "lib/store/told.h"
#include "lib/store/watches.h"

#include <stdio.h>

#define EXECS_A_READ 64

struct losing {
    struct events_writer *writer;
    const char *workspace_id, *why;
};

static void copy_reason(char *to, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    length = utf8_valid_prefix(text, length);
    memcpy(to, text, length);
    to[length] = '\0';
}

int lost_append(struct events_writer *w, struct exec_head *head, const char *text, int64_t wall_us,
                struct error *err)
{
    char members[160];
    int64_t from = head->started_us != 0 ? head->started_us : head->created_us;
    head->state = EXEC_FAILED;
    head->waiting_for_input = false;
    head->has_returncode = false;
    head->finished_us = head->updated_us = wall_us;
    head->duration_ms = wall_us > from ? (wall_us - from) / 1000 : 0;
    copy_reason(head->reason, sizeof(head->reason), text);
    struct event error_event = {
        .type = EVENT_ERROR, .wall_us = wall_us, .data = head->reason, .length = strlen(head->reason)
    };
    if (events_append(w, head, &error_event, err) < 0)
        return -1;
    int length = snprintf(members, sizeof(members),
                          "\"returncode\":null,\"signal\":null,\"timed_out\":false,\"oom_killed\":false,"
                          "\"state\":\"failed\",\"duration_ms\":%lld",
                          (long long)head->duration_ms);
    struct event exit_event = {
        .type = EVENT_EXIT, .wall_us = wall_us, .data = members, .length = (size_t)length
    };
    if (events_append(w, head, &exit_event, err) < 0)
        return -1;
    head->exit_seq = exit_event.seq;
    return 0;
}

static int lose_one(struct events_writer *w, struct exec_head *head, const char *why, struct error *err)
{
    char text[sizeof(head->reason)];
    snprintf(text, sizeof(text), "lost: %s", why);
    if (lost_append(w, head, text, clock_wall_us(), err) < 0)
        return -1;
    return events_put_exec(w, head, err);
}

static int lose_batch(const struct losing *l, struct exec_head *heads, size_t count, struct error *err)
{
    if (events_begin_end(l->writer, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (lose_one(l->writer, &heads[i], l->why, err) < 0) {
            events_abort(l->writer);
            return -1;
        }
    if (events_commit(l->writer, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        told_exec_ended(l->workspace_id, &heads[i]);
    return 0;
}

/* A batch of many copies more pages than are kept on a full disk; with one after the other they serve again.
 */
static int lose_each(const struct losing *l, struct exec_head *heads, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (lose_batch(l, &heads[i], 1, err) < 0)
            return -1;
    return 0;
}

static int lose(const struct losing *l, struct exec_head *heads, size_t count, struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    _cleanup_free_ struct exec_head *copies = xcalloc(count, sizeof(*copies));
    memcpy(copies, heads, count * sizeof(*heads));
    if (lose_batch(l, copies, count, &problem) == 0)
        return 0;
    if (problem.code == ERROR_FULL)
        return lose_each(l, heads, count, err);
    error_move(err, &problem);
    return -1;
}

static int lose_watch(struct events_writer *w, struct watch_head *head, const char *why, struct error *err)
{
    char text[sizeof(head->reason)];
    snprintf(text, sizeof(text), "lost: %s", why);
    head->state = EXEC_FAILED;
    head->finished_us = clock_wall_us();
    copy_reason(head->reason, sizeof(head->reason), text);
    if (events_begin_end(w, err) < 0)
        return -1;
    if (watches_put(w, head, err) < 0) {
        events_abort(w);
        return -1;
    }
    return events_commit(w, err);
}

/* At most KEEPER_WATCHES_MAX of them live at once. */
static long finish_watches(struct events_writer *w, const char *why, struct error *err)
{
    _cleanup_free_ struct watch_head *heads = xcalloc(EXECS_A_READ, sizeof(*heads));
    uint32_t before = 0;
    long total = 0, count;
    while ((count = watches_list(events_writer_reader(w), before, heads, EXECS_A_READ, err)) > 0) {
        for (long i = 0; i < count; i++) {
            if (exec_state_is_terminal(heads[i].state))
                continue;
            if (lose_watch(w, &heads[i], why, err) < 0)
                return -1;
            total++;
        }
        before = heads[count - 1].stream;
    }
    return count < 0 ? -1 : total;
}

/* Keeps those without a final event, in place. */
static size_t keep_open_ones(struct exec_head *heads, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (heads[i].exit_seq == 0)
            heads[kept++] = heads[i];
    return kept;
}

static long finish_execs(const struct losing *l, struct error *err)
{
    _cleanup_free_ struct exec_head *heads = xcalloc(EXECS_A_READ, sizeof(*heads));
    uint32_t before = 0;
    long total = 0;
    for (;;) {
        long count = events_list_execs(events_writer_reader(l->writer), before, heads, EXECS_A_READ, err);
        if (count <= 0)
            return count < 0 ? -1 : total;
        before = heads[count - 1].stream;
        size_t open = keep_open_ones(heads, (size_t)count);
        if (open > 0 && lose(l, heads, open, err) < 0)
            return -1;
        total += (long)open;
        if (before == 0)
            return total;
    }
}

static long finish_all(const struct losing *l, struct error *err)
{
    long execs = finish_execs(l, err), watches = execs < 0 ? -1 : finish_watches(l->writer, l->why, err);
    return watches < 0 ? -1 : execs + watches;
}

/* Nobody could read their end in a log that cannot be read. */
long lost_finish(struct events_writer *w, const char *workspace_id, const char *why, struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    const struct losing l = { w, workspace_id, why };
    long total = finish_all(&l, &problem);
    if (total >= 0)
        return total;
    if (events_writer_is_damaged(w))
        return events_writer_start_anew(w, problem.message, err);
    error_move(err, &problem);
    return -1;
}
