/* The things of the installation that are no process: its disk, its clock, its sockets. */
#ifndef CHAOS_WRECK_H
#define CHAOS_WRECK_H

#include "tests/chaos/prey.h"

/* A small file system for the state directory where the test is root; else a folder (disk_fill then does
 * nothing). */
char *disk_make(const char *owner);
bool disk_is_small(void);
void disk_fill(void);
void disk_empty(void);
void disk_remove(void);

/* The wall clock of the installation's processes, by a library that they load: clock.c. */
const char *clock_make(char *preload, char *file,
                       size_t size); /* both "NAME=VALUE"; NULL = fine, else why not */
void clock_shift(int64_t us);        /* from now on, in all */
void clock_remove(void);

/* Garbage, by a connection or into a sandbox's channel. Each returns what it did, for the log. */
const char *garbage_to_socket(const struct instance *i, const char *leaf, uint64_t *random);
const char *garbage_to_channel(const struct prey *agent, uint64_t *random);
void garbage_close(void); /* the connections that were left open */

#endif
