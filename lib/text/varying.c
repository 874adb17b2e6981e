/* Owns: telling counters, times, sizes and hashes from numbers that are content. Must not know kinds of
 * lines, nor how many make a run. */
#include "lib/text/varying.h"

#include "lib/text/recognise.h"
#include "lib/text/series.h"

#include <stdint.h>
#include <string.h>

enum {
    GROUP = 3,    /* digits behind a comma of thousands */
    UNIT_MAX = 7, /* letters */
    STEADY = 8,   /* of so many steps all but one go the same way */
    MAJORITY = 4, /* of so many lines all but one have the same */
    SELDOM = 4,   /* a number moves at no more than one of so many lines */
};

/* What a number looks like. */
enum field_form {
    FORM_COUNT, /* 12  1,024  192.168.1.7 */
    FORM_VALUE, /* 0.9902 */
    FORM_TIME,  /* 10:30:00  2026-11-30, and a value that begins the line: [   12.345] */
};

/* A number with what belongs to it: 1,024  10:30:00.25  2026-11-30T10:30:00  1.2.3  12ms */
struct field {
    const char *begin, *end;
    bool hash;   /* hexadecimal, with letters before its digits */
    bool leads;  /* nothing but a bracket stands before it */
    double unit; /* worth of the one that follows, 0 = none does */
};

