/* What a command writes: one descriptor, read as far as the stream's credit goes, straight into the channel.
 */
#ifndef AGENT_OUTPUT_H
#define AGENT_OUTPUT_H

#include "lib/agent/loop.h"
#include "lib/wire/channel.h"

struct output {
    struct loop *loop;
    struct channel *channel;
    struct loop_source source;
    uint32_t number; /* the exec's stream on the channel */
    uint8_t which;   /* 1 stdout, 2 stderr */
    int fd;          /* -1 = ended */
    bool waits;      /* for credit */
    bool discards;   /* nobody wants it: read and drop */
    bool late;       /* after the exit */
    bool draining;   /* after the command's end, before the exit is told */
    bool grown;
    size_t drain_left;
    uint64_t total;
    void (*changed)(void *user); /* ended, or drained */
    void *user;
};

/* Takes fd (non-blocking). Fill loop, channel, number, which, changed and user before. */
void output_open(struct output *output, int fd);
void output_start(struct output *output); /* from now on it reads */
void output_close(struct output *output);
/* Reads all that is there now, at most OUTPUT_DRAIN bytes, also over several turns where credit is short;
 * then draining is false and changed was called. */
#define OUTPUT_DRAIN (1u << 20)
void output_drain(struct output *output);
/* Credit may have come. */
void output_resume(struct output *output);
void output_discard(struct output *output);

#endif
