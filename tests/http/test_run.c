/* `run` as an operator meets it: whose state directory it may be, what it says and when, which token is in
 * force, which warden runs, and what a killed one leaves to the next. Root only: it is about becoming others.
 */
#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "tests/support/instance.h"
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], state[80], log_path[80];
static struct instance *the;

static void setup(void)
{
    snprintf(folder, sizeof folder, "/tmp/wsf-run-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chmod(folder, 0755), 0);
    snprintf(state, sizeof state, "%s/state", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
}

static void teardown(void)
{
    io_remove_tree(AT_FDCWD, folder, NULL);
}

static void make_state(const char *owner, mode_t mode)
{
    const struct passwd *user = getpwnam(owner);
    ck_assert_int_eq(mkdir(state, 0700), 0);
    ck_assert_int_eq(chmod(state, mode), 0);
    ck_assert_int_eq(chown(state, user->pw_uid, user->pw_gid), 0);
}

static void start(void)
{
    struct instance_options options = { .state_dir = state, .log_path = log_path };
    the = instance_start(&options);
}

static bool log_has(const char *text)
{
    _cleanup_buffer_ struct buffer log = BUFFER_INIT;
    return io_read_file(AT_FDCWD, log_path, 1 << 20, &log, NULL) == 0 && strstr(buffer_text(&log), text);
}

static bool wait_for_log(const char *text)
{
    for (long long end = now_ms() + 10000; now_ms() < end; sleep_ms(20))
        if (log_has(text))
            return true;
    return false;
}

static uid_t uid_of(pid_t pid)
{
    char path[40];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
}

/* How many processes of that subcommand belong to the user. */
static size_t count_of(const char *subcommand, const char *name)
{
    pid_t pids[64];
    size_t all = instance_processes(the, subcommand, pids, 64), count = 0;
    for (size_t i = 0; i < all; i++)
        count += uid_of(pids[i]) == getpwnam(name)->pw_uid;
    return count;
}

/* The first worker answers for the installation; the second may still be on its way. */
static void check_workers_of(const char *name)
{
    for (long long deadline = now_ms() + 5000; count_of("serve", name) != 2 && now_ms() < deadline;)
        sleep_ms(20);
    ck_assert_uint_eq(count_of("serve", name), 2);
}

static void run_a_command(void)
{
    char ws[40];
    struct exec_log log;
    workspace_create(the, NULL, ws);
    exec_run_command(the, ws, "echo fine", &log);
    ck_assert_str_eq(log.out, "fine\n");
    exec_log_clear(&log);
    workspace_terminate(the, ws);
}

static void output_of(const char *line, char *ret, size_t size)
{
    FILE *out = popen(line, "re");
    ck_assert_ptr_nonnull(out);
    ret[fread(ret, 1, size - 1, out)] = '\0';
    pclose(out);
}

START_TEST(an_empty_directory_of_roots_is_given_to_the_user)
{
    make_state("root", 0700);
    start();
    check_workers_of("www-data");
    ck_assert_uint_eq(count_of("warden --state", "root"), 1);
    ck_assert_uint_eq(count_of("lighttpd", "www-data"), 1);
    run_a_command();
    ck_assert(wait_for_log("workspace-fcgi is ready"));
    instance_stop(the);
}
END_TEST

START_TEST(another_owner_is_whom_workers_and_lighttpd_become)
{
    make_state("games", 0700);
    start();
    check_workers_of("games");
    ck_assert_uint_eq(count_of("lighttpd", "games"), 1);
    ck_assert_uint_eq(count_of("serve", "www-data"), 0);
    run_a_command();
    instance_stop(the);
}
END_TEST

START_TEST(the_token_file_holds_the_one_in_force)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    char path[100];
    struct stat st;
    make_state("www-data", 0700);
    start();
    snprintf(path, sizeof path, "%s/token", state);
    ck_assert_int_eq(io_read_file(AT_FDCWD, path, 100, &text, NULL), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ck_assert_uint_eq(st.st_uid, getpwnam("www-data")->pw_uid);
    text.data[strcspn(buffer_text(&text), "\n")] = '\0';
    ck_assert_str_eq(text.data, instance_token(the));
    json_decref(api_as(the, text.data, 200, "GET", "/api/workspaces", NULL));
    instance_stop(the);
}
END_TEST

static pid_t begin_weak_warden(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(fd, STDERR_FILENO);
        execlp("setpriv", "setpriv", "--reuid", "www-data", "--regid", "www-data", "--clear-groups",
               build_path("workspace-fcgi"), "warden", "--state", state, NULL);
        _exit(127);
    }
    char path[100];
    snprintf(path, sizeof path, "%s/run/warden.sock", state);
    for (long long end = now_ms() + 5000; access(path, F_OK) != 0 && now_ms() < end;)
        sleep_ms(20);
    return pid;
}

START_TEST(a_weaker_warden_is_replaced_once)
{
    int status = -1;
    make_state("www-data", 0700);
    pid_t weak = begin_weak_warden();
    start();
    ck_assert_int_eq(waitpid(weak, &status, 0), weak);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count_of("warden --state", "root"), 1);
    ck_assert_uint_eq(count_of("warden --state", "www-data"), 0);
    run_a_command();
    ck_assert(log_has("gives way"));
    ck_assert(!log_has("starting it again"));
    /* one that comes later does not take the place of root's, and nobody starts again and again */
    weak = begin_weak_warden();
    ck_assert_int_eq(waitpid(weak, &status, 0), weak);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count_of("warden --state", "root"), 1);
    ck_assert(!log_has("starting it again"));
    instance_stop(the);
}
END_TEST

