/* Head and tail of what an exec wrote, within a bound of encoded bytes. Both are read from their own end of
 * the log, so that the price is what is shown, whatever lies between. Knows the store; no call. */
#include "lib/op/output.h"

#include "lib/base/utf8.h"

#define MARKER_ROOM 160 /* of the line that says what was left out */
#define EVENTS_MOST                                                                                          \
    10000 /* from each end: events of a byte or two are looked at no longer than large ones                  \
           */

struct mark { /* the event that ends at this offset of the stream */
    uint64_t end, seq;
};
struct piece { /* of the tails, in the order of reading */
    size_t offset, length;
    int stream;
};
struct stream {
    struct buffer head, tail;
    struct mark *marks; /* of the head's events */
    size_t mark_count, mark_room;
    bool whole;     /* nothing lies between head and tail: all is in head */
    uint64_t total; /* of what the log still has; 0 = not known */
};
/* What one reading may still take. */
struct allowance {
    size_t bytes, chars, events;
};
struct collection {
    struct stream streams[2];
    struct allowance front, back;
    struct buffer backwards; /* the tails' bytes: events in reverse order */
    struct piece *pieces;
    size_t piece_count, piece_room;
    size_t events;
    uint64_t front_seq; /* the last that the reading from the front saw */
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
    buffer_free(&c->backwards);
    free(c->pieces);
}

/* ---- reading ---- */

static size_t less(size_t left, size_t taken)
{
    return left > taken ? left - taken : 0;
}

/* False where that was all. */
static bool spend(struct allowance *left, const struct event *event, bool is_output)
{
    left->events = less(left->events, 1);
    if (is_output) {
        left->bytes = less(left->bytes, event->length);
        left->chars = less(left->chars, utf8_count(event->data, event->length));
    }
    return left->events > 0 && left->bytes > 0 && left->chars > 0;
}

static int stream_of(const struct event *event)
{
    return event->type == EVENT_STDOUT ? 0 : event->type == EVENT_STDERR ? 1 : -1;
}

static void stream_add(struct stream *s, const struct event *event)
{
    buffer_append(&s->head, event->data, event->length);
    if (s->mark_count == s->mark_room) {
        s->mark_room = s->mark_room ? s->mark_room * 2 : 64;
        s->marks = xreallocarray(s->marks, s->mark_room, sizeof *s->marks);
    }
    s->marks[s->mark_count++] = (struct mark){ s->head.length, event->seq };
}

static bool take_front(void *user, const struct event *event)
{
    struct collection *c = user;
    int stream = stream_of(event);

    c->events++;
    c->front_seq = event->seq;
    if (stream >= 0)
        stream_add(&c->streams[stream], event);
    return spend(&c->front, event, stream >= 0);
}

static bool take_back(void *user, const struct event *event)
{
    struct collection *c = user;
    int stream = stream_of(event);

    c->events++;
    if (stream >= 0) {
        if (c->piece_count == c->piece_room) {
            c->piece_room = c->piece_room ? c->piece_room * 2 : 64;
            c->pieces = xreallocarray(c->pieces, c->piece_room, sizeof *c->pieces);
        }
        c->pieces[c->piece_count++] = (struct piece){ c->backwards.length, event->length, stream };
        buffer_append(&c->backwards, event->data, event->length);
    }
    return spend(&c->back, event, stream >= 0);
}

static void turn_tails_round(struct collection *c)
{
    for (size_t i = c->piece_count; i-- > 0;) {
        const struct piece *p = &c->pieces[i];
        buffer_append(&c->streams[p->stream].tail, c->backwards.data + p->offset, p->length);
    }
    buffer_free(&c->backwards);
}

/* Is there anything between head and tail, and how much? */
static void stream_close(struct stream *s, const struct exec_head *head, int i, bool met)
{
    uint64_t seen = s->head.length + s->tail.length, kept = head->stream_bytes[i] - head->stream_dropped[i];

    s->whole = met || (head->counted && kept <= seen);
    s->total = s->whole ? seen : head->counted ? kept : 0;
    if (s->whole && s->tail.length > 0) {
        buffer_append(&s->head, s->tail.data, s->tail.length);
        buffer_free(&s->tail);
    }
}

/* ---- fitting ---- */

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

/* Where reading goes on behind the first bytes of the stream that are shown. */
static uint64_t seq_before(const struct collection *c, const struct stream *s, size_t shown)
{
    uint64_t seq = 0;

    if (!s->whole && shown == s->head.length)
        return c->front_seq;
    for (size_t i = 0; i < s->mark_count && s->marks[i].end <= shown; i++)
        seq = s->marks[i].seq;
    return seq;
}

