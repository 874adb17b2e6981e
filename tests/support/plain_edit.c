/* Owns: a second implementation of edits, which tries every place and copies everything each time. A text is
 * a list of numbers: bytes, and line ends above them. It must share nothing with lib/agent/edit but its
 * types. */
#include "tests/support/plain_edit.h"

#include "lib/base/memory.h"

enum { END_LF = 256, END_CRLF, END_CR, NONE = -1, SYMBOLS_MOST = 1 << 16 };

struct plain {
    int *at;
    size_t count;
};

static void plain_free(struct plain *plain)
{
    free(plain->at);
}
#define _cleanup_plain_ __attribute__((cleanup(plain_free)))

static bool is_end(int symbol)
{
    return symbol >= END_LF;
}

static bool same(int a, int b)
{
    return a == b || (is_end(a) && is_end(b));
}

static void add(struct plain *plain, int symbol)
{
    if ((plain->count & (plain->count - 1)) == 0)
        plain->at = xreallocarray(plain->at, plain->count > 0 ? plain->count * 2 : 1, sizeof(*plain->at));
    plain->at[plain->count++] = symbol;
}

static void parse(struct plain *ret, struct bytes text, bool cr_only)
{
    ret->at = xreallocarray(ret->at, 1, sizeof(*ret->at));
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool crlf = c == '\r' && i + 1 < text.length && text.data[i + 1] == '\n';
        add(ret, crlf ? END_CRLF : c == '\n' ? END_LF : c == '\r' && cr_only ? END_CR : c);
        i += crlf;
    }
}

/* The end seen most between from and to; the first of those seen equally often. */
static int usual(const struct plain *plain, size_t from, size_t to, int otherwise)
{
    int best = otherwise;
    size_t best_count = 0;
    for (size_t i = from; i < to; i++) {
        size_t count = 0;
        for (size_t j = from; j < to; j++)
            count += plain->at[j] == plain->at[i];
        if (is_end(plain->at[i]) && count > best_count) {
            best = plain->at[i];
            best_count = count;
        }
    }
    return best;
}

static bool stands_at(const struct plain *text, const struct plain *wanted, size_t at)
{
    for (size_t i = 0; i < wanted->count; i++)
        if (at + i >= text->count || !same(text->at[at + i], wanted->at[i]))
            return false;
    return true;
}

/* Symbols [from, to) give way to count others. */
static void exchange(struct plain *text, size_t from, size_t to, const int *others, size_t count, int end)
{
    struct plain made = { NULL, 0 };
    for (size_t i = 0; i < from; i++)
        add(&made, text->at[i]);
    for (size_t i = 0; i < count; i++)
        add(&made, is_end(others[i]) && end != NONE ? end : others[i]);
    for (size_t i = to; i < text->count; i++)
        add(&made, text->at[i]);
    free(text->at);
    *text = made;
}

/* How many symbols of whole lines both begin (or, from the end, end) with, at most `most`. */
static size_t common(const struct plain *a, const struct plain *b, bool at_end, size_t most)
{
    for (size_t k = most; k > 0; k--) {
        bool fits = at_end ? a->count > k && b->count > k && is_end(a->at[a->count - k - 1]) &&
                                 is_end(b->at[b->count - k - 1])
                           : is_end(a->at[k - 1]) && is_end(b->at[k - 1]);
        for (size_t i = 0; i < k && fits; i++)
            fits = at_end ? same(a->at[a->count - 1 - i], b->at[b->count - 1 - i]) : same(a->at[i], b->at[i]);
        if (fits)
            return k;
    }
    return 0;
}

/* Returns the end that it gave to lines. */
static int replace_at(struct plain *text, const struct plain *old, const struct plain *new, size_t at,
                      bool may_take_end, int file_end)
{
    size_t least = old->count < new->count ? old->count : new->count;
    bool equal = old->count == new->count &&stands_at(old, new, 0);
    size_t before = equal ? old->count : common(old, new, false, least);
    size_t after = equal ? 0 : common(old, new, true, least - before);
    size_t from = at + before, to = at + old->count - after;
    bool is_line = (at == 0 || is_end(text->at[at - 1])) && !is_end(old->at[old->count - 1]) &&
                   to < text->count && is_end(text->at[to]);
    to += new->count == 0 && is_line &&may_take_end;
    int end = usual(text, from, to, usual(text, at, at + old->count, file_end));
    exchange(text, from, to, new->at + before, new->count - before - after, end);
    return end;
}

/* ---- white space ---- */

static size_t character(struct bytes text, size_t at, unsigned *ret)
{
    const unsigned char *p = (const unsigned char *)text.data + at;
    size_t left = text.length - at;
    *ret = p[0];
    if (p[0] >= 0xC2 && p[0] < 0xE0 && left >= 2 && p[1] >> 6 == 2) {
        *ret = (p[0] & 31u) << 6 | (p[1] & 63u);
        return 2;
    }
    if (p[0] >= 0xE0 && p[0] < 0xF0 && left >= 3 && p[1] >> 6 == 2 && p[2] >> 6 == 2) {
        *ret = (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
        return *ret >= 0x800 ? 3 : 1;
    }
    if (p[0] >= 0x80)
        *ret = 0xFFFFFF;
    return 1;
}

static bool is_white(unsigned point)
{
    return (point >= 9 && point <= 13) || (point >= 28 && point <= 32) || point == 0x85 || point == 0xA0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
           point == 0x202F || point == 0x205F || point == 0x3000;
}

void plain_strip(struct bytes line, bool squeezed, struct buffer *ret)
{
    size_t white_from = 0, point_at = 0, size;
    unsigned point;
    for (; point_at < line.length; point_at += size) {
        size = character(line, point_at, &point);
        if (is_white(point))
            continue;
        if (ret->length > 0 && white_from < point_at) {
            if (squeezed)
                buffer_append_char(ret, ' ');
            else
                buffer_append(ret, line.data + white_from, point_at - white_from);
        }
        buffer_append(ret, line.data + point_at, size);
        white_from = point_at + size;
    }
}

/* Line `index` of a text; false where there are not so many. */
static bool line_of(const struct plain *text, size_t index, struct buffer *ret)
{
    size_t at = 0;
    for (; index > 0 && at < text->count; at++)
        index -= is_end(text->at[at]);
    if (index > 0 || at == text->count)
        return false;
    for (; at < text->count && !is_end(text->at[at]); at++)
        buffer_append_char(ret, (char)text->at[at]);
    return true;
}

static bool stripped_line(const struct plain *text, size_t index, bool squeezed, struct buffer *ret)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    bool there = line_of(text, index, &line);
    plain_strip((struct bytes){ line.data, line.length }, squeezed, ret);
    return there;
}

