/* workspace-agent against commands that harm it, peers that talk nonsense, and sandboxes with little room. */
#include "tests/support/agent_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- trees ---- */

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
    expect_output(
        "for i in $(seq 1 5000); do (true &) ; done; sleep 0.2; ps -eo stat,ppid | awk -v p=$PPID '$2 == "
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
    expect_output("echo fine", "{}", "fine\n", 0);
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
    expect_output("echo fine", "{}", "fine\n", 0);
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
    expect_output(
        "mkdir x 2>/dev/null || echo refused; grep -h ^Seccomp: /proc/self/status /proc/$PPID/status", "{}",
        "refused\nSeccomp:\t2\nSeccomp:\t2\n", 0);
    expect_output("tty | cut -c 1-9; mkdir x 2>/dev/null || echo refused; ls /proc/self/fd | wc -l",
                  "{\"pty\": true}", "/dev/pts/\r\nrefused\r\n4\r\n", 0);
}
END_TEST

START_TEST(test_guard)
{
    expect_output("prlimit --pid $PPID --nofile=3:3 2>/dev/null || echo refused; prlimit --pid $PPID "
                  "--nofile --noheadings | "
                  "grep -c NOFILE; ulimit -n 99; ulimit -n; prlimit --nofile=50:50 bash -c 'ulimit -n'",
                  "{}", "refused\n1\n99\n50\n", 0);
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
    expect_output("echo hi; pwd; ps -o comm= -p 1", "{}", "hi\n/mnt\nworkspace-agent\n", 0);
    expect_output("cat /proc/1/environ /proc/1/maps 2>&1 | grep -c 'Permission denied'; ls /proc/$PPID/fd "
                  ">/dev/null 2>&1 || echo closed",
                  "{}", "2\nclosed\n", 0);
    expect_output("tty; stty size", "{\"pty\": true}", "/dev/pts/0\r\n24 80\r\n", 0);
    expect_output("for s in TERM INT HUP QUIT USR1 USR2 ALRM STOP TSTP PIPE RTMIN CHLD; do kill -$s 1 $PPID; "
                  "done; kill -KILL 1; kill -TERM -1; kill -KILL -1; sleep 0.1; echo on",
                  "{}", "on\n", 0);
    expect_output(
        "for i in $(seq 1 300); do (setsid true &) ; done; kill -KILL $PPID; sleep 0.3; ps -eo stat | "
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
    expect_output("ulimit -u; ps -e --no-headers | wc -l", "{}", "60\n5\n", 0);
    peer_free(peer);
    peer = outer;
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("agent_harm");
    TCase *tests = tcase_create("agent_harm");
    tcase_add_checked_fixture(tests, agent_setup, agent_teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_kill_tree);
    tcase_add_test(tests, test_kill_tree_after_exit);
    tcase_add_test(tests, test_orphans);
    tcase_add_test(tests, test_supervisor_killed);
    tcase_add_test(tests, test_end_of_channel);
    tcase_add_test(tests, test_requests);
    tcase_add_test(tests, test_random_frames);
    tcase_add_test(tests, test_garbage_ends_it);
    tcase_add_test(tests, test_filter);
    tcase_add_test(tests, test_guard);
    tcase_add_test(tests, test_bad_options);
    tcase_add_test(tests, test_sandboxed);
    tcase_add_test(tests, test_fork_bomb);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    return unit_run(make_suite());
}
