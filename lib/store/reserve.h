/* Room kept back on the disk for those commits that make room: removals must work on a full disk. For
 * lib/store alone. */
#ifndef STORE_RESERVE_H
#define STORE_RESERVE_H

#include <stdbool.h>

#define RESERVE_BYTES (4 << 20)
/* What must be free beside it before it is made: else it would fill the disk itself. */
#define RESERVE_ROOM (16 << 20)

/* Makes the file in the directory where it is missing and there is room; else nothing. */
void reserve_keep(const char *directory);
/* Gives the room back. False where there was none. */
bool reserve_release(const char *directory);

#endif
