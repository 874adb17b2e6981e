/* The shapes that were seen, each with a number. Bounded: shapes beyond SHAPES_MAX stay unknown, and
 * their lines pass for rare. */
#ifndef TEXT_SHAPES_H
#define TEXT_SHAPES_H

#include <stddef.h>
#include <stdint.h>

enum { SHAPES_MAX = 1 << 16, SHAPE_NONE = UINT32_MAX };

struct shape {
    uint64_t hash;
    uint32_t total; /* lines of it so far */
    /* The run of lines near each other that is being followed in the block: its length, its first and last
     * line, and the place of that among lines that are not noise. */
    uint32_t run, first, last, last_place;
};

struct shapes;
struct shapes *shapes_new(void);
void shapes_free(struct shapes *s);
/* The number of a shape, SHAPE_NONE where no more fit. */
uint32_t shapes_number(struct shapes *s, uint64_t hash);
struct shape *shapes_at(struct shapes *s, uint32_t number);

#endif
