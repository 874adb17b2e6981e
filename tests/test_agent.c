/* workspace-agent as a real child: what the keeper's end of the channel sees of commands that behave, and of
 * those that do not. */
#include "lib/base/clock.h"
#include "tests/support/agent_peer.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct peer *peer;

static void setup(void)
{
    signal(SIGPIPE, SIG_IGN);
    peer = peer_start(NULL, NULL);
}

static void teardown(void)
{
    peer_free(peer);
}

static struct peer_exec *run_to_end(const char *command, const char *members)
{
    struct peer_exec *exec = peer_run(peer, command, members);
    ck_assert_msg(peer_until(peer, exec->closed, 45000), "no end of: %.200s", command);
    ck_assert_int_eq(exec->exits, exec->failed ? 0 : 1);
    ck_assert_int_eq(exec->after_exit, 0);
    return exec;
}

static void expect(const char *command, const char *members, const char *out, int code)
{
    struct peer_exec *exec = run_to_end(command, members);
    ck_assert_str_eq(peer_text(exec, 1), out);
    ck_assert_msg(WIFEXITED(exec->status) && WEXITSTATUS(exec->status) == code, "status %d of: %s",
                  exec->status, command);
}

/* Processes, but zombies of others, whose working folder is the test's. */
static int count_left(void)
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

static bool none_left(int timeout_ms)
{
    int64_t until = clock_boottime_ms() + timeout_ms;
    while (count_left() && clock_boottime_ms() < until)
        peer_turn(peer, 10);
    return count_left() == 0;
}

/* ---- plain commands ---- */

START_TEST(test_plain)
{
    struct peer_exec *exec = run_to_end("echo hi; echo oops >&2; exit 3", "{}");
    ck_assert(exec->started && exec->exited && exec->ended[1] && exec->ended[2]);
    ck_assert_int_gt(exec->pid, 1);
    ck_assert_str_eq(peer_text(exec, 1), "hi\n");
    ck_assert_str_eq(peer_text(exec, 2), "oops\n");
    ck_assert_int_eq(exec->status, 3 << 8);
    expect("printf x", "{}", "x", 0);
    expect("true", "{}", "", 0);
    expect("echo $0; pwd >/dev/null; echo $PWD | tail -c 5 | wc -c", "{}", "bash\n5\n", 0);
    exec = run_to_end("kill -KILL $$", "{}");
    ck_assert(WIFSIGNALED(exec->status) && WTERMSIG(exec->status) == SIGKILL);
    exec = run_to_end("echo a; echo b >&2; echo c", "{\"merge_stderr\": true}");
    ck_assert_str_eq(peer_text(exec, 1), "a\nb\nc\n");
    ck_assert_int_eq(exec->bytes[2], 0);
}
END_TEST

START_TEST(test_surroundings)
{
    expect("ls /proc/self/fd | tr '\\n' ' '; umask; grep -c . /proc/self/environ >/dev/null; echo $TERM $CI "
           "$PAGER $USER $TMPDIR",
           "{}", "0 1 2 3 0022\ndumb 1 cat workspace /tmp\n", 0);
    expect("grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'; ps -o sid= -o pgid= -o pid= -p $$ | "
           "tr -s ' ' '\\n' | sort -u | grep -c .",
           "{}", "SigBlk:0000000000000000SigIgn:00000000000000001\n", 0);
    expect("grep -h NoNewPrivs /proc/self/status; tr '\\0' '\\n' </proc/$$/environ | grep -c "
           "'^PATH=[^:]*/.local/bin:/usr/local/bin:/usr/bin:/bin$'",
           "{}", "NoNewPrivs:\t1\n1\n", 0);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    _cleanup_free_ char *soft = xasprintf("%ld\n", (long)files.rlim_cur);
    expect("ulimit -Sn", "{}", soft, 0);
    /* Odd names are the command's own business. */
    struct peer_exec *exec =
        run_to_end("env -0 | tr '\\n\\0' '|\\n' | grep -aE '^(odd|1x|A |B=|CI|PAGER)' | sort",
                   "{\"env\": {\"odd-name\": \"1\", \"1x\": \"2\", \"A b\": \"3\", \"B\": \"x\\ny\", \"CI\": "
                   "null, \"PAGER\": \"less\"}}");
    ck_assert_str_eq(peer_text(exec, 1), "1x=2\nA b=3\nB=x|y\nPAGER=less\nodd-name=1\n");
    _cleanup_free_ char *sub = xasprintf("%s/sub", peer->workspace);
    mkdir(sub, 0755);
    expect("basename \"$PWD\"", "{\"workdir\": \"/workspace/sub\"}", "sub\n", 0);
    expect("pwd", "{\"workdir\": \"/\"}", "/\n", 0);
}
END_TEST

