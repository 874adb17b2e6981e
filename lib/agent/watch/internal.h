/* What the files of a watcher share. watcher.c turns what the kernel says into changes; walk.c looks into
 * folders; doubt.c sees whether the two agree. */
#ifndef AGENT_WATCH_INTERNAL_H
#define AGENT_WATCH_INTERNAL_H

#include "lib/agent/watch/folders.h"
#include "lib/agent/watch/watcher.h"

#include <limits.h>

#define WATCHER_TRANSITS 32

/* Names in watched folders that a walk has met: who is told knows of them, or is about to look for himself,
 * and the kernel may be about to say how they came there, and what had these names before. */
struct met {
    uint64_t *slots;
    size_t count, capacity;
};
void met_add(struct met *met, int wd, const char *name);
bool met_has(const struct met *met, int wd, const char *name);
bool met_take(struct met *met, int wd, const char *name); /* it has it no more */
void met_clear(struct met *met);

/* A folder that was moved away, and has not arrived yet. */
struct transit {
    uint32_t cookie; /* 0 = none */
    int wd;
    int64_t due_us;
};

/* Two renames of which the second one undoes the first, as the kernel tells an exchange (RENAME_EXCHANGE). */
struct exchange {
    enum { EXCHANGE_NONE, EXCHANGE_FROM, EXCHANGE_TO, EXCHANGE_BACK } stage;
    uint32_t cookie;
    int from, to;    /* the folders' watches */
    bool is_tree[2]; /* what went from each: a folder that is followed */
    bool was_tree;   /* the second one had the name before the first one took it */
    char from_name[NAME_MAX + 1], to_name[NAME_MAX + 1];
};

/* Names of folders of which a walk and the kernel may say different things. */
struct doubts {
    struct doubt *newest;
    size_t count;
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
    struct exchange exchange;
    struct met left; /* names that were told to have gone elsewhere, and to nothing since */
    struct met met;
    struct doubts doubts;
    struct transit transits[WATCHER_TRANSITS];
    enum change_why lost; /* why something is to be found again; WHY_NONE = nothing is */
    bool ended;           /* nothing more is to be told */
    bool is_limited;      /* this walk has met the limit of watches */
    const char *was;      /* of a folder that this walk is in: its path before; or NULL */
    size_t is_length;     /* of its path now */
};

/* doubt.c */
/* A folder may have come to this name, or gone from it. parent NULL: nothing. */
void doubt_name(struct watcher *w, const struct folder *parent, const char *name);
/* A walk found none where there is to be one. */
void doubt_missed(struct watcher *w, const struct folder *parent, const char *name);
/* Something went from it, which was told; was_tree: a folder that is followed. */
void doubt_left(struct watcher *w, const struct folder *parent, const char *name, bool was_tree);
/* When the kernel's queue is empty. False: it is not any more, and doubts stay. What is wrong is to be found
 * again (watcher.lost). */
bool doubts_settle(struct watcher *w);
void doubts_clear(struct doubts *doubts);
int64_t doubts_due(const struct doubts *doubts); /* when they are to settle, whatever the kernel says */

/* walk.c */
/* Whether anything has the name now; -1: the path to it leads elsewhere. */
int walk_finds(struct watcher *w, const struct folder *parent, const char *name, bool *ret_is_folder);
/* The watch of the folder that is there now; -1: there is none, or it cannot be watched. */
int walk_look(struct watcher *w, const char *path);
/* Watches the folder of that name in parent, and all below where the watcher is recursive. told: what is in
 * it is news. err NULL: a folder that cannot be watched is told as an overflow; else only what is below one.
 */
int walk_folder(struct watcher *w, struct folder *parent, const char *name, bool told, struct error *err);
/* Everything once more, after changes were not seen. */
void walk_again(struct watcher *w);
/* After a folder that was told came to another path, from `was`: what the patterns excluded there is news,
 * and what they exclude here is gone. */
void walk_renamed(struct watcher *w, struct folder *folder, const char *was);
/* The folders above what is watched: it is gone when one of them goes. */
int walk_above(struct watcher *w, struct error *err);
bool walk_finds_top(struct watcher *w); /* at its path, now */

/* watcher.c */
bool watcher_excludes(const struct watcher *w, const char *path);
/* It was moved away, and has not arrived yet; or one above it was. */
bool watcher_moves(const struct watcher *w, int wd);
bool watcher_moves_above(const struct watcher *w, const struct folder *folder);
void watcher_fill(struct watcher *w); /* takes over what the kernel has queued; looks at nothing */

#endif
