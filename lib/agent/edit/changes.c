/* Owns: composing rounds of splices into one list of spans, in time linear in both.
 * It must not know: what is in the texts. */
#include "lib/agent/edit/changes.h"

/* Spans closer than this become one, so that a letter replaced everywhere in a large file does not cost many
 * times that file's size. */
enum { GAP = 16 };

void changes_free(struct changes *changes)
{
    free(changes->spans);
    *changes = (struct changes)CHANGES_INIT;
}

/* Two lists in the coordinates of the text between them, and how far each has moved what follows. */
struct merge {
    const struct edit_span *before;
    size_t before_left;
    const struct view_splice *now;
    size_t now_left;
    ptrdiff_t before_shift, now_shift;
};

static bool before_comes_first(const struct merge *m)
{
    return m->now_left == 0 || (m->before_left > 0 && m->before->new_at <= m->now->at);
}

static size_t next_start(const struct merge *m)
{
    return before_comes_first(m) ? m->before->new_at : m->now->at;
}

/* Takes the next of both lists and returns where it ends. */
static size_t take_next(struct merge *m)
{
    size_t end;
    if (before_comes_first(m)) {
        end = m->before->new_at + m->before->new_length;
        m->before_shift += (ptrdiff_t)m->before->new_length - (ptrdiff_t)m->before->old_length;
        m->before++;
        m->before_left--;
    } else {
        end = m->now->at + m->now->length;
        m->now_shift += (ptrdiff_t)m->now->text.length - (ptrdiff_t)m->now->length;
        m->now++;
        m->now_left--;
    }
    return end;
}

/* All that overlap or nearly touch, as one span from the original to the new text. */
static struct edit_span take_group(struct merge *m)
{
    struct edit_span span;
    size_t start = next_start(m), end = start;
    span.old_at = start - (size_t)m->before_shift;
    span.new_at = start + (size_t)m->now_shift;
    while (m->before_left + m->now_left > 0 && next_start(m) <= end + GAP) {
        size_t last = take_next(m);
        end = last > end ? last : end;
    }
    span.old_length = end - (size_t)m->before_shift - span.old_at;
    span.new_length = end + (size_t)m->now_shift - span.new_at;
    return span;
}

void changes_add(struct changes *changes, const struct view_splice *splices, size_t count)
{
    struct merge merge = { changes->spans, changes->count, splices, count, 0, 0 };
    size_t groups = 0;
    struct edit_span *spans = NULL;
    for (size_t room = 0; merge.before_left + merge.now_left > 0;) {
        if (groups == room) {
            room = room > 0 ? room * 2 : 16;
            spans = xreallocarray(spans, room, sizeof(*spans));
        }
        spans[groups++] = take_group(&merge);
    }
    free(changes->spans);
    *changes = (struct changes){ spans, groups };
}

size_t changes_origin(const struct changes *changes, size_t at)
{
    size_t low = 0, high = changes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (changes->spans[middle].new_at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return at;
    const struct edit_span *span = &changes->spans[low - 1];
    size_t into = at - span->new_at;
    if (into < span->new_length)
        return span->old_at + (into < span->old_length ? into : span->old_length);
    return span->old_at + span->old_length + (into - span->new_length);
}
