/* Owns the life of one ripgrep process, as restrained as a command of a client. Must not know: what is
 * searched. */
#include "lib/agent/files/rg.h"

#include "lib/agent/files/beneath.h"
#include "lib/agent/supervise.h"
#include "lib/base/clock.h"
#include "lib/base/lines.h"
#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MEMORY_MAX (512ull << 20) /* it holds whole lines, of any length */
#define END_MS     2000           /* for its own end, once its output is at its end */

#define FOLDER_FD   3
#define FIRST_FILE  4
#define FILES_AT    "/proc/self/fd/"
#define FILES_SPARE 64 /* descriptors for itself */

int rg_check(const struct file_call_context *call, struct error *err)
{
    if (access(call->rules->ripgrep, X_OK) == 0)
        return 0;
    return error_set(err, ERROR_UNSUPPORTED,
                     "searching in files needs ripgrep, which the gateway's host did not have when this "
                     "workspace started: apt-get install ripgrep there, then stop the workspace");
}

static void set_limit(int which, rlim_t most)
{
    struct rlimit limit = { most, most };
    setrlimit(which, &limit);
}

/* ---- files ---- */

size_t rg_files_most(const struct file_call_context *call)
{
    rlim_t most = call->rules->files.rlim_max;
    return most > FIRST_FILE + FILES_SPARE ? (size_t)most - FIRST_FILE - FILES_SPARE : 1;
}

void rg_file_name(size_t index, char ret[static RG_FILE_NAME_MAX])
{
    snprintf(ret, RG_FILE_NAME_MAX, FILES_AT "%zu", FIRST_FILE + index);
}

size_t rg_file_index(const struct rg_files *files, const char *name, size_t length)
{
    const size_t skip = sizeof FILES_AT - 1;
    char number[24] = "", *end;
    if (length <= skip || length - skip >= sizeof number || memcmp(name, FILES_AT, skip) != 0)
        return RG_FILE_NONE;
    memcpy(number, name + skip, length - skip);
    unsigned long long fd = strtoull(number, &end, 10);
    return *end || fd < FIRST_FILE || fd - FIRST_FILE >= files->count ? RG_FILE_NONE : fd - FIRST_FILE;
}

static bool put_at(int fd, int at)
{
    return fd == at || dup2(fd, at) == at;
}

/* A number that stayed free would become one of its own files: in the place of one that cannot be opened is
 * what nobody can open. */
static bool open_files(const struct rg_files *files)
{
    int nothing = eventfd(0, EFD_CLOEXEC);
    if (nothing >= 0 && nothing < FIRST_FILE + (int)files->count)
        nothing = fcntl(nothing, F_DUPFD_CLOEXEC, FIRST_FILE + (int)files->count);
    if (nothing < 0)
        return false;
    for (size_t i = 0; i < files->count; i++) {
        int at = FIRST_FILE + (int)i, fd = beneath_open(FOLDER_FD, files->names[i]);
        if (!put_at(fd >= 0 ? fd : nothing, at))
            return false;
        if (fd >= 0 && fd != at)
            close(fd);
    }
    return true;
}

/* ---- the process ---- */

static _Noreturn void become(const struct file_call_context *call, pid_t parent, int folder_fd,
                             const char *const *argv, const struct rg_files *files, int out, int problems)
{
    static char *const environment[] = { (char *)"LC_ALL=C.UTF-8", NULL };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    process_reset_signals();
    int nowhere = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() != parent || fchdir(folder_fd) < 0 || dup2(nowhere, 0) < 0 || dup2(out, 1) < 0 ||
        dup2(problems, 2) < 0 || !put_at(folder_fd, FOLDER_FD))
        _exit(127);
    process_close_on_exec_from(FOLDER_FD);
    if (files && !open_files(files))
        _exit(127);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_DATA, MEMORY_MAX);
    if (supervise_confine(call->rules) < 0)
        _exit(127);
    set_limit(RLIMIT_NOFILE, call->rules->files.rlim_max);
    execve(call->rules->ripgrep, (char *const *)(uintptr_t)argv, environment);
    _exit(127);
}

int rg_start(struct rg *rg, const struct file_call_context *call, int folder_fd, const char *const *argv,
             const struct rg_files *files, struct error *err)
{
    int out[2] = { -1, -1 }, problems[2] = { -1, -1 };
    pid_t self = getpid(), pid = -1;
    if (pipe2(out, O_CLOEXEC) == 0 && pipe2(problems, O_CLOEXEC) == 0) {
        pid = fork();
    }
    if (pid == 0)
        become(call, self, folder_fd, argv, files, out[1], problems[1]);
    memory_close_fd(&out[1]);
    memory_close_fd(&problems[1]);
    rg->out = out[0];
    rg->problems_fd = problems[0];
    if (pid < 0)
        return error_set(err, ERROR_UNAVAILABLE, "no process could be started for the search: try again");
    rg->pid = pid;
    rg->pidfd = process_pidfd_open(pid);
    return 0;
}

/* To the end: one that nobody reads would keep it waiting. */
static void read_problems(struct rg *rg)
{
    char text[2048];
    ssize_t got = read(rg->problems_fd, text, sizeof text);
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        close(STEAL_FD(rg->problems_fd));
        return;
    }
    rg->problems += (int64_t)lines_count(text, (size_t)got);
    size_t room = RG_PROBLEM_MAX - rg->problem.length;
    buffer_append(&rg->problem, text, (size_t)got < room ? (size_t)got : room);
}

ssize_t rg_read(struct rg *rg, char *to, size_t size, int64_t until_ms)
{
    for (int64_t left; (left = until_ms - clock_boottime_ms()) > 0;) {
        struct pollfd fds[2] = { { rg->out, POLLIN, 0 }, { rg->problems_fd, POLLIN, 0 } };
        if (poll(fds, 2, (int)left) <= 0)
            continue;
        if (fds[1].revents)
            read_problems(rg);
        if (!fds[0].revents)
            continue;
        ssize_t got = read(rg->out, to, size);
        if (got >= 0)
            return got;
    }
    return -1;
}

static void kill_and_reap(struct rg *rg, int *ret_status)
{
    process_pidfd_signal(rg->pidfd, SIGKILL);
    while (waitpid(rg->pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    rg->pid = 0;
}

int rg_end(struct rg *rg)
{
    int64_t until = clock_boottime_ms() + END_MS, left;
    int status = 0;
    memory_close_fd(&rg->out);
    rg->out = -1;
    while (rg->problems_fd >= 0 && (left = until - clock_boottime_ms()) > 0) {
        struct pollfd wait = { rg->problems_fd, POLLIN, 0 };
        if (poll(&wait, 1, (int)left) > 0)
            read_problems(rg);
    }
    if (!rg->pid)
        return 0;
    process_pidfd_wait(rg->pidfd, END_MS);
    kill_and_reap(rg, &status); /* where it has ended, that is nothing */
    return status;
}

void rg_clear(struct rg *rg)
{
    int status;
    if (rg->pid)
        kill_and_reap(rg, &status);
    memory_close_fd(&rg->pidfd);
    memory_close_fd(&rg->out);
    memory_close_fd(&rg->problems_fd);
    buffer_free(&rg->problem);
    *rg = (struct rg)RG_INIT;
}
