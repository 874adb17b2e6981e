/* Ends as a real keeper with a real sandbox brings or meets them: a command's by timeout, signal and lack of
 * memory, the workspace's by its times, stop and removal, the sandbox's and the keeper's own. */
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/keeper/lost.h"
#include "tests/support/keeper_case.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>

/* ---- ends that are asked for ---- */

#define STUBBORN                                                                                             \
    "trap '' TERM INT HUP; setsid bash -c \"trap '' TERM; while :; do sleep 0.05; done\" & "                 \
    "setsid perl -e '$SIG{TERM}=\"IGNORE\"; sleep 1 while 1' & echo up; while :; do sleep 0.05; done"

static void assert_alone(void)
{
    struct told told = { 0 };
    usleep(300000);
    live_run(
        "n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c "
        "'sleep [01]' ; true",
        NULL, &told);
    ck_assert_msg(strcmp(buffer_text(&told.out), "1\n") == 0 || strcmp(buffer_text(&told.out), "0\n") == 0,
                  "left: %s", buffer_text(&told.out));
    told_clear(&told);
}

START_TEST(test_timeout)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    int64_t begun = clock_boottime_ms();
    live_run(STUBBORN, json_pack("{s:i}", "timeout_seconds", 1), &told);
    ck_assert_int_gt(clock_boottime_ms() - begun, 2500);
    ck_assert_int_lt(clock_boottime_ms() - begun, 5000);
    ck_assert(told.head.timed_out);
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(told.head.returncode, -9);
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"timed_out\":true"));
    assert_alone();
    begun = clock_boottime_ms();
    live_run("sleep 100", json_pack("{s:i}", "timeout_seconds", 1), &told);
    ck_assert_int_lt(clock_boottime_ms() - begun, 1900);
    ck_assert_int_eq(told.head.returncode, -15);
    ck_assert(told.head.timed_out);
    told_clear(&told);
    live_end();
}
END_TEST

static int signal_exec(const char *id, const char *name, bool tree)
{
    json_auto_t *answer = talk_call(
        live.talk, "signal", json_pack("{s:s, s:s, s:b}", "exec_id", id, "signal", name, "tree", tree));
    return talk_error(answer);
}

START_TEST(test_cancel)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(live.talk, "echo up; sleep 100", NULL, id);
    live_wait_output(id, &told);
    ck_assert_int_eq(signal_exec(id, "TERM", false), 0);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 3000));
    ck_assert_int_eq(told.head.state, EXEC_CANCELLED);
    ck_assert_int_eq(told.head.returncode, -15);
    ck_assert(told.head.cancel_requested);
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"signal\":\"TERM\""));
    ck_assert_int_eq(signal_exec(id, "TERM", false), ERROR_CONFLICT);
    ck_assert_int_eq(signal_exec(id, "TERM", true), 0);
    /* one that handles it ended by itself */
    talk_start(live.talk, "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", NULL, id);
    live_wait_output(id, &told);
    ck_assert_int_eq(signal_exec(id, "TERM", false), 0);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 3000));
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(told.head.returncode, 0);
    /* a tree that does not listen */
    talk_start(live.talk, STUBBORN, NULL, id);
    live_wait_output(id, &told);
    ck_assert_int_eq(signal_exec(id, "TERM", true), 0);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 5000));
    ck_assert_int_eq(told.head.state, EXEC_CANCELLED);
    ck_assert_int_eq(told.head.returncode, -9);
    assert_alone();
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_tree_after_exit)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(live.talk,
               "setsid bash -c \"trap '' TERM; while :; do sleep 0.05; done\" >/dev/null 2>&1 & echo up",
               NULL, id);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 3000));
    usleep(300000);
    ck_assert_int_eq(signal_exec(id, "TERM", true), 0);
    usleep(2500000);
    assert_alone();
    told_clear(&told);
    live_end();
}
END_TEST

/* ---- the workspace's own end ---- */

START_TEST(test_idle)
{
    live_begin(json_pack("{s:i}", "idle_timeout_seconds", 1), NULL);
    struct told told = { 0 };
    int64_t begun = clock_boottime_ms();
    live_run("sleep 2.5; (sleep 30 &) ; echo kept >/workspace/file", NULL,
             &told); /* running is activity, what is left behind is not */
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert_int_eq(house_wait(live.keeper.pid, 3000), 0);
    ck_assert_int_gt(clock_boottime_ms() - begun, 3300);
    json_auto_t *record = house_stored(&live.house, live.ws);
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "stopped");
    ck_assert_str_eq(json_string_value(json_object_get(record, "reason")), "workspace stopped: idle timeout");
    ck_assert_int_eq(json_integer_value(json_object_get(record, "expires_us")), 0);
    /* and it comes back with its files */
    live_keep_again();
    live_run("cat file", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "kept\n");
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_absolute)
{
    live_begin(json_pack("{s:i}", "timeout_seconds", 1), NULL);
    struct told told = { 0 };
    live_run("echo out; sleep 100", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "out\n");
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_str_eq(told.head.reason, "lost: workspace stopped: timeout");
    ck_assert_int_eq(house_wait(live.keeper.pid, 3000), 0);
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_extend)
{
    live_begin(json_pack("{s:i}", "timeout_seconds", 1), NULL);
    json_auto_t *answer = talk_call(
        live.talk, "extend", json_pack("{s:i, s:i}", "timeout_seconds", 100, "idle_timeout_seconds", -1));
    int64_t expires_us = json_integer_value(json_object_get(json_object_get(answer, "ret"), "expires_us"));
    ck_assert_int_gt(expires_us, clock_wall_us() + 98000000);
    struct told told = { 0 };
    live_run("sleep 2", NULL, &told);
    ck_assert_int_eq(told.head.returncode, 0);
    told_clear(&told);
    live_end();
}
END_TEST

