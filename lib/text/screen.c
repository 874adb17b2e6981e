/* Owns: rows of cells, what is printed to them and what leaves them at the top. Must not know escape
 * sequences. */
#include "lib/text/screen.h"

#include "lib/base/utf8.h"

enum { TAB_WIDTH = 8, WORK_FACTOR = 32, RESCUE_COST = 4, JOINED_MAX = 1 << 20, WORK_BASE = 1 << 20 };

struct row *screen_row(struct screen *s, size_t y)
{
    return &s->rows[(s->first + y) % FOLD_ROWS];
}

/* At most 4 bytes; returns how many. */
static size_t encode(uint32_t cell, char *bytes)
{
    size_t n = 0;
    if ((cell & CELL_BYTE) != 0 || cell < 0x80) {
        bytes[0] = (char)(cell & 0xFF);
        return 1;
    }
    if (cell < 0x800) {
        bytes[n++] = (char)(0xC0 | cell >> 6);
    } else if (cell < 0x10000) {
        bytes[n++] = (char)(0xE0 | cell >> 12);
        bytes[n++] = (char)(0x80 | (cell >> 6 & 0x3F));
    } else {
        bytes[n++] = (char)(0xF0 | cell >> 18);
        bytes[n++] = (char)(0x80 | (cell >> 12 & 0x3F));
        bytes[n++] = (char)(0x80 | (cell >> 6 & 0x3F));
    }
    bytes[n++] = (char)(0x80 | (cell & 0x3F));
    return n;
}

static bool cell_is_blank(uint32_t cell)
{
    return cell == ' ' || cell == CELL_COVERED || cell == '\t';
}

/* The text of the row's first count cells; valid until the next call. */
static const char *cells_text(struct screen *s, const struct row *row, size_t count, size_t *ret_length)
{
    while (!row->wrapped && count > 0 && cell_is_blank(row->cells[count - 1]))
        count--;
    s->scratch.length = *ret_length = 0;
    char *text = buffer_reserve(&s->scratch, 4 * count + 1);
    for (size_t at = 0; at < count; at++)
        if (row->cells[at] != CELL_COVERED)
            *ret_length += encode(row->cells[at], text + *ret_length);
    return text;
}

static const char *row_text(struct screen *s, const struct row *row, size_t *ret_length)
{
    *ret_length = row->plain_length;
    return row->plain != NULL ? row->plain : cells_text(s, row, row->count, ret_length);
}

static void row_reset(struct row *row)
{
    row->plain = NULL;
    row->plain_length = row->count = 0;
    row->completed = row->fresh = row->wrapped = false;
    row->above.length = 0;
}

static void emit_above(struct screen *s, const struct row *row)
{
    for (size_t at = 0; at < row->above.length;) {
        const char *line = row->above.data + at;
        size_t length = (size_t)((const char *)memchr(line, '\n', row->above.length - at) - line);
        s->sink->line(s->sink->context, line, length);
        at += length + 1;
    }
}

static void emit_joined(struct screen *s)
{
    s->sink->line(s->sink->context, s->joined.data, s->joined.length);
    s->joined.length = 0;
}

/* A row that went on in the next one is one line with it. */
static void emit_row(struct screen *s, struct row *row)
{
    size_t length;
    emit_above(s, row);
    const char *text = row_text(s, row, &length);
    if (row->wrapped || s->joined.length > 0)
        buffer_append(&s->joined, text, length);
    else
        s->sink->line(s->sink->context, text, length);
    if (s->joined.length > 0 && (!row->wrapped || s->joined.length > JOINED_MAX))
        emit_joined(s);
    row_reset(row);
}

