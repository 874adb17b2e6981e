/* Owns: one stream socket that speaks frames: what waits to be written, in which order, and what was read and
 * is not yet a whole message. It must not know: what streams are for. All that a peer can make us keep is
 * bounded: one message, one frame, a few bytes for each stream. */
#include "lib/wire/channel.h"

#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "lib/base/json_text.h"
#include "lib/wire/streams.h"

#include <endian.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    READ_SIZE = 128 << 10,
    WRITE_SIZE = 256 << 10,
    WRITE_PARTS = 64,
    STREAMS_MAX = 4096,  /* that a peer can make us remember */
    KEPT_CAPACITY = 256, /* a drained queue of control keeps no more */
    GRANT_STEP = FRAME_WINDOW / 4,
    SMALL_READ = 4 << 10, /* copied to what waits, so that many small reads do not become many small frames */
    HELLO_SIZE = 8,
    HELLO_SIZE_MAX = 256, /* a later version may add to it */
};
_Static_assert(READ_SIZE >= 2 * (FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX),
               "a whole frame fits behind a part of one");

struct channel {
    int fd;
    bool is_socket, is_ready, message_open;
    bool is_broken;   /* what the peer sent last was no frame: nothing of it is received any more */
    struct buffer in; /* not yet decoded */
    struct buffer
        message; /* pieces joined so far, where message_open; they are of message_frame's type and stream */
    struct frame message_frame;
    struct buffer control; /* encoded frames, written up to control_sent */
    size_t control_sent;
    struct streams streams;
    struct chunk *begun;    /* a forgotten stream's frame, written in part: goes first */
    struct chunk *reserved; /* between channel_reserve_data and channel_commit_data */
};

struct hello {
    char magic[4];
    uint16_t version, oldest;
};
static const char magic[4] = "WSF1";
_Static_assert(sizeof(struct hello) == HELLO_SIZE, "as it goes over the wire");

struct channel *channel_new(int fd)
{
    struct channel *c = xcalloc(1, sizeof(*c));
    int type;
    socklen_t size = sizeof(type);
    c->fd = fd;
    c->is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    io_set_nonblocking(fd, NULL);
    struct hello hello = { .version = htobe16(FRAME_VERSION), .oldest = htobe16(FRAME_VERSION_OLDEST) };
    memcpy(hello.magic, magic, sizeof(magic));
    channel_send(c, FRAME_HELLO, 0, 0, &hello, sizeof(hello));
    return c;
}

void channel_free(struct channel *c)
{
    if (c == NULL)
        return;
    close(c->fd);
    buffer_free(&c->in);
    buffer_free(&c->message);
    buffer_free(&c->control);
    streams_free(&c->streams);
    free(c->begun);
    free(c->reserved);
    free(c);
}

int channel_fd(const struct channel *c)
{
    return c->fd;
}

bool channel_is_ready(const struct channel *c)
{
    return c->is_ready;
}

uint32_t channel_events(const struct channel *c)
{
    bool waiting = c->begun != NULL || c->control.length > 0 || c->streams.first != NULL;
    return EPOLLIN | (waiting ? EPOLLOUT : 0u);
}

/* -- Reading -- */

static int receive_hello(struct channel *c, const struct frame *frame, struct error *err)
{
    struct hello hello;
    if (frame->length < HELLO_SIZE || frame->length > HELLO_SIZE_MAX || frame->flags != 0)
        return error_set(err, ERROR_INTERNAL, "a peer's hello is not one");
    memcpy(&hello, frame->payload, sizeof(hello));
    if (memcmp(hello.magic, magic, sizeof(magic)) != 0)
        return error_set(err, ERROR_INTERNAL, "a peer's hello is not one");
    uint16_t version = be16toh(hello.version), oldest = be16toh(hello.oldest);
    if (version < FRAME_VERSION_OLDEST || oldest > FRAME_VERSION)
        return error_set(err, ERROR_UNAVAILABLE, "a peer talks version %u of the frames, we %u", version,
                         FRAME_VERSION);
    c->is_ready = true;
    return 0;
}

/* A grant never lifts credit above the window: one that arrives late, for an earlier use of the number, must
 * do no harm. */
