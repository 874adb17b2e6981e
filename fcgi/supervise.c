/* Children of `run` and their restarts. A child ends with its parent (PR_SET_PDEATHSIG) and stands in a
 * process group of its own, so that the terminal's ^C reaches `run` alone. Knows nothing of what the daemons
 * are. */
#include "fcgi/supervise.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { SHORTEST_LIFE_MS = 2000, FIRST_DELAY_MS = 200, LONGEST_DELAY_MS = 5000 };

static sigset_t signals;
static bool asked_to_end;

void supervise_begin(void)
{
    sigemptyset(&signals);
    for (const int *s = (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGCHLD, 0 }; *s; s++)
        sigaddset(&signals, *s);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void run_child(const struct daemon *d, pid_t parent) __attribute__((noreturn));
static void run_child(const struct daemon *d, pid_t parent)
{
    int input = d->stdin_fd >= 0 ? d->stdin_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);

    process_reset_signals();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(input, STDIN_FILENO) < 0)
        _exit(126);
    if (d->token)
        setenv("WORKSPACE_TOKEN", d->token, 1);
    execv(d->argv[0], d->argv);
    fprintf(stderr, "run: cannot execute %s: %s\n", d->argv[0], strerror(errno));
    _exit(127);
}

void supervise_start(struct daemon *d)
{
    pid_t parent = getpid();

    fflush(NULL);
    d->started_ms = clock_boottime_ms();
    d->pid = fork();
    if (d->pid == 0)
        run_child(d, parent);
    d->pidfd = d->pid > 0 ? process_pidfd_open(d->pid) : -1;
    if (d->pid < 0)
        d->pid = 0;
}

static void take_end(struct daemon *d, int status)
{
    int64_t now = clock_boottime_ms(), last_delay = d->delay_ms;
    bool young = now - d->started_ms < SHORTEST_LIFE_MS;

    d->delay_ms = !young ? FIRST_DELAY_MS : last_delay == 0 ? FIRST_DELAY_MS : last_delay * 2;
    d->delay_ms = d->delay_ms > LONGEST_DELAY_MS ? LONGEST_DELAY_MS : d->delay_ms;
    if (WIFSIGNALED(status))
        fprintf(stderr, "run: %s was ended by signal %d", d->name, WTERMSIG(status));
    else
        fprintf(stderr, "run: %s ended with status %d", d->name, WEXITSTATUS(status));
    fprintf(stderr, "; starting it again in %d ms\n", (int)d->delay_ms);
    close(d->pidfd);
    d->pid = 0;
    d->started_ms = now;
}

static void reap(struct daemon *daemons, size_t count)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < count; i++)
            if (daemons[i].pid == pid)
                take_end(&daemons[i], status);
}

/* Starts what is due; returns the time of the next start. */
static int64_t start_due(struct daemon *daemons, size_t count, int64_t until)
{
    for (size_t i = 0; i < count; i++) {
        int64_t due = daemons[i].started_ms + daemons[i].delay_ms;
        if (daemons[i].pid != 0)
            continue;
        if (due <= clock_boottime_ms())
            supervise_start(&daemons[i]);
        else if (due < until)
            until = due;
    }
    return until;
}

static bool wait_signal_until(int64_t until)
{
    int64_t left = until - clock_boottime_ms();
    left = left < 0 ? 0 : left;
    struct timespec timeout = { left / 1000, left % 1000 * 1000000 };
    int got = sigtimedwait(&signals, NULL, &timeout);

    asked_to_end = asked_to_end || (got > 0 && got != SIGCHLD);
    return got > 0 && got != SIGCHLD;
}

bool supervise_wait(struct daemon *daemons, size_t count, int timeout_ms)
{
    int64_t end = timeout_ms < 0 ? INT64_MAX : clock_boottime_ms() + timeout_ms;

    while (!asked_to_end && clock_boottime_ms() < end) {
        int64_t hour = clock_boottime_ms() + 3600 * 1000;
        int64_t until = start_due(daemons, count, end < hour ? end : hour);
        if (wait_signal_until(until))
            break;
        reap(daemons, count);
    }
    return asked_to_end;
}

void supervise_end(struct daemon *d, int timeout_ms)
{
    int64_t end = clock_boottime_ms() + timeout_ms;

    if (d->pid == 0)
        return;
    process_pidfd_signal(d->pidfd, SIGTERM);
    while (waitpid(d->pid, NULL, WNOHANG) == 0) {
        bool again = wait_signal_until(clock_boottime_ms() + 50);
        if (again || clock_boottime_ms() >= end)
            process_pidfd_signal(d->pidfd, SIGKILL);
    }
    close(d->pidfd);
    d->pid = 0;
}
