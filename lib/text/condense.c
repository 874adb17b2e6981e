/* Owns: the way from raw bytes through lines and blocks to the result. Must not know how a line is
 * recognised. */
#include "lib/text/condense.h"

#include "lib/base/fnv.h"
#include "lib/text/block.h"
#include "lib/text/fold.h"

enum { RECENT = 1024, STRAY_NUL = 4096, REDRAWN_MAX = 9 };

struct condenser {
    const char *raw;
    size_t length;
    struct recogniser *recogniser;
    struct progress progress;
    struct block *block;
    struct buffer arena; /* text of the block's lines that does not stand in raw */
    size_t bytes;        /* of the block */
    struct tally tally;
    struct buffer *out;
    bool hopeless;            /* the result will not be shorter */
    uint8_t redrawn[RECENT];  /* how often lines of a shape were overwritten in place, REDRAWN_MAX at most */
    uint64_t rescued[RECENT]; /* shapes and texts that were rescued lately */
};

static void flush(struct condenser *c, bool last)
{
    struct block *b = c->block;
    b->last = last;
    if (c->out->length >= c->length)
        c->hopeless = true; /* already too long */
    block_mark_same(b);
    block_mark_failures(b, &c->progress);
    block_mark_listings(b, &c->progress);
    block_mark_repeated(b, &c->progress);
    block_choose(b, &c->progress);
    if (!c->hopeless)
        block_write(b, c->out, &c->tally);
    b->count = c->bytes = c->arena.length = 0;
    b->first = false;
}

static void take_line(void *context, const char *data, size_t length)
{
    struct condenser *c = context;
    struct line_facts facts;
    if (c->block->count == BLOCK_LINES || c->bytes + length > BLOCK_BYTES)
        if (c->block->count > 0)
            flush(c, false);
    recognise(c->recogniser, data, length, &facts);
    if (length > 0 && (data < c->raw || data >= c->raw + c->length)) {
        size_t at = c->arena.length;
        buffer_append(&c->arena, data, length);
        data = c->arena.data + at;
    }
    c->bytes += length;
    uint32_t shape = facts.kind == KIND_BLANK ? SHAPE_NONE : shapes_number(c->progress.shapes, facts.shape);
    if (shape != SHAPE_NONE)
        shapes_at(c->progress.shapes, shape)->total++;
    c->block->lines[c->block->count++] = (struct line){
        .data = data,
        .length = (uint32_t)length,
        .shape = shape,
        .kind = (uint8_t)facts.kind,
        .level = (uint8_t)facts.level,
        .sure = facts.sure,
        .loose = facts.loose,
        .has_path = facts.has_path,
        .columns = facts.columns,
        .solid = facts.solid,
    };
}

/* A counter of errors that is redrawn on and on is no new error each time. */
static bool is_counter(struct condenser *c, const struct line_facts *facts)
{
    uint8_t *count = &c->redrawn[(facts->shape >> 20) % RECENT];
    *count += *count < REDRAWN_MAX;
    return *count == REDRAWN_MAX;
}

/* What a redraw takes away stays where it tells of a failure, and where it was a whole sentence that nothing
 * like it was rescued lately. */
static bool rescue(void *context, const char *data, size_t length, bool completed)
{
    struct condenser *c = context;
    struct line_facts facts;
    recognise(c->recogniser, data, length, &facts);
    bool failure = facts.level >= LEVEL_WARNING && !facts.sure;
    bool unusual = completed && (facts.sentence || (facts.level == LEVEL_NOTE && !facts.sure));
    if (!failure && !unusual)
        return false;
    uint64_t hash = failure && facts.kind != KIND_PROGRESS ? fnv_mix(FNV_BEGIN, data, length) : facts.shape;
    uint64_t *recent = &c->rescued[(hash >> 20) % RECENT];
    bool seen = *recent == hash;
    *recent = hash;
    return !seen && (completed || !is_counter(c, &facts));
}

static size_t count_lines(const char *text, size_t length)
{
    size_t count = length > 0 && text[length - 1] != '\n';
    for (size_t at = 0; at < length; count++) {
        const char *end = memchr(text + at, '\n', length - at);
        if (end == NULL)
            break;
        at = (size_t)(end - text) + 1;
    }
    return count;
}

static void write_summary(const struct condenser *c, const char *how, struct condensed *ret)
{
    size_t counts[KINDS];
    memcpy(counts, c->tally.left_out, sizeof counts);
    counts[KIND_REPEATED] += c->tally.repeated;
    buffer_printf(&ret->text, "[condensed: %zu lines -> %zu", ret->lines_before, ret->lines_after);
    size_t at = ret->text.length;
    buffer_append_text(&ret->text, "; ");
    tally_write(counts, &ret->text);
    if (ret->text.length == at + 2)
        ret->text.length = at;
    buffer_printf(&ret->text, "; raw: %s]\n", how);
}

static void run(struct condenser *c, size_t columns, const char *how, struct condensed *ret)
{
    struct fold_sink sink = { .context = c, .line = take_line, .rescue = rescue };
    fold(c->raw, c->length, columns, &sink);
    flush(c, true);
    ret->lines_before = count_lines(c->raw, c->length);
    ret->lines_after = count_lines(ret->text.data, ret->text.length);
    write_summary(c, how, ret);
}

/* More than a stray NUL: names that end in it, or no text at all. */
static bool is_binary(const char *raw, size_t length)
{
    size_t count = 0;
    for (size_t at = 0; at < length; count++) {
        const char *nul = memchr(raw + at, '\0', length - at);
        if (nul == NULL)
            break;
        at = (size_t)(nul - raw) + 1;
    }
    return count > length / STRAY_NUL;
}

void condense(const char *raw, size_t length, size_t columns, const char *how, struct condensed *ret)
{
    *ret = (struct condensed){ .unchanged = true };
    if (length == 0 || length > CONDENSE_MAX || is_binary(raw, length))
        return;
    struct condenser *c = xcalloc(1, sizeof *c);
    *c =
        (struct condenser){ .raw = raw, .length = length, .recogniser = recogniser_new(), .out = &ret->text };
    c->block = xcalloc(1, sizeof *c->block);
    c->block->first = true;
    c->progress.shapes = shapes_new();
    buffer_reserve(&c->arena, BLOCK_BYTES);
    run(c, columns, how, ret);
    ret->unchanged = ret->text.length >= length;
    if (ret->unchanged)
        condensed_free(ret);
    shapes_free(c->progress.shapes);
    recogniser_free(c->recogniser);
    buffer_free(&c->arena);
    free(c->block);
    free(c);
}

void condensed_free(struct condensed *c)
{
    buffer_free(&c->text);
}
