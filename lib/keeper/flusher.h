/* The thread that flushes a workspace's logs once a second while they change, so that the loop never waits
 * for a disk. */
#ifndef KEEPER_FLUSHER_H
#define KEEPER_FLUSHER_H

#include "lib/store/events.h"

struct flusher;
struct flusher *flusher_new(struct events_writer *w); /* the thread starts with the first flusher_mark */
void flusher_mark(struct flusher *f);                 /* something was committed */
void flusher_free(struct flusher *f); /* ends the thread; the last flush is events_writer_close's */

#endif
