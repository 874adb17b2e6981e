/* Owns: searching, in time that grows with the text and not with text times wanted.
 * It must not know: what is done with what is found. */
#include "lib/agent/edit/find.h"

#include "lib/base/memory.h"

/* Windows that are compared one by one before the whole text is taken apart. */
enum { TRIES = 64, LOOK_AHEAD = 4096 };

void matches_free(struct matches *matches)
{
    free(matches->items);
    *matches = (struct matches)MATCHES_INIT;
}

void matches_add(struct matches *matches, size_t at, size_t length)
{
    const struct match *last = matches->count > 0 ? &matches->items[matches->count - 1] : NULL;
    if (last != NULL && at < last->at + last->length) {
        matches->overlap = true;
        return;
    }
    if (matches->items == NULL || matches->count == matches->capacity) {
        matches->capacity = matches->capacity > 0 ? matches->capacity * 2 : 16;
        matches->items = xreallocarray(matches->items, matches->capacity, sizeof(*matches->items));
    }
    matches->items[matches->count++] = (struct match){ at, length };
}

/* Looks ahead a little, then twice as far each time: matches may be many, and what memmem(3) does before it
 * looks, or a sanitizer does for it, should not be for the whole rest each time. wanted is not empty. */
static size_t next_exact(struct bytes text, struct bytes wanted, size_t at)
{
    for (size_t ahead = LOOK_AHEAD; at < text.length && text.length - at >= wanted.length; ahead *= 2) {
        size_t rest = text.length - at, size = ahead < rest - wanted.length ? ahead + wanted.length : rest;
        const char *found = memmem(text.data + at, size, wanted.data, wanted.length);
        if (found != NULL)
            return (size_t)(found - text.data);
        at += size - wanted.length + 1;
    }
    return text.length;
}

void find_exact(struct bytes text, struct bytes wanted, struct matches *ret)
{
    for (size_t at = 0; (at = next_exact(text, wanted, at)) < text.length; at += wanted.length)
        matches_add(ret, at, wanted.length);
    /* Whether a lone one is alone shows from its second byte on. */
    if (ret->count == 1 && next_exact(text, wanted, ret->items[0].at + 1) < text.length)
        ret->overlap = true;
}

/* ---- whole lines ---- */

struct pattern {
    struct bytes *lines;
    size_t count;
    enum lines_grade grade;
    struct bytes anchor; /* the longest word of all lines, which stands in line anchor_line */
    size_t anchor_line;
};

static void pattern_free(struct pattern *pattern)
{
    free(pattern->lines);
}

static void pattern_make(struct pattern *pattern, struct bytes wanted, enum lines_grade grade)
{
    *pattern = (struct pattern){ .grade = grade };
    pattern->lines = lines_split(wanted, &pattern->count);
    for (size_t i = 0; i < pattern->count; i++) {
        struct bytes word = line_longest_word(pattern->lines[i]);
        if (word.length > pattern->anchor.length) {
            pattern->anchor = word;
            pattern->anchor_line = i;
        }
    }
}

/* Where the line `back` lines above the one at `start` begins; false where there are not so many. */
static bool go_up(struct bytes text, size_t *start, size_t back)
{
    for (; back > 0; back--) {
        if (*start == 0)
            return false;
        *start = line_start(text, *start - 1);
    }
    return true;
}

/* Whether the lines from start on are the pattern's; *ret_end: the end of the last, without its line end. */
static bool window_is(const struct pattern *pattern, struct bytes text, size_t start, size_t *ret_end)
{
    struct bytes line;
    size_t at = *ret_end = start;
    for (size_t i = 0; i < pattern->count; i++) {
        if (!line_next(text, &at, &line) || !line_same(line, pattern->lines[i], pattern->grade))
            return false;
        *ret_end = (size_t)(line.data - text.data) + line.length;
    }
    return true;
}

/* Looks only where the anchor stands; false = that is too often. */
static bool find_by_anchor(const struct pattern *pattern, struct bytes text, struct matches *ret)
{
    size_t tries = 0, end;
    for (size_t at = 0; (at = next_exact(text, pattern->anchor, at)) < text.length;) {
        size_t start = line_start(text, at);
        if (tries++ == TRIES)
            return false;
        if (go_up(text, &start, pattern->anchor_line) && window_is(pattern, text, start, &end))
            matches_add(ret, start, end - start);
        at = bytes_find(text, at, '\n'); /* the rest of this line begins no other window */
    }
    return true;
}

/* For each count of lines that match: how many still do where the next one does not (Knuth, Morris, Pratt).
 */
static size_t *make_fallbacks(const uint64_t *hashes, size_t count)
{
    size_t *back = xcalloc(count + 1, sizeof(*back));
    for (size_t i = 1, have = 0; i < count; i++) {
        while (have > 0 && hashes[i] != hashes[have])
            have = back[have];
        have += hashes[i] == hashes[have];
        back[i + 1] = have;
    }
    return back;
}

static void find_by_hashes(const struct pattern *pattern, struct bytes text, struct matches *ret)
{
    if (pattern->count == 0)
        return;
    _cleanup_free_ uint64_t *hashes = xreallocarray(NULL, pattern->count, sizeof(*hashes));
    for (size_t i = 0; i < pattern->count; i++)
        hashes[i] = line_hash(pattern->lines[i], pattern->grade);
    _cleanup_free_ size_t *back = make_fallbacks(hashes, pattern->count);
    _cleanup_free_ size_t *starts = xreallocarray(NULL, pattern->count, sizeof(*starts)); /* a ring */
    struct bytes line;
    size_t have = 0, index = 0, end;
    for (size_t at = 0; line_next(text, &at, &line); index++) {
        uint64_t hash = line_hash(line, pattern->grade);
        starts[index % pattern->count] = (size_t)(line.data - text.data);
        while (have > 0 && hashes[have] != hash)
            have = back[have];
        have += hashes[have] == hash;
        if (have < pattern->count)
            continue;
        size_t start = starts[(index + 1) % pattern->count];
        const struct match *last = ret->count > 0 ? &ret->items[ret->count - 1] : NULL;
        if (last != NULL && start < last->at + last->length)
            ret->overlap = true; /* not compared: windows that overlap may be many */
        else if (window_is(pattern, text, start, &end))
            matches_add(ret, start, end - start);
        have = back[have];
    }
}

void find_lines(struct bytes text, struct bytes wanted, enum lines_grade grade, struct matches *ret)
{
    __attribute__((cleanup(pattern_free))) struct pattern pattern;
    pattern_make(&pattern, wanted, grade);
    if (pattern.anchor.length == 0 || find_by_anchor(&pattern, text, ret))
        return;
    matches_free(ret);
    find_by_hashes(&pattern, text, ret);
}
