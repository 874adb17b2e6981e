/* Owns what a walk and the kernel's events may not agree on. A walk sees folders as they are now, events come
 * later and tell of what was: a folder that took another one's name in between may be taken for that. Once no
 * event is left, each name that a folder came to or went from since is looked at. */
#include "lib/agent/watch/internal.h"
#include "lib/base/clock.h"

#define DOUBTS_MOST 65536
#define LATE_US                                                                                              \
    20000 /* so much later than what it tells of may an event be there: who made it lost its turn */

struct doubt {
    struct doubt *next;
    int parent;     /* its watch: the folder may go meanwhile */
    int64_t due_us; /* it is looked at once more, or 0 */
    bool is_missed; /* something is to be there, unless an event says that it is not */
    bool is_left;   /* what had the name went elsewhere, and that was told */
    bool was_tree;  /* it was a folder that is followed */
    char name[];
};

static void push(struct doubt **list, struct doubt *doubt)
{
    doubt->next = *list;
    *list = doubt;
}

static struct doubt *pop(struct doubt **list)
{
    struct doubt *doubt = *list;
    if (doubt)
        *list = doubt->next;
    return doubt;
}

void doubts_clear(struct doubts *d)
{
    for (struct doubt *doubt; (doubt = pop(&d->newest)) != NULL;)
        free(doubt);
    d->count = 0;
}

static void add(struct watcher *w, const struct folder *parent, const char *name, struct doubt what)
{
    struct doubts *d = &w->doubts;
    size_t length = strlen(name) + 1;
    if (!parent || (!w->recursive && !what.is_left))
        return;
    if (d->count >= DOUBTS_MOST) {
        w->lost = WHY_RACE;
        return;
    }
    struct doubt *doubt = xmalloc(sizeof *doubt + length);
    *doubt = what;
    doubt->parent = parent->wd;
    memcpy(doubt->name, name, length);
    push(&d->newest, doubt);
    d->count++;
}

void doubt_name(struct watcher *w, const struct folder *parent, const char *name)
{
    add(w, parent, name, (struct doubt){ 0 });
}

void doubt_missed(struct watcher *w, const struct folder *parent, const char *name)
{
    add(w, parent, name, (struct doubt){ .is_missed = true });
}

void doubt_left(struct watcher *w, const struct folder *parent, const char *name, bool was_tree)
{
    met_add(&w->left, parent->wd, name);
    add(w, parent, name, (struct doubt){ .is_left = true, .was_tree = was_tree });
}

enum outcome { SETTLED, WAITS, MORE_HAPPENED };

/* The folder that is to be there, or NULL. */
static const struct folder *expected(const struct watcher *w, const struct folder *parent, const char *name)
{
    const struct folder *folder = folders_child(w->folders, parent, name);
    return folder && !watcher_moves(w, folder->wd) ? folder : NULL;
}

/* One that nobody knows, or that came from where this was told, is news. Everything else is not understood.
 */
static void find_out(struct watcher *w, struct folder *parent, const char *name, const char *path, int wd)
{
    bool is_known = folders_find(w->folders, wd) && !watcher_moves(w, wd);
    if (is_known || expected(w, parent, name)) {
        w->lost = WHY_RACE;
    } else if (wd >= 0) {
        pending_add(w->pending, CHANGE_CREATE, CHANGE_FOLDER, path, clock_boottime_us());
        walk_folder(w, parent, name, true, NULL);
    }
}

/* Two names may be exchanged: each is told to go, and of one not that it is there again. Whose trees lie
 * where then cannot be said in moves. */
static enum outcome settle_left(struct watcher *w, const struct folder *parent, struct doubt *doubt,
                                const char *path, int64_t now_us)
{
    const char *name = doubt->name;
    bool is_folder;
    if (!met_has(&w->left, parent->wd, name))
        return SETTLED;
    int is_there = walk_finds(w, parent, name, &is_folder);
    watcher_fill(w);
    if (w->raw.length > 0)
        return MORE_HAPPENED;
    if (is_there < 0 && !doubt->due_us) {
        doubt->due_us = now_us + LATE_US;
        return WAITS;
    }
    met_take(&w->left, parent->wd, name);
    if (is_there == 0)
        return SETTLED;
    if (is_there < 0 || doubt->was_tree || (is_folder && w->recursive)) {
        w->lost = WHY_RACE;
        return SETTLED;
    }
    pending_add(w->pending, CHANGE_CREATE, is_folder ? CHANGE_FOLDER : 0, path, clock_boottime_us());
    met_add(&w->met, parent->wd, name);
    return SETTLED;
}

static enum outcome settle_as_expected(struct watcher *w, struct folder *parent, const struct folder *folder)
{
    if (folder->untold)
        walk_folder(w, parent, folder->name, true, NULL);
    return SETTLED;
}

/* That nothing is there may also mean that the path is another one by now. */
static enum outcome settle(struct watcher *w, struct doubt *doubt, int64_t now_us)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    struct folder *parent = folders_find(w->folders, doubt->parent);
    if (parent)
        folders_path(parent, doubt->name, &path);
    if (!parent || watcher_excludes(w, buffer_text(&path)))
        return SETTLED;
    if (watcher_moves_above(w, parent) || doubt->due_us > now_us)
        return WAITS;
    if (doubt->is_left)
        return settle_left(w, parent, doubt, buffer_text(&path), now_us);
    int wd = walk_look(w, buffer_text(&path));
    const struct folder *folder = expected(w, parent, doubt->name);
    if (folder && folder->wd == wd)
        return settle_as_expected(w, parent, folder);
    watcher_fill(w);
    if (w->raw.length > 0)
        return MORE_HAPPENED;
    if (wd < 0 && doubt->is_missed && !doubt->due_us) {
        doubt->due_us = now_us + LATE_US;
        return WAITS;
    }
    find_out(w, parent, doubt->name, buffer_text(&path), wd);
    return SETTLED;
}

bool doubts_settle(struct watcher *w)
{
    struct doubt *doubt, *waiting = NULL;
    enum outcome outcome = SETTLED;
    int64_t now_us = clock_boottime_us();
    while (outcome != MORE_HAPPENED && (doubt = pop(&w->doubts.newest)) != NULL) {
        outcome = settle(w, doubt, now_us);
        if (outcome == SETTLED) {
            free(doubt);
            w->doubts.count--;
        } else {
            push(&waiting, doubt);
        }
    }
    while ((doubt = pop(&waiting)) != NULL)
        push(&w->doubts.newest, doubt);
    return outcome != MORE_HAPPENED;
}

int64_t doubts_due(const struct doubts *d)
{
    int64_t due_us = INT64_MAX;
    for (const struct doubt *doubt = d->newest; doubt; doubt = doubt->next)
        if (doubt->due_us && doubt->due_us < due_us)
            due_us = doubt->due_us;
    return due_us;
}
