/* A column of numbers, one of each line, and those of them that break its pattern: far from all others, or a
 * step that is none of the others'.
 *
 * Every number is told three times, in order: first to series_add, then to series_weigh, then to
 * series_is_odd. Memory and work for each number are bounded. */
#ifndef TEXT_SERIES_H
#define TEXT_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct series_number {
    double amount;  /* what it is worth, with its unit */
    uint64_t count; /* its last group of digits, which is what counts on */
    /* Its place among the numbers of the column, and that of its line among all lines: a counter may have
     * counted those between as well. */
    size_t at, line;
};

/* So many, and the least and most of them. */
struct series_tier {
    size_t count;
    double least, most;
};

/* Of one factor of 8 each: what is 10 times another is never in the same. */
enum { SERIES_TIERS = 32 };

struct series {
    struct series_tier amounts[SERIES_TIERS], steps[SERIES_TIERS];
    size_t zeros, numbers, ups, downs;
    uint64_t step; /* Boyer and Moore's candidate of the most frequent */
    size_t votes, usual;
    struct series_number last;
    double low, high, far; /* far: a longer step is no usual one */
    int direction;         /* -1, 1; 0 = both */
    bool zero_is_odd, counts;
    struct series_number ordinary; /* the latest that is in order */
};

void series_add(struct series *s, struct series_number n);
void series_weigh(struct series *s, struct series_number n);
/* After the last one was weighed. */
void series_settle(struct series *s);
bool series_is_odd(struct series *s, struct series_number n);

/* Whether so many of all are exceptions and no pattern of their own. */
bool series_is_few(size_t some, size_t all);

#endif
