/* Watches through a real web server with two workers and a real sandbox: what is told of which change, what
 * is told where not all can be, how a watch ends, and that nobody waits in vain. */
#include "lib/base/buffer.h"
#include "tests/support/workspace_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *watch_start(json_t *body, char id[static 40])
{
    json_t *started = ws_post("file-watches", body);
    snprintf(id, 40, "%s", member_text(started, "watch_id"));
    return started;
}

static json_t *page_of(const char *fw, long long cursor, int wait_seconds)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=%lld&wait_seconds=%d&max_events=500", fw,
             cursor, wait_seconds);
    return ws_get(rest);
}

static json_t *status_of(const char *fw)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s", fw);
    return ws_get(rest);
}

static json_t *cancel(const char *fw)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s", fw);
    return api(the, 200, "DELETE", ws_path(rest), NULL);
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
    json_auto_t *list = ws_get("file-watches");
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

START_TEST(what_is_excluded_costs_no_event)
{
    struct told t;
    told_begin(&t, make_json("{s:[s, s]}", "exclude_patterns", ".git", "*.log"));
    run("mkdir -p a/.git && touch a/.git/index a/x.log a/y");
    told_wait(&t, "create a/y");
    ck_assert_str_eq(buffer_text(&t.lines), "create a\ncreate a/y\nmodify a/y\n");
    told_end(&t);
    ws_refused(400, "exclude_patterns '..'", "POST", "file-watches",
               make_json("{s:[s]}", "exclude_patterns", ".."));
}
END_TEST

START_TEST(names_are_told_exactly)
{
    struct told t;
    told_begin(&t, make_json("{s:[s]}", "event_types", "create"));
    run("touch \"$(printf 'a\\377b')\" && touch \"$(printf 'x\\ny\"\\\\')\" é && touch \"$(printf "
        "'q\\001%.0s' $(seq 100))\"");
    json_auto_t *page = NULL;
    for (int k = 0; k < 50 && json_array_size(json_object_get(page, "events")) < 4; k++) {
        json_decref(page);
        page = page_of(t.fw, 0, 0);
        sleep_ms(50);
    }
    const json_t *events = json_object_get(page, "events");
    ck_assert_str_eq(member_text(json_array_get(events, 0), "path"), "a\xef\xbf\xbd"
                                                                     "b");
    ck_assert_str_eq(member_text(json_array_get(events, 0), "path_base64"), "Yf9i");
    ck_assert_str_eq(member_text(json_array_get(events, 1), "path"), "x\ny\"\\");
    ck_assert_str_eq(member_text(json_array_get(events, 2), "path"), "é");
    ck_assert_ptr_null(json_object_get(json_array_get(events, 2), "path_base64"));
    ck_assert_ptr_nonnull(json_object_get(json_array_get(events, 3), "path_base64"));
    told_end(&t);
}
END_TEST

/* ---- refusals and bounds ---- */

static void refuse_start(long status, const char *contains, json_t *body)
{
    ws_refused(status, contains, "POST", "file-watches", body);
}

START_TEST(what_cannot_be_watched_is_said)
{
    char fw[40], rest[200];
    run("ln -s /etc out && mkfifo pipe && touch f");
    refuse_start(404, "does not exist", make_json("{s:s}", "path", "none"));
    refuse_start(400, "leads out", make_json("{s:s}", "path", "out"));
    refuse_start(400, "leads out", make_json("{s:s}", "path", "/etc"));
    refuse_start(400, "'..'", make_json("{s:s}", "path", "a/../.."));
    refuse_start(400, "chmod", make_json("{s:[s]}", "event_types", "chmod"));
    refuse_start(400, "at least one", make_json("{s:[]}", "event_types"));
    refuse_start(422, "timeout_seconds", make_json("{s:i}", "timeout_seconds", 3601));
    json_decref(watch_start(make_json("{s:s}", "path", "f"), fw));
    snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=1", fw);
    ws_refused(400, "beyond", "GET", rest, NULL);
    static const char unknown[] = "file-watches/fw-00000000000000000000000000000000";
    ws_refused(404, "not known", "GET", unknown, NULL);
    ws_refused(404, "not known", "DELETE", unknown, NULL);
    ws_refused(422, "watch_id", "GET", "file-watches/ex-1", NULL);
}
END_TEST

