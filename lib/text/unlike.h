/* A word that nearly all lines have at the same place, and the few lines that have another one there: a mode,
 * an owner, a status behind a path. Bounded work for each byte. */
#ifndef TEXT_UNLIKE_H
#define TEXT_UNLIKE_H

#include "lib/text/varying.h"

enum { UNLIKE_PLACES = 16 }; /* words of a line that are looked at */

/* Sets odd. Lines of another number of words than most are no neighbours, and left alone. */
void unlike_mark(struct varying_line *lines, size_t count);

#endif
