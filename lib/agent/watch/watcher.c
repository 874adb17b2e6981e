/* Owns what the kernel's events mean: which change each is, which folders come and go with it. Must not know
 * who reads the changes. */
#include "lib/agent/watch/watcher.h"

#include "lib/agent/watch/internal.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>

#define ROUNDS   4
#define RAW_MOST (4u << 20) /* beyond that the inbox fills, and says so */

/* ---- its life ---- */

static const struct {
    enum change_type type;
    uint32_t mask;
} asked[] = {
    { CHANGE_ACCESS, IN_ACCESS },
    { CHANGE_MODIFY, IN_MODIFY | IN_ATTRIB },
};

/* Names that come and go are always looked at: folders have to be followed. */
static uint32_t mask_of(unsigned types)
{
    uint32_t mask = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK;
    for (size_t i = 0; i < N_ELEMENTS(asked); i++)
        if (types >> asked[i].type & 1)
            mask |= asked[i].mask;
    return mask;
}

/* The folder to watch, "." = the workspace; where the path is a file, the one that it lies in. */
static char *folder_of(struct watcher *w, const struct place *place)
{
    w->base = xstrdup(place->shown);
    if (S_ISDIR(place->stat.st_mode))
        return xstrdup(place->shown);
    w->only = xstrdup(place->name);
    w->recursive = false;
    char *slash = strrchr(place->shown, '/');
    return slash ? xstrndup(place->shown, (size_t)(slash - place->shown)) : xstrdup(".");
}

static void end(struct watcher *w, enum change_why why, int64_t now_us)
{
    if (!w->only)
        pending_add(w->pending, CHANGE_REMOVE, CHANGE_FOLDER, w->base, now_us);
    pending_tell(w->pending, CHANGE_END, why, w->base, now_us);
    w->ended = true;
}

static int begin(struct watcher *w, const struct watcher_options *options, struct error *err)
{
    _cleanup_place_ struct place place = PLACE_INIT;
    if (path_find_existing(w->root, options->path, 0, &place, err) < 0)
        return -1;
    _cleanup_free_ char *folder = folder_of(w, &place);
    w->pending = pending_new(options->types, w->base);
    w->inbox = inbox_open(w->instance, err);
    if (!w->inbox)
        return -1;
    w->folders = folders_new(w->inbox);
    if (walk_folder(w, NULL, folder, false, err) < 0)
        return -1;
    if (!w->top)
        return error_set(err, ERROR_FORBIDDEN, "'%.200s' cannot be watched: it cannot be opened",
                         options->path);
    if (walk_above(w, err) < 0)
        return -1;
    if (!walk_finds_top(w)) /* nothing will say so any more */
        end(w, WHY_MOVED, clock_boottime_us());
    watcher_fill(w);
    if (w->raw.length == 0)
        met_clear(&w->met);
    return 0;
}

struct watcher *watcher_open(const struct watcher_options *options, struct error *err)
{
    struct watcher *w = xcalloc(1, sizeof *w);
    *w = (struct watcher){ .root = options->root,
                           .instance = options->instance,
                           .reader_fd = options->reader_fd,
                           .recursive = options->recursive,
                           .excluded = options->excluded,
                           .mask = mask_of(options->types) };
    if (begin(w, options, err) == 0)
        return w;
    watcher_free(w);
    return NULL;
}

void watcher_free(struct watcher *w)
{
    if (!w)
        return;
    folders_free(w->folders);
    pending_free(w->pending);
    inbox_free(w->inbox);
    met_clear(&w->met);
    met_clear(&w->left);
    doubts_clear(&w->doubts);
    buffer_free(&w->raw);
    buffer_free(&w->path);
    free(w->base);
    free(w->only);
    free(w);
}

int watcher_fd(const struct watcher *w)
{
    return inbox_fd(w->inbox);
}

const char *watcher_path(const struct watcher *w)
{
    return w->base;
}

struct pending *watcher_pending(struct watcher *w)
{
    return w->pending;
}

bool watcher_excludes(const struct watcher *w, const char *path)
{
    return !glob_is_empty(w->excluded) && glob_matches(w->excluded, path, strlen(path));
}

/* ---- folders on their way ---- */

bool watcher_moves(const struct watcher *w, int wd)
{
    for (size_t i = 0; i < WATCHER_TRANSITS; i++)
        if (w->transits[i].cookie && w->transits[i].wd == wd)
            return true;
    return false;
}

