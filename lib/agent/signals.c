/* Owns choosing whom a signal reaches. Numbers of processes are only used while something holds them: a
 * pidfd, a terminal, or being our own unreaped child. */
#include "lib/agent/signals.h"

#include "lib/agent/agent.h"
#include "lib/agent/exec.h"
#include "lib/agent/pty.h"
#include "lib/agent/tree.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#define KILL_FOR_MS   10000 /* what is not gone by then hangs in the kernel */
#define KILL_AGAIN_MS 3

#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1U << 2) /* Linux 6.9 */
#endif

/* Once supervisors are dead, what they had adopted are children of the agent: all of them that are neither a
 * supervisor nor another exec's command, nor at work on a file. */
static bool is_stray(void *user, pid_t child)
{
    const struct exec *own = user;
    for (const struct exec *exec = own->agent->execs; exec; exec = exec->next)
        if (exec->supervisor == child || (exec != own && exec->command == child && !exec->exited))
            return false;
    return !files_owns(own->agent->files, child);
}

static void signal_tree(struct exec *exec, int signal_number)
{
    if (exec->supervisor)
        tree_signal(exec->supervisor, signal_number, NULL, NULL);
    else if (exec->orphaned)
        tree_signal(getpid(), signal_number, is_stray, exec);
}

static void kill_round(void *user)
{
    struct exec *exec = user;
    size_t left = 0;
    if (exec->supervisor) {
        left = tree_kill_round(exec->supervisor, NULL, NULL);
        kill(exec->supervisor, SIGCONT); /* our unreaped child; were it stopped it would reap nobody */
    } else if (exec->orphaned) {
        left = tree_kill_round(getpid(), is_stray, exec);
    }
    if (left && clock_boottime_ms() < exec->kill_until_ms)
        loop_arm(exec->agent->loop, &exec->kill_timer, KILL_AGAIN_MS);
}

void signals_init(struct exec *exec)
{
    exec->kill_timer = (struct loop_timer){ .fire = kill_round, .user = exec };
}

/* The group's number cannot be used anew while the command is there, dead or alive: the pidfd and its parent
 * say so. */
static void signal_group(struct exec *exec, int signal_number)
{
    _cleanup_close_ int pidfd = process_pidfd_open(exec->command);
    pid_t parent = exec->supervisor ? exec->supervisor : getpid();
    if (pidfd < 0 || tree_parent(exec->command) != parent)
        return;
    if (syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, PIDFD_SIGNAL_PROCESS_GROUP) < 0 &&
        errno == EINVAL && process_pidfd_wait(pidfd, 0) == 0)
        kill(-exec->command, signal_number);
}

/* Kept until the command has started; nothing replaces a kill. */
static void keep_pending(struct exec *exec, int signal_number, bool tree)
{
    if (exec->pending_signal == SIGKILL && !(signal_number == SIGKILL && tree))
        return;
    exec->pending_signal = signal_number;
    exec->pending_tree = tree;
}

static void kill_tree(struct exec *exec)
{
    exec->kill_until_ms = clock_boottime_ms() + KILL_FOR_MS;
    kill_round(exec);
}

void signals_send(struct exec *exec, int signal_number, bool tree)
{
    if (signal_number < 1 || signal_number > SIGRTMAX)
        return;
    if (!exec->command)
        keep_pending(exec, signal_number, tree);
    if (tree && signal_number == SIGKILL)
        kill_tree(exec);
    else if (exec->command && tree)
        signal_tree(exec, signal_number);
    else if (exec->command && !exec->exited &&
             (exec->out[0].fd < 0 || exec->master < 0 || !pty_signal(exec->master, signal_number)))
        signal_group(exec, signal_number);
}
