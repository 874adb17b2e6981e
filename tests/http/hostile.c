/* What sandboxed code may try: compiled and run inside a sandbox by test_escape. Each attempt is a row; it
 * says true where it got what it wanted. Knows nothing of the gateway but names that anybody in a sandbox can
 * see. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int secret_count;
static char **secrets; /* DEVICE:INODE of what must stay out of reach */
static const char *abstract_name, *socket_path;

static char note[400]; /* what an attempt got, for the report */
#define got(...) (snprintf(note, sizeof note, __VA_ARGS__), true)

static bool opens(const char *path, int flags)
{
    int fd = open(path, flags, 0755);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

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

/* ---- reading what is not ours ---- */

static bool is_secret(const struct stat *status)
{
    char text[64];
    snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)status->st_dev,
             (unsigned long long)status->st_ino);
    for (int i = 0; i < secret_count; i++)
        if (!strcmp(secrets[i], text))
            return true;
    return false;
}

/* A file, a directory, and all that lies on the way up from it. */
static bool leads_out(const char *path)
{
    struct stat status;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool found = !fstat(fd, &status) && is_secret(&status);
    for (int depth = 0; depth < 40 && !found && S_ISDIR(status.st_mode); depth++) {
        int up = openat(fd, "..", O_PATH | O_CLOEXEC);
        close(fd);
        fd = up;
        found = fd >= 0 && !fstat(fd, &status) && is_secret(&status);
        if (fd < 0)
            break;
    }
    if (fd >= 0)
        close(fd);
    return found && got("%s", path);
}

static bool any_below(const char *directory, const char *suffix)
{
    bool found = false;
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && !found && (entry = readdir(list));) {
        char path[700];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s%s", directory, entry->d_name, suffix);
        found = leads_out(path);
    }
    if (list)
        closedir(list);
    return found;
}

static bool by_proc(void)
{
    static const char *const places[] = { "root", "cwd", "exe" };
    static const char *const lists[] = { "fd", "map_files", "task" };
    bool found = false;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[300];
        for (size_t i = 0; i < COUNT(places) && !found; i++) {
            snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, places[i]);
            found = leads_out(path);
        }
        for (size_t i = 0; i < COUNT(lists) && !found; i++) {
            snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, lists[i]);
            found = any_below(path, "") || any_below(path, "/root") || any_below(path, "/cwd");
        }
    }
    if (proc)
        closedir(proc);
    return found;
}

static bool by_symbolic_link(void)
{
    static const char *const targets[] = { "/proc/1/root", "/proc/1/cwd",       "/proc/self/root/..",
                                           "/../../../..", "/proc/self/cwd/..", "/var",
                                           "/root" };
    for (size_t i = 0; i < COUNT(targets); i++) {
        unlink("/workspace/way");
        if (!symlink(targets[i], "/workspace/way") &&
            (leads_out("/workspace/way") || leads_out("/workspace/way/.")))
            return true;
    }
    unlink("/workspace/way");
    return false;
}

static bool by_path(void)
{
    return leads_out("/workspace/..") || leads_out("/home/workspace/../..") ||
           leads_out("/proc/self/root/../..") || leads_out("/dev/fd/0/../..") ||
           leads_out("/run/workspace/..") || leads_out("/tmp/..");
}

/* A second chroot inside the first is the classic way out: needs what nobody has here. */
static bool by_chroot(void)
{
    mkdir("/tmp/chroot", 0755);
    return !chroot("/tmp/chroot") && got("chroot");
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

static bool reads_guards(void)
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

static bool namespaces_of_guards(void)
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

static bool writes_guards(void)
{
    return for_each(writes);
}

/* ---- the processes that watch ---- */

static bool traces(int pid)
{
    return (!ptrace(PTRACE_ATTACH, pid, 0, 0) || !ptrace(PTRACE_SEIZE, pid, 0, 0)) && got("traced %d", pid);
}

static bool traces_guards(void)
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

static bool memory_of_guards(void)
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

static bool descriptors_of_guards(void)
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

static bool limits_of_guards(void)
{
    return for_each(asks_about);
}

static bool signals_to_first(void)
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

/* ---- what was left open ---- */

static bool inherited_descriptors(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct stat status;
        if (fstat(fd, &status))
            continue;
        if (fd > 2 || S_ISDIR(status.st_mode) || S_ISSOCK(status.st_mode))
            return got("descriptor %d, mode %o", fd, status.st_mode);
    }
    return false;
}

