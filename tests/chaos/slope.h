/* Series of samples over time and how steeply they rise. */
#ifndef CHAOS_SLOPE_H
#define CHAOS_SLOPE_H

#include <stdbool.h>
#include <stddef.h>

struct slope {
    const char *name, *unit;
    double allowed,
        allowed_share; /* growth from the first to the last sample that is still flat: the larger of both */
    size_t count, capacity;
    double *at, *value;
};
void slope_add(struct slope *s, double at, double value);
double slope_median(const struct slope *s, double from);
/* Theil-Sen: the median of the slopes between all pairs; outliers, such as a busy machine, do not move it. */
double slope_of(const struct slope *s, double from);
/* Prints a line; false = it grows. What lies before `from` is warming up. */
bool slope_judge(const struct slope *s, double from);
double median(double *values, size_t count); /* sorts them; 0 where there is none */

#endif