static pid_t begin_run(const char *port)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        setenv("PORT", port, 1);
        setenv("HOST", "0.0.0.0", 1);
        execl(build_path("workspace-fcgi"), "workspace-fcgi", "run", "--state", state, NULL);
        _exit(127);
    }
    return pid;
}

/* lighttpd spools an upload whole, and not where the caller's TMPDIR says. */
START_TEST(uploads_come_where_the_users_tmpdir_is_closed)
{
    static const char *const environment[] = { "TMPDIR=/root", NULL };
    struct instance_options options = { .state_dir = state,
                                        .log_path = log_path,
                                        .environment = environment };
    size_t size = 3 << 20;
    char ws[40], path[200], left[140];
    struct stat status;
    _cleanup_free_ char *body = xcalloc(1, size + 1);
    make_state("www-data", 0700);
    snprintf(left, sizeof left, "%s/uploads", state);
    ck_assert_int_eq(mkdir(left, 0700), 0); /* root's, with something that a killed one left */
    snprintf(left, sizeof left, "%s/uploads/lighttpd-upload-abc", state);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, left, "x", 1, 0600, NULL), 0);
    the = instance_start(&options);
    ck_assert_int_ne(access(left, F_OK), 0);
    workspace_create(the, NULL, ws);
    memset(body, 'x', size);
    snprintf(path, sizeof path, "/api/workspaces/%s/raw?path=f", ws);
    struct http_options o = { .body = body, .content_type = "application/octet-stream", .unchecked = true };
    struct answer a = http_send(the, "PUT", path, &o);
    ck_assert_msg(a.status == 200, "%ld %s", a.status, a.body);
    answer_clear(&a);
    snprintf(path, sizeof path, "%s/uploads", state);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_uid, getpwnam("www-data")->pw_uid);
    ck_assert_uint_eq(status.st_mode & 0777, 0700);
    instance_stop(the);
}
END_TEST

