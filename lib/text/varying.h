/* What varies among lines of one shape, and whether a reader misses it: a counter, a time or a size says
 * nothing that its neighbours do not; a price, a port, a loss or a status does. */
#ifndef TEXT_VARYING_H
#define TEXT_VARYING_H

#include <stdbool.h>
#include <stddef.h>

enum { VARYING_FIELDS = 24 /* numbers in a line; one with more is data */ };

struct varying_line {
    const char *data;
    size_t length;
    size_t place; /* among all lines */
    bool odd;     /* set: a number in it breaks the pattern of its column */
};

/* How much a reader misses where lines of one shape are left out. */
enum varying {
    VARYING_DULL,    /* nothing: their numbers count on, or are times, sizes and percentages */
    VARYING_TELLING, /* hashes, values that only rise or only fall: each is news, of many a few will do */
    VARYING_CONTENT, /* none of them may be left out */
};

/* Paths are not looked at. */
enum varying varying_of(struct varying_line *lines, size_t count);

#endif
