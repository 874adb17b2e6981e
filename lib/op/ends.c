/* Owns reading the ends of a log. Knows the store; not what is made of them. */
#include "lib/op/ends.h"

#include "lib/base/lines.h"
#include "lib/base/utf8.h"

#define EVENTS_MOST                                                                                          \
    10000 /* from each end: events of a byte or two are looked at no longer than large ones                  \
           */

struct piece { /* of the tails, in the order of reading */
    size_t offset, length;
    int stream;
};
/* What one reading may still take. */
struct allowance {
    size_t bytes, chars, events;
};
struct reading {
    struct ends *ends;
    struct allowance front, back;
    struct buffer backwards; /* the tails' bytes: events in reverse order */
    struct piece *pieces;
    size_t piece_count, piece_room;
    size_t events;
};

static void reading_clear(struct reading *r)
{
    buffer_free(&r->backwards);
    free(r->pieces);
}

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
        if (left->chars != SIZE_MAX)
            left->chars = less(left->chars, utf8_count(event->data, event->length));
    }
    return left->events > 0 && left->bytes > 0 && left->chars > 0;
}

static int stream_of(const struct event *event)
{
    return event->type == EVENT_STDOUT ? 0 : event->type == EVENT_STDERR ? 1 : -1;
}

static void stream_add(struct ends_stream *s, const struct event *event)
{
    buffer_append(&s->head, event->data, event->length);
    if (s->mark_count == s->mark_room) {
        s->mark_room = s->mark_room ? s->mark_room * 2 : 64;
        s->marks = xreallocarray(s->marks, s->mark_room, sizeof *s->marks);
    }
    s->marks[s->mark_count++] = (struct mark){ s->head.length, event->seq };
}

static void note_rewritten(struct ends *ends, const struct event *event)
{
    static const char name[] = "rewritten_command";

    if (event->type != EVENT_STATUS || !memmem(event->data, event->length, name, sizeof name - 1))
        return;
    _cleanup_free_ char *text = xasprintf("{%.*s}", (int)event->length, event->data);
    json_auto_t *members = json_loads(text, 0, NULL);
    const char *command = json_string_value(json_object_get(members, name));
    if (command && !ends->rewritten)
        ends->rewritten = xstrdup(command);
}

static bool take_front(void *user, const struct event *event)
{
    struct reading *r = user;
    int stream = stream_of(event);

    r->events++;
    r->ends->front_seq = event->seq;
    note_rewritten(r->ends, event);
    if (stream >= 0)
        stream_add(&r->ends->streams[stream], event);
    return spend(&r->front, event, stream >= 0);
}

static bool take_back(void *user, const struct event *event)
{
    struct reading *r = user;
    int stream = stream_of(event);

    r->events++;
    if (stream >= 0) {
        if (r->piece_count == r->piece_room) {
            r->piece_room = r->piece_room ? r->piece_room * 2 : 64;
            r->pieces = xreallocarray(r->pieces, r->piece_room, sizeof *r->pieces);
        }
        r->pieces[r->piece_count++] = (struct piece){ r->backwards.length, event->length, stream };
        buffer_append(&r->backwards, event->data, event->length);
    }
    return spend(&r->back, event, stream >= 0);
}

static void turn_tails_round(struct reading *r)
{
    for (size_t i = r->piece_count; i-- > 0;) {
        const struct piece *p = &r->pieces[i];
        buffer_append(&r->ends->streams[p->stream].tail, r->backwards.data + p->offset, p->length);
    }
    buffer_free(&r->backwards);
}

static uint64_t less_u64(uint64_t from, uint64_t taken)
{
    return from > taken ? from - taken : 0;
}

/* Is there anything between head and tail, and how much? */
static void stream_close(struct ends_stream *s, const struct exec_head *head, int i, bool met)
{
    uint64_t seen = s->head.length + s->tail.length, kept = head->stream_bytes[i] - head->stream_dropped[i];

    s->whole = met || (head->counted && kept <= seen);
    s->counted = s->whole || head->counted;
    s->counted_lines = s->whole || head->counted_lines;
    if (s->whole) {
        buffer_append(&s->head, s->tail.data, s->tail.length);
        buffer_free(&s->tail);
        return;
    }
    s->between = s->counted ? less_u64(kept, seen) : 0;
    if (s->counted_lines)
        s->lines_between =
            less_u64(head->stream_lines[i] - head->stream_lines_dropped[i],
                     lines_count(s->head.data, s->head.length) + lines_count(s->tail.data, s->tail.length));
}

int ends_read(struct events_reader *reader, const char *exec_id, size_t max_bytes, size_t max_chars,
              struct ends *ret, struct error *err)
{
    __attribute__((cleanup(reading_clear))) struct reading r = { .ends = ret };
    const struct exec_head *head = &ret->head;

    r.front = r.back = (struct allowance){ max_bytes, max_chars, EVENTS_MOST };
    if (events_read_ends(reader, exec_id, &ret->head, take_front, take_back, &r, err) < 0)
        return -1;
    ret->next_cursor = head->exit_seq > 0 ? head->exit_seq : head->last_seq;
    turn_tails_round(&r);
    for (int i = 0; i < 2; i++)
        stream_close(&ret->streams[i], head, i, r.events == ret->next_cursor + 1 - head->first_seq);
    return 0;
}

void ends_clear(struct ends *ends)
{
    for (int i = 0; i < 2; i++) {
        buffer_free(&ends->streams[i].head);
        buffer_free(&ends->streams[i].tail);
        free(ends->streams[i].marks);
    }
    free(ends->rewritten);
    *ends = (struct ends){ 0 };
}
