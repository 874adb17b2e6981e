/* What varies among lines of one shape, and whether a reader misses it: a counter, a time, a size or a hash
 * says nothing that its neighbours do not; a price, a port or a status does. */
#ifndef TEXT_VARYING_H
#define TEXT_VARYING_H

#include <stdbool.h>
#include <stddef.h>

enum { VARYING_FIELDS = 24 /* numbers in a line; one with more is data */ };

struct varying_line {
    const char *data;
    size_t length;
    bool odd; /* set: a number in it is none of its neighbours', though nearly all of them have the same */
};

/* false: some number in the lines is content, so none of them may be left out. Paths are not looked at. */
bool varying_is_dull(struct varying_line *lines, size_t count);

#endif
