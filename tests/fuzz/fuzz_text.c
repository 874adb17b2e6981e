/* UTF-8, JSON strings and base64 against plain references that go byte by byte. The first byte says where in
 * a page the text begins and where it is cut, so that the code for blocks of 16 meets every alignment. */
#include "lib/base/base64.h"
#include "lib/base/utf8.h"
#include "tests/fuzz/input.h"

#include <jansson.h>

/* The Unicode Standard, table 3-7: bytes of a well-formed character, 0 where there is none; *ret_ill is the
 * length of the maximal part that is ill-formed then. */
static size_t one_character(const unsigned char *at, size_t left, size_t *ret_ill)
{
    unsigned char low = 0x80, high = 0xBF, first = at[0];
    size_t wanted = first < 0x80   ? 1
                    : first < 0xC2 ? 0
                    : first < 0xE0 ? 2
                    : first < 0xF0 ? 3
                    : first < 0xF5 ? 4
                                   : 0;
    *ret_ill = 1;
    if (first == 0xE0)
        low = 0xA0;
    if (first == 0xED)
        high = 0x9F;
    if (first == 0xF0)
        low = 0x90;
    if (first == 0xF4)
        high = 0x8F;
    for (size_t i = 1; i < wanted; i++) {
        if (i >= left || at[i] < low || at[i] > high) {
            *ret_ill = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return wanted;
}

static size_t escaped_size(unsigned char c)
{
    return c == '"' || c == '\\' || (c >= 8 && c <= 13 && c != 11) ? 2 : c < 0x20 ? 6 : 1;
}

struct expected {
    size_t prefix, raw_prefix, count, size, twice;
    struct buffer clean; /* what is not UTF-8 replaced */
};

static void expect(const char *data, size_t length, struct expected *e)
{
    bool valid = true, raw = true;
    *e = (struct expected){ .clean = BUFFER_INIT };
    for (size_t at = 0, ill; at < length;) {
        size_t n = one_character((const unsigned char *)data + at, length - at, &ill);
        valid = valid && n > 0;
        raw = raw && valid && escaped_size((unsigned char)data[at]) == 1;
        e->prefix += valid ? n : 0;
        e->raw_prefix += raw ? n : 0;
        e->count += n > 0 ? 1 : ill;
        size_t size = n == 0 ? 3 : n > 1 ? n : escaped_size((unsigned char)data[at]);
        e->size += size;
        /* Each backslash and quote of the escaped text once more: \" is \\\" then, \n is \\n, \u0000 is
         * \\u0000. */
        e->twice += size + (n != 1 || size == 1 ? 0 : data[at] == '"' || data[at] == '\\' ? 2 : 1);
        buffer_append(&e->clean, n > 0 ? data + at : "\xEF\xBF\xBD", n > 0 ? n : 3);
        at += n > 0 ? n : ill;
    }
}

static void check_json(const char *data, size_t length, const struct expected *e)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, again = BUFFER_INIT, clean = BUFFER_INIT;
    buffer_append_char(&text, '"');
    buffer_append_json(&text, data, length);
    holds(text.length - 1 == e->size);
    buffer_append_json(&again, text.data + 1, text.length - 1);
    holds(again.length == e->twice);
    buffer_append_char(&text, '"');
    json_auto_t *back = json_loadb(text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    holds(json_is_string(back) && json_string_length(back) == e->clean.length);
    holds(e->clean.length == 0 || memcmp(json_string_value(back), e->clean.data, e->clean.length) == 0);
    buffer_append_utf8(&clean, data, length);
    holds(clean.length == e->clean.length &&
          (clean.length == 0 || !memcmp(clean.data, e->clean.data, clean.length)));
}

static void check_tail(const char *data, size_t length)
{
    size_t tail = utf8_incomplete_tail(data, length);
    holds(tail <= 3 && tail <= length);
    /* An incomplete tail becomes a character by some further bytes; without it none is begun at the end. */
    if (tail > 0) {
        char whole[8];
        bool completes = false;
        memcpy(whole, data + length - tail, tail);
        for (int low = 0; low < 2 && !completes; low++) {
            size_t ill;
            memset(whole + tail, low ? 0x80 : 0xBF, 4);
            completes = one_character((unsigned char *)whole, tail + 3, &ill) > tail;
        }
        holds(completes);
    }
    for (size_t begun = 1; begun <= 3 && begun <= length && tail == 0; begun++) {
        size_t ill, n = one_character((const unsigned char *)data + length - begun, begun, &ill);
        unsigned char first = (unsigned char)data[length - begun];
        size_t wanted = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 1;
        holds(n > 0 || ill < begun || wanted <= begun);
    }
}

static void check_utf8(const char *data, size_t length)
{
    struct expected e;
    size_t ill = 0;
    expect(data, length, &e);
    holds(utf8_valid_prefix(data, length) == e.prefix);
    holds(utf8_is_valid(data, length) == (e.prefix == length));
    holds(utf8_json_raw_prefix(data, length) == e.raw_prefix);
    holds(utf8_count(data, length) == e.count);
    holds(utf8_json_size(data, length) == e.size && utf8_json_size_twice(data, length) == e.twice);
    if (e.prefix < length) {
        one_character((const unsigned char *)data + e.prefix, length - e.prefix, &ill);
        holds(utf8_ill_formed_part(data + e.prefix, length - e.prefix) == ill);
    } else if (length > 0) {
        holds(utf8_ill_formed_part(data, length) == 0);
    }
    check_json(data, length, &e);
    check_tail(data, length);
    buffer_free(&e.clean);
}

static void check_base64(const char *data, size_t length)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, back = BUFFER_INIT, other = BUFFER_INIT,
                                   canonical = BUFFER_INIT;
    buffer_append_base64(&text, data, length);
    holds(text.length == (length + 2) / 3 * 4);
    holds(base64_decode(text.data, text.length, &back) && back.length == length);
    holds(length == 0 || memcmp(back.data, data, length) == 0);
    /* The input as text: what is taken is the one text of its bytes. */
    bool taken = base64_decode(data, length, &other);
    holds(taken == base64_is_valid(data, length) && (taken || other.length == 0));
    buffer_append_base64(&canonical, other.data, other.length);
    holds(!taken ||
          (canonical.length == length && (length == 0 || memcmp(canonical.data, data, length) == 0)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 20000)
        return 0;
    size_t shift = data[0] & 31, length = size - 1;
    char *room = xmalloc(shift + length + 1), *text = room + shift;
    memcpy(text, data + 1, length);
    check_utf8(text, length);
    check_utf8(text, length - (length < (size_t)(data[0] >> 5) ? length : (size_t)(data[0] >> 5)));
    check_base64(text, length);
    free(room);
    return 0;
}
