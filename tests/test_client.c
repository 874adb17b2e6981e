/* A worker's side of keepers and of the warden: requests and their answers. */
#include "lib/base/clock.h"
#include "tests/support/client_case.h"
#include "tests/support/unit.h"

#include <check.h>

START_TEST(a_request_is_answered)
{
    struct outcome o, second;
    peer_listen(&keeper_peer, WS);
    client_ask(&o, false, 5000);
    client_ask(&second, false, 5000);
    ck_assert_uint_eq(o.count, 0);
    client_spin(2000, &keeper_peer.count, 2);
    ck_assert_int_eq(keeper_peer.got[0].type, FRAME_REQUEST);
    json_auto_t *message = json_loads(keeper_peer.got[0].text, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(message, "operation")), "op");
    ck_assert_str_eq(json_string_value(json_object_get(message, "principal")), "owner");
    ck_assert_ptr_null(json_object_get(message, "key"));
    peer_reply(&keeper_peer, 1, "{\"n\":2}");
    client_spin(2000, &second.count, 1);
    ck_assert_str_eq(second.ret, "{\"n\":2}");
    ck_assert_uint_eq(o.count, 0);
    peer_reply(&keeper_peer, 0, "{\"n\":1}");
    client_spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "{\"n\":1}");
}
END_TEST

START_TEST(errors_come_as_they_are)
{
    struct outcome o;
    struct error err = ERROR_INIT;
    peer_listen(&keeper_peer, WS);
    client_ask(&o, false, 5000);
    client_spin(2000, &keeper_peer.count, 1);
    error_set(&err, ERROR_CONFLICT, "no");
    channel_send_reply(keeper_peer.channel, keeper_peer.got[0].stream, NULL, &err);
    client_spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_CONFLICT);
    ck_assert_str_eq(o.error.message, "no");
}
END_TEST

START_TEST(a_stopped_workspace_is_a_conflict)
{
    struct outcome o;
    client_ask(&o, false, 5000);
    ck_assert_uint_eq(o.count, 0);
    client_spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_CONFLICT);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(o.count, 1);
}
END_TEST

/* It then has so many requests, with those that the one before it got. */
static void warden_starts_keeper(size_t count)
{
    peer_listen(&keeper_peer, WS);
    peer_reply(&warden_peer, 0, "{\"record\":{}}");
    client_spin(2000, &keeper_peer.count, count);
    ck_assert_uint_eq(keeper_peer.count, count);
}

/* first and the request after it are those of a and b, in any order. */
static void keeper_answers(size_t first, const struct outcome *a, const struct outcome *b)
{
    peer_reply(&keeper_peer, first, "1");
    peer_reply(&keeper_peer, first + 1, "1");
    client_spin(2000, &a->count, 1);
    client_spin(2000, &b->count, 1);
    ck_assert_str_eq(a->ret, "1");
    ck_assert_str_eq(b->ret, "1");
}

/* It has the request, and says goodbye. */
static void ask_a_leaving_keeper(struct outcome *o)
{
    peer_listen(&keeper_peer, WS);
    peer_listen(&warden_peer, "warden");
    client_ask(o, true, 5000);
    client_spin(2000, &keeper_peer.count, 1);
    channel_send(keeper_peer.channel, FRAME_CLOSE, 0, 0, NULL, 0);
}

START_TEST(a_missing_keeper_is_started_once_for_all)
{
    struct outcome a, b, c;
    peer_listen(&warden_peer, "warden");
    client_ask(&a, true, 5000);
    client_ask(&b, true, 5000);
    client_ask(&c, false, 5000);
    client_spin(2000, &warden_peer.count, 1);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(warden_peer.count, 1);
    ck_assert_ptr_nonnull(strstr(warden_peer.got[0].text, "\"start\""));
    ck_assert_ptr_nonnull(strstr(warden_peer.got[0].text, WS));
    warden_starts_keeper(3);
    for (size_t i = 0; i < 3; i++)
        peer_reply(&keeper_peer, i, "true");
    client_spin(2000, &a.count, 1);
    client_spin(50, NULL, 0);
    ck_assert_str_eq(a.ret, "true");
    ck_assert_str_eq(b.ret, "true");
    ck_assert_str_eq(c.ret, "true");
}
END_TEST

START_TEST(a_failed_start_fails_who_waits)
{
    struct outcome o;
    struct error err = ERROR_INIT;
    peer_listen(&warden_peer, "warden");
    client_ask(&o, true, 5000);
    client_spin(2000, &warden_peer.count, 1);
    error_set(&err, ERROR_DRIVER, "cannot start");
    channel_send_reply(warden_peer.channel, warden_peer.got[0].stream, NULL, &err);
    client_spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_DRIVER);
}
END_TEST

