/* Owns the helper's process, from fork to its last child that is reaped here, and the rules for its answer.
 * It must not know how commands are run. */
#include "lib/agent/rewrite.h"

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static const char *path_of(const struct launch *launch)
{
    for (char **at = launch->environment; at && *at; at++)
        if (strncmp(*at, "PATH=", 5) == 0)
            return *at + 5;
    return "";
}

/* ---- the helper ---- */

static void take_descriptors(int output)
{
    int nothing = open("/dev/null", O_RDWR);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 || dup2(nothing, 2) < 0)
        _exit(127);
    if (close_range(3, ~0U, 0) < 0)
        process_close_on_exec_from(3);
}

static _Noreturn void become_helper(const struct launch_rules *rules, const struct launch *launch, int output)
{
    char *argv[] = { "rtk", "rewrite", launch->command, NULL };
    char file[4096];
    process_reset_signals();
    setsid();
    take_descriptors(output);
    if (chdir(rules->workspace) < 0 || chdir(launch->directory) < 0)
        _exit(127);
    const char *path = path_of(launch);
    while (*path) {
        size_t length = strcspn(path, ":");
        if (length > 0 && length < sizeof(file) - 8) {
            memcpy(file, path, length);
            memcpy(file + length, "/rtk", 5);
            execve(file, argv, launch->environment);
        }
        path += length + (path[length] == ':');
    }
    _exit(127);
}

/* ---- its answer ---- */

static int left_ms(int64_t deadline_ms)
{
    int64_t left = deadline_ms - clock_boottime_ms();
    return left > 0 ? (int)left : 0;
}

/* Until its end; false where it is too long or does not end in time. */
static bool read_answer(int fd, char *text, size_t size, size_t *ret_length, int64_t deadline_ms)
{
    size_t length = 0;
    for (;;) {
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
        if (length == size || poll(&poll_fd, 1, left_ms(deadline_ms)) <= 0)
            return false;
        ssize_t got = read(fd, text + length, size - length);
        if (got < 0)
            return false;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    *ret_length = length;
    return true;
}

/* Its wait status; -1 where it does not end in time. */
static int wait_for(pid_t pid, int64_t deadline_ms)
{
    sigset_t child;
    int status;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        int left = left_ms(deadline_ms);
        struct timespec time = { left / 1000, left % 1000 * 1000000L };
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        if (left == 0)
            return -1;
        sigtimedwait(&child, NULL, &time);
    }
}

/* It is not reaped, so the number is still its own, also as that of its session's group. */
static void kill_helper(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static size_t trim(const char **text, size_t length)
{
    while (length > 0 && is_blank(**text))
        (*text)++, length--;
    while (length > 0 && is_blank((*text)[length - 1]))
        length--;
    return length;
}

static bool is_another(const char *answer, size_t length, const char *command)
{
    size_t old = trim(&command, strlen(command));
    if (length == 0 || (length == old && memcmp(answer, command, old) == 0))
        return false;
    return memchr(answer, '\0', length) == NULL && utf8_is_valid(answer, length) &&
           utf8_json_size(answer, length) <= REWRITE_ENCODED;
}

/* The whole of it. */
static bool ask(pid_t pid, int fd, const char *command, char *text)
{
    char raw[REWRITE_MAX + 64];
    const char *answer = raw;
    int64_t deadline_ms = clock_boottime_ms() + REWRITE_MS;
    size_t length = 0;
    int status = read_answer(fd, raw, sizeof(raw), &length, deadline_ms) ? wait_for(pid, deadline_ms) : -1;
    if (status < 0) {
        kill_helper(pid);
        return false;
    }
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3))
        return false;
    length = trim(&answer, length);
    if (length > REWRITE_MAX || !is_another(answer, length, command))
        return false;
    memcpy(text, answer, length);
    text[length] = '\0';
    return true;
}

bool rewrite_ask(const struct launch_rules *rules, const struct launch *launch,
                 char text[static REWRITE_MAX + 1])
{
    int ends[2];
    if (launch->command == NULL || pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        become_helper(rules, launch, ends[1]);
    close(ends[1]);
    bool rewritten = pid > 0 && ask(pid, ends[0], launch->command, text);
    close(ends[0]);
    return rewritten;
}
