/* Owns the supervisor's whole life and the command's steps from fork to execve. A supervisor is a process of
 * its own with nothing but the report pipe: it must not touch the channel, the loop or anything of the agent.
 */
#include "lib/agent/supervise.h"

#include "lib/agent/guard.h"
#include "lib/agent/rewrite.h"
#include "lib/base/io.h"
#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Of commands: they go before what keeps the sandbox. */
enum { OOM_SCORE = 500, OOM_TRIES = 100, OOM_PAUSE_US = 100 };

static const char *const step_texts[STEP_COUNT] = {
    [STEP_FORK] = "process",      [STEP_LIMITS] = "limits",     [STEP_FILTER] = "system call filter",
    [STEP_TERMINAL] = "terminal", [STEP_DIRECTORY] = "workdir", [STEP_SHELL] = "/bin/bash",
};

void supervise_describe(const struct report *report, const struct launch *launch, struct error *err)
{
    enum launch_step step = report->failed.step;
    if (step == STEP_DIRECTORY)
        error_set(err, ERROR_DRIVER, "workdir %s: %s", launch->directory_shown,
                  strerror(report->failed.number));
    else
        error_set(err, ERROR_DRIVER, "%s: %s", step < STEP_COUNT ? step_texts[step] : "start",
                  strerror(report->failed.number));
}

static void send_report(int fd, struct report report)
{
    ssize_t done;
    do
        done = write(fd, &report, sizeof report);
    while (done < 0 && errno == EINTR);
}

/* The kernel counts these for the sandbox's user, and once more for the user outside, who may be the same for
 * many sandboxes: without a share for each, one could take all. */
static const struct {
    int resource;
    rlim_t most;
} shares[] = {
    { RLIMIT_SIGPENDING, 1024 },    /* queued signals and timers */
    { RLIMIT_MSGQUEUE, 200 << 10 }, /* bytes: two queues of the usual size */
};

static int set_shares(void)
{
    for (size_t i = 0; i < N_ELEMENTS(shares); i++) {
        struct rlimit limit;
        if (getrlimit(shares[i].resource, &limit) < 0)
            return -1;
        limit.rlim_max = limit.rlim_max < shares[i].most ? limit.rlim_max : shares[i].most;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(shares[i].resource, &limit) < 0)
            return -1;
    }
    return 0;
}

/* The soft limit that the agent raised for itself goes back to what it was. */
static int set_limits(const struct launch_rules *rules)
{
    struct rlimit processes = { (rlim_t)rules->processes, (rlim_t)rules->processes };
    if (setrlimit(RLIMIT_NOFILE, &rules->files) < 0 || set_shares() < 0)
        return -1;
    return rules->processes > 0 ? setrlimit(RLIMIT_NPROC, &processes) : 0;
}

static int set_filter(const struct launch_rules *rules)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    guard_install();
    return rules->filter.len ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &rules->filter) : 0;
}

int supervise_confine(const struct launch_rules *rules)
{
    return set_limits(rules) < 0 ? -1 : set_filter(rules);
}

static int take_descriptors(const struct launch *launch)
{
    for (int i = 0; i < 3; i++)
        if (dup2(launch->fds[i], i) < 0)
            return -1;
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        process_close_on_exec_from(3);
    if (launch->script_fd < 0)
        return 0;
    if (launch->script_fd != LAUNCH_SCRIPT_FD)
        return dup2(launch->script_fd, LAUNCH_SCRIPT_FD);
    return fcntl(LAUNCH_SCRIPT_FD, F_SETFD, 0);
}

static int enter_directory(const struct launch_rules *rules, const struct launch *launch)
{
    if (launch->directory[0] != '/' && chdir(rules->workspace) < 0)
        return -1;
    return chdir(launch->directory);
}

/* Returns only on failure, with errno. Runs in the supervisor's memory (vfork): it changes nothing there but
 * errno and what is told by ret_step. */
