/* The set of descriptors, with and without room for them in the kernel. A filter on the process's own system
 * calls stands for a user whose watches are all taken. */
#include "lib/base/memory.h"
#include "lib/base/poller.h"
#include "lib/keeper/reactor.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct poller poller;
static int ends[8][2];

static void refuse_room(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { N_ELEMENTS(program), program };
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

static void open_all(void)
{
    ck_assert_int_eq(poller_open(&poller), 0);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pipe2(ends[i], O_CLOEXEC | O_NONBLOCK), 0);
}

static void close_all(void)
{
    poller_close(&poller);
    for (int i = 0; i < 8; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
}

/* Rows: nothing refused; everything; from the fifth on. */
static void add_all(int kind)
{
    for (int i = 0; i < 8; i++) {
        if (kind == (i == 0 ? 1 : i == 4 ? 2 : 0))
            refuse_room();
        ck_assert_int_eq(poller_add(&poller, ends[i][0], EPOLLIN | EPOLLEXCLUSIVE, ends[i]), 0);
    }
}

static unsigned wait_for_bits(int timeout_ms)
{
    struct epoll_event events[16];
    unsigned bits = 0;
    int count = poller_wait(&poller, events, 16, timeout_ms);
    for (int i = 0; i < count; i++) {
        ck_assert_uint_ne(events[i].events & (EPOLLIN | EPOLLHUP), 0);
        bits |= 1u << ((int(*)[2])events[i].data.ptr - ends);
    }
    return bits;
}

START_TEST(all_are_served)
{
    char byte;
    add_all(_i);
    ck_assert_uint_eq(wait_for_bits(0), 0);
    ck_assert_uint_eq(wait_for_bits(10), 0);
    ck_assert_int_eq(write(ends[2][1], "x", 1), 1);
    ck_assert_int_eq(write(ends[6][1], "x", 1), 1);
    ck_assert_uint_eq(wait_for_bits(1000), 1u << 2 | 1u << 6);
    ck_assert_uint_eq(wait_for_bits(1000), 1u << 2 | 1u << 6); /* by level */
    ck_assert_int_eq(read(ends[2][0], &byte, 1), 1);
    ck_assert_uint_eq(wait_for_bits(1000), 1u << 6);
    ck_assert_int_eq(poller_remove(&poller, ends[6][0]), 0);
    ck_assert_uint_eq(wait_for_bits(0), 0);
    close(STEAL_FD(ends[7][1]));
    ck_assert_uint_eq(wait_for_bits(1000), 1u << 7);
    ck_assert_int_eq(poller_remove(&poller, ends[6][0]), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(interest_changes)
{
    struct epoll_event event;
    if (_i)
        refuse_room();
    ck_assert_int_eq(poller_add(&poller, ends[0][1], EPOLLIN, ends[0]), 0);
    ck_assert_int_eq(poller_wait(&poller, &event, 1, 0), 0);
    ck_assert_int_eq(poller_change(&poller, ends[0][1], EPOLLOUT, ends[1]), 0);
    ck_assert_int_eq(poller_wait(&poller, &event, 1, 1000), 1);
    ck_assert_uint_eq(event.events, EPOLLOUT);
    ck_assert_ptr_eq(event.data.ptr, ends[1]);
    ck_assert_int_eq(poller_change(&poller, ends[0][1], 0, ends[1]), 0);
    ck_assert_int_eq(poller_wait(&poller, &event, 1, 0), 0);
    ck_assert_int_eq(poller_add(&poller, -1, EPOLLIN, NULL), _i ? 0 : -1);
}
END_TEST

/* Those beside the set leave room for those in it, however many there are. */
START_TEST(the_set_does_not_starve)
{
    struct epoll_event events[4];
    bool seen = false;
    add_all(2);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(write(ends[i][1], "x", 1), 1);
    int count = poller_wait(&poller, events, 4, 1000);
    ck_assert_int_eq(count, 4);
    for (int i = 0; i < count; i++)
        seen |= (int(*)[2])events[i].data.ptr - ends < 4;
    ck_assert(seen);
}
END_TEST

static int called;
static void on_ready(void *user, uint32_t events)
{
    (void)events;
    called++;
    reactor_remove(*(struct reactor_source **)user);
}

START_TEST(a_keepers_reactor_goes_on)
{
    struct error err = ERROR_INIT;
    refuse_room();
    struct reactor *r = reactor_new(&err);
    struct reactor_source *source;
    ck_assert_msg(r != NULL, "%s", err.message);
    source = reactor_add(r, ends[0][0], EPOLLIN, on_ready, &source);
    ck_assert_int_eq(write(ends[0][1], "x", 1), 1);
    reactor_turn(r, INT64_MAX);
    ck_assert_int_eq(called, 1);
    reactor_free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("poller");
    TCase *c = tcase_create("poller");
    tcase_add_checked_fixture(c, open_all, close_all);
    tcase_add_loop_test(c, all_are_served, 0, 3);
    tcase_add_loop_test(c, interest_changes, 0, 2);
    tcase_add_test(c, the_set_does_not_starve);
    tcase_add_test(c, a_keepers_reactor_goes_on);
    suite_add_tcase(s, c);
    return unit_run(s);
}