static int receive_credit(struct channel *c, const struct frame *frame, struct error *err)
{
    uint32_t bytes, sum;
    if (frame->length != sizeof(bytes) || frame->flags != 0)
        return error_set(err, ERROR_INTERNAL, "a frame of credit has the wrong size");
    memcpy(&bytes, frame->payload, sizeof(bytes));
    struct stream *stream = streams_find(&c->streams, frame->stream);
    if (stream == NULL)
        return 0;
    if (__builtin_add_overflow(stream->credit, be32toh(bytes), &sum) || sum > FRAME_WINDOW)
        sum = FRAME_WINDOW;
    stream->credit = sum;
    return 0;
}

static int receive_data(struct channel *c, const struct frame *frame, struct error *err)
{
    if ((frame->flags & FRAME_MORE) != 0)
        return error_set(err, ERROR_INTERNAL, "a frame of data is marked as part of a message");
    if (c->streams.count >= STREAMS_MAX && streams_find(&c->streams, frame->stream) == NULL)
        return error_set(err, ERROR_INTERNAL, "a peer has too many streams");
    struct stream *stream = streams_get(&c->streams, frame->stream);
    if (frame->length > stream->window)
        return error_set(err, ERROR_INTERNAL, "a peer sent data without credit");
    stream->window -= frame->length;
    return 0;
}

/* Joins the pieces of a long message. 1 = it is whole now, or was from the start (message is empty then). */
static int join_message(struct channel *c, const struct frame *frame, struct error *err)
{
    bool more = (frame->flags & FRAME_MORE) != 0;
    uint8_t flags = frame->flags & (uint8_t)~FRAME_MORE;
    const struct frame *open = &c->message_frame;
    if (!c->message_open && !more)
        return 1;
    if (c->message_open &&
        (open->type != frame->type || open->stream != frame->stream || open->flags != flags))
        return error_set(err, ERROR_INTERNAL, "a message is not finished before the next");
    if (c->message.length + frame->length > FRAME_MESSAGE_MAX)
        return error_set(err, ERROR_TOO_LARGE, "a message is longer than %u bytes", FRAME_MESSAGE_MAX);
    if (more && frame->length == 0)
        return error_set(err, ERROR_INTERNAL, "a part of a message is empty");
    buffer_append(&c->message, frame->payload, frame->length);
    c->message_frame = (struct frame){ .stream = frame->stream, .type = frame->type, .flags = flags };
    c->message_open = more;
    return more ? 0 : 1;
}

static int receive_message(struct channel *c, const struct frame *frame, channel_receive *receive, void *user,
                           struct error *err)
{
    int whole = join_message(c, frame, err);
    if (whole <= 0)
        return whole;
    if (c->message.length == 0) {
        receive(user, frame, frame->payload, frame->length);
        return 0;
    }
    struct frame joined = c->message_frame;
    joined.payload = c->message.data;
    joined.length = (uint32_t)c->message.length;
    receive(user, &joined, joined.payload, joined.length);
    buffer_free(&c->message);
    return 0;
}

static int receive_frame(struct channel *c, const struct frame *frame, channel_receive *receive, void *user,
                         struct error *err)
{
    if (c->is_ready == (frame->type == FRAME_HELLO))
        return error_set(err, ERROR_INTERNAL, "a peer's hello is missing or doubled");
    if (frame->type == FRAME_HELLO)
        return receive_hello(c, frame, err);
    if (c->message_open && frame->type != c->message_frame.type)
        return error_set(err, ERROR_INTERNAL, "a message is not finished before the next");
    if (frame->type == FRAME_CREDIT)
        return receive_credit(c, frame, err);
    if (frame->type != FRAME_DATA)
        return receive_message(c, frame, receive, user, err);
    if (receive_data(c, frame, err) < 0)
        return -1;
    receive(user, frame, frame->payload, frame->length);
    return 0;
}

/* What was received is taken out of the buffer, also where what follows is no frame: nobody gets it twice. */
static int receive_all(struct channel *c, channel_receive *receive, void *user, struct error *err)
{
    size_t at = 0;
    long size;
    struct frame frame;
    while ((size = frame_decode(c->in.data + at, c->in.length - at, &frame, err)) > 0) {
        if (receive_frame(c, &frame, receive, user, err) < 0) {
            size = -1;
            break;
        }
        at += (size_t)size;
    }
    buffer_consume(&c->in, at);
    c->is_broken = size < 0;
    return size < 0 ? -1 : 0;
}

