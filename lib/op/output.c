/* Head and tail of what an exec wrote, condensed where that is wanted, within bounds of bytes as they are and
 * as they are encoded. Knows what was read of the log; no call. */
#include "lib/op/output.h"

#include "lib/base/lines.h"
#include "lib/base/utf8.h"
#include "lib/text/condense.h"

#define MARKER_ROOM      180 /* of the line that says what was left out */
#define TERMINAL_COLUMNS 80  /* of a synchronous command's terminal */

/* ---- reading ---- */

int output_read(struct events_reader *reader, const struct output_request *request, struct output *ret,
                struct error *err)
{
    size_t bytes = request->max_bytes / (request->twice ? 2 : 1), chars = 2 * request->max_chars;

    if (request->compact) {
        bytes = OUTPUT_CONDENSED;
        chars = SIZE_MAX;
    }
    if (ends_read(reader, request->exec_id, bytes, chars, &ret->ends, err) < 0)
        return -1;
    ret->head = ret->ends.head;
    ret->next_cursor = ret->ends.next_cursor;
    ret->rewritten = STEAL(ret->ends.rewritten);
    return 0;
}

size_t output_size(const struct output *output)
{
    size_t size = 0;

    for (int i = 0; i < 2; i++)
        size += output->ends.streams[i].head.length + output->ends.streams[i].tail.length;
    return size;
}

/* ---- condensing ---- */

static bool condense_one(struct buffer *text, size_t columns, const char *how)
{
    struct condensed condensed;

    condense(text->data, text->length, columns, how, &condensed);
    if (condensed.unchanged)
        return false;
    buffer_free(text);
    *text = condensed.text;
    return true;
}

void output_condense(struct output *output, const struct output_request *request)
{
    size_t columns = output->head.pty ? TERMINAL_COLUMNS : 0;
    _cleanup_free_ char *how = xasprintf("read events of %s from cursor 0", request->exec_id);

    for (int i = 0; i < 2 && request->compact; i++) {
        struct ends_stream *s = &output->ends.streams[i];
        if (condense_one(&s->head, columns, how)) {
            s->mark_count = 0; /* they name places of the raw bytes */
            output->condensed[i] = true;
        }
        if (condense_one(&s->tail, columns, how))
            output->condensed[i] = true;
    }
}

/* ---- fitting ---- */

static size_t encoded(const char *data, size_t length, bool twice)
{
    return utf8_json_size(data, length) + (twice ? utf8_json_size_twice(data, length) : 0);
}

struct room {
    size_t bytes, chars, raw;
};

