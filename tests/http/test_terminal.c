/* Terminals, timeouts and cancelling through a real web server and a real sandbox. */
#include "tests/support/workspace_case.h"

#include <stdio.h>
#include <string.h>

static void post(const char *ex, const char *what, json_t *body)
{
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/%s", ws, ex, what);
    json_decref(api(the, 200, "POST", path, body));
}

START_TEST(a_terminal_has_a_name_and_a_size)
{
    char ex[40];
    struct exec_log log;
    exec_run(the, ws, make_json("{s:s, s:b}", "command", "tty; stty size; echo $TERM", "pty", 1), &log);
    ck_assert_str_eq(log.out, "/dev/pts/0\r\n24 80\r\nxterm-256color\r\n");
    exec_log_clear(&log);
    exec_start(the, ws,
               make_json("{s:s, s:b, s:i, s:i}", "command",
                         "trap 'stty size; echo resized' WINCH; stty size; while :; do sleep 0.05; done",
                         "pty", 1, "rows", 40, "cols", 132),
               ex);
    exec_wait_output(the, ws, ex, "40 132\r\n", 5000);
    post(ex, "resize", make_json("{s:i, s:i}", "rows", 50, "cols", 100));
    exec_wait_output(the, ws, ex, "50 100\r\nresized", 5000);
    post(ex, "cancel", make_json("{s:s}", "signal_name", "KILL"));
    exec_follow(the, ws, ex, 5000, &log);
    ck_assert_str_eq(log.state, "cancelled");
    exec_log_clear(&log);
}
END_TEST

START_TEST(control_c_ends_the_program_and_not_the_shell)
{
    char ex[40];
    struct exec_log log;
    exec_start(the, ws, make_json("{s:s, s:b}", "command", "exec bash --norc -i", "pty", 1), ex);
    exec_send(the, ws, ex, "PS1=; sleep 100; echo rc=$?\n", false);
    exec_wait_output(the, ws, ex, "sleep 100", 5000);
    sleep_ms(300);
    exec_send(the, ws, ex, "\x03", false);
    sleep_ms(200);
    exec_send(the, ws, ex, "echo still=$((6*7))\n", false);
    exec_wait_output(the, ws, ex, "still=42", 5000);
    exec_send(the, ws, ex, "exit 9\n", false);
    exec_follow(the, ws, ex, 5000, &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 9);
    exec_log_clear(&log);
}
END_TEST

START_TEST(end_of_file_reaches_a_terminal_program)
{
    char ex[40];
    struct exec_log log;
    exec_start(the, ws, make_json("{s:s, s:b}", "command", "cat; echo over", "pty", 1), ex);
    exec_send(the, ws, ex, "line\n", false);
    exec_wait_output(the, ws, ex, "line\r\nline", 5000);
    exec_send(the, ws, ex, "", true);
    exec_follow(the, ws, ex, 5000, &log);
    ck_assert_ptr_nonnull(strstr(log.out, "over"));
    exec_log_clear(&log);
    exec_start(the, ws, make_json("{s:s, s:b}", "command", "cat >/dev/null; echo over", "pty", 1), ex);
    exec_send(the, ws, ex, "no newline", true); /* in the middle of a line */
    exec_follow(the, ws, ex, 5000, &log);
    ck_assert_ptr_nonnull(strstr(log.out, "over"));
    exec_log_clear(&log);
}
END_TEST

START_TEST(waiting_for_input_is_shown)
{
    char ex[40], path[200];
    exec_start_command(the, ws, "sleep 0.5; read -r x; sleep 5", ex);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    bool seen = false;
    for (long long deadline = now_ms() + 5000; !seen && now_ms() < deadline; sleep_ms(50)) {
        json_auto_t *status = api(the, 200, "GET", path, NULL);
        seen = member_flag(status, "waiting_for_input");
    }
    ck_assert_msg(seen, "a command blocked in read was never shown as waiting");
    exec_send(the, ws, ex, "\n", false);
    for (long long deadline = now_ms() + 5000; seen && now_ms() < deadline; sleep_ms(50)) {
        json_auto_t *status = api(the, 200, "GET", path, NULL);
        seen = member_flag(status, "waiting_for_input");
    }
    ck_assert_msg(!seen, "still shown as waiting after input");
}
END_TEST

/* Descendants that leave the session, ignore TERM, and fork twice. */
#define NASTY                                                                                                \
    "trap '' TERM; (trap '' TERM; setsid bash -c 'trap \"\" TERM; while :; do sleep 0.05; done' &) ; "       \
    "(setsid bash -c 'trap \"\" TERM; (sleep 987 &) ; sleep 987' &) ; echo ready; while :; do sleep 0.05; "  \
    "done"