/* Each of a folder of its own; what is asked for beyond is refused. */
static void start_all(char fw[64][40])
{
    run("mkdir -p d/{0..63}");
    for (int i = 0; i < 64; i++) {
        char path[16];
        snprintf(path, sizeof path, "d/%d", i);
        json_decref(watch_start(make_json("{s:s}", "path", path), fw[i]));
    }
    refuse_start(429, "64 watches", NULL);
}

static void told_once(const char *fw, const char *path)
{
    sleep_ms(30); /* for what would be one too many */
    json_auto_t *page = page_of(fw, 0, 10);
    const json_t *events = json_object_get(page, "events"), *event = json_array_get(events, 0);
    ck_assert_msg(json_array_size(events) == 1, "%s: %zu events", path, json_array_size(events));
    ck_assert_str_eq(member_text(event, "type"), "create");
    ck_assert_str_eq(member_text(event, "path"), path);
}

/* Also where all of them have what one plain user may have. */
START_TEST(sixty_four_live_and_each_is_told_of_its_own)
{
    char fw[64][40], path[32];
    start_all(fw);
    run("mkdir d/{0..63}/new");
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "d/%d/new", i);
        told_once(fw[i], path);
    }
}
END_TEST

START_TEST(ended_ones_do_not_count)
{
    char fw[64][40], another[40];
    start_all(fw);
    json_decref(cancel(fw[10]));
    json_decref(watch_start(make_json("{s:s}", "path", "d/10"), another));
    refuse_start(429, "64 watches", NULL);
    json_auto_t *list = ws_get("file-watches");
    ck_assert_uint_eq(json_array_size(list), 64);
    ck_assert_str_eq(member_text(json_array_get(list, 0), "watch_id"), another);
    run("mkdir d/10/new d/11/new");
    told_once(another, "d/10/new");
    told_once(fw[11], "d/11/new");
    json_auto_t *page = page_of(fw[10], 0, 0);
    ck_assert_uint_eq(json_array_size(json_object_get(page, "events")), 0);
}
END_TEST

/* Programs in the workspace watch for themselves. */
START_TEST(all_watches_of_a_workspace_take_one_instance)
{
    static const char count[] =
        "python3 -c 'import ctypes\nn = 0\nwhile ctypes.CDLL(None).inotify_init() >= 0: n += 1\nprint(n)'";
    struct exec_log before, with;
    char fw[64][40];
    exec_run_command(the, ws, count, &before);
    start_all(fw);
    exec_run_command(the, ws, count, &with);
    ck_assert_msg(atoi(before.out) > 0 && atoi(before.out) - atoi(with.out) == 1, "%s %s %s", before.out,
                  with.out, with.err);
    exec_log_clear(&before);
    exec_log_clear(&with);
}
END_TEST

/* Nothing stays of a watch but what is told in the log. */
START_TEST(what_watches_goes_with_the_watches)
{
    char fw[64][40];
    start_all(fw);
    run("test $(pgrep -c ws-watch) = 1 && grep -P 'Threads:\\t65$' /proc/$(pgrep ws-watch)/status");
    for (int i = 1; i < 64; i++)
        json_decref(cancel(fw[i]));
    run("for i in {1..50}; do grep -P 'Threads:\\t2$' /proc/$(pgrep ws-watch)/status && exit; sleep 0.1; "
        "done; exit 1");
    run("mkdir d/0/new");
    told_once(fw[0], "d/0/new");
    json_decref(cancel(fw[0]));
    run("for i in {1..50}; do pgrep ws-watch || exit 0; sleep 0.1; done; exit 1");
}
END_TEST

