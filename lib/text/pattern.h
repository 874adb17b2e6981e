/* Small patterns for whole lines, matched in bounded time.
 *
 *   blank  one blank or more          #  a number, with . , : inside (12, 1.5, 10:30:00)
 *   *      anything, also nothing     ~  a run of one byte or more without blanks
 *   ^      a run of . s x X           !  the same with an F or E in it (results of tests)
 *                                     $  the same with an s, x or X in it
 *   every other byte stands for itself
 *
 * A * or ~ takes as little as it can; one that stands before another is not tried anew for the other's sake.
 */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

enum { PATTERN_LINE_MAX = 1024 }; /* a longer line matches nothing */

/* Leading and trailing blanks of the line count as nothing. */
bool pattern_matches(const char *pattern, const char *line, size_t length);

#endif
