/* A client that draws the tree from what a watch tells, alone, and has it, while another process changes the
 * tree faster than anybody looks. */
#include "lib/base/clock.h"
#include "tests/support/picture.h"
#include "tests/support/unit.h"
#include "tests/support/watcher_case.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned others_seed; /* 0: there are none */

static bool has_ended(pid_t maker)
{
    return maker < 0 || waitpid(maker, NULL, WNOHANG) != 0;
}

/* The kernel has queued what happened before a system call returns: when nobody changes anything any more,
 * what is there to be read is all, however slow the machine. */
static void watch_until_quiet(pid_t maker)
{
    for (bool is_all = false; !is_all;) {
        bool is_made = has_ended(maker);
        struct pollfd fd = { .fd = instance_fd(instance), .events = POLLIN };
        poll(&fd, 1, 2);
        if (others_seed)
            others_come_and_go(&others_seed);
        bool is_read = watcher_read(w);
        picture_redraw(w);
        is_all =
            is_made && is_read && pending_due(watcher_pending(w)) == INT64_MAX && watcher_due(w) == INT64_MAX;
        maker = is_made ? -1 : maker;
    }
}

static void watch_what_is_left(void)
{
    watch_until_quiet(-1);
}

static void change_and_look(unsigned seed, int steps)
{
    pid_t maker = fork();
    if (maker == 0) {
        for (int i = 0; i < steps; i++) {
            picture_change_something(&seed);
            if (rand_r(&seed) % 16 == 0)
                usleep((useconds_t)(rand_r(&seed) % 300));
        }
        _exit(0);
    }
    watch_until_quiet(maker);
}

/* WATCH_SEED repeats what is done, not when. */
static unsigned begin_chance(void)
{
    const char *given = getenv("WATCH_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)getpid();
    printf("WATCH_SEED=%u\n", seed);
    fflush(stdout);
    return seed;
}

/* Folders and files come, go and are renamed: who draws what is told has the tree, unless an overflow told
 * that it is to be looked at; and also then all is watched. */
static void check_that_it_makes_the_tree(bool beside_others)
{
    enum { ROUNDS = 12 };
    unsigned whole = 0, seed = begin_chance();
    others_seed = beside_others ? seed : 0;
    watch(".", NAMES);
    for (unsigned round = 0; round < ROUNDS; round++) {
        change_and_look(seed + round, round % 2 ? 2000 : 40);
        whole += picture_check_all(watch_what_is_left);
    }
    printf("%u of %d rounds without an overflow\n", whole, ROUNDS);
    ck_assert_uint_gt(whole, 0);
    picture_free();
}

START_TEST(what_is_told_makes_the_tree)
{
    check_that_it_makes_the_tree(false);
}
END_TEST

START_TEST(it_does_so_beside_others)
{
    check_that_it_makes_the_tree(true);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { what_is_told_makes_the_tree, it_does_so_beside_others };
    return unit_run_tests("watcher_tree", tests, N_ELEMENTS(tests), watcher_set_up, watcher_tear_down, 120);
}
