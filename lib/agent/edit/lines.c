/* Owns: taking a text apart into lines and words, and comparing lines without regard to white space.
 * It must not know: edits, or what a line end is in the file. Bytes that are no UTF-8 are just bytes. */
#include "lib/agent/edit/lines.h"

#include "lib/base/fnv.h"
#include "lib/base/memory.h"

bool line_next(struct bytes text, size_t *at, struct bytes *ret)
{
    if (*at >= text.length)
        return false;
    size_t end = bytes_find(text, *at, '\n');
    *ret = bytes_cut(text, *at, end - *at);
    *at = end < text.length ? end + 1 : end;
    return true;
}

size_t line_start(struct bytes text, size_t at)
{
    const char *end = at > 0 ? memrchr(text.data, '\n', at) : NULL;
    return end != NULL ? (size_t)(end - text.data) + 1 : 0;
}

/* Eight bytes at once: a byte of the word is 0x80 where the text has '\n', and the multiplication adds all
 * eight. */
size_t lines_count_ends(struct bytes text)
{
    const uint64_t low = 0x0101010101010101, most = low * 0x7F;
    size_t count = 0, at = 0;
    for (; text.length - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, text.data + at, sizeof(word));
        word ^= low * '\n';
        word = ~(((word & most) + most) | word | most);
        count += ((word >> 7) * low) >> 56;
    }
    for (; at < text.length; at++)
        count += text.data[at] == '\n';
    return count;
}

struct bytes *lines_split(struct bytes text, size_t *ret_count)
{
    size_t count = 0, at = 0;
    struct bytes *lines = xreallocarray(NULL, lines_count_ends(text) + 1, sizeof(*lines));
    while (line_next(text, &at, &lines[count]))
        count++;
    *ret_count = count;
    return lines;
}

/* The length of the white space character that p begins with, by Unicode's property; 0 where it is none. */
static size_t space_at(const char *p, size_t length)
{
    static const char *const wide[] = { "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\xA8",
                                        "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80" };
    unsigned char first = (unsigned char)p[0];
    if (first < 0x80)
        return first == ' ' || (first >= '\t' && first <= '\r') || (first >= 0x1C && first <= 0x1F);
    if (first != 0xC2 && (first < 0xE1 || first > 0xE3))
        return 0;
    for (size_t i = 0; i < N_ELEMENTS(wide); i++)
        if (length >= strlen(wide[i]) && memcmp(p, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    bool is_en_quad_to_hair = length >= 3 && memcmp(p, "\xE2\x80", 2) == 0 && (unsigned char)p[2] >= 0x80 &&
                              (unsigned char)p[2] <= 0x8A;
    return is_en_quad_to_hair ? 3 : 0;
}

static size_t spaces_at(struct bytes line, size_t at)
{
    size_t start = at;
    for (size_t one; at < line.length && (one = space_at(line.data + at, line.length - at)) > 0;)
        at += one;
    return at - start;
}

/* The same of the character that ends at end. */
static size_t space_before(struct bytes line, size_t end)
{
    for (size_t size = 1; size <= 3 && size <= end; size++)
        if (space_at(line.data + end - size, size) == size)
            return size;
    return 0;
}

struct bytes line_indent(struct bytes line)
{
    return bytes_cut(line, 0, spaces_at(line, 0));
}

struct bytes line_trim(struct bytes line)
{
    struct bytes rest = bytes_from(line, spaces_at(line, 0));
    for (size_t one; rest.length > 0 && (one = space_before(rest, rest.length)) > 0;)
        rest.length -= one;
    return rest;
}

bool line_is_blank(struct bytes line)
{
    return spaces_at(line, 0) == line.length;
}

/* Where the word ends that at lies in. */
static size_t word_end(struct bytes line, size_t at)
{
    while (at < line.length && space_at(line.data + at, line.length - at) == 0)
        at++;
    return at;
}

static bool same_words(struct bytes a, struct bytes b)
{
    for (size_t i = 0, j = 0;;) {
        size_t end = word_end(a, i), other = word_end(b, j);
        if (!bytes_equal(bytes_cut(a, i, end - i), bytes_cut(b, j, other - j)))
            return false;
        if (end == a.length || other == b.length)
            return end == a.length && other == b.length;
        i = end + spaces_at(a, end);
        j = other + spaces_at(b, other);
    }
}

bool line_same(struct bytes a, struct bytes b, enum lines_grade grade)
{
    struct bytes left = line_trim(a), right = line_trim(b);
    return grade == LINES_TRIMMED ? bytes_equal(left, right) : same_words(left, right);
}

static uint64_t hash_bytes(uint64_t hash, struct bytes b)
{
    size_t at = 0;
    for (uint64_t word; b.length - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, b.data + at, sizeof(word));
        hash = (hash ^ word) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    hash = fnv_mix(hash, b.data + at, b.length - at);
    return hash ^ hash >> 29;
}

uint64_t line_hash(struct bytes line, enum lines_grade grade)
{
    struct bytes text = line_trim(line);
    uint64_t hash = FNV_BEGIN;
    if (grade == LINES_TRIMMED)
        return hash_bytes(hash, text);
    for (size_t at = 0; at < text.length;) {
        size_t end = word_end(text, at);
        hash = fnv_mix(hash_bytes(hash, bytes_cut(text, at, end - at)), " ", 1);
        at = end + spaces_at(text, end);
    }
    return hash;
}

struct bytes line_longest_word(struct bytes line)
{
    struct bytes longest = { line.data, 0 };
    for (size_t at = spaces_at(line, 0); at < line.length;) {
        size_t end = word_end(line, at);
        if (end - at > longest.length)
            longest = bytes_cut(line, at, end - at);
        at = end + spaces_at(line, end);
    }
    return longest;
}
