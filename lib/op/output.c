/* Head and tail of what an exec wrote, within a bound of encoded bytes. Memory is bounded by the request, not
 * by the log. Knows the store; no call. */
#include "lib/op/output.h"

#include "lib/base/utf8.h"

#define MARKER_ROOM 160 /* of the line that says what was left out */

struct mark { /* the event that ends at this offset of the stream */
    uint64_t end, seq;
};

struct stream {
    struct buffer head, tail;
    uint64_t total;
    uint64_t tail_lost; /* bytes that were dropped from the tail's front */
    struct mark *marks; /* of the head's events */
    size_t mark_count, mark_room;
};

struct collection {
    struct stream streams[2];
    size_t keep;
    uint64_t last_seq;
};

static void stream_clear(struct stream *s)
{
    buffer_free(&s->head);
    buffer_free(&s->tail);
    free(s->marks);
}

static void collection_clear(struct collection *c)
{
    stream_clear(&c->streams[0]);
    stream_clear(&c->streams[1]);
}

static void stream_add_mark(struct stream *s, uint64_t seq)
{
    if (s->mark_count == s->mark_room) {
        s->mark_room = s->mark_room ? s->mark_room * 2 : 64;
        s->marks = xreallocarray(s->marks, s->mark_room, sizeof *s->marks);
    }
    s->marks[s->mark_count++] = (struct mark){ s->head.length, seq };
}

static void stream_add(struct stream *s, const struct event *event, size_t keep)
{
    s->total += event->length;
    if (s->head.length < keep) {
        buffer_append(&s->head, event->data, event->length);
        stream_add_mark(s, event->seq);
        return;
    }
    buffer_append(&s->tail, event->data, event->length);
    if (s->tail.length > 2 * keep + EVENT_DATA_MAX) {
        s->tail_lost += s->tail.length - keep;
        buffer_consume(&s->tail, s->tail.length - keep);
    }
}

static bool take_event(void *user, const struct event *event)
{
    struct collection *c = user;

    c->last_seq = event->seq;
    if (event->type == EVENT_STDOUT)
        stream_add(&c->streams[0], event, c->keep);
    else if (event->type == EVENT_STDERR)
        stream_add(&c->streams[1], event, c->keep);
    return event->type != EVENT_EXIT;
}

static size_t encoded(const char *data, size_t length, bool twice)
{
    return utf8_json_size(data, length) + (twice ? utf8_json_size_twice(data, length) : 0);
}

struct room {
    size_t bytes, chars;
};

/* Takes a piece out of the room, or not. */
static bool room_take(struct room *room, const char *data, size_t length, bool twice)
{
    size_t bytes = encoded(data, length, twice), chars = utf8_count(data, length);

    if (bytes > room->bytes || chars > room->chars)
        return false;
    room->bytes -= bytes;
    room->chars -= chars;
    return true;
}

/* Longest run of whole characters at the front that fits. */
static size_t fit_front(const char *data, size_t length, struct room room, bool twice)
{
    size_t done = 0, step = 4096;

    while (done < length && step > 0) {
        size_t piece = length - done < step ? length - done : step;
        size_t cut = piece - (done + piece < length ? utf8_incomplete_tail(data + done, piece) : 0);
        if (cut > 0 && room_take(&room, data + done, cut, twice))
            done += cut;
        else
            step /= 2;
    }
    return done;
}

/* The same at the end. */
static size_t fit_back(const char *data, size_t length, struct room room, bool twice)
{
    size_t done = 0, step = 4096;

    while (done < length && step > 0) {
        size_t piece = length - done < step ? length - done : step;
        const char *at = data + length - done - piece;
        size_t skip = 0;
        while (skip < piece && skip < 3 && piece + done < length && ((unsigned char)at[skip] & 0xC0) == 0x80)
            skip++;
        if (skip < piece && room_take(&room, at + skip, piece - skip, twice))
            done += piece - skip;
        else
            step /= 2;
    }
    return done;
}

