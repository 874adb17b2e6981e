/* FastCGI connections: the protocol and its bounds. */
#include "lib/base/memory.h"
#include "tests/support/connection_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <sys/socket.h>

/* ---- the protocol ---- */

START_TEST(test_answer)
{
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    connection_ask(fd, "/", false, &a);
    ck_assert_int_eq(a.status, 200);
    ck_assert_str_eq(a.body, "hello");
    ck_assert_ptr_nonnull(strstr(a.text.data, "Cache-Control: no-store\r\n"));
    ck_assert_ptr_nonnull(strstr(a.text.data, "X-Request-Id: "));
    ck_assert_ptr_nonnull(strstr(a.text.data, "X-Content-Type-Options: nosniff\r\n"));
    ck_assert_ptr_nonnull(strstr(a.text.data, "Content-Length: 5\r\n"));
    ck_assert(connection_closes(fd, 500));
    fcgi_answer_free(&a);
}
END_TEST

START_TEST(test_keep_connection)
{
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    for (int i = 0; i < 100; i++) {
        connection_ask(fd, "/", true, &a);
        ck_assert_int_eq(a.status, 200);
        fcgi_answer_free(&a);
    }
    connection_ask(fd, "/", false, &a);
    fcgi_answer_free(&a);
    ck_assert(connection_closes(fd, 500));
}
END_TEST

START_TEST(test_byte_by_byte)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    fcgi_add_request(&out, 7, false, "POST", "/body", "0123456789", 10);
    for (size_t i = 0; i < out.length; i++) {
        ck_assert(fcgi_send(fd, out.data + i, 1));
        if (i % 16 == 0)
            usleep(200);
    }
    ck_assert(fcgi_read(fd, 7, &a));
    ck_assert_str_eq(a.body, "0123456789");
    fcgi_answer_free(&a);
}
END_TEST

START_TEST(test_pipelined_requests_are_answered_in_order)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    for (int i = 1; i <= 50; i++)
        fcgi_add_request(&out, i, true, "POST", "/body", &i, sizeof(i));
    ck_assert(fcgi_send(fd, out.data, out.length));
    for (int i = 1; i <= 50; i++) {
        ck_assert(fcgi_read(fd, i, &a));
        ck_assert_int_eq(memcmp(a.body, &i, sizeof(i)), 0);
        fcgi_answer_free(&a);
    }
}
END_TEST

START_TEST(test_other_roles_and_multiplexing)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    fcgi_add_begin(&out, 1, 2, true);
    fcgi_add_request(&out, 2, true, "GET", "/park", "", 0);
    fcgi_add_request(&out, 3, true, "GET", "/", "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_int_eq(a.protocol_status, 3);
    fcgi_answer_free(&a);
    ck_assert(fcgi_read(fd, 3, &a));
    ck_assert_int_eq(a.protocol_status, 1);
    fcgi_answer_free(&a);
    ck_assert(fcgi_read(fd, 2, &a));
    ck_assert_str_eq(a.body, "late");
    fcgi_answer_free(&a);
    connection_ask(fd, "/", true, &a);
    ck_assert_int_eq(a.status, 200);
    fcgi_answer_free(&a);
}
END_TEST

START_TEST(test_management_records)
{
    static const char names[] = "\x0f\0FCGI_MPXS_CONNS\x07\0UNKNOWN";
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char answer[64];
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    fcgi_add_record(&out, 9, 0, names, sizeof(names) - 1, 3);
    fcgi_add_record(&out, 77, 0, "abc", 3, 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert_int_eq(recv(fd, answer, 8 + 18 + 16, MSG_WAITALL), 42);
    ck_assert_int_eq(answer[1], 10);
    ck_assert_int_eq(answer[5], 18);
    ck_assert_int_eq(memcmp(answer + 10, "FCGI_MPXS_CONNS0", 16), 0);
    ck_assert_int_eq(answer[27], 11);
    ck_assert_int_eq(answer[34], 77);
}
END_TEST

START_TEST(test_abort)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    fcgi_add_request(&out, 1, true, "GET", "/park-long", "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(connection_becomes("parked", 1, 1000));
    out.length = 0;
    fcgi_add_record(&out, 2, 1, NULL, 0, 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, &a));
    fcgi_answer_free(&a);
    ck_assert_int_eq(connection_count("gone"), 1);
    connection_ask(fd, "/", true, &a);
    ck_assert_int_eq(a.status, 200);
    fcgi_answer_free(&a);
}
END_TEST