static const json_t *extended(json_t *answer, const char *member)
{
    const json_t *value = json_object_get(json_object_get(answer, "ret"), member);
    ck_assert_ptr_nonnull(value);
    return value;
}

/* What is left out stays, and the record tells what is in force. */
START_TEST(test_extend_one_alone)
{
    live_begin(json_pack("{s:i, s:i}", "timeout_seconds", 500, "idle_timeout_seconds", 300), NULL);
    json_auto_t *first = talk_call(live.talk, "extend", json_pack("{s:i}", "timeout_seconds", 2000));
    int64_t expires_us = json_integer_value(extended(first, "expires_us"));
    ck_assert_int_eq(json_integer_value(extended(first, "timeout_seconds")), 2000);
    ck_assert_int_eq(json_integer_value(extended(first, "idle_timeout_seconds")), 300);
    json_auto_t *second = talk_call(live.talk, "extend", json_pack("{s:i}", "idle_timeout_seconds", 70));
    ck_assert_int_eq(json_integer_value(extended(second, "expires_us")), expires_us);
    ck_assert_int_eq(json_integer_value(extended(second, "timeout_seconds")), 2000);
    ck_assert_int_eq(json_integer_value(extended(second, "idle_timeout_seconds")), 70);
    json_auto_t *third = talk_call(
        live.talk, "extend", json_pack("{s:i, s:i}", "timeout_seconds", -1, "idle_timeout_seconds", -1));
    ck_assert_int_eq(json_integer_value(extended(third, "timeout_seconds")), 500);
    ck_assert(json_is_null(extended(third, "idle_timeout_seconds")));
    live_end();
}
END_TEST

/* A command that has written "out", and goes on. */
static void begin_command(char id[static ID_SIZE], struct told *told)
{
    talk_start(live.talk, "echo kept >file; echo out; sleep 100", NULL, id);
    live_wait_output(id, told);
}

/* The keeper ended in order; its command is told as lost, for this reason. */
static void assert_lost(const char *id, const char *reason, struct told *told)
{
    ck_assert_int_eq(house_wait(live.keeper.pid, 3000), 0);
    told_read(&live.house, live.ws, id, told);
    ck_assert_int_eq(told->head.state, EXEC_FAILED);
    ck_assert_str_eq(told->head.reason, reason);
    ck_assert_str_eq(buffer_text(&told->out), "out\n");
}

START_TEST(test_stop_and_remove)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    begin_command(id, &told);
    json_auto_t *stopped = talk_call(live.talk, "stop", NULL);
    json_t *record = json_object_get(stopped, "ret");
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "stopped");
    assert_lost(id, "lost: workspace stopped", &told);
    live_keep_again();
    json_auto_t *removed = talk_call(live.talk, "stop", json_pack("{s:b}", "remove", 1));
    json_t *ret = json_object_get(removed, "ret");
    ck_assert(json_is_true(json_object_get(ret, "terminated")));
    ck_assert_str_eq(json_string_value(json_object_get(ret, "workspace_id")), live.ws);
    ck_assert_int_eq(house_wait(live.keeper.pid, 3000), 0);
    ck_assert(house_wait_state(&live.house, live.ws, "gone", 0));
    _cleanup_free_ char *files = config_path(live.house.config, "workspaces", live.ws),
                        *logs = config_path(live.house.config, "events", live.ws);
    ck_assert_int_ne(access(files, F_OK), 0);
    ck_assert_int_ne(access(logs, F_OK), 0);
    told_clear(&told);
    live_end();
}
END_TEST

/* What it took in is answered before it says so; what came later is nobody's. What was answered has its final
 * event, however early the stop ended it; what was not has left no trace. */