/* All that every visible process holds: nothing but pipes, terminals, own files. */
static bool descriptors_of_everybody(void)
{
    bool found = false;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[300];
        snprintf(path, sizeof path, "/proc/%s/fd", entry->d_name);
        DIR *fds = entry->d_name[0] > '0' && entry->d_name[0] <= '9' ? opendir(path) : NULL;
        for (struct dirent *one; fds && !found && (one = readdir(fds));) {
            char target[300] = "";
            if (readlinkat(dirfd(fds), one->d_name, target, sizeof target - 1) < 0)
                continue;
            if (!strncmp(target, "socket:", 7) || strstr(target, "seccomp") || strstr(target, "/state"))
                found = got("%s/%s -> %s", path, one->d_name, target);
        }
        if (fds)
            closedir(fds);
    }
    if (proc)
        closedir(proc);
    return found;
}

/* ---- sockets of the host ---- */

static bool connects(int type, const char *name, bool abstract)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path + abstract, sizeof address.sun_path - 1, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)abstract + strlen(name));
    bool done =
        fd >= 0 && (!connect(fd, (struct sockaddr *)&address, length) ||
                    (type == SOCK_DGRAM && sendto(fd, "x", 1, 0, (struct sockaddr *)&address, length) == 1));
    close(fd);
    return done && got("connected to %s", name);
}

static bool abstract_sockets(void)
{
    char datagram[200];
    snprintf(datagram, sizeof datagram, "%s-datagram", abstract_name);
    return connects(SOCK_STREAM, abstract_name, true) || connects(SOCK_DGRAM, datagram, true);
}

static bool path_sockets(void)
{
    return connects(SOCK_STREAM, socket_path, false);
}

/* ---- calls ---- */

#define P(text) ((long)(text))
static const long zeros[64];

