/* Owns the row of changes that wait to be told, in order. A change that is held back (the file was told to be
 * modified a moment ago) is passed by changes of other paths; the first half of a rename is passed by nothing
 * while it waits for the second. Knows neither folders nor the kernel. */
#include "lib/agent/watch/pending.h"

#include "lib/base/fnv.h"
#include "lib/base/memory.h"

#include <string.h>
#include <sys/queue.h>

#define SLOTS 1024

struct item {
    TAILQ_ENTRY(item) in_row;
    struct change change;
    uint32_t cookie;
    int64_t due_us;
    uint64_t key;
    bool waits; /* for its other half */
    bool unwanted;
    char *other;
    char path[];
};

/* What was told last of one path, and what waits of it. A path whose slot another one has taken is told more
 * often, no more than that. */
struct slot {
    uint64_t key;
    int64_t told_us;
    struct item *item;
};

struct pending {
    TAILQ_HEAD(item_row, item) row;
    size_t count, bytes, waiting, held;
    unsigned types;
    char *base;
    struct item *next; /* handed out */
    struct slot slots[SLOTS];
};

struct pending *pending_new(unsigned types, const char *base)
{
    struct pending *p = xcalloc(1, sizeof *p);
    TAILQ_INIT(&p->row);
    p->types = types;
    p->base = xstrdup(base);
    return p;
}

/* ---- items ---- */

static uint64_t key_of(enum change_type type, const char *path)
{
    uint64_t key = fnv_mix(fnv_mix(FNV_BEGIN, &type, sizeof type), path, strlen(path));
    return key ? key : 1;
}

static struct slot *slot_of(struct pending *p, uint64_t key)
{
    struct slot *slot = &p->slots[key % SLOTS];
    return slot->key == key ? slot : NULL;
}

static void item_remove(struct pending *p, struct item *item)
{
    struct slot *slot = slot_of(p, item->key);
    if (slot && slot->item == item)
        slot->item = NULL;
    TAILQ_REMOVE(&p->row, item, in_row);
    p->count--;
    p->bytes -= item->change.length + item->change.other_length;
    p->waiting -= item->waits;
    free(item->other);
    free(item);
}

static void clear(struct pending *p)
{
    while (!TAILQ_EMPTY(&p->row))
        item_remove(p, TAILQ_FIRST(&p->row));
    memset(p->slots, 0, sizeof p->slots);
    p->held = 0;
    p->next = NULL;
}

void pending_free(struct pending *p)
{
    if (!p)
        return;
    clear(p);
    free(p->base);
    free(p);
}

static struct item *append(struct pending *p, enum change_type type, unsigned flags, const char *path,
                           int64_t now_us)
{
    size_t length = strlen(path);
    struct item *item = xcalloc(1, sizeof *item + length + 1);
    memcpy(item->path, path, length + 1);
    item->change = (struct change){ .type = type, .flags = flags, .path = item->path, .length = length };
    item->due_us = now_us;
    TAILQ_INSERT_TAIL(&p->row, item, in_row);
    p->count++;
    p->bytes += length;
    return item;
}

static void name_other(struct pending *p, struct item *item, const char *other)
{
    item->other = xstrdup(other);
    item->change.flags |= CHANGE_MOVED;
    item->change.other = item->other;
    item->change.other_length = strlen(other);
    p->bytes += item->change.other_length;
}

/* What is in the row would be told in part only: the client has to look for itself. */
static void bound(struct pending *p, int64_t now_us)
{
    if (p->count <= PENDING_MOST && p->bytes <= PENDING_BYTES)
        return;
    clear(p);
    pending_tell(p, CHANGE_OVERFLOW, WHY_BUFFER, p->base, now_us);
}

static bool is_wanted(const struct pending *p, enum change_type type)
{
    return (p->types >> type & 1) != 0;
}

/* ---- what is held back ---- */

static void release_all(struct pending *p, int64_t now_us)
{
    struct item *item;
    if (p->held == 0)
        return;
    TAILQ_FOREACH(item, &p->row, in_row)
        if (!item->waits)
            item->due_us = now_us;
    memset(p->slots, 0, sizeof p->slots);
    p->held = 0;
}

static void release(struct pending *p, enum change_type type, const char *path, int64_t now_us)
{
    struct slot *slot = slot_of(p, key_of(type, path));
    if (!slot)
        return;
    if (slot->item)
        slot->item->due_us = now_us;
    *slot = (struct slot){ 0 };
}

/* Something else happens to the path, or to a folder that it may lie in: what was said of it before comes
 * first. */
