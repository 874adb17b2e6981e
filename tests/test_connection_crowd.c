/* FastCGI connections: many clients that are silent or slow delay nobody else. */
#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "tests/support/connection_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

START_TEST(test_silent_clients_are_dropped)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    int fds[3];

    for (int i = 0; i < 3; i++)
        fds[i] = fcgi_connect(connection_path);
    fcgi_add_request(&out, 1, false, "POST", "/body", "0123456789", 10);
    ck_assert(fcgi_send(fds[0], out.data, out.length - 10));
    connection_ask(fds[1], "/", true, &a);
    fcgi_answer_free(&a);
    int64_t start = clock_boottime_ms();
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(connection_closes(fds[i], 3000), "client %d", i);
        ck_assert_int_ge(clock_boottime_ms() - start, 1200);
        close(fds[i]);
    }
}
END_TEST

START_TEST(test_descriptors_run_out)
{
    struct rlimit few = { 40, 40 }, old;
    int fds[60];
    struct fcgi_answer a;

    ck_assert_int_eq(prlimit(connection_server, RLIMIT_NOFILE, &few, &old), 0);
    for (int i = 0; i < 60; i++)
        fds[i] = fcgi_connect(connection_path);
    usleep(200000);
    for (int i = 0; i < 59; i++)
        close(fds[i]);
    connection_ask(fds[59], "/", false, &a);
    ck_assert_int_eq(a.status, 200);
    fcgi_answer_free(&a);
    close(fds[59]);
}
END_TEST

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return left < right ? -1 : left > right;
}

static int64_t percentile_99_us(int requests)
{
    _cleanup_free_ int64_t *took = calloc((size_t)requests, sizeof(*took));
    struct fcgi_answer a;

    for (int i = 0; i < requests; i++) {
        int64_t start = clock_boottime_us();
        _cleanup_close_ int fd = fcgi_connect(connection_path);
        connection_ask(fd, "/", false, &a);
        fcgi_answer_free(&a);
        took[i] = clock_boottime_us() - start;
    }
    qsort(took, (size_t)requests, sizeof(*took), compare);
    return took[requests * 99 / 100];
}

enum { CROWD = 64 };
static _Atomic bool crowd_ends;

static void *write_slowly(void *user)
{
    const struct buffer *request = user;
    const size_t step = 4096;
    int fd = fcgi_connect(connection_path);

    for (size_t at = 0; at < request->length && !crowd_ends; at += step, usleep(2000))
        if (!fcgi_send(fd, request->data + at, step < request->length - at ? step : request->length - at))
            return "an upload failed";
    close(fd);
    return NULL;
}

static void *read_slowly(void *user)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char bytes[4096];
    int fd = fcgi_connect(connection_path);

    fcgi_add_request(&out, 1, false, "GET", user, "", 0);
    if (!fcgi_send(fd, out.data, out.length))
        return "a request failed";
    while (!crowd_ends) {
        if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
            return "an answer broke off";
        usleep(2000);
    }
    close(fd);
    return NULL;
}

static void measure_beside(void *(*run)(void *), void *user)
{
    pthread_t crowd[CROWD];
    void *problem;

    crowd_ends = false;
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(pthread_create(&crowd[i], NULL, run, user), 0);
    usleep(300000);
    int64_t p99 = percentile_99_us(1000);
    crowd_ends = true;
    for (int i = 0; i < CROWD; i++) {
        pthread_join(crowd[i], &problem);
        ck_assert_msg(problem == NULL, "%s", (char *)problem);
    }
    printf("p99 beside %d slow clients: %lld us\n", CROWD, (long long)p99);
    ck_assert_int_le(p99, 20000);
}

START_TEST(test_slow_writers)
{
    _cleanup_buffer_ struct buffer request = BUFFER_INIT;
    _cleanup_free_ char *body = xcalloc(1, 9 << 20);

    fcgi_add_request(&request, 1, false, "POST", "/", body, 9 << 20);
    measure_beside(write_slowly, &request);
}
END_TEST

START_TEST(test_slow_readers)
{
    measure_beside(read_slowly, (char *)"/stream");
    measure_beside(read_slowly, (char *)"/large");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection_crowd");
    const TTest *const tests[] = { test_silent_clients_are_dropped, test_descriptors_run_out,
                                   test_slow_writers, test_slow_readers };
    connection_begin();
    unit_add(suite, "crowd", tests, N_ELEMENTS(tests), connection_set_up, connection_tear_down, 60, "timing");
    return unit_run(suite);
}
