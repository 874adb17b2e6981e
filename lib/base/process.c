/* Owns: naming, holding and signalling other processes without ever trusting a bare pid, and what a child
 * puts right between fork and exec. It must not know: why a process runs. */
#include "lib/base/process.h"

#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#define STAT_SIZE 1024

/* proc_pid_stat(5): the name stands in parentheses and may hold anything, also ')'; field 3 follows the last
 * one. Returns what is behind the name, NULL where the process is gone. */
static const char *read_stat(pid_t pid, char text[static STAT_SIZE])
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, STAT_SIZE - 1) : -1;
    if (length <= 0)
        return NULL;
    text[length] = '\0';
    return strrchr(text, ')');
}

char process_state(pid_t pid)
{
    char text[STAT_SIZE];
    const char *at = read_stat(pid, text);
    return at != NULL && at[1] == ' ' ? at[2] : '\0';
}

static int read_start_time(pid_t pid, uint64_t *ret)
{
    char text[STAT_SIZE];
    const char *at = read_stat(pid, text);
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    unsigned long long value;
    if (at == NULL || sscanf(at, " %llu", &value) != 1)
        return -1;
    *ret = value;
    return 0;
}

bool process_set_oom_score(pid_t pid, int score)
{
    char path[64], text[16];
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    int length = snprintf(text, sizeof text, "%d", score), fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_set = fd >= 0 && write(fd, text, (size_t)length) == length;
    if (fd >= 0)
        close(fd);
    return is_set;
}

int process_identify(pid_t pid, struct process_identity *ret, struct error *err)
{
    struct process_identity identity = { .pid = pid };
    if (pid <= 0 || read_start_time(pid, &identity.start_time) < 0)
        return error_set(err, ERROR_NOT_FOUND, "process %d is gone", (int)pid);
    clock_boot_id(identity.boot_id);
    *ret = identity;
    return 0;
}

json_t *process_identity_to_json(const struct process_identity *identity)
{
    return json_pack("{s:i, s:I, s:s}", "pid", (int)identity->pid, "start_time",
                     (json_int_t)identity->start_time, "boot_id", identity->boot_id);
}

int process_identity_from_json(const json_t *json, struct process_identity *ret)
{
    json_int_t pid, start_time;
    const char *boot_id;
    if (json_unpack((json_t *)json, "{s:I, s:I, s:s}", "pid", &pid, "start_time", &start_time, "boot_id",
                    &boot_id) < 0)
        return -1;
    if (pid <= 0 || pid > INT32_MAX || start_time < 0 || strlen(boot_id) >= sizeof(ret->boot_id))
        return -1;
    *ret = (struct process_identity){ .pid = (pid_t)pid, .start_time = (uint64_t)start_time };
    strcpy(ret->boot_id, boot_id);
    return 0;
}

/* The pidfd comes first: a start time that is read afterwards and is the recorded one proves that the pid was
 * not another's when the pidfd was opened. */
int process_open(const struct process_identity *identity)
{
    char boot_id[CLOCK_BOOT_ID_SIZE];
    uint64_t start_time = 0;
    clock_boot_id(boot_id);
    _cleanup_close_ int fd = identity->pid > 0 ? process_pidfd_open(identity->pid) : -1;
    bool is_same = fd >= 0 && strcmp(boot_id, identity->boot_id) == 0 &&
                   read_start_time(identity->pid, &start_time) == 0 && start_time == identity->start_time;
    if (is_same)
        return STEAL_FD(fd);
    if (fd >= 0 || identity->pid <= 0)
        errno = ESRCH;
    return -1;
}

int process_pidfd_open(pid_t pid)
{
    return pidfd_open(pid, 0);
}

int process_pidfd_signal(int pidfd, int signal_number)
{
    return pidfd_send_signal(pidfd, signal_number, NULL, 0);
}

int process_pidfd_wait(int pidfd, int timeout_ms)
{
    int64_t deadline = clock_boottime_ms() + timeout_ms;
    for (;;) {
        int64_t left = deadline - clock_boottime_ms();
        struct pollfd wanted = { .fd = pidfd, .events = POLLIN };
        int count = poll(&wanted, 1, timeout_ms < 0 ? -1 : left > 0 ? (int)left : 0);
        if (count > 0)
            return 1;
        if (count == 0 || errno != EINTR)
            return 0;
    }
}

int process_catch_end(struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : error_errno(err, ERROR_INTERNAL, errno, "signalfd");
}

bool process_was_told_to_end(int signal_fd)
{
    struct signalfd_siginfo info;
    bool told = false;
    while (read(signal_fd, &info, sizeof info) == sizeof info)
        told |= info.ssi_signo != SIGHUP;
    return told;
}

#define KERNEL_SIGNALS 64

/* The kernel's own call: the C library's refuses the two signals that it keeps for itself. A parent may have
 * set those to be ignored; a handler of them is the library's, by which setuid reaches all threads. */
static bool is_ignored(int number)
{
    unsigned long now[8] = { 0 };
    return syscall(SYS_rt_sigaction, number, NULL, now, KERNEL_SIGNALS / 8) == 0 &&
           now[0] == (unsigned long)(uintptr_t)SIG_IGN;
}

void process_reset_signals(void)
{
    /* All zero is SIG_DFL with no flags, on every architecture; KILL and STOP refuse: nothing to reset. */
    static const unsigned long by_default[8];
    for (int number = 1; number <= KERNEL_SIGNALS; number++)
        if (number <= SIGSYS || number >= SIGRTMIN || is_ignored(number))
            syscall(SYS_rt_sigaction, number, by_default, NULL, KERNEL_SIGNALS / 8);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void process_close_on_exec_from(int first)
{
    if (close_range((unsigned)first, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    struct rlimit limit;
    int end =
        getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (1 << 20) ? (int)limit.rlim_cur : 1 << 20;
    for (int fd = first; fd < end; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

const char *process_signal_name(int signal_number)
{
    return sigabbrev_np(signal_number);
}

int process_signal_number(const char *name)
{
    if (name == NULL)
        return -1;
    const char *bare = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
    for (int number = 1; number < NSIG; number++) {
        const char *known = sigabbrev_np(number);
        if (known != NULL && strcasecmp(known, bare) == 0)
            return number;
    }
    return -1;
}
