/* Channels over real sockets: order, turns, credit, what forgetting and closing leave. */
#include "lib/base/ids.h"
#include "tests/support/peers.h"
#include "tests/support/unit.h"

#include <check.h>
#include <malloc.h>
#include <sys/epoll.h>

START_TEST(long_messages_are_split_and_joined)
{
    static const size_t sizes[] = {
        0, 1, FRAME_PAYLOAD_MAX, FRAME_PAYLOAD_MAX + 1, 3 * FRAME_PAYLOAD_MAX, FRAME_MESSAGE_MAX
    };
    start_pair();
    char *text = xmalloc(FRAME_MESSAGE_MAX);
    id_random(text, FRAME_MESSAGE_MAX);
    for (size_t at = 0; at < N_ELEMENTS(sizes); at++) {
        forget_seen();
        channel_send(ours, FRAME_REQUEST, FRAME_LATE, STREAM, text, sizes[at]);
        channel_send(ours, FRAME_NOTIFY, 0, STREAM + 1, NULL, 0);
        deliver(false);
        ck_assert_uint_eq(seen_count, 2);
        ck_assert(seen[0].type == FRAME_REQUEST && seen[0].flags == FRAME_LATE && seen[0].stream == STREAM);
        ck_assert_uint_eq(seen[0].length, sizes[at]);
        ck_assert(sizes[at] == 0 || memcmp(seen_data.data, text, sizes[at]) == 0);
        ck_assert_uint_eq(seen[1].type, FRAME_NOTIFY);
    }
    ck_assert_uint_eq(channel_control_queued(ours), 0);
    free(text);
    stop();
}
END_TEST

START_TEST(credit_limits_what_is_queued)
{
    static char piece[CHANNEL_STREAM_QUEUE];
    start_pair();
    for (size_t total = 0; total < FRAME_WINDOW; total += sizeof(piece)) {
        ck_assert_uint_eq(channel_data_room(ours, STREAM), sizeof(piece));
        channel_send_data(ours, 1, STREAM, piece, sizeof(piece));
        ck_assert_uint_eq(channel_data_room(ours, STREAM), 0);
        deliver(false);
    }
    ck_assert_uint_eq(channel_data_room(ours, STREAM), 0);
    ck_assert_uint_eq(channel_data_room(ours, STREAM + 1), CHANNEL_STREAM_QUEUE);
    channel_grant(theirs, STREAM, FRAME_WINDOW / 4 - 1);
    deliver(false);
    ck_assert_uint_eq(channel_data_room(ours, STREAM), 0);
    channel_grant(theirs, STREAM, 1);
    channel_write(theirs, &err);
    ck_assert_int_eq(read_ours(), 0);
    ck_assert_uint_eq(channel_data_room(ours, STREAM), FRAME_WINDOW / 4);
    stop();
}
END_TEST

/* Random pieces on several streams, some through reserve and commit, over a socket that is often full. */
START_TEST(bytes_arrive_in_order)
{
    enum { STREAMS = 5, TOTAL = 8 << 20 };
    static char data[STREAMS][TOTAL];
    size_t queued[STREAMS] = { 0 }, got[STREAMS] = { 0 };
    start_pair();
    id_random(data, sizeof(data));
    for (size_t rest = STREAMS; rest > 0;) {
        uint32_t dice[2];
        id_random(dice, sizeof(dice));
        size_t which = dice[0] % STREAMS, room = channel_data_room(ours, (uint32_t)which);
        size_t most = dice[1] % 3 == 0 ? 100 : dice[1] % 3 == 1 ? FRAME_PAYLOAD_MAX : CHANNEL_STREAM_QUEUE;
        size_t length = dice[1] / 3 % most;
        length = length < room ? length : room;
        length = length < TOTAL - queued[which] ? length : TOTAL - queued[which];
        if (dice[0] / STREAMS % 2 == 0) {
            channel_send_data(ours, (uint8_t)which % 3, (uint32_t)which, data[which] + queued[which], length);
        } else {
            size_t more = length + dice[0] % 1000 < room ? length + dice[0] % 1000 : room;
            memcpy(channel_reserve_data(ours, (uint32_t)which, more), data[which] + queued[which], length);
            channel_commit_data(ours, (uint8_t)which % 3, (uint32_t)which, length);
        }
        queued[which] += length;
        if (dice[0] % 7 == 0)
            channel_send(ours, FRAME_NOTIFY, 0, STREAMS, NULL, 0);
        if (dice[0] % 5 > 0)
            continue;
        forget_seen();
        ck_assert_int_eq(channel_write(ours, &err), 0);
        ck_assert_msg(channel_read(theirs, dice[1] % LIMIT, note, NULL, &err) == 0, "%s", err.message);
        for (size_t at = 0, offset = 0; at < seen_count; offset += seen[at++].length) {
            if (seen[at].type != FRAME_DATA)
                continue;
            which = seen[at].stream;
            ck_assert_mem_eq(seen_data.data + offset, data[which] + got[which], seen[at].length);
            ck_assert_uint_eq(seen[at].flags, which % 3);
            got[which] += seen[at].length;
            channel_grant(theirs, seen[at].stream, seen[at].length);
            rest -= got[which] == TOTAL && seen[at].length > 0;
        }
        ck_assert_int_eq(channel_write(theirs, &err), 0);
        ck_assert_int_eq(read_ours(), 0);
    }
    stop();
}
END_TEST

