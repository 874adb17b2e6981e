/* One for each state directory (lock run/warden.lock): starts keepers (4 at a time, back-off 1-60 s for each
 * workspace), reaps them, writes `lost` for those that died, removes what is to go, prunes. Single thread,
 * never blocks long. A keeper that greets nobody for half a minute is ended. Socket run/warden.sock, frames:
 *   REQUEST {"op": "start", "workspace_id"} -> {"ret": {"record": ...}}
 *   REQUEST {"op": "create", "record": {...}, "idempotency": {...}?}
 *     -> {"ret": {"record": ...} | {"existing": {...}}}; what nobody waits for any more and has no
 *        idempotency is removed again. idempotency is {"principal", "key", "digest"}, or {"by_name": true}:
 *        the record's owner and name are the key, and who asks while it is being made waits for that one
 *   REQUEST {"op": "remove", "workspace_id", "force": true?, "unwanted": true?} -> {"ret": {}}: files, logs,
 *     record; ERROR_CONFLICT while a keeper lives, which force ends; unwanted: there is nothing wrong with it
 *   REQUEST {"op": "ping"} -> {"ret": {"pid": n}} */
#ifndef WARDEN_WARDEN_H
#define WARDEN_WARDEN_H

#include "lib/config/config.h"

#include <sys/types.h>

enum warden_flag {
    WARDEN_SPARE =
        1, /* started beside other work, with the settings of that moment: gives way to a fresh one */
    WARDEN_FRESH = 2, /* takes the place of a spare one, and of one without root's rights where it has them */
    WARDEN_WAITS = 4, /* waits for the end of another one instead of ending itself */
    WARDEN_OWN_LOG = 8, /* warden_ensure: it writes to run/warden.log in any case */
    WARDEN_EQUAL = 16,  /* asked for: where this process has root's rights, one that has them too */
};
/* Until SIGTERM (keepers live on). 0 = ended in order or another warden stays. program: path of this
 * executable, for `keep`. One that is to give way to these flags is ended first. */
int warden_run(const struct config *config, const char *program, unsigned flags);

struct warden_seen {
    pid_t pid; /* as the kernel tells of who listens; 0 = not visible from here */
    uid_t uid;
    bool spare;
};
/* Who listens on the socket; false = nobody. */
bool warden_look(const struct config *config, struct warden_seen *ret);
/* Whether that one ends for one of this process with these flags. */
bool warden_gives_way(const struct warden_seen *seen, unsigned flags);
/* Makes sure one runs that need not give way: 0 = it does, 1 = one was started (double fork and `program
 * warden
 * --state DIR`), which may not answer yet. Never waits. It does not get this process's stderr where somebody
 * may read that to its end. */
int warden_ensure(const struct config *config, const char *program, unsigned flags, struct error *err);
/* The file that such a one writes its messages to; NULL = this process's stderr. Caller frees. */
char *warden_log(const struct config *config, unsigned flags);
/* Waits until such a one answers; false = not within timeout_ms. */
bool warden_await(const struct config *config, unsigned flags, int timeout_ms, struct warden_seen *ret);

/* One piece of the warden's work in a process of its own (`warden --chore NAME [WS] --ready-fd N`), so that
 * what blocks or meets damaged data does neither to the warden: mend WS, remove WS, sweep, trash. Writes
 * {"ret": ...} or {"error": ...}; returns the exit status. */
int warden_chore(const struct config *config, const char *name, const char *workspace_id, int ready_fd);

#endif