bool watcher_moves_above(const struct watcher *w, const struct folder *folder)
{
    for (; folder; folder = folder->parent)
        if (watcher_moves(w, folder->wd))
            return true;
    return false;
}

/* Where it arrives after all it is news. */
static void drop_moved(struct watcher *w, struct transit *t)
{
    struct folder *folder = folders_find(w->folders, t->wd);
    *t = (struct transit){ 0 };
    if (folder && folder != w->top)
        folders_drop(w->folders, folder, false);
}

static void set_out(struct watcher *w, uint32_t cookie, int wd, int64_t now_us)
{
    struct transit *free_one = &w->transits[0];
    for (size_t i = 0; i < WATCHER_TRANSITS; i++)
        if (w->transits[i].due_us < free_one->due_us)
            free_one = &w->transits[i];
    if (free_one->cookie)
        drop_moved(w, free_one);
    *free_one = (struct transit){ cookie, wd, now_us + PENDING_PAIR_US };
}

static struct folder *arrived(struct watcher *w, uint32_t cookie)
{
    for (size_t i = 0; i < WATCHER_TRANSITS; i++)
        if (cookie && w->transits[i].cookie == cookie) {
            int wd = w->transits[i].wd;
            w->transits[i] = (struct transit){ 0 };
            return folders_find(w->folders, wd);
        }
    return NULL;
}

static bool arrives_ahead(const struct watcher *w, uint32_t cookie)
{
    for (const char *at = w->ahead; at < w->ahead_end;) {
        const struct inotify_event *event = (const void *)at;
        if (event->mask & IN_MOVED_TO && event->cookie == cookie)
            return true;
        at += sizeof *event + event->len;
    }
    return false;
}

/* Something happened in a folder that was moved away: where its arrival does not follow either, it has left,
 * and what happens there has no path any more. */
static bool has_left(struct watcher *w, const struct folder *folder)
{
    for (size_t i = 0; i < WATCHER_TRANSITS; i++) {
        struct transit *t = &w->transits[i];
        struct folder *moved = t->cookie ? folders_find(w->folders, t->wd) : NULL;
        if (!moved || !folders_is_below(folder, moved) || arrives_ahead(w, t->cookie))
            continue;
        drop_moved(w, t);
        return true;
    }
    return false;
}

/* They have left what is watched. */
static void drop_gone(struct watcher *w, int64_t now_us)
{
    for (size_t i = 0; i < WATCHER_TRANSITS; i++) {
        struct transit *t = &w->transits[i];
        if (t->cookie && t->due_us <= now_us)
            drop_moved(w, t);
    }
}

/* ---- one event ---- */

struct named {
    struct folder *folder; /* in which */
    const char *name, *path;
    unsigned flags;
    uint32_t cookie;
    int64_t now_us;
};

static bool is_followed(const struct watcher *w, const struct named *n)
{
    return n->flags & CHANGE_FOLDER && w->recursive;
}

static void exchange_from(struct watcher *w, const struct named *n)
{
    struct exchange *e = &w->exchange;
    bool is_back = e->stage == EXCHANGE_TO && e->to == n->folder->wd && !strcmp(e->to_name, n->name);
    e->stage = is_back ? EXCHANGE_BACK : EXCHANGE_FROM;
    e->cookie = n->cookie;
    e->is_tree[is_back] = is_followed(w, n);
    if (is_back)
        return;
    e->from = n->folder->wd;
    snprintf(e->from_name, sizeof e->from_name, "%s", n->name);
}

/* Moves cannot say where trees are after one: who is told drops what a name had before. There and back again
 * is none. */
static void exchange_to(struct watcher *w, const struct named *n)
{
    struct exchange *e = &w->exchange;
    bool is_next = e->cookie == n->cookie;
    bool ends =
        is_next && e->stage == EXCHANGE_BACK && e->from == n->folder->wd && !strcmp(e->from_name, n->name);
    if (ends && (e->is_tree[0] != e->is_tree[1] || (e->is_tree[0] && e->was_tree)))
        w->lost = WHY_RACE;
    e->stage = is_next && e->stage == EXCHANGE_FROM ? EXCHANGE_TO : EXCHANGE_NONE;
    e->to = n->folder->wd;
    e->was_tree = folders_child(w->folders, n->folder, n->name) != NULL;
    snprintf(e->to_name, sizeof e->to_name, "%s", n->name);
}

