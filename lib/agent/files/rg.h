/* ripgrep as a process: started with what we say and nothing else, its output read under a deadline, ended
 * whatever it does. The program is the one that lies beside the agent, which no command can replace. */
#ifndef AGENT_FILES_RG_H
#define AGENT_FILES_RG_H

#include "lib/agent/files/call.h"

#include <sys/types.h>

#define RG_PROBLEM_MAX 4096

struct rg {
    pid_t pid; /* 0 = none */
    int pidfd, out, problems_fd;
    struct buffer problem; /* the beginning of what it complained of */
    int64_t problems;      /* lines of that: files that could not be read */
};
#define RG_INIT                                                                                              \
    {                                                                                                        \
        .pidfd = -1, .out = -1, .problems_fd = -1                                                            \
    }

/* ERROR_UNSUPPORTED where ripgrep is not there. */
int rg_check(const struct file_call_context *call, struct error *err);
/* In this folder; argv[0] is its name, NULL-ended. */
int rg_start(struct rg *rg, const struct file_call_context *call, int folder_fd, const char *const *argv,
             struct error *err);
/* As read(2): 0 = the end; -1 = the deadline (clock_boottime_ms()) came first. */
ssize_t rg_read(struct rg *rg, char *to, size_t size, int64_t until_ms);
/* Once its output is at its end: the wait status. */
int rg_end(struct rg *rg);
void rg_clear(struct rg *rg); /* kills it where it runs */

#endif