START_TEST(bulk_takes_turns_and_control_goes_first)
{
    static char piece[3 * FRAME_PAYLOAD_MAX];
    static const uint32_t order[] = { 99, 1, 2, 3, 1, 2, 3, 1, 2, 3, 3 };
    start_pair();
    for (uint32_t stream = 1; stream <= 3; stream++)
        channel_send_data(ours, 0, stream, piece, sizeof(piece));
    channel_send_after_data(ours, FRAME_END, 2, 3, NULL, 0);
    channel_send(ours, FRAME_REQUEST, 0, 99, "{}", 2);
    deliver(false);
    ck_assert_uint_eq(seen_count, N_ELEMENTS(order));
    for (size_t at = 0; at < N_ELEMENTS(order); at++)
        ck_assert_uint_eq(seen[at].stream, order[at]);
    ck_assert(seen[10].type == FRAME_END && seen[10].flags == 2);
    stop();
}
END_TEST

/* The socket is filled, so that a frame is written in part; what comes then must not stand inside it. */
static void fill_socket(uint32_t streams)
{
    static char piece[CHANNEL_STREAM_QUEUE];
    for (uint32_t stream = 1; stream <= streams; stream++)
        channel_send_data(ours, 0, stream, piece, sizeof(piece));
    ck_assert_int_eq(channel_write(ours, &err), 0);
    ck_assert(channel_events(ours) & EPOLLOUT);
}

START_TEST(control_waits_for_the_begun_frame_only)
{
    start_pair();
    fill_socket(4);
    channel_send(ours, FRAME_REQUEST, 0, 99, "{}", 2);
    size_t written = 0, at = 0;
    deliver(false);
    for (; at < seen_count && seen[at].type == FRAME_DATA; at++)
        written += seen[at].length;
    ck_assert_uint_lt(at, seen_count);
    ck_assert_uint_lt(written, 300 << 10); /* the socket's buffer and one frame, of a megabyte that waited */
    size_t total = 0;
    for (at = 0; at < seen_count; at++)
        total += seen[at].type == FRAME_DATA ? seen[at].length : 0;
    ck_assert_uint_eq(total, 4 * CHANNEL_STREAM_QUEUE);
    stop();
}
END_TEST

START_TEST(forgetting_keeps_the_framing)
{
    start_pair();
    fill_socket(4);
    for (uint32_t stream = 1; stream <= 4; stream++)
        channel_forget(ours, stream);
    channel_send(ours, FRAME_REQUEST, 0, 99, "{}", 2);
    deliver(false);
    ck_assert_uint_eq(seen[seen_count - 1].type, FRAME_REQUEST);
    ck_assert_uint_lt(seen_data.length, 300 << 10);
    ck_assert_uint_eq(channel_data_room(ours, 1), CHANNEL_STREAM_QUEUE);
    stop();
}
END_TEST

START_TEST(close_is_written_before_a_stream_is_forgotten)
{
    start_pair();
    channel_send_data(ours, 1, STREAM, "data", 4);
    channel_send_after_data(ours, FRAME_EXIT, 0, STREAM, "{}", 2);
    channel_send_after_data(ours, FRAME_CLOSE, 0, STREAM, NULL, 0);
    channel_forget(ours, STREAM);
    channel_forget(ours, STREAM);
    channel_forget(ours, 12345);
    deliver(false);
    ck_assert_uint_eq(seen_count, 3);
    ck_assert(seen[0].type == FRAME_DATA && seen[1].type == FRAME_EXIT && seen[2].type == FRAME_CLOSE);
    ck_assert_uint_eq(channel_data_room(ours, STREAM), CHANNEL_STREAM_QUEUE);
    stop();
}
END_TEST

START_TEST(small_pieces_are_joined)
{
    start_pair();
    for (int at = 0; at < 30000; at++) {
        *channel_reserve_data(ours, STREAM, 4096) = (char)at;
        channel_commit_data(ours, at < 15000 ? 1 : 2, STREAM, 1);
    }
    channel_commit_data(ours, 0, STREAM, 0);
    deliver(false);
    ck_assert_uint_lt(seen_count, 40);
    ck_assert_uint_eq(seen_data.length, 30000);
    for (int at = 0; at < 30000; at++)
        ck_assert_int_eq(seen_data.data[at], (char)at);
    stop();
}
END_TEST

