/* Which warden runs after a command or beside a daemon, whom it gives way to, and where its messages go. */
#include "lib/base/clock.h"
#include "tests/support/operator_case.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* "uid pid" of the warden that answers, in operator_output. */
static bool find_warden(const char *wanted)
{
    for (int64_t end = clock_boottime_ms() + 8000; clock_boottime_ms() < end; usleep(50000)) {
        operator_types(
            "$W doctor --state $S | sed -n 's/^[a-z]* *warden *pid \\([0-9]*\\)[^:]* uid \\([0-9]*\\).*/uid "
            "\\2 pid \\1/p'");
        if (strstr(operator_output, wanted) != NULL)
            return true;
    }
    return false;
}

static pid_t warden_pid(void)
{
    int pid = 0;
    ck_assert(find_warden("uid "));
    sscanf(operator_output, "uid %*u pid %d", &pid);
    return pid;
}

static pid_t begin(const char *line, const char *log)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    return pid;
}

static int end(pid_t pid)
{
    int status = 0;
    kill(pid, SIGTERM);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void wait_until_said(const char *log, const char *text)
{
    for (int64_t end = clock_boottime_ms() + 5000; clock_boottime_ms() < end; usleep(20000)) {
        operator_types("cat %s", log);
        if (strstr(operator_output, text) != NULL)
            return;
    }
    operator_reads(text);
}

enum { LOG_SIZE = 128 };

/* A warden of a plain user, that writes to log. */
static pid_t begin_weak(char log[static LOG_SIZE])
{
    snprintf(log, LOG_SIZE, "%s/log", scratch);
    ck_assert_int_eq(operator_types("$W token add x --state $S"), 0);
    return begin("exec " AS_USER "$W warden --state $S", log);
}

static void wait_for_another(pid_t first)
{
    for (int64_t until = clock_boottime_ms() + 5000; kill(first, 0) == 0 && clock_boottime_ms() < until;)
        usleep(20000);
    ck_assert_int_ne(warden_pid(), first);
}

START_TEST(a_weaker_warden_gives_way_to_roots)
{
    char log[LOG_SIZE];
    int status;
    if (!operator_is_root())
        return;
    pid_t weak = begin_weak(log);
    ck_assert(find_warden("uid 33 "));
    ck_assert_int_eq(operator_types("$W doctor --state $S | grep -A1 ' warden '"), 0);
    operator_reads("fail  warden");
    operator_reads("and not as root");
    pid_t serve = begin("exec $W serve --state $S", log);
    ck_assert(find_warden("uid 0 "));
    ck_assert_int_eq(waitpid(weak, &status, 0), weak);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* the weaker one that comes again finds its place taken, says so and ends */
    ck_assert_int_eq(operator_types(AS_USER "timeout 10 $W warden --state $S"), 0);
    operator_reads("another warden (pid ");
    operator_reads("uid 0) watches over");
    /* no timeout(1): with the signal it sends SIGCONT, which a leak checker that is just stopping its process
     * misses */
    ck_assert_int_eq(operator_types("$W warden --state $S & p=$!; sleep 1; kill $p; wait $p"), 0);
    operator_reads("gives way"); /* serve's is a spare one */
    end(serve);
}
END_TEST

/* A plain user's installation is its owner's: what root asks for in passing neither ends the warden that the
 * owner started nor leaves processes that the owner could not end. */
START_TEST(roots_call_leaves_a_living_warden)
{
    char log[LOG_SIZE], said[64];
    int status;
    if (!operator_is_root())
        return;
    pid_t weak = begin_weak(log);
    snprintf(said, sizeof said, "uid 33 pid %d", (int)weak);
    ck_assert(find_warden(said));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(operator_types("timeout 20 $W call createRemoteWorkspace '{}' --state $S"), 0);
        operator_reads("\"own_uid\":false");
        ck_assert_ptr_null(strstr(operator_output, "started a warden"));
    }
    ck_assert(find_warden(said));
    ck_assert_int_eq(waitpid(weak, &status, WNOHANG), 0);
    /* nor does one that was started for it when none seemed to live */
    ck_assert_int_eq(operator_types("timeout 10 $W warden --state $S --spare"), 0);
    operator_reads("uid 33) watches over");
    ck_assert(find_warden(said));
    ck_assert_int_eq(end(weak), 0);
}
END_TEST

START_TEST(serve_starts_a_warden_and_a_fresh_one_with_new_settings)
{
    char log[128];
    snprintf(log, sizeof log, "%s/log", scratch);
    pid_t serve = begin("exec $W serve --state $S", log);
    pid_t first = warden_pid();
    wait_until_said(log, "serving with 2 workers on ");
    operator_reads("/fcgi.sock");
    ck_assert_int_eq(operator_types("ps -o user= -p %d", (int)first), 0);
    operator_reads(getpwuid(geteuid())->pw_name);
    kill(serve, SIGHUP);
    wait_for_another(first);
    end(serve);
    first = warden_pid(); /* it outlives its serve, as keepers do; the next one begins anew */
    serve = begin("exec $W serve --state $S --no-warden", log);
    ck_assert_int_eq(warden_pid(), first);
    end(serve);
    serve = begin("exec $W serve --state $S", log);
    wait_for_another(first);
    end(serve);
}
END_TEST

