/* Patterns for paths, all of one grammar (README, "Patterns"). Several compile into one set, and a path may
 * be given piece by piece, so that a walk sees early that nothing below a folder can match. Pure: any bytes
 * may come, the time of a match grows with the path's length and the set's size alone. */
#ifndef SEARCH_GLOB_H
#define SEARCH_GLOB_H

#include "lib/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum glob_use {
    GLOB_FIND,    /* `*` stays in its folder */
    GLOB_EXCLUDE, /* `*` crosses `/`; what matches a folder covers all below it */
};
#define GLOB_PATTERN_MAX 4096
#define GLOB_SET_MAX     (256u << 10) /* steps of all patterns together */

struct glob;
struct glob *glob_new(enum glob_use use);
void glob_free(struct glob *glob);
static inline void glob_cleanup(struct glob **glob)
{
    glob_free(*glob);
}
#define _cleanup_glob_ __attribute__((cleanup(glob_cleanup)))

/* ERROR_INVALID says what is wrong, after `name`, which the pattern is known by ("pattern"). */
int glob_add(struct glob *glob, const char *name, const char *text, struct error *err);
bool glob_is_empty(const struct glob *glob); /* none was added */

/* How far a path has come. Zero-initialised; owned. */
struct glob_place {
    uint32_t *steps;
    size_t count, capacity;
};
void glob_place_clear(struct glob_place *place);
/* *ret may hold an earlier place, whose memory is used again. */
void glob_begin(struct glob *glob, struct glob_place *ret);
/* Goes on from `from` by text, which ends where a character ends; ret may not be from. */
void glob_go_on(struct glob *glob, const struct glob_place *from, const char *text, size_t length,
                struct glob_place *ret);
bool glob_accepts(const struct glob *glob, const struct glob_place *place);
static inline bool glob_is_dead(const struct glob_place *place)
{
    return place->count == 0;
}

/* path: from the workspace on, without "/" in front. GLOB_EXCLUDE: it or a folder above it matches. */
bool glob_matches(struct glob *glob, const char *path, size_t length);

/* ripgrep's --glob and --type-add know a part of the grammar. Are these text's names, and nothing else? Then
 * a copy of what may be told to ripgrep so that it looks at fewer files; what it leaves is still to be
 * matched. NULL: it cannot be said. */
char *glob_for_names(const char *text);   /* names of files that the pattern might match */
char *glob_for_exclude(const char *text); /* covers no more than the pattern */

#endif
