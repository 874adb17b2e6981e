/* The list of refused system calls, compiled to BPF. Everything else is allowed: namespaces, an empty
 * capability set and no_new_privs carry the isolation, this list takes away what they leave open. The only
 * includer of seccomp.h. Knows nothing of sandboxes; the agent's own process is not bound by it. */
#include "lib/driver/local/seccomp.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel looks at the low 32 bits of an int argument only: so must the comparison. */
#define LOW32 0xffffffffu
#define ANY                                                                                                  \
    {                                                                                                        \
        0, 0, 0, 0                                                                                           \
    }
#define IS(arg, value)                                                                                       \
    {                                                                                                        \
        arg, SCMP_CMP_MASKED_EQ, LOW32, value                                                                \
    }
#define HAS(arg, bit)                                                                                        \
    {                                                                                                        \
        arg, SCMP_CMP_MASKED_EQ, bit, bit                                                                    \
    }
/* personality(0xffffffff) asks and changes nothing: bit 31 is set in that question alone. */
#define PERSONA(bit)                                                                                         \
    {                                                                                                        \
        0, SCMP_CMP_MASKED_EQ, 0x80000000u | (bit), bit                                                      \
    }

struct refusal {
    int number, error;
    struct scmp_arg_cmp when; /* op 0 = always */
};
#define REFUSE(name, error, ...)                                                                             \
    {                                                                                                        \
        SCMP_SYS(name), error, __VA_ARGS__                                                                   \
    }

static const struct refusal refusals[] = {
    /* typing into a terminal on somebody's behalf */
    REFUSE(ioctl, EPERM, IS(1, TIOCSTI)),
    REFUSE(ioctl, EPERM, IS(1, TIOCLINUX)),
    /* namespaces; glibc falls back from clone3, whose flags cannot be seen, to clone */
    REFUSE(clone3, ENOSYS, ANY),
    REFUSE(clone, EPERM, HAS(0, CLONE_NEWUSER)),
    REFUSE(unshare, EPERM, HAS(0, CLONE_NEWUSER)),
    REFUSE(setns, EPERM, ANY),
    /* io_uring: system calls that no filter sees */
    REFUSE(io_uring_setup, ENOSYS, ANY),
    REFUSE(io_uring_enter, ENOSYS, ANY),
    REFUSE(io_uring_register, ENOSYS, ANY),
    /* counted for the whole machine: one sandbox could take all of it from every program of the host */
    REFUSE(io_setup, ENOSYS, ANY),
    /* keys belong to the user on the host, not to a namespace */
    REFUSE(keyctl, EPERM, ANY),
    REFUSE(add_key, EPERM, ANY),
    REFUSE(request_key, EPERM, ANY),
    /* mounts, old and new */
    REFUSE(mount, EPERM, ANY),
    REFUSE(umount2, EPERM, ANY),
    REFUSE(pivot_root, EPERM, ANY),
    REFUSE(chroot, EPERM, ANY),
    REFUSE(open_tree, EPERM, ANY),
    REFUSE(move_mount, EPERM, ANY),
    REFUSE(fsopen, EPERM, ANY),
    REFUSE(fsconfig, EPERM, ANY),
    REFUSE(fsmount, EPERM, ANY),
    REFUSE(fspick, EPERM, ANY),
    REFUSE(mount_setattr, EPERM, ANY),
    /* the kernel itself */
    REFUSE(bpf, EPERM, ANY),
    REFUSE(perf_event_open, EPERM, ANY),
    REFUSE(userfaultfd, EPERM, ANY),
    REFUSE(kexec_load, EPERM, ANY),
    REFUSE(kexec_file_load, EPERM, ANY),
    REFUSE(init_module, EPERM, ANY),
    REFUSE(finit_module, EPERM, ANY),
    REFUSE(delete_module, EPERM, ANY),
    REFUSE(reboot, EPERM, ANY),
    REFUSE(swapon, EPERM, ANY),
    REFUSE(swapoff, EPERM, ANY),
    REFUSE(acct, EPERM, ANY),
    REFUSE(quotactl, EPERM, ANY),
    REFUSE(quotactl_fd, EPERM, ANY),
    REFUSE(syslog, EPERM, ANY),
    REFUSE(settimeofday, EPERM, ANY),
    REFUSE(clock_settime, EPERM, ANY),
    REFUSE(sethostname, EPERM, ANY),
    REFUSE(setdomainname, EPERM, ANY),
    REFUSE(open_by_handle_at, EPERM, ANY),
    REFUSE(iopl, EPERM, ANY),
    REFUSE(ioperm, EPERM, ANY),
    REFUSE(vhangup, EPERM, ANY),
    REFUSE(memfd_secret, ENOSYS, ANY), /* memory that no sum over processes sees */
    REFUSE(lookup_dcookie, ENOSYS, ANY),
    REFUSE(nfsservctl, ENOSYS, ANY),
    REFUSE(uselib, ENOSYS, ANY),
    REFUSE(_sysctl, ENOSYS, ANY),
    REFUSE(sysfs, ENOSYS, ANY),
    REFUSE(ustat, ENOSYS, ANY),
    /* personalities other than Linux, 32-bit Linux, UNAME26 and ADDR_NO_RANDOMIZE (gdb) */
    REFUSE(personality, EPERM, PERSONA(0x01)),
    REFUSE(personality, EPERM, PERSONA(0x02)),
    REFUSE(personality, EPERM, PERSONA(0x04)),
    REFUSE(personality, EPERM, PERSONA(0x10)),
    REFUSE(personality, EPERM, PERSONA(0x20)),
    REFUSE(personality, EPERM, PERSONA(0x40)),
    REFUSE(personality, EPERM, PERSONA(0x80)),
    REFUSE(personality, EPERM, PERSONA(MMAP_PAGE_ZERO)),
    REFUSE(personality, EPERM, PERSONA(ADDR_COMPAT_LAYOUT)),
    REFUSE(personality, EPERM, PERSONA(READ_IMPLIES_EXEC)),
    REFUSE(personality, EPERM, PERSONA(ADDR_LIMIT_32BIT)),
    REFUSE(personality, EPERM, PERSONA(ADDR_LIMIT_3GB)),
};

