/* Watches through a real web server with two workers and a real sandbox: what is told of which change, what
 * is told where not all can be, how a watch ends, and that nobody waits in vain. */
#include "lib/base/buffer.h"
#include "tests/support/suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static char ws[40];

static void make_workspace(void)
{
    workspace_create(the, NULL, ws);
}

static void end_workspace(void)
{
    workspace_terminate(the, ws);
}

static const char *path_of(const char *rest)
{
    static char path[6000];
    snprintf(path, sizeof path, "/api/workspaces/%s/%s", ws, rest);
    return path;
}

static json_t *watch_start(json_t *body, char id[static 40])
{
    json_t *started = api(the, 200, "POST", path_of("file-watches"), body);
    snprintf(id, 40, "%s", member_text(started, "watch_id"));
    return started;
}

static json_t *page_of(const char *fw, long long cursor, int wait_seconds)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=%lld&wait_seconds=%d&max_events=500", fw,
             cursor, wait_seconds);
    return api(the, 200, "GET", path_of(rest), NULL);
}

static json_t *status_of(const char *fw)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s", fw);
    return api(the, 200, "GET", path_of(rest), NULL);
}

static json_t *cancel(const char *fw)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s", fw);
    return api(the, 200, "DELETE", path_of(rest), NULL);
}

static void run(const char *command)
{
    struct exec_log log;
    exec_run_command(the, ws, command, &log);
    ck_assert_msg(member_number(log.exit, "returncode") == 0, "%s: %s", command, log.err);
    exec_log_clear(&log);
}

/* ---- what was told, as lines "create a/b", "remove a -> b" ---- */

struct told {
    char fw[40];
    long long cursor;
    struct buffer lines;
    char state[16];
    size_t events;
};

static void told_begin(struct told *t, json_t *body)
{
    *t = (struct told){ .cursor = 0 };
    json_decref(watch_start(body, t->fw));
}

static void told_end(struct told *t)
{
    buffer_free(&t->lines);
}

static void note(struct told *t, const json_t *event)
{
    const json_t *move = json_object_get(event, "move");
    char absolute[5000];
    ck_assert_int_eq(member_number(event, "seq"), t->cursor);
    t->cursor++;
    t->events++;
    buffer_printf(&t->lines, "%s %s", member_text(event, "type"), member_text(event, "path"));
    if (move)
        buffer_printf(&t->lines, " (%s -> %s)", member_text(move, "from"), member_text(move, "to"));
    buffer_append_char(&t->lines, '\n');
    if (!strcmp(member_text(event, "path"), "."))
        return;
    snprintf(absolute, sizeof absolute, "/workspace/%s", member_text(event, "path"));
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(event, "paths"), 0)), absolute);
}

static void told_read(struct told *t, int wait_seconds)
{
    json_auto_t *page = page_of(t->fw, t->cursor, wait_seconds);
    const json_t *event;
    size_t index;
    if (member_flag(page, "cursor_expired"))
        t->cursor = member_number(page, "base_cursor") - 1;
    json_array_foreach(json_object_get(page, "events"), index, event)
        note(t, event);
    ck_assert_int_eq(member_number(page, "next_cursor"), t->cursor);
    snprintf(t->state, sizeof t->state, "%s", member_text(page, "state"));
}

static bool has_line(struct told *t, const char *line)
{
    char whole[6000];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    const char *text = buffer_text(&t->lines);
    return !strncmp(text, whole + 1, strlen(whole) - 1) || strstr(text, whole) != NULL;
}

static void told_wait(struct told *t, const char *line)
{
    long long until = now_ms() + 15000;
    while (!has_line(t, line)) {
        ck_assert_msg(now_ms() < until, "'%s' was not told:\n%s", line, buffer_text(&t->lines));
        told_read(t, 2);
    }
}

static size_t count_lines(struct told *t, const char *line)
{
    size_t count = 0, length = strlen(line);
    for (const char *at = buffer_text(&t->lines); *at; at = strchr(at, '\n') + 1)
        count += !strncmp(at, line, length) && at[length] == '\n';
    return count;
}

/* ---- changes ---- */

START_TEST(what_happens_to_a_file_is_told)
{
    struct told t;
    told_begin(&t, NULL);
    run("echo one > f && sleep 0.3 && echo two >> f && sleep 0.3 && rm f");
    told_wait(&t, "remove f");
    ck_assert_str_eq(buffer_text(&t.lines), "create f\nmodify f\nmodify f\nremove f\n");
    json_auto_t *ended = cancel(t.fw);
    ck_assert(member_flag(ended, "cancelled"));
    told_read(&t, 20);
    ck_assert_str_eq(t.state, "cancelled");
    told_end(&t);
}
END_TEST

