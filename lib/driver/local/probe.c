/* Tries what bubblewrap needs in a child process, then looks for the switch that forbids it, so that the
 * message names the cure. Knows nothing of bubblewrap itself. */
#include "lib/driver/local/probe.h"

#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum step { STEP_DONE, STEP_USER = 10, STEP_FORK, STEP_PROC, STEP_SETUP };

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        _exit(STEP_SETUP);
    close(fd);
}

static int wait_code(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : STEP_SETUP;
}

/* As nobody where root: so it is for the sandbox too. */
static _Noreturn void try_in_child(void)
{
    char map[64];
    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
        _exit(STEP_SETUP);
    prctl(PR_SET_DUMPABLE, 1); /* a change of user took it away, and with it the right to write the maps */
    snprintf(map, sizeof(map), "1000 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID))
        _exit(STEP_USER);
    write_text("/proc/self/uid_map", map);
    pid_t pid = fork();
    if (pid < 0)
        _exit(STEP_FORK);
    if (pid == 0) {
        bool mounted = !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                       !mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
        _exit(mounted ? STEP_DONE : STEP_PROC);
    }
    _exit(wait_code(pid));
}

static bool reads(const char *path, const char *value)
{
    char text[32] = "";
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && !strncmp(text, value, strlen(value)) &&
           text[strlen(value)] <= ' ';
}

static int tell_user_namespaces(struct error *err)
{
    static const struct {
        const char *path, *value, *cure;
    } switches[] = {
        { "/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1" },
        { "/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=65536" },
        { "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
          "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (or an AppArmor profile for bwrap that "
          "allows userns)" },
    };
    for (size_t i = 0; i < N_ELEMENTS(switches); i++)
        if (reads(switches[i].path, switches[i].value))
            return error_set(err, ERROR_DRIVER, "user namespaces are switched off: %s", switches[i].cure);
    return error_set(
        err, ERROR_DRIVER,
        "user namespaces are refused: in a container start it with --security-opt seccomp=unconfined "
        "--security-opt systempaths=unconfined (podman: --security-opt unmask=ALL)");
}

int probe_namespaces(struct error *err)
{
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, ERROR_DRIVER, errno, "cannot start a process");
    if (pid == 0)
        try_in_child();
    switch (wait_code(pid)) {
    case STEP_DONE:
        return 0;
    case STEP_USER:
        return tell_user_namespaces(err);
    case STEP_PROC:
        return error_set(err, ERROR_DRIVER,
                         "/proc cannot be mounted in a namespace: in a container start it with "
                         "--security-opt systempaths=unconfined "
                         "(podman: --security-opt unmask=ALL)");
    default:
        return error_set(err, ERROR_DRIVER,
                         "namespaces cannot be tried: raise the limit of processes (ulimit -u)");
    }
}
