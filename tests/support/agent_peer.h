/* The other end of an agent's channel, for tests: starts the built agent and keeps what each exec sends. */
#ifndef TESTS_AGENT_PEER_H
#define TESTS_AGENT_PEER_H

#include "lib/base/buffer.h"
#include "lib/wire/channel.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer_exec {
    struct peer_exec *next;
    uint32_t number;
    bool started, failed, exited, closed, replied;
    bool broken; /* a call on files that was closed as not whole */
    bool ended[3], late[3];
    bool holds;                    /* no credit is given */
    bool drops;                    /* bytes are counted only */
    int status, exits, after_exit; /* wait status; EXIT frames; DATA after it that was not marked late */
    int waiting, waiting_changes;
    pid_t pid;
    uint64_t bytes[3];
    struct buffer out[3], late_out[3];
    json_t *failure, *reply;
};

struct peer {
    struct channel *channel;
    pid_t agent;
    int raw_fd;
    char *workspace;
    bool gone; /* the agent closed */
    uint32_t last;
    struct peer_exec *execs;
};

/* extra: more arguments, NULL-ended, or NULL. wrapper: what starts it (bwrap ...), NULL-ended, or NULL; it
 * must end where the agent's path comes. */
struct peer *peer_start(const char *const *wrapper, const char *const *extra);
void peer_free(struct peer *peer); /* closes the channel, waits for the agent */
void peer_turn(struct peer *peer, int timeout_ms);
/* Starts a command; members: more JSON of the request ("{}" for none). */
struct peer_exec *peer_run(struct peer *peer, const char *command, const char *members);
struct peer_exec *peer_request(struct peer *peer, const json_t *request);
void peer_input(struct peer *peer, struct peer_exec *exec, const char *data, size_t length, bool end);
void peer_signal(struct peer *peer, struct peer_exec *exec, int signal_number, bool tree);
void peer_resize(struct peer *peer, struct peer_exec *exec, unsigned rows, unsigned cols);
const char *peer_text(struct peer_exec *exec, int which);

/* Turns until the condition holds; its value is whether it does. */
#define peer_until(peer, condition, timeout_ms)                                                              \
    ({                                                                                                       \
        int64_t until_ = clock_boottime_ms() + (timeout_ms);                                                 \
        while (!(condition) && !(peer)->gone && clock_boottime_ms() < until_)                                \
            peer_turn((peer), 20);                                                                           \
        !!(condition);                                                                                       \
    })

#endif
