/* Owns: a grid of bytes and the plain meaning of each sequence. */
#include "tests/support/terminal.h"

#include <stdbool.h>

struct terminal {
    char cells[TERMINAL_ROWS][TERMINAL_COLUMNS];
    bool wrapped[TERMINAL_ROWS];
    int columns;
    int x, y, saved_x, saved_y; /* x == columns: the next character goes to the next row */
    int parameter;              /* the first one, -1 = none */
};

static int clamp(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static void blank(struct terminal *t, int y, int begin, int end)
{
    for (int x = begin; x < end && x < t->columns; x++)
        t->cells[y][x] = ' ';
    t->wrapped[y] = t->wrapped[y] && (end < t->columns || begin >= t->columns);
}

static void control(struct terminal *t, char what)
{
    int by = t->parameter > 0 ? t->parameter : 1, mode = t->parameter > 0 ? t->parameter : 0;
    char *row = t->cells[t->y];
    if (what == 'm')
        return;
    if (strchr("ABCDEFG", what) != NULL)
        t->x = clamp(t->x, t->columns - 1);
    t->wrapped[t->y] = t->wrapped[t->y] && (t->x == t->columns || (what != 'P' && what != '@'));
    switch (what) {
    case 'A':
    case 'F':
        t->y = clamp(t->y - by, TERMINAL_ROWS - 1);
        break;
    case 'B':
    case 'E':
        t->y = clamp(t->y + by, TERMINAL_ROWS - 1);
        break;
    case 'C':
        t->x = clamp(t->x + by, t->columns - 1);
        break;
    case 'D':
        t->x = clamp(t->x - by, t->columns - 1);
        break;
    case 'G':
        t->x = clamp(by - 1, t->columns - 1);
        break;
    case 'J':
        for (int y = mode == 0 ? t->y + 1 : 0; y < (mode == 0 ? TERMINAL_ROWS : t->y); y++)
            blank(t, y, 0, t->columns);
        blank(t, t->y, mode == 0 ? t->x : 0, mode == 0 ? t->columns : t->x + 1);
        break;
    case 'K':
        blank(t, t->y, mode == 0 ? t->x : 0, mode == 1 ? t->x + 1 : t->columns);
        break;
    case 'X':
        blank(t, t->y, t->x, t->x + by);
        break;
    case 'P':
        for (int x = t->x; x < t->columns; x++)
            row[x] = x + by < t->columns ? row[x + by] : ' ';
        break;
    case '@':
        for (int x = t->columns - 1; x >= t->x; x--)
            row[x] = x - by >= t->x ? row[x - by] : ' ';
        break;
    case 's':
        t->saved_x = t->x;
        t->saved_y = t->y;
        break;
    case 'u':
        t->x = t->saved_x;
        t->y = t->saved_y;
        break;
    }
    if (what == 'E' || what == 'F')
        t->x = 0;
}

static size_t escape(struct terminal *t, const char *data, size_t length)
{
    size_t at = 2;
    t->parameter = -1;
    if (length > 1 && data[1] == ']') {
        while (at < length && data[at] != '\a')
            at++;
        return at + 1;
    }
    for (; at < length && ((data[at] >= '0' && data[at] <= '9') || data[at] == ';'); at++)
        if (data[at] != ';')
            t->parameter = (t->parameter < 0 ? 0 : t->parameter * 10) + data[at] - '0';
    control(t, data[at]);
    return at + 1;
}

static size_t step(struct terminal *t, const char *data, size_t length)
{
    switch (data[0]) {
    case 0x1B:
        return escape(t, data, length);
    case '\n':
        t->y = clamp(t->y + 1, TERMINAL_ROWS - 1);
        t->x = 0;
        return 1;
    case '\r':
        t->x = 0;
        return 1;
    case '\b':
        t->x = clamp(clamp(t->x, t->columns - 1) - 1, t->columns - 1);
        return 1;
    case '\t':
        t->x = clamp((t->x / 8 + 1) * 8, t->columns - 1);
        return 1;
    }
    if (t->x == t->columns) {
        t->wrapped[t->y] = true;
        t->y = clamp(t->y + 1, TERMINAL_ROWS - 1);
        t->x = 0;
    }
    t->wrapped[t->y] = t->wrapped[t->y] && t->x + 1 < t->columns;
    t->cells[t->y][t->x++] = data[0];
    return 1;
}

void terminal_show(const char *data, size_t length, size_t columns, struct buffer *out)
{
    struct terminal *t = xcalloc(1, sizeof *t);
    memset(t->cells, ' ', sizeof t->cells);
    t->columns = columns == 0 ? TERMINAL_COLUMNS : (int)columns;
    for (size_t at = 0; at < length;)
        at += step(t, data + at, length - at);
    size_t full = 0;
    for (int y = 0; y < TERMINAL_ROWS; y++) {
        int end = t->columns;
        buffer_append(out, t->cells[y], (size_t)end);
        if (t->wrapped[y])
            continue;
        while (out->length > 0 && out->data[out->length - 1] == ' ')
            out->length--;
        bool empty = out->length == 0 || out->data[out->length - 1] == '\n';
        buffer_append_char(out, '\n');
        full = empty ? full : out->length;
    }
    out->length = full;
    free(t);
}
