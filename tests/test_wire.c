/* Frames, and what a bad peer may send, written to the socket by hand. */
#include "lib/base/ids.h"
#include "lib/wire/streams.h"
#include "tests/support/peers.h"
#include "tests/support/unit.h"

#include <check.h>
#include <sys/socket.h>

START_TEST(frame_survives_its_header)
{
    char bytes[FRAME_HEADER_SIZE + 5];
    struct frame frame = { .stream = 0x01020304, .length = 5, .type = FRAME_NOTIFY, .flags = FRAME_LATE | 2 },
                 back;
    frame_encode_header(bytes, &frame);
    ck_assert_mem_eq(bytes, "\0\0\0\5\1\2\3\4\x0a\x42\0\0", FRAME_HEADER_SIZE);
    memcpy(bytes + FRAME_HEADER_SIZE, "hello", 5);
    for (size_t length = 0; length < sizeof(bytes); length++)
        ck_assert_int_eq(frame_decode(bytes, length, &back, &err), 0);
    ck_assert_int_eq(frame_decode(bytes, sizeof(bytes), &back, &err), sizeof(bytes));
    ck_assert(back.stream == frame.stream && back.length == 5 && back.type == frame.type &&
              back.flags == frame.flags);
    ck_assert_ptr_eq(back.payload, bytes + FRAME_HEADER_SIZE);
}
END_TEST

START_TEST(frame_refuses_bad_headers)
{
    static const char bad[][FRAME_HEADER_SIZE] = {
        "\0\0\x80\1\0\0\0\0\5\0\0\0", "\xff\xff\xff\xff\0\0\0\0\5\0\0\0", "\0\0\0\0\0\0\0\0\0\0\0\0",
        "\0\0\0\0\0\0\0\0\xff\0\0\0", "\0\0\0\0\0\0\0\0\5\4\0\0",         "\0\0\0\0\0\0\0\0\5\0\0\1",
    };
    struct frame frame;
    for (size_t at = 0; at < N_ELEMENTS(bad); at++)
        ck_assert_int_eq(frame_decode(bad[at], FRAME_HEADER_SIZE, &frame, &err), -1);
    ck_assert_int_eq(frame_decode(bad[0], 4, &frame, &err), -1);
}
END_TEST

START_TEST(hello_comes_first_and_once)
{
    static const struct {
        const char *payload;
        uint32_t length;
        int result;
    } hellos[] = {
        { "WSF1\0\1\0\1", 8, 0 },  { "WSF1\0\2\0\1more", 12, 0 }, { "WSF1\0\2\0\2", 8, -1 },
        { "WSF1\0\0\0\0", 8, -1 }, { "WSF2\0\1\0\1", 8, -1 },     { "WSF1\0\1\0", 7, -1 },
    };
    for (size_t at = 0; at < N_ELEMENTS(hellos); at++) {
        start();
        send_raw(FRAME_HELLO, 0, 0, hellos[at].payload, hellos[at].length);
        ck_assert_int_eq(read_ours(), hellos[at].result);
        ck_assert_int_eq(channel_is_ready(ours), hellos[at].result == 0);
        stop();
    }
    start();
    send_raw(FRAME_REQUEST, 0, 1, "{}", 2);
    ck_assert_int_eq(read_ours(), -1);
    stop();
    start();
    send_hello();
    send_raw(FRAME_HELLO, 0, 0, "WSF1\0\1\0\1", 8);
    ck_assert_int_eq(read_ours(), -1);
    stop();
}
END_TEST

static void expect_refused(void)
{
    ck_assert_int_eq(read_ours(), -1);
    ck_assert_int_ne(err.code, ERROR_NONE);
    stop();
}

START_TEST(bad_messages_are_refused)
{
    static const struct {
        uint8_t type, flags;
        uint32_t stream, length;
    } second[] = {
        { FRAME_REQUEST, 0, STREAM + 1, 1 },
        { FRAME_REPLY, 0, STREAM, 1 },
        { FRAME_REQUEST, FRAME_LATE, STREAM, 1 },
        { FRAME_REQUEST, FRAME_MORE, STREAM, 0 },
        { FRAME_DATA, 0, STREAM, 1 },
        { FRAME_CREDIT, 0, STREAM, 4 },
    };
    for (size_t at = 0; at < N_ELEMENTS(second); at++) {
        start();
        send_hello();
        send_raw(FRAME_REQUEST, FRAME_MORE, STREAM, "x", 1);
        ck_assert_int_eq(read_ours(), 0);
        send_raw(second[at].type, second[at].flags, second[at].stream, "\0\0\0\1", second[at].length);
        expect_refused();
    }
    static const uint8_t whole_only[] = { FRAME_DATA, FRAME_CREDIT };
    for (size_t at = 0; at < N_ELEMENTS(whole_only); at++) {
        start();
        send_hello();
        send_raw(whole_only[at], FRAME_MORE, STREAM, "\0\0\0\1", 4);
        expect_refused();
    }
    start();
    send_hello();
    send_raw(FRAME_CREDIT, 0, STREAM, "\0\0\1", 3);
    expect_refused();
}
END_TEST

