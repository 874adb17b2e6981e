/* What is put where a match stands: the text, its line ends, and what of the match it really replaces. */
#ifndef EDIT_PLACE_H
#define EDIT_PLACE_H

#include "lib/agent/edit/find.h"
#include "lib/agent/edit/view.h"

/* The splices of one edit. */
struct places {
    struct view_splice *splices;
    size_t count;
    struct buffer *owned; /* texts of splices, where they are not the edit's own; count of them */
};
#define PLACES_INIT                                                                                          \
    {                                                                                                        \
        NULL, 0, NULL                                                                                        \
    }
#define _cleanup_places_ __attribute__((cleanup(places_free)))

void places_free(struct places *places);

struct place_edit {
    const struct view *file;
    struct bytes old;
    const struct view *new;
    enum view_end usual; /* of the file; VIEW_NONE: it has no line end */
    size_t limit;        /* of what is made for whole lines */
};
/* more_follow: behind matches stand some that have been replaced. */
void places_make_exact(const struct place_edit *edit, const struct match *matches, size_t count,
                       bool more_follow, struct places *ret);
/* false = the file would grow beyond the limit: each match has a text of its own. */
bool places_make_lines(const struct place_edit *edit, const struct match *matches, size_t count,
                       struct places *ret);

#endif
