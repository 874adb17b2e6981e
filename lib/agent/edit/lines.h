/* Lines of a text whose line ends are all '\n', and what counts as white space in them. */
#ifndef EDIT_LINES_H
#define EDIT_LINES_H

#include "lib/agent/edit/bytes.h"

#include <stdint.h>

/* How two lines may differ and still be the same. */
enum lines_grade {
    LINES_TRIMMED,  /* white space at both ends */
    LINES_SQUEEZED, /* and the length and kind of white space between words */
    LINES_GRADES
};

/* The line at *at (without its end), *at behind its end; false at the end of the text. An end begins no
 * further line: "a\n" has one, "" none. */
bool line_next(struct bytes text, size_t *at, struct bytes *ret);
/* Where the line begins that at lies in. */
size_t line_start(struct bytes text, size_t at);
size_t lines_count_ends(struct bytes text);
/* All lines of text; the caller frees. */
struct bytes *lines_split(struct bytes text, size_t *ret_count);

struct bytes line_trim(struct bytes line); /* what Python's str.strip() leaves, of UTF-8 */
struct bytes line_indent(struct bytes line);
bool line_is_blank(struct bytes line);
bool line_same(struct bytes a, struct bytes b, enum lines_grade grade);
uint64_t line_hash(struct bytes line, enum lines_grade grade); /* equal for lines that are the same */
/* The longest run without white space; empty where the line is blank. */
struct bytes line_longest_word(struct bytes line);

#endif
