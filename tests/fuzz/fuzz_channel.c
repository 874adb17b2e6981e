/* Two channels that talk: whatever is sent in whatever order over a socket that takes and gives a few bytes
 * at a time, arrives whole, in order on its stream, within its credit, ends behind data. An input is a row of
 * steps: side and kind, stream, then what the kind needs. */
#include "lib/base/buffer.h"
#include "lib/wire/channel.h"
#include "tests/fuzz/input.h"

#include <sys/epoll.h>
#include <sys/socket.h>

enum { STREAMS = 8 };

struct side {
    struct channel *channel;
    struct side *other;
    struct flow {
        struct buffer sent; /* by this side and not yet there */
        size_t ungranted;   /* taken by this side, credit not given back */
        bool ended;         /* END sent by this side and not yet there */
    } flows[STREAMS];
    size_t messages;       /* sent and not yet there */
    struct buffer message; /* the texts of those, one after the other */
};
static struct side sides[2];

static void take(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct side *me = user;
    struct side *from = me->other;
    struct flow *flow = &from->flows[frame->stream % STREAMS];
    if (frame->type == FRAME_DATA) {
        holds(flow->sent.length >= length && memcmp(flow->sent.data, data, length) == 0);
        buffer_consume(&flow->sent, length);
        me->flows[frame->stream % STREAMS].ungranted += length;
    } else if (frame->type == FRAME_END) {
        holds(flow->ended && flow->sent.length == 0);
        flow->ended = false;
    } else {
        holds(frame->type == FRAME_REQUEST && from->messages > 0 && from->message.length >= length);
        holds(length == 0 || memcmp(from->message.data, data, length) == 0);
        buffer_consume(&from->message, length);
        from->messages--;
    }
}

static void send_data(struct side *me, uint32_t stream, size_t length, uint8_t fill, bool reserved)
{
    static char bytes[CHANNEL_STREAM_QUEUE];
    struct flow *flow = &me->flows[stream % STREAMS];
    size_t room = channel_data_room(me->channel, stream);
    holds(room <= CHANNEL_STREAM_QUEUE && flow->sent.length + room <= FRAME_WINDOW);
    length = length < room ? length : room;
    if (flow->ended || length == 0)
        return;
    memset(bytes, fill, length);
    for (size_t i = 0; i < length; i += 97)
        bytes[i] = (char)(flow->sent.length + i);
    if (reserved) {
        length = length < FRAME_PAYLOAD_MAX ? length : FRAME_PAYLOAD_MAX;
        memcpy(channel_reserve_data(me->channel, stream, length), bytes, length);
        channel_commit_data(me->channel, 1, stream, length - length / 3);
        length -= length / 3;
    } else {
        channel_send_data(me->channel, 1, stream, bytes, length);
    }
    buffer_append(&flow->sent, bytes, length);
}

static void send_end(struct side *me, uint32_t stream)
{
    struct flow *flow = &me->flows[stream % STREAMS];
    if (flow->ended)
        return;
    flow->ended = true;
    channel_send_after_data(me->channel, FRAME_END, 1, stream, NULL, 0);
}

static void send_message(struct side *me, uint32_t stream, size_t length, uint8_t fill)
{
    if (channel_control_queued(me->channel) > 1 << 20)
        return;
    char *text = buffer_reserve(&me->message, length);
    memset(text, fill, length);
    channel_send(me->channel, FRAME_REQUEST, 0, stream, text, length);
    me->message.length += length;
    me->messages++;
}

static void grant(struct side *me, uint32_t stream, size_t bytes)
{
    struct flow *flow = &me->flows[stream % STREAMS];
    bytes = bytes < flow->ungranted ? bytes : flow->ungranted;
    flow->ungranted -= bytes;
    channel_grant(me->channel, stream, bytes);
}

static void move(struct side *me, size_t limit)
{
    holds(channel_write(me->channel, NULL) == 0);
    holds(channel_read(me->other->channel, limit, take, me->other, NULL) == 0);
}

static void step(struct input *in)
{
    unsigned what = input_u8(in);
    struct side *me = &sides[what & 1];
    uint32_t stream = 1u + input_u8(in) % STREAMS;
    size_t length = input_u16(in);
    switch (what >> 1 & 7) {
    case 0:
    case 1:
        send_data(me, stream, what & 0x80 ? length * 4 : length / 4, (uint8_t)what, what & 0x10);
        break;
    case 2:
        send_message(me, stream, what & 0x80 ? length * 8 : length / 8, (uint8_t)what);
        break;
    case 3:
        grant(me, stream, length * 4);
        break;
    case 4:
        send_end(me, stream);
        break;
    default:
        move(me, length + 1);
    }
}

/* All credit goes back until nothing is under way. */
static void finish(void)
{
    for (int quiet = 0; quiet < 4; quiet++)
        for (size_t i = 0; i < 2; i++) {
            struct side *me = &sides[i];
            size_t left = 0;
            move(me, SIZE_MAX);
            for (uint32_t stream = 1; stream <= STREAMS; stream++) {
                grant(me->other, stream, SIZE_MAX);
                left += me->flows[stream % STREAMS].sent.length + me->flows[stream % STREAMS].ended;
            }
            if (left + me->messages > 0)
                quiet = -1;
        }
    for (size_t i = 0; i < 2; i++)
        holds((channel_events(sides[i].channel) & EPOLLOUT) == 0 && channel_is_ready(sides[i].channel));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data, size };
    int fds[2], small = 1 << (8 + input_u8(&in) % 10);
    if (size > 8000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return 0;
    for (size_t i = 0; i < 2; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        sides[i] = (struct side){ .channel = channel_new(fds[i]), .other = &sides[1 - i] };
    }
    while (in.left > 0)
        step(&in);
    finish();
    for (size_t i = 0; i < 2; i++) {
        channel_free(sides[i].channel);
        buffer_free(&sides[i].message);
        for (size_t j = 0; j < STREAMS; j++)
            buffer_free(&sides[i].flows[j].sent);
    }
    return 0;
}
