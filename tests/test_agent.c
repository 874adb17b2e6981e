/* workspace-agent as a real child: what the keeper's end of the channel sees of commands that behave. */
#include "tests/support/agent_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- plain commands ---- */

START_TEST(test_plain)
{
    struct peer_exec *exec = run_to_end("echo hi; echo oops >&2; exit 3", "{}");
    ck_assert(exec->started && exec->exited && exec->ended[1] && exec->ended[2]);
    ck_assert_int_gt(exec->pid, 1);
    ck_assert_str_eq(peer_text(exec, 1), "hi\n");
    ck_assert_str_eq(peer_text(exec, 2), "oops\n");
    ck_assert_int_eq(exec->status, 3 << 8);
    expect_output("printf x", "{}", "x", 0);
    expect_output("true", "{}", "", 0);
    expect_output("echo $0; pwd >/dev/null; echo $PWD | tail -c 5 | wc -c", "{}", "bash\n5\n", 0);
    exec = run_to_end("kill -KILL $$", "{}");
    ck_assert(WIFSIGNALED(exec->status) && WTERMSIG(exec->status) == SIGKILL);
    exec = run_to_end("echo a; echo b >&2; echo c", "{\"merge_stderr\": true}");
    ck_assert_str_eq(peer_text(exec, 1), "a\nb\nc\n");
    ck_assert_int_eq(exec->bytes[2], 0);
}
END_TEST

START_TEST(test_surroundings)
{
    expect_output(
        "ls /proc/self/fd | tr '\\n' ' '; umask; grep -c . /proc/self/environ >/dev/null; echo $TERM $CI "
        "$PAGER $USER $TMPDIR",
        "{}", "0 1 2 3 0022\ndumb 1 cat workspace /tmp\n", 0);
    expect_output(
        "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'; ps -o sid= -o pgid= -o pid= -p $$ | "
        "tr -s ' ' '\\n' | sort -u | grep -c .",
        "{}", "SigBlk:0000000000000000SigIgn:00000000000000001\n", 0);
    expect_output(
        "grep -h NoNewPrivs /proc/self/status; tr '\\0' '\\n' </proc/$$/environ | grep -c "
        "'^PATH=[^:]*/.local/bin:/usr/local/bin:/usr/bin:/bin:/run/workspace/bin:/run/workspace/tools$'",
        "{}", "NoNewPrivs:\t1\n1\n", 0);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    _cleanup_free_ char *soft = xasprintf("%ld\n", (long)files.rlim_cur);
    expect_output("ulimit -Sn", "{}", soft, 0);
    /* Odd names are the command's own business. */
    struct peer_exec *exec =
        run_to_end("env -0 | tr '\\n\\0' '|\\n' | grep -aE '^(odd|1x|A |B=|CI|PAGER)' | sort",
                   "{\"env\": {\"odd-name\": \"1\", \"1x\": \"2\", \"A b\": \"3\", \"B\": \"x\\ny\", \"CI\": "
                   "null, \"PAGER\": \"less\"}}");
    ck_assert_str_eq(peer_text(exec, 1), "1x=2\nA b=3\nB=x|y\nPAGER=less\nodd-name=1\n");
    _cleanup_free_ char *sub = xasprintf("%s/sub", peer->workspace);
    mkdir(sub, 0755);
    expect_output("basename \"$PWD\"", "{\"workdir\": \"/workspace/sub\"}", "sub\n", 0);
    expect_output("pwd", "{\"workdir\": \"/\"}", "/\n", 0);
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
    expect_output("echo fine", "{}", "fine\n", 0);
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
    expect_output(buffer_text(&text), "{}", "300000\n", 7);

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

    expect_output("cat; echo done", "{\"stdin\": \"null\"}", "done\n", 0);
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
        expect_output("echo other", "{}", "other\n", 0);
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
    expect_output("echo other", "{}", "other\n", 0);
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
    expect_output("tty | cut -c 1-9; stty size; echo $TERM; [ -t 0 ] && [ -t 2 ] && echo all",
                  "{\"pty\": true}", "/dev/pts/\r\n24 80\r\nxterm-256color\r\nall\r\n", 0);
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

/* ---- signals, hints ---- */

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

static Suite *make_suite(void)
{
    Suite *suite = suite_create("agent");
    TCase *tests = tcase_create("agent");
    tcase_add_checked_fixture(tests, agent_setup, agent_teardown);
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
    tcase_add_test(tests, test_waiting);
    tcase_add_test(tests, test_many_at_once);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return unit_run(make_suite());
}