static void check_nobody_left(void)
{
    struct exec_log log;
    exec_run_command(the, ws,
                     "for k in $(seq 30); do n=$(ps -eo args= | grep -c -e '[s]leep 987' -e '[t]rap .* TERM; "
                     "while'); [ $n = 0 ] && exit 0; sleep 0.1; "
                     "done; ps -ef >&2; exit 1",
                     &log);
    ck_assert_msg(member_number(log.exit, "returncode") == 0, "descendants live on: %s", log.err);
    exec_log_clear(&log);
}

START_TEST(a_timeout_ends_the_whole_tree)
{
    char ex[40];
    struct exec_log log;
    exec_start(the, ws, make_json("{s:s, s:i}", "command", NASTY, "timeout_seconds", 1), ex);
    exec_wait_output(the, ws, ex, "ready", 5000);
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_str_eq(log.state, "finished");
    ck_assert(member_flag(log.exit, "timed_out"));
    ck_assert_int_eq(member_number(log.exit, "returncode"), -9);
    exec_log_clear(&log);
    check_nobody_left();
}
END_TEST

START_TEST(cancelling_a_tree_ends_the_whole_tree)
{
    char ex[40];
    struct exec_log log;
    exec_start_command(the, ws, NASTY, ex);
    exec_wait_output(the, ws, ex, "ready", 5000);
    post(ex, "cancel", make_json("{s:s, s:b}", "signal_name", _i ? "KILL" : "TERM", "tree", 1));
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_str_eq(log.state, "cancelled");
    ck_assert_str_eq(member_text(log.exit, "signal"), "KILL");
    exec_log_clear(&log);
    check_nobody_left();
}
END_TEST

START_TEST(cancel_is_told_as_it_was)
{
    char ex[40];
    struct exec_log log;
    exec_start_command(the, ws, "sleep 100", ex);
    post(ex, "cancel", json_object());
    exec_follow(the, ws, ex, 5000, &log);
    ck_assert_str_eq(log.state, "cancelled");
    ck_assert_int_eq(member_number(log.exit, "returncode"), -15);
    ck_assert_str_eq(member_text(log.exit, "signal"), "TERM");
    exec_log_clear(&log);
    exec_start_command(the, ws, "trap 'echo handled; exit 0' TERM; echo ready; while :; do sleep 0.05; done",
                       ex);
    exec_wait_output(the, ws, ex, "ready", 5000);
    post(ex, "cancel", make_json("{s:s}", "signal_name", "sigterm"));
    exec_follow(the, ws, ex, 5000, &log);
    ck_assert_str_eq(log.state, "finished"); /* it ended by itself */
    ck_assert_int_eq(member_number(log.exit, "returncode"), 0);
    ck_assert_ptr_nonnull(strstr(log.out, "handled"));
    exec_log_clear(&log);
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/cancel", ws, ex);
    api_refused(the, 409, "", "POST", path, json_object());
    api_refused(the, 422, "signal_name", "POST", path, make_json("{s:s}", "signal_name", "SEGV"));
}
END_TEST

START_TEST(stop_and_continue_reach_the_command)
{
    char ex[40];
    struct exec_log log;
    exec_start_command(
        the, ws, "exec 2>/dev/null; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.05; done", ex);
    exec_wait_output(the, ws, ex, "ready", 5000);
    post(ex, "cancel", make_json("{s:s}", "signal_name", "USR1"));
    exec_wait_output(the, ws, ex, "usr1", 5000);
    post(ex, "cancel", make_json("{s:s}", "signal_name", "STOP"));
    sleep_ms(300);
    post(ex, "cancel", make_json("{s:s}", "signal_name", "CONT"));
    post(ex, "cancel", make_json("{s:s}", "signal_name", "USR1"));
    exec_wait_output(the, ws, ex, "usr1\nusr1", 5000);
    post(ex, "cancel", make_json("{s:s}", "signal_name", "KILL"));
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_str_eq(log.state, "cancelled");
    exec_log_clear(&log);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("terminal");
    TCase *c = tcase_create("one workspace for each test");
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_terminal_has_a_name_and_a_size);
    tcase_add_test(c, control_c_ends_the_program_and_not_the_shell);
    tcase_add_test(c, end_of_file_reaches_a_terminal_program);
    tcase_add_test(c, waiting_for_input_is_shown);
    tcase_add_test(c, a_timeout_ends_the_whole_tree);
    tcase_add_loop_test(c, cancelling_a_tree_ends_the_whole_tree, 0, 2);
    tcase_add_test(c, cancel_is_told_as_it_was);
    tcase_add_test(c, stop_and_continue_reach_the_command);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
