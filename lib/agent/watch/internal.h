/* What the files of a watcher share. watcher.c turns what the kernel says into changes; walk.c looks into
 * folders; doubt.c sees whether the two agree. */
#ifndef AGENT_WATCH_INTERNAL_H
#define AGENT_WATCH_INTERNAL_H

#include "lib/agent/watch/folders.h"
#include "lib/agent/watch/watcher.h"

#define WATCHER_TRANSITS 32

/* Names in watched folders that a walk has told to be there: the kernel may be about to say so too. */
struct met {
    uint64_t *slots;
    size_t count, capacity;
};
void met_add(struct met *met, int wd, const char *name);
bool met_take(struct met *met, int wd, const char *name);
void met_clear(struct met *met);

/* A folder that was moved away, and has not arrived yet. */
struct transit {
    uint32_t cookie; /* 0 = none */
    int wd;
    int64_t due_us;
};

/* Folders of which a walk and the kernel may say different things. */
struct doubts {
    int *wds; /* they came to their places since the kernel's queue was empty */
    size_t count, capacity;
    struct conflict *conflicts; /* newest first */
    size_t conflict_count;
    bool settling;
};

struct watcher {
    const struct path_root *root;
    struct instance *instance;
    struct inbox *inbox;
    int reader_fd; /* or -1 */
    char *base;    /* from the workspace on */
    char *only;    /* of a file: its name in the folder that is watched */
    bool recursive;
    struct glob *excluded;
    uint32_t mask;
    struct folders *folders;
    struct folder *top;
    unsigned round;
    struct pending *pending;
    struct buffer raw;             /* what the kernel said and is not looked at yet */
    const char *ahead, *ahead_end; /* of what is being looked at: the events that follow */
    struct buffer path;
    struct met met;
    struct doubts doubts;
    struct transit transits[WATCHER_TRANSITS];
    enum change_why lost; /* why something is to be found again; WHY_NONE = nothing is */
    bool ended;           /* nothing more is to be told */
    bool is_limited;      /* this walk has met the limit of watches */
};

/* doubt.c */
void doubt_place(struct watcher *w, const struct folder *folder);
/* A walk met the folder under another name than it is known by. */
void doubt_conflict(struct watcher *w, const struct folder *parent, const char *name, int wd);
/* It was not there any more; or it is, and the path to it is another one by now. */
void doubt_missing(struct watcher *w, const struct folder *parent, const char *name);
/* When the kernel's queue is empty. False: it is not any more, and the doubts stay. What is wrong is to be
 * found again (watcher.lost). */
bool doubts_settle(struct watcher *w);
void doubts_clear(struct doubts *doubts);

/* walk.c */
bool walk_is_there(struct watcher *w, const struct folder *folder); /* at its path, now */
/* Watches the folder of that name in parent, and all below where the watcher is recursive. told: what is in
 * it is news. err NULL: a folder that cannot be watched is told as an overflow; else only what is below one.
 */
int walk_folder(struct watcher *w, struct folder *parent, const char *name, bool told, struct error *err);
/* Everything once more, after changes were not seen. */
void walk_again(struct watcher *w);
/* The folders above what is watched: it is gone when one of them goes. */
int walk_above(struct watcher *w, struct error *err);

/* watcher.c */
bool watcher_excludes(const struct watcher *w, const char *path);
void watcher_fill(struct watcher *w); /* takes over what the kernel has queued; looks at nothing */

#endif