START_TEST(replies_and_their_errors)
{
    start_pair();
    json_auto_t *ret = json_pack("{s:i}", "a", 1);
    channel_send_reply(ours, 1, ret, NULL);
    channel_send_reply(ours, 2, NULL, NULL);
    error_set(&err, ERROR_CONFLICT, "busy");
    channel_send_reply(ours, 3, NULL, &err);
    deliver(false);
    buffer_text(&seen_data);
    ck_assert_str_eq(seen_data.data, "{\"ret\":{\"a\":1}}{\"ret\":null}"
                                     "{\"error\":{\"code\":6,\"message\":\"busy\",\"retry_after\":0}}");
    char *large = xmalloc(FRAME_MESSAGE_MAX + 1);
    memset(large, 'x', FRAME_MESSAGE_MAX);
    large[FRAME_MESSAGE_MAX] = '\0';
    json_auto_t *text = json_string(large);
    forget_seen();
    ck_assert(!channel_send_json(ours, FRAME_REQUEST, 4, text));
    channel_send_reply(ours, 4, text, NULL);
    deliver(false);
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_ptr_nonnull(strstr(buffer_text(&seen_data), "{\"error\":{\"code\":8"));
    free(large);
    stop();
}
END_TEST

/* What the peer had sent is read although it reads no more; writing to it is no error and no signal. */
START_TEST(closing_loses_nothing_that_was_sent)
{
    start();
    send_hello();
    send_raw(FRAME_EXIT, 0, STREAM, "{}", 2);
    close(raw);
    raw = -1;
    channel_send(ours, FRAME_REQUEST, 0, 1, "{}", 2);
    channel_send_data(ours, 0, STREAM, "x", 1);
    ck_assert_int_eq(channel_write(ours, &err), 0);
    ck_assert_uint_eq(channel_events(ours), EPOLLIN);
    int result = 0;
    for (int tries = 0; tries < 4 && result == 0; tries++)
        result = read_ours();
    ck_assert_int_eq(result, 1);
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_uint_eq(seen[0].type, FRAME_EXIT);
    stop();
}
END_TEST

/* One way each: what one channel writes is what the other reads. */
START_TEST(a_pipe_will_do)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    struct channel *writer = channel_new(fds[1]);
    ours = channel_new(fds[0]);
    forget_seen();
    channel_send_data(writer, 0, STREAM, "data", 4);
    ck_assert_int_eq(channel_write(writer, &err), 0);
    ck_assert_int_eq(read_ours(), 0);
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_mem_eq(seen_data.data, "data", 4);
    channel_free(writer);
    ck_assert_int_eq(read_ours(), 1);
    stop();
}
END_TEST

/* Traffic in both ways and over many streams, none of which is left. */
static void use_and_fall_idle(void)
{
    static char piece[FRAME_PAYLOAD_MAX];
    start_pair();
    channel_send(ours, FRAME_REQUEST, 0, 1, piece, sizeof(piece));
    channel_send(theirs, FRAME_REQUEST, 0, 1, piece, sizeof(piece));
    for (uint32_t stream = 0; stream < 20; stream++)
        channel_send_data(ours, 0, stream, piece, sizeof(piece));
    deliver(true);
    for (uint32_t stream = 0; stream < 20; stream++) {
        channel_forget(ours, stream);
        channel_forget(theirs, stream);
    }
    ck_assert_uint_eq(channel_events(ours) | channel_events(theirs), EPOLLIN);
    buffer_free(&seen_data);
}

START_TEST(an_idle_channel_is_small)
{
    enum { PAIRS = 200 };
    struct channel *kept[2 * PAIRS];
    size_t before = mallinfo2().uordblks;
    for (int at = 0; at < PAIRS; at++) {
        use_and_fall_idle();
        kept[2 * at] = STEAL(ours);
        kept[2 * at + 1] = STEAL(theirs);
    }
    ck_assert_uint_lt((mallinfo2().uordblks - before) / (2 * PAIRS), 600);
    for (int at = 0; at < 2 * PAIRS; at++)
        channel_free(kept[at]);
}
END_TEST

/* Who reads on after a break, to have what came before it, gets nothing a second time. */
START_TEST(a_broken_channel_repeats_nothing)
{
    static const char nonsense[64] = { 0x7f };
    start();
    send_hello();
    send_raw(FRAME_DATA, 1, STREAM, "once", 4);
    ck_assert_int_eq(write(raw, nonsense, sizeof(nonsense)), sizeof(nonsense));
    for (int times = 0; times < 3; times++)
        ck_assert_int_eq(read_ours(), -1);
    send_raw(FRAME_DATA, 1, STREAM, "again", 5);
    ck_assert_int_eq(read_ours(), -1);
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_uint_eq(seen[0].length, 4);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("channel");
    TCase *cases = tcase_create("channel");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, long_messages_are_split_and_joined);
    tcase_add_test(cases, credit_limits_what_is_queued);
    tcase_add_test(cases, bytes_arrive_in_order);
    tcase_add_test(cases, bulk_takes_turns_and_control_goes_first);
    tcase_add_test(cases, control_waits_for_the_begun_frame_only);
    tcase_add_test(cases, forgetting_keeps_the_framing);
    tcase_add_test(cases, close_is_written_before_a_stream_is_forgotten);
    tcase_add_test(cases, small_pieces_are_joined);
    tcase_add_test(cases, replies_and_their_errors);
    tcase_add_test(cases, closing_loses_nothing_that_was_sent);
    tcase_add_test(cases, a_pipe_will_do);
    tcase_add_test(cases, an_idle_channel_is_small);
    tcase_add_test(cases, a_broken_channel_repeats_nothing);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
