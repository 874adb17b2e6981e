/* A watch over real folders: what is done to them and what is told of it, with a reader that comes late, when
 * the kernel's queue is full, and where the system has no more watches. */
#include "lib/agent/watch/watcher.h"
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USUAL = 1 << CHANGE_CREATE | 1 << CHANGE_MODIFY | 1 << CHANGE_REMOVE };
enum { NAMES = 1 << CHANGE_CREATE | 1 << CHANGE_REMOVE };

static struct path_root root;
static struct instance *instance;
static struct watcher *w;
static struct glob *excluded;
static struct buffer lines;

static void set_up(void)
{
    scratch_make();
    root = (struct path_root){ .path = scratch, .fd = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC) };
    ck_assert_int_ge(root.fd, 0);
    ck_assert_int_eq(chdir(scratch), 0);
    excluded = glob_new(GLOB_EXCLUDE);
    instance = instance_open(NULL);
    ck_assert_ptr_nonnull(instance);
}

static void tear_down(void)
{
    watcher_free(w);
    w = NULL;
    instance_free(instance);
    glob_free(excluded);
    buffer_free(&lines);
    close(root.fd);
    ck_assert_int_eq(chdir("/"), 0);
    scratch_remove();
}

static struct watcher *try_to_watch(const char *path, bool recursive, unsigned types, struct error *err)
{
    const struct watcher_options options = { .root = &root,
                                             .path = path,
                                             .recursive = recursive,
                                             .types = types,
                                             .excluded = excluded,
                                             .instance = instance,
                                             .reader_fd = -1 };
    return watcher_open(&options, err);
}

static void watch(const char *path, unsigned types)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    w = try_to_watch(path, true, types, &err);
    ck_assert_msg(w != NULL, "%s", err.message);
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
START_TEST(a_full_queue_is_told_and_nothing_is_unwatched_after_it)
{
    watch(".", NAMES);
    for (int i = 0; i < 9000; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0644));
        unlink(name);
    }
    sh("mkdir -p late/r; touch late/r/f");
    told();
    ck_assert_msg(strstr(buffer_text(&lines), "overflow .: queue\n") != NULL, "%.500s", buffer_text(&lines));
    sh("touch late/r/g");
    expect("create late/r/g\n");
}
END_TEST

/* ---- a client's picture of the tree, from what is told alone ---- */

static char *picture[4096];
static size_t pictured;
static bool is_lost; /* it is to be drawn anew */

/* Others that watch the same folders, if there are to be any. */
static struct watcher *others[3];
static bool beside_others;

static void forget(size_t i)
{
    free(picture[i]);
    picture[i] = picture[--pictured];
}

static bool lies_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || path[length] == '\0');
}

static void take_away(const char *path, const char *to)
{
    for (size_t i = 0; i < pictured;) {
        if (!lies_below(picture[i], path)) {
            i++;
        } else if (!to) {
            forget(i);
        } else {
            char *moved = xasprintf("%s%s", to, picture[i] + strlen(path));
            free(picture[i]);
            picture[i++] = moved;
        }
    }
}

static void put_in(const char *path)
{
    for (size_t i = 0; i < pictured; i++)
        if (!strcmp(picture[i], path))
            return;
    ck_assert_uint_lt(pictured, sizeof picture / sizeof *picture);
    picture[pictured++] = xstrdup(path);
}

static void redraw(const struct change *c)
{
    _cleanup_free_ char *path = xstrndup(c->path, c->length);
    _cleanup_free_ char *other = c->flags & CHANGE_MOVED ? xstrndup(c->other, c->other_length) : NULL;
    is_lost |= c->type == CHANGE_OVERFLOW;
    if (c->type == CHANGE_REMOVE && other) {
        take_away(other, NULL); /* what it takes the place of */
        take_away(path, other);
    } else if (c->type == CHANGE_REMOVE) {
        take_away(path, NULL);
    } else if (c->type == CHANGE_CREATE) {
        put_in(path);
    }
}

static void random_path(char *path, size_t size, unsigned *seed)
{
    size_t at = 0;
    for (int depth = 1 + rand_r(seed) % 4; depth > 0; depth--)
        at += (size_t)snprintf(path + at, size - at, "%s%c", at ? "/" : "", 'a' + rand_r(seed) % 3);
}

/* They come and go, and hold what they have not yet looked at. */
static void let_others_come_and_go(void)
{
    static unsigned seed = 1;
    char path[64];
    struct watcher **other = &others[(unsigned)rand_r(&seed) % N_ELEMENTS(others)];
    if (!beside_others)
        return;
    if (*other && rand_r(&seed) % 4) {
        watcher_read(*other);
        return;
    }
    watcher_free(*other);
    random_path(path, sizeof path, &seed);
    *other = try_to_watch(rand_r(&seed) % 2 ? "." : path, true, USUAL, NULL);
}

