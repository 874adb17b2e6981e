/* What every driver must do, run over each of them and each user that it may run as. */
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/support/box.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>

#define PREPARE(b)                                                                                           \
    struct box b;                                                                                            \
    if (!box_prepare(&b, &box_kinds[_i]))                                                                    \
        return;                                                                                              \
    const struct driver *driver = b.kind->driver;                                                            \
    struct error err = ERROR_INIT;                                                                           \
    (void)driver, (void)err;                                                                                 \
    box_make_folders(&b, 20101)

static bool is_running(const struct box *b)
{
    struct sandbox_status status;
    struct error err = ERROR_INIT;
    ck_assert_msg(!b->kind->driver->inspect(&b->config, NULL, b->handle, &status, &err), "%s", err.message);
    return status.running;
}

static bool polls(int fd, int timeout_ms)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    return poll(&wait, 1, timeout_ms) == 1;
}

START_TEST(starts_runs_and_tells)
{
    PREPARE(b);
    ck_assert_msg(!driver->probe(&b.config, &err), "%s", err.message);
    box_start(&b);
    ck_assert_str_eq(box_output(&b, "echo hello"), "hello\n");
    ck_assert(is_running(&b));
    ck_assert(!polls(driver->watch_fd(b.sandbox), 0));
    struct sandbox_status status;
    ck_assert_int_eq(driver->inspect(&b.config, b.sandbox, b.handle, &status, &err), 0);
    ck_assert(status.running && !status.has_returncode && !status.oom_killed);
    box_end(&b);
}
END_TEST

START_TEST(files_are_the_workspace)
{
    PREPARE(b);
    box_start(&b);
    box_output(&b, "echo kept > file; echo home > ~/file");
    char text[16] = "";
    int fd = openat(b.spec.files_fd, "file", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(read(fd, text, sizeof text), 5);
    ck_assert_int_eq(faccessat(b.spec.home_fd, "file", R_OK, 0), 0);
    close(fd);
    box_end(&b);
}
END_TEST

static const char *told(const json_t *reply, const char *part, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(reply, part), name));
    return text ? text : "(nothing)";
}

/* Calls on files see what commands see, whoever writes, and no more. */
START_TEST(files_are_called_on_without_a_command)
{
    PREPARE(b);
    box_start(&b);
    json_auto_t *made =
        box_file(&b, json_pack("{s:s, s:s}", "call", "write", "path", "a/b"), "one\ntwo\n", NULL);
    ck_assert_str_eq(told(made, "ret", "path"), "a/b");
    ck_assert_str_eq(box_output(&b, "cat a/b; test -O a/b && echo mine"), "one\ntwo\nmine\n");
    box_output(&b, "echo three >> a/b; ln -s /etc out; ln -s /workspace/a/b in");
    json_auto_t *read =
        box_file(&b, json_pack("{s:s, s:s, s:i}", "call", "read", "path", "in", "offset", 1), NULL, NULL);
    ck_assert_str_eq(told(read, "ret", "content"), "two\nthree");
    json_auto_t *outside =
        box_file(&b, json_pack("{s:s, s:s}", "call", "read", "path", "out/passwd"), NULL, NULL);
    ck_assert_ptr_nonnull(strstr(told(outside, "error", "message"), "leads out of the workspace"));
    _cleanup_buffer_ struct buffer bytes = BUFFER_INIT;
    json_auto_t *head = box_file(
        &b, json_pack("{s:s, s:s, s:i}", "call", "download", "path", "a/b", "first", 4), NULL, &bytes);
    ck_assert_str_eq(told(head, "ret", "path"), "a/b");
    ck_assert_str_eq(buffer_text(&bytes), "two\nthree\n");
    box_end(&b);
}
END_TEST

START_TEST(a_second_channel_is_refused)
{
    PREPARE(b);
    box_start(&b);
    ck_assert_int_lt(driver->open_channel(b.sandbox, &err), 0);
    error_clear(&err);
    box_end(&b);
}
END_TEST

START_TEST(terminate_ends_all_and_may_be_repeated)
{
    PREPARE(b);
    box_start(&b);
    box_output(&b, "(trap '' TERM; setsid sleep 987 & setsid nohup sleep 986 &) >/dev/null 2>&1; true");
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(!driver->terminate(&b.config, b.sandbox, b.handle, &err), "%s", err.message);
        ck_assert(!is_running(&b));
    }
    ck_assert(polls(driver->watch_fd(b.sandbox), 0));
    struct sandbox_status status;
    ck_assert_int_eq(driver->inspect(&b.config, b.sandbox, b.handle, &status, &err), 0);
    ck_assert(!status.running && status.has_returncode);
    box_end(&b);
}
END_TEST