static uint64_t seq_before(const struct stream *s, size_t offset)
{
    uint64_t seq = 0;

    for (size_t i = 0; i < s->mark_count && s->marks[i].end <= offset; i++)
        seq = s->marks[i].seq;
    return seq;
}

/* Cuts the middle out of what is too large. */
static void stream_cut(struct stream *s, const struct output_request *request, struct room room,
                       struct buffer *out)
{
    const struct buffer *back_of = s->tail.length ? &s->tail : &s->head;
    struct room half;
    size_t front, back;

    room.bytes -= room.bytes > MARKER_ROOM * 2 ? MARKER_ROOM * (request->twice ? 2 : 1) : room.bytes / 2;
    half = (struct room){ room.bytes / 2, room.chars / 2 };
    front = fit_front(s->head.data, s->head.length, half, request->twice);
    back = s->tail.length ? back_of->length : back_of->length - front;
    back = fit_back(back_of->data + back_of->length - back, back, half, request->twice);
    buffer_append(out, s->head.data, front);
    buffer_printf(out, "\n... [%llu bytes left out: read events of %s from cursor %llu] ...\n",
                  (unsigned long long)(s->total - front - back), request->exec_id,
                  (unsigned long long)seq_before(s, front));
    buffer_append(out, back_of->data + back_of->length - back, back);
}

/* Joins head and tail where nothing lies between them. */
static void stream_join(struct stream *s)
{
    if (s->tail_lost == 0 && s->tail.length > 0) {
        buffer_append(&s->head, s->tail.data, s->tail.length);
        buffer_free(&s->tail);
    }
}

static bool stream_fits(const struct stream *s, struct room room, bool twice)
{
    return s->tail.length == 0 && s->head.length <= room.bytes &&
           room_take(&room, s->head.data, s->head.length, twice);
}

static size_t stream_size(const struct stream *s, size_t most, bool twice)
{
    size_t size =
        s->head.length > most || s->tail.length > 0 ? most : encoded(s->head.data, s->head.length, twice);

    return size < most ? size : most;
}

static void finish(struct collection *c, const struct output_request *request, struct output *ret)
{
    size_t sizes[2], half = request->max_bytes / 2;

    for (int i = 0; i < 2; i++) {
        stream_join(&c->streams[i]);
        sizes[i] = stream_size(&c->streams[i], request->max_bytes, request->twice);
    }
    for (int i = 0; i < 2; i++) {
        size_t other =
            sizes[1 - i] < half ? sizes[1 - i] : half; /* a small one leaves its room to the other */
        struct room room = { request->max_bytes - other, request->max_chars };
        ret->truncated[i] = !stream_fits(&c->streams[i], room, request->twice);
        if (ret->truncated[i])
            stream_cut(&c->streams[i], request, room, &ret->streams[i]);
        else
            buffer_append(&ret->streams[i], c->streams[i].head.data, c->streams[i].head.length);
    }
}

int output_collect(struct events_reader *reader, const struct output_request *request, struct output *ret,
                   struct error *err)
{
    __attribute__((cleanup(collection_clear))) struct collection c = { 0 };

    c.keep = request->max_bytes / (request->twice ? 2 : 1);
    if (c.keep > request->max_chars * 4)
        c.keep = request->max_chars * 4;
    if (events_read(reader, request->exec_id, 0, &ret->head, take_event, &c, err) < 0)
        return -1;
    ret->next_cursor = c.last_seq;
    if (ret->head.dropped_events > 0) {
        buffer_printf(&ret->streams[0], "... [%llu bytes dropped: beyond the log's limit] ...\n",
                      (unsigned long long)ret->head.dropped_bytes);
        finish(&c, request, ret);
        ret->truncated[0] = true;
        return 0;
    }
    finish(&c, request, ret);
    return 0;
}

void output_clear(struct output *output)
{
    buffer_free(&output->streams[0]);
    buffer_free(&output->streams[1]);
}
