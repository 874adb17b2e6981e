/* What the suites on editing bytes share: literals with their lengths, an edit tried, and what its spans
 * promise. */
#ifndef TESTS_EDIT_CASE_H
#define TESTS_EDIT_CASE_H

#include "lib/agent/edit/edit.h"

#define B(text)                                                                                              \
    {                                                                                                        \
        (text), sizeof(text) - 1                                                                             \
    }

enum { EDITS = 3 }; /* of one call, at most, where a suite makes up its own */

/* edit_apply with a limit that no test comes near. */
int edit_try(struct bytes file, const struct edit *edits, size_t count, struct edit_result *ret,
             struct error *err);

/* Outside of the spans both are the same, and what lies between them is in order. */
void edit_check_spans(struct bytes file, const struct edit_result *result);

#endif
