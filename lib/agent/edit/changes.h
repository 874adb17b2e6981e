/* Which parts of an original became which parts of the present text, over any number of rounds of splices. */
#ifndef EDIT_CHANGES_H
#define EDIT_CHANGES_H

#include "lib/agent/edit/view.h"

/* What lay at old_at now lies at new_at; all else is as it was. */
struct edit_span {
    size_t old_at, old_length, new_at, new_length;
};

struct changes {
    struct edit_span *spans; /* sorted, apart from each other */
    size_t count;
};
#define CHANGES_INIT                                                                                         \
    {                                                                                                        \
        NULL, 0                                                                                              \
    }
#define _cleanup_changes_ __attribute__((cleanup(changes_free)))

void changes_free(struct changes *changes);
/* After a round of splices of the present text. Spans with few unchanged bytes between become one. */
void changes_add(struct changes *changes, const struct view_splice *splices, size_t count);
/* Where that place of the present text was in the original. */
size_t changes_origin(const struct changes *changes, size_t at);

#endif
