/* One workspace takes all that it can get of what the kernel counts for a user or for everybody: the gateway
 * goes on, and so do the other workspaces. Unprivileged, all sandboxes are one user of the kernel's: one that
 * nothing else on the machine is, since it goes short of things (AS=61234, or the next that is free). */
#include "tests/support/fcgi.h"
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
    { "epoll", "no epoll: No space left on device\n" },
};

/* Millions of watches, on a machine with other work. */
enum { TAKING_MS = 150000, TEST_S = 300 };

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
    exec_wait_output(the, greedy, ex, "taken ", TAKING_MS);
    check_gateway_serves();
    exec_run_command(the, other, "~/greedy", &log);
    const char *loss = is_shared_user() ? things[_i].shared_loss : NULL;
    ck_assert_msg(strcmp(log.out, loss ? loss : "all there\n") == 0, "%s while it is taken: %s",
                  things[_i].thing, log.out);
    exec_log_clear(&log);
    exec_send(the, greedy, ex, "", true);
    exec_follow(the, greedy, ex, 60000, &log);
    fprintf(stderr, "%s", log.out);
    exec_log_clear(&log);
}
END_TEST

/* ---- watches of epoll, which only the kernel's user bounds ---- */

/* Without the web server, who = words that set the user; NULL where the call fails. */
static json_t *call(const char *who, const struct instance *i, const char *operation, json_t *in)
{
    char line[4096];
    _cleanup_free_ char *arguments = json_dumps(in, JSON_COMPACT);
    json_decref(in);
    snprintf(line, sizeof line, "%s%s call %s '%s' --state %s", who, build_path("workspace-fcgi"), operation,
             arguments, instance_state(i));
    FILE *out = popen(line, "re");
    size_t length = out ? fread(line, 1, sizeof line - 1, out) : 0;
    line[length] = '\0';
    return out && pclose(out) == 0 ? json_loads(line, JSON_DECODE_ANY, NULL) : NULL;
}

/* What the command prints, "" where the call fails. */
static void call_exec(const char *who, const struct instance *i, const char *ws, const char *command,
                      char *text, size_t size)
{
    json_t *in = make_json("{s:s, s:s}", "workspace_id", ws, "command", command);
    json_auto_t *answer = call(who, i, "executeInRemoteWorkspace", in);
    const char *printed = json_string_value(json_object_get(answer, "stdout"));
    snprintf(text, size, "%s", printed ? printed : "");
}

/* Straight to the workers' socket. */
static int send_exec(const struct instance *i, const char *ws, const char *command)
{
    char path[256], uri[128], body[256], length[24], bearer[80];
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    snprintf(path, sizeof path, "%s/fcgi.sock", instance_state(i));
    snprintf(uri, sizeof uri, "/api/workspaces/%s/exec", ws);
    snprintf(body, sizeof body, "{\"command\": \"%s\"}", command);
    snprintf(length, sizeof length, "%zu", strlen(body));
    snprintf(bearer, sizeof bearer, "Bearer %s", instance_token(i));
    const char *const pairs[] = {
        "CONTENT_LENGTH", length, "CONTENT_TYPE", "application/json", "HTTP_AUTHORIZATION", bearer, NULL
    };
    fcgi_add_begin(&out, 1, 1, false);
    fcgi_add_params(&out, 1, "POST", uri, pairs);
    fcgi_add_stdin(&out, 1, body, strlen(body));
    int fd = fcgi_connect(path);
    ck_assert_int_ge(fd, 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    return fd;
}

static void expect_answer(int fd, const char *printed)
{
    struct fcgi_answer answer = { .text = BUFFER_INIT };
    ck_assert_msg(fcgi_read(fd, 1, &answer), "a worker gave no answer");
    json_auto_t *json = answer.body ? json_loadb(answer.body, answer.body_length, 0, NULL) : NULL;
    const char *got = json_string_value(json_object_get(json, "stdout"));
    ck_assert_msg(got && strcmp(got, printed) == 0, "a worker answered %d, %s", answer.status,
                  buffer_text(&answer.text));
    fcgi_answer_free(&answer);
    close(fd);
}

/* Warden, keepers and workers. */
struct cast {
    pid_t pids[3][16];
    size_t counts[3];
};

static struct cast find_cast(const struct instance *i)
{
    static const char *const names[] = { "warden --state", "keep", "serve" };
    struct cast cast = { 0 };
    for (int k = 0; k < 3; k++)
        cast.counts[k] = instance_processes(i, names[k], cast.pids[k], 16);
    return cast;
}

enum { AT_ONCE = 8 };

static void expect_calls_to_work(const char *owner, const struct instance *i, const char *ws)
{
    char text[200];
    int fds[AT_ONCE];
    for (int k = 0; k < 6; k++) {
        call_exec(k % 2 ? owner : "", i, ws, "seq 3", text, sizeof text);
        ck_assert_str_eq(text, "1\n2\n3\n");
    }
    for (int k = 0; k < AT_ONCE; k++)
        fds[k] = send_exec(i, ws, "sleep 0.2; seq 3");
    for (int k = 0; k < AT_ONCE; k++)
        expect_answer(fds[k], "1\n2\n3\n");
}

/* The warden and a keeper that begins now. */
static void expect_workspaces_to_begin_and_end(const char *who, const struct instance *i)
{
    char text[200];
    json_auto_t *made = call(who, i, "createRemoteWorkspace", make_json("{}"));
    const char *ws = json_string_value(json_object_get(made, "workspace_id"));
    ck_assert_ptr_nonnull(ws);
    call_exec(who, i, ws, "seq 3", text, sizeof text);
    ck_assert_str_eq(text, "1\n2\n3\n");
    json_auto_t *ended = call(who, i, "terminateRemoteWorkspace", make_json("{s:s}", "workspace_id", ws));
    ck_assert_ptr_nonnull(ended);
}

/* They do not die of it, nobody starts another of them, and they answer. */
START_TEST(no_process_dies_for_want_of_watches)
{
    char ex[40], text[200] = "", owner[80];
    const char *as = getenv("AS");
    struct cast before = find_cast(the), after;
    ck_assert_uint_eq(before.counts[0], 1);
    snprintf(owner, sizeof owner, "setpriv --clear-groups --reuid %s --regid %s ", as, as);
    exec_start_command(the, greedy, "~/greedy epoll", ex);
    for (long long deadline = now_ms() + TAKING_MS; !strstr(text, "no epoll"); sleep_ms(200)) {
        ck_assert_msg(now_ms() < deadline, "not all watches could be taken: %s", text);
        call_exec(owner, the, other, "~/greedy", text, sizeof text);
    }
    expect_calls_to_work(owner, the, other);
    expect_workspaces_to_begin_and_end(owner, the);
    call_exec(owner, the, other, "~/greedy", text, sizeof text);
    ck_assert_msg(strstr(text, "no epoll"), "some watches were left meanwhile: %s", text);
    after = find_cast(the);
    ck_assert_mem_eq(&before, &after, sizeof before);
    call_exec(owner, the, greedy, "pkill -9 -x greedy; echo ended", text, sizeof text);
    ck_assert_str_eq(text, "ended\n");
    expect_calls_to_work(owner, the, other);
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
    tcase_set_timeout(c, TEST_S);
    tcase_add_loop_test(c, nobody_else_goes_short, 0, (int)(sizeof things / sizeof things[0]));
    if (is_shared_user())
        tcase_add_test(c, no_process_dies_for_want_of_watches);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
