/* One watch: inotify over a folder and all below it (or one file), from a path in the workspace to changes
 * that are to be told. It runs in a thread of its own and may block there for a disk, never for a reader.
 * inotify(7). */
#ifndef AGENT_WATCH_WATCHER_H
#define AGENT_WATCH_WATCHER_H

#include "lib/agent/files/path.h"
#include "lib/agent/search/glob.h"
#include "lib/agent/watch/instance.h"
#include "lib/agent/watch/pending.h"

struct watcher;
struct watcher_options {
    const struct path_root *root; /* lives as long as the watcher */
    const char *path;             /* as the client said it */
    bool recursive;
    unsigned types;            /* 1 << change_type */
    struct glob *excluded;     /* GLOB_EXCLUDE, as if it were not there; lives as long as the watcher */
    struct instance *instance; /* lives longer than the watcher */
    int reader_fd; /* a pipe's writing end: a walk ends where nobody has the other one any more; or -1 */
};
/* Everything below is watched when it returns. ERROR_NOT_FOUND, ERROR_INVALID of the path; ERROR_TOO_MANY:
 * the system has no more watches. */
struct watcher *watcher_open(const struct watcher_options *options, struct error *err);
void watcher_free(struct watcher *w);
int watcher_fd(const struct watcher *w);           /* readable: watcher_read */
const char *watcher_path(const struct watcher *w); /* from the workspace on, links followed */
/* Takes what the kernel has, for all watchers of the instance. False: there is more, to be taken when what is
 * pending was told. */
bool watcher_read(struct watcher *w);
struct pending *watcher_pending(struct watcher *w);
/* When watcher_read is to be called also without anything to read; INT64_MAX = never. */
int64_t watcher_due(const struct watcher *w);

#endif
