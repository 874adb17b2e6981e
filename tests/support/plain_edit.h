/* Edits made the slow and obvious way, to compare with. */
#ifndef TESTS_PLAIN_EDIT_H
#define TESTS_PLAIN_EDIT_H

#include "lib/agent/edit/edit.h"

enum plain_outcome {
    PLAIN_DONE,
    PLAIN_REFUSED,
    PLAIN_FUZZY, /* an edit matches but for white space: the text before it is told, and not compared */
};

/* ret: the text after all edits, or before the fuzzy one. */
enum plain_outcome plain_edit(struct bytes file, const struct edit *edits, size_t count, struct buffer *ret);
/* White space at both ends gone; squeezed: and each run within one blank. */
void plain_strip(struct bytes line, bool squeezed, struct buffer *ret);

#endif
