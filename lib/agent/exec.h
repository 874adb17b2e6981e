/* One command, from its request to its CLOSE. Members are for the agent's own files. */
#ifndef AGENT_EXEC_H
#define AGENT_EXEC_H

#include "lib/agent/input.h"
#include "lib/agent/output.h"
#include "lib/agent/supervise.h"
#include "lib/agent/waiting.h"

struct agent;

struct exec {
    struct exec *next;
    struct agent *agent;
    uint32_t number;       /* its stream on the channel */
    pid_t supervisor;      /* 0 = over and reaped */
    pid_t forked;          /* the command-to-be, before it is known to have started */
    pid_t command;         /* 0 = not started; its session and process group have this number */
    struct launch *launch; /* until it has started */
    struct loop_source reports;
    int master; /* the terminal's, -1 = none; belongs to out[0] */
    struct output out[2];
    struct input input;
    bool exited, exit_sent;
    bool orphaned; /* the supervisor did not end by itself: what is left are the agent's own children */
    bool closed;   /* CLOSE is sent: to be freed at the end of this turn */
    int status;
    int pending_signal; /* asked for before it had started */
    bool pending_tree;
    struct loop_timer kill_timer;
    int64_t kill_until_ms;
    struct waiting waiting;
};

/* Starts what the request asks for and answers on stream number; a failure is told as FRAME_FAILED and
 * FRAME_CLOSE. */
void exec_start(struct agent *agent, uint32_t number, const json_t *request);
/* A child of the agent changed: true where it was this exec's supervisor or (adopted) command. */
bool exec_child(struct exec *exec, pid_t pid, int status);
void exec_data(struct exec *exec, const char *data, size_t length);
void exec_end_input(struct exec *exec);
void exec_resize(struct exec *exec, uint16_t rows, uint16_t cols);
void exec_detach(struct exec *exec);
void exec_resume(struct exec *exec); /* credit may have come */
void exec_free(struct exec *exec);

#endif
