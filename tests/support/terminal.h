/* A small terminal, written the slow way: what fold.c is compared with. */
#ifndef TESTS_TERMINAL_H
#define TESTS_TERMINAL_H

#include "lib/base/buffer.h"

/* The rows at the end, without trailing blanks and trailing empty rows. Knows printing ASCII, tab, CR, LF,
 * BS, CSI A-G, J (0, 1), K, P, @, X, s, u and m, titles; at most TERMINAL_ROWS rows of columns (0 =
 * TERMINAL_COLUMNS). A row that went on in the next is one line with it. */
enum { TERMINAL_ROWS = 128, TERMINAL_COLUMNS = 600 };
void terminal_show(const char *data, size_t length, size_t columns, struct buffer *out);

#endif