/* Bytes read; 0 = the peer closed; -1 with errno. */
static ssize_t read_some(struct channel *c, size_t room)
{
    char *at = buffer_reserve(&c->in, room);
    ssize_t got;
    do
        got = c->is_socket ? recv(c->fd, at, room, 0) : read(c->fd, at, room);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        c->in.length += (size_t)got;
    return got < 0 && errno == ECONNRESET ? 0 : got;
}

static int read_and_receive(struct channel *c, size_t limit, channel_receive *receive, void *user,
                            struct error *err)
{
    for (size_t done = 0; done < limit;) {
        size_t room = READ_SIZE - c->in.length;
        ssize_t got = read_some(c, room);
        if (got == 0)
            return 1;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (got < 0)
            return error_errno(err, ERROR_UNAVAILABLE, errno, "cannot read from a peer");
        if (receive_all(c, receive, user, err) < 0)
            return -1;
        if ((size_t)got < room)
            return 0; /* drained: the next EAGAIN is not worth a call */
        done += (size_t)got;
    }
    return 0;
}

int channel_read(struct channel *c, size_t limit, channel_receive *receive, void *user, struct error *err)
{
    if (c->is_broken)
        return error_set(err, ERROR_UNAVAILABLE, "the connection is broken");
    int result = read_and_receive(c, limit, receive, user, err);
    if (c->in.length == 0)
        buffer_free(&c->in);
    return result;
}

/* -- Writing -- */

enum part { PART_BEGUN, PART_CONTROL, PART_STREAM };
struct plan {
    struct iovec parts[WRITE_PARTS];
    enum part kinds[WRITE_PARTS];
    int count;
    size_t size;
};

static void plan_bytes(struct plan *plan, enum part kind, char *data, size_t length)
{
    plan->kinds[plan->count] = kind;
    plan->parts[plan->count++] = (struct iovec){ .iov_base = data, .iov_len = length };
    plan->size += length;
}

static void plan_chunk(struct plan *plan, enum part kind, struct chunk *chunk)
{
    plan_bytes(plan, kind, chunk->bytes + chunk->sent, chunk->size - chunk->sent);
}

/* One frame from each stream, then again from the first: just as streams_written() will turn the ring. */
static void plan_streams(struct plan *plan, struct streams *streams)
{
    bool first_round = true, took = true;
    for (; took; first_round = false) {
        took = false;
        for (struct stream *s = streams->first; s != NULL; s = s->next) {
            struct chunk *chunk = first_round ? s->head : s->planned;
            if (plan->count == WRITE_PARTS || plan->size >= WRITE_SIZE)
                return;
            if (chunk == NULL)
                continue;
            plan_chunk(plan, PART_STREAM, chunk);
            s->planned = chunk->next;
            took = true;
        }
    }
}

/* A frame that was begun must be finished; then control; then bulk. */
static void plan_write(struct channel *c, struct plan *plan)
{
    struct stream *first = c->streams.first;
    bool in_frame = first != NULL && first->head->sent > 0;
    size_t control = c->control.length - c->control_sent;
    if (c->begun != NULL)
        plan_chunk(plan, PART_BEGUN, c->begun);
    if (in_frame && control > 0)
        plan_chunk(plan, PART_STREAM, first->head);
    if (control > 0)
        plan_bytes(plan, PART_CONTROL, c->control.data + c->control_sent, control);
    if (!in_frame || control == 0)
        plan_streams(plan, &c->streams);
}

static void control_written(struct channel *c, size_t count)
{
    c->control_sent += count;
    if (c->control_sent == c->control.length) {
        c->control.length = c->control_sent = 0;
        if (c->control.capacity > KEPT_CAPACITY)
            buffer_free(&c->control);
    } else if (c->control_sent >= WRITE_SIZE && c->control_sent > c->control.length / 2) {
        buffer_consume(&c->control, c->control_sent);
        c->control_sent = 0;
    }
}

static void begun_written(struct channel *c, size_t count)
{
    c->begun->sent += (uint32_t)count;
    if (c->begun->sent < c->begun->size)
        return;
    free(c->begun);
    c->begun = NULL;
}

static void stream_written(struct channel *c, size_t count)
{
    struct chunk *chunk = c->streams.first->head;
    chunk->sent += (uint32_t)count;
    if (chunk->sent == chunk->size)
        streams_written(&c->streams);
}

