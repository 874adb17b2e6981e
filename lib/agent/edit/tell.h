/* The words for edits that cannot be made. Line numbers are those of the original: nothing was written. */
#ifndef EDIT_TELL_H
#define EDIT_TELL_H

#include "lib/agent/edit/changes.h"
#include "lib/agent/edit/find.h"
#include "lib/base/error.h"

/* One edit, and how far the file has come. */
struct tell {
    size_t index; /* of the edit, from 0 */
    struct bytes old;
    const struct view *now, *original;
    const struct changes *changes;
};

/* Each is -1. */
int tell_not_found(const struct tell *tell, struct error *err);
int tell_too_many(const struct tell *tell, const struct matches *matches, bool is_exact, struct error *err);
int tell_no_such_occurrence(const struct tell *tell, const struct matches *matches, size_t wanted,
                            struct error *err);

#endif
