/* Where a text stands in another: exactly, or by whole lines that are the same but for white space. */
#ifndef EDIT_FIND_H
#define EDIT_FIND_H

#include "lib/agent/edit/lines.h"

struct match {
    size_t at, length;
};

struct matches {
    struct match *items; /* from the left, none overlapping another */
    size_t count, capacity;
    bool overlap; /* there are more, which overlap these */
};
#define MATCHES_INIT                                                                                         \
    {                                                                                                        \
        NULL, 0, 0, false                                                                                    \
    }
#define _cleanup_matches_ __attribute__((cleanup(matches_free)))

void matches_free(struct matches *matches);
void matches_add(struct matches *matches, size_t at, size_t length); /* in order of at */

/* wanted is not empty. */
void find_exact(struct bytes text, struct bytes wanted, struct matches *ret);
/* A match is whole lines, without the end of the last. Nothing matches lines that are all blank. */
void find_lines(struct bytes text, struct bytes wanted, enum lines_grade grade, struct matches *ret);

#endif
