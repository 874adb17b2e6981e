/* What the suites on condensing share: numbers that are the same everywhere, lines made of them, and
 * condensed text, which is never longer than it was. */
#ifndef TESTS_TEXT_CASE_H
#define TESTS_TEXT_CASE_H

#include "lib/base/buffer.h"
#include "lib/text/condense.h"

#define TEXT_HOW "exec_id ex-1" /* how to get the raw output */

uint64_t text_draw(uint64_t *state); /* state: not 0 */
/* A text with a number where it says @. */
void text_add_numbered(struct buffer *out, const char *text, uint64_t number);
/* The text, until condensed_free; "" where c says unchanged. */
const char *text_condense(const struct buffer *raw, struct condensed *c);
const char *text_condense_wide(const struct buffer *raw, size_t columns, struct condensed *c);

#endif
