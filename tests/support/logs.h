/* Writing and reading execs' logs with a pattern that says where each byte belongs. Every failure fails the
 * test. */
#ifndef SUPPORT_LOGS_H
#define SUPPORT_LOGS_H

#include "lib/store/events.h"

struct events_writer *logs_open(const char *state_dir, const char *workspace_id, int64_t map_bytes,
                                int64_t log_bytes);
void logs_add(struct events_writer *w, struct exec_head *head);
/* One batch of count events of size bytes; event k of the exec is filled by logs_fill(k). */
void logs_write(struct events_writer *w, struct exec_head *head, size_t count, size_t size);
/* The same, but an error is the caller's to look at; head is as before then. */
int logs_try_write(struct events_writer *w, struct exec_head *head, size_t count, size_t size,
                   struct error *err);
void logs_append_text(struct events_writer *w, struct exec_head *head, enum event_type type, unsigned flags,
                      const char *text);
void logs_finish(struct events_writer *w, struct exec_head *head, int64_t finished_us);
void logs_fill(char *data, size_t size, uint64_t seq);

struct logs_seen {
    uint64_t first, last;
    size_t count, bytes;
    bool broken; /* a gap, or bytes that logs_fill did not make */
    size_t limit;
};
/* Reads all after the cursor and checks each event against logs_fill. */
struct logs_seen logs_read(struct events_reader *r, const char *exec_id, uint64_t cursor,
                           struct exec_head *ret_head);
int logs_try_read(struct events_reader *r, const char *exec_id, uint64_t cursor, struct logs_seen *ret,
                  struct exec_head *ret_head, struct error *err);

#endif
