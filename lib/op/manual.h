/* What a terminal shows of one operation. */
#ifndef OP_MANUAL_H
#define OP_MANUAL_H

#include "lib/op/op.h"

/* Appends what it does, its parameters with their types, bounds and defaults, and a line to try: command
 * ("ls" in "usage: ls FILE") and the parameters. */
void manual_append(struct buffer *out, const struct op *op, const char *command);
/* Its parameters as one JSON object, to be tried. Caller frees. */
char *manual_example(const struct op *op);

#endif