START_TEST(another_process_ends_it_by_handle)
{
    PREPARE(b);
    box_start(&b);
    pid_t pid = fork();
    if (pid == 0) {
        json_t *copy = json_deep_copy(b.handle);
        _exit(driver->terminate(&b.config, NULL, copy, NULL) ? 1 : 0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert(!is_running(&b));
    ck_assert(polls(driver->watch_fd(b.sandbox), 1000));
    box_end(&b);
}
END_TEST

START_TEST(a_handle_of_another_boot_or_process_ends_nobody)
{
    PREPARE(b);
    box_start(&b);
    json_auto_t *other = json_deep_copy(b.handle), *boot = json_deep_copy(b.handle),
                *odd = json_pack("{s:s}", "pid", "x");
    json_object_set_new(other, "start_time",
                        json_integer(json_integer_value(json_object_get(other, "start_time")) + 1));
    json_object_del(other, "child");
    json_object_set_new(boot, "boot_id", json_string("00000000-0000-0000-0000-000000000000"));
    json_object_del(boot, "child");
    json_object_del(other, "cgroup");
    json_object_del(boot, "cgroup");
    ck_assert_int_eq(driver->terminate(&b.config, NULL, other, &err), 0);
    ck_assert_int_eq(driver->terminate(&b.config, NULL, boot, &err), 0);
    ck_assert_int_eq(driver->terminate(&b.config, NULL, odd, &err), 0);
    ck_assert_str_eq(box_output(&b, "echo alive"), "alive\n");
    box_end(&b);
}
END_TEST

static void *sleep_some(void *user)
{
    (void)user;
    usleep(3000000);
    return NULL;
}

/* What a child does before it executes must not wait for threads that only its parent has. */
START_TEST(starts_from_a_process_with_threads)
{
    PREPARE(b);
    box_end(&b);
    for (int i = 0; i < 15; i++) {
        pthread_t thread;
        ck_assert(box_prepare(&b, &box_kinds[_i]));
        box_make_folders(&b, 20101);
        pthread_create(&thread, NULL, sleep_some, NULL);
        pthread_detach(thread);
        box_start(&b);
        box_end(&b);
    }
}
END_TEST

static const json_t *find_listed(const json_t *list, const char *id)
{
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry) {
        if (!strcmp(json_string_value(json_object_get(entry, "workspace_id")), id))
            return json_object_get(entry, "handle");
    }
    return NULL;
}

START_TEST(list_shows_those_of_the_state_directory)
{
    PREPARE(b);
    struct box other = b;
    box_make_folders(&other, 20102);
    box_start(&b);
    box_start(&other);
    json_t *list;
    ck_assert_msg(!driver->list(&b.config, &list, &err), "%s", err.message);
    ck_assert_uint_eq(json_array_size(list), 2);
    const json_t *found = find_listed(list, b.id);
    ck_assert_ptr_nonnull(found);
    ck_assert(json_equal(json_object_get(found, "pid"), json_object_get(b.handle, "pid")));
    ck_assert_int_eq(driver->terminate(&b.config, NULL, found, &err), 0);
    ck_assert(!is_running(&b));
    ck_assert(is_running(&other));
    json_decref(list);
    struct config elsewhere = b.config;
    elsewhere.state_dir = "/tmp/elsewhere";
    ck_assert_int_eq(driver->list(&elsewhere, &list, &err), 0);
    ck_assert_uint_eq(json_array_size(list), 0);
    json_decref(list);
    box_leave(&other);
    ck_assert_int_eq(driver->list(&b.config, &list, &err), 0);
    ck_assert_uint_eq(json_array_size(list), 0);
    json_decref(list);
    box_end(&b);
}
END_TEST

/* The owner is killed: what it started must not live on, whoever finds it. */
START_TEST(an_orphan_ends_or_is_found)
{
    PREPARE(b);
    int pair[2];
    ck_assert_int_eq(pipe(pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        box_start(&b);
        box_output(&b, "setsid sleep 985 >/dev/null 2>&1 & true");
        char *text = json_dumps(b.handle, 0);
        if (write(pair[1], text, strlen(text)) < 0)
            _exit(1);
        pause();
    }
    char text[2048] = "";
    ck_assert_int_gt(read(pair[0], text, sizeof text - 1), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    b.handle = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(b.handle);
    json_t *list;
    ck_assert_int_eq(driver->list(&b.config, &list, &err), 0);
    const json_t *found = find_listed(list, b.id);
    if (found)
        ck_assert_msg(!driver->terminate(&b.config, NULL, found, &err), "%s", err.message);
    ck_assert_msg(!driver->terminate(&b.config, NULL, b.handle, &err), "%s", err.message);
    ck_assert(!is_running(&b));
    json_decref(list);
    box_end(&b);
}
END_TEST

START_TEST(the_end_of_the_agent_is_the_end)
{
    PREPARE(b);
    box_start(&b);
    const json_t *child = json_object_get(b.handle, "child");
    kill((pid_t)json_integer_value(json_object_get(child ? child : b.handle, "pid")), SIGKILL);
    ck_assert(polls(driver->watch_fd(b.sandbox), 3000));
    struct sandbox_status status;
    ck_assert_int_eq(driver->inspect(&b.config, b.sandbox, b.handle, &status, &err), 0);
    ck_assert(!status.running && status.has_returncode);
    ck_assert_int_eq(status.returncode, -9);
    box_end(&b);
}
END_TEST

START_TEST(processes_are_limited)
{
    PREPARE(b);
    b.spec.processes = 40;
    if (!b.kind->isolated) { /* a plain child: the limit counts the user's processes everywhere */
        box_end(&b);
        return;
    }
    box_start(&b);
    int count = atoi(box_output(
        &b, "perl -e 'for (1..120) { $p = fork; last unless defined $p; $p or sleep 5, exit; push @p, $p }"
            " print scalar @p; kill 9, @p; 1 while wait > 0'"));
    ck_assert_int_le(count, 40);
    ck_assert_int_ge(count, 25);
    ck_assert_str_eq(box_output(&b, "echo alive"), "alive\n");
    box_end(&b);
}
END_TEST

START_TEST(capabilities_name_their_means)
{
    PREPARE(b);
    json_auto_t *told = driver->capabilities(&b.config, NULL);
    static const char *const names[] = { "memory", "cpu", "processes", "network", "seccomp" };
    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        ck_assert_ptr_nonnull(json_object_get(told, names[i]));
    box_end(&b);
}
END_TEST

START_TEST(a_missing_agent_is_an_error_and_leaves_nothing)
{
    PREPARE(b);
    free(b.config.agent);
    b.config.agent = xstrdup("/bin/false");
    int result = driver->create(&b.config, &b.spec, &b.sandbox, &b.handle, &err);
    if (!result)
        ck_assert_int_lt(driver->open_channel(b.sandbox, &err), 0);
    ck_assert_int_eq(err.code, ERROR_DRIVER);
    ck_assert_ptr_null(strstr(err.message, b.config.state_dir));
    error_clear(&err);
    box_end(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("driver");
    TCase *c = tcase_create("every driver");
    tcase_set_timeout(c, 20);
    tcase_add_loop_test(c, starts_runs_and_tells, 0, BOX_KINDS);
    tcase_add_loop_test(c, files_are_the_workspace, 0, BOX_KINDS);
    tcase_add_loop_test(c, files_are_called_on_without_a_command, 0, BOX_KINDS);
    tcase_add_loop_test(c, a_second_channel_is_refused, 0, BOX_KINDS);
    tcase_add_loop_test(c, terminate_ends_all_and_may_be_repeated, 0, BOX_KINDS);
    tcase_add_loop_test(c, another_process_ends_it_by_handle, 0, BOX_KINDS);
    tcase_add_loop_test(c, a_handle_of_another_boot_or_process_ends_nobody, 0, BOX_KINDS);
    tcase_add_loop_test(c, starts_from_a_process_with_threads, 0, BOX_KINDS);
    tcase_add_loop_test(c, list_shows_those_of_the_state_directory, 0, BOX_KINDS);
    tcase_add_loop_test(c, an_orphan_ends_or_is_found, 0, BOX_KINDS);
    tcase_add_loop_test(c, the_end_of_the_agent_is_the_end, 0, BOX_KINDS);
    tcase_add_loop_test(c, processes_are_limited, 0, BOX_KINDS);
    tcase_add_loop_test(c, capabilities_name_their_means, 0, BOX_KINDS);
    tcase_add_loop_test(c, a_missing_agent_is_an_error_and_leaves_nothing, 0, BOX_KINDS);
    suite_add_tcase(s, c);
    return unit_run(s);
}
