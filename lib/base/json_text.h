/* JSON text (RFC 8259) from jansson's values and back, where whole files stand in it: jansson looks at each
 * byte of a string several times, so that 100 KB take it 1.5 ms. Long strings are read and written here, at
 * memory's speed; all else stays its business. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include "lib/base/buffer.h"

#include <jansson.h>
#include <stdbool.h>

/* As json_loadb(3): what is taken, what comes out, what *problem (may be NULL) says of a text that is refused
 * (NULL); the caller owns the value. Not with JSON_DISABLE_EOF_CHECK: where a value ended is not told. */
json_t *json_text_read(const char *text, size_t length, size_t flags, json_error_t *problem);
/* The same, with strings of at least so many bytes, as they stand in the text, counting as long. */
json_t *json_text_read_long(const char *text, size_t length, size_t flags, size_t least,
                            json_error_t *problem);
/* Appends value without blanks. A value that holds itself, or that is nested more than 2048 deep (as no text
 * can be that jansson reads), is refused: false, and *out is as it was. */
bool json_text_append(struct buffer *out, const json_t *value);
/* From behind the opening quote of a string to behind the closing one; end where it is not closed. */
const char *json_text_string_end(const char *at, const char *end);

#endif
