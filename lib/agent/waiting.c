/* Owns guessing, by /proc, whether some process of a command is blocked in a read, poll or epoll on the
 * command's input and on nothing that works. It must stay cheap and must not change anything about the
 * processes that it looks at. */
#include "lib/agent/waiting.h"

#include "lib/agent/tree.h"
#include "lib/base/clock.h"
#include "lib/base/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define LOOK_MS          250
#define LOOK_SLOW_MS     1000
#define SLOW_AFTER_MS    15000
#define LOOK_SHARE       50 /* looking takes at most a 50th of the time */
#define LOOK_PROCESSES   256
#define LOOK_DESCRIPTORS 64

enum verdict { IS_NOT, IS_NEUTRAL, IS_INPUT };

struct looked {
    const struct waiting *waiting;
    pid_t pid;
    unsigned long arguments[6];
};

/* ---- which descriptor is what ---- */

static bool is_input(const struct looked *looked, int fd)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)looked->pid, fd);
    if (stat(path, &info) < 0)
        return false;
    if (looked->waiting->terminal)
        return S_ISCHR(info.st_mode) &&
               (info.st_rdev == looked->waiting->device || info.st_rdev == makedev(5, 0));
    return info.st_dev == looked->waiting->device && info.st_ino == looked->waiting->inode;
}

static bool read_link(pid_t pid, int fd, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t length = readlink(path, text, size - 1);
    if (length < 0)
        return false;
    text[length] = '\0';
    return true;
}

/* Event loops wake themselves through an eventfd or a pipe of which they hold both ends: that is not work
 * from elsewhere. */
static bool is_own_pipe(pid_t pid, int fd, const char *name)
{
    char other[64];
    for (int i = 0; i < LOOK_DESCRIPTORS; i++)
        if (i != fd && read_link(pid, i, other, sizeof other) && !strcmp(other, name))
            return true;
    return false;
}

static enum verdict judge(const struct looked *looked, int fd)
{
    char name[64];
    if (is_input(looked, fd))
        return IS_INPUT;
    if (!read_link(looked->pid, fd, name, sizeof name))
        return IS_NOT;
    if (!strncmp(name, "anon_inode:", 11))
        return IS_NEUTRAL;
    return !strncmp(name, "pipe:", 5) && is_own_pipe(looked->pid, fd, name) ? IS_NEUTRAL : IS_NOT;
}

/* ---- what a blocked call waits for ---- */

static bool copy_from(const struct looked *looked, unsigned long address, void *to, size_t length)
{
    struct iovec here = { to, length }, there = { (void *)address, length };
    return address && process_vm_readv(looked->pid, &here, 1, &there, 1, 0) == (ssize_t)length;
}

static bool waits_in_read(const struct looked *looked)
{
    return is_input(looked, (int)looked->arguments[0]);
}

static bool waits_in_poll(const struct looked *looked)
{
    struct pollfd fds[LOOK_DESCRIPTORS];
    unsigned long count = looked->arguments[1];
    if (!count || count > LOOK_DESCRIPTORS ||
        !copy_from(looked, looked->arguments[0], fds, count * sizeof *fds))
        return false;
    bool found = false;
    for (unsigned long i = 0; i < count; i++) {
        enum verdict verdict = fds[i].fd < 0 ? IS_NEUTRAL : judge(looked, fds[i].fd);
        if (verdict == IS_NOT)
            return false;
        found |= verdict == IS_INPUT && (fds[i].events & POLLIN);
    }
    return found;
}

static bool waits_in_select(const struct looked *looked)
{
    unsigned long words[LOOK_DESCRIPTORS / (8 * sizeof(long))] = { 0 };
    unsigned long count = looked->arguments[0], bytes = (count + 63) / 64 * 8;
    if (!count || count > LOOK_DESCRIPTORS || !copy_from(looked, looked->arguments[1], words, bytes))
        return false;
    bool found = false;
    for (unsigned long fd = 0; fd < count; fd++) {
        if (!(words[fd / 64] >> (fd % 64) & 1))
            continue;
        enum verdict verdict = judge(looked, (int)fd);
        if (verdict == IS_NOT)
            return false;
        found |= verdict == IS_INPUT;
    }
    return found;
}