static void plan_written(struct channel *c, const struct plan *plan, size_t written)
{
    static void (*const account[])(struct channel *, size_t) = {
        [PART_BEGUN] = begun_written,
        [PART_CONTROL] = control_written,
        [PART_STREAM] = stream_written,
    };
    for (int at = 0; at < plan->count && written > 0; at++) {
        size_t length = plan->parts[at].iov_len;
        size_t count = written < length ? written : length;
        account[plan->kinds[at]](c, count);
        written -= count;
    }
}

static ssize_t write_plan(struct channel *c, struct plan *plan)
{
    struct msghdr message = { .msg_iov = plan->parts, .msg_iovlen = (size_t)plan->count };
    ssize_t written;
    do
        written =
            c->is_socket ? sendmsg(c->fd, &message, MSG_NOSIGNAL) : writev(c->fd, plan->parts, plan->count);
    while (written < 0 && errno == EINTR);
    return written;
}

/* The peer reads no more, yet what it sent before must still be read: its end is for channel_read() to tell.
 */
static void drop_output(struct channel *c)
{
    free(STEAL(c->begun));
    c->control_sent = 0;
    buffer_free(&c->control);
    while (c->streams.first != NULL)
        streams_written(&c->streams);
}

int channel_write(struct channel *c, struct error *err)
{
    while ((channel_events(c) & EPOLLOUT) != 0) {
        struct plan plan;
        plan.count = 0;
        plan.size = 0;
        plan_write(c, &plan);
        ssize_t written = write_plan(c, &plan);
        if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (written < 0 && errno != EPIPE && errno != ECONNRESET)
            return error_errno(err, ERROR_UNAVAILABLE, errno, "cannot write to a peer");
        if (written < 0) {
            drop_output(c);
            return 0;
        }
        plan_written(c, &plan, (size_t)written);
        if ((size_t)written < plan.size)
            return 0; /* full: the next EAGAIN is not worth a call */
    }
    return 0;
}

/* -- Control -- */

void channel_send(struct channel *c, enum frame_type type, uint8_t flags, uint32_t stream, const void *data,
                  size_t length)
{
    const char *at = data;
    if (length > FRAME_MESSAGE_MAX)
        abort();
    do {
        bool more = length > FRAME_PAYLOAD_MAX;
        struct frame frame = { .stream = stream,
                               .type = (uint8_t)type,
                               .flags = flags | (more ? FRAME_MORE : 0) };
        frame.length = more ? FRAME_PAYLOAD_MAX : (uint32_t)length;
        frame_encode_header(buffer_reserve(&c->control, FRAME_HEADER_SIZE), &frame);
        c->control.length += FRAME_HEADER_SIZE;
        buffer_append(&c->control, at, frame.length);
        at = at != NULL ? at + frame.length : NULL;
        length -= frame.length;
    } while (length > 0);
}

bool channel_send_json(struct channel *c, enum frame_type type, uint32_t stream, const json_t *message)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    if (!json_text_append(&text, message) || text.length > FRAME_MESSAGE_MAX)
        return false;
    channel_send(c, type, 0, stream, text.data, text.length);
    return true;
}

void channel_send_reply(struct channel *c, uint32_t stream, const json_t *ret, const struct error *err)
{
    json_auto_t *message = json_object();
    if (err != NULL)
        json_object_set_new(message, "error", error_pack(err));
    else
        json_object_set_new(message, "ret", ret != NULL ? json_incref((json_t *)ret) : json_null());
    if (channel_send_json(c, FRAME_REPLY, stream, message))
        return;
    _cleanup_error_ struct error large = ERROR_INIT;
    error_set(&large, ERROR_TOO_LARGE, "an answer is longer than %u bytes", FRAME_MESSAGE_MAX);
    json_auto_t *instead = json_object();
    json_object_set_new(instead, "error", error_pack(&large));
    channel_send_json(c, FRAME_REPLY, stream, instead);
}

size_t channel_control_queued(const struct channel *c)
{
    return c->control.length - c->control_sent;
}

/* -- Bulk -- */

static size_t room_of(const struct stream *stream)
{
    size_t room = stream->queued < CHANNEL_STREAM_QUEUE ? CHANNEL_STREAM_QUEUE - stream->queued : 0;
    return room < stream->credit ? room : stream->credit;
}

