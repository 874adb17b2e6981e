/* What a terminal would show of a command's output at its end: redraws folded, escape sequences gone.
 *
 * The terminal is FOLD_ROWS high and as wide as the caller says; each code point takes one column. A line
 * that went on in the next row, because it was full, is one line. What scrolls out at its top is final.
 * Clearing the whole screen, and the first absolute move, scroll what stands there out instead of losing it,
 * as terminals with a scroll-back do. What is drawn between saving the cursor with an absolute move and
 * restoring it is a status line: it is no part of the text. A row without any control byte is handed through
 * as it is, whatever its length; of others trailing blanks go. Bytes that are not UTF-8 stay.
 *
 * Memory: at most FOLD_ROWS * FOLD_COLUMNS cells of 4 bytes, and what is rescued of rows on the screen. */
#ifndef TEXT_FOLD_H
#define TEXT_FOLD_H

#include <stdbool.h>
#include <stddef.h>

enum { FOLD_ROWS = 128, FOLD_COLUMNS = 16384 };

struct fold_sink {
    void *context;
    /* A line of the result, without its end; it points into raw or is valid during the call. */
    void (*line)(void *context, const char *data, size_t length);
    /* Asked of a row's text before it is overwritten or erased: shall it stay, as a line before that row?
     * completed: the cursor had gone on to another row since. NULL = never. */
    bool (*rescue)(void *context, const char *data, size_t length, bool completed);
};

/* columns: of the terminal that was written to, 0 = not known, or none: then FOLD_COLUMNS. */
void fold(const char *raw, size_t length, size_t columns, const struct fold_sink *sink);

#endif
