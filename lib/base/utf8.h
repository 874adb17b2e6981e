/* UTF-8 (RFC 3629) on hostile bytes. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the longest well-formed prefix; equal to length when all is valid. ASCII runs go at memory speed.
 */
size_t utf8_valid_prefix(const char *data, size_t length);
bool utf8_is_valid(const char *data, size_t length);
/* Bytes at the end that begin a character which is not complete (0-3), when all before them may be anything.
 */
size_t utf8_incomplete_tail(const char *data, size_t length);
/* Length of the longest prefix that is well-formed and stands unescaped in a JSON string. */
size_t utf8_json_raw_prefix(const char *data, size_t length);
/* Length of the maximal ill-formed part that data begins with (what one U+FFFD stands for); 0 where it begins
 * well. */
size_t utf8_ill_formed_part(const char *data, size_t length);
/* The character that data begins with; its length, 0 where it begins with none. */
size_t utf8_character(const char *data, size_t length, uint32_t *ret);
/* What a terminal, an editor or a model acts on instead of showing it: controls (C0, DEL, C1), ends of lines
 * and paragraphs, directions, what is not seen at all. Not the joiners, with which scripts are written. */
bool utf8_acts(uint32_t code);
/* Code points, counting each byte of an ill-formed sequence as one. */
size_t utf8_count(const char *data, size_t length);
/* Size of data as the inside of a JSON string made by buffer_append_json; twice = that text escaped once more
 * (as where JSON stands as a string in JSON). */
size_t utf8_json_size(const char *data, size_t length);
size_t utf8_json_size_twice(const char *data, size_t length);

#endif