START_TEST(watches_of_the_same_folders_harm_each_other_not)
{
    struct told all, part, names;
    run("mkdir -p a/b c");
    told_begin(&all, NULL);
    told_begin(&part, make_json("{s:s}", "path", "a"));
    told_begin(&names, make_json("{s:s, s:[s]}", "path", "a/b", "event_types", "create"));
    run("mkdir a/b/f; mv a/b/f c/f; mv c/f a/f; echo > a/b/g");
    told_wait(&all, "modify a/b/g");
    told_wait(&part, "modify a/b/g");
    told_wait(&names, "create a/b/g");
    ck_assert_str_eq(buffer_text(&all.lines),
                     "create a/b/f\nremove a/b/f (a/b/f -> c/f)\ncreate c/f (a/b/f -> c/f)\n"
                     "remove c/f (c/f -> a/f)\ncreate a/f (c/f -> a/f)\ncreate a/b/g\nmodify a/b/g\n");
    ck_assert_str_eq(buffer_text(&part.lines), "create a/b/f\nremove a/b/f\ncreate a/f\ncreate a/b/g\n"
                                               "modify a/b/g\n");
    ck_assert_str_eq(buffer_text(&names.lines), "create a/b/f\ncreate a/b/g\n");
    json_decref(cancel(all.fw));
    run("mkdir a/b/h");
    told_wait(&part, "create a/b/h");
    told_wait(&names, "create a/b/h");
    json_decref(cancel(names.fw));
    run("mkdir a/b/i");
    told_wait(&part, "create a/b/i");
    ck_assert_uint_eq(count_lines(&part, "create a/b/h") + count_lines(&part, "create a/b/i"), 2);
    told_end(&all);
    told_end(&part);
    told_end(&names);
}
END_TEST

/* As much as an install of packages makes, and nobody reads meanwhile. */
START_TEST(a_storm_is_told_as_an_overflow_and_harms_nobody)
{
    struct told t;
    struct exec_log log;
    char ex[40];
    told_begin(&t, NULL);
    exec_start_command(
        the, ws,
        "mkdir -p m/{1..200}/lib; for d in {1..200}; do for f in {1..100}; do : > m/$d/lib/$f; done; done; "
        "touch end",
        ex);
    exec_run_command(the, ws, "echo beside", &log);
    ck_assert_str_eq(log.out, "beside\n");
    exec_log_clear(&log);
    exec_follow(the, ws, ex, 60000, &log);
    exec_log_clear(&log);
    sleep_ms(500);
    json_auto_t *page = page_of(t.fw, 0, 0);
    ck_assert(member_flag(page, "cursor_expired"));
    const json_t *first = json_array_get(json_object_get(page, "events"), 0);
    ck_assert_str_eq(member_text(first, "type"), "overflow");
    ck_assert(member_flag(first, "rescan"));
    ck_assert_int_eq(member_number(first, "seq"), member_number(page, "base_cursor") - 1);
    told_wait(&t, "create end");
    ck_assert_uint_le(t.events, 2100);
    json_auto_t *status = status_of(t.fw);
    ck_assert_int_eq(member_number(status, "next_cursor") - member_number(status, "base_cursor"), 2048);
    run("touch after");
    told_wait(&t, "create after");
    told_end(&t);
}
END_TEST

