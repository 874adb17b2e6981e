/* Owns: which lines of a block are left out. Must not know how a line is recognised, or how a gap is written.
 */
#include "lib/text/block.h"

#include "lib/text/pattern.h"
#include "lib/text/series.h"
#include "lib/text/unlike.h"
#include "lib/text/varying.h"

enum {
    BEFORE = 2,        /* lines before a failure that stay */
    AFTER = 3,         /* lines after it */
    CONTEXT_MAX = 200, /* indented lines after it */
    /* Bytes (about 2,000 tokens) of names, paths, ids and values: so much was asked for and stays whole. */
    ANSWER_LONG = 6 << 10,
    ANSWER_HEAD = 10, /* lines of a longer one that stay */
    ANSWER_TAIL = 2,
    STEPS_LONG = 40, /* fewer entries that are steps (inflating: x) stay whole */
    SKIPS = 10,      /* lines of skipped tests that stay: few are news */
    BRIDGE = 12,     /* lines of a failure that do not end it */
    NEAR = 6,        /* lines between two that make one run */
    RUN_LONG = 6,    /* a shorter run stays whole */
    COMMON = 3,      /* lines of one shape that are not rare */
    RUN_HEAD = 2,    /* lines of a long run that stay, and its last one */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool kind_is_noise(int kind)
{
    return kind != KIND_PLAIN && kind != KIND_BLANK && kind != KIND_NAME && kind != KIND_LISTING;
}

static bool starts_section(const struct line *line, const struct section_row **ret)
{
    const char *first = line->data, *end = first + line->length;
    while (first < end && *first == ' ')
        first++;
    for (size_t at = 0; at < section_rows_count; at++)
        if ((first < end && (section_rows[at].start[0] == *first || section_rows[at].start[0] == '#')) &&
            pattern_matches(section_rows[at].start, line->data, line->length)) {
            *ret = &section_rows[at];
            return true;
        }
    return false;
}

static bool ends_section(const struct section_row *section, const struct line *line)
{
    for (size_t at = 0; at < N_ELEMENTS(section->ends) && section->ends[at] != NULL; at++)
        if (pattern_matches(section->ends[at], line->data, line->length))
            return true;
    return false;
}

/* A line that can only belong to what stands before it: indented, or a piece of a picture of the source. */
static bool is_attached(const struct line *line)
{
    if (line->length == 0)
        return true;
    char c = line->data[0];
    return c == ' ' || c == '\t' || c == '|' || c == '>' || c == '^' || c == '~' || c == '}' || c == ')' ||
           (c == 'E' && line->length > 1 && line->data[1] == ' ');
}

/* Whether a line after a failure belongs to it. */
static bool is_context(const struct line *line, struct progress *p)
{
    if (p->context_left == 0 || (line->sure && kind_is_noise(line->kind)))
        return false;
    if (is_attached(line)) {
        p->context_left--;
        return true;
    }
    if (p->indented_only || kind_is_noise(line->kind) || line->kind == KIND_LISTING)
        return false;
    p->indented_only = CONTEXT_MAX - p->context_left >= AFTER - 1;
    p->context_left--;
    return true;
}

static bool is_failure(const struct line *line)
{
    return line->level >= LEVEL_WARNING && !line->sure;
}

static void keep_before(struct block *b, size_t at)
{
    for (size_t back = 1; back <= BEFORE && back <= at; back++) {
        struct line *line = &b->lines[at - back];
        bool belongs =
            line->kind == KIND_BUILD ? b->lines[at].level == LEVEL_FAILURE : !kind_is_noise(line->kind);
        if (!belongs || line->kind == KIND_LISTING)
            break;
        line->keep = true;
    }
}

/* Whether a line is content of a diff, whose lines all stay. */
static bool in_difference(const struct line *line, struct progress *p)
{
    static const char *const heads[] = { "diff ",       "index ",    "--- ",
                                         "+++ ",        "new file ", "deleted file ",
                                         "similarity ", "rename ",   "Binary files " };
    if (line->length >= 4 &&
        (memcmp(line->data, "@@ -", 4) == 0 || (line->length > 9 && memcmp(line->data, "diff --", 7) == 0)))
        p->difference = true;
    if (!p->difference || line->length == 0 || strchr(" +-@\\", line->data[0]) != NULL)
        return p->difference;
    for (size_t at = 0; at < N_ELEMENTS(heads); at++)
        if (line->length >= strlen(heads[at]) && memcmp(line->data, heads[at], strlen(heads[at])) == 0)
            return true;
    p->difference = false;
    return false;
}

void block_mark_failures(struct block *b, struct progress *p)
{
    for (size_t at = 0; at < b->count; at++) {
        struct line *line = &b->lines[at];
        const struct section_row *begun = NULL;
        if (p->section != NULL && ends_section(p->section, line))
            p->section = NULL;
        if (line->length > 0 && starts_section(line, &begun))
            p->section = begun;
        if (is_failure(line)) {
            line->keep = true;
            keep_before(b, at);
            p->context_left = CONTEXT_MAX;
            p->indented_only = line->level == LEVEL_WARNING;
        } else if (is_context(line, p)) {
            line->keep = true;
        } else {
            p->context_left = 0;
        }
        line->keep = in_difference(line, p) || line->keep || p->section != NULL;
    }
}

/* Lines that are equal are counted as such, with no others. */
void block_mark_same(struct block *b)
{
    for (size_t begin = 0, end; begin < b->count; begin = end) {
        const struct line *line = &b->lines[begin];
        for (end = begin + 1; end < b->count; end++)
            if (b->lines[end].length != line->length ||
                memcmp(b->lines[end].data, line->data, line->length) != 0)
                break;
        for (size_t at = begin; at < end && end - begin >= RUN_LONG; at++)
            b->lines[at].same = line->kind != KIND_BLANK;
    }
}

static bool may_be_listed(const struct line *line)
{
    return (line->kind == KIND_LISTING || line->kind == KIND_NAME || line->kind == KIND_BLANK) && !line->same;
}

/* An entry that a program told of while it worked, and not one that it was asked for. */
static bool is_step(const struct line *line)
{
    return line->kind == KIND_LISTING && line->sure;
}

/* What is listed from one line on. */
struct listing {
    size_t end, steps, bytes; /* bytes: of entries that are no steps */
};

static bool is_rare(const struct line *line, const struct progress *p)
{
    return line->shape == SHAPE_NONE || shapes_at(p->shapes, line->shape)->total < COMMON;
}

/* A name unlike all others, where nearly all others look alike; a mode or an owner that few have. */
static void mark_unlike(struct block *b, size_t begin, size_t end, const struct progress *p,
                        struct varying_line *lines)
{
    size_t count = 0, rare = 0;
    for (size_t at = begin; at < end; at++)
        if (may_be_listed(&b->lines[at]) && b->lines[at].kind != KIND_BLANK) {
            lines[count++] = (struct varying_line){ .data = b->lines[at].data,
                                                    .length = b->lines[at].length,
                                                    .place = at };
            rare += is_rare(&b->lines[at], p);
        }
    unlike_mark(lines, count);
    bool few = series_is_few(rare, count);
    while (count-- > 0) {
        struct line *line = &b->lines[lines[count].place];
        line->keep = line->keep || lines[count].odd || (few && is_rare(line, p));
    }
}

/* All but the first and last lines of a long listing are left out. */
static void list(struct block *b, size_t begin, const struct listing *found, const struct progress *p)
{
    if (found->steps >= STEPS_LONG || found->bytes >= ANSWER_LONG) {
        _cleanup_free_ struct varying_line *lines = xcalloc(found->end - begin, sizeof *lines);
        mark_unlike(b, begin, found->end, p, lines);
    }
    for (size_t at = begin; at < found->end; at++) {
        struct line *line = &b->lines[at];
        bool far = at >= begin + ANSWER_HEAD && at + ANSWER_TAIL < found->end;
        bool many = is_step(line) ? found->steps >= STEPS_LONG : found->bytes >= ANSWER_LONG;
        if (!may_be_listed(line) || (line->kind == KIND_NAME && !many))
            continue;
        if (line->kind == KIND_NAME)
            line->kind = KIND_LISTING;
        line->left_out = many && far && line->level < LEVEL_NOTE;
        line->keep = line->keep || !many;
    }
}

/* Columns may be a table as well: they are names where a folder or a path came before them. */
static struct listing find_listing(const struct block *b, size_t begin)
{
    struct listing found = { .end = begin };
    size_t others = 0, plain = 0;
    bool paths = false;
    for (size_t at = begin; at < b->count && plain <= 1 && others <= BRIDGE; at++) {
        const struct line *line = &b->lines[at];
        paths = paths || line->kind == KIND_LISTING;
        bool listed = may_be_listed(line) && (paths || !line->columns);
        bool entry = listed && line->kind != KIND_BLANK;
        bool counted = entry && !line->keep;
        found.steps += counted && is_step(line);
        found.bytes += counted && !is_step(line) ? line->length + 1 : 0;
        found.end = entry ? at + 1 : found.end;
        /* A failure among entries, with what is kept for it, does not end them. */
        plain = listed || line->keep ? 0 : plain + 1;
        others = entry ? 0 : others + 1;
    }
    return found;
}

void block_mark_listings(struct block *b, const struct progress *p)
{
    size_t begin = 0;
    while (begin < b->count) {
        struct listing found = find_listing(b, begin);
        list(b, begin, &found, p);
        begin = found.end > begin ? found.end : begin + 1;
    }
}

static bool may_repeat(const struct line *line)
{
    return line->shape != SHAPE_NONE && (line->kind == KIND_PLAIN || line->kind == KIND_NAME) &&
           line->solid && !line->keep && !line->same;
}

/* A name, or nothing but values: no blank stands in it, or no letter. */
static bool is_bare(const struct line *line)
{
    size_t at = 0, end = line->length, blanks = 0, letters = 0;
    while (at < end && is_blank(line->data[at]))
        at++;
    while (end > at && is_blank(line->data[end - 1]))
        end--;
    for (; at < end; at++) {
        blanks += is_blank(line->data[at]);
        letters += (line->data[at] | 0x20) >= 'a' && (line->data[at] | 0x20) <= 'z';
    }
    return blanks == 0 || letters == 0;
}

/* How many lines of a run stay at its beginning and its end; all of them where it is an answer of no great
 * length, or its numbers are content. */
static size_t run_ends(const struct line *first, enum varying varying, size_t bytes, size_t *ret_tail)
{
    bool answer = varying == VARYING_TELLING || first->has_path || is_bare(first);
    *ret_tail = answer ? ANSWER_TAIL : 1;
    if (varying == VARYING_CONTENT || (answer && bytes < ANSWER_LONG))
        return SIZE_MAX;
    return answer ? ANSWER_HEAD : RUN_HEAD;
}

/* Those lines of a run in which a number is unlike its neighbours' stay. */
static void leave_out(struct block *b, const uint32_t *next, const struct shape *shape)
{
    uint32_t at = shape->first;
    size_t bytes = 0, tail;
    _cleanup_free_ struct varying_line *lines = xcalloc(shape->run, sizeof *lines);
    for (uint32_t place = 0; place < shape->run; place++, at = next[at]) {
        lines[place] =
            (struct varying_line){ .data = b->lines[at].data, .length = b->lines[at].length, .place = at };
        bytes += b->lines[at].length + 1;
    }
    size_t head = run_ends(&b->lines[shape->first], varying_of(lines, shape->run), bytes, &tail);
    if (b->lines[shape->first].has_path && head < shape->run)
        unlike_mark(lines, shape->run);
    at = shape->first;
    for (size_t place = 0; place + tail < shape->run; place++, at = next[at])
        if (place >= head && !lines[place].odd) {
            b->lines[at].left_out = true;
            b->lines[at].kind = KIND_REPEATED;
        }
}

/* The run that a shape's lines made is over. */
static void end_run(struct block *b, const uint32_t *next, struct shape *shape)
{
    if (shape->run >= RUN_LONG)
        leave_out(b, next, shape);
    shape->run = 0;
}

void block_mark_repeated(struct block *b, struct progress *p)
{
    _cleanup_free_ uint32_t *next = xcalloc(b->count + 1, sizeof *next);
    uint32_t place = 0; /* among lines that are not noise */
    for (uint32_t at = 0; at < b->count; at++) {
        place += !kind_is_noise(b->lines[at].kind);
        if (!may_repeat(&b->lines[at]))
            continue;
        struct shape *shape = shapes_at(p->shapes, b->lines[at].shape);
        if (shape->run > 0 && place - shape->last_place > NEAR)
            end_run(b, next, shape);
        if (shape->run == 0)
            shape->first = at;
        else
            next[shape->last] = at;
        shape->last = at;
        shape->last_place = place;
        shape->run++;
    }
    for (uint32_t at = 0; at < b->count; at++)
        if (may_repeat(&b->lines[at]))
            end_run(b, next, shapes_at(p->shapes, b->lines[at].shape));
}

static bool is_noise(const struct line *line, struct progress *p)
{
    if (line->kind == KIND_SKIP && line->sure)
        return p->skips++ >= SKIPS;
    if (!kind_is_noise(line->kind) || line->sure || line->kind == KIND_REPEATED)
        return kind_is_noise(line->kind);
    return line->level < LEVEL_NOTE && !(line->loose && is_rare(line, p));
}

/* Blank lines go with what stands around them; the first and the last line of the output stay. */
void block_choose(struct block *b, struct progress *p)
{
    bool gone = false;
    for (size_t at = 0; at < b->count; at++) {
        struct line *line = &b->lines[at];
        bool edge = (b->first && at == 0) || (b->last && at + 1 == b->count);
        line->left_out = line->left_out || is_noise(line, p) || (line->kind == KIND_BLANK && gone);
        if (line->keep || edge)
            line->left_out = false;
        gone = line->left_out || line->kind == KIND_BLANK;
    }
}
