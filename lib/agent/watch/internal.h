/* What the files of a watcher share. watcher.c turns what the kernel says into changes; walk.c looks into
 * folders. */
#ifndef AGENT_WATCH_INTERNAL_H
#define AGENT_WATCH_INTERNAL_H

#include "lib/agent/watch/folders.h"
#include "lib/agent/watch/watcher.h"

#define WATCHER_TRANSITS 32

/* Paths that a walk has told to be there: the kernel may be about to say so too. */
struct met {
    uint64_t *slots;
    size_t count, capacity;
};
void met_add(struct met *met, const char *path);
bool met_take(struct met *met, const char *path);
void met_clear(struct met *met);

/* A folder that was moved away, and has not arrived yet. */
struct transit {
    uint32_t cookie; /* 0 = none */
    int wd;
    int64_t due_us;
};

struct watcher {
    const struct path_root *root;
    int fd;
    char *base; /* from the workspace on */
    char *only; /* of a file: its name in the folder that is watched */
    bool recursive;
    uint32_t mask;
    struct folders *folders;
    struct folder *top;
    unsigned round;
    struct pending *pending;
    struct buffer raw; /* what the kernel said and is not looked at yet */
    struct buffer path;
    struct met met;
    struct transit transits[WATCHER_TRANSITS];
    bool lost;       /* the kernel's queue was full */
    bool ended;      /* nothing more is to be told */
    bool is_limited; /* this walk has met the limit of watches */
};

/* walk.c */
/* Watches the folder of that name in parent, and all below where the watcher is recursive. told: what is in
 * it is news. err NULL: a folder that cannot be watched is told as an overflow; else only what is below one.
 */
int walk_folder(struct watcher *w, struct folder *parent, const char *name, bool told, struct error *err);
/* Everything once more, after changes were not seen. */
void walk_again(struct watcher *w);
/* The folders above what is watched: it is gone when one of them goes. */
int walk_above(struct watcher *w, struct error *err);

/* watcher.c */
void watcher_fill(struct watcher *w); /* takes over what the kernel has queued; looks at nothing */

#endif
