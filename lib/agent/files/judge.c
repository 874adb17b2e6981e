/* Owns the life of the process that judges: its bounds, its verdict, its end. It must not know: names of
 * files, or grammars. */
#include "lib/agent/files/judge.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "lib/base/process.h"
#include "lib/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MEMORY_MORE (512ull << 20) /* than this process has now; 5 MB of JSON made to hurt take 220 MB */

/* A verdict is written whole or not at all. */
_Static_assert(sizeof(struct syntax_verdict) <= PIPE_BUF, "it takes one write");

static void skip(struct syntax_verdict *ret, const char *why)
{
    *ret = (struct syntax_verdict){ .outcome = SYNTAX_SKIPPED };
    snprintf(ret->message, sizeof ret->message, "%s", why);
}

/* ---- inside ---- */

/* proc_pid_statm(5); 0 = not known. */
static uint64_t data_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*s %*s %*s %*s %*s %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void set_limit(int which, rlim_t most)
{
    struct rlimit limit = { most, most };
    setrlimit(which, &limit);
}

static _Noreturn void judge(pid_t parent, int out, const char *path, struct bytes content, int seconds)
{
    struct syntax_verdict verdict = { .outcome = SYNTAX_SKIPPED };
    uint64_t data = data_bytes();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    process_reset_signals();
    if (getppid() != parent)
        _exit(1);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_CPU, (rlim_t)seconds + 1);
    if (data > 0)
        set_limit(RLIMIT_DATA, data + MEMORY_MORE);
    syntax_check(path, content, &verdict);
    _exit(write(out, &verdict, sizeof verdict) == (ssize_t)sizeof verdict ? 0 : 1);
}

/* ---- outside ---- */

/* false: it ended without one, or has not ended yet. */
static bool read_verdict(int from, int64_t until, bool *ret_late, struct syntax_verdict *ret)
{
    for (int64_t left; (left = until - clock_boottime_ms()) > 0;) {
        struct pollfd wait = { from, POLLIN, 0 };
        if (poll(&wait, 1, (int)left) <= 0)
            continue;
        ssize_t got = read(from, ret, sizeof *ret);
        if (got < 0 && errno == EINTR)
            continue;
        *ret_late = false;
        return got == (ssize_t)sizeof *ret;
    }
    *ret_late = true;
    return false;
}

/* Whatever became of what wrote it. */
static bool is_sound(const struct syntax_verdict *verdict)
{
    size_t length = strnlen(verdict->message, sizeof verdict->message);
    return verdict->outcome <= SYNTAX_ASK && length < sizeof verdict->message &&
           utf8_is_valid(verdict->message, length);
}

static void end(pid_t pid)
{
    _cleanup_close_ int pidfd = process_pidfd_open(pid);
    int status;
    process_pidfd_signal(pidfd, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
}

void judge_apart(const char *path, struct bytes content, int seconds, struct syntax_verdict *ret)
{
    int ends[2] = { -1, -1 };
    int64_t until = clock_boottime_ms() + (int64_t)seconds * 1000;
    bool is_late = false;
    pid_t self = getpid(), pid = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
    if (pid == 0)
        judge(self, ends[1], path, content, seconds);
    _cleanup_close_ int from = ends[0];
    memory_close_fd(&ends[1]);
    if (pid < 0) {
        skip(ret, "no process could be started to read it");
        return;
    }
    bool came = read_verdict(from, until, &is_late, ret);
    end(pid);
    if (is_late) {
        skip(ret, "");
        snprintf(ret->message, sizeof ret->message, "it could not be read within %d seconds", seconds);
    } else if (!came || !is_sound(ret))
        skip(ret, "reading it takes too much memory, or what reads it crashed");
}