static void on_create(struct watcher *w, const struct named *n)
{
    met_take(&w->left, n->folder->wd, n->name);
    if (met_has(&w->met, n->folder->wd, n->name))
        return;
    pending_add(w->pending, CHANGE_CREATE, n->flags, n->path, n->now_us);
    if (is_followed(w, n))
        walk_folder(w, n->folder, n->name, true, NULL);
}

/* is_pair: what is in it has moved with it, also for who was told. */
static void arrive(struct watcher *w, const struct named *n, struct folder *folder, bool is_pair)
{
    _cleanup_buffer_ struct buffer was = BUFFER_INIT;
    folders_path(folder, ".", &was);
    folders_move(w->folders, folder, n->folder, n->name);
    doubt_name(w, n->folder, n->name);
    if (!is_pair)
        walk_folder(w, n->folder, n->name, true, NULL);
    else if (!glob_is_empty(w->excluded))
        walk_renamed(w, folder, buffer_text(&was));
}

static void on_moved_to(struct watcher *w, const struct named *n)
{
    struct folder *folder = is_followed(w, n) ? arrived(w, n->cookie) : NULL;
    bool known = !folder && met_has(&w->met, n->folder->wd, n->name);
    if (folder) /* it is there with what is told to be in it, or about to be */
        met_take(&w->met, n->folder->wd, n->name);
    exchange_to(w, n);
    met_take(&w->left, n->folder->wd, n->name);
    bool is_pair = pending_to(w->pending, n->flags, n->path, n->cookie, known, n->now_us);
    if (folder)
        arrive(w, n, folder, is_pair);
    else if (is_followed(w, n) && known) /* it may have taken the place of the one that a walk met */
        doubt_name(w, n->folder, n->name);
    else if (is_followed(w, n))
        walk_folder(w, n->folder, n->name, true, NULL);
}

static void on_delete(struct watcher *w, const struct named *n)
{
    met_take(&w->met, n->folder->wd, n->name);
    pending_add(w->pending, CHANGE_REMOVE, n->flags, n->path, n->now_us);
    struct folder *gone = n->flags & CHANGE_FOLDER ? folders_child(w->folders, n->folder, n->name) : NULL;
    if (gone)
        folders_drop(w->folders, gone, false);
}

/* What has the name now may not be what left it then: that comes, or stays, as something else. */
static void on_moved_from(struct watcher *w, const struct named *n)
{
    exchange_from(w, n);
    doubt_left(w, n->folder, n->name, is_followed(w, n));
    if (met_has(&w->met, n->folder->wd, n->name)) {
        on_delete(w, n);
        return;
    }
    pending_from(w->pending, n->flags, n->path, n->cookie, n->now_us);
    struct folder *folder = n->flags & CHANGE_FOLDER ? folders_child(w->folders, n->folder, n->name) : NULL;
    if (folder)
        set_out(w, n->cookie, folder->wd, n->now_us);
    if (is_followed(w, n))
        doubt_name(w, n->folder, n->name);
}

static void on_modify(struct watcher *w, const struct named *n)
{
    pending_add(w->pending, CHANGE_MODIFY, n->flags, n->path, n->now_us);
}

/* Folders are read by who watches them, too. */
static void on_access(struct watcher *w, const struct named *n)
{
    if (!(n->flags & CHANGE_FOLDER))
        pending_add(w->pending, CHANGE_ACCESS, n->flags, n->path, n->now_us);
}

static const struct {
    uint32_t mask;
    void (*run)(struct watcher *w, const struct named *n);
} meanings[] = {
    { IN_CREATE, on_create },         { IN_MOVED_TO, on_moved_to }, { IN_DELETE, on_delete },
    { IN_MOVED_FROM, on_moved_from }, { IN_MODIFY, on_modify },     { IN_ATTRIB, on_modify },
    { IN_ACCESS, on_access },
};

/* Where nothing is watched. */
static void drop_arrived(struct watcher *w, uint32_t cookie)
{
    struct folder *folder = arrived(w, cookie);
    if (folder)
        folders_drop(w->folders, folder, false);
}

