/* What happens between any two looks of a watcher: this program is the C library for it, and in each call the
 * tree may change, or the kernel is late, has told the half only, or has lost all. So one seed is one course
 * of things, however slow the machine. */
#include "lib/base/clock.h"
#include "tests/support/picture.h"
#include "tests/support/unit.h"
#include "tests/support/watcher_case.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static unsigned seed;
static int changes_left;
static int kernel_waits;         /* so often nothing is told, for longer than anybody waits */
static int64_t now_us = 1000000; /* nobody has to wait */

static bool chance(unsigned one_in)
{
    return changes_left > 0 && !kernel_waits && (unsigned)rand_r(&seed) % one_in == 0;
}

/* Mostly few; sometimes so many that whole trees are made and renamed at once. */
static void meddle(void)
{
    int some = chance(4) ? 1 + rand_r(&seed) % (chance(8) ? 40 : 4) : 0;
    for (; some > 0; some--, changes_left--)
        picture_change_something(&seed);
}

/* ---- the C library ---- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){ .tv_sec = now_us / 1000000, .tv_nsec = now_us % 1000000 * 1000 };
    return 0;
}

static void (*script)(void); /* runs once, when so many more folders are watched */
static int script_watches;

static void run_script(void)
{
    if (!script || --script_watches > 0)
        return;
    void (*now)(void) = STEAL(script);
    ck_assert_int_eq(fchdir(root.fd), 0);
    now();
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    meddle();
    int wd = (int)syscall(SYS_inotify_add_watch, fd, path, mask);
    int problem = errno;
    meddle();
    run_script();
    errno = problem;
    return wd;
}

/* Some look while another one does. */
static void let_others(void)
{
    static bool within;
    if (within || !chance(8))
        return;
    within = true;
    others_come_and_go(&seed);
    within = false;
}

int openat(int folder, const char *path, int flags, ...)
{
    meddle();
    let_others();
    return (int)syscall(SYS_openat, folder, path, flags, 0);
}

static ssize_t lose_all(int fd, void *data, size_t size)
{
    const struct inotify_event overflow = { .wd = -1, .mask = IN_Q_OVERFLOW };
    while (syscall(SYS_read, fd, data, size) > 0)
        ;
    memcpy(data, &overflow, sizeof overflow);
    return sizeof overflow;
}

static ssize_t read_events(int fd, void *data, size_t size)
{
    enum { ONE = sizeof(struct inotify_event) + 16 }; /* all names here are short */
    const struct inotify_event *event = data;
    bool is_late = chance(6), is_lost = chance(1500), is_cut = chance(6);
    if (is_lost)
        return lose_all(fd, data, size);
    if (is_late || kernel_waits) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t got = syscall(SYS_read, fd, data, is_cut ? ONE : size);
    if (is_cut && got > 0 && event->mask & IN_MOVED_FROM && chance(4)) /* who renames loses his turn */
        kernel_waits = 1 + rand_r(&seed) % 2;
    return got;
}

ssize_t read(int fd, void *data, size_t size)
{
    meddle();
    return instance && fd == instance_fd(instance) ? read_events(fd, data, size)
                                                   : syscall(SYS_read, fd, data, size);
}

/* ---- rounds ---- */

static void watch_what_is_left(void)
{
    for (bool is_all = false; !is_all; now_us += 2000) {
        bool is_read = watcher_read(w);
        picture_redraw(w);
        is_all = is_read && pending_due(watcher_pending(w)) == INT64_MAX && watcher_due(w) == INT64_MAX;
    }
}

static void meddle_and_look(void)
{
    while (changes_left > 0 || kernel_waits) {
        meddle();
        now_us += 100;
        watcher_read(w);
        if (kernel_waits) {
            now_us += PENDING_PAIR_US + 1000;
            kernel_waits--;
        }
        picture_redraw(w);
    }
    watch_what_is_left();
}

static unsigned number_of(const char *name, unsigned usual)
{
    const char *given = getenv(name);
    return given ? (unsigned)strtoul(given, NULL, 10) : usual;
}

/* Some begin in the midst of changes: who then looks for himself misses nothing. */
static bool play(unsigned round)
{
    seed = round;
    picture_is_lost = round % 4 == 0;
    changes_left = picture_is_lost ? 300 : 0;
    meddle();
    watch(".", NAMES);
    changes_left = 300;
    meddle_and_look();
    bool is_whole = picture_check_all(watch_what_is_left);
    picture_remove_all(watch_what_is_left);
    watcher_free(STEAL(w));
    return is_whole;
}

/* WATCH_SEED and WATCH_ROUNDS look for more. */
START_TEST(all_is_told_whenever_changes_come)
{
    unsigned first = number_of("WATCH_SEED", 1), rounds = number_of("WATCH_ROUNDS", 200), whole = 0;
    for (unsigned round = first; round < first + rounds; round++) {
        printf("WATCH_SEED=%u WATCH_ROUNDS=1\n", round);
        fflush(stdout);
        whole += play(round);
    }
    printf("%u of %u rounds without an overflow\n", whole, rounds);
    ck_assert_uint_ge(whole, rounds / 2);
    picture_free();
}
END_TEST

/* ---- single ones ---- */

static void sh(const char *command)
{
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void swallow(void)
{
    sh("mv c x && mkdir -p c/b && mv x c/b/b");
}

/* It would never come to the events that say so. */
START_TEST(a_walk_ends_where_a_folder_has_come_into_itself)
{
    sh("mkdir -p c/b");
    script = swallow;
    script_watches = 2;
    picture_is_lost = true;
    watch(".", NAMES);
    ck_assert_ptr_null(script);
    watch_what_is_left();
    picture_check_all(watch_what_is_left);
    picture_free();
}
END_TEST

static void move_away(void)
{
    sh("mv a z");
}

/* Before the folder above it was watched. */
START_TEST(a_folder_that_goes_at_once_is_told_to_be_gone)
{
    sh("mkdir a");
    script = move_away;
    script_watches = 1;
    watch("a", NAMES);
    watcher_read(w);
    const struct change *c = pending_next(watcher_pending(w), now_us);
    while (c && c->type != CHANGE_END) {
        pending_done(watcher_pending(w), now_us);
        c = pending_next(watcher_pending(w), now_us);
    }
    ck_assert(c && c->why == WHY_MOVED);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { all_is_told_whenever_changes_come,
                                   a_walk_ends_where_a_folder_has_come_into_itself,
                                   a_folder_that_goes_at_once_is_told_to_be_gone };
    return unit_run_tests("watcher_races", tests, N_ELEMENTS(tests), watcher_set_up, watcher_tear_down, 120);
}
