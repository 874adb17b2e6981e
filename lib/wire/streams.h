/* The streams of one channel: credit in both directions and the queue of frames that wait to be written,
 * found by number. Streams with something to write stand in a ring; each gives one frame in turn. */
#ifndef WIRE_STREAMS_H
#define WIRE_STREAMS_H

#include "lib/wire/frame.h"

#include <stdbool.h>

/* One frame: its header and payload as they go out. */
struct chunk {
    struct chunk *next;
    uint32_t size, sent, capacity; /* of bytes[] */
    char bytes[];
};

struct stream {
    uint32_t number;
    uint32_t credit; /* bytes of DATA that may still be queued */
    uint32_t window; /* bytes of DATA that the peer may still send */
    uint32_t used;   /* bytes of DATA to give credit for */
    uint32_t queued; /* bytes of DATA that wait here */
    bool forgotten;  /* goes when its queue is written */
    struct chunk *head, *tail;
    struct chunk *planned; /* for whoever plans a write: the next chunk to take */
    struct stream *next;   /* in the ring */
};

struct streams {
    struct stream **slots; /* open addressing, a power of two; NULL until the first stream */
    uint32_t count, capacity;
    struct stream *first, *last; /* the ring: those with chunks */
};

void streams_free(struct streams *s);
struct stream *streams_find(const struct streams *s, uint32_t number); /* or NULL */
struct stream *streams_get(struct streams *s, uint32_t number);        /* made where it is missing */
/* Takes a stream out and frees it. The first chunk, where it was written in part, is handed out: the peer
 * waits for the rest. */
struct chunk *streams_remove(struct streams *s, struct stream *stream);

struct chunk *chunk_new(size_t payload);
/* Gives back what was reserved for more than payload bytes; the chunk may move. */
struct chunk *chunk_fit(struct chunk *chunk, size_t payload);
uint8_t chunk_type(const struct chunk *chunk);
uint8_t chunk_flags(const struct chunk *chunk);
uint32_t chunk_payload(const struct chunk *chunk); /* bytes */
/* Takes chunk, whose payload of length bytes is in its place, as the stream's last frame. */
void streams_queue(struct streams *s, struct stream *stream, struct chunk *chunk, const struct frame *frame);
/* The stream's last frame with room for length more bytes of the same DATA; NULL where there is none. */
struct chunk *streams_extend(struct stream *stream, uint8_t flags, size_t length);
/* A chunk for length bytes; a stream of small pieces gets one with room for more of them. */
struct chunk *streams_chunk(const struct stream *stream, uint8_t flags, size_t length);
void streams_extended(struct stream *stream, size_t length); /* length bytes were added to it */
/* The first frame of the ring's first stream was written: drops it and turns the ring. */
void streams_written(struct streams *s);

#endif
