/* One epoll set with removable sources and one deadline on CLOCK_BOOTTIME, for keeper and warden.
 * Single-threaded; what it calls may block as far as its owner may. */
#ifndef KEEPER_REACTOR_H
#define KEEPER_REACTOR_H

#include "lib/base/error.h"

#include <stdint.h>
#include <sys/epoll.h>

struct reactor;
struct reactor_source;
typedef void reactor_ready(void *user, uint32_t events);

struct reactor *reactor_new(struct error *err);
void reactor_free(struct reactor *r);
/* The source is the reactor's until reactor_remove, which is allowed anywhere; fd stays the caller's. */
struct reactor_source *reactor_add(struct reactor *r, int fd, uint32_t events, reactor_ready *ready,
                                   void *user);
/* The same for a descriptor that can be done without: NULL where the system has no room for one more (errno).
 */
struct reactor_source *reactor_try_add(struct reactor *r, int fd, uint32_t events, reactor_ready *ready,
                                       void *user);
void reactor_change(struct reactor_source *s, uint32_t events);
void reactor_remove(struct reactor_source *s);
/* Waits for events until deadline_ms (clock_boottime_ms, INT64_MAX = none) and serves them. */
void reactor_turn(struct reactor *r, int64_t deadline_ms);

#endif
