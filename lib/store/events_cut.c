/* Owns where output is cut into events. Pure: bytes in, a length out. */
#include "lib/store/events.h"

#include "lib/base/utf8.h"

typedef uint8_t block __attribute__((vector_size(16)));

/* Control characters, and quotes with backslashes: what grows in JSON. */
static void count_growing(const char *data, size_t length, size_t *ret_controls, size_t *ret_escapes)
{
    size_t controls = 0, escapes = 0, at = 0;
    while (length - at >= 16) {
        block some_controls = { 0 }, some_escapes = { 0 };
        /* Lanes of 8 bits hold up to 255. */
        for (int turn = 0; turn < 255 && length - at >= 16; turn++, at += 16) {
            block bytes;
            memcpy(&bytes, data + at, 16);
            some_controls -= (block)(bytes < 0x20);
            some_escapes -= (block)((bytes == '"') | (bytes == '\\'));
        }
        for (int lane = 0; lane < 16; lane++) {
            controls += some_controls[lane];
            escapes += some_escapes[lane];
        }
    }
    for (; at < length; at++) {
        controls += (unsigned char)data[at] < 0x20;
        escapes += data[at] == '"' || data[at] == '\\';
    }
    *ret_controls = controls;
    *ret_escapes = escapes;
}

static size_t base64_size(size_t length)
{
    return (length + 2) / 3 * 4;
}

static bool both_fit(const char *data, size_t length, size_t base64)
{
    size_t once = utf8_json_size(data, length) + base64;
    return once <= EVENT_ENCODED_MAX &&
           once + utf8_json_size_twice(data, length) + base64 <= EVENT_ENCODED_BOTH_MAX;
}

static bool text_fits(const char *data, size_t length)
{
    size_t controls, escapes;
    count_growing(data, length, &controls, &escapes);
    /* \u0000 is 6 bytes, escaped once more 7; \" is 2, then 4. Most text is settled by this bound. */
    if (length + 5 * controls + escapes <= EVENT_ENCODED_MAX &&
        2 * length + 11 * controls + 4 * escapes <= EVENT_ENCODED_BOTH_MAX)
        return true;
    return both_fit(data, length, 0);
}

static bool bytes_fit(const char *data, size_t length)
{
    return both_fit(data, length, base64_size(length));
}

static bool fits(const char *data, size_t length, size_t valid)
{
    return length <= valid ? text_fits(data, length) : bytes_fit(data, length);
}

/* The largest length up to limit that ends between characters: an incomplete one at the end is left to the
 * next event. */
static size_t between_characters(const char *data, size_t limit)
{
    return limit - utf8_incomplete_tail(data, limit);
}

size_t events_cut(const char *data, size_t length, bool final, unsigned *ret_flags)
{
    size_t end = length < EVENT_DATA_MAX ? length : EVENT_DATA_MAX;
    if (end < length || !final)
        end = between_characters(data, end);
    size_t valid = utf8_valid_prefix(data, end);
    if (!fits(data, end, valid)) {
        /* A prefix that ends between characters never costs more than a longer one. */
        size_t low = 1, high = end;
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            if (fits(data, between_characters(data, middle), valid))
                low = middle;
            else
                high = middle;
        }
        end = between_characters(data, low);
    }
    *ret_flags = end > valid ? EVENT_BINARY : 0;
    return end;
}
