/* The unified diff of what an edit did. */
#ifndef EDIT_DIFF_H
#define EDIT_DIFF_H

#include "lib/agent/edit/changes.h"

/* Appends "--- a/PATH", "+++ b/PATH" and hunks with three lines of context, which `patch -p1` turns old into
 * new with, byte for byte; nothing where both are equal. spans are offsets of bytes, as edit_apply() tells
 * them: lines outside of them are not looked at. At most about limit bytes: then a last line says what is
 * left out, and it is no patch any more. Lines are what '\n' ends; they need not be UTF-8. */
void diff_append(struct bytes old, struct bytes new, const struct edit_span *spans, size_t count,
                 const char *path, size_t limit, struct buffer *ret);

#endif