START_TEST(test_goodbye)
{
    live_begin(NULL, NULL);
    struct talk *other = live_connect(live.ws);
    json_decref(talk_call(other, "record", NULL));
    uint32_t stop = talk_send(live.talk, live_request("stop", json_object()));
    uint32_t late = talk_send(
        live.talk, live_request("start", json_pack("{s:s}", "command", "echo ran >>/workspace/late")));
    uint32_t others = talk_send(
        other, live_request("start", json_pack("{s:s}", "command", "echo ran >>/workspace/others")));
    json_auto_t *stopped = talk_wait(live.talk, stop);
    ck_assert_ptr_nonnull(json_object_get(stopped, "ret"));
    ck_assert_ptr_null(talk_wait(live.talk, late));
    ck_assert(talk_farewell(live.talk));
    json_auto_t *before = talk_wait(other, others);
    ck_assert(talk_farewell(other));
    ck_assert_int_eq(house_wait(live.keeper.pid, 3000), 0);
    const char *id = json_string_value(json_object_get(json_object_get(before, "ret"), "exec_id"));
    ck_assert(before == NULL || house_head(&live.house, live.ws, id).exit_seq > 0);
    talk_close(other);
    live_keep_again();
    struct told told = { 0 };
    live_run(before != NULL ? "cat late" : "cat late others", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "");
    told_clear(&told);
    live_end();
}
END_TEST

static pid_t sandbox_pid(void)
{
    struct process_identity identity;
    json_auto_t *record = house_stored(&live.house, live.ws);
    json_t *child = json_object_get(json_object_get(record, "handle"), "child");
    ck_assert_int_eq(process_identity_from_json(child, &identity), 0);
    return identity.pid;
}

START_TEST(test_sandbox_dies)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    begin_command(id, &told);
    kill(sandbox_pid(), SIGKILL);
    assert_lost(id, "lost: the sandbox ended", &told);
    ck_assert(house_wait_state(&live.house, live.ws, "stopped", 0));
    told_clear(&told);
    live_end();
}
END_TEST

/* A command that comes just after the sandbox's death is none of those that died with it. */
START_TEST(test_after_the_sandbox)
{
    for (int i = 0; i < 10; i++) {
        live_begin(NULL, NULL);
        int pidfd = process_pidfd_open(sandbox_pid());
        kill(live.keeper.pid, SIGSTOP);
        uint32_t late = talk_send(live.talk, live_request("start", json_pack("{s:s}", "command", "true")));
        process_pidfd_signal(pidfd, SIGKILL);
        ck_assert_int_eq(process_pidfd_wait(pidfd, 5000), 1);
        close(pidfd);
        kill(live.keeper.pid, SIGCONT);
        ck_assert_ptr_null(talk_wait(live.talk, late));
        ck_assert(talk_farewell(live.talk));
        live_end();
    }
}
END_TEST

START_TEST(test_term)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    begin_command(id, &told);
    kill(live.keeper.pid, SIGTERM);
    assert_lost(id, "lost: the gateway was stopped", &told);
    told_clear(&told);
    live_end();
}
END_TEST

/* A second keeper of the same workspace finds it taken; one after kill -9 ends the old sandbox, tells the
 * lost execs and has the files. */
START_TEST(test_killed)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    struct line second = house_keep(&live.house, live.ws, NULL);
    ck_assert_int_eq(talk_error(second.answer), ERROR_CONFLICT);
    ck_assert_int_eq(house_wait(second.pid, 1000), 1);
    ck_assert(house_wait_state(&live.house, live.ws, "running", 0));
    json_decref(second.answer);
    begin_command(id, &told);
    int old = process_pidfd_open(sandbox_pid());
    ck_assert_int_ge(old, 0);
    kill(live.keeper.pid, SIGKILL);
    ck_assert_int_eq(house_wait(live.keeper.pid, 3000), 128 + SIGKILL);
    live_keep_again();
    ck_assert_int_eq(process_pidfd_wait(old, 0), 1);
    close(old);
    told_read(&live.house, live.ws, id, &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_str_eq(told.head.reason, "lost: " LOST_KEEPER);
    ck_assert_str_eq(buffer_text(&told.errors), "lost: " LOST_KEEPER);
    ck_assert_str_eq(buffer_text(&told.out), "out\n");
    ck_assert_uint_eq(told.exits, 1);
    live_run("cat file", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "kept\n");
    told_clear(&told);
    live_end();
}
END_TEST

/* ---- memory ---- */

START_TEST(test_memory_hog)
{
    live_begin(json_pack("{s:i, s:i}", "memory_mib", 128, "memory_limit_mib", 192), NULL);
    struct told told = { 0 };
    live_run("perl -e 'my @a; while (1) { push @a, \"x\" x 1000000 }'", NULL, &told);
    ck_assert_msg(told.head.oom_killed, "%s", buffer_text(&told.exit));
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"oom_killed\":true"));
    live_run("echo alive", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "alive\n");
    ck_assert(!told.head.oom_killed);
    told_clear(&told);
    live_end();
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        test_timeout,  test_cancel,       test_tree_after_exit,   test_idle,
        test_absolute, test_extend,       test_extend_one_alone,  test_stop_and_remove,
        test_goodbye,  test_sandbox_dies, test_after_the_sandbox, test_term,
        test_killed,   test_memory_hog,
    };
    return house_run_tests(argc, argv, "keeper ends", tests, N_ELEMENTS(tests));
}
