/* What a log may show of an operation's arguments. */
#ifndef SCHEMA_SHOWN_H
#define SCHEMA_SHOWN_H

#include "lib/base/buffer.h"
#include "lib/schema/field.h"

/* Appends in, an object that need not have been checked, as JSON of about room bytes at most (room >= 256):
 * members that have a row, in the rows' order, but for defaults, nulls and those named in without (NULL-ended
 * or NULL). Strings as audit_append_shown cuts them; secret ones as "(secret)", content as "(N bytes)". How
 * many were left out stands under "...". */
void field_show(const struct field *rows, const char *const *without, const json_t *in, size_t room,
                struct buffer *out);

#endif
