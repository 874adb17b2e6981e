/* A growing run of bytes. Zero-initialise with BUFFER_INIT; data is not NUL-terminated unless
 * buffer_text() is called. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "lib/base/memory.h"

#include <stdint.h>

struct buffer {
    char *data;
    size_t length, capacity;
};
#define BUFFER_INIT                                                                                          \
    {                                                                                                        \
        NULL, 0, 0                                                                                           \
    }
#define _cleanup_buffer_ __attribute__((cleanup(buffer_free)))

void buffer_free(struct buffer *b); /* releases and resets to empty */
/* Room for at least extra more bytes; returns where they go (length is not changed). */
char *buffer_reserve(struct buffer *b, size_t extra);
void buffer_append(struct buffer *b, const void *data, size_t length);
void buffer_append_text(struct buffer *b, const char *text);
void buffer_append_char(struct buffer *b, char c);
void buffer_append_u64(struct buffer *b, uint64_t value); /* decimal */
void buffer_append_i64(struct buffer *b, int64_t value);
void buffer_printf(struct buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);
/* Drops the first count bytes. */
void buffer_consume(struct buffer *b, size_t count);
/* NUL-terminates (not counted) and returns data; never NULL. */
const char *buffer_text(struct buffer *b);
/* Appends the inside of a JSON string (RFC 8259, section 7), without the quotes. Bytes that are not UTF-8
 * become U+FFFD (one for each maximal ill-formed sequence); " \ and C0 controls are escaped, all else is raw.
 */
void buffer_append_json(struct buffer *b, const char *data, size_t length);
/* Appends data as it is, but for what is not UTF-8, which becomes U+FFFD as above. */
void buffer_append_utf8(struct buffer *b, const char *data, size_t length);
/* Appends data for a reader of plain text, on one line and so that no two look the same: what utf8_acts() is
 * \x1b or \u202e or \U000e0041, a byte that is not UTF-8 \xff, a backslash \\. */
void buffer_append_shown(struct buffer *b, const char *data, size_t length);
/* The same for a text that may have lines: their ends, tabs and backslashes stay. */
void buffer_append_shown_text(struct buffer *b, const char *data, size_t length);
/* Appends the words of text as lines of at most width bytes, where a word is not longer; the first line
 * begins with first, the others with rest. No words: nothing. */
void buffer_append_wrapped(struct buffer *b, const char *first, const char *rest, const char *text,
                           size_t width);
/* RFC 4648 section 4, with padding. */
void buffer_append_base64(struct buffer *b, const void *data, size_t length);

#endif
