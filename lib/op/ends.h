/* Both ends of what an exec wrote, for each stream: read from their own end of the log, so that the price is
 * what is read, whatever lies between. */
#ifndef OP_ENDS_H
#define OP_ENDS_H

#include "lib/base/buffer.h"
#include "lib/store/events.h"

struct mark { /* the event that ends at this offset of the stream */
    uint64_t end, seq;
};

struct ends_stream {
    struct buffer head, tail; /* raw bytes */
    struct mark *marks;       /* of the head's events */
    size_t mark_count, mark_room;
    bool whole;                  /* nothing lies between head and tail: all is in head */
    bool counted, counted_lines; /* how much lies between is known */
    uint64_t between, lines_between;
};

struct ends {
    struct ends_stream streams[2]; /* stdout, stderr */
    struct exec_head head;
    char *rewritten;      /* the command that ran instead, as its start told; NULL = none */
    uint64_t front_seq;   /* the last event that was read from the front */
    uint64_t next_cursor; /* the final event, or the last one so far */
};

/* From each end at most about so many bytes and characters of output (the event that reaches the bound is
 * read whole; max_chars SIZE_MAX = any number). */
int ends_read(struct events_reader *reader, const char *exec_id, size_t max_bytes, size_t max_chars,
              struct ends *ret, struct error *err);
void ends_clear(struct ends *ends);
#define _cleanup_ends_ __attribute__((cleanup(ends_clear)))

#endif
