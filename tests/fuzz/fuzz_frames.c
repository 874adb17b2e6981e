/* What a stranger may write to a channel: decoding, joining, credit, and the answers that its user gives. The
 * first byte of an input says how it is cut into writes and whether a hello stands before it. */
#include "lib/base/buffer.h"
#include "lib/wire/channel.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A user that answers, as keeper and agent do. */
static void use(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct channel *c = user;
    struct buffer copy = BUFFER_INIT;
    if (length > FRAME_MESSAGE_MAX || frame->type == FRAME_HELLO || frame->type == FRAME_CREDIT)
        abort();
    buffer_append(&copy, data, length); /* each byte is read */
    if (frame->type == FRAME_DATA) {
        size_t room = channel_data_room(c, frame->stream);
        channel_send_data(c, frame->flags & FRAME_CHANNEL, frame->stream, copy.data,
                          length < room ? length : room);
        channel_grant(c, frame->stream, length);
    }
    if (frame->type == FRAME_REQUEST && channel_control_queued(c) < FRAME_MESSAGE_MAX)
        channel_send_reply(c, frame->stream, NULL, NULL);
    if (frame->type == FRAME_END)
        channel_send_after_data(c, FRAME_CLOSE, 0, frame->stream, NULL, 0);
    if (frame->type == FRAME_CLOSE || frame->type == FRAME_END)
        channel_forget(c, frame->stream);
    buffer_free(&copy);
}

/* The peer reads little, so that writes are often cut short. */
static void drain(int fd, size_t most)
{
    char bytes[4096];
    while (most > 0) {
        ssize_t got = recv(fd, bytes, most < sizeof(bytes) ? most : sizeof(bytes), MSG_DONTWAIT);
        if (got <= 0)
            return;
        most -= (size_t)got;
    }
}

static void talk(struct channel *c, int peer, const uint8_t *data, size_t size, size_t step)
{
    struct error err = ERROR_INIT;
    while (size > 0) {
        ssize_t sent = send(peer, data, size < step ? size : step, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
        if (channel_read(c, SIZE_MAX, use, c, &err) != 0 || channel_write(c, &err) < 0)
            break;
        drain(peer, step * 2);
    }
    error_clear(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hello[] = "\0\0\0\10\0\0\0\0\1\0\0\0WSF1\0\1\0\1";
    int fds[2];
    if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return 0;
    struct channel *c = channel_new(fds[0]);
    if ((data[0] & 0x80) == 0)
        talk(c, fds[1], (const uint8_t *)hello, sizeof(hello) - 1, sizeof(hello));
    talk(c, fds[1], data + 1, size - 1, (size_t)1 << (data[0] & 0x0F));
    close(fds[1]);
    channel_free(c);
    return 0;
}