static void expect_failure(const char *members, const char *name, const char *text)
{
    struct peer_exec *exec = run_to_end("echo no", members);
    ck_assert(exec->failed && exec->closed && !exec->started && !exec->exited);
    ck_assert_str_eq(json_string_value(json_object_get(exec->failure, "errno")), name);
    const char *message = json_string_value(json_object_get(exec->failure, "message"));
    ck_assert_msg(strstr(message, text), "%s", message);
}

START_TEST(test_failures)
{
    expect_failure("{\"workdir\": \"/workspace/none\"}", "ENOENT", "/workspace/none");
    expect_failure("{\"workdir\": \"/etc/passwd\"}", "ENOTDIR", "/etc/passwd");
    expect_failure("{\"workdir\": 7}", "EINVAL", "workdir");
    expect_failure("{\"env\": [1]}", "EINVAL", "env");
    expect_failure("{\"env\": {\"a\": 1}}", "EINVAL", "env");
    expect_failure("{\"env\": {\"a=b\": \"1\"}}", "EINVAL", "env");
    _cleanup_free_ char *large = xmalloc(200001);
    memset(large, 'x', 200000);
    large[200000] = '\0';
    _cleanup_free_ char *members = xasprintf("{\"env\": {\"LARGE\": \"%s\"}}", large);
    expect_failure(members, "E2BIG", "bash");
    expect("echo fine", "{}", "fine\n", 0);
}
END_TEST

/* ---- long commands ---- */

static void append_many(struct buffer *text, const char *piece, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buffer_append_text(text, piece);
}

START_TEST(test_long_commands)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_append_text(&text, "printf %s '");
    append_many(&text, "€", 100000);
    buffer_append_text(&text, "' | wc -c; exit 7");
    expect(buffer_text(&text), "{}", "300000\n", 7);

    text.length = 0;
    buffer_append_text(&text, "cat <<'END'\n");
    append_many(&text, "a line with 'quotes', \"more\", $dollars and \\backslashes\n", 4000);
    buffer_append_text(&text, "END\necho $0 $LINENO $#; ls /proc/self/fd | tr '\\n' ' '; true <&9 "
                              "2>/dev/null || echo closed; cat; exit 5");
    struct peer_exec *exec = peer_run(peer, buffer_text(&text), "{}");
    peer_input(peer, exec, "from stdin", 10, true);
    ck_assert(peer_until(peer, exec->closed, 15000));
    ck_assert_int_eq(exec->status, 5 << 8);
    const char *tail = peer_text(exec, 1) + 4000 * 56;
    ck_assert_str_eq(tail, "bash 4003 0\n0 1 2 3 closed\nfrom stdin");

    /* What is wrong in it gives what -c gives. */
    text.length = 0;
    append_many(&text, "# filler\n", 20000);
    buffer_append_text(&text, "if");
    exec = run_to_end(buffer_text(&text), "{}");
    struct peer_exec *plain = run_to_end("# short\nif", "{}");
    ck_assert_int_eq(exec->status, plain->status);
    text.length = 0;
    append_many(&text, "# filler\n", 20000);
    buffer_append_text(&text, "no-such-command");
    exec = run_to_end(buffer_text(&text), "{}");
    ck_assert_int_eq(exec->status, 127 << 8);
    ck_assert_str_eq(peer_text(exec, 2), "bash: line 20001: no-such-command: command not found\n");
}
END_TEST

/* ---- input ---- */

