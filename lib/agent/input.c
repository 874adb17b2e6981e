/* Owns the bytes on their way into one command. The queue is bounded by the stream's credit, which goes back
 * only as bytes are written (or dropped, where the command no longer reads). */
#include "lib/agent/input.h"

#include "lib/agent/pty.h"

#include <errno.h>

static void flush(struct input *input);

static void on_writable(void *user, short events)
{
    (void)events;
    flush(user);
}

void input_open(struct input *input, int fd)
{
    input->fd = fd;
    input->source = (struct loop_source){ .fd = fd, .ready = on_writable, .user = input };
    if (!input->early)
        return;
    input->early = false;
    flush(input);
}

static void give_back(struct input *input, size_t bytes)
{
    size_t owed = bytes < input->owed ? bytes : input->owed;
    input->owed -= owed;
    if (owed)
        channel_grant(input->channel, input->number, owed);
}

void input_close(struct input *input)
{
    input->early = false;
    give_back(input, input->owed);
    buffer_free(&input->queue);
    if (input->fd < 0)
        return;
    loop_watch(input->loop, &input->source, 0);
    close(STEAL_FD(input->fd));
}

/* Written, -1 = later, -2 = nobody reads any more. */
static long write_some(struct input *input, const char *data, size_t length)
{
    for (;;) {
        ssize_t done = write(input->fd, data, length);
        if (done >= 0)
            return done;
        if (errno == EAGAIN)
            return -1;
        if (errno != EINTR)
            return -2;
    }
}

static void note_line(struct input *input, char last)
{
    if (input->terminal)
        input->mid_line = !pty_ends_line(input->fd, last);
}

static void finish(struct input *input)
{
    if (input->ends && !input->terminal && input->fd >= 0)
        input_close(input);
}

static bool is_closed(const struct input *input)
{
    return input->fd < 0 && !input->early;
}

static void flush(struct input *input)
{
    if (input->early)
        return;
    while (input->queue.length) {
        long done = write_some(input, input->queue.data, input->queue.length);
        if (done == -2) {
            input_close(input);
            return;
        }
        if (done <= 0)
            break;
        note_line(input, input->queue.data[done - 1]);
        buffer_consume(&input->queue, (size_t)done);
        give_back(input, (size_t)done);
    }
    if (input->queue.length) {
        loop_watch(input->loop, &input->source, POLLOUT);
        return;
    }
    buffer_free(&input->queue);
    loop_watch(input->loop, &input->source, 0);
    finish(input);
}

void input_data(struct input *input, const char *data, size_t length)
{
    if (is_closed(input) || input->ends) {
        channel_grant(input->channel, input->number, length);
        return;
    }
    buffer_append(&input->queue, data, length);
    input->owed += length;
    flush(input);
}

/* On a terminal the character means "hand over what is there": at the start of a line that is nothing, which
 * is the end; inside a line it takes a second one. */
void input_end(struct input *input)
{
    if (is_closed(input) || input->ends)
        return;
    input->ends = true;
    if (input->terminal) {
        bool mid_line = input->mid_line;
        if (input->queue.length)
            mid_line = !pty_ends_line(input->fd, input->queue.data[input->queue.length - 1]);
        char eof = pty_eof_character(input->fd);
        buffer_append_char(&input->queue, eof);
        if (mid_line)
            buffer_append_char(&input->queue, eof);
    }
    flush(input);
}
