/* What is shown of a line that is too long: a piece around what matched. Pure. */
#ifndef SEARCH_CLIP_H
#define SEARCH_CLIP_H

#include "lib/base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define CLIP_BYTES 500 /* of a line, at most */

/* Which bytes of a line of this length are shown; start and end of the match, 0 and 0 where there is none. */
void clip_choose(uint64_t length, uint64_t start, uint64_t end, uint64_t *ret_from, uint64_t *ret_length);
/* Leaves out halves of characters at the ends of a piece that was cut there. */
void clip_to_characters(const char **data, size_t *length, bool cut_before, bool cut_after);
/* The piece, what was cut said around it; bytes that are not UTF-8 are shown as U+FFFD. */
void clip_show(struct buffer *out, const char *data, size_t length, uint64_t before, uint64_t after);

#endif
