/* A client's picture of the tree in the current folder, from what a watch tells alone, and changes to hold it
 * against. */
#ifndef TESTS_PICTURE_H
#define TESTS_PICTURE_H

#include "lib/agent/watch/watcher.h"

extern bool picture_is_lost; /* an overflow was told: it is to be drawn anew */

void picture_redraw(struct watcher *w); /* by all that is told now */
/* Redraws until all that has happened was told. */
typedef void (*picture_wait)(void);
/* The rest fails the test where the picture is not the tree. */
void picture_check(void);
/* As it was told, or is drawn anew; then nothing that is there may be unwatched. Returns whether it was told.
 */
bool picture_check_all(picture_wait wait);
void picture_remove_all(picture_wait wait); /* what is in the folder */
void picture_free(void);

/* A few names, so that things take each other's places. */
void picture_random_path(char path[64], unsigned *seed);
void picture_change_something(unsigned *seed);

#endif
