/* Processes that stand still: everybody gets an answer in bounded time, a workspace can always be removed,
 * and nothing comes to life later that nobody knows of. */
#include "tests/support/suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char ws[40], path[128], exec[128], stop[128];

static void make_workspace(void)
{
    workspace_create(the, NULL, ws);
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    snprintf(exec, sizeof exec, "/api/workspaces/%s/exec", ws);
    snprintf(stop, sizeof stop, "/api/workspaces/%s/stop", ws);
}

static size_t count_workspaces(void)
{
    json_auto_t *all = api(the, 200, "GET", "/api/workspaces?state=all", NULL);
    return json_array_size(all);
}

static void send_and_expect(long status, long at_most_ms, const char *method, const char *where,
                            const char *body)
{
    struct http_options o = { .body = body, .unchecked = true, .timeout_ms = 60000 };
    struct answer a = http_send(the, method, where, &o);
    ck_assert_msg(a.status == status && a.ms < (double)at_most_ms, "%s %s: %ld after %.0f ms: %s", method,
                  where, a.status, a.ms, a.body);
    answer_clear(&a);
}

START_TEST(a_stuck_keeper)
{
    char other[40];
    struct exec_log log;
    make_workspace();
    ck_assert_uint_eq(instance_signal(the, "keep", SIGSTOP), 1);
    send_and_expect(504, 10500, "POST", exec, "{\"command\": \"true\"}");
    workspace_create(the, NULL, other); /* the others do not care */
    exec_run_command(the, other, "echo fine", &log);
    ck_assert_str_eq(log.out, "fine\n");
    exec_log_clear(&log);
    send_and_expect(504, 10500, "POST", stop, NULL);
    send_and_expect(200, 10500, "DELETE", path, NULL);
    send_and_expect(404, 1000, "GET", path, NULL);
    ck_assert_uint_eq(instance_processes(the, "keep", &(pid_t){ 0 }, 1), 1);
    workspace_terminate(the, other);
}
END_TEST

/* Nobody asks for it: the warden sees it. */
START_TEST(a_stuck_keeper_is_ended)
{
    char ex[40], where[240];
    struct exec_log log;
    make_workspace();
    exec_start_command(the, ws, "echo before; sleep 600", ex);
    exec_wait_output(the, ws, ex, "before", 5000);
    ck_assert_uint_eq(instance_signal(the, "keep", SIGSTOP), 1);
    snprintf(where, sizeof where, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    for (long long until = now_ms() + 60000;; sleep_ms(200)) {
        json_auto_t *status = api(the, 200, "GET", where, NULL);
        if (strcmp(member_text(status, "state"), "failed") == 0)
            break;
        ck_assert_int_lt(now_ms(), until);
    }
    exec_run_command(the, ws, "echo again", &log);
    ck_assert_str_eq(log.out, "again\n");
    exec_log_clear(&log);
    workspace_terminate(the, ws);
}
END_TEST

static struct answer create_with_key(void)
{
    const char *const headers[] = { "Idempotency-Key: stuck", NULL };
    struct http_options o = { .body = "{}", .headers = headers, .unchecked = true, .timeout_ms = 60000 };
    return http_send(the, "POST", "/api/workspaces", &o);
}

/* A client that was told that there is none has none, whenever the warden wakes up; but what has a key is
 * there for whoever comes back with it. */
START_TEST(a_stuck_warden)
{
    int status = -1;
    ck_assert_uint_eq(count_workspaces(), 0);
    ck_assert_uint_eq(instance_signal(the, "warden", SIGSTOP), 1);
    pid_t keyed = fork();
    if (keyed == 0)
        _exit(create_with_key().status == 504 ? 0 : 1);
    send_and_expect(504, 20000, "POST", "/api/workspaces", "{}");
    ck_assert_int_eq(waitpid(keyed, &status, 0), keyed);
    ck_assert_int_eq(status, 0);
    instance_signal(the, "warden", SIGCONT);
    struct answer second = create_with_key();
    ck_assert_int_eq(second.status, 200);
    sleep_ms(2000);
    ck_assert_uint_eq(count_workspaces(), 1);
    ck_assert_uint_eq(instance_processes(the, "keep", &(pid_t){ 0 }, 1), 1);
    workspace_terminate(the, member_text(second.json, "workspace_id"));
    answer_clear(&second);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stuck");
    suite_add(s, a_stuck_keeper, 90);
    suite_add(s, a_stuck_keeper_is_ended, 90);
    suite_add(s, a_stuck_warden, 60);
    return suite_main(s, NULL);
}
