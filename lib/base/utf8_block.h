/* Sixteen bytes of text looked at together. The compiler's portable vectors make SSE2 or NEON of it where
 * there is one and plain words elsewhere, so that there is no second version of the code. For utf8.c and
 * buffer.c. */
#ifndef BASE_UTF8_BLOCK_H
#define BASE_UTF8_BLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t utf8_block __attribute__((vector_size(16)));
typedef uint64_t utf8_halves __attribute__((vector_size(16)));
enum { UTF8_BLOCK = sizeof(utf8_block) };

static inline utf8_block utf8_block_load(const void *p)
{
    utf8_block bytes;
    memcpy(&bytes, p, sizeof(bytes));
    return bytes;
}

/* A mask: 0xFF for each byte that is not ASCII. */
static inline utf8_block utf8_block_not_ascii(utf8_block bytes)
{
    return (utf8_block)(bytes >= 0x80);
}

/* The same for each byte that is not ASCII or is escaped in a JSON string. */
static inline utf8_block utf8_block_not_raw(utf8_block bytes)
{
    utf8_block quotes = (utf8_block)(bytes == '"') | (utf8_block)(bytes == '\\');
    return (utf8_block)((int8_t __attribute__((vector_size(16))))bytes < 0x20) | quotes;
}

/* Index of the first byte set in a mask; UTF8_BLOCK where there is none. */
static inline size_t utf8_block_first(utf8_block mask)
{
    utf8_halves halves = (utf8_halves)mask;
    size_t base = halves[0] != 0 ? 0 : 8;
    uint64_t bits = halves[0] != 0 ? halves[0] : halves[1];
    if (bits == 0)
        return UTF8_BLOCK;
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return base + (size_t)__builtin_ctzll(bits) / 8;
    return base + (size_t)__builtin_clzll(bits) / 8;
}

/* Sum over a block of ASCII: control for each C0 control, less for those with a short form (\b \t \n \f \r),
 * quote for " and \. Each is small, so that the sum fits a byte. */
static inline size_t utf8_block_extra(utf8_block bytes, int control, int short_form, int quote)
{
    utf8_block quotes = (utf8_block)(bytes == '"') | (utf8_block)(bytes == '\\');
    utf8_block shorts = (utf8_block)(bytes - 8 <= 5) & (utf8_block)(bytes != 11);
    utf8_block controls = (utf8_block)(bytes < 0x20) & ~shorts;
    utf8_block extra =
        (quotes & (uint8_t)quote) | (shorts & (uint8_t)short_form) | (controls & (uint8_t)control);
    utf8_halves halves = (utf8_halves)extra;
    return (halves[0] + halves[1]) * 0x0101010101010101u >> 56;
}

#endif
