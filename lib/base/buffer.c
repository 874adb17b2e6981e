/* Owns: a growing run of bytes and the encodings written straight into it (decimal, JSON string, base64).
 * It must not know: where the bytes go. Growth doubles, so appending is linear; nothing shrinks but by
 * buffer_free. */
#include "lib/base/buffer.h"

#include "lib/base/utf8.h"
#include "lib/base/utf8_block.h"

#include <stdarg.h>
#include <stdio.h>

enum { FIRST_CAPACITY = 64 };

void buffer_free(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer)BUFFER_INIT;
}

static void buffer_grow(struct buffer *b, size_t extra)
{
    size_t needed, capacity = b->capacity > 0 ? b->capacity : FIRST_CAPACITY;
    if (__builtin_add_overflow(b->length, extra, &needed))
        abort();
    while (capacity < needed)
        if (__builtin_mul_overflow(capacity, 2, &capacity))
            abort();
    b->data = xreallocarray(b->data, capacity, 1);
    b->capacity = capacity;
}

char *buffer_reserve(struct buffer *b, size_t extra)
{
    if (b->data == NULL || b->capacity - b->length < extra)
        buffer_grow(b, extra);
    return b->data + b->length;
}

void buffer_append(struct buffer *b, const void *data, size_t length)
{
    if (length == 0)
        return;
    memcpy(buffer_reserve(b, length), data, length);
    b->length += length;
}

void buffer_append_text(struct buffer *b, const char *text)
{
    buffer_append(b, text, strlen(text));
}

void buffer_append_char(struct buffer *b, char c)
{
    *buffer_reserve(b, 1) = c;
    b->length++;
}

void buffer_append_u64(struct buffer *b, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buffer_append(b, digits + at, sizeof(digits) - at);
}

void buffer_append_i64(struct buffer *b, int64_t value)
{
    if (value < 0)
        buffer_append_char(b, '-');
    buffer_append_u64(b, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t room = b->capacity - b->length;
    int length = vsnprintf(room > 0 ? b->data + b->length : NULL, room, format, args);
    if (length < 0)
        abort();
    if ((size_t)length >= room)
        vsnprintf(buffer_reserve(b, (size_t)length + 1), (size_t)length + 1, format, again);
    b->length += (size_t)length;
    va_end(again);
    va_end(args);
}

void buffer_consume(struct buffer *b, size_t count)
{
    if (count >= b->length) {
        b->length = 0;
        return;
    }
    memmove(b->data, b->data + count, b->length - count);
    b->length -= count;
}

const char *buffer_text(struct buffer *b)
{
    *buffer_reserve(b, 1) = '\0';
    return b->data;
}

static void append_escape(struct buffer *b, unsigned char c)
{
    static const char letters[128] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\',
    };
    static const char digits[] = "0123456789abcdef";
    char *at = buffer_reserve(b, 6);
    at[0] = '\\';
    at[1] = letters[c];
    b->length += 2;
    if (letters[c] != '\0')
        return;
    memcpy(at + 1, "u00", 3);
    at[4] = digits[c >> 4];
    at[5] = digits[c & 15];
    b->length += 4;
}

static size_t append_replacement(struct buffer *b, const char *data, size_t length)
{
    buffer_append(b, "\xEF\xBF\xBD", 3);
    return utf8_ill_formed_part(data, length);
}

/* Copies what needs no escape by whole blocks: bytes behind the last that counts are written and then
 * overwritten. */
static size_t append_raw(struct buffer *b, const char *data, size_t length)
{
    char *out = buffer_reserve(b, length);
    size_t at = 0, plain = UTF8_BLOCK;
    while (plain == UTF8_BLOCK && length - at >= UTF8_BLOCK) {
        utf8_block bytes = utf8_block_load(data + at);
        memcpy(out + at, &bytes, sizeof(bytes));
        plain = utf8_block_first(utf8_block_not_raw(bytes));
        at += plain;
    }
    if (at == length || (plain < UTF8_BLOCK && (unsigned char)data[at] < 0x80)) {
        b->length += at;
        return at;
    }
    size_t rest = utf8_json_raw_prefix(data + at, length - at);
    memcpy(out + at, data + at, rest);
    b->length += at + rest;
    return at + rest;
}

