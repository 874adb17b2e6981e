/* The rows of the terminal that fold.c drives. */
#ifndef TEXT_SCREEN_H
#define TEXT_SCREEN_H

#include "lib/base/buffer.h"
#include "lib/text/fold.h"

/* A cell is a code point, CELL_BYTE | a byte that is no part of one, or CELL_COVERED: what a tab before it
 * passes over. */
enum { CELL_COVERED = 0 };
#define CELL_BYTE 0x80000000u

struct row {
    const char *plain; /* the whole text, while nothing but printing has happened to it; else NULL */
    size_t plain_length;
    uint32_t *cells;
    size_t count, capacity;
    bool completed;      /* the cursor has left it downwards */
    bool fresh;          /* printed to since it was last offered for rescue */
    bool wrapped;        /* what was printed went on in the next row */
    struct buffer above; /* rescued lines, each with its end */
};

struct screen {
    const struct fold_sink *sink;
    struct row rows[FOLD_ROWS]; /* a ring */
    size_t first, count;        /* count >= 1 */
    size_t x, y;                /* the cursor; y < count */
    size_t printed;             /* column after what was printed last in the cursor's row, 0 = nothing */
    bool moved;                 /* by other means than printing and line feeds since the last rescue */
    bool absolute;              /* an absolute move has begun a page */
    size_t work;                /* cells that may still be moved, erased or looked at for rescue */
    size_t columns;
    struct buffer scratch;
    struct buffer line;   /* for rescue */
    struct buffer joined; /* rows that went on in the next, of which that is still on the screen */
};

void screen_begin(struct screen *s, const struct fold_sink *sink, size_t input, size_t columns);
void screen_end(struct screen *s); /* hands out what is left, and frees */
struct row *screen_row(struct screen *s, size_t y);
/* The cursor's row, which is empty: becomes text, which outlives the screen, and the cursor goes to the next.
 */
void screen_plain_line(struct screen *s, const char *text, size_t length);
void screen_print(struct screen *s, uint32_t cell);
void screen_tab(struct screen *s);
void screen_line_feed(struct screen *s); /* down, scrolling; the column stays */
/* After printing in the last column the cursor stands beyond it, until the next thing is printed or it is
 * moved. */
void screen_settle(struct screen *s);
void screen_go(struct screen *s, size_t x, size_t y);
void screen_scroll_out(struct screen *s); /* everything; the cursor is at the top then */
void screen_discard(struct screen *s);    /* everything but what is rescued */
/* Text that the screen does not show: is offered for rescue. */
void screen_note(struct screen *s, const char *text, size_t length);
/* The cell for what data begins with: a code point, or one byte that begins none. */
uint32_t screen_decode(const char *data, size_t length, size_t *ret_size);
/* Cells of a row from begin to end (beyond its end is fine) become blank, or go and what follows moves up. */
void screen_erase(struct screen *s, size_t y, size_t begin, size_t end);
void screen_delete(struct screen *s, size_t y, size_t begin, size_t count);
void screen_insert(struct screen *s, size_t y, size_t begin, size_t count);

#endif
