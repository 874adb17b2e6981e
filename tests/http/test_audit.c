/* The audit log of an installation: every call and change of state has its line, no secret has a place in
 * it, and strangers cannot fill it. */
#include "tests/support/suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SECRET "hunter2-hunter2-hunter2"

/* A worker's lines follow its answers by some milliseconds. */
static char *read_log(void)
{
    char path[300];
    sleep_ms(100);
    snprintf(path, sizeof path, "%s/audit/audit.log", instance_state(the));
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    char *text = calloc(1, 4 << 20);
    ck_assert_uint_lt(fread(text, 1, (4 << 20) - 1, file), (4 << 20) - 1);
    fclose(file);
    return text;
}

/* The last line with these members; fails the test where there is none. */
static json_t *line_with(const char *name, const char *value, const char *name2, const char *value2)
{
    json_t *found = NULL;
    char *text = read_log(), *state = NULL;
    for (char *one = strtok_r(text, "\n", &state); one; one = strtok_r(NULL, "\n", &state)) {
        json_t *line = json_loads(one, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(json_is_object(line), "%s", one);
        const char *a = json_string_value(json_object_get(line, name));
        const char *b = name2 ? json_string_value(json_object_get(line, name2)) : NULL;
        if (a && strcmp(a, value) == 0 && (!name2 || (b && strcmp(b, value2) == 0))) {
            json_decref(found);
            found = line;
        } else {
            json_decref(line);
        }
    }
    ck_assert_msg(found != NULL, "no line has %s %s, %s %s:\n%s", name, value, name2, value2, text);
    free(text);
    return found;
}

static size_t count_of(const char *part)
{
    char *text = read_log();
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    free(text);
    return count;
}

START_TEST(calls_and_changes_have_their_lines)
{
    char ws[40], ex[40], path[160];
    workspace_create(the, make_json("{s:s, s:{s:s}}", "name", "told", "env", "PASSWORD", SECRET), ws);
    json_auto_t *created = line_with("kind", "call", "workspace_id", ws);
    ck_assert_str_eq(member_text(created, "operation"), "createRemoteWorkspace");
    ck_assert_str_eq(member_text(created, "principal"), "owner");
    ck_assert_str_eq(member_text(created, "outcome"), "done");
    ck_assert_str_eq(member_text(created, "peer"), "127.0.0.1");
    ck_assert_int_eq(member_number(created, "status"), 200);
    const json_t *arguments = json_object_get(created, "arguments");
    ck_assert_str_eq(member_text(json_object_get(arguments, "env"), "PASSWORD"), "(secret)");
    json_decref(line_with("event", "workspace_created", "workspace_id", ws));
    json_auto_t *running = line_with("event", "workspace_changed", "workspace_id", ws);
    ck_assert_str_eq(member_text(running, "state"), "running");

    exec_start_command(the, ws, "read -s p; : https://u:" SECRET "@h/; exit 3", ex);
    exec_send(the, ws, ex, SECRET "\n", true);
    struct exec_log log;
    exec_follow(the, ws, ex, 20000, &log);
    exec_log_clear(&log);
    json_auto_t *started = line_with("event", "exec_started", "exec_id", ex);
    ck_assert_str_eq(member_text(started, "principal"), "owner");
    json_auto_t *ended = line_with("event", "exec_ended", "exec_id", ex);
    ck_assert_int_eq(member_number(ended, "returncode"), 3);
    json_auto_t *typed = line_with("operation", "sendRealtimeWorkspaceExecInput", "exec_id", ex);
    ck_assert_str_eq(member_text(json_object_get(typed, "arguments"), "data"), "(24 bytes)");
    json_auto_t *start = line_with("operation", "startRealtimeWorkspaceExec", "exec_id", ex);
    ck_assert_str_eq(member_text(json_object_get(start, "arguments"), "command"),
                     "read -s p; : https://***@h/; exit 3");

    static const char *const waiting[][2] = { { "exec", "executeInRemoteWorkspace" },
                                              { "bash", "runWorkspaceBash" } };
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "/api/workspaces/%s/%s", ws, waiting[k][0]);
        json_decref(api(the, 200, "POST", path, make_json("{s:s}", "command", "true")));
        json_auto_t *ran = line_with("operation", waiting[k][1], "workspace_id", ws);
        const json_t *told = json_object_get(ran, "arguments");
        ck_assert_msg(json_object_size(told) == 1 && json_object_get(told, "command"),
                      "%s: defaults are told", waiting[k][0]);
    }
    snprintf(path, sizeof path, "/api/workspaces/%s/file", ws);
    json_decref(api(the, 200, "POST", path, make_json("{s:s, s:s}", "filepath", "a.txt", "content", SECRET)));
    json_auto_t *written = line_with("operation", "writeWorkspaceFile", "workspace_id", ws);
    ck_assert_str_eq(member_text(json_object_get(written, "arguments"), "content"), "(23 bytes)");
    workspace_terminate(the, ws);
    json_decref(line_with("event", "workspace_removed", "workspace_id", ws));
    ck_assert_uint_eq(count_of(SECRET), 0);
    ck_assert_uint_eq(count_of(instance_token(the)), 0);
}
END_TEST

