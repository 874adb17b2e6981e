/* Owns matching: a set is a program of steps, a place in a path the steps that it may go on with (Thompson's
 * simulation), so that no pattern takes more than its own length for each character. Must not know: files. */
#include "lib/agent/search/glob.h"

#include "lib/agent/search/glob_program.h"
#include "lib/base/utf8.h"

#define NO_CHARACTER 0x110000 /* plus a byte: one that is no part of a character */

struct glob *glob_new(enum glob_use use)
{
    struct glob *glob = xcalloc(1, sizeof *glob);
    glob->use = use;
    return glob;
}

void glob_free(struct glob *glob)
{
    if (!glob)
        return;
    free(glob->steps);
    free(glob->ranges);
    free(glob->starts);
    free(glob->seen);
    free(glob->stack);
    glob_place_clear(&glob->now);
    glob_place_clear(&glob->next);
    free(glob);
}

void glob_place_clear(struct glob_place *place)
{
    free(place->steps);
    *place = (struct glob_place){ 0 };
}

bool glob_is_empty(const struct glob *glob)
{
    return glob->n_starts == 0;
}

/* ---- sets of steps ---- */

static void place_add(struct glob_place *place, uint32_t step)
{
    if (place->count == place->capacity) {
        place->capacity = place->capacity ? 2 * place->capacity : 16;
        place->steps = xreallocarray(place->steps, place->capacity, sizeof *place->steps);
    }
    place->steps[place->count++] = step;
}

static void make_room(struct glob *glob)
{
    if (glob->seen_size >= glob->count)
        return;
    glob->seen = xreallocarray(glob->seen, glob->count, sizeof *glob->seen);
    glob->stack = xreallocarray(glob->stack, 2 * glob->count, sizeof *glob->stack);
    memset(glob->seen, 0, glob->count * sizeof *glob->seen);
    glob->seen_size = glob->count;
    glob->round = 0;
}

static void next_round(struct glob *glob)
{
    make_room(glob);
    if (++glob->round != 0)
        return;
    memset(glob->seen, 0, glob->seen_size * sizeof *glob->seen);
    glob->round = 1;
}

/* The steps that take a character, or the end, and are reached from here without one. */
static void add_reached(struct glob *glob, struct glob_place *place, uint32_t from)
{
    size_t depth = 0;
    glob->stack[depth++] = from;
    while (depth > 0) {
        uint32_t at = glob->stack[--depth];
        if (glob->seen[at] == glob->round)
            continue;
        glob->seen[at] = glob->round;
        const struct step *step = &glob->steps[at];
        if (step->kind == STEP_SPLIT)
            glob->stack[depth++] = step->b;
        if (step->kind == STEP_SPLIT || step->kind == STEP_JUMP)
            glob->stack[depth++] = step->a;
        else
            place_add(place, at);
    }
}

/* ---- characters ---- */

size_t glob_character(const char *text, size_t length, uint32_t *ret)
{
    size_t size = utf8_character(text, length, ret);
    if (size > 0)
        return size;
    *ret = NO_CHARACTER + (uint8_t)text[0];
    return 1;
}

static bool in_ranges(const struct glob *glob, const struct step *step, uint32_t unit)
{
    for (uint32_t i = step->a; i < step->b; i++)
        if (unit >= glob->ranges[i].low && unit <= glob->ranges[i].high)
            return true;
    return false;
}

static bool takes(const struct glob *glob, const struct step *step, uint32_t unit)
{
    switch (step->kind) {
    case STEP_CHARACTER:
        return step->a == unit;
    case STEP_ANY:
        return unit != '/';
    case STEP_ALL:
        return true;
    case STEP_IN:
        return unit != '/' && in_ranges(glob, step, unit);
    case STEP_NOT_IN:
        return unit != '/' && !in_ranges(glob, step, unit);
    default:
        return false;
    }
}

/* ---- paths ---- */

void glob_begin(struct glob *glob, struct glob_place *ret)
{
    ret->count = 0;
    if (glob->count == 0)
        return;
    next_round(glob);
    for (size_t i = 0; i < glob->n_starts; i++)
        add_reached(glob, ret, glob->starts[i]);
}

static void go_one(struct glob *glob, const struct glob_place *from, uint32_t unit, struct glob_place *ret)
{
    ret->count = 0;
    next_round(glob);
    for (size_t i = 0; i < from->count; i++)
        if (takes(glob, &glob->steps[from->steps[i]], unit))
            add_reached(glob, ret, from->steps[i] + 1);
}

static void swap(struct glob_place *a, struct glob_place *b)
{
    struct glob_place kept = *a;
    *a = *b;
    *b = kept;
}

static void copy(const struct glob_place *from, struct glob_place *to)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++)
        place_add(to, from->steps[i]);
}

void glob_go_on(struct glob *glob, const struct glob_place *from, const char *text, size_t length,
                struct glob_place *ret)
{
    uint32_t unit;
    copy(from, ret);
    for (size_t at = 0; at < length && ret->count > 0;) {
        at += glob_character(text + at, length - at, &unit);
        go_one(glob, ret, unit, &glob->next);
        swap(ret, &glob->next);
    }
}

bool glob_accepts(const struct glob *glob, const struct glob_place *place)
{
    for (size_t i = 0; i < place->count; i++)
        if (glob->steps[place->steps[i]].kind == STEP_END)
            return true;
    return false;
}

bool glob_matches(struct glob *glob, const char *path, size_t length)
{
    uint32_t unit;
    glob_begin(glob, &glob->now);
    for (size_t at = 0; at < length && glob->now.count > 0;) {
        at += glob_character(path + at, length - at, &unit);
        if (unit == '/' && glob->use == GLOB_EXCLUDE && glob_accepts(glob, &glob->now))
            return true;
        go_one(glob, &glob->now, unit, &glob->next);
        swap(&glob->now, &glob->next);
    }
    return glob_accepts(glob, &glob->now);
}
