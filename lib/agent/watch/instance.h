/* One inotify instance for all watchers of a process: the system gives a user few of them. Each watcher has
 * an inbox in it, and finds there what an instance of its own would have told: only of folders that it
 * watches and only events that it asked for, under numbers of its own that are never used anew, and
 * IN_Q_OVERFLOW where some are missing. Folders that several watch are one watch of the kernel's. All may be
 * called by any thread; an inbox is one thread's. inotify(7). */
#ifndef AGENT_WATCH_INSTANCE_H
#define AGENT_WATCH_INSTANCE_H

#include "lib/base/buffer.h"
#include "lib/base/error.h"

#define INBOX_MOST (1u << 20) /* bytes of events that wait in one */

struct instance;
/* ERROR_TOO_MANY: the system's user has no more of them. */
struct instance *instance_open(struct error *err);
void instance_free(struct instance *i);    /* after all of its inboxes */
int instance_fd(const struct instance *i); /* readable: instance_read */
/* Parts what the kernel has queued until now among the inboxes. */
void instance_read(struct instance *i);

struct inbox;
struct inbox *inbox_open(struct instance *i, struct error *err);
void inbox_free(struct inbox *inbox);    /* with all that it watches; NULL is fine */
int inbox_fd(const struct inbox *inbox); /* readable: inbox_take */
/* Watches the folder that is open for mask: its number, the same as long as the inbox watches it, or -1 =
 * errno. What happened before is not told. home: an open folder, the current one of the process afterwards.
 */
int inbox_watch(struct inbox *inbox, int folder, int home, uint32_t mask);
void inbox_unwatch(struct inbox *inbox, int number); /* nothing where the kernel has given it up */
/* Appends what is in it, after instance_read: whole events of inotify(7). */
void inbox_take(struct inbox *inbox, struct buffer *ret);

#endif