static void on_named(struct watcher *w, struct folder *folder, const struct inotify_event *event)
{
    if (w->only && strcmp(event->name, w->only) != 0)
        return;
    folders_path(folder, event->name, &w->path);
    if (w->path.length > CHANGE_PATH_MAX) { /* a folder far above it got a longer name */
        pending_tell(w->pending, CHANGE_OVERFLOW, WHY_UNREADABLE, w->base, clock_boottime_us());
        return;
    }
    _cleanup_free_ char *path = xstrdup(buffer_text(&w->path));
    if (watcher_excludes(w, path)) {
        if (event->mask & IN_MOVED_TO)
            drop_arrived(w, event->cookie);
        return;
    }
    const struct named n = { .folder = folder,
                             .name = event->name,
                             .path = path,
                             .flags = event->mask & IN_ISDIR ? CHANGE_FOLDER : 0,
                             .cookie = event->cookie,
                             .now_us = clock_boottime_us() };
    for (size_t i = 0; i < N_ELEMENTS(meanings); i++)
        if (event->mask & meanings[i].mask)
            meanings[i].run(w, &n);
}

static void on_above(struct watcher *w, const struct folder *folder, const struct inotify_event *event)
{
    if (event->len > 0 && !strcmp(event->name, folder->leads))
        end(w, event->mask & IN_DELETE ? WHY_REMOVED : WHY_MOVED, clock_boottime_us());
}

static void on_event(struct watcher *w, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW)
        w->lost = WHY_QUEUE;
    struct folder *folder = folders_find(w->folders, event->wd);
    if (!folder || w->ended)
        return;
    if (folder->leads) {
        on_above(w, folder, event);
    } else if (event->mask & IN_IGNORED && folder == w->top) {
        end(w, WHY_REMOVED, clock_boottime_us());
    } else if (event->mask & IN_IGNORED) {
        doubt_name(w, folder->parent, folder->name);
        folders_drop(w->folders, folder, true);
    } else if (event->len > 0 && !has_left(w, folder)) {
        on_named(w, folder, event);
    }
}

/* ---- all of them ---- */

void watcher_fill(struct watcher *w)
{
    instance_read(w->instance);
    if (w->raw.length < RAW_MOST)
        inbox_take(w->inbox, &w->raw);
}

/* What is looked at may lead to a walk, which fills the buffer anew: it is taken away first. */
static void look_at_all(struct watcher *w)
{
    _cleanup_buffer_ struct buffer raw = w->raw;
    w->raw = (struct buffer)BUFFER_INIT;
    for (size_t at = 0; at + sizeof(struct inotify_event) <= raw.length;) {
        const struct inotify_event *event = (const void *)(raw.data + at);
        at += sizeof *event + event->len;
        w->ahead = raw.data + at;
        w->ahead_end = raw.data + raw.length;
        on_event(w, event);
    }
}

/* Only when all is in place again is it told: who then looks for himself misses nothing. */
static void find_again(struct watcher *w)
{
    enum change_why why = w->lost;
    w->lost = WHY_NONE;
    doubts_clear(&w->doubts);
    met_clear(&w->left);
    walk_above(w, NULL);
    walk_again(w);
    pending_tell(w->pending, CHANGE_OVERFLOW, why, w->base, clock_boottime_us());
    if (!walk_finds_top(w))
        end(w, WHY_REMOVED, clock_boottime_us());
}

/* The kernel has nothing more to say. */
static bool settle(struct watcher *w)
{
    met_clear(&w->met);
    drop_gone(w, clock_boottime_us());
    if (w->ended)
        return true;
    if (!w->lost && !doubts_settle(w))
        return false;
    if (w->doubts.count == 0)
        met_clear(&w->left);
    if (w->lost)
        find_again(w);
    return w->raw.length == 0;
}

bool watcher_read(struct watcher *w)
{
    for (int i = 0; i < ROUNDS; i++) { /* not for ever where changes do not end: they are to be told */
        watcher_fill(w);
        if (w->raw.length > 0)
            look_at_all(w);
        else if (settle(w))
            return true;
    }
    return false;
}

int64_t watcher_due(const struct watcher *w)
{
    int64_t due_us = doubts_due(&w->doubts);
    for (size_t i = 0; i < WATCHER_TRANSITS; i++)
        if (w->transits[i].cookie && w->transits[i].due_us < due_us)
            due_us = w->transits[i].due_us;
    return due_us;
}
