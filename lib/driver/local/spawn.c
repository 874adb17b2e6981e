/* From one system call to exec: the child's side runs async-signal-safe calls alone (the parent may have
 * threads). Order matters: cgroups and mounts while still root, then the user, then the parent-death signal,
 * which a change of user clears. Knows nothing of bubblewrap. */
#include "lib/driver/local/spawn.h"

#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(126);
}

static _Noreturn void fail(const char *what, const char *subject)
{
    const char *reason = strerrordesc_np(errno);
    say(what);
    say(subject);
    say(": ");
    say(reason ? reason : "unknown error");
    say("\n");
    _exit(127);
}

/* Sources are opened before /tmp is covered: they may lie below it. Descriptors of this process's own
 * namespace would not do for a bind. */
#define VIEWS_MAX 8
static void enter_view(const struct spawn_view *views, size_t count)
{
    int sources[VIEWS_MAX];
    char link[32];
    if (count > VIEWS_MAX || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
        fail("cannot make a mount namespace", "");
    for (size_t i = 0; i < count; i++)
        if ((sources[i] = open(views[i].source, O_PATH | O_CLOEXEC)) < 0)
            fail("cannot open what is bound to ", views[i].target);
    if (mount("workspace", SPAWN_VIEW, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711,size=64k"))
        fail("cannot mount a tmpfs", "");
    for (size_t i = 0; i < count; i++) {
        struct stat status;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", sources[i]);
        if (fstat(sources[i], &status))
            fail("cannot look at ", views[i].target);
        int made = S_ISDIR(status.st_mode) ? mkdir(views[i].target, 0700)
                                           : mknod(views[i].target, S_IFREG | 0400, 0);
        if (made || mount(link, views[i].target, NULL, MS_BIND, NULL))
            fail("cannot bind ", views[i].target);
        close(sources[i]);
    }
}

static void become(uid_t uid)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno == EINVAL)
            break;
    /* System calls, not the C library's functions: those wait for the threads of the parent, which this copy
     * does not have. */
    if (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, uid, uid, uid) ||
        syscall(SYS_setresuid, uid, uid, uid) || syscall(SYS_capset, &header, none))
        fail("cannot become the workspace's user", "");
}

static void join(const int *fds, size_t count, int cgroup_fd)
{
    /* cgroup_fd: only where clone3, which puts the child there at once, is refused (containers with an old
     * filter). */
    int procs = cgroup_fd < 0 ? -1 : openat(cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (cgroup_fd >= 0 && write(procs, "0", 1) != 1)
        fail("cannot join the workspace's cgroup", "");
    /* "0" in `tasks` moves the caller alone and needs no system-wide lock; any other form waits for a grace
     * period (11-23 ms measured). */
    for (size_t i = 0; i < count; i++)
        if (write(fds[i], "0", 1) != 1)
            fail("cannot join the workspace's cgroup", "");
}

/* Two passes: a source may stand where a target is to be. */
static void place_descriptors(const int *fds, int count)
{
    int high[SPAWN_FDS_MAX];
    if (count > SPAWN_FDS_MAX)
        fail("too many descriptors", "");
    for (int i = 0; i < count; i++)
        if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, count)) < 0)
            fail("cannot place descriptors", "");
    for (int i = 0; i < count; i++)
        if (dup2(high[i], i) < 0)
            fail("cannot place descriptors", "");
    if (syscall(SYS_close_range, (unsigned)count, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */))
        process_close_on_exec_from(count);
}

static _Noreturn void run_child(const struct spawn *s, pid_t parent, int cgroup_fd)
{
    static const struct rlimit no_core = {
        1, 1
    }; /* 1, not 0: a handler that the host pipes cores to is not started either */
    static char *const no_environment[] = { NULL };
    process_reset_signals();
    dup2(s->fds[STDERR_FILENO], STDERR_FILENO);
    setsid();
    umask(022);
    join(s->join_fds, s->n_join, cgroup_fd);
    if (s->n_views)
        enter_view(s->views, s->n_views);
    if (s->uid)
        become(s->uid);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
        _exit(127);
    setrlimit(RLIMIT_CORE, &no_core);
    if (s->cpus)
        sched_setaffinity(0, sizeof(*s->cpus), s->cpus);
    place_descriptors(s->fds, s->n_fds);
    execve(s->program, s->argv, no_environment);
    fail("cannot execute ", s->program);
}

/* Returns the pid, 0 in the child; *cgroup_fd becomes -1 where the child is in that cgroup already. */
static pid_t start(int *cgroup_fd, int *ret_pidfd)
{
    struct clone_args arguments = {
        .flags = CLONE_PIDFD | (*cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = *cgroup_fd >= 0 ? (uint64_t)*cgroup_fd : 0,
    };
    long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));
    if (pid >= 0)
        *cgroup_fd = -1;
    else if (errno == ENOSYS && (pid = fork()) > 0)
        *ret_pidfd = process_pidfd_open((pid_t)pid); /* ours and not reaped: cannot be another's */
    return (pid_t)pid;
}

int spawn_run(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd, struct error *err)
{
    int pidfd = -1, cgroup_fd = s->cgroup_fd;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* no handler of ours runs in the child */
    pid_t parent = getpid(), pid = start(&cgroup_fd, &pidfd);
    if (pid == 0)
        run_child(s, parent, cgroup_fd);
    int number = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return error_errno(err, ERROR_DRIVER, number, "cannot start a process");
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

bool spawn_is_privileged(void)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
    return geteuid() == 0 && !syscall(SYS_capget, &header, data) &&
           (data[0].effective & (1u << CAP_SYS_ADMIN)) != 0;
}
