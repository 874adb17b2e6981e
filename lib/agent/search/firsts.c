/* Owns which names are kept: never more than twice as many as are wanted. Must not know: what they name. */
#include "lib/agent/search/firsts.h"

#include "lib/agent/search/order.h"

#include <stdlib.h>

struct firsts {
    size_t most, count;
    char **names; /* twice as many as are wanted */
    bool cut;
};

struct firsts *firsts_new(size_t most)
{
    struct firsts *firsts = xcalloc(1, sizeof *firsts);
    firsts->most = most;
    firsts->names = xcalloc(2 * most, sizeof *firsts->names);
    return firsts;
}

static void cut_to(struct firsts *firsts, size_t count)
{
    while (firsts->count > count)
        free(firsts->names[--firsts->count]);
}

void firsts_free(struct firsts *firsts)
{
    if (!firsts)
        return;
    cut_to(firsts, 0);
    free(firsts->names);
    free(firsts);
}

static int compare(const void *a, const void *b)
{
    return order_of_paths(*(char *const *)a, *(char *const *)b);
}

static void sort(struct firsts *firsts)
{
    qsort(firsts->names, firsts->count, sizeof *firsts->names, compare);
    firsts->cut |= firsts->count > firsts->most;
    cut_to(firsts, firsts->most);
}

void firsts_add(struct firsts *firsts, const char *name)
{
    if (firsts->count == 2 * firsts->most)
        sort(firsts);
    firsts->names[firsts->count++] = xstrdup(name);
}

bool firsts_take(struct firsts *firsts, struct buffer *ret)
{
    sort(firsts);
    bool cut = firsts->cut;
    for (size_t i = 0; i < firsts->count; i++)
        buffer_append(ret, firsts->names[i], strlen(firsts->names[i]) + 1);
    cut_to(firsts, 0);
    firsts->cut = false;
    return cut;
}
