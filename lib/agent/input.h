/* What a command reads: a pipe or a terminal, fed as fast as the command takes it. */
#ifndef AGENT_INPUT_H
#define AGENT_INPUT_H

#include "lib/agent/loop.h"
#include "lib/base/buffer.h"
#include "lib/wire/channel.h"

struct input {
    struct loop *loop;
    struct channel *channel;
    struct loop_source source;
    uint32_t number;
    int fd;     /* -1 = closed; what still comes is dropped */
    bool early; /* not open yet, and no terminal: what comes is kept until then, no more than the credit */
    bool terminal;
    bool ends;     /* END has come */
    bool mid_line; /* the last byte that went to the terminal did not end a line */
    size_t owed;   /* of the queue: bytes whose credit goes back when written (an end-of-file character has
                      none) */
    struct buffer queue;
};

/* Takes fd (non-blocking). Fill loop, channel, number and terminal before; early too, where data may come first. */
void input_open(struct input *input, int fd);
void input_close(struct input *input);
void input_data(struct input *input, const char *data, size_t length);
void input_end(struct input *input);

#endif
