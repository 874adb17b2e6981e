/* RFC 4648 section 4, with padding; encoding is buffer_append_base64. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "lib/base/buffer.h"

#include <stdbool.h>

#define BASE64_NONE 0xFF
/* What a character stands for, 0-63; BASE64_NONE: none of the alphabet (so is the padding). */
unsigned char base64_value(char c);
bool base64_is_valid(const char *text, size_t length);
/* Appends the bytes; false (and nothing appended) where text is not valid. */
bool base64_decode(const char *text, size_t length, struct buffer *out);

#endif
