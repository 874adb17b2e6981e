/* FastCGI connections: answers that wait, that stream, and whose clients go away. */
#include "tests/support/connection_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

START_TEST(test_half_closed_client_gets_its_answer)
{
    static const char *const uris[] = { "/", "/park", "/large", "/deaf" };
    struct fcgi_answer a;

    for (int i = 0; i < 4; i++) {
        _cleanup_buffer_ struct buffer out = BUFFER_INIT;
        _cleanup_close_ int fd = fcgi_connect(connection_path);
        fcgi_add_request(&out, 1, false, "GET", uris[i], "", 0);
        ck_assert(fcgi_send(fd, out.data, out.length));
        shutdown(fd, SHUT_WR);
        ck_assert_msg(fcgi_read(fd, 1, &a), "%s", uris[i]);
        ck_assert_int_eq(a.status, 200);
        fcgi_answer_free(&a);
    }
}
END_TEST

START_TEST(test_vanished_clients)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    int fds[40];

    for (int i = 0; i < 40; i++) {
        out.length = 0;
        fds[i] = fcgi_connect(connection_path);
        fcgi_add_request(&out, 1, i & 1, "GET", i % 4 < 2 ? "/park-long" : "/stream", "", 0);
        ck_assert(fcgi_send(fds[i], out.data, out.length));
    }
    ck_assert(connection_becomes("parked", 40, 2000));
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    ck_assert(connection_becomes("gone", 40, 2000));
    ck_assert_int_eq(connection_count("open"), 1);
    /* One whose handler does not ask is let go after its answer. */
    out.length = 0;
    fcgi_add_request(&out, 1, false, "GET", "/deaf", "", 0);
    fds[0] = fcgi_connect(connection_path);
    ck_assert(fcgi_send(fds[0], out.data, out.length));
    close(fds[0]);
    ck_assert(connection_becomes("parked", 0, 2000));
}
END_TEST

START_TEST(test_parked_exchange_is_small)
{
    enum { MANY = 1000 };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    int fds[MANY];

    fcgi_add_request(&out, 1, false, "POST", "/park-long", "0123456789", 10);
    int before = connection_count("heap");
    for (int i = 0; i < MANY; i++) {
        fds[i] = fcgi_connect(connection_path);
        ck_assert(fcgi_send(fds[i], out.data, out.length));
    }
    ck_assert(connection_becomes("parked", MANY, 5000));
    int each = (connection_count("heap") - before) / MANY - (int)connection_parked_bytes - 16;
    printf("heap of a parked connection with its exchange: %d bytes\n", each);
    ck_assert_int_lt(each, 500);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    ck_assert(connection_becomes("parked", 0, 5000));
}
END_TEST

static void check_large(const char *uri, bool slow)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    fcgi_add_request(&out, 1, false, "GET", uri, "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    if (slow)
        usleep(300000);
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_uint_eq(a.body_length, CONNECTION_LARGE);
    for (size_t i = 0; i < CONNECTION_LARGE; i++)
        if (a.body[i] != connection_large_byte(i))
            ck_abort_msg("byte %zu of %s is wrong", i, uri);
    fcgi_answer_free(&a);
}

START_TEST(test_large_answers)
{
    for (int i = 0; i < 4; i++)
        check_large(i & 1 ? "/large" : "/stream", i & 2);
}
END_TEST

START_TEST(test_drain)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int idle = fcgi_connect(connection_path), waiting = fcgi_connect(connection_path);

    connection_ask(idle, "/", true, &a);
    fcgi_answer_free(&a);
    fcgi_add_request(&out, 1, true, "GET", "/park", "", 0);
    ck_assert(fcgi_send(waiting, out.data, out.length));
    ck_assert(connection_becomes("parked", 1, 1000));
    kill(connection_server, SIGTERM);
    ck_assert(connection_closes(idle, 200));
    ck_assert(fcgi_read(waiting, 1, &a));
    ck_assert_str_eq(a.body, "late");
    ck_assert(connection_closes(waiting, 200));
    fcgi_answer_free(&a);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { test_half_closed_client_gets_its_answer, test_vanished_clients,
                                   test_parked_exchange_is_small, test_large_answers, test_drain };
    connection_begin();
    return unit_run_tests("connection_parked", tests, N_ELEMENTS(tests), connection_set_up,
                          connection_tear_down, 60);
}