/* Refused whatever is given: by the filter, or for want of a capability before anything is looked at. */
static const struct call {
    const char *name;
    long number, arguments[6];
} calls[] = {
#ifdef __x86_64__
    { "mount", SYS_mount, { P("x"), P("/tmp"), P("tmpfs") } },
    { "umount2", SYS_umount2, { P("/tmp"), 2 } },
    { "pivot_root", SYS_pivot_root, { P("/tmp"), P("/tmp") } },
    { "chroot", SYS_chroot, { P("/") } },
    { "unshare user", SYS_unshare, { CLONE_NEWUSER } },
    { "unshare mount", SYS_unshare, { CLONE_NEWNS } },
    { "unshare pid", SYS_unshare, { CLONE_NEWPID } },
    { "unshare net", SYS_unshare, { CLONE_NEWNET } },
    { "unshare ipc", SYS_unshare, { CLONE_NEWIPC } },
    { "unshare uts", SYS_unshare, { CLONE_NEWUTS } },
    { "unshare cgroup", SYS_unshare, { 0x02000000 } },
    { "unshare time", SYS_unshare, { 0x80 } },
    { "clone user", SYS_clone, { CLONE_NEWUSER | SIGCHLD } },
    { "clone user, high bits", SYS_clone, { CLONE_NEWUSER | SIGCHLD | 0x100000000 } },
    { "clone mount", SYS_clone, { CLONE_NEWNS | SIGCHLD } },
    { "clone pid", SYS_clone, { CLONE_NEWPID | SIGCHLD } },
    { "clone net", SYS_clone, { CLONE_NEWNET | SIGCHLD } },
    { "keyctl", SYS_keyctl, { 0, -3, 1 } },
    { "add_key", SYS_add_key, { P("user"), P("a"), P("b"), 1, -3 } },
    { "request_key", SYS_request_key, { P("user"), P("a"), 0, -3 } },
    { "bpf", SYS_bpf, { 0, P(zeros), 48 } },
    { "perf_event_open", SYS_perf_event_open, { P(zeros), 0, -1, -1, 0 } },
    { "userfaultfd", SYS_userfaultfd, { 1 } },
    { "open_by_handle_at", SYS_open_by_handle_at, { AT_FDCWD, P(zeros), 0 } },
    { "kexec_load", SYS_kexec_load, { 0 } },
    { "init_module", SYS_init_module, { P(zeros), 8, P("") } },
    { "finit_module", SYS_finit_module, { 0, P(""), 0 } },
    { "delete_module", SYS_delete_module, { P("x"), 0 } },
    { "reboot", SYS_reboot, { (long)0xfee1dead, 672274793, 0x89abcdef } },
    { "swapon", SYS_swapon, { P("/tmp/x"), 0 } },
    { "acct", SYS_acct, { P("/tmp/x") } },
    { "quotactl", SYS_quotactl, { 0x800002 << 8, P("/dev/x"), 0, 0 } },
    { "syslog", SYS_syslog, { 3, P(zeros), 0 } },
    { "settimeofday", SYS_settimeofday, { P(zeros), 0 } },
    { "clock_settime", SYS_clock_settime, { 0, P(zeros) } },
    { "sethostname", SYS_sethostname, { P("x"), 1 } },
    { "setdomainname", SYS_setdomainname, { P("x"), 1 } },
    { "iopl", SYS_iopl, { 3 } },
    { "ioperm", SYS_ioperm, { 0x80, 1, 1 } },
    { "vhangup", SYS_vhangup, { 0 } },
    { "io_setup", SYS_io_setup, { 1, P(zeros) } },
    { "mknod character", SYS_mknod, { P("/tmp/node"), S_IFCHR | 0666, 0x101 } },
    { "mknod block", SYS_mknod, { P("/workspace/node"), S_IFBLK | 0666, 0x800 } },
    { "mknodat home", SYS_mknodat, { AT_FDCWD, P("/home/workspace/node"), S_IFCHR | 0666, 0x103 } },
    { "personality READ_IMPLIES_EXEC", SYS_personality, { 0x400000 } },
    { "memfd_secret", 447, { 0 } },
    { "ioctl TIOCSTI, high bits", SYS_ioctl, { 0, (long)(0x100000000 | TIOCSTI), P("x") } },
    { "ioctl TIOCLINUX", SYS_ioctl, { 0, TIOCLINUX, P("\3") } },
    { "ioctl TIOCLINUX, high bits", SYS_ioctl, { 0, (long)(0x700000000 | TIOCLINUX), P("\3") } },
    { "mount of x32", 0x40000000 | SYS_mount, { P("x"), P("/tmp"), P("tmpfs") } },
    { "keyctl of x32", 0x40000000 | SYS_keyctl, { 0, -3, 1 } },
    { "getpid of x32", 0x40000000 | SYS_getpid, { 0 } },
    { "ptrace of x32", 0x40000000 | 521, { 0 } },
    { "socket AF_PACKET", SYS_socket, { AF_PACKET, SOCK_RAW, 0 } },
    { "socket AF_ALG", SYS_socket, { 38, SOCK_SEQPACKET, 0 } },
    { "socket AF_VSOCK", SYS_socket, { 40, SOCK_STREAM, 0 } },
    { "socket AF_XDP", SYS_socket, { 44, SOCK_RAW, 0 } },
    { "socket AF_KEY", SYS_socket, { 15, SOCK_RAW, 2 } },
    { "socket raw", SYS_socket, { AF_INET, SOCK_RAW, 255 } },
#endif
    { "setns", SYS_setns, { 0, 0 } },
    { "clone3", 435, { P(zeros), 64 } },
    { "io_uring_setup", 425, { 8, P(zeros) } },
    { "io_uring_enter", 426, { 0 } },
    { "io_uring_register", 427, { 0 } },
    { "open_tree", 428, { AT_FDCWD, P("/"), 1 } },
    { "move_mount", 429, { 0, P(""), AT_FDCWD, P("/tmp"), 4 } },
    { "fsopen", 430, { P("tmpfs"), 0 } },
    { "fsconfig", 431, { 0, 6, 0, 0, 0 } },
    { "fsmount", 432, { 0 } },
    { "fspick", 433, { AT_FDCWD, P("/tmp"), 0 } },
    { "mount_setattr", 442, { AT_FDCWD, P("/"), 0, P(zeros), 32 } },
    { "quotactl_fd", 443, { 0 } },
    { "open_tree_attr", 467, { AT_FDCWD, P("/"), 1, P(zeros), 32 } },
    { "a call of a later kernel", 480, { 0 } },
};

