/* A watch over real folders: what is done to them and what is told of it, with a reader that comes late, when
 * the kernel's queue is full, and where the system has no more watches. */
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "tests/support/unit.h"
#include "tests/support/watcher_case.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct buffer lines;

static void tear_down(void)
{
    buffer_free(&lines);
    watcher_tear_down();
}

/* By the shell, which is quick enough to make folders faster than they can be watched. */
static void sh(const char *format, ...)
{
    char command[2000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void note(const struct change *c)
{
    static const char *const names[] = { "",       "unknown", "access",   "create",
                                         "modify", "remove",  "overflow", "end" };
    buffer_printf(&lines, "%s %.*s", names[c->type], (int)c->length, c->path);
    if (c->flags & CHANGE_MOVED)
        buffer_printf(&lines, " (%.*s)", (int)c->other_length, c->other);
    if (c->why)
        buffer_printf(&lines, ": %s", change_why_name(c->why));
    buffer_append_char(&lines, '\n');
}

/* All that is told until nothing has come for a while. */
static const char *told(void)
{
    lines.length = 0;
    for (int64_t quiet = clock_boottime_ms() + 250; clock_boottime_ms() < quiet;) {
        struct pollfd fd = { .fd = instance_fd(instance), .events = POLLIN };
        if (poll(&fd, 1, 5) > 0)
            quiet = clock_boottime_ms() + 250;
        watcher_read(w);
        const struct change *c;
        while ((c = pending_next(watcher_pending(w), clock_boottime_us())) != NULL) {
            note(c);
            pending_done(watcher_pending(w), clock_boottime_us());
        }
    }
    return buffer_text(&lines);
}

static void expect(const char *text)
{
    ck_assert_str_eq(told(), text);
}

static size_t count(const char *line)
{
    size_t n = 0;
    _cleanup_free_ char *whole = xasprintf("%s\n", line);
    for (const char *at = buffer_text(&lines); *at; at = strchr(at, '\n') + 1)
        n += !strncmp(at, whole, strlen(whole));
    return n;
}

START_TEST(folders_made_at_once_are_told_with_all_in_them)
{
    watch(".", NAMES);
    sh("mkdir -p a/b/c && touch a/b/c/d");
    expect("create a\ncreate a/b\ncreate a/b/c\ncreate a/b/c/d\n");
    sh("rm -r a");
    expect("remove a/b/c/d\nremove a/b/c\nremove a/b\nremove a\n");
}
END_TEST

/* The reader comes while folders are being made, so that some are found and others told by the kernel. */
START_TEST(no_child_is_lost_and_none_told_twice)
{
    enum { TREES = 40, FILES = 10 };
    watch(".", NAMES);
    pid_t maker = fork();
    if (maker == 0) {
        for (int i = 0; i < TREES; i++) {
            char path[64];
            snprintf(path, sizeof path, "t%d", i);
            mkdir(path, 0755);
            snprintf(path, sizeof path, "t%d/s", i);
            mkdir(path, 0755);
            for (int k = 0; k < FILES; k++) {
                snprintf(path, sizeof path, "t%d/s/f%d", i, k);
                close(open(path, O_CREAT | O_WRONLY, 0644));
            }
        }
        _exit(0);
    }
    told();
    ck_assert_int_eq(waitpid(maker, NULL, 0), maker);
    for (int i = 0; i < TREES; i++)
        for (int k = 0; k < FILES; k++) {
            _cleanup_free_ char *line = xasprintf("create t%d/s/f%d", i, k);
            ck_assert_msg(count(line) == 1, "%s: %zu", line, count(line));
        }
    ck_assert_ptr_null(strstr(buffer_text(&lines), "overflow"));
}
END_TEST

START_TEST(renamed_folders_keep_being_watched)
{
    sh("mkdir -p a/b out && touch a/b/f");
    watch(".", NAMES);
    sh("mv a c");
    expect("remove a (c)\ncreate c (a)\n");
    sh("touch c/b/g && mv c/b d && touch d/h");
    expect("create c/b/g\nremove c/b (d)\ncreate d (c/b)\ncreate d/h\n");
}
END_TEST

START_TEST(what_leaves_is_watched_no_more_and_what_comes_is)
{
    sh("mkdir -p in/a/b away/x/y && touch away/x/y/z");
    watch("in", NAMES);
    sh("mv in/a away/a");
    expect("remove in/a\n");
    sh("touch away/a/b/f");
    expect("");
    sh("mv away/x in/x");
    expect("create in/x\ncreate in/x/y\ncreate in/x/y/z\n");
    sh("mv away/a in/a && touch in/a/b/g");
    told();
    ck_assert(count("create in/a") == 1 && count("create in/a/b/f") == 1 && count("create in/a/b/g") == 1);
}
END_TEST

START_TEST(what_is_excluded_is_not_there)
{
    ck_assert_int_eq(glob_add(excluded, "p", "node_modules", NULL), 0);
    ck_assert_int_eq(glob_add(excluded, "p", "*.log", NULL), 0);
    watch(".", NAMES);
    sh("mkdir -p a/node_modules/x && touch a/node_modules/x/f a/f.log a/f && sleep 0.1 && touch "
       "a/node_modules/x/g");
    expect("create a\ncreate a/f\n");
    sh("mv a/node_modules a/nm");
    expect("create a/nm\ncreate a/nm/x\ncreate a/nm/x/f\ncreate a/nm/x/g\n");
    sh("mv a/nm a/node_modules && sleep 0.1 && touch a/node_modules/x/h");
    expect("remove a/nm\n");
}
END_TEST

START_TEST(what_another_name_excludes_or_shows_goes_and_comes)
{
    ck_assert_int_eq(glob_add(excluded, "p", "p/x", NULL), 0);
    sh("mkdir -p p/x/y p/z && touch p/z/f");
    watch(".", NAMES);
    told();
    sh("mv p q");
    expect("remove p (q)\ncreate q (p)\ncreate q/x\ncreate q/x/y\n");
    sh("touch q/x/y/g");
    expect("create q/x/y/g\n");
    sh("mv q p");
    expect("remove q (p)\ncreate p (q)\nremove p/x\n");
    sh("touch p/x/y/h p/z/g");
    expect("create p/z/g\n");
}
END_TEST

START_TEST(many_may_leave_at_once)
{
    sh("mkdir -p in away; for i in $(seq 100); do mkdir in/$i; done");
    watch("in", NAMES);
    told();
    sh("mv in/* away");
    watcher_read(w);
    sh("for i in $(seq 100); do touch away/$i/f; done");
    told();
    ck_assert_msg(strstr(buffer_text(&lines), "/f\n") == NULL, "%.500s", buffer_text(&lines));
}
END_TEST

START_TEST(one_folder_alone_may_be_watched)
{
    sh("mkdir -p a/b");
    w = try_to_watch("a", false, NAMES, NULL);
    sh("touch a/f a/b/f && mkdir a/c && sleep 0.1 && touch a/c/f");
    expect("create a/f\ncreate a/c\n");
}
END_TEST

START_TEST(a_file_is_watched_also_when_another_takes_its_place)
{
    sh("echo a > f");
    watch("f", USUAL);
    sh("echo b > other; echo c >> f");
    expect("modify f\n");
    sh("echo d > f.tmp && mv f.tmp f");
    expect("create f\n");
    sh("rm f && sleep 0.15 && touch f");
    told();
    ck_assert(count("remove f") == 1 && count("create f") == 1);
}
END_TEST

START_TEST(what_is_watched_may_go)
{
    sh("mkdir -p a/b/c");
    watch("a/b", NAMES);
    sh("rmdir a/b/c a/b");
    expect("remove a/b/c\nremove a/b\nend a/b: watched_path_removed\n");
    watcher_free(w);
    sh("mkdir -p a/b/c");
    watch("a/b/c", NAMES);
    sh("mv a x");
    expect("remove a/b/c\nend a/b/c: watched_path_moved\n");
}
END_TEST

/* The kernel tells of each that it goes to the other's name, one after the other. */
START_TEST(what_is_exchanged_is_there)
{
    sh("mkdir a d && touch a/f a/g d/in");
    watch("a", NAMES);
    ck_assert_int_eq(renameat2(AT_FDCWD, "a/f", AT_FDCWD, "a/g", RENAME_EXCHANGE), 0);
    told();
    ck_assert_ptr_nonnull(strstr(strstr(buffer_text(&lines), "remove a/g"), "create a/g"));
    ck_assert_int_eq(renameat2(AT_FDCWD, "a/f", AT_FDCWD, "d", RENAME_EXCHANGE), 0);
    told();
    ck_assert_ptr_nonnull(strstr(strstr(buffer_text(&lines), "remove a/f"), "create a/f\ncreate a/f/in\n"));
    sh("touch a/f/new && rm a/g");
    expect("create a/f/new\nremove a/g\n");
}
END_TEST

START_TEST(links_lead_nowhere_else)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    sh("mkdir -p a/b && ln -s a/b inside && ln -s /etc outside && ln -s .. a/up");
    ck_assert_ptr_null(try_to_watch("outside", true, NAMES, &err));
    ck_assert_int_eq(err.code, ERROR_INVALID);
    error_clear(&err);
    ck_assert_ptr_null(try_to_watch("none", true, NAMES, &err));
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    watch("inside", NAMES);
    ck_assert_str_eq(watcher_path(w), "a/b");
    sh("touch a/b/f; ln -s /etc a/b/l; touch a/g");
    expect("create a/b/f\ncreate a/b/l\n");
}
END_TEST

START_TEST(a_walk_that_nobody_waits_for_ends)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    int ends[2];
    sh("mkdir -p a/b");
    ck_assert_int_eq(pipe(ends), 0);
    const struct watcher_options options = { .root = &root,
                                             .path = ".",
                                             .recursive = true,
                                             .types = NAMES,
                                             .excluded = excluded,
                                             .instance = instance,
                                             .reader_fd = ends[1] };
    w = watcher_open(&options, &err);
    ck_assert_msg(w != NULL, "%s", err.message);
    close(ends[0]);
    ck_assert_ptr_null(watcher_open(&options, &err));
    ck_assert_int_eq(err.code, ERROR_UNAVAILABLE);
    close(ends[1]);
}
END_TEST

