/* What the bytes of a file are: text, and in which form, or something else. */
#ifndef AGENT_FILES_CONTENT_H
#define AGENT_FILES_CONTENT_H

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/base/sha256.h"

#include <stddef.h>

#define CONTENT_LOOK 8192 /* bytes at the beginning that decide */

const char *content_image(const char *data, size_t length);  /* its media type; NULL: not one of the four */
const char *content_binary(const char *data, size_t length); /* in words, "UTF-16 text"; NULL: it is text */
size_t content_mark(const char *data, size_t length);        /* bytes of a UTF-8 byte order mark: 0 or 3 */
/* All that is left to read of fd, at most limit bytes (else ERROR_TOO_LARGE). */
int content_read(int fd, size_t limit, struct buffer *ret, struct error *err);
/* The hash of all that is left to read of fd; *ret_size (may be NULL) = how many bytes those were. */
int content_hash(int fd, char text[static SHA256_TEXT_SIZE], int64_t *ret_size, struct error *err);

#endif
