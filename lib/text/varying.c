/* Owns: telling counters, times, sizes and hashes from numbers that are content. Must not know kinds of
 * lines, nor how many make a run. */
#include "lib/text/varying.h"

#include "lib/text/recognise.h"

#include <string.h>

enum {
    GROUP = 3,    /* digits behind a comma of thousands */
    UNIT_MAX = 7, /* letters */
    STEADY = 8,   /* of so many steps all but one go the same way */
    MAJORITY = 4, /* of so many lines all but one have the same */
};

/* A number with what belongs to it: 1,024  10:30:00.25  2026-11-30T10:30:00  1.2.3  12ms */
struct field {
    const char *begin, *end;
    bool hash;    /* hexadecimal, with letters before its digits */
    bool measure; /* a unit follows */
};

struct column {
    struct field last, candidate; /* candidate: Boyer and Moore's, of the majority */
    size_t votes, ups, downs, measures, hashes, same;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t digits(const char *at, const char *end)
{
    const char *p = at;
    while (p < end && is_digit(*p))
        p++;
    return (size_t)(p - at);
}

/* ---- one number ---- */

static bool is_unit(const char *word, size_t length)
{
    static const char *const units[] = { "ns", "us", "ms",    "s",   "sec", "secs", "seconds", "m",   "min",
                                         "h",  "B",  "bytes", "b",   "kB",  "KB",   "MB",      "GB",  "K",
                                         "M",  "G",  "KiB",   "MiB", "GiB", "k",    "kb",      "Kbps" };
    for (size_t at = 0; at < sizeof units / sizeof *units; at++)
        if (strlen(units[at]) == length && memcmp(units[at], word, length) == 0)
            return true;
    return false;
}

/* Directly behind the number, or behind one blank: "%", "ms", " bytes", "kB/s". */
static bool has_unit(const char *at, const char *end)
{
    const char *word = at + (at < end && *at == ' '), *stop = word;
    if (at < end && *at == '%')
        return true;
    while (stop < end && is_letter(*stop) && stop - word <= UNIT_MAX)
        stop++;
    return is_unit(word, (size_t)(stop - word));
}

/* Whether the byte behind so many digits makes one number of them and what follows. */
static bool joins(const char *at, const char *end, size_t before)
{
    size_t after = digits(at + 1, end);
    switch (*at) {
    case ',':
        return after == GROUP;
    case ':':
        return after == 2 && before <= 2; /* of a time; of grep -n it is the end of a number */
    case '.':
    case '-':
    case 'T':
        return after > 0;
    default:
        return false;
    }
}

/* at is a digit. */
static struct field take_number(const char *at, const char *end)
{
    size_t group = digits(at, end);
    struct field f = { .begin = at, .end = at + group };
    while (f.end < end && joins(f.end, end, group)) {
        group = digits(f.end + 1, end);
        f.end += 1 + group;
    }
    f.measure = has_unit(f.end, end);
    return f;
}

/* Letters, and digits behind them where that is a hash. Returns its end. */
static const char *take_word(const char *at, const char *end, struct field *ret)
{
    enum { HASH = 7 };
    const char *stop = at, *letters = at;
    bool hex = true;
    while (letters < end && is_letter(*letters))
        letters++;
    for (; stop < end && (is_letter(*stop) || is_digit(*stop)); stop++)
        hex = hex && (is_digit(*stop) || ((*stop | 0x20) >= 'a' && (*stop | 0x20) <= 'f'));
    ret->hash = hex && stop > letters && stop - at >= HASH;
    ret->begin = at;
    ret->end = stop;
    return ret->hash ? stop : letters;
}

/* ---- the numbers of a line ---- */

/* Digits that begin a hash, 3f2a91c0, are one too. */
static const char *take_digits(const char *at, const char *end, struct field *ret)
{
    struct field word = { 0 };
    const char *stop = take_word(at, end, &word);
    bool letters = false;
    for (const char *p = at; p < stop; p++)
        letters = letters || is_letter(*p);
    if (word.hash && letters && stop > at) {
        *ret = word;
        return stop;
    }
    *ret = take_number(at, end);
    return ret->end;
}

static size_t take_token(const char *at, const char *end, const char *line_end, struct field *fields,
                         size_t count)
{
    while (at < end && count < VARYING_FIELDS) {
        struct field f = { 0 };
        if (is_digit(*at)) {
            at = take_digits(at, line_end, &f);
            fields[count++] = f;
        } else if (is_letter(*at)) {
            at = take_word(at, end, &f);
            if (f.hash)
                fields[count++] = f;
        } else {
            at++;
        }
    }
    return count;
}

static size_t take_line(const struct varying_line *line, struct field fields[static VARYING_FIELDS])
{
    const char *at = line->data, *end = at + line->length;
    size_t count = 0;
    while (at < end && count < VARYING_FIELDS) {
        const char *stop = at;
        while (stop < end && *stop != ' ' && *stop != '\t')
            stop++;
        if (stop > at && !recognise_path(at, stop))
            count = take_token(at, stop, end, fields, count);
        at = stop + (stop < end);
    }
    return count;
}

/* ---- what they say together ---- */

static bool is_same(const struct field *a, const struct field *b)
{
    size_t length = (size_t)(a->end - a->begin);
    return length > 0 && length == (size_t)(b->end - b->begin) && memcmp(a->begin, b->begin, length) == 0;
}

static size_t amount(const char *at, const char *end)
{
    const char *p = at;
    while (p < end && (is_digit(*p) || *p == ','))
        p++;
    return (size_t)(p - at);
}

/* Group by group, as numbers: 9 < 10, 999 < 1,024, 1.9 < 1.10, 10:59 < 11:00. */
static int compare(const struct field *a, const struct field *b)
{
    const char *p = a->begin, *q = b->begin;
    while (p < a->end && q < b->end) {
        while (p < a->end && *p == '0')
            p++;
        while (q < b->end && *q == '0')
            q++;
        size_t n = amount(p, a->end), m = amount(q, b->end);
        if (n != m)
            return n < m ? -1 : 1;
        int order = memcmp(p, q, n);
        if (order != 0)
            return order;
        p += n + (p + n < a->end);
        q += m + (q + m < b->end);
    }
    return (p < a->end) - (q < b->end);
}

static void column_add(struct column *c, const struct field *f, bool first)
{
    int order = first ? 0 : compare(&c->last, f);
    c->ups += order < 0;
    c->downs += order > 0;
    c->measures += f->measure;
    c->hashes += f->hash;
    c->last = *f;
    if (c->votes == 0)
        c->candidate = *f;
    c->votes += is_same(&c->candidate, f) ? 1 : (size_t)-1;
}

static bool is_dull(const struct column *c, size_t count)
{
    size_t steps = c->ups + c->downs, back = c->ups < c->downs ? c->ups : c->downs;
    return c->measures == count || c->hashes == count || back * STEADY <= steps;
}

static bool is_majority(const struct column *c, size_t count)
{
    return (count - c->same) * MAJORITY <= count;
}

/* Fills the columns, and returns how many there are; more than there may be where lines differ in that. */
static size_t read_columns(const struct varying_line *lines, size_t count, struct column *columns)
{
    struct field fields[VARYING_FIELDS];
    size_t width = 0;
    for (size_t at = 0; at < count; at++) {
        size_t n = take_line(&lines[at], fields);
        if (at == 0)
            width = n;
        if (n != width || n == VARYING_FIELDS)
            return VARYING_FIELDS;
        for (size_t i = 0; i < n; i++)
            column_add(&columns[i], &fields[i], at == 0);
    }
    return width;
}

static void count_same(const struct varying_line *lines, size_t count, struct column *columns)
{
    struct field fields[VARYING_FIELDS];
    for (size_t at = 0; at < count; at++)
        for (size_t n = take_line(&lines[at], fields); n > 0; n--)
            columns[n - 1].same += is_same(&columns[n - 1].candidate, &fields[n - 1]);
}

bool varying_is_dull(struct varying_line *lines, size_t count)
{
    struct column columns[VARYING_FIELDS] = { 0 };
    struct field fields[VARYING_FIELDS];
    size_t width = read_columns(lines, count, columns);
    if (width == VARYING_FIELDS)
        return false;
    count_same(lines, count, columns);
    for (size_t i = 0; i < width; i++)
        if (!is_majority(&columns[i], count) && !is_dull(&columns[i], count))
            return false;
    for (size_t at = 0; at < count; at++)
        for (size_t n = take_line(&lines[at], fields); n > 0; n--)
            lines[at].odd = lines[at].odd || (is_majority(&columns[n - 1], count) &&
                                              !is_same(&columns[n - 1].candidate, &fields[n - 1]));
    return true;
}
