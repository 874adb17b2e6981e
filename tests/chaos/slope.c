/* Medians and slopes. Knows nothing of what is measured. */
#include "tests/chaos/slope.h"

#include "lib/base/memory.h"

#include <stdio.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void slope_add(struct slope *s, double at, double value)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 64;
        s->at = xreallocarray(s->at, s->capacity, sizeof *s->at);
        s->value = xreallocarray(s->value, s->capacity, sizeof *s->value);
    }
    s->at[s->count] = at;
    s->value[s->count++] = value;
}

static size_t first_from(const struct slope *s, double from)
{
    size_t k = 0;
    while (k < s->count && s->at[k] < from)
        k++;
    return k;
}

double slope_median(const struct slope *s, double from)
{
    size_t first = first_from(s, from), count = s->count - first;
    _cleanup_free_ double *values = xmemdup(s->value + first, count * sizeof *values + 1);
    return median(values, count);
}

double slope_of(const struct slope *s, double from)
{
    size_t first = first_from(s, from), n = s->count - first, count = 0;
    _cleanup_free_ double *slopes = xcalloc(n * n / 2 + 1, sizeof *slopes);
    for (size_t a = first; a < s->count; a++)
        for (size_t b = a + 1; b < s->count; b++)
            slopes[count++] = (s->value[b] - s->value[a]) / (s->at[b] - s->at[a]);
    return median(slopes, count);
}

bool slope_judge(const struct slope *s, double from)
{
    size_t first = first_from(s, from);
    if (s->count - first < 4) {
        printf("%-34s too few samples\n", s->name);
        return false;
    }
    double slope = slope_of(s, from), middle = slope_median(s, from);
    double grown = slope * (s->at[s->count - 1] - s->at[first]);
    double share = middle * s->allowed_share, allowed = s->allowed > share ? s->allowed : share;
    bool flat = grown <= allowed;
    printf("%-34s %12.2f %-4s %+12.3f an hour  %+10.2f here, allowed %.2f%s\n", s->name, middle, s->unit,
           slope * 3600, grown, allowed, flat ? "" : "   GROWS");
    return flat;
}