static void settle(struct pending *p, unsigned flags, const char *path, int64_t now_us)
{
    if (flags & CHANGE_FOLDER)
        release_all(p, now_us);
    release(p, CHANGE_MODIFY, path, now_us);
    release(p, CHANGE_ACCESS, path, now_us);
}

/* The same of the same path again. */
static void add_repeated(struct pending *p, enum change_type type, unsigned flags, const char *path,
                         int64_t now_us)
{
    uint64_t key = key_of(type, path);
    struct slot *slot = &p->slots[key % SLOTS];
    bool same = slot->key == key;
    if (same && slot->item && !strcmp(slot->item->path, path))
        return;
    struct item *item = append(p, type, flags, path, now_us);
    item->key = key;
    if (same && slot->told_us + PENDING_QUIET_US > now_us) {
        item->due_us = slot->told_us + PENDING_QUIET_US;
        p->held++;
    }
    *slot = (struct slot){ .key = key, .told_us = same ? slot->told_us : INT64_MIN / 2, .item = item };
}

/* ---- in ---- */

void pending_add(struct pending *p, enum change_type type, unsigned flags, const char *path, int64_t now_us)
{
    bool repeats = type == CHANGE_MODIFY || type == CHANGE_ACCESS;
    if (!repeats)
        settle(p, flags, path, now_us);
    if (!is_wanted(p, type))
        return;
    if (repeats)
        add_repeated(p, type, flags, path, now_us);
    else
        append(p, type, flags, path, now_us);
    bound(p, now_us);
}

void pending_tell(struct pending *p, enum change_type type, enum change_why why, const char *path,
                  int64_t now_us)
{
    struct item *last = TAILQ_LAST(&p->row, item_row);
    release_all(p, now_us);
    if (last && last->change.type == type && last->change.why == why && !strcmp(last->path, path))
        return;
    append(p, type, type == CHANGE_OVERFLOW ? CHANGE_FOLDER : 0, path, now_us)->change.why = why;
}

void pending_from(struct pending *p, unsigned flags, const char *path, uint32_t cookie, int64_t now_us)
{
    settle(p, flags, path, now_us);
    struct item *item = append(p, CHANGE_REMOVE, flags, path, now_us + PENDING_PAIR_US);
    item->cookie = cookie;
    item->waits = true;
    item->unwanted = !is_wanted(p, CHANGE_REMOVE);
    p->waiting++;
    bound(p, now_us);
}

static struct item *find_half(struct pending *p, uint32_t cookie)
{
    struct item *item;
    if (p->waiting == 0)
        return NULL;
    TAILQ_FOREACH_REVERSE(item, &p->row, item_row, in_row)
    if (item->waits && item->cookie == cookie)
        return item;
    return NULL;
}

/* Where a file takes another one's place, its new content is there at once: who asks for modifications only
 * wants to know that. */
static enum change_type arrival(const struct pending *p, unsigned flags)
{
    bool as_content = !is_wanted(p, CHANGE_CREATE) && !(flags & CHANGE_FOLDER);
    return as_content ? CHANGE_MODIFY : CHANGE_CREATE;
}

bool pending_to(struct pending *p, unsigned flags, const char *path, uint32_t cookie, bool known,
                int64_t now_us)
{
    struct item *from = find_half(p, cookie);
    enum change_type type = arrival(p, flags);
    settle(p, flags, path, now_us);
    if (from && !known)
        name_other(p, from, path);
    if (from) {
        from->waits = false;
        from->due_us = now_us;
        p->waiting--;
    }
    if (!known && is_wanted(p, type)) {
        struct item *to = append(p, type, flags, path, now_us);
        if (from)
            name_other(p, to, from->path);
    }
    bool paired = from != NULL;
    bound(p, now_us);
    return paired;
}

/* ---- out ---- */

const struct change *pending_next(struct pending *p, int64_t now_us)
{
    struct item *item, *after;
    for (item = TAILQ_FIRST(&p->row); item; item = after) {
        after = TAILQ_NEXT(item, in_row);
        if (item->due_us > now_us && item->waits)
            return NULL;
        if (item->due_us > now_us)
            continue;
        if (!item->unwanted) {
            p->next = item;
            return &item->change;
        }
        item_remove(p, item);
    }
    return NULL;
}

void pending_done(struct pending *p, int64_t now_us)
{
    struct item *item = STEAL(p->next);
    struct slot *slot = slot_of(p, item->key);
    if (slot && slot->item == item)
        slot->told_us = now_us;
    item_remove(p, item);
}

int64_t pending_due(const struct pending *p)
{
    int64_t due_us = INT64_MAX;
    const struct item *item;
    TAILQ_FOREACH(item, &p->row, in_row) {
        if (item->due_us < due_us)
            due_us = item->due_us;
        if (item->waits)
            break;
    }
    return due_us;
}