START_TEST(names_are_bytes)
{
    watch(".", NAMES);
    sh("touch \"$(printf 'a\\377b')\" \"$(printf 'x\\ny')\"");
    expect("create a\377b\ncreate x\ny\n");
}
END_TEST

/* More happens than the kernel keeps for a reader that does not come: all is found again. */
static void fill_queue(const char *folder)
{
    for (int i = 0; i < 9000; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/f%d", folder, i);
        close(open(name, O_CREAT | O_WRONLY, 0644));
        unlink(name);
    }
}

START_TEST(a_full_queue_is_told_and_nothing_is_unwatched_after_it)
{
    watch(".", NAMES);
    fill_queue(".");
    sh("mkdir -p late/r; touch late/r/f");
    told();
    ck_assert_msg(strstr(buffer_text(&lines), "overflow .: queue\n") != NULL, "%.500s", buffer_text(&lines));
    sh("touch late/r/g");
    expect("create late/r/g\n");
}
END_TEST

/* Nor may the end of what is watched be lost with the rest, and what is above it is looked for anew. */
START_TEST(a_full_queue_hides_no_end)
{
    sh("mkdir -p a/b");
    watch("a/b", NAMES);
    fill_queue("a/b");
    sh("mv a x && mkdir -p a/b");
    told();
    ck_assert_msg(strstr(buffer_text(&lines), "overflow a/b: queue\n") != NULL, "%.500s",
                  buffer_text(&lines));
    sh("mv a y");
    expect("remove a/b\nend a/b: watched_path_moved\n");
    watcher_free(w);
    watch("x/b", NAMES);
    fill_queue("x/b");
    sh("mv x z");
    told();
    ck_assert_msg(strstr(buffer_text(&lines), "end x/b: watched_path_removed\n") != NULL, "%.500s",
                  buffer_text(&lines));
}
END_TEST

