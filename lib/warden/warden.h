/* One for each state directory (lock run/warden.lock): starts keepers (4 at a time, back-off 1-60 s for each
 * workspace), reaps them, writes `lost` for those that died, removes what is to go, prunes. Single thread,
 * never blocks long. Socket run/warden.sock, frames: REQUEST {"op": "start", "workspace_id"} -> {"ret":
 * {"record": ...}} REQUEST {"op": "create", "record": {...}, "idempotency": {...}?}     -> {"ret": {"record":
 * ...} | {"existing": {...}}} REQUEST {"op": "remove", "workspace_id"}                             -> {"ret":
 * {}}   (files, logs, record; ERROR_CONFLICT while a keeper lives) REQUEST {"op": "ping"} -> {"ret": {"pid":
 * n}} */
#ifndef WARDEN_WARDEN_H
#define WARDEN_WARDEN_H

#include "lib/config/config.h"

/* Until SIGTERM (keepers live on). 0 = ended in order or another warden holds the lock. program: path of this
 * executable, for `keep`. */
int warden_run(const struct config *config, const char *program);
/* Makes sure one runs: tries the socket, else double fork and `program warden --state DIR`. Does not wait for
 * it. */
int warden_ensure(const struct config *config, const char *program, struct error *err);
/* One piece of the warden's work in a process of its own (`warden --chore NAME [WS] --ready-fd N`), so that
 * what blocks or meets damaged data does neither to the warden: mend WS, remove WS, sweep, trash. Writes
 * {"ret": ...} or {"error": ...}; returns the exit status. */
int warden_chore(const struct config *config, const char *name, const char *workspace_id, int ready_fd);

#endif
