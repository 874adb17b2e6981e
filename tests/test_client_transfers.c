/* A worker's side of keepers: bytes and texts that go with a request, as there is room for them. */
#include "tests/support/client_case.h"
#include "tests/support/unit.h"

#include <check.h>

struct flow {
    struct outcome outcome; /* first: client_answered() gets its address */
    uint64_t number;
    size_t rooms, bytes, ends;
    bool whole;
};

static void flow_room(void *user)
{
    ((struct flow *)user)->rooms++;
}

static void flow_data(void *user, const char *data, size_t length)
{
    struct flow *flow = user;
    ck_assert_uint_eq(flow->outcome.count, 1);
    ck_assert_int_eq(data[0], 'x');
    flow->bytes += length;
    keeper_client_grant(client, flow->number, length);
}

static void flow_end(void *user, bool whole)
{
    struct flow *flow = user;
    flow->ends++;
    flow->whole = whole;
}

static void transfer(struct flow *flow)
{
    static const struct keeper_transfer handlers = { flow_room, flow_data, flow_end };
    json_auto_t *in = json_object();
    struct keeper_request request = { .workspace_id = WS,
                                      .operation = "raw",
                                      .principal = "owner",
                                      .request_id = "r1",
                                      .in = in,
                                      .transfer = &handlers,
                                      .timeout_ms = 5000 };
    *flow = (struct flow){ 0 };
    flow->number = keeper_client_request(client, &request, client_answered, flow);
}

START_TEST(bytes_follow_an_answer)
{
    struct flow flow;
    char bytes[1000], close = 0;
    memset(bytes, 'x', sizeof(bytes));
    peer_listen(&keeper_peer, WS);
    transfer(&flow);
    client_spin(2000, &keeper_peer.count, 1);
    ck_assert_ptr_nonnull(strstr(keeper_peer.got[0].text, "\"streams\":true"));
    peer_reply(&keeper_peer, 0, "{\"size\":3000}");
    for (int i = 0; i < 3000; i++) { /* more than the credit of one window */
        while (channel_data_room(keeper_peer.channel, keeper_peer.got[0].stream) < sizeof(bytes))
            client_spin(5, NULL, 0);
        channel_send_data(keeper_peer.channel, 1, keeper_peer.got[0].stream, bytes, sizeof(bytes));
    }
    channel_send_after_data(keeper_peer.channel, FRAME_CLOSE, 0, keeper_peer.got[0].stream, &close, 1);
    client_spin(5000, &flow.ends, 1);
    ck_assert_uint_eq(flow.bytes, 3000 * sizeof(bytes));
    ck_assert(flow.whole);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(flow.ends, 1);
    transfer(&flow);
    client_spin(2000, &keeper_peer.count, 2);
    peer_reply(&keeper_peer, 1, "{}");
    client_spin(2000, &flow.outcome.count, 1);
    peer_hang_up(&keeper_peer);
    client_spin(2000, &flow.ends, 1);
    ck_assert(!flow.whole);
    ck_assert_uint_eq(flow.outcome.count, 1);
}
END_TEST

START_TEST(bytes_are_given_as_there_is_room)
{
    struct flow flow;
    char bytes[8192];
    memset(bytes, 'y', sizeof(bytes));
    peer_listen(&keeper_peer, WS);
    transfer(&flow);
    ck_assert_uint_eq(keeper_client_room(client, flow.number), 0); /* nobody has greeted */
    keeper_client_want_room(client, flow.number);
    client_spin(2000, &flow.rooms, 1);
    size_t given = 0, room;
    while ((room = keeper_client_room(client, flow.number)) > 0) {
        size_t piece = room < sizeof(bytes) ? room : sizeof(bytes);
        keeper_client_send(client, flow.number, bytes, piece);
        given += piece;
        client_spin(1, NULL, 0);
    }
    ck_assert_uint_eq(given, FRAME_WINDOW);
    keeper_client_want_room(client, flow.number);
    client_spin(50, NULL, 0);
    ck_assert_uint_eq(flow.rooms, 1);
    channel_grant(keeper_peer.channel, keeper_peer.got[0].stream, FRAME_WINDOW);
    client_spin(2000, &flow.rooms, 2);
    struct flow other; /* nothing comes from the keeper, yet there is room */
    transfer(&other);
    keeper_client_want_room(client, other.number);
    client_spin(2000, &other.rooms, 1);
    ck_assert_uint_eq(other.rooms, 1);
    keeper_client_cancel(client, flow.number);
    client_spin(20, NULL, 0);
    keeper_peer.count = 0;
    keeper_client_cancel(client, other.number);
    client_spin(2000, &keeper_peer.count, 1);
    ck_assert_int_eq(keeper_peer.got[0].type, FRAME_CLOSE);
    ck_assert_uint_eq(flow.outcome.count + flow.ends, 0);
}
END_TEST

/* What was given is gone with its keeper: it cannot be given to the next. */
START_TEST(a_transfer_that_began_is_not_begun_again)
{
    struct flow flow;
    peer_listen(&keeper_peer, WS);
    transfer(&flow);
    keeper_client_want_room(client, flow.number);
    client_spin(2000, &flow.rooms, 1);
    keeper_client_send(client, flow.number, "y", 1);
    client_spin(50, NULL, 0);
    channel_send(keeper_peer.channel, FRAME_CLOSE, 0, keeper_peer.got[0].stream, NULL, 0);
    client_spin(2000, &flow.outcome.count, 1);
    ck_assert_int_eq(flow.outcome.error.code, ERROR_UNAVAILABLE);
}
END_TEST

START_TEST(a_text_follows_its_request)
{
    struct outcome o = { 0 };
    size_t length = 3u << 20;
    char *text = malloc(length);
    memset(text, 'x', length);
    json_auto_t *in = json_object(), *data = json_stringn(text, length);
    free(text);
    struct keeper_request request = { .workspace_id = WS,
                                      .operation = "write",
                                      .principal = "owner",
                                      .request_id = "r1",
                                      .in = in,
                                      .data = data,
                                      .timeout_ms = 5000 };
    peer_listen(&keeper_peer, WS);
    keeper_client_request(client, &request, client_answered, &o);
    client_spin(2000, &keeper_peer.count, 1);
    ck_assert_ptr_nonnull(strstr(keeper_peer.got[0].text, "\"data\":3145728"));
    size_t came = 0;
    for (bool ended = false; !ended;) {
        keeper_peer.count = 0;
        client_spin(20, &keeper_peer.count, 1);
        for (size_t i = 0; i < keeper_peer.count; i++)
            ended |= keeper_peer.got[i].type == FRAME_END;
        came = keeper_peer.bytes;
        channel_grant(keeper_peer.channel, 1, FRAME_WINDOW);
    }
    ck_assert_uint_eq(came, length);
    keeper_peer.got[0].stream = 1;
    peer_reply(&keeper_peer, 0, "true");
    client_spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "true");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { bytes_follow_an_answer, bytes_are_given_as_there_is_room,
                                   a_transfer_that_began_is_not_begun_again, a_text_follows_its_request };
    return unit_run_tests("client_transfers", tests, N_ELEMENTS(tests), client_set_up, client_tear_down, 30);
}
