/* What a text has that is most like lines which it has not. */
#ifndef EDIT_NEAREST_H
#define EDIT_NEAREST_H

#include "lib/agent/edit/lines.h"

enum { NEAREST_MOST = 3 };

struct nearest {
    size_t first, last;   /* lines of the text, from 0 */
    size_t line;          /* the first of them that is not as wanted */
    size_t at;            /* where it begins */
    struct bytes content; /* of that line */
};

/* Best first; returns how many. Takes time linear in the text. */
size_t nearest_find(struct bytes text, struct bytes wanted, struct nearest ret[static NEAREST_MOST]);

#endif
