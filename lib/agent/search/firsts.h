/* The first so many of names that come in any order, as their order is that of paths. Pure. */
#ifndef SEARCH_FIRSTS_H
#define SEARCH_FIRSTS_H

#include "lib/base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

struct firsts;
struct firsts *firsts_new(size_t most);
void firsts_free(struct firsts *firsts);
void firsts_add(struct firsts *firsts, const char *name);
/* NUL-ended, one behind the other; true: there were more. It is as new then. */
bool firsts_take(struct firsts *firsts, struct buffer *ret);

#endif
