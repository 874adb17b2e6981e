/* RFC 4648 section 4, with padding; encoding is buffer_append_base64. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "lib/base/buffer.h"

#include <stdbool.h>

bool base64_is_valid(const char *text, size_t length);
/* Appends the bytes; false (and nothing appended) where text is not valid. */
bool base64_decode(const char *text, size_t length, struct buffer *out);

#endif
