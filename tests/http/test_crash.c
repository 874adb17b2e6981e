/* Processes that are killed: what the house promises survives, and what ends is told. */
#include "lib/base/buffer.h"
#include "tests/support/workspace_case.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static void wait_workers(size_t at_least)
{
    struct http_options quick = { .token = "", .timeout_ms = 2000, .unchecked = true };
    for (long long deadline = now_ms() + 15000; now_ms() < deadline; sleep_ms(20)) {
        pid_t pids[64];
        struct answer a = http_send(the, "GET", "/healthz", &quick);
        long status = a.status;
        answer_clear(&a);
        if (status == 200 && instance_processes(the, "serve", pids, 64) >= at_least)
            return;
    }
    ck_abort_msg("the workers did not come back");
}

/* Follows like exec_follow, but an error of the front in between is only a reason to ask again. */
static void follow_through_errors(const char *ex, struct buffer *out, char *state, size_t state_size)
{
    long cursor = 0, last = 0;
    bool ended = false;
    for (long long deadline = now_ms() + 60000; !ended;) {
        char path[240];
        size_t index;
        json_t *event;
        ck_assert_msg(now_ms() < deadline, "the log did not end");
        snprintf(path, sizeof path,
                 "/api/workspaces/%s/realtime-execs/%s/events?cursor=%ld&wait_seconds=5&max_events=500", ws,
                 ex, cursor);
        struct http_options o = { .unchecked = true, .timeout_ms = 10000 };
        struct answer a = http_send(the, "GET", path, &o);
        if (a.status != 200) {
            answer_clear(&a);
            sleep_ms(20);
            continue;
        }
        json_array_foreach(json_object_get(a.json, "events"), index, event) {
            long seq = (long)member_number(event, "seq");
            ck_assert_msg(seq == last + 1, "seq %ld after %ld", seq, last);
            last = seq;
            if (strcmp(member_text(event, "type"), "stdout") == 0)
                buffer_append_text(out, member_text(event, "data"));
            ended = ended || strcmp(member_text(event, "type"), "exit") == 0;
        }
        cursor = (long)member_number(a.json, "next_cursor");
        snprintf(state, state_size, "%s", member_text(a.json, "state"));
        answer_clear(&a);
    }
}

START_TEST(all_workers_killed_while_a_command_prints)
{
    char ex[40], state[16] = "";
    struct buffer out = BUFFER_INIT, want = BUFFER_INIT;
    exec_start_command(the, ws, "for k in $(seq 20); do seq $((k*10000-9999)) $((k*10000)); sleep 0.2; done",
                       ex);
    for (int k = 0; k < 3; k++) {
        sleep_ms(150);
        ck_assert_uint_ge(instance_signal(the, "serve", SIGKILL), 1);
        wait_workers(2);
    }
    follow_through_errors(ex, &out, state, sizeof state);
    for (int k = 1; k <= 200000; k++)
        buffer_printf(&want, "%d\n", k);
    ck_assert_str_eq(state, "finished");
    ck_assert_uint_eq(out.length, want.length);
    ck_assert_mem_eq(out.data, want.data, want.length);
    buffer_free(&out);
    buffer_free(&want);
}
END_TEST

START_TEST(a_killed_keeper_loses_its_execs_and_nothing_else)
{
    char ex[40], path[240], state[16] = "";
    struct exec_log log;
    struct buffer out = BUFFER_INIT;
    exec_run_command(the, ws, "echo kept > /workspace/file; echo home > ~/file", &log);
    exec_log_clear(&log);
    exec_start_command(the, ws, "echo before; sleep 600", ex);
    exec_wait_output(the, ws, ex, "before", 5000);
    pid_t pids[64];
    size_t count = instance_processes(the, "keep", pids, 64);
    ck_assert_uint_ge(count, 1);
    instance_signal(the, "keep", SIGKILL);
    follow_through_errors(ex, &out, state, sizeof state);
    ck_assert_str_eq(state, "failed");
    ck_assert_ptr_nonnull(strstr(buffer_text(&out), "before"));
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    json_auto_t *status = api(the, 200, "GET", path, NULL);
    ck_assert_str_eq(member_text(status, "state"), "failed");
    ck_assert_ptr_nonnull(strstr(member_text(status, "reason"), "lost"));
    sleep_ms(300);
    ck_assert_uint_eq(instance_processes(the, "keep", pids, 64), 0); /* reading started no sandbox */
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    json_auto_t *record = api(the, 200, "GET", path, NULL);
    ck_assert_str_eq(member_text(record, "state"), "stopped");
    exec_run_command(the, ws, "cat /workspace/file ~/file", &log);
    ck_assert_str_eq(log.out, "kept\nhome\n");
    exec_log_clear(&log);
    buffer_free(&out);
}
END_TEST

