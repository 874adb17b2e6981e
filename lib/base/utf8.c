/* Owns: what well-formed UTF-8 is (Unicode 15, table 3-7) and how large text becomes as a JSON string.
 * It must not know: buffers. Sixteen bytes are looked at together with the compiler's portable vectors, so
 * that ASCII goes at the speed of memory on every machine without a second version of the code. */
#include "lib/base/utf8.h"

#include <string.h>

typedef uint8_t block __attribute__((vector_size(16)));
enum { BLOCK = sizeof(block) };

/* For each lead byte: length of the character (0 = cannot lead), and the bounds of its second byte. */
struct lead {
    uint8_t length, low, high;
};
static const struct lead leads[256] = {
    [0x00 ... 0x7F] = { 1, 0, 0 }, [0xC2 ... 0xDF] = { 2, 0x80, 0xBF },
    [0xE0] = { 3, 0xA0, 0xBF },    [0xE1 ... 0xEC] = { 3, 0x80, 0xBF },
    [0xED] = { 3, 0x80, 0x9F },    [0xEE ... 0xEF] = { 3, 0x80, 0xBF },
    [0xF0] = { 4, 0x90, 0xBF },    [0xF1 ... 0xF3] = { 4, 0x80, 0xBF },
    [0xF4] = { 4, 0x80, 0x8F },
};

/* What an ASCII byte takes as the inside of a JSON string, and what that takes in a second one. */
static const uint8_t sizes[128] = {
    [0x00 ... 0x07] = 6, ['\b' ... '\n'] = 2, [0x0B] = 6,        ['\f' ... '\r'] = 2, [0x0E ... 0x1F] = 6,
    [' ' ... '!'] = 1,   ['"'] = 2,           ['#' ... '['] = 1, ['\\'] = 2,          [']' ... 0x7F] = 1,
};
static const uint8_t sizes_twice[128] = {
    [0x00 ... 0x07] = 7, ['\b' ... '\n'] = 3, [0x0B] = 7,        ['\f' ... '\r'] = 3, [0x0E ... 0x1F] = 7,
    [' ' ... '!'] = 1,   ['"'] = 4,           ['#' ... '['] = 1, ['\\'] = 4,          [']' ... 0x7F] = 1,
};
enum { REPLACEMENT_SIZE = 3 };

/* Length of the character at p, or 0 where it is ill-formed; *part is then the length of the maximal
 * ill-formed part. */
static inline size_t character(const uint8_t *p, size_t length, size_t *part)
{
    const struct lead *lead = &leads[p[0]];
    *part = 1;
    if (lead->length <= 1)
        return lead->length;
    if (length < 2 || p[1] < lead->low || p[1] > lead->high)
        return 0;
    for (size_t at = 2; at < lead->length; at++) {
        *part = at;
        if (at >= length || (p[at] & 0xC0) != 0x80)
            return 0;
    }
    return lead->length;
}

/* Index of the first byte that is not zero in a block that has one. */
static inline size_t first_set(const uint64_t half[2])
{
    size_t base = half[0] != 0 ? 0 : 8;
    uint64_t bits = half[base / 8];
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return base + (size_t)__builtin_ctzll(bits) / 8;
    return base + (size_t)__builtin_clzll(bits) / 8;
}

/* How many of the first BLOCK bytes are ASCII and, where json, stand raw in a JSON string. */
static inline size_t plain_in_block(const uint8_t *p, bool json)
{
    block bytes, stops;
    memcpy(&bytes, p, BLOCK);
    stops = (block)(bytes >= 0x80);
    if (json)
        stops |= (block)(bytes < 0x20) | (block)(bytes == '"') | (block)(bytes == '\\');
    uint64_t half[2];
    memcpy(half, &stops, BLOCK);
    return (half[0] | half[1]) == 0 ? BLOCK : first_set(half);
}

static inline size_t plain_run(const uint8_t *p, size_t length, bool json)
{
    size_t at = 0;
    while (length - at >= BLOCK) {
        size_t plain = plain_in_block(p + at, json);
        at += plain;
        if (plain < BLOCK)
            return at;
    }
    while (at < length && p[at] < 0x80 && (!json || sizes[p[at]] == 1))
        at++;
    return at;
}

/* Well-formed characters from the start; where json, up to the first that is escaped in a JSON string. */
static inline size_t run(const uint8_t *p, size_t length, bool json)
{
    size_t at = 0, part;
    for (;;) {
        at += plain_run(p + at, length - at, json);
        if (at == length || p[at] < 0x80)
            return at;
        while (at < length && p[at] >= 0x80) {
            size_t size = character(p + at, length - at, &part);
            if (size == 0)
                return at;
            at += size;
        }
    }
}

size_t utf8_valid_prefix(const char *data, size_t length)
{
    return run((const uint8_t *)data, length, false);
}

bool utf8_is_valid(const char *data, size_t length)
{
    return utf8_valid_prefix(data, length) == length;
}

size_t utf8_json_raw_prefix(const char *data, size_t length)
{
    return run((const uint8_t *)data, length, true);
}

size_t utf8_ill_formed_part(const char *data, size_t length)
{
    size_t part;
    if (length == 0 || character((const uint8_t *)data, length, &part) > 0)
        return 0;
    return part;
}

size_t utf8_incomplete_tail(const char *data, size_t length)
{
    const uint8_t *p = (const uint8_t *)data;
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const uint8_t *at = p + length - back;
        if ((*at & 0xC0) == 0x80)
            continue;
        size_t part;
        bool complete = leads[*at].length <= back || character(at, back, &part) > 0;
        return !complete && part == back ? back : 0;
    }
    return 0;
}

static size_t count_starts(const uint8_t *p, size_t length)
{
    size_t count = 0;
    for (size_t at = 0; at < length; at++)
        count += (p[at] & 0xC0) != 0x80;
    return count;
}

size_t utf8_count(const char *data, size_t length)
{
    size_t count = 0, at = 0;
    while (at < length) {
        size_t valid = utf8_valid_prefix(data + at, length - at);
        count += count_starts((const uint8_t *)data + at, valid);
        at += valid;
        size_t part = utf8_ill_formed_part(data + at, length - at);
        count += part;
        at += part;
    }
    return count;
}

static inline size_t json_size(const uint8_t *p, size_t length, const uint8_t escaped[static 128])
{
    size_t size = 0, at = 0, part;
    while (at < length) {
        size_t raw = run(p + at, length - at, true);
        size += raw;
        at += raw;
        for (; at < length && p[at] < 0x80 && sizes[p[at]] > 1; at++)
            size += escaped[p[at]];
        while (at < length && p[at] >= 0x80 && character(p + at, length - at, &part) == 0) {
            size += REPLACEMENT_SIZE;
            at += part;
        }
    }
    return size;
}

size_t utf8_json_size(const char *data, size_t length)
{
    return json_size((const uint8_t *)data, length, sizes);
}

size_t utf8_json_size_twice(const char *data, size_t length)
{
    return json_size((const uint8_t *)data, length, sizes_twice);
}
