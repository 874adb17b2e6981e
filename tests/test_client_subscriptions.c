/* A worker's side of keepers: who is told of changes, and how often. */
#include "tests/support/client_case.h"
#include "tests/support/unit.h"

#include <check.h>

struct listener {
    size_t count, gone;
    struct keeper_subscription *subscription;
    bool leaves;
};

static void changed(void *user, bool keeper_gone)
{
    struct listener *l = user;
    l->count++;
    l->gone += keeper_gone;
    if (l->leaves)
        keeper_client_unsubscribe(STEAL(l->subscription));
}

static void listen_to(struct listener *l)
{
    l->subscription = keeper_client_subscribe(client, WS, EX, changed, l);
}

START_TEST(one_subscription_serves_all)
{
    struct listener a = { 0 }, b = { .leaves = true }, c = { 0 };
    peer_listen(&keeper_peer, WS);
    listen_to(&a);
    listen_to(&b);
    listen_to(&c);
    client_spin(2000, &keeper_peer.count, 1);
    client_spin(30, NULL, 0);
    ck_assert_uint_eq(keeper_peer.count, 1);
    ck_assert_int_eq(keeper_peer.got[0].type, FRAME_SUBSCRIBE);
    ck_assert_str_eq(keeper_peer.got[0].text, EX);
    channel_send(keeper_peer.channel, FRAME_NOTIFY, 0, keeper_peer.got[0].stream, NULL, 0);
    client_spin(2000, &a.count, 1);
    client_spin(30, NULL, 0);
    ck_assert_uint_eq(a.count + b.count + c.count, 3);
    channel_send(keeper_peer.channel, FRAME_NOTIFY, 0, keeper_peer.got[0].stream, NULL, 0);
    client_spin(2000, &a.count, 2);
    ck_assert_uint_eq(b.count, 1);
    keeper_client_unsubscribe(a.subscription);
    client_spin(30, NULL, 0);
    ck_assert_uint_eq(keeper_peer.count, 1);
    keeper_client_unsubscribe(c.subscription);
    client_spin(2000, &keeper_peer.count, 2);
    ck_assert_int_eq(keeper_peer.got[1].type, FRAME_UNSUBSCRIBE);
    ck_assert_uint_eq(keeper_peer.got[1].stream, keeper_peer.got[0].stream);
}
END_TEST

START_TEST(a_keeper_that_goes_is_told)
{
    struct listener a = { .leaves = true }, b = { 0 };
    peer_listen(&keeper_peer, WS);
    listen_to(&a);
    listen_to(&b);
    client_spin(2000, &keeper_peer.count, 1);
    peer_leave(&keeper_peer);
    client_spin(2000, &b.gone, 1);
    ck_assert_uint_eq(a.gone, 1);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(b.count, 1);
    keeper_client_unsubscribe(b.subscription);
}
END_TEST

START_TEST(no_keeper_is_told_once_soon)
{
    struct listener a = { 0 };
    listen_to(&a);
    ck_assert_uint_eq(a.count, 0);
    client_spin(2000, &a.count, 1);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(a.count, 1);
    ck_assert_uint_eq(a.gone, 1);
    keeper_client_unsubscribe(a.subscription);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { one_subscription_serves_all, a_keeper_that_goes_is_told,
                                   no_keeper_is_told_once_soon };
    return unit_run_tests("client_subscriptions", tests, N_ELEMENTS(tests), client_set_up, client_tear_down,
                          30);
}