START_TEST(overlong_message_is_refused)
{
    static char piece[FRAME_PAYLOAD_MAX];
    start();
    send_hello();
    for (size_t total = 0; total < FRAME_MESSAGE_MAX; total += sizeof(piece)) {
        send_raw(FRAME_REQUEST, FRAME_MORE, STREAM, piece, sizeof(piece));
        ck_assert_int_eq(read_ours(), 0);
    }
    send_raw(FRAME_REQUEST, 0, STREAM, "x", 1);
    ck_assert_int_eq(read_ours(), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    stop();
}
END_TEST

static void fill_window(uint32_t stream)
{
    static char piece[FRAME_PAYLOAD_MAX];
    for (size_t total = 0; total < FRAME_WINDOW; total += sizeof(piece)) {
        send_raw(FRAME_DATA, 0, stream, piece, sizeof(piece));
        ck_assert_int_eq(read_ours(), 0);
    }
}

START_TEST(data_needs_credit)
{
    start();
    send_hello();
    fill_window(STREAM);
    send_raw(FRAME_DATA, 0, STREAM, "", 0);
    fill_window(STREAM + 1);
    ck_assert_int_eq(read_ours(), 0);
    channel_grant(ours, STREAM, FRAME_WINDOW / 4 - 1);
    send_raw(FRAME_DATA, 0, STREAM, "x", 1);
    expect_refused();
    start();
    send_hello();
    fill_window(STREAM);
    channel_grant(ours, STREAM, SIZE_MAX); /* never more than was used */
    fill_window(STREAM);
    send_raw(FRAME_DATA, 0, STREAM, "x", 1);
    expect_refused();
}
END_TEST

START_TEST(late_credit_does_not_lift_the_window)
{
    static char piece[CHANNEL_STREAM_QUEUE];
    start();
    send_hello();
    channel_send_data(ours, 0, STREAM, "x", 1);
    for (int at = 0; at < 3; at++)
        send_raw(FRAME_CREDIT, 0, STREAM, "\xff\xff\xff\xff", 4);
    send_raw(FRAME_CREDIT, 0, STREAM, "\0\1\0\0", 4);
    send_raw(FRAME_CREDIT, 0, 12345, "\0\0\0\1", 4);
    ck_assert_int_eq(read_ours(), 0);
    size_t sent = 0;
    for (size_t room; (room = channel_data_room(ours, STREAM)) > 0; sent += room) {
        channel_send_data(ours, 0, STREAM, piece, room);
        for (ssize_t got = 1; got > 0; got = recv(raw, piece, sizeof(piece), MSG_DONTWAIT))
            ck_assert_int_eq(channel_write(ours, &err), 0);
    }
    ck_assert_uint_eq(sent, FRAME_WINDOW);
    stop();
}
END_TEST

START_TEST(a_peer_cannot_open_streams_without_end)
{
    int result = 0;
    uint32_t stream = 0;
    start();
    send_hello();
    for (; stream < 100000 && result == 0; stream++) {
        send_raw(FRAME_DATA, 0, stream, "x", 1);
        result = read_ours();
    }
    ck_assert_int_eq(result, -1);
    ck_assert_uint_ge(stream, 4096);
    ck_assert_uint_lt(stream, 5000);
    stop();
}
END_TEST

/* The table against a plain array. */
START_TEST(streams_are_found_among_many)
{
    enum { NUMBERS = 500 };
    struct streams table = { 0 };
    struct stream *known[NUMBERS] = { 0 };
    for (int round = 0; round < 100000; round++) {
        uint32_t dice[2];
        id_random(dice, sizeof(dice));
        uint32_t number = dice[0] % NUMBERS;
        if (dice[1] % 100 < (round / 10000 % 2 == 0 ? 60u : 40u)) {
            struct stream *stream = streams_get(&table, number * 64);
            ck_assert(known[number] == NULL || known[number] == stream);
            known[number] = stream;
        } else if (known[number] != NULL) {
            ck_assert_ptr_null(streams_remove(&table, STEAL(known[number])));
        }
        number = dice[1] % NUMBERS;
        ck_assert_ptr_eq(streams_find(&table, number * 64), known[number]);
    }
    streams_free(&table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *cases = tcase_create("wire");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, frame_survives_its_header);
    tcase_add_test(cases, frame_refuses_bad_headers);
    tcase_add_test(cases, hello_comes_first_and_once);
    tcase_add_test(cases, bad_messages_are_refused);
    tcase_add_test(cases, overlong_message_is_refused);
    tcase_add_test(cases, data_needs_credit);
    tcase_add_test(cases, late_credit_does_not_lift_the_window);
    tcase_add_test(cases, a_peer_cannot_open_streams_without_end);
    tcase_add_test(cases, streams_are_found_among_many);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
