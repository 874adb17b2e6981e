/* The loop's helper thread: takes work that may wait (a durable commit), in order; its answers come back by
 * loop_post. */
#ifndef FCGI_OFFLOAD_H
#define FCGI_OFFLOAD_H

#include "fcgi/loop.h"

struct offload;
struct offload *offload_new(struct loop *l);
void offload_add(struct offload *o, loop_call *work, loop_call *done, void *user);
void offload_free(struct offload *o); /* does what is queued, then ends the thread; NULL is fine */

#endif
