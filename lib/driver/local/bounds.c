/* Some limits can be set only by who is in the namespaces that they belong to, and bubblewrap sets none: a
 * process of its own enters the sandbox's, with the rights of their owner, and leaves nothing behind. It must
 * be over before anything else runs there. Knows nothing of commands; limits of processes are the agent's to
 * set. */
#include "lib/driver/local/bounds.h"

#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTINGS       "/proc/sys/user/"
#define SHARE          4 /* a sandbox gets one in so many of the user's */
#define ENTER_FOR_MS   5000
#define TEXT_OF(value) TEXT_OF_IT(value)
#define TEXT_OF_IT(x)  #x

/* What the kernel counts for each user, in every user namespace above too. */
static const char *const counted[] = {
    SETTINGS "max_inotify_instances",
    SETTINGS "max_inotify_watches",
    SETTINGS "max_fanotify_groups",
    SETTINGS "max_fanotify_marks",
};

struct share {
    const char *path;
    char text[24];
    size_t length; /* 0 = not known to this kernel */
};

static void find_share(const char *path, struct share *ret)
{
    char text[32] = "";
    *ret = (struct share){ .path = path };
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    long long most = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? strtoll(text, NULL, 10) : 0;
    if (most >= SHARE)
        ret->length = (size_t)snprintf(ret->text, sizeof(ret->text), "%lld", most / SHARE);
}

static _Noreturn void fail(void)
{
    _exit(errno > 0 && errno < 255 ? errno : 255);
}

static void write_share(const struct share *share)
{
    int fd = share->length ? open(share->path, O_WRONLY | O_CLOEXEC) : -1;
    if (share->length && (fd < 0 || write(fd, share->text, share->length) < 0))
        fail();
}

/* After fork: system calls alone. The options of a mount are given anew whole, or they become the kernel's
 * own: these are bubblewrap's, and the bound. */
static _Noreturn void run_inside(int user_fd, int mount_fd, const struct share *shares, size_t count)
{
    if (setns(user_fd, CLONE_NEWUSER))
        fail();
    for (size_t i = 0; i < count; i++)
        write_share(&shares[i]);
    if (setns(mount_fd, CLONE_NEWNS) || mount(NULL, "/dev/pts", NULL, MS_REMOUNT | MS_NOSUID | MS_NOEXEC,
                                              "mode=620,ptmxmode=666,max=" TEXT_OF(BOUNDS_TERMINALS)))
        fail();
    _exit(0);
}

static int wait_for(pid_t pid, struct error *err)
{
    int status = 0;
    _cleanup_close_ int pidfd = process_pidfd_open(pid); /* ours and not reaped: cannot be another's */
    if (pidfd >= 0 && process_pidfd_wait(pidfd, ENTER_FOR_MS) != 1)
        process_pidfd_signal(pidfd, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!WIFEXITED(status))
        return error_set(err, ERROR_DRIVER, "a process in the sandbox's namespaces was ended");
    return WEXITSTATUS(status) == 0
               ? 0
               : error_errno(err, ERROR_DRIVER, WEXITSTATUS(status), "in the sandbox's namespaces");
}

int bounds_set(pid_t first, bool shared_user, struct error *err)
{
    char path[64];
    struct share shares[N_ELEMENTS(counted)];
    size_t count = shared_user ? N_ELEMENTS(counted) : 0;
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", first);
    _cleanup_close_ int mount_fd = open(path, O_RDONLY | O_CLOEXEC);
    _cleanup_close_ int user_fd = mount_fd < 0 ? -1 : ioctl(mount_fd, NS_GET_USERNS);
    if (user_fd < 0)
        return error_errno(err, ERROR_DRIVER, errno, "cannot open the sandbox's namespaces");
    for (size_t i = 0; i < count; i++)
        find_share(counted[i], &shares[i]);
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, ERROR_DRIVER, errno, "cannot start a process");
    if (pid == 0)
        run_inside(user_fd, mount_fd, shares, count);
    return wait_for(pid, err);
}
