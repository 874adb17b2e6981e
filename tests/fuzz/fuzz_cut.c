/* Where output is cut into events, whatever it is: nothing lost, every bound held, no character split, and
 * the flag that says whether an event is text. Two bytes say how often the rest is repeated, one how it
 * arrives. */
#include "lib/base/buffer.h"
#include "lib/base/utf8.h"
#include "lib/store/events.h"
#include "tests/fuzz/input.h"

enum { MOST = 40000 };

static void check_event(const char *data, size_t length, unsigned flags)
{
    bool binary = !utf8_is_valid(data, length);
    size_t base64 = binary ? (length + 2) / 3 * 4 : 0;
    size_t once = utf8_json_size(data, length) + base64;
    holds(length > 0 && length <= EVENT_DATA_MAX);
    holds(flags == (binary ? EVENT_BINARY : 0));
    holds(once <= EVENT_ENCODED_MAX);
    holds(once + utf8_json_size_twice(data, length) + base64 <= EVENT_ENCODED_BOTH_MAX);
}

/* A character that begins before the cut and ends behind it, where both parts are there to be seen. */
static bool splits_character(const char *data, size_t cut, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= cut; back++) {
        size_t from = cut - back, ahead = length - from < 4 ? length - from : 4;
        unsigned char first = (unsigned char)data[from];
        if ((first & 0xC0) == 0x80)
            continue;
        for (size_t size = back + 1; size <= ahead; size++)
            if (utf8_is_valid(data + from, size) && utf8_count(data + from, size) == 1)
                return true;
        return false;
    }
    return false;
}

/* As it arrives: `seen` bytes more each time, what is cut goes. */
static void cut_all(const char *data, size_t length, size_t seen)
{
    size_t at = 0, there = 0;
    while (at < length || there < length) {
        bool final = there == length;
        unsigned flags = 0;
        size_t cut = events_cut(data + at, there - at, final, &flags);
        if (cut == 0) {
            holds(!final || at == there);
            holds(utf8_incomplete_tail(data + at, there - at) == there - at);
            there = length - there > seen ? there + seen : length;
            if (at == length)
                return;
            continue;
        }
        holds(cut <= there - at);
        check_event(data + at, cut, flags);
        holds(!splits_character(data + at, cut, there - at));
        at += cut;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data, size };
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    size_t repeats = (size_t)input_u16(&in) + 1, seen = (size_t)input_u8(&in) * 297 + 1;
    if (in.left == 0 || in.left > 60000)
        return 0;
    /* The end of the input stands once, so that the repeated part meets something else. */
    size_t head = in.left - in.left / 8;
    for (size_t i = 0; i < repeats && text.length + head < MOST; i++)
        buffer_append(&text, in.at, head);
    buffer_append(&text, in.at + head, in.left - head);
    char *exact = xmemdup(text.data, text.length);
    cut_all(exact, text.length, seen < 290 ? text.length : seen);
    free(exact);
    return 0;
}