START_TEST(test_input)
{
    struct peer_exec *exec = peer_run(peer, "read line; echo got $line; cat | wc -c", "{}");
    peer_input(peer, exec, "one\n", 4, false);
    ck_assert(peer_until(peer, exec->bytes[1] > 0, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "got one\n");
    size_t length = 8u << 20;
    _cleanup_free_ char *data = xmalloc(length);
    memset(data, 'z', length);
    peer_input(peer, exec, data, length, true);
    ck_assert(peer_until(peer, exec->closed, 15000));
    ck_assert_str_eq(peer_text(exec, 1), "got one\n8388608\n");

    expect("cat; echo done", "{\"stdin\": \"null\"}", "done\n", 0);
    /* A command that does not read, and one that closes its input: both take all of it. */
    exec = peer_run(peer, "exec <&-; sleep 0.2; echo end", "{}");
    peer_input(peer, exec, data, 4u << 20, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "end\n");
    exec = peer_run(peer, "sleep 0.3; echo end", "{}");
    peer_input(peer, exec, data, 1u << 20, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "end\n");
}
END_TEST

START_TEST(test_bytes_are_exact)
{
    struct peer_exec *exec = run_to_end("head -c 3000000 /dev/urandom | tee copy", "{}");
    _cleanup_free_ char *path = xasprintf("%s/copy", peer->workspace);
    int fd = open(path, O_RDONLY);
    ck_assert_uint_eq(exec->out[1].length, 3000000);
    const char *copy = mmap(NULL, 3000000, PROT_READ, MAP_PRIVATE, fd, 0);
    ck_assert(memcmp(copy, exec->out[1].data, 3000000) == 0);
    close(fd);
    exec = run_to_end("seq 1 200000; seq 1 100000 >&2", "{}");
    ck_assert_uint_eq(exec->out[1].length, 1288895);
    ck_assert_uint_eq(exec->out[2].length, 588895);
}
END_TEST

/* ---- readers that are slow, output that is late ---- */

START_TEST(test_backpressure)
{
    struct peer_exec *flood = peer_run(peer, "yes", "{}");
    flood->holds = true;
    ck_assert(peer_until(peer, flood->bytes[1] >= FRAME_WINDOW - 4096, 5000));
    for (int i = 0; i < 20; i++)
        expect("echo other", "{}", "other\n", 0);
    ck_assert_uint_le(flood->bytes[1], FRAME_WINDOW);
    ck_assert(!flood->exited);
    flood->holds = false;
    channel_grant(peer->channel, flood->number, flood->bytes[1]);
    ck_assert(peer_until(peer, flood->bytes[1] > 8 * FRAME_WINDOW, 5000));
    peer_signal(peer, flood, SIGTERM, false);
    ck_assert(peer_until(peer, flood->closed, 5000));
    ck_assert_int_eq(flood->status, SIGTERM);
}
END_TEST

START_TEST(test_late_output)
{
    struct peer_exec *exec = peer_run(peer, "(sleep 0.4; echo later) & echo first", "{}");
    ck_assert(peer_until(peer, exec->exited, 2000));
    ck_assert(!exec->closed && !exec->ended[1]);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "first\n");
    ck_assert_str_eq(buffer_text(&exec->late_out[1]), "later\n");

    /* What a child writes without end holds neither the exit nor anybody else; without credit it stops. */
    struct peer_exec *flood = peer_run(peer, "yes & sleep 0.1; exit 4", "{}");
    flood->drops = true;
    ck_assert(peer_until(peer, flood->exited, 5000));
    ck_assert_int_eq(flood->status, 4 << 8);
    flood->holds = true;
    ck_assert(peer_until(peer, flood->late[1], 5000));
    for (int i = 0; i < 50; i++)
        peer_turn(peer, 2);
    uint64_t before = flood->bytes[1];
    expect("echo other", "{}", "other\n", 0);
    for (int i = 0; i < 50; i++)
        peer_turn(peer, 2);
    ck_assert_uint_le(flood->bytes[1], before + FRAME_WINDOW);
    ck_assert_int_eq(flood->after_exit, 0);
    peer_signal(peer, flood, SIGKILL, true);
    flood->holds = false;
    channel_grant(peer->channel, flood->number, FRAME_WINDOW);
    ck_assert(peer_until(peer, flood->closed, 5000));
    ck_assert(none_left(2000));
}
END_TEST

START_TEST(test_detach)
{
    struct peer_exec *exec = peer_run(peer, "yes | head -c 50000000; echo; exit 6", "{}");
    exec->holds = true;
    ck_assert(peer_until(peer, exec->bytes[1] > 500000, 5000));
    channel_send(peer->channel, FRAME_DETACH, 0, exec->number, NULL, 0);
    ck_assert(peer_until(peer, exec->closed, 10000));
    ck_assert_int_eq(exec->status, 6 << 8);
    ck_assert_uint_le(exec->bytes[1], FRAME_WINDOW);
}
END_TEST

/* ---- terminals ---- */

static struct peer_exec *run_terminal(const char *command)
{
    struct peer_exec *exec = peer_run(peer, command, "{\"pty\": true, \"rows\": 44, \"cols\": 132}");
    ck_assert(peer_until(peer, exec->started, 5000));
    return exec;
}

static bool shows(struct peer_exec *exec, const char *text)
{
    return strstr(peer_text(exec, 1), text) != NULL;
}

