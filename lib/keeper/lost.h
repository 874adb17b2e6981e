/* Final events for execs whose keeper or sandbox is gone. For the keeper that comes after, and for the
 * warden. */
#ifndef KEEPER_LOST_H
#define KEEPER_LOST_H

#include "lib/store/events.h"

#define LOST_KEEPER "the gateway's process for this workspace died"

/* Each exec of the environment without a final event gets error and exit; its state becomes failed, its
 * reason "lost: " why; each watch that lives, the same state and reason. Returns how many, or -1. The writer
 * is the caller's, under the workspace's lock. */
long lost_finish(struct events_writer *w, const char *workspace_id, const char *why, struct error *err);
/* Appends error and exit (returncode null) to one exec; head is changed. Inside a batch. */
int lost_append(struct events_writer *w, struct exec_head *head, const char *text, int64_t wall_us,
                struct error *err);

#endif
