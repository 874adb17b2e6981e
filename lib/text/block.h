/* A piece of an output, as lines of which some are left out. */
#ifndef TEXT_BLOCK_H
#define TEXT_BLOCK_H

#include "lib/base/buffer.h"
#include "lib/text/recognise.h"
#include "lib/text/shapes.h"

enum { BLOCK_LINES = 1 << 16, BLOCK_BYTES = 4 << 20 };

struct line {
    const char *data;
    uint32_t length;
    uint32_t shape; /* its number in shapes, SHAPE_NONE where it has none */
    uint8_t kind;   /* enum line_kind; what it is counted as where it is left out */
    uint8_t level;  /* enum line_level */
    bool sure, loose, has_path, columns, solid; /* see struct line_facts */
    bool keep;                                  /* in any case */
    bool same;                                  /* one of many in a row that are equal byte by byte */
    bool left_out;
};

struct block {
    struct line lines[BLOCK_LINES];
    size_t count;
    bool first, last; /* of the output */
};

/* What is known of the output besides the block. */
struct progress {
    struct shapes *shapes;
    const struct section_row *section; /* everything stays until it ends */
    size_t context_left;               /* lines that may still belong to a failure */
    bool indented_only;                /* only those that are indented, or closing */
    size_t skips;                      /* lines of skipped tests so far */
    bool difference;                   /* lines of a diff: content, all of which stays */
};

/* Decides what is left out. */
void block_mark_same(struct block *b);
void block_mark_failures(struct block *b, struct progress *p);
void block_mark_listings(struct block *b, const struct progress *p);
void block_mark_repeated(struct block *b, struct progress *p);
void block_choose(struct block *b, struct progress *p);

struct tally {
    size_t left_out[KINDS];
    size_t kept, repeated; /* repeated: times that a line stood again right after itself */
};

void block_write(const struct block *b, struct buffer *out, struct tally *tally);
/* "640 passing tests, 95 progress lines"; nothing where all are 0. */
void tally_write(const size_t counts[KINDS], struct buffer *out);

#endif