void screen_scroll_out(struct screen *s)
{
    while (s->count > 1 && s->y < s->count - 1 && screen_row(s, s->count - 1)->count == 0 &&
           screen_row(s, s->count - 1)->plain == NULL && screen_row(s, s->count - 1)->above.length == 0)
        row_reset(screen_row(s, --s->count));
    struct row *last = screen_row(s, s->count - 1);
    bool empty = last->plain == NULL && last->count == 0 && last->above.length == 0;
    for (size_t y = 0; y + empty < s->count; y++)
        emit_row(s, screen_row(s, y));
    if (s->joined.length > 0)
        emit_joined(s);
    row_reset(last);
    s->first = s->x = s->y = 0;
    s->count = 1;
}

void screen_end(struct screen *s)
{
    screen_scroll_out(s);
    for (size_t y = 0; y < FOLD_ROWS; y++) {
        free(s->rows[y].cells);
        buffer_free(&s->rows[y].above);
    }
    buffer_free(&s->scratch);
    buffer_free(&s->joined);
    buffer_free(&s->line);
}

static void row_reserve(struct row *row, size_t count)
{
    if (count <= row->capacity)
        return;
    row->capacity = count < 64 ? 64 : count * 2 < FOLD_COLUMNS ? count * 2 : FOLD_COLUMNS;
    row->cells = xreallocarray(row->cells, row->capacity, sizeof *row->cells);
}

static void row_put_tab(struct row *row, size_t *x)
{
    size_t stop = (*x / TAB_WIDTH + 1) * TAB_WIDTH;
    stop = stop < FOLD_COLUMNS ? stop : FOLD_COLUMNS;
    row_reserve(row, stop);
    row->cells[(*x)++] = '\t';
    while (*x < stop)
        row->cells[(*x)++] = CELL_COVERED;
    row->count = *x;
}

uint32_t screen_decode(const char *data, size_t length, size_t *ret_size)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t size = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    *ret_size = 1;
    if (size == 1)
        return p[0];
    if (size > length || !utf8_is_valid(data, size))
        return CELL_BYTE | p[0];
    uint32_t point = p[0] & (0x7Fu >> size);
    for (size_t at = 1; at < size; at++)
        point = point << 6 | (p[at] & 0x3F);
    *ret_size = size;
    return point;
}

/* Plain text becomes cells. One that is too long for that is left as a line of its own, and the row begun
 * anew. */
static void row_thaw(struct row *row)
{
    size_t x = 0, size;
    const char *text = STEAL(row->plain);
    if (row->plain_length > FOLD_COLUMNS / TAB_WIDTH) {
        buffer_append(&row->above, text, row->plain_length);
        buffer_append_char(&row->above, '\n');
        row->plain_length = 0;
    }
    for (size_t at = 0; at < row->plain_length; at += size) {
        uint32_t cell = screen_decode(text + at, row->plain_length - at, &size);
        row_reserve(row, x + 1);
        if (cell == '\t')
            row_put_tab(row, &x);
        else
            row->cells[x++] = cell;
    }
    row->count = x;
    row->plain_length = 0;
}

/* Work that grows with a row's width has to be paid by input, else few bytes could ask for much of it. */
static bool screen_afford(struct screen *s, size_t cells)
{
    s->work = s->work > cells ? s->work - cells : 0;
    return s->work > 0;
}

static struct row *row_for_change(struct screen *s, size_t y)
{
    struct row *row = screen_row(s, y);
    if (row->plain != NULL)
        row_thaw(row);
    return row;
}

static bool offer(struct screen *s, struct row *row, const char *text, size_t length, bool completed)
{
    if (length == 0 || !s->sink->rescue(s->sink->context, text, length, completed))
        return false;
    buffer_append(&row->above, text, length);
    buffer_append_char(&row->above, '\n');
    return true;
}

/* Rows that went on in the next one, whole; valid until the next call. */
static const char *line_text(struct screen *s, size_t first, size_t last, size_t *ret_length)
{
    if (first == last)
        return row_text(s, screen_row(s, first), ret_length);
    s->line.length = 0;
    for (size_t y = first; y <= last; y++) {
        const char *text = row_text(s, screen_row(s, y), ret_length);
        buffer_append(&s->line, text, *ret_length);
    }
    *ret_length = s->line.length;
    return s->line.data;
}