struct column {
    struct field last, candidate; /* candidate: Boyer and Moore's, of the majority */
    size_t votes, ups, downs, measures, hashes, values, times, same;
    uint64_t step; /* between the last two that differ */
    size_t even;   /* steps as large as the one before */
    struct series series;
    size_t length; /* of most hashes */
    size_t length_votes, lengths;
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

static const struct {
    const char *word;
    double worth;
} units[] = { { "ns", 1e-9 }, { "us", 1e-6 },   { "ms", 1e-3 }, { "s", 1 },    { "sec", 1 },
              { "secs", 1 },  { "seconds", 1 }, { "m", 60 },    { "min", 60 }, { "h", 3600 },
              { "B", 1 },     { "bytes", 1 },   { "b", 1 },     { "kB", 1e3 }, { "KB", 1e3 },
              { "MB", 1e6 },  { "GB", 1e9 },    { "K", 1e3 },   { "M", 1e6 },  { "G", 1e9 },
              { "KiB", 1e3 }, { "MiB", 1e6 },   { "GiB", 1e9 }, { "k", 1e3 },  { "kb", 1e3 },
              { "Kbps", 1e3 } };

/* Directly behind the number, or behind one blank: "%", "ms", " bytes", "kB/s". Returns its worth, 0 = none.
 */
static double unit_at(const char *at, const char *end)
{
    const char *word = at + (at < end && *at == ' '), *stop = word;
    if (at < end && *at == '%')
        return 1;
    while (stop < end && is_letter(*stop) && stop - word <= UNIT_MAX)
        stop++;
    for (size_t row = 0; stop > word && row < sizeof units / sizeof *units; row++)
        if (*units[row].word == *word && strlen(units[row].word) == (size_t)(stop - word) &&
            memcmp(units[row].word, word, (size_t)(stop - word)) == 0)
            return units[row].worth;
    return 0;
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
    f.unit = unit_at(f.end, end);
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

static bool is_lead(const char *line, const char *number)
{
    while (line < number && strchr(" \t[(", *line) != NULL && *line != '\0')
        line++;
    return line == number;
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
    if (count > 0)
        fields[0].leads = is_lead(line->data, fields[0].begin);
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

static size_t count_bytes(const struct field *f, char byte)
{
    size_t count = 0;
    for (const char *p = f->begin; p < f->end; p++)
        count += *p == byte;
    return count;
}

static enum field_form form_of(const struct field *f)
{
    size_t dots = count_bytes(f, '.');
    if (count_bytes(f, ':') > 0 || count_bytes(f, '-') > 1)
        return FORM_TIME;
    if (dots != 1)
        return FORM_COUNT;
    return f->leads ? FORM_TIME : FORM_VALUE;
}

/* Of its last group: that is what counts on in an address. Wraps around where it is long. */
static uint64_t value_of(const struct field *f)
{
    uint64_t value = 0;
    for (const char *p = f->begin; p < f->end; p++)
        if (is_digit(*p))
            value = value * 10 + (uint64_t)(*p - '0');
        else if (*p != ',')
            value = 0;
    return value;
}

/* Without commas, and up to a second point. */
static double amount_of(const struct field *f)
{
    static const double enough = 1e250; /* further digits do not count */
    double amount = 0, place = 1;
    bool fraction = false;
    for (const char *p = f->begin; p < f->end && (!fraction || *p != '.'); p++) {
        fraction = fraction || *p == '.';
        if (!is_digit(*p) || amount > enough || place > enough)
            continue;
        amount = amount * 10 + (*p - '0');
        place *= fraction ? 10 : 1;
    }
    return amount / place * (f->unit > 0 ? f->unit : 1);
}

/* What counts on takes whole steps. */
static struct series_number number_of(const struct field *f, size_t at, size_t line)
{
    return (struct series_number){ amount_of(f), form_of(f) == FORM_COUNT ? value_of(f) : 0, at, line };
}

static void column_add_length(struct column *c, size_t length)
{
    if (c->length_votes == 0)
        c->length = length;
    c->length_votes += length == c->length ? 1 : (size_t)-1;
}

static void column_add(struct column *c, const struct field *f, bool first)
{
    int order = first ? 0 : compare(&c->last, f);
    enum field_form form = form_of(f);
    if (order != 0) {
        uint64_t step = value_of(f) - value_of(&c->last);
        c->even += c->ups + c->downs > 0 && step == c->step;
        c->step = step;
    }
    c->ups += order < 0;
    c->downs += order > 0;
    c->measures += f->unit > 0;
    c->hashes += f->hash;
    c->values += form == FORM_VALUE;
    c->times += form == FORM_TIME;
    c->last = *f;
    if (c->votes == 0)
        c->candidate = *f;
    c->votes += is_same(&c->candidate, f) ? 1 : (size_t)-1;
    if (f->hash)
        column_add_length(c, (size_t)(f->end - f->begin));
    else if (form != FORM_TIME)
        series_add(&c->series, number_of(f, 0, 0));
}

static bool moves_seldom(const struct column *c, size_t count)
{
    return (c->ups + c->downs) * SELDOM <= count;
}

/* log: times stand beside it; then what something took is told by the way, else it is what was measured. */
static enum varying column_varying(const struct column *c, size_t count, bool log)
{
    size_t steps = c->ups + c->downs, back = c->ups < c->downs ? c->ups : c->downs;
    bool steady = back * STEADY <= steps;
    if (c->measures == count)
        return log || steady ? VARYING_DULL : VARYING_TELLING;
    if (c->hashes == count)
        return VARYING_TELLING;
    if (!steady)
        return VARYING_CONTENT;
    if (c->times == count || moves_seldom(c, count))
        return VARYING_DULL;
    /* A counter takes steps of one size; what only happens to be sorted does not. */
    return c->values == 0 && c->even * 2 + 1 >= steps ? VARYING_DULL : VARYING_TELLING;
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

/* Whether its numbers can be told one from another by their amount. */
static bool has_series(const struct column *c, size_t count)
{
    return c->hashes == 0 && c->times == 0 && !is_majority(c, count) && !moves_seldom(c, count);
}

static void weigh(const struct varying_line *lines, size_t count, struct column *columns)
{
    struct field fields[VARYING_FIELDS];
    size_t width = 0;
    for (size_t at = 0; at < count; at++) {
        width = take_line(&lines[at], fields);
        for (size_t i = 0; i < width; i++) {
            struct column *c = &columns[i];
            c->same += is_same(&c->candidate, &fields[i]);
            c->lengths += (size_t)(fields[i].end - fields[i].begin) == c->length;
            if (c->hashes == 0 && c->times == 0)
                series_weigh(&c->series, number_of(&fields[i], at, 0));
        }
    }
    for (size_t i = 0; i < width; i++)
        if (has_series(&columns[i], count))
            series_settle(&columns[i].series);
}

/* before: the line's before it; NULL = it is the first. */
static bool is_odd(struct column *c, const struct field *f, const struct field *before, size_t at,
                   size_t line, size_t count)
{
    if (is_majority(c, count))
        return !is_same(&c->candidate, f);
    if (c->hashes == count)
        return series_is_few(count - c->lengths, count) && (size_t)(f->end - f->begin) != c->length;
    if (has_series(c, count))
        return series_is_odd(&c->series, number_of(f, at, line));
    return at > 0 && c->measures < count && moves_seldom(c, count) && !is_same(before, f);
}

/* A line that stands out: by a number of its own, or the first with another one than before. */
static void mark_odd(struct varying_line *lines, size_t count, struct column *columns)
{
    struct field fields[VARYING_FIELDS], before[VARYING_FIELDS];
    for (size_t at = 0; at < count; at++) {
        size_t width = take_line(&lines[at], fields);
        for (size_t i = 0; i < width; i++)
            lines[at].odd =
                is_odd(&columns[i], &fields[i], at > 0 ? &before[i] : NULL, at, lines[at].place, count) ||
                lines[at].odd;
        memcpy(before, fields, width * sizeof *fields);
    }
}

enum varying varying_of(struct varying_line *lines, size_t count)
{
    struct column columns[VARYING_FIELDS] = { 0 };
    enum varying worst = VARYING_DULL;
    size_t width = read_columns(lines, count, columns);
    bool log = false;
    if (width == VARYING_FIELDS)
        return VARYING_CONTENT;
    for (size_t i = 0; i < width; i++)
        log = log || columns[i].times == count;
    weigh(lines, count, columns);
    for (size_t i = 0; i < width; i++) {
        enum varying one =
            is_majority(&columns[i], count) ? VARYING_DULL : column_varying(&columns[i], count, log);
        worst = one > worst ? one : worst;
    }
    if (worst < VARYING_CONTENT)
        mark_odd(lines, count, columns);
    return worst;
}