START_TEST(a_missing_warden_is_called)
{
    struct outcome o = { 0 };
    keeper_client_start(client, WS, client_answered, &o);
    client_spin(100, NULL, 0);
    ck_assert_int_eq(warden_calls, 1);
    ck_assert_uint_eq(o.count, 0);
    peer_listen(&warden_peer, "warden");
    client_spin(3000, &warden_peer.count, 1);
    peer_reply(&warden_peer, 0, "{\"record\":{}}");
    client_spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "{\"record\":{}}");
}
END_TEST

START_TEST(what_a_dead_keeper_took_in_is_not_sent_twice)
{
    struct outcome o;
    peer_listen(&keeper_peer, WS);
    client_ask(&o, true, 5000);
    client_spin(2000, &keeper_peer.count, 1);
    client_spin(20, NULL, 0);
    peer_hang_up(&keeper_peer);
    client_spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_UNAVAILABLE);
    ck_assert_uint_eq(keeper_peer.count, 1);
}
END_TEST

START_TEST(what_a_stopping_keeper_refuses_waits_for_its_end)
{
    struct outcome started, other, late;
    peer_listen(&keeper_peer, WS);
    peer_listen(&warden_peer, "warden");
    client_ask(&started, true, 5000);
    client_ask(&other, false, 5000);
    client_spin(2000, &keeper_peer.count, 2);
    for (size_t i = 0; i < 2; i++)
        channel_send(keeper_peer.channel, FRAME_CLOSE, 0, keeper_peer.got[i].stream, NULL, 0);
    client_spin(20, NULL, 0);
    client_ask(&late, true, 5000);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(keeper_peer.count, 2);
    ck_assert_uint_eq(other.count, 0); /* it has not ended yet */
    peer_leave(&keeper_peer);
    client_spin(2000, &other.count, 1);
    ck_assert_int_eq(other.error.code, ERROR_CONFLICT);
    client_spin(2000, &warden_peer.count, 1);
    warden_starts_keeper(4);
    keeper_answers(2, &started, &late);
}
END_TEST

/* A request that crossed the goodbye was not taken in, one that came before it may have been. */
START_TEST(a_goodbye_tells_what_was_not_taken_in)
{
    struct outcome taken, crossed, late;
    ask_a_leaving_keeper(&taken);
    client_ask(&crossed, true, 5000);
    keeper_client_turn(client); /* sent, and read by nobody */
    peer_reply(&keeper_peer, 0, "\"done\"");
    channel_send(keeper_peer.channel, FRAME_END, 0, 0, NULL, 0);
    channel_write(keeper_peer.channel, NULL);
    client_ask(&late, true, 5000);
    peer_leave(&keeper_peer);
    client_spin(2000, &taken.count, 1);
    ck_assert_str_eq(taken.ret, "\"done\"");
    client_spin(2000, &warden_peer.count, 1);
    warden_starts_keeper(3);
    keeper_answers(1, &crossed, &late);
}
END_TEST

START_TEST(after_a_goodbye_nothing_is_sent)
{
    struct outcome first, late, other;
    ask_a_leaving_keeper(&first);
    client_spin(20, NULL, 0);
    client_ask(&late, true, 5000);
    client_ask(&other, false, 5000);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(keeper_peer.count, 1);
    peer_leave(&keeper_peer); /* without a word: what it had taken in may have been done */
    client_spin(2000, &first.count, 1);
    ck_assert_int_eq(first.error.code, ERROR_UNAVAILABLE);
    client_spin(2000, &other.count, 1);
    ck_assert_int_eq(other.error.code, ERROR_CONFLICT);
    ck_assert_uint_eq(late.count, 0);
    client_spin(2000, &warden_peer.count, 1);
}
END_TEST

/* Its key makes it safe to ask again. */
START_TEST(a_keyed_request_survives_its_keeper)
{
    struct outcome o = { 0 };
    json_auto_t *in = json_object();
    struct keeper_request request = { .workspace_id = WS,
                                      .operation = "op",
                                      .in = in,
                                      .start = true,
                                      .idempotency_key = "k",
                                      .digest = "d",
                                      .timeout_ms = 5000 };
    peer_listen(&keeper_peer, WS);
    peer_listen(&warden_peer, "warden");
    keeper_client_request(client, &request, client_answered, &o);
    client_spin(2000, &keeper_peer.count, 1);
    client_spin(20, NULL, 0);
    peer_leave(&keeper_peer);
    client_spin(2000, &warden_peer.count, 1);
    ck_assert_uint_eq(o.count, 0);
    warden_starts_keeper(2);
    ck_assert_str_eq(keeper_peer.got[0].text, keeper_peer.got[1].text);
    peer_reply(&keeper_peer, 1, "1");
    client_spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "1");
}
END_TEST