/* How many lines of old stand at line `index` but for white space, whether all, and how many blank ones. */
static bool lines_stand_at(const struct plain *text, const struct plain *old, size_t index, bool squeezed)
{
    size_t letters = 0;
    for (size_t i = 0;; i++) {
        _cleanup_buffer_ struct buffer wanted = BUFFER_INIT, own = BUFFER_INIT;
        if (!stripped_line(old, i, squeezed, &wanted))
            return letters > 0;
        bool there = stripped_line(text, index + i, squeezed, &own);
        letters += wanted.length;
        if (!there || own.length != wanted.length ||
            (own.length > 0 && memcmp(own.data, wanted.data, own.length) != 0))
            return false;
    }
}

static size_t count_windows(const struct plain *text, const struct plain *old)
{
    size_t found = 0;
    for (int squeezed = 0; squeezed < 2 && found == 0; squeezed++)
        for (size_t index = 0; index <= text->count; index++)
            found += lines_stand_at(text, old, index, squeezed);
    return found;
}

/* ---- edits ---- */

static enum plain_outcome apply_one(struct plain *text, const struct edit *edit, const struct plain *old,
                                    const struct plain *new, int file_end)
{
    size_t places[SYMBOLS_MOST], count = 0, all = 0;
    if (edit->replace_all && edit->occurrence > 0)
        return PLAIN_REFUSED;
    if (old->count == 0 && text->count > 0)
        return PLAIN_REFUSED;
    if (old->count == 0) {
        exchange(text, 0, 0, new->at, new->count, file_end);
        return PLAIN_DONE;
    }
    for (size_t at = 0; at < text->count; at++) {
        bool found = stands_at(text, old, at);
        all += found;
        if (found && (count == 0 || at >= places[count - 1] + old->count))
            places[count++] = at;
    }
    size_t windows = count > 0 ? 0 : count_windows(text, old);
    if (count == 0)
        return windows == 1 || (windows > 1 && (edit->replace_all || edit->occurrence > 0)) ? PLAIN_FUZZY
                                                                                            : PLAIN_REFUSED;
    if (edit->occurrence > count || (edit->occurrence == 0 && !edit->replace_all && all > 1))
        return PLAIN_REFUSED;
    bool was_ended = is_end(text->at[text->count - 1]);
    int end, last_end = 0;
    for (size_t i = count; i > 0; i--)
        if (edit->replace_all || i == (edit->occurrence > 0 ? edit->occurrence : 1)) {
            bool end_is_next = edit->replace_all && i < count && places[i] == places[i - 1] + old->count;
            end = replace_at(text, old, new, places[i - 1], !end_is_next, file_end);
            last_end = last_end == 0 ? end : last_end;
        }
    if (was_ended && text->count > 0 && !is_end(text->at[text->count - 1]))
        add(text, last_end == NONE ? END_LF : last_end);
    return PLAIN_DONE;
}

static void store(const struct plain *text, bool has_bom, struct buffer *ret)
{
    if (has_bom)
        buffer_append_text(ret, "\xEF\xBB\xBF");
    for (size_t i = 0; i < text->count; i++) {
        if (text->at[i] == END_CRLF || text->at[i] == END_CR)
            buffer_append_char(ret, '\r');
        if (text->at[i] == END_CRLF || text->at[i] == END_LF)
            buffer_append_char(ret, '\n');
        if (!is_end(text->at[i]))
            buffer_append_char(ret, (char)text->at[i]);
    }
}

enum plain_outcome plain_edit(struct bytes file, const struct edit *edits, size_t count, struct buffer *ret)
{
    _cleanup_plain_ struct plain text = { NULL, 0 };
    file = bytes_placed(file);
    bool has_bom = file.length >= 3 && memcmp(file.data, "\xEF\xBB\xBF", 3) == 0;
    bool has_lf = file.length > 0 && memchr(file.data, '\n', file.length) != NULL;
    enum plain_outcome outcome = PLAIN_DONE;
    parse(&text, has_bom ? bytes_from(file, 3) : file, !has_lf);
    int file_end = usual(&text, 0, text.count, NONE);
    for (size_t i = 0; i < count && outcome == PLAIN_DONE; i++) {
        _cleanup_plain_ struct plain old = { NULL, 0 }, new = { NULL, 0 };
        bool cr_only = file_end == END_CR;
        parse(&old, bytes_placed(edits[i].old), cr_only);
        parse(&new, bytes_placed(edits[i].new), cr_only);
        outcome = apply_one(&text, &edits[i], &old, &new, file_end);
    }
    store(&text, has_bom, ret);
    return outcome;
}
