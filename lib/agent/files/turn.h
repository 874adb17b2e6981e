/* Turns of the calls at one name: between looking at what a name stands for and changing it, no other call
 * changes it. Commands are not bound by it. A turn belongs to the process that took it and ends with it at
 * the latest (fcntl(2), record locks). */
#ifndef AGENT_FILES_TURN_H
#define AGENT_FILES_TURN_H

#include "lib/agent/files/path.h"

/* What all calls of one agent share; nobody else must have it, or he could hold a turn for ever. */
int turns_open(void);

/* Waits some seconds at most, then ERROR_UNAVAILABLE. Taking what one has already is fine. The place's folder
 * must exist. */
int turn_take(int turns, const struct place *place, const char *path, struct error *err);
int turn_take_both(int turns, const struct place *a, const struct place *b, const char *path,
                   struct error *err);
void turn_end(int turns); /* all that this process has */

#endif
