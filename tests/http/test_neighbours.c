/* One workspace takes all that it can get of what the kernel counts for a user or for everybody: the gateway
 * goes on, and so do the other workspaces. Unprivileged, all sandboxes are one user of the kernel's: one that
 * nothing else on the machine is, since it goes short of things (AS=61234). */
#include "tests/support/inside.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char greedy[40], other[40];

static void make_workspaces(void)
{
    workspace_create(the, NULL, greedy);
    workspace_create(the, NULL, other);
    inside_compile(the, greedy, "greedy");
    inside_compile(the, other, "greedy");
}

static void end_workspaces(void)
{
    workspace_terminate(the, greedy);
    workspace_terminate(the, other);
}

static bool is_shared_user(void)
{
    const char *as = getenv("AS");
    return as && *as;
}

/* With what is said where it is taken from everybody of the same kernel user, since nothing bounds it there.
 */
static const struct {
    const char *thing, *shared_loss;
} things[] = {
    { "inotify", NULL },
    { "inotify-watches", NULL },
    { "fanotify", NULL },
    { "pipes", NULL }, /* they become shorter */
    { "signals", NULL },
    { "timers", NULL },
    { "queues", NULL },
    { "terminals", NULL },
    { "passed", "no passed: Too many references: cannot splice\n" },
    { "files", NULL },
    { "memory", NULL },
    { "messages", NULL },
};

static void check_gateway_serves(void)
{
    char fresh[40];
    struct exec_log log;
    inside_expect(the, other, "seq 3", "1\n2\n3\n");
    exec_run(the, other, make_json("{s:s, s:b}", "command", "tty", "pty", 1), &log);
    ck_assert_str_eq(log.out, "/dev/pts/0\r\n");
    exec_log_clear(&log);
    workspace_create(the, NULL, fresh);
    inside_expect(the, fresh, "head -c 300000 /dev/zero | wc -c", "300000\n");
    workspace_terminate(the, fresh);
}

START_TEST(nobody_else_goes_short)
{
    char command[64], ex[40];
    struct exec_log log;
    exec_run_command(the, greedy, "pkill -9 -x greedy; true", &log); /* of a test that failed */
    exec_log_clear(&log);
    snprintf(command, sizeof command, "~/greedy %s", things[_i].thing);
    exec_start_command(the, greedy, command, ex);
    exec_wait_output(the, greedy, ex, "taken ", 60000);
    check_gateway_serves();
    exec_run_command(the, other, "~/greedy", &log);
    const char *loss = is_shared_user() ? things[_i].shared_loss : NULL;
    ck_assert_msg(strcmp(log.out, loss ? loss : "all there\n") == 0, "%s while it is taken: %s",
                  things[_i].thing, log.out);
    exec_log_clear(&log);
    exec_send(the, greedy, ex, "", true);
    exec_follow(the, greedy, ex, 30000, &log);
    fprintf(stderr, "%s", log.out);
    exec_log_clear(&log);
}
END_TEST

/* ---- watches of epoll, which only the kernel's user bounds ---- */

/* Without the web server: what the command prints, "" where the call fails. */
static void call_exec(const struct instance *i, const char *ws, const char *command, char *text, size_t size)
{
    char line[4096];
    snprintf(line, sizeof line,
             "%s call executeInRemoteWorkspace '{\"workspace_id\": \"%s\", \"command\": \"%s\"}' --state %s",
             build_path("workspace-fcgi"), ws, command, instance_state(i));
    FILE *out = popen(line, "re");
    size_t length = out ? fread(line, 1, sizeof line - 1, out) : 0;
    line[length] = '\0';
    int status = out ? pclose(out) : -1;
    json_auto_t *answer = status == 0 ? json_loads(line, 0, NULL) : NULL;
    const char *printed = json_string_value(json_object_get(answer, "stdout"));
    snprintf(text, size, "%s", printed ? printed : "");
}

static size_t count_processes(const struct instance *i, const char *subcommand)
{
    pid_t pids[64];
    return instance_processes(i, subcommand, pids, 64);
}

static void expect_calls_to_work(const struct instance *i, const char *ws)
{
    char text[200];
    for (int k = 0; k < 5; k++) {
        call_exec(i, ws, "seq 3", text, sizeof text);
        ck_assert_str_eq(text, "1\n2\n3\n");
    }
}

/* An installation of its own: the web server of the same user has to do without watches and need not come to
 * itself again. Warden, keepers and workers do not die of it. */
START_TEST(no_process_dies_for_want_of_watches)
{
    char ex[40], hog[40], text[200] = "";
    const char *as = getenv("AS");
    struct instance_options options = { .unprivileged = true, .uid = as ? (uid_t)strtoul(as, NULL, 10) : 0 };
    struct instance *own = instance_start(&options);
    workspace_create(own, NULL, hog);
    workspace_create(own, NULL, other);
    inside_compile(own, hog, "greedy");
    inside_compile(own, other, "greedy");
    exec_start(own, hog, make_json("{s:s, s:i}", "command", "~/greedy epoll", "timeout_seconds", 50), ex);
    for (long long deadline = now_ms() + 45000; !strstr(text, "no epoll"); sleep_ms(200)) {
        ck_assert_msg(now_ms() < deadline, "not all watches could be taken: %s", text);
        call_exec(own, other, "~/greedy", text, sizeof text);
    }
    expect_calls_to_work(own, other);
    ck_assert_uint_eq(count_processes(own, "keep"), 2);
    ck_assert_uint_eq(count_processes(own, "warden"), 1);
    ck_assert_uint_ge(count_processes(own, "serve"), 2);
    call_exec(own, hog, "pkill -9 -x greedy; echo ended", text, sizeof text);
    ck_assert_str_eq(text, "ended\n");
    expect_calls_to_work(own, other);
    instance_stop(own);
}
END_TEST

START_TEST(another_user_has_watches_left)
{
    char ex[40];
    struct exec_log log;
    if (is_shared_user())
        return;
    exec_start_command(the, greedy, "~/greedy epoll", ex);
    exec_wait_output(the, greedy, ex, "taken ", 60000);
    inside_expect(the, other, "~/greedy", "all there\n");
    check_gateway_serves();
    exec_send(the, greedy, ex, "", true);
    exec_follow(the, greedy, ex, 60000, &log);
    exec_log_clear(&log);
}
END_TEST

int main(void)
{
    if (geteuid() != 0) {
        printf("SKIP: without root this would take things from all programs of this user\n");
        return 77;
    }
    Suite *s = suite_create("neighbours");
    TCase *c = tcase_create("a greedy workspace and another");
    tcase_add_unchecked_fixture(c, make_workspaces, end_workspaces);
    tcase_set_timeout(c, 90);
    tcase_add_loop_test(c, nobody_else_goes_short, 0, (int)(sizeof things / sizeof things[0]));
    tcase_add_test(c, another_user_has_watches_left);
    suite_add_tcase(s, c);
    if (is_shared_user())
        suite_add(s, no_process_dies_for_want_of_watches, 120);
    return suite_main(s, NULL);
}