/* lighttpd listens, the workers cannot open their store. */
START_TEST(it_is_not_ready_while_workers_cannot_start)
{
    char line[4600], port[16];
    int status;
    make_state("www-data", 0700);
    /* root's warden may read it all the same */
    snprintf(line, sizeof line, "%s token add x --state %s >%s/out 2>&1 && chmod 0 %s/state/data.mdb",
             build_path("workspace-fcgi"), state, folder, state);
    ck_assert_int_eq(system(line), 0);
    snprintf(port, sizeof port, "%d", 20000 + (int)(getpid() % 10000));
    pid_t run = begin_run(port);
    ck_assert(wait_for_log("the worker cannot start"));
    sleep_ms(3000);
    ck_assert(!log_has("is ready"));
    ck_assert(log_has("HOST=0.0.0.0 is not this machine alone"));
    kill(run, SIGTERM);
    ck_assert_int_eq(waitpid(run, &status, 0), run);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* What a killed run leaves behind ends by itself or is ended by the next one, on the same port. */
START_TEST(a_killed_run_is_followed_by_another)
{
    char port[16];
    make_state("www-data", 0700);
    snprintf(port, sizeof port, "%d", 20000 + (int)((getpid() + 5000) % 10000));
    for (int i = 0; i < 2; i++) {
        unlink(log_path);
        pid_t run = begin_run(port);
        ck_assert(wait_for_log("workspace-fcgi is ready"));
        kill(run, i == 0 ? SIGKILL : SIGTERM);
        ck_assert_int_eq(waitpid(run, NULL, 0), run);
    }
    char line[160];
    snprintf(line, sizeof line, "ps -eo args | grep -q '[s]tate %s'", state);
    for (long long end = now_ms() + 3000; system(line) == 0 && now_ms() < end;)
        sleep_ms(50);
    ck_assert_int_ne(system(line), 0);
}
END_TEST

/* A second run of the same directory is refused, and the first one's web server is not touched. */
START_TEST(a_second_run_is_refused_and_harms_nothing)
{
    char port[16], line[600], before[64], after[64];
    make_state("www-data", 0700);
    snprintf(port, sizeof port, "%d", 20000 + (int)((getpid() + 2000) % 10000));
    pid_t run = begin_run(port);
    ck_assert(wait_for_log("workspace-fcgi is ready"));
    snprintf(line, sizeof line, "pgrep -f '[l]ighttpd -D -f %s/' | tr '\\n' ' '", state);
    output_of(line, before, sizeof before);
    ck_assert_msg(*before, "%s", line);
    snprintf(line, sizeof line, "PORT=%d %s run --state %s 2>&1", atoi(port) + 1,
             build_path("workspace-fcgi"), state);
    char said[600];
    output_of(line, said, sizeof said);
    ck_assert_msg(strstr(said, "another server uses the socket"), "%s", said);
    snprintf(line, sizeof line, "pgrep -f '[l]ighttpd -D -f %s/' | tr '\\n' ' '", state);
    output_of(line, after, sizeof after);
    ck_assert_str_eq(before, after);
    kill(run, SIGTERM);
    ck_assert_int_eq(waitpid(run, NULL, 0), run);
}
END_TEST

/* A busy port: nothing that looks like a server stays behind. */
START_TEST(a_busy_port_leaves_no_socket)
{
    char path[300], line[600], said[600];
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    make_state("www-data", 0700);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(line, sizeof line, "HOST=127.0.0.1 PORT=%d %s run --state %s 2>&1", ntohs(address.sin_port),
             build_path("workspace-fcgi"), state);
    output_of(line, said, sizeof said);
    snprintf(path, sizeof path, "%s/fcgi.sock", state);
    ck_assert_msg(access(path, F_OK) != 0, "%s", said);
    close(fd);
}
END_TEST

int main(void)
{
    if (geteuid() != 0) {
        printf("SKIP: becoming other users needs root\n");
        return 77;
    }
    Suite *s = suite_create("run");
    TCase *c = tcase_create("run");
    tcase_set_timeout(c, 90);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, an_empty_directory_of_roots_is_given_to_the_user);
    tcase_add_test(c, another_owner_is_whom_workers_and_lighttpd_become);
    tcase_add_test(c, uploads_come_where_the_users_tmpdir_is_closed);
    tcase_add_test(c, the_token_file_holds_the_one_in_force);
    tcase_add_test(c, a_weaker_warden_is_replaced_once);
    tcase_add_test(c, it_is_not_ready_while_workers_cannot_start);
    tcase_add_test(c, a_killed_run_is_followed_by_another);
    tcase_add_test(c, a_second_run_is_refused_and_harms_nothing);
    tcase_add_test(c, a_busy_port_leaves_no_socket);
    suite_add_tcase(s, c);
    return unit_run(s);
}