START_TEST(a_killed_warden_costs_nothing)
{
    char ex[40], other[40];
    struct exec_log log;
    exec_start_command(the, ws, "sleep 1; echo through", ex);
    ck_assert_uint_ge(instance_signal(the, "warden", SIGKILL), 1);
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_str_eq(log.out, "through\n");
    exec_log_clear(&log);
    workspace_create(the, NULL, other); /* a new one is there or comes when it is needed */
    exec_run_command(the, other, "echo new", &log);
    ck_assert_str_eq(log.out, "new\n");
    exec_log_clear(&log);
    /* The next warden adopts the keepers of the dead one: a killed keeper is still noticed. */
    exec_start_command(the, ws, "sleep 600", ex);
    sleep_ms(300);
    instance_signal(the, "keep", SIGKILL);
    char state[16] = "";
    struct buffer out = BUFFER_INIT;
    follow_through_errors(ex, &out, state, sizeof state);
    ck_assert_str_eq(state, "failed");
    buffer_free(&out);
    workspace_terminate(the, other);
}
END_TEST

START_TEST(a_killed_agent_ends_the_workspace_and_is_told)
{
    char ex[40], state[16] = "";
    struct buffer out = BUFFER_INIT;
    struct exec_log log;
    exec_start_command(the, ws, "echo begun; sleep 600", ex);
    exec_wait_output(the, ws, ex, "begun", 5000);
    pid_t pids[64];
    size_t count = instance_processes(the, "keep", pids, 64);
    ck_assert_uint_ge(count, 1);
    char line[128];
    for (size_t k = 0; k < count; k++) { /* bwrap is the keeper's child: ends with everything in it */
        snprintf(line, sizeof line, "/proc/%d/task/%d/children", pids[k], pids[k]);
        FILE *file = fopen(line, "r");
        int child = 0;
        while (file && fscanf(file, "%d", &child) == 1)
            ck_assert_int_eq(kill(child, SIGKILL), 0);
        if (file)
            fclose(file);
    }
    follow_through_errors(ex, &out, state, sizeof state);
    ck_assert_str_eq(state, "failed");
    buffer_free(&out);
    exec_run_command(the, ws, "echo again", &log);
    ck_assert_str_eq(log.out, "again\n");
    exec_log_clear(&log);
}
END_TEST

START_TEST(a_killed_master_comes_back)
{
    pid_t pids[64];
    size_t count = instance_processes(the, "serve", pids, 64);
    ck_assert_uint_ge(count, 2);
    instance_signal(the, "serve", SIGKILL); /* master and workers */
    wait_workers(2);
    struct exec_log log;
    exec_run_command(the, ws, "echo served", &log);
    ck_assert_str_eq(log.out, "served\n");
    exec_log_clear(&log);
}
END_TEST

static int64_t number_of(const json_t *object, const char *member)
{
    const json_t *value = json_object_get(object, member);
    ck_assert_msg(json_is_integer(value), "%s is no number", member);
    return json_integer_value(value);
}

static void check_limits(int64_t timeout_s, int64_t idle_s)
{
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    json_auto_t *seen = api(the, 200, "GET", path, NULL);
    const json_t *limits = json_object_get(seen, "limits");
    ck_assert_int_eq(number_of(limits, "timeout_seconds"), timeout_s);
    ck_assert_int_eq(number_of(limits, "idle_timeout_seconds"), idle_s);
}