/* Takes a piece out of the room, or not. */
static bool room_take(struct room *room, const char *data, size_t length, bool twice)
{
    size_t bytes = encoded(data, length, twice), chars = utf8_count(data, length);

    if (bytes > room->bytes || chars > room->chars || length > room->raw)
        return false;
    room->bytes -= bytes;
    room->chars -= chars;
    room->raw -= length;
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
static uint64_t seq_before(const struct ends *ends, const struct ends_stream *s, size_t shown)
{
    uint64_t seq = 0;

    if (!s->whole && shown == s->head.length)
        return ends->front_seq;
    for (size_t i = 0; i < s->mark_count && s->marks[i].end <= shown; i++)
        seq = s->marks[i].seq;
    return seq;
}

/* The parts of a stream that are shown, and what they stand in. */
struct cut {
    const char *rest; /* what follows the front, up to the end */
    size_t length, front, back;
};

static void say_left_out(const struct ends *ends, const struct ends_stream *s, const struct cut *cut,
                         const char *exec_id, struct buffer *out)
{
    size_t left = cut->length - cut->back, before = s->whole ? 0 : s->head.length - cut->front;
    uint64_t bytes = before + s->between + left;
    uint64_t lines = s->lines_between + lines_count(cut->rest, left);

    if (before > 0) /* else there may be no head at all */
        lines += lines_count(s->head.data + cut->front, before);

    bool at_line = cut->front > 0 && s->head.data[cut->front - 1] == '\n';
    buffer_append_text(out, at_line ? "... [" : "\n... [");
    if (s->counted && s->counted_lines)
        buffer_printf(out, "%llu bytes and %llu lines left out", (unsigned long long)bytes,
                      (unsigned long long)lines);
    else if (s->counted)
        buffer_printf(out, "%llu bytes left out", (unsigned long long)bytes);
    else
        buffer_append_text(out, "the middle left out");
    buffer_printf(out, ": read events of %s from cursor %llu] ...\n", exec_id,
                  (unsigned long long)seq_before(ends, s, cut->front));
}

/* Less of the front, more is left out: a number cut in two would look like another one. A long line is cut.
 */
static size_t to_line_end(const char *data, size_t length, size_t front)
{
    const char *newline = front > 0 && front < length ? memrchr(data, '\n', front) : NULL;
    size_t whole = newline != NULL ? (size_t)(newline - data) + 1 : 0;
    return whole >= front / 2 ? whole : front;
}

/* The same for what begins behind a cut; at the end of data. */
static size_t to_line_start(const char *data, size_t length, size_t back)
{
    const char *first = data + length - back, *newline;
    if (back == 0 || back == length || first[-1] == '\n')
        return back;
    newline = memchr(first, '\n', back);
    size_t cut = newline != NULL ? (size_t)(newline - first) + 1 : back;
    return cut <= back / 2 ? back - cut : back;
}

static size_t marker_room(size_t room, size_t wanted)
{
    return room > MARKER_ROOM * 2 ? wanted : room / 2;
}

/* Cuts the middle out of what is too large. */
static void stream_cut(const struct ends *ends, const struct ends_stream *s,
                       const struct output_request *request, struct room room, struct buffer *out)
{
    struct room half;
    struct cut cut;

    room.bytes -= marker_room(room.bytes, MARKER_ROOM * (request->twice ? 2 : 1));
    room.raw -= marker_room(room.raw, MARKER_ROOM);
    half = (struct room){ room.bytes / 2, room.chars / 2, room.raw / 2 };
    cut.front = fit_front(s->head.data, s->head.length, half, request->twice);
    cut.front = to_line_end(s->head.data, s->head.length, cut.front);
    cut.rest = s->whole ? s->head.data + cut.front : s->tail.data;
    cut.length = s->whole ? s->head.length - cut.front : s->tail.length;
    cut.back = fit_back(cut.rest, cut.length, half, request->twice);
    cut.back = to_line_start(cut.rest, cut.length, cut.back);
    buffer_append(out, s->head.data, cut.front);
    say_left_out(ends, s, &cut, request->exec_id, out);
    if (cut.back > 0)
        buffer_append(out, cut.rest + cut.length - cut.back, cut.back);
}

static bool stream_fits(const struct ends_stream *s, struct room room, bool twice)
{
    return s->whole && s->head.length <= room.bytes && room_take(&room, s->head.data, s->head.length, twice);
}

/* What it takes to show all of it that was read, at most `most`. */
static size_t stream_size(const struct ends_stream *s, size_t most, bool twice)
{
    if (s->head.length + s->tail.length > most)
        return most;
    size_t size = encoded(s->head.data, s->head.length, twice) + encoded(s->tail.data, s->tail.length, twice);
    size += s->whole ? 0 : MARKER_ROOM * (twice ? 2 : 1);
    return size < most ? size : most;
}

static void say_dropped(struct output *output)
{
    const struct exec_head *head = &output->head;

    for (int i = 0; i < 2; i++) {
        uint64_t dropped = head->counted ? head->stream_dropped[i] : i == 0 ? head->dropped_bytes : 0;
        if (dropped == 0)
            continue;
        buffer_printf(&output->streams[i],
                      "... [%llu bytes dropped: beyond the log's limit, or the disk was full] ...\n",
                      (unsigned long long)dropped);
        output->truncated[i] = true;
    }
}

/* What is left of max_bytes for output. */
static size_t room_for_output(const struct output *output, const struct output_request *request)
{
    const char *text = output->rewritten ? output->rewritten : "";
    size_t taken = request->repeats * utf8_json_size(text, strlen(text));

    return request->max_bytes > 2 * taken ? request->max_bytes - taken : request->max_bytes / 2;
}

void output_show(struct output *output, const struct output_request *request)
{
    const struct ends *ends = &output->ends;
    size_t sizes[2], most = room_for_output(output, request), half = most / 2;

    say_dropped(output);
    for (int i = 0; i < 2; i++)
        sizes[i] = stream_size(&ends->streams[i], most, request->twice);
    for (int i = 0; i < 2; i++) {
        size_t other =
            sizes[1 - i] < half ? sizes[1 - i] : half; /* a small one leaves its room to the other */
        const struct ends_stream *s = &ends->streams[i];
        struct buffer *out = &output->streams[i];
        struct room room = { most - other, request->max_chars,
                             request->max_raw > 0 ? request->max_raw - out->length : SIZE_MAX };
        if (stream_fits(s, room, request->twice)) {
            buffer_append(out, s->head.data, s->head.length);
            continue;
        }
        stream_cut(ends, s, request, room, out);
        output->truncated[i] = true;
    }
    ends_clear(&output->ends);
}

void output_clear(struct output *output)
{
    ends_clear(&output->ends);
    buffer_free(&output->streams[0]);
    buffer_free(&output->streams[1]);
    free(output->rewritten);
    *output = (struct output){ 0 };
}