START_TEST(test_terminal)
{
    expect("tty | cut -c 1-9; stty size; echo $TERM; [ -t 0 ] && [ -t 2 ] && echo all", "{\"pty\": true}",
           "/dev/pts/\r\n24 80\r\nxterm-256color\r\nall\r\n", 0);
    struct peer_exec *exec =
        run_terminal("trap 'stty size' WINCH; stty size; echo ready; while ! read -t 0.1 x; do :; done");
    ck_assert(peer_until(peer, shows(exec, "44 132\r\nready\r\n"), 5000));
    peer_resize(peer, exec, 50, 150);
    ck_assert(peer_until(peer, shows(exec, "50 150\r\n"), 5000));
    peer_input(peer, exec, "\n", 1, false);
    ck_assert(peer_until(peer, exec->closed, 5000));
    exec = run_to_end("echo out; echo err >&2; exit 9", "{\"pty\": true}");
    ck_assert_str_eq(peer_text(exec, 1), "out\r\nerr\r\n");
    ck_assert_int_eq(exec->bytes[2], 0);
    ck_assert_int_eq(exec->status, 9 << 8);
    exec = run_to_end("seq 1 50000", "{\"pty\": true}");
    ck_assert_uint_eq(exec->out[1].length, 288894 + 50000);
}
END_TEST

START_TEST(test_terminal_interrupt)
{
    struct peer_exec *exec = run_terminal("echo ready; sleep 60");
    ck_assert(peer_until(peer, shows(exec, "ready"), 5000));
    peer_input(peer, exec, "\003", 1, false);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_int_eq(exec->status, SIGINT);

    exec = run_terminal("PS1='prompt> ' bash --norc --noprofile -i");
    ck_assert(peer_until(peer, shows(exec, "prompt> "), 5000));
    peer_input(peer, exec, "sleep 60\n", 9, false);
    ck_assert(peer_until(peer, shows(exec, "sleep 60\r\n"), 5000));
    usleep(300000);
    peer_input(peer, exec, "\003", 1, false);
    ck_assert(peer_until(peer, shows(exec, "^C"), 5000));
    peer_input(peer, exec, "echo st$((1))ll\n", 16, false);
    ck_assert(peer_until(peer, shows(exec, "st1ll\r\n"), 5000));
    /* The same by a signal: to the foreground, not to the shell. */
    peer_input(peer, exec, "sleep 61\n", 9, false);
    ck_assert(peer_until(peer, shows(exec, "sleep 61\r\n"), 5000));
    usleep(300000);
    peer_signal(peer, exec, SIGINT, false);
    peer_input(peer, exec, "echo st$((2))ll; exit 3\n", 24, false);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert(shows(exec, "st2ll\r\n"));
    ck_assert_int_eq(exec->status, 3 << 8);
}
END_TEST

START_TEST(test_terminal_eof)
{
    struct peer_exec *exec = run_terminal("echo ready; cat; echo end");
    ck_assert(peer_until(peer, shows(exec, "ready"), 5000));
    peer_input(peer, exec, "whole\n", 6, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "ready\r\nwhole\r\nwhole\r\nend\r\n");
    exec = run_terminal("stty -echo; echo ready; cat; echo end");
    ck_assert(peer_until(peer, shows(exec, "ready"), 5000));
    peer_input(peer, exec, "part", 4, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "ready\r\npartend\r\n");
}
END_TEST

/* ---- signals, trees ---- */

START_TEST(test_signals)
{
    struct peer_exec *exec =
        peer_run(peer, "trap 'echo caught; exit 0' TERM; echo ready; while :; do sleep 0.05; done", "{}");
    ck_assert(peer_until(peer, exec->bytes[1] > 0, 5000));
    peer_signal(peer, exec, SIGTERM, false);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_int_eq(exec->status, 0);
    ck_assert_str_eq(peer_text(exec, 1), "ready\ncaught\n");
    exec = peer_run(peer, "sleep 60 | sleep 61", "{}");
    peer_signal(peer, exec, SIGINT, false); /* may come before it has started */
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert(WIFSIGNALED(exec->status));
    ck_assert(none_left(1000));
    exec = peer_run(peer, "sleep 0.3; echo on", "{}");
    ck_assert(peer_until(peer, exec->started, 5000));
    peer_signal(peer, exec, SIGSTOP, false);
    int64_t begin = clock_boottime_ms();
    while (clock_boottime_ms() < begin + 600)
        peer_turn(peer, 20);
    ck_assert(!exec->exited);
    peer_signal(peer, exec, SIGCONT, false);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "on\n");
}
END_TEST

static const char nasty[] =
    "trap '' TERM INT HUP\n"
    "setsid bash -c 'trap \"\" TERM; while :; do sleep 0.01; (sleep 100 &) ; done' &\n"
    "(setsid nohup bash -c 'trap \"\" TERM; sleep 1000' >/dev/null 2>&1 &)\n"
    "for i in 1 2 3; do (bash -c 'while :; do (setsid sleep 100 &); sleep 0.02; done' &); done\n"
    "echo ready\n";

