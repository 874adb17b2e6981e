/* Owns: how kept lines and gaps are written. Must not know why a line was left out. */
#include "lib/text/block.h"

enum { EXTENSIONS = 3, EXTENSION_MAX = 8, ALIKE = 4, SAME_LONG = 3, GAP_GAIN = 24 };

/* How many similar lines a gap left out of each shape, in the order in which they came. */
struct alike {
    uint32_t shapes[ALIKE];
    size_t counts[ALIKE], shown; /* ALIKE + 1: there are more */
};

static void count_alike(struct alike *a, const struct line *line)
{
    size_t at = 0;
    if (line->kind != KIND_REPEATED || a->shown > ALIKE)
        return;
    while (at < a->shown && a->shapes[at] != line->shape)
        at++;
    if (at == a->shown && ++a->shown > ALIKE)
        return;
    a->shapes[at] = line->shape;
    a->counts[at]++;
}

/* "28 + 27": lines that are similar to each other have one count. */
static void write_counts(const struct alike *a, size_t all, struct buffer *out)
{
    if (a == NULL || a->shown < 2 || a->shown > ALIKE) {
        buffer_append_u64(out, all);
        return;
    }
    for (size_t at = 0; at < a->shown; at++) {
        buffer_append_text(out, at > 0 ? " + " : "");
        buffer_append_u64(out, a->counts[at]);
    }
}

static void write_kinds(const size_t counts[KINDS], const struct alike *alike, struct buffer *out)
{
    bool any = false;
    for (int kind = 0; kind < KINDS; kind++) {
        if (counts[kind] == 0 || kind == KIND_BLANK)
            continue;
        buffer_append_text(out, any ? ", " : "");
        write_counts(kind == KIND_REPEATED ? alike : NULL, counts[kind], out);
        buffer_append_char(out, ' ');
        buffer_append_text(out, counts[kind] == 1 ? kind_rows[kind].one : kind_rows[kind].many);
        if (kind == KIND_REPEATED && alike != NULL && alike->shown > ALIKE)
            buffer_append_text(out, " of several kinds");
        any = true;
    }
}

void tally_write(const size_t counts[KINDS], struct buffer *out)
{
    write_kinds(counts, NULL, out);
}

/* The most frequent extensions of what a listing left out. */
struct extension {
    char name[EXTENSION_MAX];
    size_t count;
};

static void count_extension(struct extension *seen, size_t most, const struct line *line)
{
    const char *end = line->data + line->length,
               *dot = line->length > 0 ? memrchr(line->data, '.', line->length) : NULL;
    size_t length = dot != NULL ? (size_t)(end - dot) : 0;
    if (length < 2 || length >= EXTENSION_MAX || memchr(dot, '/', length) != NULL ||
        memchr(dot, ' ', length) != NULL)
        return;
    for (size_t at = 0; at < most; at++) {
        if (seen[at].count == 0)
            memcpy(seen[at].name, dot, length);
        if (strncmp(seen[at].name, dot, length) == 0 && seen[at].name[length] == '\0') {
            seen[at].count++;
            return;
        }
    }
}

static void write_extensions(const struct block *b, size_t begin, size_t end, struct buffer *out)
{
    struct extension seen[64] = { 0 };
    for (size_t at = begin; at < end; at++)
        if (b->lines[at].kind == KIND_LISTING)
            count_extension(seen, N_ELEMENTS(seen), &b->lines[at]);
    for (size_t shown = 0; shown < EXTENSIONS; shown++) {
        size_t best = 0;
        for (size_t at = 1; at < N_ELEMENTS(seen); at++)
            best = seen[at].count > seen[best].count ? at : best;
        if (seen[best].count < 2)
            return;
        buffer_printf(out, "%s %zu %s", shown == 0 ? ":" : ",", seen[best].count, seen[best].name);
        seen[best].count = 0;
    }
}

static void write_line(const struct line *line, struct buffer *out)
{
    buffer_append(out, line->data, line->length);
    buffer_append_char(out, '\n');
}

/* Lines begin to end - 1, which were left out. Where that saves little, they stay. */
static void write_gap(const struct block *b, size_t begin, size_t end, struct buffer *out,
                      struct tally *tally)
{
    size_t counts[KINDS] = { 0 }, bytes = 0, start = out->length;
    struct alike alike = { 0 };
    for (size_t at = begin; at < end; at++) {
        counts[b->lines[at].kind]++;
        count_alike(&alike, &b->lines[at]);
        bytes += b->lines[at].length + 1;
    }
    buffer_append_char(out, '[');
    write_kinds(counts, &alike, out);
    if (counts[KIND_LISTING] > 0)
        write_extensions(b, begin, end, out);
    buffer_append_text(out, "]\n");
    if (out->length - start + GAP_GAIN > bytes) {
        out->length = start;
        for (size_t at = begin; at < end; at++)
            write_line(&b->lines[at], out);
        tally->kept += end - begin;
        return;
    }
    for (int kind = 0; kind < KINDS; kind++)
        tally->left_out[kind] += counts[kind];
}

/* A line, and how often it stood again right after itself. What belongs to a failure, and content, stays as
 * it is. Returns the next line. */
static size_t write_same(const struct block *b, size_t begin, struct buffer *out, struct tally *tally)
{
    const struct line *line = &b->lines[begin];
    size_t end = begin + 1;
    tally->kept++;
    write_line(line, out);
    if (line->keep && line->level < LEVEL_WARNING)
        return end;
    while (end < b->count && !b->lines[end].left_out && b->lines[end].length == line->length &&
           memcmp(b->lines[end].data, line->data, line->length) == 0)
        end++;
    size_t again = end - begin - 1;
    if (line->length == 0)
        return end; /* blank lines in a row are one */
    if (again + 1 < SAME_LONG || (line->length + 1) * again < 2 * GAP_GAIN)
        return begin + 1;
    buffer_printf(out, "[the same %zu times more]\n", again);
    tally->repeated += again;
    return end;
}

void block_write(const struct block *b, struct buffer *out, struct tally *tally)
{
    for (size_t at = 0, end; at < b->count; at = end) {
        for (end = at; end < b->count && b->lines[end].left_out; end++)
            continue;
        if (end > at)
            write_gap(b, at, end, out, tally);
        else
            end = write_same(b, at, out, tally);
    }
}