static void wait_for_line(const char *part)
{
    for (int i = 0; i < 100 && count_of(part) == 0; i++)
        sleep_ms(100);
    ck_assert_msg(count_of(part) > 0, "there is no line with %s", part);
}

START_TEST(stops_and_losses_have_their_lines)
{
    char ws[40], ex[40], path[160], part[200];
    workspace_create(the, NULL, ws);
    snprintf(path, sizeof path, "/api/workspaces/%s/stop", ws);
    exec_start_command(the, ws, "sleep 100", ex);
    json_decref(api(the, 200, "POST", path, json_object()));
    json_auto_t *stopped = line_with("event", "workspace_changed", "workspace_id", ws);
    ck_assert_str_eq(member_text(stopped, "state"), "stopped");
    ck_assert_str_eq(member_text(stopped, "was"), "running");
    ck_assert_str_eq(member_text(stopped, "reason"), "workspace stopped");
    json_auto_t *ended = line_with("event", "exec_ended", "exec_id", ex);
    ck_assert_str_eq(member_text(ended, "reason"), "lost: workspace stopped");
    exec_start_command(the, ws, "sleep 100", ex); /* starts it again */
    ck_assert_uint_ge(instance_signal(the, "keep", SIGKILL), 1);
    snprintf(part, sizeof part, "\"event\":\"exec_ended\",\"workspace_id\":\"%s\",\"exec_id\":\"%s\"", ws,
             ex);
    wait_for_line(part);
    json_auto_t *lost = line_with("event", "exec_ended", "exec_id", ex);
    ck_assert_str_eq(member_text(lost, "state"), "failed");
    ck_assert_ptr_nonnull(strstr(member_text(lost, "reason"), "lost: the gateway's process"));
    workspace_terminate(the, ws);
}
END_TEST

START_TEST(refusals_have_their_lines)
{
    char ws[40], path[160];
    workspace_create(the, NULL, ws);
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    json_decref(
        api(the, 422, "POST", path,
            make_json("{s:s, s:i, s:s}", "command", "a\nb\x1b[1m", "timeout_seconds", 0, SECRET, SECRET)));
    json_auto_t *line = line_with("operation", "executeInRemoteWorkspace", "workspace_id", ws);
    ck_assert_str_eq(member_text(line, "outcome"), "ValidationError");
    ck_assert_int_eq(member_number(line, "status"), 422);
    ck_assert_str_eq(member_text(json_object_get(line, "arguments"), "command"), "a\nb\x1b[1m");
    ck_assert_uint_eq(count_of("\x1b"), 0);
    json_decref(api(the, 422, "POST", path, make_json("{s:s, s:s}", "command", "true", SECRET, SECRET)));
    json_auto_t *strange = line_with("operation", "executeInRemoteWorkspace", "workspace_id", ws);
    ck_assert_str_eq(member_text(strange, "message"), "a name in it is not a known member");
    snprintf(path, sizeof path, "/api/workspaces/%s/file?filepath=%%1b%%5b31m", ws);
    json_decref(api(the, 404, "GET", path, NULL));
    json_auto_t *missing = line_with("operation", "readWorkspaceFile", "workspace_id", ws);
    ck_assert_int_eq(member_number(missing, "status"), 404);
    workspace_terminate(the, ws);
}
END_TEST