void buffer_append_json(struct buffer *b, const char *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        at += append_raw(b, data + at, length - at);
        if (at == length)
            return;
        unsigned char c = (unsigned char)data[at];
        if (c < 0x80) {
            append_escape(b, c);
            at++;
        } else
            at += append_replacement(b, data + at, length - at);
    }
}

void buffer_append_utf8(struct buffer *b, const char *data, size_t length)
{
    buffer_reserve(b, length);
    for (size_t at = 0; at < length;) {
        size_t valid = utf8_valid_prefix(data + at, length - at);
        buffer_append(b, data + at, valid);
        at += valid;
        if (at < length)
            at += append_replacement(b, data + at, length - at);
    }
}

/* Length of what data begins with and is shown as it is. */
static size_t plain_length(const char *data, size_t length, const char *also)
{
    uint32_t code;
    size_t at = 0;
    for (size_t size; at < length && (size = utf8_character(data + at, length - at, &code)) > 0; at += size)
        if ((code == '\\' || utf8_acts(code)) &&
            (code == 0 || code > 0x7f || strchr(also, (int)code) == NULL))
            break;
    return at;
}

static void append_shown(struct buffer *b, const char *data, size_t length, const char *also)
{
    for (size_t at = 0; at < length;) {
        size_t plain = plain_length(data + at, length - at, also);
        uint32_t code;
        buffer_append(b, data + at, plain);
        at += plain;
        size_t size = utf8_character(data + at, length - at, &code);
        if (at == length)
            break;
        if (size <= 1 && data[at] != '\\')
            buffer_printf(b, "\\x%02x", (unsigned char)data[at]);
        else if (size == 1)
            buffer_append_text(b, "\\\\");
        else
            buffer_printf(b, code > 0xFFFF ? "\\U%08x" : "\\u%04x", (unsigned)code);
        at += size > 0 ? size : 1;
    }
}

void buffer_append_shown(struct buffer *b, const char *data, size_t length)
{
    append_shown(b, data, length, "");
}

void buffer_append_shown_text(struct buffer *b, const char *data, size_t length)
{
    append_shown(b, data, length, "\n\t\\");
}

void buffer_append_wrapped(struct buffer *b, const char *first, const char *rest, const char *text,
                           size_t width)
{
    size_t column = 0;

    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t word = strcspn(text, " ");
        bool fits = column + 1 + word <= width;
        if (column > 0 && !fits)
            buffer_append_char(b, '\n');
        if (column > 0 && fits) {
            buffer_append_char(b, ' ');
            column++;
        } else {
            const char *begin = column == 0 ? first : rest;
            buffer_append_text(b, begin);
            column = strlen(begin);
        }
        buffer_append(b, text, word);
        column += word;
        text += word;
    }
    if (column > 0)
        buffer_append_char(b, '\n');
}

void buffer_append_base64(struct buffer *b, const void *data, size_t length)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = data;
    size_t groups = length / 3 + (length % 3 > 0), size;
    if (__builtin_mul_overflow(groups, 4, &size))
        abort();
    char *out = buffer_reserve(b, size);
    for (size_t at = 0; at < length; at += 3, out += 4) {
        size_t left = length - at;
        uint32_t bits = (uint32_t)p[at] << 16;
        bits |= left > 1 ? (uint32_t)p[at + 1] << 8 : 0;
        bits |= left > 2 ? p[at + 2] : 0;
        out[0] = letters[bits >> 18];
        out[1] = letters[bits >> 12 & 63];
        out[2] = left > 1 ? letters[bits >> 6 & 63] : '=';
        out[3] = left > 2 ? letters[bits & 63] : '=';
    }
    b->length += size;
}
