/* Attempts on the processes that watch. */
#include "tests/http/hostile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- whom ---- */

/* PID 1 and every supervisor: what watches over commands. */
static int keepers_of_order(int *pids, int size)
{
    int count = 0;
    pids[count++] = 1;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && count < size && (entry = readdir(proc));) {
        char path[300], name[64] = "";
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        FILE *file = entry->d_name[0] > '0' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (file && fgets(name, sizeof name, file) && !strcmp(name, "ws-supervisor\n"))
            pids[count++] = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    if (proc)
        closedir(proc);
    return count;
}

static bool for_each(bool (*attempt)(int pid))
{
    int pids[64], count = keepers_of_order(pids, 64);
    if (count < 2)
        return got("no supervisor was found");
    for (int i = 0; i < count; i++)
        if (attempt(pids[i]))
            return true;
    return false;
}

static bool reads(int pid)
{
    static const char *const files[] = { "environ", "mem",         "maps",  "smaps", "smaps_rollup",
                                         "auxv",    "syscall",     "stack", "io",    "numa_maps",
                                         "pagemap", "personality", "exe" };
    static const char *const directories[] = { "fd", "fdinfo", "map_files", "root", "cwd" };
    char path[64], byte;
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, files[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        bool done = fd >= 0 && read(fd, &byte, 1) == 1;
        if (fd >= 0)
            close(fd);
        if (done)
            return got("read %s", path);
    }
    for (size_t i = 0; i < COUNT(directories); i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, directories[i]);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            return got("opened %s", path);
    }
    return false;
}

bool reads_guards(void)
{
    return for_each(reads);
}

static bool namespaces_of(int pid)
{
    static const char *const names[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup" };
    char path[64];
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            return got("opened %s", path);
    }
    return false;
}

bool namespaces_of_guards(void)
{
    return for_each(namespaces_of);
}

static bool writes(int pid)
{
    static const char *const files[] = {
        "mem",      "oom_score_adj", "comm",      "clear_refs",   "coredump_filter", "uid_map",
        "gid_map",  "projid_map",    "setgroups", "autogroup",    "sched",           "timerslack_ns",
        "loginuid", "attr/current",  "attr/exec", "make-it-fail", "timens_offsets"
    };
    char path[64];
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, files[i]);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        bool done = fd >= 0 && write(fd, "1", 1) == 1;
        if (fd >= 0)
            close(fd);
        if (done)
            return got("wrote %s", path);
    }
    return false;
}

bool writes_guards(void)
{
    return for_each(writes);
}

static bool traces(int pid)
{
    return (!ptrace(PTRACE_ATTACH, pid, 0, 0) || !ptrace(PTRACE_SEIZE, pid, 0, 0)) && got("traced %d", pid);
}

bool traces_guards(void)
{
    return for_each(traces);
}

static bool touches_memory(int pid)
{
    char byte = 0;
    unsigned long address = 0x400000;
    struct iovec here = { &byte, 1 }, there = { (void *)address, 1 };
    errno = 0;
    if (process_vm_writev(pid, &here, 1, &there, 1, 0) >= 0 || errno != EPERM)
        return got("process_vm_writev on %d: %s", pid, strerror(errno));
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno != EPERM)
        return got("process_vm_readv on %d: %s", pid, strerror(errno));
    return false;
}

bool memory_of_guards(void)
{
    return for_each(touches_memory);
}

/* The agent's channel is one of these numbers. */
static bool steals_descriptor(int pid)
{
    int pidfd = (int)syscall(434, pid, 0);
    for (int fd = 0; pidfd >= 0 && fd < 64; fd++)
        if (syscall(438, pidfd, fd, 0) >= 0)
            return got("descriptor %d of %d", fd, pid);
    if (pidfd < 0)
        return got("pidfd_open: %s", strerror(errno));
    close(pidfd);
    return false;
}

bool descriptors_of_guards(void)
{
    return for_each(steals_descriptor);
}

static bool asks_about(int pid)
{
    void *head;
    size_t length;
    struct rlimit limit = { 0, 0 };
    if (syscall(SYS_kcmp, getpid(), pid, 1, 0, 0) >= 0)
        return got("kcmp with %d", pid);
    if (!syscall(SYS_get_robust_list, pid, &head, &length))
        return got("get_robust_list of %d", pid);
    if (!prlimit(pid, RLIMIT_NOFILE, &limit, NULL) || !prlimit(pid, RLIMIT_CPU, &limit, NULL))
        return got("prlimit of %d", pid);
    return false;
}

bool limits_of_guards(void)
{
    return for_each(asks_about);
}

bool signals_to_first(void)
{
    for (int number = 1; number <= 64; number++)
        kill(1, number);
    int pidfd = (int)syscall(434, 1, 0);
    for (int number = 1; number <= 64; number++)
        syscall(424, pidfd, number, NULL, 0);
    usleep(50000);
    char text[600] = "";
    FILE *file = fopen("/proc/1/stat", "re");
    bool there = file && fgets(text, sizeof text, file) && strchr(text, ')');
    return (!there || strchr(text, ')')[2] == 'T' || strchr(text, ')')[2] == 'Z') && got("PID 1: %s", text);
}
