/* The event loop with real descriptors, timers, signals and threads. */
#include "fcgi/loop.h"
#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

static struct loop *l;
static int order[4096];
static int count;

static void setup(void)
{
    l = loop_new();
    count = 0;
}

static void teardown(void)
{
    loop_free(l);
}

static void note(void *user)
{
    order[count++] = *(int *)user;
}

static void stop(void *user)
{
    (void)user;
    loop_stop(l);
}

/* ---- timers ---- */

START_TEST(test_timers_fire_in_order)
{
    enum { MANY = 1000 };
    static struct loop_timer timers[MANY], end;
    static int numbers[MANY];
    int64_t now = clock_boottime_ms();

    for (int i = 0; i < MANY; i++) {
        numbers[i] = (i * 7919) % MANY;
        loop_timer_start(l, &timers[i], now + numbers[i] / 20, note, &numbers[i]);
    }
    /* A third is stopped, a third moved. */
    for (int i = 0; i < MANY; i += 3)
        loop_timer_stop(l, &timers[i]);
    for (int i = 1; i < MANY; i += 3)
        loop_timer_start(l, &timers[i], now + 60 + numbers[i] / 20, note, &numbers[i]);
    loop_timer_start(l, &end, now + 150, stop, NULL);
    loop_run(l);
    ck_assert_int_eq(count, 666);
    for (int i = 1; i < 333; i++)
        ck_assert_int_le(order[i - 1] / 20, order[i] / 20);
    for (int i = 334; i < 666; i++)
        ck_assert_int_le(order[i - 1] / 20, order[i] / 20);
    for (int i = 0; i < MANY; i++)
        ck_assert_uint_eq(timers[i].heap_index, 0);
    ck_assert_int_ge(clock_boottime_ms(), now + 150);
}
END_TEST

static struct loop_timer again;

static void restart(void *user)
{
    order[count++] = 0;
    if (count == 100)
        loop_stop(l);
    loop_timer_start(l, &again, 0, restart, user);
}

START_TEST(test_timer_may_restart_itself)
{
    again = (struct loop_timer){ 0 };
    loop_timer_start(l, &again, 0, restart, NULL);
    loop_run(l);
    ck_assert_int_eq(count, 100);
}
END_TEST

/* ---- descriptors ---- */

struct pair {
    int fds[2];
    struct loop_watch *watch;
    struct pair *other;
};

/* Ends the other's watch while its event is pending in the same turn. */
static void end_other(void *user, uint32_t events)
{
    struct pair *p = user;

    (void)events;
    order[count++] = 1;
    loop_unwatch(p->other->watch);
    close(p->other->fds[0]);
    loop_unwatch(p->watch);
    loop_stop(l);
}

START_TEST(test_unwatch_of_a_pending_descriptor)
{
    struct pair a, b;

    socketpair(AF_UNIX, SOCK_STREAM, 0, a.fds);
    socketpair(AF_UNIX, SOCK_STREAM, 0, b.fds);
    a.other = &b;
    b.other = &a;
    a.watch = loop_watch_fd(l, a.fds[0], EPOLLIN, end_other, &a);
    b.watch = loop_watch_fd(l, b.fds[0], EPOLLIN, end_other, &b);
    ck_assert_int_eq(write(a.fds[1], "x", 1), 1);
    ck_assert_int_eq(write(b.fds[1], "x", 1), 1);
    loop_run(l);
    ck_assert_int_eq(count, 1);
    close(a.fds[1]);
    close(b.fds[1]);
}
END_TEST

/* A plain file cannot be watched. */
START_TEST(test_what_cannot_be_watched_is_told)
{
    int fd = memfd_create("plain", 0);

    ck_assert_ptr_null(loop_try_watch_fd(l, fd, EPOLLIN, end_other, NULL));
    ck_assert_int_eq(errno, EPERM);
    close(fd);
}
END_TEST

static void ready(void *user, uint32_t events)
{
    struct pair *p = user;

    order[count++] = (int)events;
    if (count == 1)
        loop_watch_change(p->watch, EPOLLIN);
    else
        loop_stop(l);
}

START_TEST(test_change_of_events)
{
    struct pair a;

    socketpair(AF_UNIX, SOCK_STREAM, 0, a.fds);
    ck_assert_int_eq(write(a.fds[1], "x", 1), 1);
    a.watch = loop_watch_fd(l, a.fds[0], EPOLLOUT, ready, &a);
    loop_run(l);
    ck_assert_int_eq(order[0], EPOLLOUT);
    ck_assert_int_eq(order[1], EPOLLIN);
    loop_unwatch(a.watch);
    close(a.fds[0]);
    close(a.fds[1]);
}
END_TEST

/* ---- calls ---- */

static int one = 1, two = 2, three = 3;

static void defer_more(void *user)
{
    (void)user;
    note(&one);
    loop_defer(l, note, &three);
    loop_defer(l, stop, NULL);
}

START_TEST(test_deferred_calls_and_turn_ends)
{
    loop_at_turn_end(l, note, &two);
    loop_defer(l, defer_more, NULL);
    loop_run(l);
    ck_assert_int_eq(count, 4);
    ck_assert_int_eq(order[0], 1);
    ck_assert_int_eq(order[1], 2);
    ck_assert_int_eq(order[2], 3);
    ck_assert_int_eq(order[3], 2);
}
END_TEST

static void *post_many(void *user)
{
    for (int i = 0; i < 1000; i++)
        loop_post(l, note, user);
    return NULL;
}

START_TEST(test_posts_of_threads)
{
    pthread_t threads[4];
    struct loop_timer end = { 0 };

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, post_many, &one);
    loop_timer_start(l, &end, clock_boottime_ms() + 200, stop, NULL);
    loop_run(l);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(count, 4000);
}
END_TEST

static pthread_t worked_in[4]; /* by what it was */

static void work(void *user)
{
    worked_in[*(int *)user] = pthread_self();
    if (*(int *)user == 1)
        usleep(20000);
}

static void done(void *user)
{
    note(user);
    ck_assert(!pthread_equal(worked_in[*(int *)user], pthread_self()));
    if (*(int *)user == 3)
        loop_stop(l);
}

START_TEST(test_offloaded_work_is_done_in_order)
{
    loop_offload(l, work, done, &one);
    loop_offload(l, work, done, &two);
    loop_offload(l, work, done, &three);
    loop_run(l);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(order[i], i + 1);
}
END_TEST

START_TEST(test_signals)
{
    loop_signal(l, SIGUSR1, note, &one);
    loop_signal(l, SIGUSR2, stop, NULL);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    loop_run(l);
    ck_assert_int_eq(count, 1);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("loop");
    Suite *suite = suite_create("loop");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, test_timers_fire_in_order);
    tcase_add_test(c, test_timer_may_restart_itself);
    tcase_add_test(c, test_unwatch_of_a_pending_descriptor);
    tcase_add_test(c, test_what_cannot_be_watched_is_told);
    tcase_add_test(c, test_change_of_events);
    tcase_add_test(c, test_deferred_calls_and_turn_ends);
    tcase_add_test(c, test_posts_of_threads);
    tcase_add_test(c, test_offloaded_work_is_done_in_order);
    tcase_add_test(c, test_signals);
    suite_add_tcase(suite, c);
    return unit_run(suite);
}
