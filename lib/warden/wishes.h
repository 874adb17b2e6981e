/* Which Python packages whose workspaces have brought, and may be brought for all. */
#ifndef WARDEN_WISHES_H
#define WARDEN_WISHES_H

#include "lib/warden/chore.h"

#define WISHES_CACHE         "home/.cache/uv" /* of a workspace */
#define WISHES_AT_A_TIME     32               /* names of a principal */
#define WISHES_ENTRIES_LIMIT 20000            /* directory entries looked at in one cache */

struct wisher {
    struct wisher *next;
    char *principal; /* whose workspaces they are */
    json_t *names;   /* a set of "name==version" */
};

/* Of each principal as many as may be brought at a time. known: a set of names that are none. The caller clears
 * the list. */
struct wisher *wishes_read(const struct chore *c, const json_t *known, const json_t *allowance);
void wishes_clear(struct wisher **first);
/* Adds what lies in the cache below path to the set `packages`, until that has so many. known may be NULL. */
void wishes_read_cache(int at, const char *path, const json_t *known, size_t limit, json_t *packages);
/* A directory, by no link. -1 = there is none. */
int wishes_open_below(int at, const char *path);

#endif
