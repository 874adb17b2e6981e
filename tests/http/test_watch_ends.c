/* Watches through a real web server: how one ends, that nobody waits in vain, who may know of it. */
#include "tests/support/watch_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- ends ---- */

/* A client that waits meanwhile: it follows the watch until its state is final, through whatever fails. */
static pid_t follow_to_end(const char *fw, const char *state, const char *reason)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    long long cursor = 0, until = now_ms() + 30000;
    while (now_ms() < until) {
        char rest[200];
        struct http_options options = { .unchecked = true };
        snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=%lld&wait_seconds=20", fw, cursor);
        struct answer a = http_send(the, "GET", ws_path(rest), &options);
        if (a.status != 200) {
            sleep_ms(50);
            answer_clear(&a);
            continue;
        }
        cursor = member_number(a.json, "next_cursor");
        if (strcmp(member_text(a.json, "state"), "running") != 0) {
            bool right = !strcmp(member_text(a.json, "state"), state) &&
                         strstr(member_text(a.json, "reason"), reason) != NULL;
            if (!right)
                printf("%s\n", a.body);
            _exit(right ? 0 : 1);
        }
        answer_clear(&a);
    }
    printf("no end was told\n");
    _exit(2);
}

static void reap(pid_t pid)
{
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_watch_ends_by_its_time_and_by_cancel)
{
    char fw[40], other[40];
    json_decref(watch_start(make_json("{s:i}", "timeout_seconds", 1), fw));
    json_decref(watch_start(NULL, other));
    pid_t first = follow_to_end(fw, "finished", "watch_timeout"),
          second = follow_to_end(other, "cancelled", "cancelled_by_client");
    reap(first);
    json_auto_t *again = watch_cancel(fw);
    ck_assert(!member_flag(again, "cancelled"));
    ck_assert_str_eq(member_text(again, "state"), "finished");
    json_auto_t *ended = watch_cancel(other);
    ck_assert(member_flag(ended, "cancelled"));
    reap(second);
    json_auto_t *status = watch_status(fw);
    ck_assert(json_is_string(json_object_get(status, "finished_at")));
    ck_assert(json_is_null(json_object_get(status, "error")));
}
END_TEST

START_TEST(a_watched_folder_may_go)
{
    char fw[40];
    watch_run("mkdir -p a/b");
    json_decref(watch_start(make_json("{s:s}", "path", "a/b"), fw));
    pid_t follower = follow_to_end(fw, "finished", "watched_path_removed");
    watch_run("sleep 0.3; rm -r a");
    reap(follower);
    json_auto_t *page = watch_page(fw, 0, 0);
    const json_t *event = json_array_get(json_object_get(page, "events"), 0);
    ck_assert_str_eq(member_text(event, "type"), "remove");
    ck_assert_str_eq(member_text(event, "path"), "a/b");
}
END_TEST

static const char *record_path(void)
{
    static char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    return path;
}

START_TEST(a_watch_ends_with_its_workspace)
{
    char fw[40];
    json_decref(watch_start(NULL, fw));
    watch_run("touch f");
    pid_t follower = follow_to_end(fw, "failed", "lost: workspace stopped");
    sleep_ms(300);
    json_decref(ws_post("stop", NULL));
    reap(follower);
    json_auto_t *page = watch_page(fw, 0, 20); /* what it saw stays, and nothing is started for that */
    ck_assert_uint_ge(json_array_size(json_object_get(page, "events")), 1);
    ck_assert_ptr_nonnull(strstr(member_text(page, "error"), "lost"));
    json_auto_t *ended = watch_cancel(fw);
    ck_assert(!member_flag(ended, "cancelled"));
    json_auto_t *record = api(the, 200, "GET", record_path(), NULL);
    ck_assert_str_eq(member_text(record, "state"), "stopped");
    json_decref(watch_start(NULL, fw)); /* this starts it again */
}
END_TEST

START_TEST(a_killed_keeper_loses_its_watches)
{
    char fw[40];
    json_decref(watch_start(NULL, fw));
    watch_run("touch f");
    pid_t follower = follow_to_end(fw, "failed", "lost: the gateway's process for this workspace died");
    sleep_ms(300);
    ck_assert_uint_ge(instance_signal(the, "keep", SIGKILL), 1);
    reap(follower);
}
END_TEST

START_TEST(a_command_that_kills_the_watcher_ends_the_watch)
{
    char fw[40];
    json_decref(watch_start(NULL, fw));
    pid_t follower = follow_to_end(fw, "failed", "lost: the process that watched was ended");
    sleep_ms(200);
    struct exec_log log;
    exec_run_command(the, ws, "kill -9 -1", &log);
    exec_log_clear(&log);
    reap(follower);
    json_decref(watch_start(NULL, fw));
    watch_run("mkdir new");
    watch_told_once(fw, "new");
}
END_TEST