static void watch_until_quiet(pid_t maker)
{
    for (int64_t quiet = clock_boottime_ms() + 300; clock_boottime_ms() < quiet;) {
        struct pollfd fd = { .fd = instance_fd(instance), .events = POLLIN };
        if (poll(&fd, 1, 2) > 0 || waitpid(maker, NULL, WNOHANG) == 0)
            quiet = clock_boottime_ms() + 300;
        let_others_come_and_go();
        watcher_read(w);
        const struct change *c;
        while ((c = pending_next(watcher_pending(w), clock_boottime_us())) != NULL) {
            redraw(c);
            pending_done(watcher_pending(w), clock_boottime_us());
        }
    }
}

static void make_changes(unsigned seed, int steps)
{
    char one[64], other[64];
    for (int i = 0; i < steps; i++) {
        random_path(one, sizeof one, &seed);
        random_path(other, sizeof other, &seed);
        switch (rand_r(&seed) % 8) {
        case 0:
        case 1:
        case 2:
            mkdir(one, 0755);
            break;
        case 3:
        case 4:
            close(open(one, O_CREAT | O_WRONLY, 0644));
            break;
        case 5:
            unlink(one);
            break;
        case 6:
            rmdir(one);
            break;
        default:
            rename(one, other);
        }
        if (rand_r(&seed) % 16 == 0)
            usleep((useconds_t)(rand_r(&seed) % 300));
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void clear_picture(void)
{
    while (pictured > 0)
        forget(0);
}

static void draw_tree(void)
{
    char line[512];
    FILE *find = popen("find . -mindepth 1", "r");
    clear_picture();
    for (; fgets(line, sizeof line, find); put_in(line + 2))
        line[strcspn(line, "\n")] = '\0';
    pclose(find);
}

static void compare_with_tree(void)
{
    char line[512];
    size_t i = 0;
    FILE *find = popen("find . -mindepth 1 | cut -c 3- | LC_ALL=C sort", "r");
    qsort(picture, pictured, sizeof *picture, compare);
    for (; fgets(line, sizeof line, find); i++) {
        line[strcspn(line, "\n")] = '\0';
        ck_assert_msg(i < pictured && !strcmp(picture[i], line), "%s is there, %s was told", line,
                      i < pictured ? picture[i] : "nothing");
    }
    pclose(find);
    ck_assert_msg(i == pictured, "%s was told, and is not there", i < pictured ? picture[i] : "");
}

static void change_and_look(unsigned seed, int steps)
{
    pid_t maker = fork();
    if (maker == 0) {
        make_changes(seed, steps);
        _exit(0);
    }
    watch_until_quiet(maker);
}

static int make_probe(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    char probe[PATH_MAX];
    (void)stat;
    (void)ftw;
    snprintf(probe, sizeof probe, "%s/probe", path);
    if (type == FTW_D)
        close(open(probe, O_CREAT | O_WRONLY, 0644));
    return 0;
}

static int remove_probe(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    if (type == FTW_F && !strcmp(path + ftw->base, "probe"))
        unlink(path);
    return 0;
}

/* Nothing that is there may be unwatched. */
static void probe_all_folders(void)
{
    ck_assert_int_eq(nftw(".", make_probe, 32, FTW_PHYS), 0);
    watch_until_quiet(-1);
    compare_with_tree();
    ck_assert_int_eq(nftw(".", remove_probe, 32, FTW_PHYS), 0);
    watch_until_quiet(-1);
    compare_with_tree();
}

/* Folders and files come, go and are renamed faster than anybody looks: who draws what is told has the tree,
 * unless an overflow told that it is to be looked at; and also then all is watched. */
static void check_that_it_makes_the_tree(void)
{
    enum { ROUNDS = 6 };
    unsigned whole = 0;
    watch(".", NAMES);
    for (unsigned round = 0; round < ROUNDS; round++) {
        is_lost = false;
        change_and_look((unsigned)getpid() + round, round % 2 ? 2000 : 40);
        if (is_lost)
            draw_tree();
        else
            whole++;
        compare_with_tree();
        is_lost = false;
        probe_all_folders();
        ck_assert(!is_lost);
    }
    printf("%u of %d rounds without an overflow\n", whole, ROUNDS);
    ck_assert_uint_gt(whole, 0);
    clear_picture();
}

START_TEST(what_is_told_makes_the_tree)
{
    check_that_it_makes_the_tree();
}
END_TEST

START_TEST(it_does_so_beside_others)
{
    beside_others = true;
    check_that_it_makes_the_tree();
    for (size_t i = 0; i < N_ELEMENTS(others); i++)
        watcher_free(others[i]);
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
                                   one_folder_alone_may_be_watched,
                                   a_file_is_watched_also_when_another_takes_its_place,
                                   what_is_watched_may_go,
                                   links_lead_nowhere_else,
                                   a_walk_that_nobody_waits_for_ends,
                                   names_are_bytes,
                                   a_full_queue_is_told_and_nothing_is_unwatched_after_it,
                                   what_is_told_makes_the_tree,
                                   it_does_so_beside_others,
                                   the_systems_limits_are_told };
    return unit_run_tests("watcher", tests, sizeof tests / sizeof *tests, set_up, tear_down, 120);
}
