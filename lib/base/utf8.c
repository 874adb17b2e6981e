/* Owns: what well-formed UTF-8 is (Unicode 15, table 3-7) and how large text becomes as a JSON string.
 * It must not know: buffers. Runs of ASCII go by whole blocks (utf8_block.h), at the speed of memory. */
#include "lib/base/utf8.h"

#include "lib/base/utf8_block.h"

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
    *part = 2;
    if (lead->length == 2)
        return 2;
    if (length < 3 || (p[2] & 0xC0) != 0x80)
        return 0;
    *part = 3;
    if (lead->length == 3)
        return 3;
    return length >= 4 && (p[3] & 0xC0) == 0x80 ? 4 : 0;
}

static inline size_t plain_run(const uint8_t *p, size_t length, bool json)
{
    size_t at = 0;
    while (length - at >= UTF8_BLOCK) {
        utf8_block bytes = utf8_block_load(p + at);
        size_t plain = utf8_block_first(json ? utf8_block_not_raw(bytes) : utf8_block_not_ascii(bytes));
        at += plain;
        if (plain < UTF8_BLOCK)
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

size_t utf8_character(const char *data, size_t length, uint32_t *ret)
{
    static const uint8_t masks[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
    const uint8_t *p = (const uint8_t *)data;
    size_t part, size = length > 0 ? character(p, length, &part) : 0;
    if (size == 0)
        return 0;
    *ret = p[0] & masks[size];
    for (size_t i = 1; i < size; i++)
        *ret = *ret << 6 | (p[i] & 0x3F);
    return size;
}

bool utf8_acts(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0, 0x1F },        { 0x7F, 0x9F },     { 0x61C, 0x61C },   { 0x200B, 0x200B },   { 0x200E, 0x200F },
        { 0x2028, 0x202E }, { 0x2060, 0x206F }, { 0xFEFF, 0xFEFF }, { 0xE0000, 0xE007F },
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (ranges[i].first <= code && code <= ranges[i].last)
            return true;
    return false;
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

/* What stands at the start of p: a byte of ASCII, a character or an ill-formed part. */
static inline size_t json_size_step(const uint8_t *p, size_t length, const uint8_t escaped[static 128],
                                    size_t *size)
{
    size_t part;
    if (p[0] < 0x80) {
        *size += escaped[p[0]];
        return 1;
    }
    size_t raw = character(p, length, &part);
    *size += raw > 0 ? raw : REPLACEMENT_SIZE;
    return raw > 0 ? raw : part;
}

/* A whole block of ASCII takes its bytes and what each escape adds; extras are those of a control, its short
 * form, a quote. */
static inline size_t json_size(const uint8_t *p, size_t length, const uint8_t escaped[static 128])
{
    size_t size = 0, at = 0;
    while (length - at >= UTF8_BLOCK) {
        utf8_block bytes = utf8_block_load(p + at);
        size_t ascii = utf8_block_first(utf8_block_not_ascii(bytes));
        if (ascii == UTF8_BLOCK) {
            size += UTF8_BLOCK + utf8_block_extra(bytes, escaped[0] - 1, escaped['\n'] - 1, escaped['"'] - 1);
            at += UTF8_BLOCK;
            continue;
        }
        for (size_t end = at + ascii; at < end; at++)
            size += escaped[p[at]];
        while (at < length && p[at] >= 0x80)
            at += json_size_step(p + at, length - at, escaped, &size);
    }
    while (at < length)
        at += json_size_step(p + at, length - at, escaped, &size);
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
