/* Owns: the shortest way from one list of lines to another (Myers, "An O(ND) difference algorithm", 1986),
 * with a bound on how long a way is looked for, so that the time is linear in the lists.
 * It must not know: files, or how a difference is shown. */
#include "lib/agent/edit/compare.h"

#include "lib/base/fnv.h"
#include "lib/base/memory.h"

#include <stdint.h>

/* Lines gone and lines come, together. */
enum { STEPS_MOST = 256, DIAGONALS = 2 * STEPS_MOST + 3, MIDDLE = STEPS_MOST + 1 };

void line_changes_free(struct line_changes *changes)
{
    free(changes->items);
    *changes = (struct line_changes){ NULL, 0 };
}

/* Lists without what is common at their ends. */
struct pair {
    const struct bytes *old, *new;
    size_t old_count, new_count;
    uint64_t *old_hashes, *new_hashes;
};

static uint64_t *hash_all(const struct bytes *lines, size_t count)
{
    uint64_t *hashes = xreallocarray(NULL, count, sizeof(*hashes));
    for (size_t i = 0; i < count; i++)
        hashes[i] = fnv_mix(FNV_BEGIN, lines[i].data, lines[i].length);
    return hashes;
}

static bool same_at(const struct pair *pair, size_t x, size_t y)
{
    return pair->old_hashes[x] == pair->new_hashes[y] && bytes_equal(pair->old[x], pair->new[y]);
}

/* How far down each diagonal (old minus new lines) each number of steps reaches, in lines of old. */
struct reach {
    uint32_t rows[STEPS_MOST + 1][DIAGONALS];
    int steps;
};

/* The diagonal from which the step before came: one above is a line of new come, one below one of old gone.
 */
static bool came_from_above(const uint32_t *row, int diagonal, int steps)
{
    return diagonal == -steps ||
           (diagonal != steps && row[MIDDLE + diagonal - 1] < row[MIDDLE + diagonal + 1]);
}

static size_t first_x(const uint32_t *row, int diagonal, int steps)
{
    return came_from_above(row, diagonal, steps) ? row[MIDDLE + diagonal + 1]
                                                 : row[MIDDLE + diagonal - 1] + 1;
}

static bool may_stand(const struct pair *pair, size_t x, int diagonal)
{
    ptrdiff_t y = (ptrdiff_t)x - diagonal;
    return x <= pair->old_count && y >= 0 && y <= (ptrdiff_t)pair->new_count;
}

static size_t slide(const struct pair *pair, size_t x, int diagonal)
{
    while (x < pair->old_count && (ptrdiff_t)x - diagonal < (ptrdiff_t)pair->new_count &&
           same_at(pair, x, (size_t)((ptrdiff_t)x - diagonal)))
        x++;
    return x;
}

/* true = the end is reached, in reach->steps. */
static bool search(const struct pair *pair, struct reach *reach)
{
    uint32_t before[DIAGONALS] = { 0 };
    for (int steps = 0; steps <= STEPS_MOST; steps++) {
        uint32_t *row = reach->rows[steps];
        memcpy(row, before, sizeof(before));
        for (int diagonal = -steps; diagonal <= steps; diagonal += 2) {
            size_t x = steps == 0 ? 0 : first_x(before, diagonal, steps);
            if (may_stand(pair, x, diagonal))
                x = slide(pair, x, diagonal);
            row[MIDDLE + diagonal] = (uint32_t)x;
            if (x == pair->old_count && (ptrdiff_t)x - diagonal == (ptrdiff_t)pair->new_count) {
                reach->steps = steps;
                return true;
            }
        }
        memcpy(before, row, sizeof(before));
    }
    return false;
}

/* Marks the lines that go and come, walking back from the end. */
static void walk_back(const struct pair *pair, const struct reach *reach, bool *gone, bool *come)
{
    int diagonal = (int)((ptrdiff_t)pair->old_count - (ptrdiff_t)pair->new_count);
    for (int steps = reach->steps; steps > 0; steps--) {
        const uint32_t *row = reach->rows[steps - 1];
        bool above = came_from_above(row, diagonal, steps);
        diagonal += above ? 1 : -1;
        size_t x = row[MIDDLE + diagonal];
        if (above)
            come[(ptrdiff_t)x - diagonal] = true;
        else
            gone[x] = true;
    }
}

static void add_change(struct line_changes *ret, struct line_change change)
{
    if ((ret->count & (ret->count - 1)) == 0)
        ret->items = xreallocarray(ret->items, ret->count > 0 ? ret->count * 2 : 1, sizeof(*ret->items));
    ret->items[ret->count++] = change;
}

static void collect(const struct pair *pair, const bool *gone, const bool *come, size_t offset,
                    struct line_changes *ret)
{
    size_t x = 0, y = 0;
    while (x < pair->old_count || y < pair->new_count) {
        struct line_change change = { offset + x, 0, offset + y, 0 };
        for (; x < pair->old_count && gone[x]; x++)
            change.old_count++;
        for (; y < pair->new_count && come[y]; y++)
            change.new_count++;
        if (change.old_count + change.new_count > 0)
            add_change(ret, change);
        x += x < pair->old_count;
        y += y < pair->new_count;
    }
}

static void compare_middle(struct pair *pair, size_t offset, struct line_changes *ret)
{
    bool too_long = pair->old_count > UINT32_MAX / 2 || pair->new_count > UINT32_MAX / 2;
    size_t apart = pair->old_count > pair->new_count ? pair->old_count - pair->new_count
                                                     : pair->new_count - pair->old_count;
    _cleanup_free_ struct reach *reach = xmalloc(sizeof(*reach));
    _cleanup_free_ bool *gone = xcalloc(pair->old_count, 1), *come = xcalloc(pair->new_count, 1);
    _cleanup_free_ uint64_t *old_hashes = hash_all(pair->old, pair->old_count);
    _cleanup_free_ uint64_t *new_hashes = hash_all(pair->new, pair->new_count);
    pair->old_hashes = old_hashes;
    pair->new_hashes = new_hashes;
    if (!too_long && apart <= STEPS_MOST && search(pair, reach))
        walk_back(pair, reach, gone, come);
    else {
        memset(gone, true, pair->old_count);
        memset(come, true, pair->new_count);
    }
    collect(pair, gone, come, offset, ret);
}

void compare_lines(const struct bytes *old, size_t old_count, const struct bytes *new, size_t new_count,
                   struct line_changes *ret)
{
    size_t before = 0;
    while (before < old_count && before < new_count && bytes_equal(old[before], new[before]))
        before++;
    while (old_count > before && new_count > before && bytes_equal(old[old_count - 1], new[new_count - 1])) {
        old_count--;
        new_count--;
    }
    struct pair pair = { old + before, new + before, old_count - before, new_count - before, NULL, NULL };
    if (pair.old_count == 0 || pair.new_count == 0) {
        if (pair.old_count + pair.new_count > 0)
            add_change(ret, (struct line_change){ before, pair.old_count, before, pair.new_count });
        return;
    }
    compare_middle(&pair, before, ret);
}
