/* Values for the fields of operations, drawn from their rows: right ones, and every kind of wrong one. The
 * same seed gives the same values. All are JSON text, since some wrong values are no JSON. */
#ifndef TESTS_FUZZ_VALUES_H
#define TESTS_FUZZ_VALUES_H

#include "lib/base/buffer.h"
#include "lib/schema/field.h"

struct dice {
    uint64_t state; /* not 0 */
};
unsigned dice_roll(struct dice *d, unsigned sides); /* 0 .. sides - 1 */
bool dice_one_in(struct dice *d, unsigned sides);

/* What the row takes, bounds and defaults preferred. */
void value_append_right(struct dice *d, const struct field *row, struct buffer *out);
/* What it most likely does not: beyond a bound, another type, huge, nested, odd text, NUL, no JSON at all.
 * row may be NULL. */
void value_append_wrong(struct dice *d, const struct field *row, struct buffer *out);
/* The value as a query has it: a string's text, else the JSON; percent-encoded, sometimes badly. */
void value_append_query(struct dice *d, const char *json, size_t length, struct buffer *out);

#endif