START_TEST(a_start_says_what_it_watches)
{
    char fw[40];
    run("mkdir -p /workspace/src");
    json_auto_t *started =
        watch_start(make_json("{s:s, s:[s,s,s], s:b, s:i}", "path", "src", "event_types", "REMOVE", "create",
                              "remove", "recursive", 0, "timeout_seconds", 30),
                    fw);
    ck_assert_str_eq(member_text(started, "path"), "/workspace/src");
    ck_assert_int_eq(json_array_size(json_object_get(started, "event_types")), 2);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(started, "event_types"), 0)), "remove");
    ck_assert(!member_flag(started, "recursive"));
    ck_assert_int_eq(member_number(started, "cursor"), 0);
    ck_assert_ptr_nonnull(strstr(member_text(started, "events_endpoint_hint"), fw));
    json_auto_t *status = status_of(fw);
    ck_assert_str_eq(member_text(status, "state"), "running");
    ck_assert_int_eq(member_number(status, "timeout_seconds"), 30);
    json_auto_t *list = api(the, 200, "GET", path_of("file-watches"), NULL);
    ck_assert_int_eq(json_array_size(list), 1);
    ck_assert_str_eq(member_text(json_array_get(list, 0), "watch_id"), fw);
}
END_TEST

START_TEST(new_folders_are_followed)
{
    struct told t;
    told_begin(&t, NULL);
    run("mkdir -p a/b/c && touch a/b/c/d");
    told_wait(&t, "create a/b/c/d");
    run("echo x > a/b/c/d; mkdir a/b/c/e; touch a/b/c/e/f");
    told_wait(&t, "create a/b/c/e/f");
    told_wait(&t, "modify a/b/c/d");
    static const char *const once[] = { "create a", "create a/b", "create a/b/c", "create a/b/c/d",
                                        "create a/b/c/e/f" };
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        ck_assert_msg(count_lines(&t, once[i]) == 1, "%s:\n%s", once[i], buffer_text(&t.lines));
    told_end(&t);
}
END_TEST

START_TEST(a_renaming_is_told_with_both_names)
{
    struct told t;
    run("mkdir -p x/y && touch x/y/z && mkdir /tmp/out && touch /tmp/out/in");
    told_begin(&t, NULL);
    run("mv x w && touch w/y/new");
    told_wait(&t, "create w/y/new");
    ck_assert(has_line(&t, "remove x (x -> w)") && has_line(&t, "create w (x -> w)"));
    run("echo a > save.tmp && mv save.tmp save && echo b > save.tmp && mv save.tmp save && touch last");
    told_wait(&t, "create last");
    ck_assert_int_eq(count_lines(&t, "create save (save.tmp -> save)"), 2);
    ck_assert_int_eq(count_lines(&t, "remove save.tmp (save.tmp -> save)"), 2);
    run("mv w/y /home/workspace/y 2>/dev/null || mv w/y /tmp/y; touch after");
    told_wait(&t, "remove w/y");
    told_wait(&t, "create after");
    told_end(&t);
}
END_TEST

START_TEST(a_saved_file_is_a_modification_to_who_asks_for_those)
{
    struct told t;
    run("echo a > f");
    told_begin(&t, make_json("{s:[s]}", "event_types", "modify"));
    run("echo b > .f.swp && mv .f.swp f && touch other && sleep 0.2 && echo c > other");
    told_wait(&t, "modify other");
    ck_assert_msg(has_line(&t, "modify f (.f.swp -> f)"), "%s", buffer_text(&t.lines));
    ck_assert_ptr_null(strstr(buffer_text(&t.lines), "create"));
    told_end(&t);
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", NULL };
    Suite *suite = suite_create("watch");
    TCase *tests = tcase_create("watch");
    tcase_add_checked_fixture(tests, make_workspace, end_workspace);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, what_happens_to_a_file_is_told);
    tcase_add_test(tests, a_start_says_what_it_watches);
    tcase_add_test(tests, new_folders_are_followed);
    tcase_add_test(tests, a_renaming_is_told_with_both_names);
    tcase_add_test(tests, a_saved_file_is_a_modification_to_who_asks_for_those);
    suite_add_tcase(suite, tests);
    return suite_main(suite, environment);
}
