/* Owns what a walk and the kernel's events may not agree on. A walk sees folders as they are now, events come
 * later and tell of what was: a folder that took another one's name in between may be taken for that. Once no
 * event is left, each folder that came to its place since is looked at there. */
#include "lib/agent/watch/internal.h"

#define PLACES_MOST    65536
#define CONFLICTS_MOST 1024

struct conflict {
    struct conflict *next;
    int parent, wd;
    char name[];
};

static void clear_conflicts(struct doubts *d)
{
    while (d->conflicts) {
        struct conflict *c = d->conflicts;
        d->conflicts = c->next;
        free(c);
    }
    d->conflict_count = 0;
}

void doubts_clear(struct doubts *d)
{
    clear_conflicts(d);
    free(d->wds);
    *d = (struct doubts){ 0 };
}

void doubt_place(struct watcher *w, const struct folder *folder)
{
    struct doubts *d = &w->doubts;
    if (d->count >= PLACES_MOST) {
        w->lost = WHY_RACE;
        return;
    }
    if (d->count == d->capacity) {
        d->capacity = d->capacity ? 2 * d->capacity : 64;
        d->wds = xreallocarray(d->wds, d->capacity, sizeof *d->wds);
    }
    d->wds[d->count++] = folder->wd;
}

void doubt_conflict(struct watcher *w, const struct folder *parent, const char *name, int wd)
{
    struct doubts *d = &w->doubts;
    size_t length = strlen(name) + 1;
    if (!parent || d->conflict_count >= CONFLICTS_MOST) {
        w->lost = WHY_RACE;
        return;
    }
    struct conflict *c = xmalloc(sizeof *c + length);
    *c = (struct conflict){ .next = d->conflicts, .parent = parent->wd, .wd = wd };
    memcpy(c->name, name, length);
    d->conflicts = c;
    d->conflict_count++;
}

void doubt_missing(struct watcher *w, const struct folder *parent, const char *name)
{
    if (!parent)
        return;
    if (w->doubts.settling) { /* all names are the present ones, unless more has happened */
        watcher_fill(w);
        if (w->raw.length == 0)
            return;
    }
    doubt_conflict(w, parent, name, -1);
}

static bool is_on_its_way(const struct watcher *w, const struct folder *folder)
{
    for (size_t i = 0; i < WATCHER_TRANSITS; i++) {
        const struct transit *t = &w->transits[i];
        const struct folder *moved = t->cookie ? folders_find(w->folders, t->wd) : NULL;
        if (moved && folders_is_below(folder, moved))
            return true;
    }
    return false;
}

/* It was moved here from where that was told; or, before its new place was watched, from where it is still
 * thought to be on its way. Everything else is not understood. */
static void resolve(struct watcher *w, const struct conflict *c)
{
    struct folder *parent = folders_find(w->folders, c->parent), *folder = folders_find(w->folders, c->wd);
    bool is_known = folder && folder->parent == parent && !strcmp(folder->name, c->name);
    if (!parent || is_known || (c->wd < 0 && folders_child(w->folders, parent, c->name)))
        return;
    if (folder && !is_on_its_way(w, folder))
        w->lost = WHY_RACE;
    else
        walk_folder(w, parent, c->name, true, NULL);
}

static void resolve_conflicts(struct watcher *w)
{
    struct doubts mine = { 0 };
    mine.conflicts = STEAL(w->doubts.conflicts);
    w->doubts.conflict_count = 0;
    w->doubts.settling = true;
    for (const struct conflict *c = mine.conflicts; c; c = c->next)
        resolve(w, c);
    w->doubts.settling = false;
    clear_conflicts(&mine);
}

/* -1 = it is not there, and nothing says why. */
static int settle_place(struct watcher *w, int wd)
{
    const struct folder *folder = folders_find(w->folders, wd);
    if (!folder || is_on_its_way(w, folder) || walk_is_there(w, folder))
        return 0;
    watcher_fill(w);
    return w->raw.length > 0 ? 1 : -1;
}

bool doubts_settle(struct watcher *w)
{
    struct doubts *d = &w->doubts;
    resolve_conflicts(w);
    watcher_fill(w);
    if (w->raw.length > 0)
        return false;
    for (; d->count > 0; d->count--) {
        int rc = settle_place(w, d->wds[d->count - 1]);
        if (rc > 0)
            return false;
        if (rc < 0)
            w->lost = WHY_RACE;
    }
    doubts_clear(d);
    return true;
}
