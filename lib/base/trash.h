/* What is to be removed is moved out of sight first: into .trash of the directory that it lies in, which is
 * on the same file system whatever is mounted where. */
#ifndef BASE_TRASH_H
#define BASE_TRASH_H

#include "lib/base/error.h"

#define TRASH_NAME ".trash"

/* Moves directory/entry; a missing one is fine. name: what it is called there. */
int trash_put(const char *directory, const char *entry, const char *name, struct error *err);
/* Descriptor of a directory's trash, -1 with errno. */
int trash_open(const char *directory);

#endif