/* Before cells of a row that were printed are lost: the line that it is of is offered, and its rows. A whole
 * screen of bars may be one line: it counts as completed only row by row. */
static void row_rescue(struct screen *s, size_t y)
{
    size_t length, first = y, last = y;
    if (!screen_row(s, y)->fresh || s->sink->rescue == NULL)
        return;
    while (first > 0 && screen_row(s, first - 1)->wrapped)
        first--;
    while (last + 1 < s->count && screen_row(s, last)->wrapped)
        last++;
    size_t cells = last > first ? (last - first + 1) * s->columns : screen_row(s, y)->count;
    if (!screen_afford(s, RESCUE_COST * cells))
        return;
    for (size_t at = first; at <= last; at++)
        screen_row(s, at)->fresh = false;
    const char *text = line_text(s, first, last, &length);
    if (last > first && offer(s, screen_row(s, first), text, length, false))
        return;
    for (size_t at = first; at <= last; at++) {
        text = row_text(s, screen_row(s, at), &length);
        offer(s, screen_row(s, at), text, length, screen_row(s, at)->completed);
    }
}

/* A line that was written over a longer one, whose end still stands behind it, is hard to tell from that: it
 * is offered alone too. */
static void rescue_over(struct screen *s, struct row *row)
{
    size_t length;
    if (row->plain != NULL || s->printed == 0 || s->printed >= row->count || s->sink->rescue == NULL ||
        !screen_afford(s, RESCUE_COST * s->printed))
        return;
    const char *text = cells_text(s, row, s->printed, &length);
    offer(s, row, text, length, true);
}

void screen_begin(struct screen *s, const struct fold_sink *sink, size_t input, size_t columns)
{
    *s = (struct screen){ .sink = sink, .count = 1, .work = input * WORK_FACTOR + WORK_BASE };
    s->columns = columns == 0 || columns > FOLD_COLUMNS ? FOLD_COLUMNS : columns;
}

void screen_discard(struct screen *s)
{
    for (size_t y = 0; y < s->count; y++) {
        row_for_change(s, y);
        row_rescue(s, y);
        emit_above(s, screen_row(s, y));
        row_reset(screen_row(s, y));
    }
    s->count = 1;
    s->x = s->y = 0;
}

void screen_note(struct screen *s, const char *text, size_t length)
{
    if (s->sink->rescue != NULL)
        offer(s, screen_row(s, s->y), text, length, false);
}

/* A tab that is partly overwritten becomes the blanks that it stood for. */
static void untab(struct row *row, size_t x)
{
    size_t begin = x;
    if (x >= row->count || (row->cells[x] != CELL_COVERED && row->cells[x] != '\t'))
        return;
    while (begin > 0 && row->cells[begin] == CELL_COVERED)
        begin--;
    row->cells[begin] = ' ';
    for (size_t at = begin + 1; at < row->count && row->cells[at] == CELL_COVERED; at++)
        row->cells[at] = ' ';
}

/* Blanks up to the cursor; what cannot be afforded is left out. */
static void pad_to_cursor(struct screen *s, struct row *row)
{
    if (s->x > row->count && !screen_afford(s, s->x - row->count))
        s->x = row->count;
    row_reserve(row, s->x);
    while (row->count < s->x)
        row->cells[row->count++] = ' ';
}

void screen_line_feed(struct screen *s)
{
    rescue_over(s, screen_row(s, s->y));
    s->printed = 0;
    screen_row(s, s->y)->completed = true;
    if (++s->y < s->count) {
        s->moved = true; /* onto a row that has text */
        return;
    }
    if (s->count < FOLD_ROWS) {
        s->count++;
        return;
    }
    emit_row(s, screen_row(s, 0));
    s->first = (s->first + 1) % FOLD_ROWS;
    s->y--;
}

void screen_plain_line(struct screen *s, const char *text, size_t length)
{
    struct row *row = screen_row(s, s->y);
    row->plain = text;
    row->plain_length = length;
    row->fresh = true;
    screen_line_feed(s);
    s->x = 0;
}