static bool is_refusal(int number)
{
    return number == EPERM || number == ENOSYS || number == EACCES || number == EAFNOSUPPORT;
}

static bool all_calls(void)
{
    note[0] = '\0';
    for (size_t i = 0; i < COUNT(calls); i++) {
        const long *a = calls[i].arguments;
        errno = 0;
        long result = syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (result == 0 && !strncmp(calls[i].name, "clone", 5))
            _exit(0); /* the child; its parent tells */
        if (result >= 0 || !is_refusal(errno))
            snprintf(note + strlen(note), sizeof note - strlen(note), "%s: %ld %s; ", calls[i].name, result,
                     result < 0 ? strerror(errno) : "");
    }
    return note[0] != '\0';
}

/* Calls of 32-bit programs, whose numbers the filter does not know. 20 = getpid, 21 = mount, 288 = keyctl. */
static bool calls_of_ia32(void)
{
#ifdef __x86_64__
    static const long numbers[] = { 20, 21, 288, 26 };
    for (size_t i = 0; i < COUNT(numbers); i++) {
        long result = numbers[i];
        __asm__ volatile("int $0x80"
                         : "+a"(result)
                         : "b"(0L), "c"(0L), "d"(0L), "S"(0L), "D"(0L)
                         : "memory", "r8", "r9", "r10", "r11");
        if ((int)result != -ENOSYS && (int)result != -EPERM)
            return got("int 0x80, %ld: %d", numbers[i], (int)result);
    }
#endif
    return false;
}

static bool joins_own_namespaces(void)
{
    static const char *const names[] = { "user", "mnt", "pid", "net", "ipc", "uts" };
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && !syscall(SYS_setns, fd, 0))
            return got("%s", path);
        int owner = fd < 0 ? -1 : ioctl(fd, 0xb701); /* NS_GET_USERNS */
        if (owner >= 0 && !syscall(SYS_setns, owner, 0))
            return got("owner of %s", path);
    }
    return false;
}

/* ---- privileges ---- */

static bool becomes_another(void)
{
    return (!setuid(0) || !setgid(0) || !setgroups(0, NULL) || !setresuid(0, 0, 0) ||
            !setreuid(65534, 65534) || !setuid(33) || setfsuid(0) != 1000 || setfsuid(-1) != 1000 ||
            !geteuid() || !prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0)) &&
           got("uid %d", geteuid());
}

static bool mounts_let_in(void)
{
    char line[2000];
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char place[300], options[300];
        if (sscanf(line, "%*s %*s %*s %*s %299s %299s", place, options) != 2)
            return got("unreadable: %s", line);
        bool device = !strncmp(place, "/dev/", 5) && strcmp(place, "/dev/shm");
        if (!strstr(options, "nosuid") || (!device && !strstr(options, "nodev")))
            return got("%s: %s", place, options);
    }
    return !file && got("no mountinfo");
}

static bool opens_devices(void)
{
    static const char *const names[] = {
        "/dev/mem",    "/dev/kmem",         "/dev/port",           "/dev/kmsg",    "/dev/sda",
        "/dev/vda",    "/dev/kvm",          "/dev/fuse",           "/dev/net/tun", "/dev/userfaultfd",
        "/dev/loop0",  "/dev/loop-control", "/dev/tty1",           "/dev/uinput",  "/dev/vhost-net",
        "/proc/kcore", "/proc/kmsg",        "/proc/sysrq-trigger", "/dev/console"
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (opens(names[i], O_RDWR | O_NONBLOCK | O_NOCTTY) ||
            opens(names[i], O_RDONLY | O_NONBLOCK | O_NOCTTY))
            return got("%s", names[i]);
    return false;
}

/* A file with the bits set is run by its owner, who is nobody else. */
static bool set_user_bits(void)
{
    if (system(
            "cp /usr/bin/id /workspace/id && chmod 6755 /workspace/id && /workspace/id -u | grep -qx 1000") !=
        0)
        return got("id of a copy");
    if (!chown("/workspace/id", 0, 0))
        return got("given to root");
    unlink("/workspace/id");
    return false;
}

static bool any_setting(const char *directory, int depth)
{
    bool found = false;
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && !found && (entry = readdir(list));) {
        char path[1000];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%.600s/%s", directory, entry->d_name);
        int fd = entry->d_type == DT_DIR ? -1 : open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        found =
            fd >= 0 ? got("%s", path) : entry->d_type == DT_DIR && depth < 9 && any_setting(path, depth + 1);
    }
    if (list)
        closedir(list);
    return found;
}

