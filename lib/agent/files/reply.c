/* Owns reading a call's reply, from its first byte to the frame. Must not know: places, calls, what it says.
 */
#include "lib/agent/files/reply.h"

#include "lib/agent/files/process.h"

#include <errno.h>

#define PIECE (256u << 10)
#define LEAST 4096 /* most replies are shorter: one read */

static uint32_t told(const struct reply *reply)
{
    uint32_t told = 0;
    if (reply->text.length >= sizeof told)
        memcpy(&told, reply->text.data, sizeof told);
    return told;
}

static size_t length_of(const struct reply *reply)
{
    size_t length = told(reply) & ~FILE_REPLY_MUCH;
    return length <= FRAME_MESSAGE_MAX ? length : 0;
}

/* How much is still to come, as far as is known. */
static size_t wanted(const struct reply *reply)
{
    size_t whole = sizeof(uint32_t) + length_of(reply);
    return reply->text.length < whole ? whole - reply->text.length : 0;
}

bool reply_is_whole(const struct reply *reply)
{
    return wanted(reply) == 0;
}

bool reply_has_much_behind(const struct reply *reply)
{
    return (told(reply) & FILE_REPLY_MUCH) != 0;
}

static void on_ready(void *user, short events)
{
    struct reply *reply = user;
    size_t most = wanted(reply) < LEAST ? LEAST : wanted(reply);
    (void)events;
    if (most > PIECE)
        most = PIECE;
    ssize_t got = read(reply->source.fd, buffer_reserve(&reply->text, most), most);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        reply->text.length += (size_t)got;
    if (got <= 0 || reply_is_whole(reply))
        reply_close(reply);
}

void reply_open(struct reply *reply, int fd)
{
    reply->source = (struct loop_source){ .fd = fd, .ready = on_ready, .user = reply };
    loop_watch(reply->loop, &reply->source, POLLIN);
}

void reply_close(struct reply *reply)
{
    if (reply->source.fd < 0)
        return;
    loop_watch(reply->loop, &reply->source, 0);
    close(STEAL_FD(reply->source.fd));
}

void reply_clear(struct reply *reply)
{
    reply_close(reply);
    buffer_free(&reply->text);
}

void reply_send(struct reply *reply, struct channel *channel, uint32_t number)
{
    channel_send(channel, FRAME_REPLY, 0, number, reply->text.data + sizeof(uint32_t), length_of(reply));
    reply->sent = true;
    buffer_free(&reply->text);
}