/* ---- a system that has no more ---- */

static void write_limit(const char *name, int value)
{
    char path[100];
    snprintf(path, sizeof path, "/proc/sys/user/%s", name);
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%d\n", value) < 0 || fclose(file) != 0)
        _exit(77);
}

/* In a user namespace of its own a process may lower its limits. */
static int in_namespace(void (*body)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER) < 0)
            _exit(77);
        body();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define must(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s\n", #condition);                                                             \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static void few_watches(void)
{
    struct error err = ERROR_INIT;
    instance = instance_open(NULL); /* it counts where it was opened */
    write_limit("max_inotify_watches", 3);
    must(try_to_watch(".", true, NAMES, &err) == NULL);
    must(err.code == ERROR_TOO_MANY && strstr(err.message, "max_user_watches") != NULL);
    w = try_to_watch("a", true, NAMES, NULL); /* "a" and, above it, the workspace */
    must(w != NULL);
    must(mkdir("a/1", 0755) == 0 && mkdir("a/2", 0755) == 0 && mkdir("a/3", 0755) == 0);
    told();
    must(count("create a/1") == 1 && count("create a/3") == 1);
    must(strstr(buffer_text(&lines), "overflow a/2: watches\n") != NULL);
}

static void few_instances(void)
{
    struct error err = ERROR_INIT;
    write_limit("max_inotify_instances", 0);
    must(instance_open(&err) == NULL);
    must(err.code == ERROR_TOO_MANY && strstr(err.message, "max_user_instances") != NULL);
}

START_TEST(the_systems_limits_are_told)
{
    sh("mkdir -p a b/c/d/e; chmod -R a+rwx .");
    int rc = in_namespace(few_watches);
    if (rc == 77) {
        fprintf(stderr, "no user namespace here: the limits of inotify were not tried\n");
        return;
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(in_namespace(few_instances), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { folders_made_at_once_are_told_with_all_in_them,
                                   no_child_is_lost_and_none_told_twice,
                                   renamed_folders_keep_being_watched,
                                   what_leaves_is_watched_no_more_and_what_comes_is,
                                   what_is_excluded_is_not_there,
                                   what_another_name_excludes_or_shows_goes_and_comes,
                                   many_may_leave_at_once,
                                   one_folder_alone_may_be_watched,
                                   a_file_is_watched_also_when_another_takes_its_place,
                                   what_is_watched_may_go,
                                   what_is_exchanged_is_there,
                                   links_lead_nowhere_else,
                                   a_walk_that_nobody_waits_for_ends,
                                   names_are_bytes,
                                   a_full_queue_is_told_and_nothing_is_unwatched_after_it,
                                   a_full_queue_hides_no_end,
                                   the_systems_limits_are_told };
    return unit_run_tests("watcher", tests, sizeof tests / sizeof *tests, watcher_set_up, tear_down, 120);
}
