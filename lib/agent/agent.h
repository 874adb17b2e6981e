/* The agent as a whole: the channel to the keeper, the commands that run and the
 * calls on files. Members are for the agent's own
 * files. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "lib/agent/files/service.h"
#include "lib/agent/launch.h"
#include "lib/agent/loop.h"
#include "lib/wire/channel.h"

struct exec;

struct agent {
    struct launch_rules rules;
    struct loop *loop;
    struct channel *channel;
    struct loop_source channel_source, children_source;
    struct loop_timer sampler, trimmer;
    struct exec *execs;
    struct files *files;
    bool ends;
};

/* Until the channel ends; then all that was started is dead. Takes channel_fd. */
void agent_run(const struct launch_rules *rules, int channel_fd);

/* ---- for execs ---- */
void agent_add(struct agent *agent, struct exec *exec);
void agent_sample(struct agent *agent); /* an exec may want to be looked at */

#endif