START_TEST(tools_have_their_lines)
{
    static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
                               "\"read_file\",\"arguments\":{\"filepath\":\"nothing\"}}}";
    static const char wrong[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
        "\"write_file\",\"arguments\":{\"content\":\"" SECRET "\"}}}";
    struct http_options o = { .body = body, .unchecked = true };
    struct answer a = http_send(the, "POST", "/mcp", &o);
    answer_clear(&a);
    json_auto_t *line = line_with("operation", "readWorkspaceFile", "form", "mcp");
    ck_assert_str_eq(member_text(line, "outcome"), "NotFoundError");
    o.body = wrong;
    a = http_send(the, "POST", "/mcp", &o);
    answer_clear(&a);
    json_auto_t *refused = line_with("operation", "writeWorkspaceFile", "form", "mcp");
    ck_assert_str_eq(member_text(refused, "outcome"), "ValidationError");
    ck_assert_uint_eq(count_of(SECRET), 0);
}
END_TEST

START_TEST(operators_leave_their_lines)
{
    char command[600];
    snprintf(command, sizeof command, "%s token add carol --scope read --state %s 2>/dev/null >/dev/null",
             build_path("workspace-fcgi"), instance_state(the));
    ck_assert_int_eq(system(command), 0);
    json_auto_t *added = line_with("event", "token_added", "principal", "carol");
    ck_assert_str_eq(member_text(added, "from"), "token");
    snprintf(command, sizeof command, "%s token revoke %s --state %s 2>/dev/null",
             build_path("workspace-fcgi"), member_text(added, "id"), instance_state(the));
    ck_assert_int_eq(system(command), 0);
    json_decref(line_with("event", "token_revoked", "id", member_text(added, "id")));
    ck_assert_uint_eq(count_of("wsp_"), 0);
}
END_TEST

/* Lines that `call` left, run with this setting. */
static size_t lines_of_call(const char *level, const char *operation, const char *arguments)
{
    char command[700];
    size_t before = count_of("\"from\":\"call\"");
    snprintf(command, sizeof command, "%s call %s '%s' --set WORKSPACE_AUDIT=%s --state %s >/dev/null 2>&1",
             build_path("workspace-fcgi"), operation, arguments, level, instance_state(the));
    ck_assert_int_eq(system(command), 0);
    return count_of("\"from\":\"call\"") - before;
}

START_TEST(the_setting_says_what_is_told)
{
    char ws[40], make[100];
    workspace_create(the, NULL, ws);
    snprintf(make, sizeof make, "{\"workspace_id\": \"%s\", \"path\": \"d\"}", ws);
    ck_assert_uint_eq(lines_of_call("all", "listRemoteWorkspaces", "{}"), 1);
    ck_assert_uint_eq(lines_of_call("changes", "listRemoteWorkspaces", "{}"), 0);
    ck_assert_uint_eq(lines_of_call("changes", "createWorkspaceDirectory", make), 1);
    ck_assert_uint_eq(lines_of_call("off", "createWorkspaceDirectory", make), 0);
    workspace_terminate(the, ws);
}
END_TEST

/* The worker that is ended gives what it holds back to the file first. */
START_TEST(no_line_is_lost_when_workers_end)
{
    struct http_options o = { .unchecked = true };
    size_t before = count_of("\"operation\":\"listRemoteWorkspaces\"");
    for (int i = 0; i < 50; i++) {
        struct answer a = http_send(the, "GET", "/api/workspaces", &o);
        ck_assert_int_eq(a.status, 200);
        answer_clear(&a);
    }
    ck_assert_uint_ge(instance_signal(the, "serve", SIGHUP), 1);
    sleep_ms(500);
    ck_assert_uint_eq(count_of("\"operation\":\"listRemoteWorkspaces\"") - before, 50);
}
END_TEST

START_TEST(strangers_do_not_fill_it)
{
    struct http_options o = { .token = "guess-" SECRET, .unchecked = true };
    for (int i = 0; i < 300; i++) {
        struct answer a = http_send(the, i % 2 ? "GET" : "POST", i % 2 ? "/api/workspaces" : "/mcp", &o);
        ck_assert_int_eq(a.status, 401);
        answer_clear(&a);
    }
    size_t told = count_of("\"kind\":\"stranger\"");
    ck_assert_msg(told >= 20 && told <= 2 * 22, "%zu lines", told);
    json_auto_t *line = line_with("kind", "stranger", NULL, NULL);
    ck_assert(member_flag(line, "token_given"));
    ck_assert_int_eq(member_number(line, "status"), 401);
    ck_assert_uint_eq(count_of(SECRET), 0);
}
END_TEST

START_TEST(a_sandbox_does_not_reach_it)
{
    char ws[40], command[700], path[300];
    struct stat status;
    snprintf(path, sizeof path, "%s/audit/audit.log", instance_state(the));
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0600);
    workspace_create(the, NULL, ws);
    snprintf(command, sizeof command, "cat %s; ls %s/audit; echo x >> %s; find / -name audit.log 2>/dev/null",
             path, instance_state(the), path);
    struct exec_log log;
    exec_run_command(the, ws, command, &log);
    ck_assert_str_eq(log.out, "");
    exec_log_clear(&log);
    workspace_terminate(the, ws);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("audit");
    suite_add(suite, calls_and_changes_have_their_lines, 60);
    suite_add(suite, stops_and_losses_have_their_lines, 60);
    suite_add(suite, refusals_have_their_lines, 30);
    suite_add(suite, tools_have_their_lines, 30);
    suite_add(suite, operators_leave_their_lines, 30);
    suite_add(suite, the_setting_says_what_is_told, 60);
    suite_add(suite, no_line_is_lost_when_workers_end, 60);
    suite_add(suite, strangers_do_not_fill_it, 60);
    suite_add(suite, a_sandbox_does_not_reach_it, 60);
    return suite_main(suite, NULL);
}
