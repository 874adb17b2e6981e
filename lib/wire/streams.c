/* Owns: finding streams by number, their queues and the ring that makes bulk fair. It must not know: sockets,
 * or when a frame may be sent. Small frames of DATA are joined while they wait, so that a queue's memory is
 * near what it holds. */
#include "lib/wire/streams.h"

enum { FIRST_SLOTS = 8, SMALLEST_PAYLOAD = 100 };

static uint32_t home(const struct streams *s, uint32_t number)
{
    return (number * 2654435769u >> 7) & (s->capacity - 1);
}

/* The slot that holds number, or the free one where it belongs. */
static uint32_t slot_of(const struct streams *s, uint32_t number)
{
    uint32_t at = home(s, number);
    while (s->slots[at] != NULL && s->slots[at]->number != number)
        at = (at + 1) & (s->capacity - 1);
    return at;
}

static void free_queue(struct stream *stream)
{
    for (struct chunk *next, *chunk = stream->head; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
}

void streams_free(struct streams *s)
{
    for (uint32_t at = 0; at < s->capacity; at++)
        if (s->slots[at] != NULL) {
            free_queue(s->slots[at]);
            free(s->slots[at]);
        }
    free(s->slots);
    *s = (struct streams){ 0 };
}

struct stream *streams_find(const struct streams *s, uint32_t number)
{
    return s->count > 0 ? s->slots[slot_of(s, number)] : NULL;
}

static void grow(struct streams *s)
{
    struct streams old = *s;
    s->capacity = old.capacity > 0 ? old.capacity * 2 : FIRST_SLOTS;
    s->slots = xcalloc(s->capacity, sizeof(*s->slots));
    for (uint32_t at = 0; at < old.capacity; at++)
        if (old.slots[at] != NULL)
            s->slots[slot_of(s, old.slots[at]->number)] = old.slots[at];
    free(old.slots);
}

struct stream *streams_get(struct streams *s, uint32_t number)
{
    struct stream *found = streams_find(s, number);
    if (found != NULL)
        return found;
    if (s->count >= s->capacity / 4 * 3)
        grow(s);
    struct stream *stream = xcalloc(1, sizeof(*stream));
    stream->number = number;
    stream->credit = stream->window = FRAME_WINDOW;
    s->slots[slot_of(s, number)] = stream;
    s->count++;
    return stream;
}

/* Linear probing: what follows the hole moves back, unless it stands at or behind its home already. */
static void clear_slot(struct streams *s, uint32_t hole)
{
    uint32_t mask = s->capacity - 1;
    for (uint32_t at = (hole + 1) & mask; s->slots[at] != NULL; at = (at + 1) & mask) {
        uint32_t from_home = (at - home(s, s->slots[at]->number)) & mask;
        if (from_home < ((at - hole) & mask))
            continue;
        s->slots[hole] = s->slots[at];
        hole = at;
    }
    s->slots[hole] = NULL;
}

static void leave_ring(struct streams *s, struct stream *stream)
{
    struct stream *before = NULL;
    for (struct stream *at = s->first; at != NULL && at != stream; at = at->next)
        before = at;
    if (before != NULL)
        before->next = stream->next;
    else
        s->first = stream->next;
    if (s->last == stream)
        s->last = before;
}

static void enter_ring(struct streams *s, struct stream *stream)
{
    stream->next = NULL;
    if (s->last != NULL)
        s->last->next = stream;
    else
        s->first = stream;
    s->last = stream;
}

struct chunk *streams_remove(struct streams *s, struct stream *stream)
{
    struct chunk *begun = NULL;
    if (stream->head != NULL)
        leave_ring(s, stream);
    if (stream->head != NULL && stream->head->sent > 0) {
        begun = stream->head;
        stream->head = begun->next;
        begun->next = NULL;
    }
    clear_slot(s, slot_of(s, stream->number));
    free_queue(stream);
    free(stream);
    if (--s->count == 0) {
        free(s->slots);
        *s = (struct streams){ 0 };
    }
    return begun;
}

struct chunk *chunk_new(size_t payload)
{
    uint32_t capacity =
        FRAME_HEADER_SIZE + (uint32_t)(payload > SMALLEST_PAYLOAD ? payload : SMALLEST_PAYLOAD);
    struct chunk *chunk = xmalloc(sizeof(*chunk) + capacity);
    *chunk = (struct chunk){ .capacity = capacity };
    return chunk;
}

uint8_t chunk_type(const struct chunk *chunk)
{
    return (uint8_t)chunk->bytes[8];
}

uint8_t chunk_flags(const struct chunk *chunk)
{
    return (uint8_t)chunk->bytes[9];
}

uint32_t chunk_payload(const struct chunk *chunk)
{
    return chunk->size - FRAME_HEADER_SIZE;
}

static void set_frame(struct chunk *chunk, const struct frame *frame)
{
    frame_encode_header(chunk->bytes, frame);
    chunk->size = FRAME_HEADER_SIZE + frame->length;
}

struct chunk *chunk_fit(struct chunk *chunk, size_t payload)
{
    size_t size = FRAME_HEADER_SIZE + payload;
    if (chunk->capacity <= SMALLEST_PAYLOAD + FRAME_HEADER_SIZE || size > chunk->capacity / 2)
        return chunk;
    chunk->capacity = (uint32_t)size;
    return xreallocarray(chunk, 1, sizeof(*chunk) + size);
}

void streams_queue(struct streams *s, struct stream *stream, struct chunk *chunk, const struct frame *frame)
{
    set_frame(chunk, frame);
    if (stream->head == NULL) {
        stream->head = chunk;
        enter_ring(s, stream);
    } else
        stream->tail->next = chunk;
    stream->tail = chunk;
    if (frame->type == FRAME_DATA)
        stream->queued += frame->length;
}

/* The last frame, where more of the same DATA may still be put into it. */
static struct chunk *open_tail(const struct stream *stream, uint8_t flags)
{
    struct chunk *tail = stream->head != NULL ? stream->tail : NULL;
    bool is_open =
        tail != NULL && tail->sent == 0 && chunk_type(tail) == FRAME_DATA && chunk_flags(tail) == flags;
    return is_open ? tail : NULL;
}

struct chunk *streams_extend(struct stream *stream, uint8_t flags, size_t length)
{
    struct chunk *tail = open_tail(stream, flags);
    bool fits = tail != NULL && length <= FRAME_PAYLOAD_MAX - chunk_payload(tail) &&
                tail->size + length <= tail->capacity;
    return fits ? tail : NULL;
}

struct chunk *streams_chunk(const struct stream *stream, uint8_t flags, size_t length)
{
    const struct chunk *tail = open_tail(stream, flags);
    size_t room = tail != NULL ? 2 * (size_t)chunk_payload(tail) : 0;
    if (room > FRAME_PAYLOAD_MAX)
        room = FRAME_PAYLOAD_MAX;
    return chunk_new(room > length ? room : length);
}

void streams_extended(struct stream *stream, size_t length)
{
    struct chunk *tail = stream->tail;
    set_frame(tail, &(struct frame){ .stream = stream->number,
                                     .length = chunk_payload(tail) + (uint32_t)length,
                                     .type = FRAME_DATA,
                                     .flags = chunk_flags(tail) });
    stream->queued += (uint32_t)length;
}

void streams_written(struct streams *s)
{
    struct stream *stream = s->first;
    struct chunk *chunk = stream->head;
    s->first = stream->next;
    if (s->first == NULL)
        s->last = NULL;
    stream->head = chunk->next;
    if (chunk_type(chunk) == FRAME_DATA)
        stream->queued -= chunk_payload(chunk);
    free(chunk);
    if (stream->head != NULL)
        enter_ring(s, stream);
    else if (stream->forgotten)
        streams_remove(s, stream);
}
