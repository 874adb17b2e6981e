/* One command made ready to start: what a request asks for, checked, as argv, environment, folder and
 * descriptors. */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include "lib/base/error.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* What holds for every command of this sandbox. */
struct launch_rules {
    const char *workspace, *home; /* the folders that "/workspace" and HOME mean */
    const char *ripgrep;          /* the program; it may be missing */
    int64_t processes;            /* RLIMIT_NPROC; 0 = as it is */
    struct sock_fprog filter;     /* len 0 = none */
    struct rlimit files;          /* RLIMIT_NOFILE as the agent found it */
};

#define LAUNCH_SCRIPT_FD 9 /* where the shell finds a command that is too long for an argument */

struct launch {
    const char *argv[4];
    char **environment;    /* NULL-ended */
    char *directory;       /* to change to; relative = to the workspace */
    char *directory_shown; /* as the client knows it */
    char *command;
    int script_fd;    /* -1, or a memfd with the command */
    int rewritten_fd; /* -1, or a memfd: rtk is asked, and what it made of the command goes there */
    bool terminal, stdin_is_null, merge_stderr;
    uint16_t rows, cols;
    int fds[3]; /* the command's ends of its descriptors; owned, all may be the same */
};

/* {"command", "workdir", "env", "pty", "rows", "cols", "stdin", "merge_stderr", "rtk"}: hostile. On failure
 * *ret_errno says which errno stands for it. */
int launch_prepare(struct launch *launch, const struct launch_rules *rules, const json_t *request,
                   int *ret_errno, struct error *err);
void launch_close_fds(struct launch *launch);
void launch_clear(struct launch *launch);
#define LAUNCH_INIT                                                                                          \
    {                                                                                                        \
        .script_fd = -1, .rewritten_fd = -1, .fds = { -1, -1, -1 }                                           \
    }
#define _cleanup_launch_ __attribute__((cleanup(launch_clear)))

#endif
