/* The watches of one workspace, in its events environment beside the execs (events.h): a record each, and a
 * ring of its newest WATCH_RING events, which change in one transaction. An event's seq counts from 0, a
 * cursor is the next seq that is wanted. An event's data is a path's bytes, with EVENT_MOVED also NUL and the
 * other path; of EVENT_OVERFLOW the path of the folder to look at anew, NUL and why. */
#ifndef STORE_WATCHES_H
#define STORE_WATCHES_H

#include "lib/store/events.h"

#define WATCH_RING 2048

/* The part of a watch's record that changes, fixed size on disk. */
struct watch_head {
    char id[ID_SIZE];
    uint32_t stream;
    enum exec_state state;                       /* starting is none of them */
    int64_t created_us, started_us, finished_us; /* wall; 0 = not yet */
    uint64_t base, next;                         /* events from base to next - 1 are kept */
    uint64_t dropped;
    char reason[200]; /* why it ended; "" before */
};

/* ---- within a batch of events.h; heads belong to the caller, as there ---- */
/* Allots head->stream; info = what never changes of it. */
int watches_add(struct events_writer *w, struct watch_head *head, const json_t *info, struct error *err);
/* Sets event->seq; the oldest beyond the ring is dropped and counted. Call watches_put once for the batch. */
int watches_append(struct events_writer *w, struct watch_head *head, struct event *event, struct error *err);
/* So many events go by that nobody could read any more: as if they had been appended and dropped. */
int watches_skip(struct events_writer *w, struct watch_head *head, uint64_t count, struct error *err);
int watches_put(struct events_writer *w, const struct watch_head *head, struct error *err);

/* ---- reading ---- */
int watches_get(struct events_reader *r, const char *watch_id, struct watch_head *ret,
                struct error *err); /* ERROR_NOT_FOUND */
int watches_get_info(struct events_reader *r, const char *watch_id, json_t **ret, struct error *err);
/* Newest first, streams below `before` (0 = from the newest); returns how many, or -1. */
long watches_list(struct events_reader *r, uint32_t before, struct watch_head *ret, size_t limit,
                  struct error *err);
/* As events_read, from the seq `cursor` on, or the oldest that is kept. */
int watches_read(struct events_reader *r, const char *watch_id, uint64_t cursor, struct watch_head *ret_head,
                 events_take *take, void *user, struct error *err);

#endif