static void say_left_out(const struct collection *c, const struct stream *s, size_t front, size_t back,
                         const char *exec_id, struct buffer *out)
{
    buffer_append_text(out, "\n... [");
    if (s->total > 0)
        buffer_printf(out, "%llu bytes left out", (unsigned long long)(s->total - front - back));
    else
        buffer_append_text(out, "the middle left out");
    buffer_printf(out, ": read events of %s from cursor %llu] ...\n", exec_id,
                  (unsigned long long)seq_before(c, s, front));
}

/* Cuts the middle out of what is too large. */
static void stream_cut(const struct collection *c, const struct stream *s,
                       const struct output_request *request, struct room room, struct buffer *out)
{
    struct room half;

    room.bytes -= room.bytes > MARKER_ROOM * 2 ? MARKER_ROOM * (request->twice ? 2 : 1) : room.bytes / 2;
    half = (struct room){ room.bytes / 2, room.chars / 2 };
    size_t front = fit_front(s->head.data, s->head.length, half, request->twice);
    const char *rest = s->whole ? s->head.data + front : s->tail.data;
    size_t length = s->whole ? s->head.length - front : s->tail.length;
    size_t back = fit_back(rest, length, half, request->twice);
    buffer_append(out, s->head.data, front);
    say_left_out(c, s, front, back, request->exec_id, out);
    if (back > 0)
        buffer_append(out, rest + length - back, back);
}

static bool stream_fits(const struct stream *s, struct room room, bool twice)
{
    return s->whole && s->head.length <= room.bytes && room_take(&room, s->head.data, s->head.length, twice);
}

/* What it takes to show all of it that was read, at most `most`. */
static size_t stream_size(const struct stream *s, size_t most, bool twice)
{
    if (s->head.length + s->tail.length > most)
        return most;
    size_t size = encoded(s->head.data, s->head.length, twice) + encoded(s->tail.data, s->tail.length, twice);
    size += s->whole ? 0 : MARKER_ROOM * (twice ? 2 : 1);
    return size < most ? size : most;
}

static void say_dropped(const struct exec_head *head, struct output *ret)
{
    for (int i = 0; i < 2; i++) {
        uint64_t dropped = head->counted ? head->stream_dropped[i] : i == 0 ? head->dropped_bytes : 0;
        if (dropped == 0)
            continue;
        buffer_printf(&ret->streams[i],
                      "... [%llu bytes dropped: beyond the log's limit, or the disk was full] ...\n",
                      (unsigned long long)dropped);
        ret->truncated[i] = true;
    }
}

static void finish(struct collection *c, const struct output_request *request, struct output *ret)
{
    size_t sizes[2], half = request->max_bytes / 2;

    for (int i = 0; i < 2; i++)
        sizes[i] = stream_size(&c->streams[i], request->max_bytes, request->twice);
    for (int i = 0; i < 2; i++) {
        size_t other =
            sizes[1 - i] < half ? sizes[1 - i] : half; /* a small one leaves its room to the other */
        struct room room = { request->max_bytes - other, request->max_chars };
        const struct stream *s = &c->streams[i];
        if (stream_fits(s, room, request->twice)) {
            buffer_append(&ret->streams[i], s->head.data, s->head.length);
            continue;
        }
        stream_cut(c, s, request, room, &ret->streams[i]);
        ret->truncated[i] = true;
    }
}

int output_collect(struct events_reader *reader, const struct output_request *request, struct output *ret,
                   struct error *err)
{
    __attribute__((cleanup(collection_clear))) struct collection c = { 0 };
    const struct exec_head *head = &ret->head;

    c.front = c.back = (struct allowance){
        .bytes = request->max_bytes / (request->twice ? 2 : 1),
        .chars = 2 * request->max_chars,
        .events = EVENTS_MOST,
    };
    if (events_read_ends(reader, request->exec_id, &ret->head, take_front, take_back, &c, err) < 0)
        return -1;
    ret->next_cursor = head->exit_seq > 0 ? head->exit_seq : head->last_seq;
    turn_tails_round(&c);
    for (int i = 0; i < 2; i++)
        stream_close(&c.streams[i], head, i, c.events == ret->next_cursor + 1 - head->first_seq);
    say_dropped(head, ret);
    finish(&c, request, ret);
    return 0;
}

void output_clear(struct output *output)
{
    buffer_free(&output->streams[0]);
    buffer_free(&output->streams[1]);
    *output = (struct output){ 0 };
}
