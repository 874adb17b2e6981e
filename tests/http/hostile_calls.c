/* Attempts with system calls, whatever they are given. */
#include "tests/http/hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

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

bool all_calls(void)
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
bool calls_of_ia32(void)
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

bool joins_own_namespaces(void)
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
