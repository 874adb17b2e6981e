/* Owns: comparing lines word by word. Must not know what a word means, paths included. */
#include "lib/text/unlike.h"

#include "lib/base/memory.h"
#include "lib/text/series.h"

#include <stdint.h>
#include <string.h>

enum { SAMPLE = 500 /* lines, from which what most have is told */ };

struct word {
    const char *begin;
    size_t length;
};

struct place {
    struct word candidate; /* Boyer and Moore's, of the majority */
    size_t votes, others;  /* others: lines with another one */
};

static const bool separators[256] = {
    [' '] = true, ['\t'] = true, [','] = true, [';'] = true, ['|'] = true, ['='] = true, [':'] = true
};

static bool is_separator(char c)
{
    return separators[(unsigned char)c];
}

/* The lines of a tree, U+2500 to U+257F: where a branch ends says nothing. */
static bool is_branch(const char *begin, const char *end)
{
    return end - begin >= 3 && begin[0] == '\xE2' && (begin[1] == '\x94' || begin[1] == '\x95');
}

/* The first UNLIKE_PLACES of them. Returns how many there are. */
static size_t words_of(const struct varying_line *line, struct word words[static UNLIKE_PLACES])
{
    const char *at = line->data, *end = at + line->length;
    size_t count = 0;
    for (;;) {
        while (at < end && is_separator(*at))
            at++;
        if (at == end)
            return count;
        const char *begin = at;
        while (at < end && !is_separator(*at))
            at++;
        if (is_branch(begin, at))
            continue;
        if (count < UNLIKE_PLACES)
            words[count] = (struct word){ begin, (size_t)(at - begin) };
        count++;
    }
}

static bool is_same(const struct word *a, const struct word *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->begin, b->begin, a->length) == 0);
}

/* How many words most lines have, told from lines with a step between them. */
static size_t usual_width(const struct varying_line *lines, size_t count, size_t step)
{
    struct word words[UNLIKE_PLACES];
    size_t usual = 0, votes = 0;
    for (size_t at = 0; at < count; at += step) {
        size_t width = words_of(&lines[at], words);
        usual = votes == 0 ? width : usual;
        votes += width == usual ? 1 : (size_t)-1;
    }
    return usual;
}

static void elect(struct place *p, const struct word *word)
{
    if (p->votes == 0)
        p->candidate = *word;
    p->votes += is_same(&p->candidate, word) ? 1 : (size_t)-1;
}

/* At which places a line has another word than the candidate, a bit for each. */
static uint16_t compare(const struct word *words, size_t looked_at, struct place *places)
{
    uint16_t unlike = 0;
    for (size_t i = 0; i < looked_at; i++)
        if (!is_same(&places[i].candidate, &words[i])) {
            places[i].others++;
            unlike |= (uint16_t)(1u << i);
        }
    return unlike;
}

void unlike_mark(struct varying_line *lines, size_t count)
{
    struct place places[UNLIKE_PLACES] = { 0 };
    struct word words[UNLIKE_PLACES];
    _cleanup_free_ uint16_t *unlike = xcalloc(count + 1, sizeof *unlike);
    uint16_t few = 0;
    /* What nearly all have, a part of them has as well. */
    size_t step = count / SAMPLE + 1, width = usual_width(lines, count, step), compared = 0;
    size_t looked_at = width < UNLIKE_PLACES ? width : UNLIKE_PLACES;
    for (size_t at = 0; at < count; at += step)
        for (size_t i = words_of(&lines[at], words) == width ? looked_at : 0; i > 0; i--)
            elect(&places[i - 1], &words[i - 1]);
    for (size_t at = 0; at < count; at++)
        if (words_of(&lines[at], words) == width) {
            unlike[at] = compare(words, looked_at, places);
            compared++;
        }
    for (size_t i = 0; i < looked_at; i++)
        few |= (uint16_t)(series_is_few(places[i].others, compared) << i);
    for (size_t at = 0; at < count; at++)
        lines[at].odd = lines[at].odd || (unlike[at] & few) != 0;
}