void screen_print(struct screen *s, uint32_t cell)
{
    if (s->x >= s->columns) {
        struct row *full = row_for_change(s, s->y);
        pad_to_cursor(s, full);
        if (!full->wrapped && s->y + 1 < s->count)
            row_rescue(s, s->y + 1); /* as the line that it was: it will look like the end of this one */
        full->wrapped = true;
        screen_line_feed(s);
        s->x = 0;
    }
    struct row *row = row_for_change(s, s->y);
    if (s->x < row->count) {
        if (s->moved)
            row_rescue(s, s->y);
        untab(row, s->x);
    }
    s->moved = false;
    row->wrapped = row->wrapped && s->x + 1 < s->columns;
    pad_to_cursor(s, row);
    row_reserve(row, s->x + 1);
    row->cells[s->x++] = cell;
    s->printed = s->x;
    row->count = s->x > row->count ? s->x : row->count;
    row->fresh = true;
}

/* Moves over what stands there; at the end of the row it is kept as a tab. */
void screen_tab(struct screen *s)
{
    struct row *row = row_for_change(s, s->y);
    size_t stop = (s->x / TAB_WIDTH + 1) * TAB_WIDTH;
    if (s->x >= row->count && stop < s->columns) {
        pad_to_cursor(s, row);
        row_put_tab(row, &s->x);
    } else {
        s->x = stop < s->columns ? stop : s->columns - 1;
    }
}

void screen_settle(struct screen *s)
{
    s->x = s->x < s->columns ? s->x : s->columns - 1;
}

void screen_go(struct screen *s, size_t x, size_t y)
{
    y = y < FOLD_ROWS ? y : FOLD_ROWS - 1;
    s->moved = s->moved || y != s->y || x < s->x;
    if (y > s->y)
        screen_row(s, s->y)->completed = true;
    s->printed = y == s->y ? s->printed : 0;
    s->x = x < s->columns ? x : s->columns - 1;
    s->y = y;
    if (y >= s->count)
        s->count = y + 1;
}

void screen_erase(struct screen *s, size_t y, size_t begin, size_t end)
{
    struct row *row = row_for_change(s, y);
    end = end < row->count ? end : row->count;
    if (begin >= end || !screen_afford(s, end - begin))
        return;
    row_rescue(s, y);
    untab(row, begin);
    if (end < row->count)
        untab(row, end);
    for (size_t at = begin; at < end; at++)
        row->cells[at] = ' ';
    if (end == row->count) {
        row->count = begin;
        row->wrapped = false;
    }
}

void screen_delete(struct screen *s, size_t y, size_t begin, size_t count)
{
    struct row *row = row_for_change(s, y);
    if (begin >= row->count || !screen_afford(s, row->count))
        return;
    row_rescue(s, y);
    row->wrapped = false;
    count = count < row->count - begin ? count : row->count - begin;
    for (size_t at = 0; at < row->count; at++)
        untab(row, at);
    memmove(row->cells + begin, row->cells + begin + count,
            (row->count - begin - count) * sizeof *row->cells);
    row->count -= count;
}

void screen_insert(struct screen *s, size_t y, size_t begin, size_t count)
{
    struct row *row = row_for_change(s, y);
    if (begin >= row->count || !screen_afford(s, row->count))
        return;
    row_rescue(s, y);
    for (size_t at = 0; at < row->count; at++)
        untab(row, at);
    row->wrapped = false;
    count = count < s->columns - begin ? count : s->columns - begin;
    size_t kept =
        row->count - begin < s->columns - begin - count ? row->count - begin : s->columns - begin - count;
    row_reserve(row, begin + count + kept);
    memmove(row->cells + begin + count, row->cells + begin, kept * sizeof *row->cells);
    for (size_t at = begin; at < begin + count; at++)
        row->cells[at] = ' ';
    row->count = begin + count + kept;
}
