/* Samples and the table that a benchmark prints. */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include <stddef.h>

struct samples {
    double *values;
    size_t count, capacity;
};
void samples_add(struct samples *s, double value);
double samples_percentile(struct samples *s, double percent); /* sorts */
void samples_free(struct samples *s);

double now_us(void); /* CLOCK_MONOTONIC, comparable with stamps written inside a sandbox */

void table_begin(void);
/* Times in milliseconds: measured beside the plain way (may be NULL or empty) and the figure to reach (0 =
 * none) of the median. */
void table_times(const char *name, struct samples *measured, struct samples *plain, double reach);
/* One number; at_least: reach is a lower bound. plain < 0 = none. */
void table_number(const char *name, double measured, const char *unit, double plain, double reach,
                  int at_least);
/* Under load beside idle, with the ratio of the medians; reach (0 = none) is for the 99th percentile under
 * load, and says nothing where the idle one is over it already: then others use the machine. */
void table_load_begin(void);
void table_load(const char *name, struct samples *loaded, struct samples *idle, double reach);
int table_end(void); /* 0 = every figure was reached */

#endif
