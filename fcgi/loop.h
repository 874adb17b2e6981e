/* One epoll set: descriptors, timers (CLOCK_BOOTTIME), signals, work for the end of a turn, answers of helper
 * threads. Single-threaded but for loop_post. Nothing called from here may block. */
#ifndef FCGI_LOOP_H
#define FCGI_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
typedef void loop_ready(void *user, uint32_t epoll_events);
typedef void loop_call(void *user);

struct loop *loop_new(void);
void loop_free(struct loop *l);
void loop_run(struct loop *l); /* until loop_stop */
void loop_stop(struct loop *l);

/* A watch is owned by the loop until loop_unwatch; both are allowed inside callbacks (also for a descriptor
 * whose event is pending). */
struct loop_watch;
struct loop_watch *loop_watch_fd(struct loop *l, int fd, uint32_t epoll_events, loop_ready *ready,
                                 void *user);
/* The same for a descriptor that can be done without: NULL where the system has no room for one more (errno).
 */
struct loop_watch *loop_try_watch_fd(struct loop *l, int fd, uint32_t epoll_events, loop_ready *ready,
                                     void *user);
void loop_watch_change(struct loop_watch *w, uint32_t epoll_events);
void loop_unwatch(struct loop_watch *w); /* does not close fd */

/* Intrusive: lives in its owner's struct, zero-initialised; a binary heap inside the loop. */
struct loop_timer {
    int64_t deadline_ms;
    loop_call *call;
    void *user;
    uint32_t heap_index; /* 1-based; 0 = not running */
};
void loop_timer_start(struct loop *l, struct loop_timer *t, int64_t deadline_ms, loop_call *call,
                      void *user); /* restarts a running one */
void loop_timer_stop(struct loop *l, struct loop_timer *t);

void loop_signal(struct loop *l, int signal_number, loop_call *call, void *user);
/* Runs once after all ready descriptors of this turn were served. */
void loop_defer(struct loop *l, loop_call *call, void *user);
/* From any thread: runs in the loop soon. */
void loop_post(struct loop *l, loop_call *call, void *user);
/* Called at the end of each turn (log_flush). */
void loop_at_turn_end(struct loop *l, loop_call *call, void *user);

/* Runs work(user) in the loop's helper thread (one, started when first needed), then done(user) in the loop,
 * in order of submission. */
void loop_offload(struct loop *l, loop_call *work, loop_call *done, void *user);

#endif