START_TEST(pages_hold_their_bounds)
{
    struct told t;
    told_begin(&t, make_json("{s:[s]}", "event_types", "create"));
    run("n=$(printf '%0200d' 0); for i in $(seq 700); do : > $n-$i; done; touch last");
    told_wait(&t, "create last");
    long long cursor = 0, pages = 0;
    for (bool more = true; more; pages++) {
        char rest[200];
        snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=%lld&max_events=500", t.fw, cursor);
        struct answer a = http_send(the, "GET", ws_path(rest), NULL);
        ck_assert_uint_le(a.length, 90000);
        cursor = member_number(a.json, "next_cursor");
        more = member_flag(a.json, "has_more");
        answer_clear(&a);
    }
    ck_assert_int_eq(cursor, 701);
    ck_assert_int_ge(pages, 4);
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=3&max_events=1", t.fw);
    json_auto_t *one = ws_get(rest);
    ck_assert_int_eq(json_array_size(json_object_get(one, "events")), 1);
    ck_assert_int_eq(member_number(one, "next_cursor"), 4);
    ck_assert(member_flag(one, "has_more"));
    told_end(&t);
}
END_TEST

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
    json_auto_t *again = cancel(fw);
    ck_assert(!member_flag(again, "cancelled"));
    ck_assert_str_eq(member_text(again, "state"), "finished");
    json_auto_t *ended = cancel(other);
    ck_assert(member_flag(ended, "cancelled"));
    reap(second);
    json_auto_t *status = status_of(fw);
    ck_assert(json_is_string(json_object_get(status, "finished_at")));
    ck_assert(json_is_null(json_object_get(status, "error")));
}
END_TEST

START_TEST(a_watched_folder_may_go)
{
    char fw[40];
    run("mkdir -p a/b");
    json_decref(watch_start(make_json("{s:s}", "path", "a/b"), fw));
    pid_t follower = follow_to_end(fw, "finished", "watched_path_removed");
    run("sleep 0.3; rm -r a");
    reap(follower);
    json_auto_t *page = page_of(fw, 0, 0);
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
    run("touch f");
    pid_t follower = follow_to_end(fw, "failed", "lost: workspace stopped");
    sleep_ms(300);
    json_decref(ws_post("stop", NULL));
    reap(follower);
    json_auto_t *page = page_of(fw, 0, 20); /* what it saw stays, and nothing is started for that */
    ck_assert_uint_ge(json_array_size(json_object_get(page, "events")), 1);
    ck_assert_ptr_nonnull(strstr(member_text(page, "error"), "lost"));
    json_auto_t *ended = cancel(fw);
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
    run("touch f");
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
    run("mkdir new");
    told_once(fw, "new");
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
    struct told t = { .cursor = 0 };
    snprintf(t.fw, sizeof t.fw, "%s", fw);
    told_wait(&t, "create b");
    ck_assert(has_line(&t, "create a"));
    told_end(&t);
    json_decref(cancel(fw));
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
            json_auto_t *page = page_of(fw, 0, 20);
            _exit(json_array_size(json_object_get(page, "events")) >= 1 ? 0 : 1);
        }
    }
    sleep_ms(800);
    long long begun = now_ms();
    run("touch now");
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
    run("touch f");
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
    Suite *suite = suite_create("watch");
    TCase *tests = tcase_create("watch");
    tcase_add_checked_fixture(tests, ws_make, ws_end);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, what_happens_to_a_file_is_told);
    tcase_add_test(tests, a_start_says_what_it_watches);
    tcase_add_test(tests, new_folders_are_followed);
    tcase_add_test(tests, a_renaming_is_told_with_both_names);
    tcase_add_test(tests, a_saved_file_is_a_modification_to_who_asks_for_those);
    tcase_add_test(tests, what_is_excluded_costs_no_event);
    tcase_add_test(tests, names_are_told_exactly);
    tcase_add_test(tests, what_cannot_be_watched_is_said);
    tcase_add_test(tests, sixty_four_live_and_each_is_told_of_its_own);
    tcase_add_test(tests, ended_ones_do_not_count);
    tcase_add_test(tests, all_watches_of_a_workspace_take_one_instance);
    tcase_add_test(tests, what_watches_goes_with_the_watches);
    tcase_add_test(tests, watches_of_the_same_folders_harm_each_other_not);
    tcase_add_test(tests, a_storm_is_told_as_an_overflow_and_harms_nobody);
    tcase_add_test(tests, pages_hold_their_bounds);
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
