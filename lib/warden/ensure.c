/* Starts a warden where none answers. Called by workers, so it waits for nothing. */
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/warden/settings.h"
#include "lib/warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

/* Between fork and exec only what is safe there, other threads may be about. */
static void become_warden(const char *program, char *const argv[], char *const environment[])
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
    process_close_on_exec_from(3);
    execve(program, argv, environment);
    _exit(127);
}

int warden_ensure(const struct config *config, const char *program, struct error *err)
{
    _cleanup_free_ char *path = config_path(config, "run/warden.sock", NULL);
    _cleanup_close_ int fd = io_connect_unix(path, NULL);
    if (fd >= 0)
        return 0;
    char *argv[] = { (char *)program, "warden", "--state", config->state_dir, NULL };
    char **environment = settings_environment(config);
    pid_t pid = fork();
    if (pid == 0)
        become_warden(program, argv, environment);
    settings_free_environment(environment);
    if (pid < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot start the warden");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}
