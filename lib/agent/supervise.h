/* The process between the agent and a command: it adopts and reaps all that the command leaves behind, and
 * tells the agent what became of the command. */
#ifndef AGENT_SUPERVISE_H
#define AGENT_SUPERVISE_H

#include "lib/agent/launch.h"

#include <sys/types.h>

enum report_kind { REPORT_FORKED = 1, REPORT_STARTED, REPORT_FAILED, REPORT_EXITED };
enum launch_step {
    STEP_FORK,
    STEP_LIMITS,
    STEP_FILTER,
    STEP_TERMINAL,
    STEP_DIRECTORY,
    STEP_SHELL,
    STEP_COUNT
};

/* What comes over the report pipe: whole, or not at all (it is far below PIPE_BUF). */
struct report {
    enum report_kind kind;
    union {
        pid_t pid;  /* FORKED: sent by the command-to-be; STARTED: it has become the shell */
        int status; /* EXITED: wait status */
        struct {
            enum launch_step step;
            int number; /* errno */
        } failed;
    };
};

/* Forks it. *ret_report: descriptor (non-blocking) that its reports come from; it ends with the supervisor,
 * which ends when nothing is left of the command. -1 = errno. The caller still owns launch. */
pid_t supervise_start(const struct launch_rules *rules, const struct launch *launch, int *ret_report);
/* The limits and the filter of a command, for this process and all that it becomes. -1 = errno. */
int supervise_confine(const struct launch_rules *rules);
/* What failed, in words for the client. */
void supervise_describe(const struct report *report, const struct launch *launch, struct error *err);

#endif