/* Sockets of these families alone: the others are rarely used and often the way into a kernel. */
static const int socket_families[] = { AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
#define FAMILY_LAST AF_NETLINK

/* What a later kernel may add (and open_tree_attr) was looked at by nobody. */
#define CALL_OPEN_TREE_ATTR 467
#define CALL_UNKNOWN_FIRST  470
#define CALL_UNKNOWN_END    512

static int refuse(scmp_filter_ctx filter, const struct refusal *row)
{
    bool always = row->when.op == 0;
    int result = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((uint32_t)row->error), row->number,
                                        always ? 0 : 1, always ? NULL : &row->when);
    /* EDOM, EINVAL on a pseudo number: this architecture has no such call. */
    return result < 0 && row->number < 0 ? 0 : result;
}

static bool family_is_allowed(int family)
{
    for (size_t i = 0; i < N_ELEMENTS(socket_families); i++)
        if (socket_families[i] == family)
            return true;
    return false;
}

static int refuse_families(scmp_filter_ctx filter)
{
    struct refusal row = REFUSE(socket, EAFNOSUPPORT, { 0, SCMP_CMP_GT, FAMILY_LAST, 0 });
    int result = refuse(filter, &row);
    for (int family = 0; family <= FAMILY_LAST && result >= 0; family++) {
        row.when = (struct scmp_arg_cmp){ 0, SCMP_CMP_EQ, (scmp_datum_t)family, 0 };
        if (!family_is_allowed(family))
            result = refuse(filter, &row);
    }
    return result;
}

static int refuse_unknown(scmp_filter_ctx filter)
{
    struct refusal row = { CALL_OPEN_TREE_ATTR, ENOSYS, ANY };
    int result = refuse(filter, &row);
    for (row.number = CALL_UNKNOWN_FIRST; row.number < CALL_UNKNOWN_END && result >= 0; row.number++)
        result = refuse(filter, &row);
    return result;
}

static int fill(scmp_filter_ctx filter)
{
    /* Other architectures' calls (32-bit, x32) have other numbers: none of them. */
    int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (result >= 0)
        seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE,
                         2); /* a binary tree; older libraries go on without */
    for (size_t i = 0; i < N_ELEMENTS(refusals) && result >= 0; i++)
        result = refuse(filter, &refusals[i]);
    if (result >= 0)
        result = refuse_families(filter);
    return result >= 0 ? refuse_unknown(filter) : result;
}

int seccomp_program(struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return error_set(err, ERROR_DRIVER, "libseccomp cannot make a filter");
    _cleanup_close_ int fd = memfd_create("seccomp", MFD_CLOEXEC);
    int result = fd < 0 ? -errno : fill(filter);
    if (result >= 0)
        result = seccomp_export_bpf(filter, fd);
    seccomp_release(filter);
    if (result < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, ERROR_DRIVER, result < 0 ? -result : errno,
                           "cannot compile the system call filter");
    return STEAL_FD(fd);
}
