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
/* Files of the folder that it is given open: by their names it would follow a link that was put in the way
 * meanwhile. One that cannot be opened, or is none, is one that it complains of. */
struct rg_files {
    const char *const *names;
    size_t count;
};
size_t rg_files_most(const struct file_call_context *call);
/* What it calls the file, in its arguments and answers; RG_FILE_NONE: this is none of them. */
#define RG_FILE_NAME_MAX 32
#define RG_FILE_NONE     SIZE_MAX
void rg_file_name(size_t index, char ret[static RG_FILE_NAME_MAX]);
size_t rg_file_index(const struct rg_files *files, const char *name, size_t length);
/* In this folder; argv[0] is its name, NULL-ended. */
int rg_start(struct rg *rg, const struct file_call_context *call, int folder_fd, const char *const *argv,
             const struct rg_files *files, struct error *err);
/* As read(2): 0 = the end; -1 = the deadline (clock_boottime_ms()) came first. */
ssize_t rg_read(struct rg *rg, char *to, size_t size, int64_t until_ms);
/* Once its output is at its end: the wait status. */
int rg_end(struct rg *rg);
void rg_clear(struct rg *rg); /* kills it where it runs */

#endif