static void become_command(const struct launch_rules *rules, const struct launch *launch, int report_fd,
                           volatile enum launch_step *ret_step)
{
    *ret_step = STEP_TERMINAL;
    send_report(report_fd, (struct report){ .kind = REPORT_FORKED, .pid = getpid() });
    process_reset_signals();
    setsid();
    umask(022);
    if (take_descriptors(launch) < 0 || (launch->terminal && ioctl(0, TIOCSCTTY, 0) < 0))
        return;
    *ret_step = STEP_DIRECTORY;
    if (enter_directory(rules, launch) < 0)
        return;
    *ret_step = STEP_SHELL;
    execve("/bin/bash", (char *const *)launch->argv, launch->environment);
}

/* While the command has not become the shell, this process stands still (vfork), so what failed is simply
 * left in a variable. Returns the command's pid, or -1 with the step in *ret_step and errno. */
static pid_t start_command(const struct launch_rules *rules, const struct launch *launch, int report_fd,
                           enum launch_step *ret_step)
{
    volatile int failed = 0;
    volatile enum launch_step step = STEP_FORK;
    pid_t pid = vfork();
    if (pid == 0) {
        become_command(rules, launch, report_fd, &step);
        failed = errno ? errno : ECANCELED;
        _exit(127);
    }
    *ret_step = step;
    if (pid < 0 || !failed)
        return pid;
    waitpid(pid, NULL, 0);
    errno = failed;
    return -1;
}

static int restrict_self(const struct launch_rules *rules, enum launch_step *ret_step)
{
    *ret_step = STEP_LIMITS;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || set_limits(rules) < 0)
        return -1;
    *ret_step = STEP_FILTER;
    return set_filter(rules);
}

/* Where the agent asked for it; text must outlive the start. */
static void rewrite(const struct launch_rules *rules, struct launch *launch, char *text)
{
    if (launch->rewritten_fd < 0 || !rewrite_ask(rules, launch, text) ||
        io_write_all(launch->rewritten_fd, text, strlen(text), NULL) < 0)
        return;
    launch->argv[2] = text;
}

/* Nothing of the command may be held open here, or its readers would never see an end. */
static void keep_only(int report_fd)
{
    dup2(report_fd, 0);
    if (close_range(1, ~0U, 0) == 0)
        return;
    for (int fd = 1; fd < 4096; fd++)
        close(fd);
}

/* Ends when no process is left that came from the command. */
static void reap_all(int report_fd, pid_t command)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid == command && (WIFEXITED(status) || WIFSIGNALED(status)))
            send_report(report_fd, (struct report){ .kind = REPORT_EXITED, .status = status });
        if (pid < 0 && errno != EINTR)
            return;
    }
}

/* All signals that can be blocked are: only KILL and STOP from inside the sandbox can harm it, and the agent
 * handles both. */
/* This process is closed to all of its user, itself too (PR_SET_DUMPABLE); so is the command, for a moment, after it
 * has become the shell. */
static void offer_to_oom_killer(pid_t pid)
{
    for (int tries = 0; tries < OOM_TRIES && !process_set_oom_score(pid, OOM_SCORE); tries++)
        usleep(OOM_PAUSE_US);
}

static _Noreturn void run_supervisor(const struct launch_rules *rules, const struct launch *launch,
                                     int report_fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "ws-supervisor");
    enum launch_step step;
    struct launch final = *launch;
    char rewritten[REWRITE_MAX + 1];
    pid_t pid = -1;
    if (restrict_self(rules, &step) == 0) {
        rewrite(rules, &final, rewritten);
        pid = start_command(rules, &final, report_fd, &step);
    }
    if (pid < 0) {
        send_report(report_fd, (struct report){ .kind = REPORT_FAILED, .failed = { step, errno } });
        _exit(1);
    }
    send_report(report_fd, (struct report){ .kind = REPORT_STARTED, .pid = pid });
    offer_to_oom_killer(pid);
    keep_only(report_fd);
    reap_all(0, pid);
    _exit(0);
}

pid_t supervise_start(const struct launch_rules *rules, const struct launch *launch, int *ret_report)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_supervisor(rules, launch, ends[1]);
    int number = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = number;
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *ret_report = ends[0];
    return pid;
}
