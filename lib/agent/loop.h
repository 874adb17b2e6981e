/* The agent's event loop: descriptors by poll(2), a few one-shot timers. Sources and timers live inside their
 * owners; either may be taken out at any time, also by another one's callback. */
#ifndef AGENT_LOOP_H
#define AGENT_LOOP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;

typedef void loop_ready(void *user, short events);
struct loop_source {
    int fd;
    short events; /* 0 = not watched */
    unsigned slot;
    loop_ready *ready;
    void *user;
};

typedef void loop_fire(void *user);
struct loop_timer {
    struct loop_timer *next;
    int64_t due_us;
    bool armed;
    loop_fire *fire;
    void *user;
};

struct loop *loop_new(void);
void loop_free(struct loop *loop);
/* Watches for exactly these events; 0 takes the source out (a pipe that is hung up would else wake the loop
 * for ever). */
void loop_watch(struct loop *loop, struct loop_source *source, short events);
void loop_arm(struct loop *loop, struct loop_timer *timer, int64_t in_ms);
void loop_disarm(struct loop *loop, struct loop_timer *timer);
/* Waits once and calls what is ready. */
void loop_turn(struct loop *loop);

#endif
