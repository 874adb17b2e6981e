/* Compares what was read of a command with what it had to write, and how it ended with how it had to: whole
 * where nothing happened to it, a true beginning and a true reason where its keeper or its sandbox was ended.
 * Knows no command. */
#include "lib/keeper/lost.h"
#include "tests/chaos/work.h"

#include <stdio.h>

enum fit { FIT_WHOLE, FIT_BEGINNING, FIT_PART };

static bool fits(const struct buffer *want, const struct buffer *got, enum fit fit)
{
    if (got->length > want->length || (fit == FIT_WHOLE && got->length != want->length))
        return false;
    if (got->length == 0)
        return true;
    if (fit == FIT_PART)
        return memmem(want->data, want->length, got->data, got->length) != NULL;
    return memcmp(want->data, got->data, got->length) == 0;
}

static size_t common(const struct buffer *a, const struct buffer *b)
{
    size_t n = 0;
    while (n < a->length && n < b->length && a->data[n] == b->data[n])
        n++;
    return n;
}

static bool compare(const char *name, const struct buffer *want, const struct buffer *got, enum fit fit,
                    char *why, size_t size)
{
    if (fits(want, got, fit))
        return true;
    size_t n = common(want, got);
    snprintf(why, size,
             "%s: %zu bytes where %zu were to come, %zu of them right; then \"%.40s\" for \"%.40s\"", name,
             got->length, want->length, n, n < got->length ? got->data + n : "",
             n < want->length ? want->data + n : "");
    return false;
}

static bool is_suffix(const struct buffer *want, const struct buffer *got)
{
    return got->length > 0 && got->length <= want->length &&
           memcmp(want->data + want->length - got->length, got->data, got->length) == 0;
}

static bool judge_late(const struct chase *c, bool whole, const struct buffer *out, const struct buffer *late,
                       char *why, size_t size)
{
    _cleanup_buffer_ struct buffer want = BUFFER_INIT, got = BUFFER_INIT;
    buffer_append(&want, out->data, out->length);
    buffer_append(&want, late->data, late->length);
    buffer_append(&got, c->out.data, c->out.length);
    buffer_append(&got, c->late.data, c->late.length);
    if (!whole || c->out.length >= out->length)
        return compare("stdout and what is late", &want, &got, FIT_BEGINNING, why, size);
    snprintf(why, size, "stdout: %zu bytes where %zu were written before the end", c->out.length,
             out->length);
    return false;
}

static bool judge_output(const struct entry *e, const struct chase *c, bool whole, char *why, size_t size)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT, err = BUFFER_INIT, late = BUFFER_INIT;
    work_expect(e, &c->out, &out, &err, &late);
    if (work_flags(e->kind) & WORK_LATE)
        return judge_late(c, whole, &out, &late, why, size);
    enum fit fit = c->expired ? FIT_PART : whole ? FIT_WHOLE : FIT_BEGINNING;
    if (whole && c->expired && !is_suffix(&out, &c->out)) {
        snprintf(why, size, "stdout: the %zu bytes that are left are not the last of %zu", c->out.length,
                 out.length);
        return false;
    }
    return compare("stdout", &out, &c->out, fit, why, size) &&
           compare("stderr", &err, &c->err, fit, why, size) &&
           compare("late", &late, &c->late, FIT_BEGINNING, why, size);
}

/* A command may be lost where its keeper or sandbox ended, and the reason names which. */
static bool judge_loss(const struct entry *e, const struct chase *c, char *why, size_t size)
{
    static const struct {
        const char *reason;
        enum death death;
    } reasons[] = {
        { "lost: " LOST_KEEPER, DEATH_KEEPER },
        { "lost: the sandbox ended", DEATH_SANDBOX },
        { "lost: workspace stopped", DEATH_STOP },
    };
    for (size_t i = 0; i < N_ELEMENTS(reasons); i++)
        if (strcmp(c->error, reasons[i].reason) == 0) {
            enum death d = reasons[i].death;
            if (atomic_load(&entry_place(e)->deaths[d]) > e->deaths_before[d])
                return true;
            snprintf(why, size, "it says \"%s\", but nothing of that kind was done", c->error);
            return false;
        }
    snprintf(why, size, "it failed: \"%s\"", c->error);
    return false;
}

static bool judge_end(const struct entry *e, const struct chase *c, char *why, size_t size)
{
    unsigned flags = work_flags(e->kind);
    bool cancel = flags & WORK_CANCEL, timed = flags & WORK_TIMED;
    const char *state = cancel ? "cancelled" : "finished";
    int code = work_code(e), got = (int)member_number(c->exit, "returncode");
    long long ms = member_number(c->exit, "duration_ms");
    if (strcmp(member_text(c->exit, "state"), state) != 0 || got != code ||
        member_flag(c->exit, "timed_out") != timed)
        snprintf(why, size, "it ended as %s, %d, timed_out %d; right is %s, %d, %d",
                 member_text(c->exit, "state"), got, member_flag(c->exit, "timed_out"), state, code, timed);
    else if (ms < 0 || ms > 600000 || (timed && ms < 1000 * (1 + (long long)(e->seed % 3)) - 50))
        snprintf(why, size, "it says that it ran for %lld ms", ms);
    else
        return true;
    return false;
}

bool work_judge(const struct entry *e, const struct chase *c, bool ended, char *why, size_t size)
{
    bool lost = c->exit && strcmp(member_text(c->exit, "state"), "failed") == 0;
    if (lost && !judge_loss(e, c, why, size))
        return false;
    if (c->exit && !lost && !judge_end(e, c, why, size))
        return false;
    return judge_output(e, c, ended && !lost, why, size);
}
