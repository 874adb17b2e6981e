/* Does a command wait for input? Looked at from outside, a few times a second: a hint, not a promise. */
#ifndef AGENT_WAITING_H
#define AGENT_WAITING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct waiting {
    bool watched; /* it has an input that can be waited for */
    bool terminal;
    dev_t device; /* terminal: its number; pipe: where its inode lies */
    ino_t inode;
    bool now; /* as last told */
    int64_t next_ms, touched_ms;
};

void waiting_on_pipe(struct waiting *waiting, int fd);
void waiting_on_terminal(struct waiting *waiting, int slave);
void waiting_start(struct waiting *waiting);
void waiting_touch(struct waiting *waiting); /* something happened: look often again */
/* Looks where it is time. true: now has changed. root: whose descendants are looked at; input_fd: our end. */
bool waiting_look(struct waiting *waiting, pid_t root, int input_fd);
/* In how many ms it wants to be looked at again; -1 = never. */
int64_t waiting_due(const struct waiting *waiting);

#endif