START_TEST(test_kill_tree)
{
    struct peer_exec *other = peer_run(peer, "cd /; read x; echo alive", "{}");
    _cleanup_free_ char *command = xasprintf("%swhile :; do sleep 1; done", nasty);
    struct peer_exec *exec = peer_run(peer, command, "{}");
    ck_assert(peer_until(peer, exec->bytes[1] > 0, 5000));
    peer_turn(peer, 300);
    usleep(300000);
    ck_assert_int_gt(count_left(), 10);
    peer_signal(peer, exec, SIGTERM, true);
    ck_assert(!peer_until(peer, exec->exited, 300));
    int64_t begin = clock_boottime_ms();
    peer_signal(peer, exec, SIGKILL, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_int_le(clock_boottime_ms() - begin, 2000);
    ck_assert_int_eq(exec->status, SIGKILL);
    ck_assert_int_eq(count_left(), 0);
    peer_input(peer, other, "\n", 1, true);
    ck_assert(peer_until(peer, other->closed, 5000));
    ck_assert_str_eq(peer_text(other, 1), "alive\n");
}
END_TEST

START_TEST(test_kill_tree_after_exit)
{
    struct peer_exec *exec = peer_run(peer, nasty, "{}");
    ck_assert(peer_until(peer, exec->exited, 5000));
    usleep(300000);
    peer_turn(peer, 0);
    ck_assert(!exec->closed);
    ck_assert_int_gt(count_left(), 5);
    peer_signal(peer, exec, SIGKILL, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_int_eq(count_left(), 0);
    ck_assert_int_eq(exec->exits, 1);
}
END_TEST

START_TEST(test_orphans)
{
    expect("for i in $(seq 1 5000); do (true &) ; done; sleep 0.2; ps -eo stat,ppid | awk -v p=$PPID '$2 == "
           "p && /^Z/' | wc -l",
           "{}", "0\n", 0);
}
END_TEST

/* ---- who harms the supervisor ---- */

START_TEST(test_supervisor_killed)
{
    struct peer_exec *exec = peer_run(peer, "kill -KILL $PPID; sleep 0.2; echo on; exit 8", "{}");
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "on\n");
    ck_assert_int_eq(exec->status, 8 << 8);
    exec = peer_run(peer, "setsid sleep 100 & kill -STOP $PPID; echo on; exit 8", "{}");
    ck_assert(peer_until(peer, exec->exited, 5000));
    ck_assert_int_eq(exec->status, 8 << 8);
    peer_signal(peer, exec, SIGKILL, true);
    ck_assert(peer_until(peer, exec->closed, 5000));

    struct peer_exec *other = peer_run(peer, "read x; echo alive", "{}");
    exec =
        peer_run(peer, "setsid sleep 100 & (setsid sleep 101 &); kill -KILL $PPID; echo on; sleep 100", "{}");
    ck_assert(peer_until(peer, exec->bytes[1] > 0, 5000));
    usleep(100000);
    peer_signal(peer, exec, SIGKILL, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_int_eq(exec->status, SIGKILL);
    peer_input(peer, other, "\n", 1, true);
    ck_assert(peer_until(peer, other->closed, 5000));
    ck_assert_str_eq(peer_text(other, 1), "alive\n");
    ck_assert(none_left(1000));
}
END_TEST

START_TEST(test_end_of_channel)
{
    peer_run(peer, nasty, "{}");
    struct peer_exec *exec = peer_run(peer, "(setsid sleep 1000 &); echo ready; sleep 1000", "{}");
    ck_assert(peer_until(peer, exec->bytes[1] > 0, 5000));
    usleep(200000);
    pid_t agent = peer->agent;
    shutdown(peer->raw_fd, SHUT_RDWR);
    int64_t until = clock_boottime_ms() + 5000;
    int status = -1;
    while (waitpid(agent, &status, WNOHANG) == 0 && clock_boottime_ms() < until)
        usleep(5000);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(count_left(), 0);
}
END_TEST

/* ---- hints ---- */

START_TEST(test_waiting)
{
    struct peer_exec *exec = peer_run(peer, "read x; echo $x; sleep 1; cat", "{}");
    ck_assert(peer_until(peer, exec->waiting == 1, 1500));
    peer_input(peer, exec, "a\n", 2, false);
    ck_assert(peer_until(peer, exec->waiting == 0, 1500));
    ck_assert(peer_until(peer, exec->waiting == 1, 2500));
    peer_input(peer, exec, NULL, 0, true);
    ck_assert(peer_until(peer, exec->closed, 3000));
    exec = peer_run(peer, "sleep 0.8; echo x | cat", "{}");
    ck_assert(peer_until(peer, exec->closed, 3000));
    ck_assert_int_eq(exec->waiting_changes, 0);
    exec = peer_run(
        peer,
        "exec python3 -c 'import select, sys; select.poll; p = select.poll(); p.register(0, 1); p.poll()'",
        "{\"pty\": true}");
    bool has_python = access("/usr/bin/python3", X_OK) == 0;
    ck_assert(!has_python || peer_until(peer, exec->waiting == 1, 4000));
    peer_signal(peer, exec, SIGKILL, true);
    exec = peer_run(peer, "PS1='> ' bash --norc --noprofile -i", "{\"pty\": true}");
    ck_assert(peer_until(peer, exec->waiting == 1, 3000));
    peer_input(peer, exec, "sleep 1\n", 8, false);
    ck_assert(peer_until(peer, exec->waiting == 0, 1500));
    ck_assert(peer_until(peer, exec->waiting == 1, 2500));
    peer_signal(peer, exec, SIGHUP, false);
    ck_assert(peer_until(peer, exec->closed, 3000));
}
END_TEST

/* ---- what a stranger may send ---- */

static void expect_reply(const char *request, const char *member)
{
    json_auto_t *message = json_loads(request, JSON_DECODE_ANY, NULL);
    struct peer_exec *exec = peer_request(peer, message);
    ck_assert(peer_until(peer, exec->replied, 5000));
    ck_assert_msg(json_object_get(exec->reply, member), "%s", request);
}

START_TEST(test_requests)
{
    expect_reply("{\"op\": \"ping\"}", "ret");
    expect_reply("{\"op\": \"nothing\"}", "error");
    expect_reply("{\"op\": 7}", "error");
    expect_reply("[]", "error");
    expect_reply("{}", "error");
    channel_send(peer->channel, FRAME_REQUEST, 0, 900, "{\"op\": ", 7);
    channel_send(peer->channel, FRAME_REQUEST, 0, 901, "\377\376", 2);
    channel_send(peer->channel, FRAME_SIGNAL, 0, 902, "\011\001", 2);
    channel_send(peer->channel, FRAME_RESIZE, 0, 902, "x", 1);
    channel_send(peer->channel, FRAME_EXIT, 0, 902, "x", 1);
    channel_send(peer->channel, FRAME_DETACH, 0, 902, NULL, 0);
    channel_send(peer->channel, FRAME_END, 0, 902, NULL, 0);
    channel_send_data(peer->channel, 0, 902, "hello", 5);
    expect("echo fine", "{}", "fine\n", 0);
    struct peer_exec *exec =
        peer_run(peer, "cat; echo end", "{\"pty\": 7, \"rows\": -1, \"cols\": 1e9, \"stdin\": {}}");
    channel_send(peer->channel, FRAME_SIGNAL, 0, exec->number, "\377\001", 2);
    channel_send(peer->channel, FRAME_SIGNAL, 0, exec->number, "\000\000", 2);
    channel_send(peer->channel, FRAME_SIGNAL, 0, exec->number, "\017", 1);
    channel_send(peer->channel, FRAME_RESIZE, 0, exec->number, "\000\000\000\000", 4);
    channel_send_data(peer->channel, 2, exec->number, "other channel", 13);
    channel_send(peer->channel, FRAME_END, 2, exec->number, NULL, 0);
    channel_send_json(peer->channel, FRAME_REQUEST, exec->number, exec->failure);
    peer_input(peer, exec, "in\n", 3, true);
    ck_assert(peer_until(peer, exec->closed, 5000));
    ck_assert_str_eq(peer_text(exec, 1), "in\nend\n");
}
END_TEST

static void send_random(const struct peer_exec *exec)
{
    static const enum frame_type types[] = { FRAME_END,    FRAME_CLOSE,  FRAME_SUBSCRIBE, FRAME_NOTIFY,
                                             FRAME_SIGNAL, FRAME_RESIZE, FRAME_DETACH,    FRAME_STARTED,
                                             FRAME_FAILED, FRAME_EXIT,   FRAME_WAITING,   FRAME_REPLY };
    char payload[8];
    size_t length = (size_t)random() % sizeof payload;
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (char)(random() % 4 ? random() % 32 : random());
    uint32_t number = random() % 4 ? exec->number : (uint32_t)random();
    uint8_t flags = (uint8_t)(random() % 4);
    if (random() % 3 == 0)
        channel_send(peer->channel, FRAME_SIGNAL, 0, number, payload, 2);
    else if (random() % 3 == 0 && number == exec->number &&
             channel_data_room(peer->channel, number) >= length)
        channel_send_data(peer->channel, flags, number, payload, length);
    else
        channel_send(peer->channel, types[(size_t)random() % N_ELEMENTS(types)], flags, number, payload,
                     length);
}

START_TEST(test_random_frames)
{
    static const char *const members[] = { "{}", "{\"pty\": true}",
                                           "{\"stdin\": \"null\", \"merge_stderr\": true}" };
    srandom(7);
    for (int round = 0; round < 60; round++) {
        struct peer_exec *exec =
            peer_run(peer, "(sleep 0.02; echo late) & cat; seq 1 500", members[round % 3]);
        if (round % 2)
            ck_assert(peer_until(peer, exec->started, 5000));
        for (int i = 0; i < 40; i++)
            send_random(exec);
        peer_turn(peer, 0);
        peer_signal(peer, exec, SIGKILL, true);
        ck_assert_msg(peer_until(peer, exec->closed, 5000), "round %d", round);
    }
    expect("echo fine", "{}", "fine\n", 0);
}
END_TEST

START_TEST(test_garbage_ends_it)
{
    struct peer_exec *exec = peer_run(peer, "(setsid sleep 1000 &) ; sleep 1000", "{}");
    ck_assert(peer_until(peer, exec->started, 5000));
    static const char garbage[64] = { '\377' };
    ck_assert_int_eq(write(peer->raw_fd, garbage, sizeof garbage), sizeof garbage);
    ck_assert(peer_until(peer, peer->gone, 5000) || peer->gone);
    ck_assert(none_left(5000));
}
END_TEST

START_TEST(test_many_at_once)
{
    enum { COUNT = 60 };
    struct peer_exec *execs[COUNT];
    for (int i = 0; i < COUNT; i++)
        execs[i] = peer_run(peer, "echo begin; read x; echo $x; seq 1 2000 | tail -1", "{}");
    for (int i = 0; i < COUNT; i++)
        ck_assert(peer_until(peer, execs[i]->bytes[1] > 0, 20000));
    for (int i = 0; i < COUNT; i++)
        peer_input(peer, execs[i], "x\n", 2, true);
    for (int i = 0; i < COUNT; i++) {
        ck_assert(peer_until(peer, execs[i]->closed, 20000));
        ck_assert_str_eq(peer_text(execs[i], 1), "begin\nx\n2000\n");
    }
}
END_TEST

/* ---- filters, limits, sandboxes ---- */

/* mkdir and mkdirat fail with EPERM. */
static int make_filter(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    int fd = memfd_create("filter", 0);
    ck_assert_int_eq(write(fd, program, sizeof program), sizeof program);
    return fd;
}

START_TEST(test_filter)
{
    peer_free(peer);
    int fd = make_filter();
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    const char *const extra[] = { "--seccomp", number, NULL };
    peer = peer_start(NULL, extra);
    close(fd);
    expect("mkdir x 2>/dev/null || echo refused; grep -h ^Seccomp: /proc/self/status /proc/$PPID/status",
           "{}", "refused\nSeccomp:\t2\nSeccomp:\t2\n", 0);
    expect("tty | cut -c 1-9; mkdir x 2>/dev/null || echo refused; ls /proc/self/fd | wc -l",
           "{\"pty\": true}", "/dev/pts/\r\nrefused\r\n4\r\n", 0);
}
END_TEST

START_TEST(test_bad_options)
{
    static const char *const cases[][3] = {
        { "--seccomp", "999", NULL }, { "--seccomp", "x", NULL },  { "--processes", "-1", NULL },
        { "--processes", "", NULL },  { "--nothing", NULL, NULL }, { "more", NULL, NULL },
    };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        struct peer *other = peer_start(NULL, cases[i]);
        struct peer_exec *exec = peer_run(other, "echo no", "{}");
        ck_assert(!peer_until(other, exec->started, 3000));
        ck_assert(other->gone);
        peer_free(other);
    }
}
END_TEST

static struct peer *start_in_sandbox(const char *const *extra)
{
    const char *const wrapper[] = {
        "setpriv",       "--reuid",    "20123",      "--regid", "20123",  "--clear-groups", "bwrap",
        "--unshare-all", "--as-pid-1", "--ro-bind",  "/",       "/",      "--proc",         "/proc",
        "--dev",         "/dev",       "--tmpfs",    "/tmp",    "--bind", peer->workspace,  "/mnt",
        "--chdir",       "/",          "--cap-drop", "ALL",     NULL
    };
    const char *all[20] = { "--workspace", "/mnt", "--home", "/mnt" };
    for (size_t i = 0; extra && extra[i]; i++)
        all[4 + i] = extra[i];
    return peer_start(geteuid() == 0 ? wrapper : wrapper + 6, all);
}

static bool can_sandbox(void)
{
    return access("/usr/bin/bwrap", X_OK) == 0 &&
           system("bwrap --unshare-all --ro-bind / / --proc /proc true 2>/dev/null") == 0;
}

START_TEST(test_sandboxed)
{
    if (!can_sandbox())
        return;
    struct peer *outer = peer;
    peer = start_in_sandbox(NULL);
    expect("echo hi; pwd; ps -o comm= -p 1", "{}", "hi\n/mnt\nworkspace-agent\n", 0);
    expect("cat /proc/1/environ /proc/1/maps 2>&1 | grep -c 'Permission denied'; ls /proc/$PPID/fd "
           ">/dev/null 2>&1 || echo closed",
           "{}", "2\nclosed\n", 0);
    expect("tty; stty size", "{\"pty\": true}", "/dev/pts/0\r\n24 80\r\n", 0);
    expect("for s in TERM INT HUP QUIT USR1 USR2 ALRM STOP TSTP PIPE RTMIN CHLD; do kill -$s 1 $PPID; "
           "done; kill -KILL 1; kill -TERM -1; kill -KILL -1; sleep 0.1; echo on",
           "{}", "on\n", 0);
    expect("for i in $(seq 1 300); do (setsid true &) ; done; kill -KILL $PPID; sleep 0.3; ps -eo stat | "
           "grep -c ^Z",
           "{}", "0\n", 1);
    struct peer_exec *exec = peer_run(peer, "read x", "{}");
    ck_assert(peer_until(peer, exec->waiting == 1, 3000));
    peer_free(peer);
    peer = outer;
}
END_TEST

START_TEST(test_fork_bomb)
{
    if (!can_sandbox())
        return;
    struct peer *outer = peer;
    const char *const extra[] = { "--processes", "60", NULL };
    peer = start_in_sandbox(extra);
    struct peer_exec *bomb = peer_run(peer, "exec 2>/dev/null; while :; do sleep 100 & done", "{}");
    bomb->drops = true;
    ck_assert(peer_until(peer, bomb->started, 5000));
    usleep(700000);
    /* A shell that got in may itself wait long for room to fork: what counts is that each request is
     * answered. */
    int refused = 0;
    struct peer_exec *execs[20];
    for (size_t i = 0; i < N_ELEMENTS(execs); i++) {
        execs[i] = peer_run(peer, "echo in", "{}");
        ck_assert(peer_until(peer, execs[i]->started || execs[i]->closed, 10000));
        refused += execs[i]->failed &&
                   !strcmp(json_string_value(json_object_get(execs[i]->failure, "errno")), "EAGAIN");
    }
    ck_assert_int_gt(refused, 0);
    peer_signal(peer, bomb, SIGKILL, true);
    ck_assert(peer_until(peer, bomb->closed, 10000));
    for (size_t i = 0; i < N_ELEMENTS(execs); i++)
        ck_assert(peer_until(peer, execs[i]->closed, 40000));
    expect("ulimit -u; ps -e --no-headers | wc -l", "{}", "60\n5\n", 0);
    peer_free(peer);
    peer = outer;
}
END_TEST

static Suite *agent_suite(void)
{
    Suite *suite = suite_create("agent");
    TCase *tests = tcase_create("agent");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_plain);
    tcase_add_test(tests, test_surroundings);
    tcase_add_test(tests, test_failures);
    tcase_add_test(tests, test_long_commands);
    tcase_add_test(tests, test_input);
    tcase_add_test(tests, test_bytes_are_exact);
    tcase_add_test(tests, test_backpressure);
    tcase_add_test(tests, test_late_output);
    tcase_add_test(tests, test_detach);
    tcase_add_test(tests, test_terminal);
    tcase_add_test(tests, test_terminal_interrupt);
    tcase_add_test(tests, test_terminal_eof);
    tcase_add_test(tests, test_signals);
    tcase_add_test(tests, test_kill_tree);
    tcase_add_test(tests, test_kill_tree_after_exit);
    tcase_add_test(tests, test_orphans);
    tcase_add_test(tests, test_supervisor_killed);
    tcase_add_test(tests, test_end_of_channel);
    tcase_add_test(tests, test_waiting);
    tcase_add_test(tests, test_requests);
    tcase_add_test(tests, test_random_frames);
    tcase_add_test(tests, test_garbage_ends_it);
    tcase_add_test(tests, test_many_at_once);
    tcase_add_test(tests, test_filter);
    tcase_add_test(tests, test_bad_options);
    tcase_add_test(tests, test_sandboxed);
    tcase_add_test(tests, test_fork_bomb);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(agent_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