START_TEST(test_garbage_closes)
{
    static const char *const garbage[] = { "GET / HTTP/1.1\r\n\r\n", "\1\1\0\0\0\10\0\0________",
                                           "\1\1\0\1\0\7\0\0_______" };
    static const size_t lengths[] = { 18, 16, 15 };

    for (int i = 0; i < 3; i++) {
        _cleanup_close_ int fd = fcgi_connect(connection_path);
        ck_assert(fcgi_send(fd, garbage[i], lengths[i]));
        ck_assert_msg(connection_closes(fd, 5000), "garbage %d", i);
    }
    ck_assert(connection_becomes("open", 1, 5000));
}
END_TEST

START_TEST(test_stray_records_are_ignored)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    fcgi_add_record(&out, 5, 9, "stray", 5, 1);
    fcgi_add_record(&out, 8, 9, "stray", 5, 255);
    fcgi_add_request(&out, 1, false, "GET", "/", "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_int_eq(a.status, 200);
    fcgi_answer_free(&a);
}
END_TEST

/* ---- bounds ---- */

static void ask_body(size_t length, bool keep, bool told, int wanted)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_free_ char *body = calloc(1, length);
    char text[24];
    const char *const pairs[] = { "CONTENT_LENGTH", text, NULL };
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    snprintf(text, sizeof(text), "%zu", length);
    fcgi_add_begin(&out, 1, 1, keep);
    fcgi_add_params(&out, 1, "POST", "/", told ? pairs : NULL);
    fcgi_add_stdin(&out, 1, body, length);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_int_eq(a.status, wanted);
    fcgi_answer_free(&a);
    if (!keep)
        return;
    connection_ask(fd, "/", true, &a);
    ck_assert_int_eq(a.status, 200);
    fcgi_answer_free(&a);
}

START_TEST(test_body_limit)
{
    for (int i = 0; i < 4; i++) {
        ask_body(10 << 20, i & 1, i & 2, 200);
        ask_body((10 << 20) + 1, i & 1, i & 2, 413);
        ask_body(11 << 20, i & 1, i & 2, 413);
    }
    ck_assert_int_eq(connection_count("open"), 1);
}
END_TEST

START_TEST(test_large_header)
{
    static char header[8200], huge[70000];
    const char *const fits[] = { "HTTP_X_LONG", header, NULL }, *const exceeds[] = { "HTTP_X_LONG", huge,
                                                                                     NULL };
    struct fcgi_answer a;

    memset(header, 'a', sizeof(header) - 1);
    memset(huge, 'a', sizeof(huge) - 1);
    for (int i = 0; i < 2; i++) {
        _cleanup_buffer_ struct buffer out = BUFFER_INIT;
        _cleanup_close_ int fd = fcgi_connect(connection_path);
        fcgi_add_begin(&out, 1, 1, true);
        fcgi_add_params(&out, 1, "GET", "/", i ? exceeds : fits);
        fcgi_add_stdin(&out, 1, "", 0);
        ck_assert(fcgi_send(fd, out.data, out.length));
        ck_assert(fcgi_read(fd, 1, &a));
        ck_assert_int_eq(a.status, i ? 400 : 200);
        fcgi_answer_free(&a);
        connection_ask(fd, "/", true, &a);
        ck_assert_int_eq(a.status, 200);
        fcgi_answer_free(&a);
    }
}
END_TEST

START_TEST(test_short_body_is_refused)
{
    static const char *const pairs[] = { "CONTENT_LENGTH", "10", NULL };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    fcgi_add_begin(&out, 1, 1, false);
    fcgi_add_params(&out, 1, "POST", "/", pairs);
    fcgi_add_stdin(&out, 1, "123", 3);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_int_eq(a.status, 400);
    fcgi_answer_free(&a);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { test_answer,
                                   test_keep_connection,
                                   test_byte_by_byte,
                                   test_pipelined_requests_are_answered_in_order,
                                   test_other_roles_and_multiplexing,
                                   test_management_records,
                                   test_abort,
                                   test_garbage_closes,
                                   test_stray_records_are_ignored,
                                   test_body_limit,
                                   test_large_header,
                                   test_short_body_is_refused };
    connection_begin();
    return unit_run_tests("connection", tests, N_ELEMENTS(tests), connection_set_up, connection_tear_down,
                          60);
}
