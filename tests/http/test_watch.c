/* Watches through a real web server with two workers and a real sandbox: what is told of which change, and
 * what is told where not all can be. */
#include "tests/support/watch_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- changes ---- */

START_TEST(what_happens_to_a_file_is_told)
{
    struct heard t;
    heard_begin(&t, NULL);
    watch_run("echo one > f && sleep 0.3 && echo two >> f && sleep 0.3 && rm f");
    heard_wait(&t, "remove f");
    ck_assert_str_eq(buffer_text(&t.lines), "create f\nmodify f\nmodify f\nremove f\n");
    json_auto_t *ended = watch_cancel(t.fw);
    ck_assert(member_flag(ended, "cancelled"));
    heard_read(&t, 20);
    ck_assert_str_eq(t.state, "cancelled");
    heard_end(&t);
}
END_TEST

START_TEST(a_start_says_what_it_watches)
{
    char fw[40];
    watch_run("mkdir -p /workspace/src");
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
    json_auto_t *status = watch_status(fw);
    ck_assert_str_eq(member_text(status, "state"), "running");
    ck_assert_int_eq(member_number(status, "timeout_seconds"), 30);
    json_auto_t *list = ws_get("file-watches");
    ck_assert_int_eq(json_array_size(list), 1);
    ck_assert_str_eq(member_text(json_array_get(list, 0), "watch_id"), fw);
}
END_TEST

START_TEST(new_folders_are_followed)
{
    struct heard t;
    heard_begin(&t, NULL);
    watch_run("mkdir -p a/b/c && touch a/b/c/d");
    heard_wait(&t, "create a/b/c/d");
    watch_run("echo x > a/b/c/d; mkdir a/b/c/e; touch a/b/c/e/f");
    heard_wait(&t, "create a/b/c/e/f");
    heard_wait(&t, "modify a/b/c/d");
    static const char *const once[] = { "create a", "create a/b", "create a/b/c", "create a/b/c/d",
                                        "create a/b/c/e/f" };
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        ck_assert_msg(heard_count(&t, once[i]) == 1, "%s:\n%s", once[i], buffer_text(&t.lines));
    heard_end(&t);
}
END_TEST

START_TEST(a_renaming_is_told_with_both_names)
{
    struct heard t;
    watch_run("mkdir -p x/y && touch x/y/z && mkdir /tmp/out && touch /tmp/out/in");
    heard_begin(&t, NULL);
    watch_run("mv x w && touch w/y/new");
    heard_wait(&t, "create w/y/new");
    ck_assert(heard_has(&t, "remove x (x -> w)") && heard_has(&t, "create w (x -> w)"));
    watch_run("echo a > save.tmp && mv save.tmp save && echo b > save.tmp && mv save.tmp save && touch last");
    heard_wait(&t, "create last");
    ck_assert_int_eq(heard_count(&t, "create save (save.tmp -> save)"), 2);
    ck_assert_int_eq(heard_count(&t, "remove save.tmp (save.tmp -> save)"), 2);
    watch_run("mv w/y /home/workspace/y 2>/dev/null || mv w/y /tmp/y; touch after");
    heard_wait(&t, "remove w/y");
    heard_wait(&t, "create after");
    heard_end(&t);
}
END_TEST

START_TEST(a_saved_file_is_a_modification_to_who_asks_for_those)
{
    struct heard t;
    watch_run("echo a > f");
    heard_begin(&t, make_json("{s:[s]}", "event_types", "modify"));
    watch_run("echo b > .f.swp && mv .f.swp f && touch other && sleep 0.2 && echo c > other");
    heard_wait(&t, "modify other");
    ck_assert_msg(heard_has(&t, "modify f (.f.swp -> f)"), "%s", buffer_text(&t.lines));
    ck_assert_ptr_null(strstr(buffer_text(&t.lines), "create"));
    heard_end(&t);
}
END_TEST

START_TEST(what_is_excluded_costs_no_event)
{
    struct heard t;
    heard_begin(&t, make_json("{s:[s, s]}", "exclude_patterns", ".git", "*.log"));
    watch_run("mkdir -p a/.git && touch a/.git/index a/x.log a/y");
    heard_wait(&t, "create a/y");
    ck_assert_str_eq(buffer_text(&t.lines), "create a\ncreate a/y\nmodify a/y\n");
    heard_end(&t);
    ws_refused(400, "exclude_patterns '..'", "POST", "file-watches",
               make_json("{s:[s]}", "exclude_patterns", ".."));
}
END_TEST

START_TEST(names_are_told_exactly)
{
    struct heard t;
    heard_begin(&t, make_json("{s:[s]}", "event_types", "create"));
    watch_run("touch \"$(printf 'a\\377b')\" && touch \"$(printf 'x\\ny\"\\\\')\" é && touch \"$(printf "
              "'q\\001%.0s' $(seq 100))\"");
    json_auto_t *page = NULL;
    for (int k = 0; k < 50 && json_array_size(json_object_get(page, "events")) < 4; k++) {
        json_decref(page);
        page = watch_page(t.fw, 0, 0);
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
    heard_end(&t);
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
    watch_run("ln -s /etc out && mkfifo pipe && touch f");
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
    watch_run("mkdir -p d/{0..63}");
    for (int i = 0; i < 64; i++) {
        char path[16];
        snprintf(path, sizeof path, "d/%d", i);
        json_decref(watch_start(make_json("{s:s}", "path", path), fw[i]));
    }
    refuse_start(429, "64 watches", NULL);
}

/* Also where all of them have what one plain user may have. */
START_TEST(sixty_four_live_and_each_is_told_of_its_own)
{
    char fw[64][40], path[32];
    start_all(fw);
    watch_run("mkdir d/{0..63}/new");
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "d/%d/new", i);
        watch_told_once(fw[i], path);
    }
}
END_TEST

