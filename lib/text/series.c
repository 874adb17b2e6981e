/* Owns: what is far from all others, and the pattern of a column's steps. Must not know how a number is
 * written. */
#include "lib/text/series.h"

#include <math.h>

enum {
    MANY = 32,  /* of a column are no exceptions */
    FEW = 20,   /* one of so many, or fewer, is an exception */
    FAR = 10,   /* times the largest of all others */
    STEADY = 8, /* of so many steps all but one go the same way */
    TIER_BITS = 3,
    LOWEST = 24, /* the first tier begins at 2 to the power of -LOWEST */
};

bool series_is_few(size_t some, size_t all)
{
    return some == 1 || (some > 0 && some * FEW <= all);
}

/* Of numbers those that are many are a pattern of their own. each: how many of them one exception makes. */
static bool are_few(size_t some, size_t all, size_t each)
{
    return some > 0 && some <= MANY && (some <= each || some * FEW <= all * each);
}

/* ---- tiers ---- */

static void tiers_add(struct series_tier tiers[static SERIES_TIERS], double amount)
{
    int number = (ilogb(amount) + LOWEST) / TIER_BITS;
    struct series_tier *tier = &tiers[number < 0 ? 0 : number >= SERIES_TIERS ? SERIES_TIERS - 1 : number];
    tier->least = tier->count == 0 || amount < tier->least ? amount : tier->least;
    tier->most = tier->count == 0 || amount > tier->most ? amount : tier->most;
    tier->count++;
}

/* The most that is not far above all others. */
static double highest(const struct series_tier tiers[static SERIES_TIERS], size_t all, size_t each)
{
    double above = INFINITY, limit = INFINITY;
    size_t count = 0;
    for (int at = SERIES_TIERS - 1; at >= 0; at--) {
        if (tiers[at].count == 0)
            continue;
        if (count > 0 && above > FAR * tiers[at].most)
            limit = tiers[at].most;
        count += tiers[at].count;
        above = tiers[at].least;
        if (!are_few(count, all, each))
            break;
    }
    return limit;
}

static double lowest(const struct series_tier tiers[static SERIES_TIERS], size_t all)
{
    double below = 0, limit = 0;
    size_t count = 0;
    for (int at = 0; at < SERIES_TIERS; at++) {
        if (tiers[at].count == 0)
            continue;
        if (count > 0 && below * FAR < tiers[at].least)
            limit = tiers[at].least;
        count += tiers[at].count;
        below = tiers[at].most;
        if (!are_few(count, all, 1))
            break;
    }
    return limit;
}

/* ---- a column ---- */

void series_add(struct series *s, struct series_number n)
{
    double step = s->numbers == 0 ? 0 : n.amount - s->last.amount;
    if (n.amount > 0)
        tiers_add(s->amounts, n.amount);
    s->zeros += n.amount <= 0;
    if (step < 0 || step > 0)
        tiers_add(s->steps, fabs(step));
    s->ups += step > 0;
    s->downs += step < 0;
    if (s->numbers > 0) {
        uint64_t whole = n.count - s->last.count;
        if (s->votes == 0)
            s->step = whole;
        s->votes += whole == s->step ? 1 : (size_t)-1;
    }
    s->numbers++;
    s->last = n;
}

void series_weigh(struct series *s, struct series_number n)
{
    s->usual += n.at > 0 && n.count - s->last.count == s->step;
    s->last = n;
}

void series_settle(struct series *s)
{
    size_t all = s->ups + s->downs, back = s->ups < s->downs ? s->ups : s->downs;
    size_t unusual = s->numbers - 1 - s->usual;
    s->zero_is_odd = are_few(s->zeros, s->numbers, 1);
    s->low = lowest(s->amounts, s->numbers);
    s->high = highest(s->amounts, s->numbers, 1);
    /* What stands out once makes a step there and another one back. */
    s->counts = s->step != 0 && (unusual == 0 || are_few(unusual, s->numbers, 2));
    s->far = back * STEADY <= all ? highest(s->steps, all, 2) : INFINITY;
    s->direction = back > 0 && !are_few(back, all, 1) ? 0 : s->ups > s->downs ? 1 : -1;
}

static bool counts_on(const struct series *s, const struct series_number *from,
                      const struct series_number *to)
{
    uint64_t step = to->count - from->count;
    return step == s->step * (to->at - from->at) ||
           (to->line > from->line && step == s->step * (to->line - from->line));
}

static bool is_usual(const struct series *s, const struct series_number *from, const struct series_number *to)
{
    double step = to->amount - from->amount;
    return s->counts ? counts_on(s, from, to)
                     : step * s->direction >= 0 && fabs(step) <= s->far * (double)(to->at - from->at);
}

bool series_is_odd(struct series *s, struct series_number n)
{
    bool odd = n.amount > 0 ? n.amount < s->low || n.amount > s->high : s->zero_is_odd;
    /* Also from the line before an odd one: what follows it is in order again. */
    odd = odd || (n.at > 0 && !is_usual(s, &s->last, &n) && !is_usual(s, &s->ordinary, &n));
    if (!odd || n.at == 0)
        s->ordinary = n;
    s->last = n;
    return odd;
}
