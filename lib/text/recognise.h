/* One line -> its shape, its kind, and whether it tells of a failure. */
#ifndef TEXT_RECOGNISE_H
#define TEXT_RECOGNISE_H

#include "lib/text/rows.h"

#include <stdint.h>

struct line_facts {
    uint64_t shape; /* equal for lines that differ only in numbers, hashes, times, percentages and paths */
    enum line_kind kind;
    enum line_level level;
    bool sure;     /* of the kind, whatever the words say */
    bool loose;    /* only where lines of this shape are many */
    bool has_path; /* the shape stands for a path, or a name of a file */
    bool sentence; /* three words or more, and of no kind for sure */
    bool solid;    /* more than punctuation, and neither code nor data */
    bool columns;  /* of KIND_NAME: more than one name */
};

struct recogniser;
struct recogniser *recogniser_new(void);
void recogniser_free(struct recogniser *r);
static inline void recogniser_free_pointer(struct recogniser **r)
{
    recogniser_free(*r);
}
#define _cleanup_recogniser_ __attribute__((cleanup(recogniser_free_pointer)))

void recognise(const struct recogniser *r, const char *line, size_t length, struct line_facts *ret);
/* Whether what stands between two blanks is a path, or a name of a file. */
bool recognise_path(const char *begin, const char *stop);

#endif
