/* Owns: the sockets and the record of a test of channels. */
#include "tests/support/peers.h"

#include <check.h>
#include <sys/epoll.h>
#include <sys/socket.h>

struct seen seen[100000];
size_t seen_count;
struct buffer seen_data;
struct error err;
struct channel *ours, *theirs;
int raw = -1; /* the peer's end, where a test plays it by hand */

void note(void *user, const struct frame *frame, const char *data, size_t length)
{
    (void)user;
    if (seen_count < N_ELEMENTS(seen))
        seen[seen_count++] = (struct seen){ frame->stream, frame->type, frame->flags, length };
    buffer_append(&seen_data, data, length);
}

void forget_seen(void)
{
    seen_count = 0;
    seen_data.length = 0;
}

void start(void)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours = channel_new(fds[0]);
    raw = fds[1];
    forget_seen();
    error_clear(&err);
}

int read_ours(void)
{
    return channel_read(ours, LIMIT, note, NULL, &err);
}

void start_pair(void)
{
    start();
    theirs = channel_new(raw);
    raw = -1;
    ck_assert_int_eq(channel_write(ours, &err), 0);
    ck_assert_int_eq(channel_write(theirs, &err), 0);
    ck_assert_int_eq(channel_read(theirs, LIMIT, note, NULL, &err), 0);
    ck_assert_int_eq(read_ours(), 0);
    ck_assert(channel_is_ready(ours) && channel_is_ready(theirs));
}

void stop(void)
{
    channel_free(STEAL(ours));
    channel_free(STEAL(theirs));
    if (raw >= 0)
        close(raw);
    raw = -1;
    buffer_free(&seen_data);
    error_clear(&err);
}

/* Moves all that ours has queued into seen, giving credit back where grant. */
void deliver(bool grant)
{
    for (bool more = true; more;) {
        more = (channel_events(ours) & EPOLLOUT) != 0;
        ck_assert_msg(channel_write(ours, &err) == 0, "%s", err.message);
        size_t before = seen_count;
        ck_assert_msg(channel_read(theirs, LIMIT, note, NULL, &err) == 0, "%s", err.message);
        for (size_t at = before; grant && at < seen_count; at++)
            if (seen[at].type == FRAME_DATA)
                channel_grant(theirs, seen[at].stream, seen[at].length);
        ck_assert_int_eq(channel_write(theirs, &err), 0);
        ck_assert_int_eq(channel_read(ours, LIMIT, note, NULL, &err), 0);
    }
}

void send_raw(uint8_t type, uint8_t flags, uint32_t stream, const void *data, uint32_t length)
{
    char header[FRAME_HEADER_SIZE];
    frame_encode_header(header,
                        &(struct frame){ .stream = stream, .length = length, .type = type, .flags = flags });
    ck_assert_int_eq(write(raw, header, sizeof(header)), sizeof(header));
    ck_assert_int_eq(write(raw, data, length), (ssize_t)length);
}

void send_hello(void)
{
    send_raw(FRAME_HELLO, 0, 0, "WSF1\0\1\0\1", 8);
    ck_assert_int_eq(read_ours(), 0);
}