static bool waits_in_epoll(const struct looked *looked)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)looked->pid, (int)looked->arguments[0]);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    bool found = false;
    for (const char *at = text; (at = strstr(at, "tfd:")); at++) {
        int watched;
        enum verdict verdict = sscanf(at, "tfd: %d", &watched) == 1 ? judge(looked, watched) : IS_NOT;
        if (verdict == IS_NOT)
            return false;
        found |= verdict == IS_INPUT;
    }
    return found;
}

static const struct {
    long call;
    bool (*waits)(const struct looked *looked);
} calls[] = {
    { SYS_read, waits_in_read },          { SYS_readv, waits_in_read },
    { SYS_ppoll, waits_in_poll },         { SYS_pselect6, waits_in_select },
    { SYS_epoll_pwait, waits_in_epoll },
#ifdef SYS_poll
    { SYS_poll, waits_in_poll },          { SYS_select, waits_in_select },
    { SYS_epoll_wait, waits_in_epoll },
#endif
#ifdef SYS_epoll_pwait2
    { SYS_epoll_pwait2, waits_in_epoll },
#endif
};

/* "NUMBER 0xARG 0xARG ...", or "running". */
static bool process_waits(const struct waiting *waiting, pid_t pid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    struct looked looked = { .waiting = waiting, .pid = pid };
    unsigned long *a = looked.arguments;
    long call;
    if (sscanf(text, "%ld %lx %lx %lx %lx %lx %lx", &call, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5]) != 7)
        return false;
    for (size_t i = 0; i < N_ELEMENTS(calls); i++)
        if (calls[i].call == call)
            return calls[i].waits(&looked);
    return false;
}

/* ---- when to look ---- */

void waiting_on_pipe(struct waiting *waiting, int fd)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return;
    waiting->watched = true;
    waiting->device = info.st_dev;
    waiting->inode = info.st_ino;
}

void waiting_on_terminal(struct waiting *waiting, int slave)
{
    struct stat info;
    if (fstat(slave, &info) < 0)
        return;
    waiting->watched = waiting->terminal = true;
    waiting->device = info.st_rdev;
}

void waiting_start(struct waiting *waiting)
{
    waiting->touched_ms = clock_boottime_ms();
    waiting->next_ms = waiting->touched_ms + LOOK_MS;
}

void waiting_touch(struct waiting *waiting)
{
    waiting->touched_ms = clock_boottime_ms();
    if (waiting->next_ms > waiting->touched_ms + LOOK_MS)
        waiting->next_ms = waiting->touched_ms + LOOK_MS;
}

int64_t waiting_due(const struct waiting *waiting)
{
    if (!waiting->watched || !waiting->next_ms)
        return -1;
    int64_t left = waiting->next_ms - clock_boottime_ms();
    return left < 0 ? 0 : left;
}

static bool look(const struct waiting *waiting, pid_t root, int input_fd)
{
    int unread = 0;
    if (input_fd < 0 || (!waiting->terminal && (ioctl(input_fd, FIONREAD, &unread) < 0 || unread)))
        return false;
    _cleanup_tree_ struct tree tree = TREE_INIT;
    tree_walk(&tree, root, LOOK_PROCESSES, NULL, NULL);
    for (size_t i = 0; i < tree.count; i++)
        if (process_waits(waiting, tree.nodes[i].pid))
            return true;
    return false;
}

bool waiting_look(struct waiting *waiting, pid_t root, int input_fd)
{
    if (waiting_due(waiting))
        return false;
    int64_t now = clock_boottime_ms();
    bool before = waiting->now;
    waiting->now = look(waiting, root, input_fd);
    int64_t pause = now - waiting->touched_ms > SLOW_AFTER_MS ? LOOK_SLOW_MS : LOOK_MS;
    int64_t took = clock_boottime_ms() - now;
    waiting->next_ms = now + (took * LOOK_SHARE > pause ? took * LOOK_SHARE : pause);
    if (waiting->now != before)
        waiting->touched_ms = now;
    if (input_fd < 0)
        waiting->watched = false;
    return waiting->now != before;
}