START_TEST(idle_and_absolute_timeouts_stop_and_the_next_command_starts)
{
    char path[128];
    struct exec_log log;
    exec_run_command(the, ws, "echo stays > f", &log);
    exec_log_clear(&log);
    snprintf(path, sizeof path, "/api/workspaces/%s/stop", ws);
    json_auto_t *stopped = api(the, 200, "POST", path, NULL);
    ck_assert_str_eq(member_text(stopped, "state"), "stopped");
    json_decref(api(the, 200, "POST", path, NULL)); /* once more is fine */
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    json_auto_t *record = api(the, 200, "GET", path, NULL);
    ck_assert_str_eq(member_text(record, "state"), "stopped");
    ck_assert(!member_flag(record, "running"));
    exec_run_command(the, ws, "cat f", &log);
    ck_assert_str_eq(log.out, "stays\n");
    exec_log_clear(&log);
    json_auto_t *again = api(the, 200, "GET", path, NULL);
    ck_assert_str_eq(member_text(again, "state"), "running");
    snprintf(path, sizeof path, "/api/workspaces/%s/extend", ws);
    json_auto_t *extended = api(the, 200, "POST", path, make_json("{s:i}", "timeout_seconds", 7200));
    ck_assert(json_is_string(json_object_get(extended, "expires_at")));
    ck_assert_int_eq(number_of(extended, "timeout_seconds"), 7200);
    json_auto_t *idle = api(the, 200, "POST", path, make_json("{s:i}", "idle_timeout_seconds", 1234));
    ck_assert_str_eq(member_text(idle, "expires_at"), member_text(extended, "expires_at"));
    ck_assert_int_eq(number_of(idle, "idle_timeout_seconds"), 1234);
    json_decref(api(the, 400, "POST", path, json_object()));
    check_limits(7200, 1234);
    snprintf(path, sizeof path, "/api/workspaces/%s/stop", ws);
    json_decref(api(the, 200, "POST", path, NULL));
    check_limits(3600, 900); /* of the next start */
    exec_run_command(the, ws, "true", &log);
    exec_log_clear(&log);
    check_limits(3600, 900);
}
END_TEST

/* Commands that come while the workspace stops run in the next one, and never twice. */
START_TEST(a_command_straight_after_a_stop_runs)
{
    char stop[128], exec[128];
    struct http_options o = { .unchecked = true };
    snprintf(stop, sizeof stop, "/api/workspaces/%s/stop", ws);
    snprintf(exec, sizeof exec, "/api/workspaces/%s/exec", ws);
    pid_t stopper = fork();
    if (stopper == 0) {
        for (int k = 0; k < 40; k++) {
            struct answer a = http_send(the, "POST", stop, &o);
            if (a.status != 200) {
                printf("stop: %ld %s\n", a.status, a.body);
                _exit(1);
            }
            answer_clear(&a);
            sleep_ms(30);
        }
        _exit(0);
    }
    for (int k = 0; k < 40; k++) {
        char key[64];
        snprintf(key, sizeof key, "Idempotency-Key: stop-%d", k);
        const char *const headers[] = { key, NULL };
        struct http_options keyed = { .headers = headers,
                                      .body = "{\"command\": \"echo >>/workspace/log\"}",
                                      .unchecked = true };
        struct answer a = http_send(the, "POST", exec, &keyed);
        ck_assert_msg(a.status == 200, "%d: %ld %s", k, a.status, a.body);
        answer_clear(&a);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(stopper, &status, 0), stopper);
    ck_assert_int_eq(status, 0);
    for (int k = 0; k < 40; k++) { /* by one client, one after the other */
        json_decref(api(the, 200, "POST", stop, NULL));
        json_auto_t *ran = api(the, 200, "POST", exec, make_json("{s:s}", "command", "echo hi"));
        ck_assert_str_eq(member_text(ran, "stdout"), "hi\n");
    }
    struct exec_log log;
    exec_run_command(the, ws, "wc -l <log", &log);
    ck_assert_int_le(atoi(log.out), 40);
    exec_log_clear(&log);
}
END_TEST

START_TEST(graceful_end_answers_parked_polls)
{
    char ex[40], path[240];
    exec_start_command(the, ws, "sleep 4", ex);
    sleep_ms(200);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?cursor=2&wait_seconds=20", ws,
             ex);
    pid_t child = fork();
    if (child == 0) {
        struct answer a = http_send(the, "GET", path, NULL);
        _exit(a.status == 200 && json_array_size(json_object_get(a.json, "events")) == 0 ? 0 : 1);
    }
    sleep_ms(500);
    instance_signal(the, "serve", SIGTERM);
    int status = -1;
    long long started = now_ms();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(status == 0, "the parked poll got no proper answer: %d", status);
    ck_assert_int_lt(now_ms() - started, 3000);
    wait_workers(2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("crash");
    TCase *c = tcase_create("one workspace for each test");
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_set_timeout(c, 90);
    tcase_add_test(c, all_workers_killed_while_a_command_prints);
    tcase_add_test(c, a_killed_keeper_loses_its_execs_and_nothing_else);
    tcase_add_test(c, a_killed_warden_costs_nothing);
    tcase_add_test(c, a_killed_agent_ends_the_workspace_and_is_told);
    tcase_add_test(c, a_killed_master_comes_back);
    tcase_add_test(c, idle_and_absolute_timeouts_stop_and_the_next_command_starts);
    tcase_add_test(c, a_command_straight_after_a_stop_runs);
    tcase_add_test(c, graceful_end_answers_parked_polls);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