size_t channel_data_room(struct channel *c, uint32_t stream)
{
    return room_of(streams_get(&c->streams, stream));
}

static struct stream *spend(struct channel *c, uint32_t number, size_t length)
{
    struct stream *stream = streams_get(&c->streams, number);
    if (length > room_of(stream))
        abort();
    stream->credit -= (uint32_t)length;
    return stream;
}

/* Queues at most one frame's worth. */
static void queue_piece(struct channel *c, struct stream *stream, const struct frame *frame)
{
    bool is_data = frame->type == FRAME_DATA;
    struct chunk *tail = is_data ? streams_extend(stream, frame->flags, frame->length) : NULL;
    if (tail != NULL) {
        memcpy(tail->bytes + tail->size, frame->payload, frame->length);
        streams_extended(stream, frame->length);
        return;
    }
    struct chunk *chunk =
        is_data ? streams_chunk(stream, frame->flags, frame->length) : chunk_new(frame->length);
    if (frame->length > 0)
        memcpy(chunk->bytes + FRAME_HEADER_SIZE, frame->payload, frame->length);
    streams_queue(&c->streams, stream, chunk, frame);
}

void channel_send_data(struct channel *c, uint8_t flags, uint32_t stream, const void *data, size_t length)
{
    struct stream *target = spend(c, stream, length);
    struct frame frame = { .stream = stream, .type = FRAME_DATA, .flags = flags, .payload = data };
    for (; length > 0; length -= frame.length, frame.payload += frame.length) {
        frame.length = length < FRAME_PAYLOAD_MAX ? (uint32_t)length : FRAME_PAYLOAD_MAX;
        queue_piece(c, target, &frame);
    }
}

void channel_send_after_data(struct channel *c, enum frame_type type, uint8_t flags, uint32_t stream,
                             const void *data, size_t length)
{
    if (length > FRAME_PAYLOAD_MAX || type == FRAME_DATA)
        abort();
    struct frame frame = {
        .stream = stream, .length = (uint32_t)length, .type = (uint8_t)type, .flags = flags, .payload = data
    };
    queue_piece(c, streams_get(&c->streams, stream), &frame);
}

char *channel_reserve_data(struct channel *c, uint32_t stream, size_t length)
{
    if (length > channel_data_room(c, stream))
        abort();
    free(c->reserved);
    c->reserved = chunk_new(length);
    return c->reserved->bytes + FRAME_HEADER_SIZE;
}

void channel_commit_data(struct channel *c, uint8_t flags, uint32_t stream, size_t length)
{
    _cleanup_free_ struct chunk *chunk = STEAL(c->reserved);
    if (length == 0)
        return;
    if (chunk == NULL || length > chunk->capacity - FRAME_HEADER_SIZE)
        abort();
    if (length <= SMALL_READ || length > FRAME_PAYLOAD_MAX) {
        channel_send_data(c, flags, stream, chunk->bytes + FRAME_HEADER_SIZE, length);
        return;
    }
    struct stream *target = spend(c, stream, length);
    struct frame frame = { .stream = stream, .length = (uint32_t)length, .type = FRAME_DATA, .flags = flags };
    streams_queue(&c->streams, target, chunk_fit(STEAL(chunk), length), &frame);
}

void channel_grant(struct channel *c, uint32_t stream, size_t bytes)
{
    struct stream *target = streams_find(&c->streams, stream);
    if (target == NULL)
        return;
    uint32_t owed = FRAME_WINDOW - target->window;
    target->used = bytes < owed - target->used ? target->used + (uint32_t)bytes : owed;
    if (target->used < GRANT_STEP)
        return;
    uint32_t payload = htobe32(target->used);
    target->window += target->used;
    target->used = 0;
    channel_send(c, FRAME_CREDIT, 0, stream, &payload, sizeof(payload));
}

void channel_forget(struct channel *c, uint32_t stream)
{
    struct stream *target = streams_find(&c->streams, stream);
    if (target == NULL)
        return;
    if (target->head != NULL && chunk_type(target->tail) == FRAME_CLOSE) {
        target->forgotten = true;
        return;
    }
    struct chunk *begun = streams_remove(&c->streams, target);
    if (begun != NULL)
        c->begun = begun;
}
