/* Line ends counted as fast as memory is read, in whatever bytes. */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stddef.h>

size_t lines_count(const char *data, size_t length); /* how many '\n' */

#endif
