/* Owns: a grid of bytes and the plain meaning of each sequence. */
#include "tests/support/terminal.h"

#include <stdio.h>

struct terminal {
    char cells[TERMINAL_ROWS][TERMINAL_COLUMNS];
    int x, y, saved_x, saved_y;
    int parameter; /* the first one, -1 = none */
};

static int clamp(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static void blank(struct terminal *t, int y, int begin, int end)
{
    for (int x = begin; x < end && x < TERMINAL_COLUMNS; x++)
        t->cells[y][x] = ' ';
}

static void control(struct terminal *t, char what)
{
    int by = t->parameter > 0 ? t->parameter : 1, mode = t->parameter > 0 ? t->parameter : 0;
    char *row = t->cells[t->y];
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
        t->x = clamp(t->x + by, TERMINAL_COLUMNS - 1);
        break;
    case 'D':
        t->x = clamp(t->x - by, TERMINAL_COLUMNS - 1);
        break;
    case 'G':
        t->x = clamp(by - 1, TERMINAL_COLUMNS - 1);
        break;
    case 'J':
        for (int y = mode == 0 ? t->y + 1 : 0; y < (mode == 0 ? TERMINAL_ROWS : t->y); y++)
            blank(t, y, 0, TERMINAL_COLUMNS);
        blank(t, t->y, mode == 0 ? t->x : 0, mode == 0 ? TERMINAL_COLUMNS : t->x + 1);
        break;
    case 'K':
        blank(t, t->y, mode == 0 ? t->x : 0, mode == 1 ? t->x + 1 : TERMINAL_COLUMNS);
        break;
    case 'X':
        blank(t, t->y, t->x, t->x + by);
        break;
    case 'P':
        for (int x = t->x; x < TERMINAL_COLUMNS; x++)
            row[x] = x + by < TERMINAL_COLUMNS ? row[x + by] : ' ';
        break;
    case '@':
        for (int x = TERMINAL_COLUMNS - 1; x >= t->x; x--)
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
        t->x = clamp(t->x - 1, TERMINAL_COLUMNS - 1);
        return 1;
    case '\t':
        t->x = clamp((t->x / 8 + 1) * 8, TERMINAL_COLUMNS - 1);
        return 1;
    }
    t->cells[t->y][t->x] = data[0];
    t->x = clamp(t->x + 1, TERMINAL_COLUMNS - 1);
    return 1;
}

void terminal_show(const char *data, size_t length, struct buffer *out)
{
    struct terminal *t = xcalloc(1, sizeof *t);
    memset(t->cells, ' ', sizeof t->cells);
    for (size_t at = 0; at < length;)
        at += step(t, data + at, length - at);
    size_t full = 0;
    for (int y = 0; y < TERMINAL_ROWS; y++) {
        int end = TERMINAL_COLUMNS;
        while (end > 0 && t->cells[y][end - 1] == ' ')
            end--;
        buffer_append(out, t->cells[y], (size_t)end);
        buffer_append_char(out, '\n');
        full = end > 0 ? out->length : full;
    }
    out->length = full;
    free(t);
}
