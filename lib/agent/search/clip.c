/* Owns the form of a clipped line. Must not know: where lines come from. */
#include "lib/agent/search/clip.h"

#include "lib/base/utf8.h"

#define BEFORE_MATCH (CLIP_BYTES / 3)

void clip_choose(uint64_t length, uint64_t start, uint64_t end, uint64_t *ret_from, uint64_t *ret_length)
{
    *ret_from = 0;
    *ret_length = length;
    if (length <= CLIP_BYTES)
        return;
    if (start > length)
        start = length;
    /* A match that fits is shown whole: with less before it, where it is long. */
    uint64_t matched = end > start && end <= length ? end - start : 0;
    uint64_t room = matched < CLIP_BYTES ? (CLIP_BYTES - matched) / 2 : 0;
    uint64_t before = room < BEFORE_MATCH ? room : BEFORE_MATCH;
    *ret_from = start > before ? start - before : 0;
    if (*ret_from > length - CLIP_BYTES)
        *ret_from = length - CLIP_BYTES;
    *ret_length = CLIP_BYTES;
}

static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

void clip_to_characters(const char **data, size_t *length, bool cut_before, bool cut_after)
{
    for (int i = 0; cut_before && i < 3 && *length > 0 && is_inside(**data); i++) {
        (*data)++;
        (*length)--;
    }
    if (cut_after)
        *length -= utf8_incomplete_tail(*data, *length);
}

static void show_cut(struct buffer *out, uint64_t bytes, const char *before, const char *after)
{
    if (bytes > 0)
        buffer_printf(out, "%s[... %llu bytes ...]%s", before, (unsigned long long)bytes, after);
}

void clip_show(struct buffer *out, const char *data, size_t length, uint64_t before, uint64_t after)
{
    show_cut(out, before, "", " ");
    buffer_append_utf8(out, data, length);
    show_cut(out, after, " ", "");
}
