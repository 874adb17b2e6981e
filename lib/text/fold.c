/* Owns: what control bytes and escape sequences do to the screen. Must not know what the text means. */
#include "lib/text/fold.h"

#include "lib/text/escape.h"
#include "lib/text/screen.h"

enum { ESC = 0x1B, STATUS_MAX = 4096 };

struct terminal {
    struct screen screen;
    size_t saved_x, saved_y;
    bool was_saved;
    bool saved;           /* and nothing was printed since */
    bool overlay;         /* drawing a status line */
    struct buffer status; /* what it says */
};

/* Length of the run without control bytes; tabs count as text. */
static size_t text_run(const char *data, size_t length)
{
    static const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    size_t at = 0;
    for (;;) {
        for (uint64_t word; at + sizeof word <= length; at += sizeof word) {
            memcpy(&word, data + at, sizeof word);
            if (((word - ones * 0x20) & ~word & highs) != 0)
                break;
        }
        size_t stop = at + sizeof(uint64_t) < length ? at + sizeof(uint64_t) : length;
        for (; at < stop; at++)
            if ((unsigned char)data[at] < 0x20 && data[at] != '\t')
                return at;
        if (at >= length)
            return length;
    }
}

static void end_overlay(struct terminal *t)
{
    if (t->overlay && t->status.length > 0)
        screen_note(&t->screen, t->status.data, t->status.length);
    t->overlay = t->saved = false;
    t->status.length = 0;
}

static void print(struct terminal *t, const char *data, size_t length)
{
    size_t size;
    t->saved = t->saved && t->overlay;
    if (t->overlay) {
        size_t room = STATUS_MAX - t->status.length;
        buffer_append(&t->status, data, length < room ? length : room);
        return;
    }
    for (size_t at = 0; at < length; at += size) {
        uint32_t cell = screen_decode(data + at, length - at, &size);
        if (cell == '\t')
            screen_tab(&t->screen);
        else
            screen_print(&t->screen, cell);
    }
}

static void save_cursor(struct terminal *t)
{
    end_overlay(t);
    t->saved_x = t->screen.x;
    t->saved_y = t->screen.y;
    t->saved = t->was_saved = true;
}

static void restore_cursor(struct terminal *t)
{
    struct screen *s = &t->screen;
    if (t->overlay)
        end_overlay(t);
    else if (t->was_saved)
        screen_go(s, t->saved_x, t->saved_y < s->count ? t->saved_y : s->count - 1);
}

static void go_absolute(struct terminal *t, int column, int row)
{
    if (t->saved || t->overlay) {
        t->overlay = true;
        return;
    }
    if (!t->screen.absolute)
        screen_scroll_out(&t->screen);
    t->screen.absolute = true;
    screen_go(&t->screen, (size_t)(column - 1), (size_t)(row - 1));
}

static void erase_display(struct terminal *t, int what)
{
    struct screen *s = &t->screen;
    size_t x = s->x;
    if (what >= 2 || (what == 0 && s->x == 0 && s->y == 0)) {
        screen_scroll_out(s);
        s->x = x;
        return;
    }
    size_t begin = what == 0 ? s->y + 1 : 0, end = what == 0 ? s->count : s->y;
    for (size_t y = begin; y < end; y++)
        screen_erase(s, y, 0, FOLD_COLUMNS);
    screen_erase(s, s->y, what == 0 ? s->x : 0, what == 0 ? FOLD_COLUMNS : s->x + 1);
}

static void erase_line(struct screen *s, int what)
{
    if (what <= 2)
        screen_erase(s, s->y, what == 0 ? s->x : 0, what == 1 ? s->x + 1 : FOLD_COLUMNS);
}

/* The alternate screen leaves nothing behind. */
static void set_mode(struct terminal *t, const struct escape *e, bool on)
{
    for (int at = 0; at < e->count; at++)
        if (e->parameters[at] == 47 || e->parameters[at] == 1047 || e->parameters[at] == 1049) {
            if (on)
                screen_scroll_out(&t->screen);
            else
                screen_discard(&t->screen);
            t->screen.absolute = on;
        }
}

static void move(struct terminal *t, char control, size_t by)
{
    struct screen *s = &t->screen;
    screen_settle(s);
    size_t up = by < s->y ? s->y - by : 0, left = by < s->x ? s->x - by : 0;
    switch (control) {
    case 'A':
        return screen_go(s, s->x, up);
    case 'B':
        return screen_go(s, s->x, s->y + by);
    case 'C':
        return screen_go(s, s->x + by, s->y);
    case 'D':
        return screen_go(s, left, s->y);
    case 'E':
        return screen_go(s, 0, s->y + by);
    case 'F':
        return screen_go(s, 0, up);
    }
    screen_go(s, by - 1, s->y); /* G and ` */
}