START_TEST(workers_may_die_under_a_poll)
{
    char fw[40], ex[40];
    json_decref(watch_start(NULL, fw));
    pid_t follower = follow_to_end(fw, "cancelled", "cancelled_by_client");
    sleep_ms(300);
    exec_start_command(the, ws, "sleep 1; touch a; sleep 1; touch b", ex);
    ck_assert_uint_ge(instance_signal(the, "serve", SIGKILL), 1);
    long long until = now_ms() + 20000;
    for (bool up = false; !up && now_ms() < until; sleep_ms(100)) {
        struct answer a = http_send(the, "GET", "/healthz", NULL);
        up = a.status == 200;
        answer_clear(&a);
    }
    struct heard t = { .cursor = 0 };
    snprintf(t.fw, sizeof t.fw, "%s", fw);
    heard_wait(&t, "create b");
    ck_assert(heard_has(&t, "create a"));
    heard_end(&t);
    json_decref(watch_cancel(fw));
    reap(follower);
}
END_TEST

/* Both workers wait for the same, and for different cursors. */
START_TEST(every_waiting_client_is_told)
{
    enum { CLIENTS = 24 };
    char fw[40];
    pid_t clients[CLIENTS];
    json_decref(watch_start(make_json("{s:[s]}", "event_types", "create"), fw));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = fork();
        if (clients[i] == 0) {
            json_auto_t *page = watch_page(fw, 0, 20);
            _exit(json_array_size(json_object_get(page, "events")) >= 1 ? 0 : 1);
        }
    }
    sleep_ms(800);
    long long begun = now_ms();
    watch_run("touch now");
    for (int i = 0; i < CLIENTS; i++)
        reap(clients[i]);
    ck_assert_int_lt(now_ms() - begun, 5000);
}
END_TEST

START_TEST(other_principals_watches_do_not_exist)
{
    char fw[40], rest[200];
    json_decref(watch_start(NULL, fw));
    snprintf(rest, sizeof rest, "file-watches/%s/events", fw);
    char mine[6000];
    snprintf(mine, sizeof mine, "%s", ws_path(rest));
    char other[40];
    workspace_create(the, NULL, other); /* of the same principal: the watch is another workspace's */
    char kept[40];
    snprintf(kept, sizeof kept, "%s", ws);
    snprintf(ws, sizeof ws, "%s", other);
    ws_refused(404, "not known", "GET", rest, NULL);
    snprintf(ws, sizeof ws, "%s", kept);
    json_decref(api(the, 200, "GET", mine, NULL));
    workspace_terminate(the, other);
    api_refused(the, 404, "", "GET", "/api/workspaces/ws-00000000000000000000000000000000/file-watches",
                NULL);
}
END_TEST

/* ---- tools ---- */

START_TEST(the_same_as_tools)
{
    json_auto_t *started =
        tool_call("workspace_file_watch_start", make_json("{s:s, s:s}", "workspace_id", ws, "path", "."));
    const char *fw = member_text(json_object_get(started, "structuredContent"), "watch_id");
    ck_assert_ptr_nonnull(fw);
    watch_run("touch f");
    json_auto_t *page =
        tool_call("workspace_file_watch_events",
                  make_json("{s:s, s:s, s:i}", "workspace_id", ws, "watch_id", fw, "wait_seconds", 10));
    const json_t *events = json_object_get(json_object_get(page, "structuredContent"), "events");
    ck_assert_str_eq(member_text(json_array_get(events, 0), "path"), "f");
    json_auto_t *list = tool_call("workspace_file_watch_list", make_json("{s:s}", "workspace_id", ws));
    ck_assert_int_eq(json_array_size(json_object_get(json_object_get(list, "structuredContent"), "result")),
                     1);
    json_auto_t *ended =
        tool_call("workspace_file_watch_cancel", make_json("{s:s, s:s}", "workspace_id", ws, "watch_id", fw));
    ck_assert(member_flag(json_object_get(ended, "structuredContent"), "cancelled"));
    json_auto_t *status =
        tool_call("workspace_file_watch_status", make_json("{s:s, s:s}", "workspace_id", ws, "watch_id", fw));
    ck_assert_str_eq(member_text(json_object_get(status, "structuredContent"), "state"), "cancelled");
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", NULL };
    Suite *suite = suite_create("watch_ends");
    TCase *tests = tcase_create("watch_ends");
    tcase_add_checked_fixture(tests, ws_make, ws_end);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_watch_ends_by_its_time_and_by_cancel);
    tcase_add_test(tests, a_watched_folder_may_go);
    tcase_add_test(tests, a_watch_ends_with_its_workspace);
    tcase_add_test(tests, a_killed_keeper_loses_its_watches);
    tcase_add_test(tests, a_command_that_kills_the_watcher_ends_the_watch);
    tcase_add_test(tests, workers_may_die_under_a_poll);
    tcase_add_test(tests, every_waiting_client_is_told);
    tcase_add_test(tests, other_principals_watches_do_not_exist);
    tcase_add_test(tests, the_same_as_tools);
    suite_add_tcase(suite, tests);
    return suite_main(suite, environment);
}