START_TEST(call_says_that_it_started_a_warden)
{
    char said[64];
    ck_assert_int_eq(operator_types("$W token add x --state $S"), 0);
    ck_assert_int_eq(operator_types("$W call listRemoteWorkspaces --state $S"), 0);
    ck_assert_str_eq(operator_output, "[]\n");
    /* what reads both outputs to their end does not wait for the warden's */
    ck_assert_int_eq(operator_types("timeout 20 $W call createRemoteWorkspace '{}' --state $S"), 0);
    operator_reads("call: started a warden, pid ");
    operator_reads("/run/warden.log");
    pid_t spare = warden_pid();
    snprintf(said, sizeof said, "kill %d", (int)spare);
    ck_assert_int_eq(operator_types("grep -c 'watching over' $S/run/warden.log"), 0);
    ck_assert_int_eq(operator_types("timeout 20 $W call listRemoteWorkspaces --state $S"), 0);
    ck_assert_ptr_null(strstr(operator_output, "started a warden"));
    /* one that is started on purpose takes its place, and keepers go on */
    ck_assert_int_eq(operator_types("timeout 3 $W warden --state $S; :"), 0);
    operator_reads("gives way");
    ck_assert_int_eq(
        operator_types("timeout 20 $W call listRemoteWorkspaces --state $S | grep -c '\"running\":true'"), 0);
    ck_assert_int_eq(kill(spare, 0), -1);
}
END_TEST

START_TEST(a_warden_waits_for_the_end_of_another)
{
    char log[128], other_log[128];
    snprintf(log, sizeof log, "%s/log", scratch);
    snprintf(other_log, sizeof other_log, "%s/other", scratch);
    pid_t first = begin("exec $W warden --state $S", log);
    ck_assert_int_eq(warden_pid(), first);
    pid_t second = begin("exec $W warden --state $S --wait", other_log);
    wait_until_said(other_log, "waiting for its end");
    ck_assert_int_eq(waitpid(second, NULL, WNOHANG), 0);
    end(first);
    for (int64_t until = clock_boottime_ms() + 5000; warden_pid() != second && clock_boottime_ms() < until;)
        usleep(20000);
    ck_assert_int_eq(warden_pid(), second);
    end(second);
}
END_TEST

/* ---- what lives on ---- */

/* Who reads the output of what is ended is not kept by what lives on: warden and keepers of serve, keepers
 * of a warden whose log goes to a file. */
START_TEST(who_lives_on_holds_no_output)
{
    static const struct {
        const char *daemon, *log;
    } cases[] = {
        { "serve", "$S/run/warden.log" },
        { "serve --set WORKSPACE_LOG_FILE=$S.log", "$S.log" },
        { "warden --set WORKSPACE_LOG_FILE=$S.log", "$S.log" },
    };
    ck_assert_int_eq(operator_types("$W token add x --state $S"), 0);
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        _cleanup_free_ char *work =
            xasprintf("$W %s --state $S & until grep -qs watching.over %s; do sleep 0.05; done; "
                      "$W call createRemoteWorkspace --state $S; kill $!; wait",
                      cases[i].daemon, cases[i].log);
        ck_assert_msg(operator_types("timeout 20 sh -c '(%s) 2>&1 | cat'", work) == 0, "%s: %s",
                      cases[i].daemon, operator_output);
        operator_reads("\"running\":true");
        if (i == 0)
            operator_reads("a warden was started; its messages: ");
        ck_assert_int_eq(operator_types("pgrep -c -f \"keep ws-.*--state $S\""), 0);
        ck_assert_msg(operator_types("grep -q 'INFO keep' %s", cases[i].log) == 0, "%s does not log to %s",
                      cases[i].daemon, cases[i].log);
        ck_assert_int_eq(operator_types("rm -f $S.log"), 0);
    }
}
END_TEST

/* What serve and its warden wrote to a socket, in operator_output. journal: it is the journal's. */
static void serve_on_a_socket(bool journal)
{
    char stream[64];
    struct stat st;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_eq(fstat(ends[1], &st), 0);
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + !journal);
    setenv("JOURNAL_STREAM", stream, 1);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", "exec timeout 2 $W serve --state $S", NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
    ssize_t got = recv(ends[0], operator_output, sizeof operator_output - 1, MSG_DONTWAIT);
    operator_output[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    unsetenv("JOURNAL_STREAM");
}

START_TEST(the_journal_gets_the_wardens_messages)
{
    serve_on_a_socket(false);
    operator_reads("a warden was started; its messages: ");
    ck_assert_ptr_null(strstr(operator_output, "watching over"));
    serve_on_a_socket(true);
    operator_reads("watching over");
    ck_assert_ptr_null(strstr(operator_output, "its messages: "));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_weaker_warden_gives_way_to_roots,
        roots_call_leaves_a_living_warden,
        serve_starts_a_warden_and_a_fresh_one_with_new_settings,
        call_says_that_it_started_a_warden,
        a_warden_waits_for_the_end_of_another,
        who_lives_on_holds_no_output,
        the_journal_gets_the_wardens_messages,
    };
    return unit_run_tests("operator_wardens", tests, N_ELEMENTS(tests), operator_set_up, operator_tear_down,
                          60);
}