static bool kernel_settings(void)
{
    return any_setting("/proc/sys", 0);
}

static bool network_of_the_host(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return !ioctl(fd, SIOCSIFFLAGS, &request) && got("lo is down");
}

/* ---- what the agent is and executes ---- */

static bool replaces_programs(void)
{
    static const char *const files[] = {
        "/run/workspace/agent",        "/usr/bin/bash", "/bin/bash", "/etc/profile", "/etc/passwd",
        "/lib64/ld-linux-x86-64.so.2", "/proc/1/exe"
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        if (opens(files[i], O_WRONLY) || opens(files[i], O_RDWR | O_TRUNC) || !truncate(files[i], 0))
            return got("wrote %s", files[i]);
        if (!unlink(files[i]) || !rename("/tmp/mine", files[i]) || !link("/usr/bin/true", files[i]) ||
            !chmod(files[i], 0777))
            return got("replaced %s", files[i]);
    }
    return false;
}

static bool makes_files(void)
{
    static const char *const files[] = {
        "/etc/ld.so.preload", "/run/workspace/x",    "/etc/profile.d/x", "/x",
        "/etc/bash.bashrc",   "/usr/local/bin/bash", "/dev/x",           "/home/x"
    };
    for (size_t i = 0; i < COUNT(files); i++)
        if (opens(files[i], O_WRONLY | O_CREAT))
            return got("%s", files[i]);
    if (!rename("/run/workspace", "/run/other") || !rmdir("/run/workspace"))
        return got("/run/workspace is gone");
    return false;
}

static const struct attempt {
    const char *name;
    bool (*run)(void);
} attempts[] = {
    { "inherited descriptors", inherited_descriptors },
    { "descriptors of everybody", descriptors_of_everybody },
    { "files of others by path", by_path },
    { "files of others by /proc", by_proc },
    { "files of others by symbolic link", by_symbolic_link },
    { "files of others by chroot", by_chroot },
    { "reading PID 1 and supervisors", reads_guards },
    { "writing to PID 1 and supervisors", writes_guards },
    { "their namespaces", namespaces_of_guards },
    { "tracing them", traces_guards },
    { "their memory", memory_of_guards },
    { "their descriptors", descriptors_of_guards },
    { "their limits", limits_of_guards },
    { "signals to PID 1", signals_to_first },
    { "abstract sockets of the host", abstract_sockets },
    { "sockets of the gateway", path_sockets },
    { "system calls", all_calls },
    { "system calls of 32 bits", calls_of_ia32 },
    { "joining namespaces", joins_own_namespaces },
    { "becoming another user", becomes_another },
    { "mounts without nosuid and nodev", mounts_let_in },
    { "devices", opens_devices },
    { "set-user-id bits", set_user_bits },
    { "settings of the kernel", kernel_settings },
    { "network of the host", network_of_the_host },
    { "replacing programs", replaces_programs },
    { "making files", makes_files },
};

static bool run(const struct attempt *attempt)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        bool done = attempt->run();
        printf("%s: %s%s\n", attempt->name, done ? "GOT " : "refused", done ? note : "");
        fflush(stdout);
        _exit(done ? 1 : 0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s: ended by signal %d\n", attempt->name, WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* ABSTRACT-NAME SOCKET-PATH DEVICE:INODE... */
int main(int argc, char **argv)
{
    bool any = false;
    if (argc < 4)
        return 2;
    abstract_name = argv[1];
    socket_path = argv[2];
    secrets = argv + 3;
    secret_count = argc - 3;
    for (size_t i = 0; i < COUNT(attempts); i++)
        any |= run(&attempts[i]);
    printf("%zu attempts\n", COUNT(attempts));
    return any;
}
