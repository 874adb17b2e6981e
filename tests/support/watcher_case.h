/* What the suites on a watch of real folders share: a folder, the current one of the process, an instance,
 * and a watcher. */
#ifndef TESTS_WATCHER_CASE_H
#define TESTS_WATCHER_CASE_H

#include "lib/agent/watch/watcher.h"

enum { NAMES = 1 << CHANGE_CREATE | 1 << CHANGE_REMOVE, USUAL = NAMES | 1 << CHANGE_MODIFY };

/* Of the running test. */
extern struct path_root root;
extern struct instance *instance;
extern struct watcher *w; /* NULL before watch */
extern struct glob *excluded;
void watcher_set_up(void);
void watcher_tear_down(void);

void watch(const char *path, unsigned types); /* w, with all below */
struct watcher *try_to_watch(const char *path, bool recursive, unsigned types, struct error *err);

/* Others of the instance, a few, that watch the same folders: one of them looks, ends or begins. They hold
 * what they have not looked at. */
void others_come_and_go(unsigned *seed);

#endif
