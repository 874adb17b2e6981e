/* Condenses what a command wrote for a reader who pays for each token.
 *
 * Redraws are folded and escape sequences removed (fold.h); passing tests, progress, install and build steps,
 * and lines that differ from their neighbours in counters, times or sizes alone (varying.h) give way to one
 * line that counts them, all but those that break the pattern of the others (series.h); so does the middle of
 * a long answer: of names, paths, ids and values, which stay whole while they are short. Whatever tells of a
 * failure stays byte by byte with what belongs to it, and so does any line whose shape is rare in this
 * output; what is recognised stands in rows.c. The last line says what was condensed.
 *
 * Pure: the same bytes give the same result. Memory: 20 MiB at most besides the result, however long the
 * input is. */
#ifndef TEXT_CONDENSE_H
#define TEXT_CONDENSE_H

#include "lib/base/buffer.h"

#include <stdbool.h>

#define CONDENSE_MAX ((size_t)64 << 20) /* what is longer is left unchanged */

struct condensed {
    struct buffer text;               /* empty where unchanged */
    bool unchanged;                   /* condensed it would not be shorter: show the raw bytes */
    size_t lines_before, lines_after; /* the last line that we add is not counted */
};

/* Binary output is left unchanged. columns: of the command's terminal, 0 = it wrote to a pipe. how says in a
 * few words where the raw bytes are to be had ("read events of ex-1"). The result is shorter than the raw
 * bytes, or unchanged. */
void condense(const char *raw, size_t length, size_t columns, const char *how, struct condensed *ret);
void condensed_free(struct condensed *c);
#define _cleanup_condensed_ __attribute__((cleanup(condensed_free)))

#endif