START_TEST(ended_ones_do_not_count)
{
    char fw[64][40], another[40];
    start_all(fw);
    json_decref(watch_cancel(fw[10]));
    json_decref(watch_start(make_json("{s:s}", "path", "d/10"), another));
    refuse_start(429, "64 watches", NULL);
    json_auto_t *list = ws_get("file-watches");
    ck_assert_uint_eq(json_array_size(list), 64);
    ck_assert_str_eq(member_text(json_array_get(list, 0), "watch_id"), another);
    for (size_t i = 0; i < 64; i++) /* those that live, rather than a newer one that ended */
        ck_assert_str_eq(member_text(json_array_get(list, i), "state"), "running");
    watch_run("mkdir d/10/new d/11/new");
    watch_told_once(another, "d/10/new");
    watch_told_once(fw[11], "d/11/new");
    json_auto_t *page = watch_page(fw[10], 0, 0);
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
    watch_run("test $(pgrep -c ws-watch) = 1 && grep -P 'Threads:\\t65$' /proc/$(pgrep ws-watch)/status");
    for (int i = 1; i < 64; i++)
        json_decref(watch_cancel(fw[i]));
    watch_run(
        "for i in {1..50}; do grep -P 'Threads:\\t2$' /proc/$(pgrep ws-watch)/status && exit; sleep 0.1; "
        "done; exit 1");
    watch_run("mkdir d/0/new");
    watch_told_once(fw[0], "d/0/new");
    json_decref(watch_cancel(fw[0]));
    watch_run("for i in {1..50}; do pgrep ws-watch || exit 0; sleep 0.1; done; exit 1");
}
END_TEST

START_TEST(watches_of_the_same_folders_harm_each_other_not)
{
    struct heard all, part, names;
    watch_run("mkdir -p a/b c");
    heard_begin(&all, NULL);
    heard_begin(&part, make_json("{s:s}", "path", "a"));
    heard_begin(&names, make_json("{s:s, s:[s]}", "path", "a/b", "event_types", "create"));
    watch_run("mkdir a/b/f; mv a/b/f c/f; mv c/f a/f; echo > a/b/g");
    heard_wait(&all, "modify a/b/g");
    heard_wait(&part, "modify a/b/g");
    heard_wait(&names, "create a/b/g");
    ck_assert_str_eq(buffer_text(&all.lines),
                     "create a/b/f\nremove a/b/f (a/b/f -> c/f)\ncreate c/f (a/b/f -> c/f)\n"
                     "remove c/f (c/f -> a/f)\ncreate a/f (c/f -> a/f)\ncreate a/b/g\nmodify a/b/g\n");
    ck_assert_str_eq(buffer_text(&part.lines), "create a/b/f\nremove a/b/f\ncreate a/f\ncreate a/b/g\n"
                                               "modify a/b/g\n");
    ck_assert_str_eq(buffer_text(&names.lines), "create a/b/f\ncreate a/b/g\n");
    json_decref(watch_cancel(all.fw));
    watch_run("mkdir a/b/h");
    heard_wait(&part, "create a/b/h");
    heard_wait(&names, "create a/b/h");
    json_decref(watch_cancel(names.fw));
    watch_run("mkdir a/b/i");
    heard_wait(&part, "create a/b/i");
    ck_assert_uint_eq(heard_count(&part, "create a/b/h") + heard_count(&part, "create a/b/i"), 2);
    heard_end(&all);
    heard_end(&part);
    heard_end(&names);
}
END_TEST

/* As much as an install of packages makes, and nobody reads meanwhile. */
START_TEST(a_storm_is_told_as_an_overflow_and_harms_nobody)
{
    struct heard t;
    struct exec_log log;
    char ex[40];
    heard_begin(&t, NULL);
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
    json_auto_t *page = watch_page(t.fw, 0, 0);
    ck_assert(member_flag(page, "cursor_expired"));
    const json_t *first = json_array_get(json_object_get(page, "events"), 0);
    ck_assert_str_eq(member_text(first, "type"), "overflow");
    ck_assert(member_flag(first, "rescan"));
    ck_assert_int_eq(member_number(first, "seq"), member_number(page, "base_cursor") - 1);
    heard_wait(&t, "create end");
    ck_assert_uint_le(t.events, 2100);
    json_auto_t *status = watch_status(t.fw);
    ck_assert_int_eq(member_number(status, "next_cursor") - member_number(status, "base_cursor"), 2048);
    watch_run("touch after");
    heard_wait(&t, "create after");
    heard_end(&t);
}
END_TEST

START_TEST(pages_hold_their_bounds)
{
    struct heard t;
    heard_begin(&t, make_json("{s:[s]}", "event_types", "create"));
    watch_run("n=$(printf '%0200d' 0); for i in $(seq 700); do : > $n-$i; done; touch last");
    heard_wait(&t, "create last");
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
    heard_end(&t);
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
    suite_add_tcase(suite, tests);
    return suite_main(suite, environment);
}