static void run_control(struct terminal *t, const struct escape *e)
{
    struct screen *s = &t->screen;
    int first = escape_parameter(e, 0, 1), what = escape_parameter(e, 0, 0);
    if (e->private_ && (e->control == 'h' || e->control == 'l'))
        return set_mode(t, e, e->control == 'h');
    if (e->control == 'u')
        return restore_cursor(t);
    if (e->private_ || (t->overlay && e->control != 's') || e->control == 'm')
        return;
    switch (e->control) {
    case 'A':
    case 'B':
    case 'C':
    case 'D':
    case 'E':
    case 'F':
    case 'G':
    case '`':
        return move(t, e->control, (size_t)first);
    case 'H':
    case 'f':
        return go_absolute(t, escape_parameter(e, 1, 1), first);
    case 'd':
        return go_absolute(t, (int)s->x + 1, first);
    case 'J':
        return erase_display(t, what);
    case 'K':
        return erase_line(s, what);
    case 'P':
        return screen_delete(s, s->y, s->x, (size_t)first);
    case '@':
        return screen_insert(s, s->y, s->x, (size_t)first);
    case 'X':
        return screen_erase(s, s->y, s->x, s->x + (size_t)first);
    case 's':
        return save_cursor(t);
    }
}

static void run_simple(struct terminal *t, char simple)
{
    struct screen *s = &t->screen;
    switch (simple) {
    case '7':
        return save_cursor(t);
    case '8':
        return restore_cursor(t);
    case 'M':
        return screen_go(s, s->x, s->y > 0 ? s->y - 1 : 0);
    case 'D':
        return screen_line_feed(s);
    case 'E':
        s->x = 0;
        return screen_line_feed(s);
    case 'c':
        screen_scroll_out(s);
        s->absolute = false;
    }
}

static size_t run_escape(struct terminal *t, const char *data, size_t length)
{
    struct escape e;
    size_t size = escape_parse(data, length, &e);
    if (e.control != 0)
        run_control(t, &e);
    else if (e.simple != 0)
        run_simple(t, e.simple);
    return size;
}

/* What begins with a control byte; returns its size. */
static size_t run(struct terminal *t, const char *data, size_t length)
{
    struct screen *s = &t->screen;
    switch (data[0]) {
    case ESC:
        return run_escape(t, data, length);
    case '\n':
        end_overlay(t);
        screen_line_feed(s);
        screen_go(s, 0, s->y);
        break;
    case '\r':
        if (!t->overlay)
            screen_go(s, 0, s->y);
        break;
    case '\b':
        screen_settle(s);
        if (s->x > 0 && !t->overlay)
            screen_go(s, s->x - 1, s->y);
        break;
    case '\v':
    case '\f':
        screen_line_feed(s);
        break;
    }
    return 1;
}

/* Whether a line may need more than a row; where the width is not known, none does. */
static bool is_too_wide(const struct screen *s, const char *data, size_t length)
{
    if (s->columns == FOLD_COLUMNS || length <= s->columns / 8)
        return false;
    return length > s->columns || memchr(data, '\t', length) != NULL;
}

/* A whole line of plain text on an empty last row needs no cells. */
static size_t plain_line(struct terminal *t, const char *data, size_t run_length, size_t left)
{
    struct screen *s = &t->screen;
    const struct row *row = screen_row(s, s->y);
    bool empty = s->x == 0 && row->plain == NULL && row->count == 0 && !t->overlay;
    size_t end = run_length < left && data[run_length] == '\r' ? run_length + 1 : run_length;
    if (!empty || is_too_wide(s, data, run_length) || (end < left && data[end] != '\n') ||
        (end == left && end > run_length))
        return 0;
    t->saved = false;
    screen_plain_line(s, data, run_length);
    return end < left ? end + 1 : end;
}

void fold(const char *raw, size_t length, size_t columns, const struct fold_sink *sink)
{
    struct terminal t = { .saved = false };
    screen_begin(&t.screen, sink, length, columns);
    for (size_t at = 0; at < length;) {
        size_t text = text_run(raw + at, length - at);
        size_t whole =
            text > 0 || raw[at] == '\n' || raw[at] == '\r' ? plain_line(&t, raw + at, text, length - at) : 0;
        if (whole == 0 && text > 0)
            print(&t, raw + at, text);
        at += whole > 0 ? whole : text;
        if (whole == 0 && at < length)
            at += run(&t, raw + at, length - at);
    }
    end_overlay(&t);
    screen_end(&t.screen);
    buffer_free(&t.status);
}
