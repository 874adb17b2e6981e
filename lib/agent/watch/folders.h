/* The folders that are watched, as a tree: each knows its watch's number and its name in the folder above it,
 * so that renaming one changes the paths of all below. */
#ifndef AGENT_WATCH_FOLDERS_H
#define AGENT_WATCH_FOLDERS_H

#include "lib/agent/watch/instance.h"

#include <stdbool.h>
#include <sys/queue.h>

struct folder {
    struct folder *parent; /* NULL: name is its path */
    LIST_HEAD(, folder) children;
    LIST_ENTRY(folder) in_parent;
    int wd;
    unsigned round; /* of the walk that met it last */
    bool untold;    /* what is in it may not have been told, or under another path that was told to be gone */
    const char *leads; /* not part of the tree, but above: only this name in it matters; owned */
    char *name;
};

struct folders;
struct folders *folders_new(struct inbox *inbox);
void folders_free(struct folders *f); /* the inbox is the caller's */

struct folder *folders_find(const struct folders *f, int wd);
struct folder *folders_child(const struct folders *f, const struct folder *parent, const char *name);
/* The one that has this watch, made where there is none, is in that place from now on. */
struct folder *folders_put(struct folders *f, struct folder *parent, const char *name, int wd);
/* Nothing where it would lie in itself: what the kernel said and what is there now are two things. */
void folders_move(struct folders *f, struct folder *folder, struct folder *parent, const char *name);
/* With all below; the kernel is told, but of one that it has given up itself. */
void folders_drop(struct folders *f, struct folder *folder, bool is_given_up);
/* Those below folder that a walk of this round has not met. */
void folders_sweep(struct folders *f, struct folder *folder, unsigned round);
bool folders_is_below(const struct folder *folder, const struct folder *other); /* or the same */
/* From the workspace on. "." and a name are the name. */
void folders_path(const struct folder *folder, const char *name, struct buffer *ret);

#endif
