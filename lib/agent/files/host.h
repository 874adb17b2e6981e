/* A process that calls of one kind share, a thread for each: PID 1's side. The first of them is there from
 * its start, others are passed on to it; where that is not possible, they begin another one. It ends with the
 * last of its calls, and with PID 1. */
#ifndef AGENT_FILES_HOST_H
#define AGENT_FILES_HOST_H

#include "lib/agent/files/process.h"

struct file_host {
    pid_t pid; /* 0 = it is reaped */
    int socket;
    unsigned calls;
};
/* *at: the one for new calls, or NULL; changed where another one was started. Who gets it leaves it. NULL =
 * errno. The call reads no input: ret->input is -1. */
struct file_host *file_host_join(struct file_host **at, const struct launch_rules *rules,
                                 const struct file_kind *kind, const json_t *request, struct file_pipes *ret);
/* The call is over, or nobody reads what it writes any more, which ends it. */
void file_host_leave(struct file_host **at, struct file_host *host);

#endif
