/* Owns reading one output of a command: credit before bytes, so a slow reader stops this pipe and nothing
 * else. It must not know what the command is or when it ends. */
#include "lib/agent/output.h"

#include <errno.h>
#include <fcntl.h>

#define OUTPUT_TURN  8            /* reads in one turn of the loop, then others are served */
#define OUTPUT_BUSY  (256u << 10) /* a stream that brought that many bytes gets a larger pipe */
#define OUTPUT_PIPE  (1 << 20)
#define OUTPUT_LEAST 4096 /* credit below this is not worth a read */

enum { READ_AGAIN = -1, READ_NO_CREDIT = -2 };

static void on_ready(void *user, short events);

void output_open(struct output *output, int fd)
{
    output->fd = fd;
    output->source = (struct loop_source){ .fd = fd, .ready = on_ready, .user = output };
}

void output_start(struct output *output)
{
    if (output->fd >= 0)
        loop_watch(output->loop, &output->source, POLLIN);
}

void output_close(struct output *output)
{
    if (output->fd < 0)
        return;
    loop_watch(output->loop, &output->source, 0);
    close(STEAL_FD(output->fd));
    output->waits = output->draining = false;
}

/* Bytes read, 0 at the end, READ_AGAIN. EIO is how a terminal says that its last user is gone. */
static long read_some(struct output *output, char *to, size_t length)
{
    for (;;) {
        ssize_t got = read(output->fd, to, length);
        if (got >= 0)
            return got;
        if (errno == EAGAIN)
            return READ_AGAIN;
        if (errno != EINTR)
            return 0;
    }
}

static long discard_some(struct output *output)
{
    char scratch[8192];
    return read_some(output, scratch, sizeof scratch);
}

static long forward_some(struct output *output)
{
    size_t room = channel_data_room(output->channel, output->number);
    if (room < OUTPUT_LEAST)
        return READ_NO_CREDIT;
    if (room > FRAME_PAYLOAD_MAX)
        room = FRAME_PAYLOAD_MAX;
    if (output->draining && room > output->drain_left)
        room = output->drain_left;
    uint8_t flags = output->which | (output->late ? FRAME_LATE : 0);
    long got = read_some(output, channel_reserve_data(output->channel, output->number, room), room);
    channel_commit_data(output->channel, flags, output->number, got > 0 ? (size_t)got : 0);
    return got;
}

/* Only what turns out to be busy: pipes of this size count against the user's share. */
static void grow_when_busy(struct output *output)
{
    if (output->grown || output->total < OUTPUT_BUSY)
        return;
    output->grown = true;
    if (fcntl(output->fd, F_SETPIPE_SZ, OUTPUT_PIPE) < 0)
        fcntl(output->fd, F_SETPIPE_SZ, OUTPUT_PIPE / 4);
}

/* Its frame keeps its place behind the last bytes. */
static void end(struct output *output)
{
    output_close(output);
    channel_send_after_data(output->channel, FRAME_END, output->which, output->number, NULL, 0);
    output->changed(output->user);
}

static void account(struct output *output, size_t got)
{
    output->total += got;
    if (output->draining)
        output->drain_left -= got < output->drain_left ? got : output->drain_left;
    grow_when_busy(output);
}

static void pump(struct output *output)
{
    for (int i = 0; i < OUTPUT_TURN || output->draining; i++) {
        long got = output->discards ? discard_some(output) : forward_some(output);
        if (got == 0) {
            end(output);
            return;
        }
        output->waits = got == READ_NO_CREDIT;
        if (got > 0)
            account(output, (size_t)got);
        bool drained = output->draining && (got == READ_AGAIN || !output->drain_left);
        if (drained) {
            output->draining = false;
            output->changed(output->user);
        }
        if (got < 0 || drained)
            break;
    }
    if (output->fd >= 0)
        loop_watch(output->loop, &output->source, output->waits ? 0 : POLLIN);
}

static void on_ready(void *user, short events)
{
    (void)events;
    pump(user);
}

void output_drain(struct output *output)
{
    if (output->fd < 0)
        return;
    output->draining = true;
    output->drain_left = OUTPUT_DRAIN;
    pump(output);
}

void output_resume(struct output *output)
{
    if (output->fd >= 0 && output->waits &&
        channel_data_room(output->channel, output->number) >= OUTPUT_LEAST)
        pump(output);
}

void output_discard(struct output *output)
{
    output->discards = true;
    if (output->waits)
        pump(output);
}
