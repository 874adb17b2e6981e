/* Which lines of two lists differ. */
#ifndef EDIT_COMPARE_H
#define EDIT_COMPARE_H

#include "lib/agent/edit/bytes.h"

/* old_count lines from old_line on gave way to new_count from new_line on; counted within the lists. */
struct line_change {
    size_t old_line, old_count, new_line, new_count;
};

struct line_changes {
    struct line_change *items; /* in order; between two of them there is a line that stayed */
    size_t count;
};

/* The fewest changes, where they are few: else the lists' common lines at both ends stay, and all between
 * them changed. */
void compare_lines(const struct bytes *old, size_t old_count, const struct bytes *new, size_t new_count,
                   struct line_changes *ret);
void line_changes_free(struct line_changes *changes);
#define _cleanup_line_changes_ __attribute__((cleanup(line_changes_free)))

#endif
