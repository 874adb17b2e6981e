/* Owns the agent that a test of a suite talks to, and what most of those tests ask of it. */
#include "tests/support/agent_case.h"

#include "lib/base/clock.h"

#include <check.h>
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

struct peer *peer;

void agent_setup(void)
{
    signal(SIGPIPE, SIG_IGN);
    peer = peer_start(NULL, NULL);
}

void agent_teardown(void)
{
    peer_free(peer);
}

struct peer_exec *run_to_end(const char *command, const char *members)
{
    struct peer_exec *exec = peer_run(peer, command, members);
    ck_assert_msg(peer_until(peer, exec->closed, 45000), "no end of: %.200s", command);
    ck_assert_int_eq(exec->exits, exec->failed ? 0 : 1);
    ck_assert_int_eq(exec->after_exit, 0);
    return exec;
}

void expect_output(const char *command, const char *members, const char *out, int code)
{
    struct peer_exec *exec = run_to_end(command, members);
    ck_assert_str_eq(peer_text(exec, 1), out);
    ck_assert_msg(WIFEXITED(exec->status) && WEXITSTATUS(exec->status) == code, "status %d of: %s",
                  exec->status, command);
}

/* Processes, but zombies of others, whose working folder is the test's. */
int count_left(void)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(proc));) {
        char path[64], target[PATH_MAX];
        snprintf(path, sizeof path, "/proc/%.20s/cwd", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        count += length > 0 && !strcmp(target, peer->workspace);
    }
    closedir(proc);
    return count;
}

bool none_left(int timeout_ms)
{
    int64_t until = clock_boottime_ms() + timeout_ms;
    while (count_left() && clock_boottime_ms() < until)
        peer_turn(peer, 10);
    return count_left() == 0;
}