START_TEST(deadlines_hold)
{
    struct outcome o;
    peer_listen(&keeper_peer, WS);
    int64_t begun = clock_boottime_ms();
    client_ask(&o, true, 60);
    client_spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_TIMEOUT);
    ck_assert_int_lt(clock_boottime_ms() - begun, 500);
    ck_assert_int_ge(clock_boottime_ms() - begun, 60);
    client_spin(30, NULL, 0);
    peer_reply(&keeper_peer, 0, "1"); /* late: nobody hears it */
    client_spin(30, NULL, 0);
    ck_assert_uint_eq(o.count, 1);
}
END_TEST

/* Patience is with who has the request and says nothing; a goodbye is a word. */
START_TEST(patience_ends_before_the_deadline)
{
    struct outcome quiet = { 0 }, leaving = { 0 };
    json_auto_t *in = json_object();
    struct keeper_request request = {
        .workspace_id = WS, .operation = "op", .in = in, .timeout_ms = 600, .patience_ms = 60
    };
    peer_listen(&keeper_peer, WS);
    int64_t begun = clock_boottime_ms();
    keeper_client_request(client, &request, client_answered, &quiet);
    client_spin(2000, &quiet.count, 1);
    ck_assert_int_eq(quiet.error.code, ERROR_TIMEOUT);
    ck_assert_int_lt(clock_boottime_ms() - begun, 500);
    keeper_client_request(client, &request, client_answered, &leaving);
    client_spin(2000, &keeper_peer.count, 2);
    channel_send(keeper_peer.channel, FRAME_CLOSE, 0, 0, NULL, 0);
    begun = clock_boottime_ms();
    client_spin(2000, &leaving.count, 1);
    ck_assert_int_eq(leaving.error.code, ERROR_TIMEOUT);
    ck_assert_int_gt(clock_boottime_ms() - begun, 400);
}
END_TEST

START_TEST(who_cancels_hears_nothing)
{
    struct outcome o;
    peer_listen(&keeper_peer, WS);
    uint64_t number = client_ask(&o, true, 5000);
    client_spin(2000, &keeper_peer.count, 1);
    keeper_client_cancel(client, number);
    peer_reply(&keeper_peer, 0, "1");
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(o.count, 0);
}
END_TEST

static void expect_taken_back(size_t which, size_t request)
{
    client_spin(2000, &keeper_peer.count, which + 1);
    ck_assert_uint_gt(keeper_peer.count, which);
    ck_assert_int_eq(keeper_peer.got[which].type, FRAME_CLOSE);
    ck_assert_uint_eq(keeper_peer.got[which].stream, keeper_peer.got[request].stream);
}

/* Else the keeper, and all behind it, would work on for nobody. What was client_answered is not taken back.
 */
START_TEST(the_keeper_hears_that_nobody_waits)
{
    struct outcome cancelled, late, fine;
    peer_listen(&keeper_peer, WS);
    uint64_t number = client_ask(&cancelled, true, 5000);
    client_spin(2000, &keeper_peer.count, 1);
    keeper_client_cancel(client, number);
    expect_taken_back(1, 0);
    client_ask(&late, true, 60);
    client_spin(2000, &late.count, 1);
    ck_assert_int_eq(late.error.code, ERROR_TIMEOUT);
    expect_taken_back(3, 2);
    client_ask(&fine, true, 5000);
    client_spin(2000, &keeper_peer.count, 5);
    peer_reply(&keeper_peer, 4, "1");
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(fine.count, 1);
    ck_assert_uint_eq(keeper_peer.count, 5);
}
END_TEST

START_TEST(garbage_takes_the_connection_down)
{
    struct outcome o;
    peer_listen(&keeper_peer, WS);
    client_ask(&o, false, 5000);
    client_spin(2000, &keeper_peer.count, 1);
    ck_assert_int_eq(write(channel_fd(keeper_peer.channel), "nonsense nonsense nonsense", 26), 26);
    client_spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_UNAVAILABLE);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { a_request_is_answered,
                                   errors_come_as_they_are,
                                   a_stopped_workspace_is_a_conflict,
                                   a_missing_keeper_is_started_once_for_all,
                                   a_failed_start_fails_who_waits,
                                   a_missing_warden_is_called,
                                   what_a_dead_keeper_took_in_is_not_sent_twice,
                                   what_a_stopping_keeper_refuses_waits_for_its_end,
                                   a_goodbye_tells_what_was_not_taken_in,
                                   after_a_goodbye_nothing_is_sent,
                                   a_keyed_request_survives_its_keeper,
                                   deadlines_hold,
                                   patience_ends_before_the_deadline,
                                   who_cancels_hears_nothing,
                                   the_keeper_hears_that_nobody_waits,
                                   garbage_takes_the_connection_down };
    return unit_run_tests("client", tests, N_ELEMENTS(tests), client_set_up, client_tear_down, 30);
}
