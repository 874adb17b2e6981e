/* Owns: the table of shapes, by their hash. */
#include "lib/text/shapes.h"

#include "lib/base/memory.h"

enum { SLOTS = 2 * SHAPES_MAX };

struct shapes {
    uint32_t slots[SLOTS]; /* number + 1, 0 = free */
    struct shape *rows;
    uint32_t count, capacity;
};

struct shapes *shapes_new(void)
{
    return xcalloc(1, sizeof(struct shapes));
}

void shapes_free(struct shapes *s)
{
    if (s != NULL)
        free(s->rows);
    free(s);
}

uint32_t shapes_number(struct shapes *s, uint64_t hash)
{
    size_t at = (hash >> 40) % SLOTS;
    for (; s->slots[at] != 0; at = (at + 1) % SLOTS)
        if (s->rows[s->slots[at] - 1].hash == hash)
            return s->slots[at] - 1;
    if (s->count == SHAPES_MAX)
        return SHAPE_NONE;
    if (s->count == s->capacity) {
        s->capacity = s->capacity == 0 ? 256 : s->capacity * 2;
        s->rows = xreallocarray(s->rows, s->capacity, sizeof *s->rows);
    }
    s->rows[s->count] = (struct shape){ .hash = hash };
    s->slots[at] = ++s->count;
    return s->count - 1;
}

struct shape *shapes_at(struct shapes *s, uint32_t number)
{
    return &s->rows[number];
}
