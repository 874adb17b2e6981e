/* Starts a warden where none answers, or one that is to give way. Called where nothing may wait. */
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/warden/settings.h"
#include "lib/warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OWN_LOG "warden.log"

/* Between fork and exec only what is safe there, other threads may be about. log_fd -1 = stderr stays. */
static void become_warden(const char *program, char *const argv[], char *const environment[], int log_fd)
{
    process_reset_signals();
    setsid();
    if (fork() != 0)
        _exit(0);
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    if (log_fd >= 0)
        dup2(log_fd, STDERR_FILENO);
    process_close_on_exec_from(3);
    execve(program, argv, environment);
    _exit(127);
}

/* A warden outlives who started it, and who reads a pipe or a socket to its end would wait for it. The
 * journal is a socket that nobody waits for. */
static bool is_awaited(int fd)
{
    struct stat st;
    const char *journal = getenv("JOURNAL_STREAM");
    char own[64];
    if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        return false;
    snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return journal == NULL || strcmp(journal, own) != 0;
}

static bool has_own_log(unsigned flags)
{
    return flags & WARDEN_OWN_LOG || is_awaited(STDERR_FILENO);
}

char *warden_log(const struct config *config, unsigned flags)
{
    if (config->log_file[0] != '\0')
        return xstrdup(config->log_file);
    return has_own_log(flags) ? config_path(config, "run", OWN_LOG) : NULL;
}

/* What the one before said last, perhaps why it ended, is kept. */
static int open_log(const struct config *config, struct error *err)
{
    _cleanup_free_ char *run = config_path(config, "run", NULL);
    if (io_ensure_directory(run, 0700, err) < 0)
        return -1;
    _cleanup_close_ int dirfd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0 || (renameat(dirfd, OWN_LOG, dirfd, OWN_LOG ".old") < 0 && errno != ENOENT))
        return error_errno(err, ERROR_INTERNAL, errno, "cannot make the warden's log");
    _cleanup_close_ int fd = openat(dirfd, OWN_LOG, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0640);
    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot make the warden's log");
    return io_inherit_owner(dirfd, fd, err) < 0 ? -1 : STEAL_FD(fd);
}

int warden_ensure(const struct config *config, const char *program, unsigned flags, struct error *err)
{
    struct warden_seen seen;
    if (warden_look(config, &seen) && !warden_gives_way(&seen, flags))
        return 0;
    bool own_log = has_own_log(flags);
    _cleanup_close_ int log_fd = own_log ? open_log(config, err) : -1;
    if (own_log && log_fd < 0)
        return -1;
    char *argv[8] = { (char *)program, "warden", "--state", config->state_dir };
    size_t count = 4;
    if (flags & WARDEN_SPARE)
        argv[count++] = "--spare";
    if (flags & WARDEN_FRESH)
        argv[count++] = "--fresh";
    char **environment = settings_environment(config);
    pid_t pid = fork();
    if (pid == 0)
        become_warden(program, argv, environment, log_fd);
    settings_free_environment(environment);
    if (pid < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot start the warden");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 1;
}
