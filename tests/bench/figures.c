/* Keeps samples, sorts them, prints rows. Knows nothing of what is measured. */
#include "tests/bench/figures.h"

#include "lib/base/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

static int missed;

void samples_add(struct samples *s, double value)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 64;
        s->values = xreallocarray(s->values, s->capacity, sizeof *s->values);
    }
    s->values[s->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_percentile(struct samples *s, double percent)
{
    if (s->count == 0)
        return 0;
    qsort(s->values, s->count, sizeof *s->values, compare);
    size_t at = (size_t)((double)s->count * percent / 100);
    return s->values[at < s->count ? at : s->count - 1];
}

void samples_free(struct samples *s)
{
    free(s->values);
    memset(s, 0, sizeof *s);
}

double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void table_begin(void)
{
    printf("%-50s %10s %10s %10s %12s %12s\n", "figure", "p50", "p95", "p99", "plain way", "to reach");
}

void table_times(const char *name, struct samples *measured, struct samples *plain, double reach)
{
    double p50 = samples_percentile(measured, 50);
    char other[32] = "-", want[32] = "-";
    if (plain && plain->count)
        snprintf(other, sizeof other, "%.2f ms", samples_percentile(plain, 50));
    if (reach > 0)
        snprintf(want, sizeof want, "<= %.0f ms", reach);
    printf("%-50s %7.2f ms %7.2f ms %7.2f ms %12s %12s%s\n", name, p50, samples_percentile(measured, 95),
           samples_percentile(measured, 99), other, want, reach > 0 && p50 > reach ? "  MISSED" : "");
    missed += reach > 0 && p50 > reach;
    fflush(stdout);
}

void table_number(const char *name, double measured, const char *unit, double plain, double reach,
                  int at_least)
{
    char other[32] = "-", want[48] = "-";
    int short_of = reach > 0 && (at_least ? measured < reach : measured > reach);
    if (plain >= 0)
        snprintf(other, sizeof other, "%.1f", plain);
    if (reach > 0)
        snprintf(want, sizeof want, "%s %g", at_least ? ">=" : "<=", reach);
    printf("%-50s %10.2f %-21s %12s %12s%s\n", name, measured, unit, other, want, short_of ? "  MISSED" : "");
    missed += short_of;
    fflush(stdout);
}

void table_load_begin(void)
{
    printf("%-50s %10s %10s %10s %12s %12s %7s %12s\n", "under load", "p50", "p95", "p99", "idle p50",
           "idle p99", "ratio", "p99 to reach");
}

void table_load(const char *name, struct samples *loaded, struct samples *idle, double reach)
{
    double p50 = samples_percentile(loaded, 50), p99 = samples_percentile(loaded, 99),
           idle_p50 = samples_percentile(idle, 50);
    double idle_p99 = samples_percentile(idle, 99);
    bool over = reach > 0 && p99 > reach, busy = over && idle_p99 > reach;
    char want[32] = "-";
    if (reach > 0)
        snprintf(want, sizeof want, "<= %.0f ms", reach);
    printf("%-50s %7.2f ms %7.2f ms %7.2f ms %9.2f ms %9.2f ms %7.1f %12s%s\n", name, p50,
           samples_percentile(loaded, 95), p99, idle_p50, idle_p99, idle_p50 > 0 ? p50 / idle_p50 : 0, want,
           busy   ? "  not told: the machine is busy, idle is over it too"
           : over ? "  MISSED"
                  : "");
    missed += over && !busy;
    fflush(stdout);
}

int table_end(void)
{
    printf("%s\n", missed ? "some figures were missed" : "every figure was reached");
    return missed ? 1 : 0;
}
