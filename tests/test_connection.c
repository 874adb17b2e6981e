/* FastCGI connections on a real UNIX socket: the protocol, refused bodies, parked and streamed answers, and
 * hostile clients that must delay nobody else. The server is a child process with a handful of answers. */
#include "fcgi/listener.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/process.h"
#include "tests/support/fcgi.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* ---- the server ---- */

struct parked {
    struct exchange *exchange;
    struct loop_timer timer;
    struct server *server;
    size_t sent;
};
struct server {
    struct loop *loop;
    struct listener *listener;
    int gone, parked, bodies;
    char *large;
};
enum { LARGE = 8 << 20 };

static void answer_parked(void *user)
{
    struct parked *p = user;

    p->server->parked--;
    p->exchange->carrier->reply(p->exchange, 200, "text/plain", NULL, "late", 4);
    free(p);
}

static void on_gone(struct exchange *x, void *user)
{
    struct parked *p = user;

    (void)x;
    p->server->gone++;
    p->server->parked--;
    loop_timer_stop(p->server->loop, &p->timer);
    free(p);
}

static void park(struct server *s, struct exchange *x, int ms, bool tell)
{
    struct parked *p = xcalloc(1, sizeof(*p));

    *p = (struct parked){ .exchange = x, .server = s };
    s->parked++;
    if (tell)
        x->on_gone = on_gone;
    x->user = p;
    exchange_shed(x);
    loop_timer_start(s->loop, &p->timer, clock_boottime_ms() + ms, answer_parked, p);
}

static void pour(struct exchange *x, void *user)
{
    struct parked *p = user;

    while (p->sent < LARGE && x->carrier->stream_queued(x) < 256 << 10) {
        x->carrier->stream(x, p->server->large + p->sent, 64 << 10);
        p->sent += 64 << 10;
    }
    if (p->sent < LARGE)
        return;
    p->server->parked--;
    free(p);
    x->on_gone = x->on_drained = NULL;
    x->carrier->stream_finish(x);
}

static void stream_large(struct server *s, struct exchange *x)
{
    struct parked *p = xcalloc(1, sizeof(*p));

    *p = (struct parked){ .exchange = x, .server = s };
    s->parked++;
    x->user = p;
    x->on_gone = on_gone;
    x->on_drained = pour;
    x->carrier->stream_begin(x, 200, "text/event-stream", "X-More: yes\r\n");
    pour(x, p);
}

static void count(struct server *s, struct exchange *x)
{
    json_auto_t *value = json_pack("{s:i, s:i, s:i, s:i}", "heap", (int)mallinfo2().uordblks, "gone", s->gone,
                                   "parked", s->parked, "open", (int)listener_open_exchanges(s->listener));

    exchange_reply_json(x, 200, NULL, value);
}

static void handle(void *user, struct exchange *x)
{
    struct server *s = user;
    const char *path = x->request->path;

    if (strcmp(path, "/count") == 0)
        count(s, x);
    else if (strcmp(path, "/large") == 0)
        x->carrier->reply(x, 200, "application/octet-stream", NULL, s->large, LARGE);
    else if (strcmp(path, "/stream") == 0)
        stream_large(s, x);
    else if (strcmp(path, "/park") == 0)
        park(s, x, 300, true);
    else if (strcmp(path, "/park-long") == 0)
        park(s, x, 60000, true);
    else if (strcmp(path, "/deaf") == 0)
        park(s, x, 300, false);
    else if (strcmp(path, "/body") == 0)
        x->carrier->reply(x, 200, "application/octet-stream", NULL, x->request->body.data,
                          x->request->body.length);
    else
        x->carrier->reply(x, 200, "text/plain", NULL, "hello", 5);
}

static void stop(void *user)
{
    loop_stop(((struct server *)user)->loop);
}

static void drain(void *user)
{
    struct server *s = user;

    listener_drain(s->listener, stop, s);
}

static void serve(int listen_fd)
{
    char *mount = strdup("");
    const struct config config = { .mount = mount };
    struct server s = { .loop = loop_new(), .large = malloc(LARGE) };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < LARGE; i++)
        s.large[i] = (char)(i * 7 + i / 251);
    s.listener = listener_new(s.loop, listen_fd, &config, handle, &s);
    struct connection_limits *limits = listener_limits(s.listener);
    limits->silent_ms = 1500;
    limits->idle_ms = 1500;
    limits->linger_ms = 500;
    loop_signal(s.loop, SIGTERM, drain, &s);
    loop_run(s.loop);
    listener_free(s.listener);
    loop_free(s.loop);
    free(s.large);
    free(mount);
    exit(s.parked);
}

/* ---- fixture ---- */

static char folder[64], socket_path[96];
static pid_t server;

static void setup(void)
{
    struct error err = ERROR_INIT;

    snprintf(folder, sizeof(folder), "/tmp/test-connection-XXXXXX");
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(socket_path, sizeof(socket_path), "%s/sock", folder);
    int fd = io_listen_unix(socket_path, 0600, 4096, &err);
    ck_assert_msg(fd >= 0, "%s", err.message);
    server = fork();
    if (server == 0)
        serve(fd);
    close(fd);
}

static void teardown(void)
{
    int status = 0;

    kill(server, SIGTERM);
    ck_assert_int_eq(waitpid(server, &status, 0), server);
    unlink(socket_path);
    rmdir(folder);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the server's status is %x", status);
}

static void ask_on(int fd, const char *uri, bool keep, struct fcgi_answer *a)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    fcgi_add_request(&out, 1, keep, "GET", uri, "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, a));
}

static int ask_count(const char *member)
{
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(socket_path);

    ask_on(fd, "/count", false, &a);
    json_auto_t *value = json_loads(a.body, 0, NULL);
    int count_of = (int)json_integer_value(json_object_get(value, member));
    fcgi_answer_free(&a);
    return count_of;
}

static bool becomes(const char *member, int wanted, int ms)
{
    for (int64_t end = clock_boottime_ms() + ms; clock_boottime_ms() < end; usleep(10000))
        if (ask_count(member) == wanted)
            return true;
    return false;
}

/* True: the peer closed within ms. */
static bool closes(int fd, int ms)
{
    char byte[4096];
    struct pollfd p = { .fd = fd, .events = POLLIN };

    for (int64_t end = clock_boottime_ms() + ms; clock_boottime_ms() < end;)
        if (poll(&p, 1, 20) > 0 && recv(fd, byte, sizeof(byte), MSG_DONTWAIT) <= 0)
            return true;
    return false;
}

/* ---- the protocol ---- */

START_TEST(test_answer)
{
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(socket_path);

    ask_on(fd, "/", false, &a);
    ck_assert_int_eq(a.status, 200);
    ck_assert_str_eq(a.body, "hello");
    ck_assert_ptr_nonnull(strstr(a.text.data, "Cache-Control: no-store\r\n"));
    ck_assert_ptr_nonnull(strstr(a.text.data, "X-Request-Id: "));
    ck_assert_ptr_nonnull(strstr(a.text.data, "X-Content-Type-Options: nosniff\r\n"));
    ck_assert_ptr_nonnull(strstr(a.text.data, "Content-Length: 5\r\n"));
    ck_assert(closes(fd, 500));
    fcgi_answer_free(&a);
}
END_TEST

START_TEST(test_keep_connection)
{
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(socket_path);

    for (int i = 0; i < 100; i++) {
        ask_on(fd, "/", true, &a);
        ck_assert_int_eq(a.status, 200);
        fcgi_answer_free(&a);
    }
    ask_on(fd, "/", false, &a);
    fcgi_answer_free(&a);
    ck_assert(closes(fd, 500));
}
END_TEST

START_TEST(test_byte_by_byte)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(socket_path);

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
    _cleanup_close_ int fd = fcgi_connect(socket_path);

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
    _cleanup_close_ int fd = fcgi_connect(socket_path);

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
    ask_on(fd, "/", true, &a);
    ck_assert_int_eq(a.status, 200);
    fcgi_answer_free(&a);
}
END_TEST

START_TEST(test_management_records)
{
    static const char names[] = "\x0f\0FCGI_MPXS_CONNS\x07\0UNKNOWN";
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char answer[64];
    _cleanup_close_ int fd = fcgi_connect(socket_path);

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
    _cleanup_close_ int fd = fcgi_connect(socket_path);

    fcgi_add_request(&out, 1, true, "GET", "/park-long", "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(becomes("parked", 1, 1000));
    out.length = 0;
    fcgi_add_record(&out, 2, 1, NULL, 0, 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, &a));
    fcgi_answer_free(&a);
    ck_assert_int_eq(ask_count("gone"), 1);
    ask_on(fd, "/", true, &a);
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
        _cleanup_close_ int fd = fcgi_connect(socket_path);
        ck_assert(fcgi_send(fd, garbage[i], lengths[i]));
        ck_assert_msg(closes(fd, 500), "garbage %d", i);
    }
    ck_assert(becomes("open", 1, 500));
}
END_TEST

START_TEST(test_stray_records_are_ignored)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(socket_path);

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
    _cleanup_close_ int fd = fcgi_connect(socket_path);

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
    ask_on(fd, "/", true, &a);
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
    ck_assert_int_eq(ask_count("open"), 1);
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
        _cleanup_close_ int fd = fcgi_connect(socket_path);
        fcgi_add_begin(&out, 1, 1, true);
        fcgi_add_params(&out, 1, "GET", "/", i ? exceeds : fits);
        fcgi_add_stdin(&out, 1, "", 0);
        ck_assert(fcgi_send(fd, out.data, out.length));
        ck_assert(fcgi_read(fd, 1, &a));
        ck_assert_int_eq(a.status, i ? 400 : 200);
        fcgi_answer_free(&a);
        ask_on(fd, "/", true, &a);
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
    _cleanup_close_ int fd = fcgi_connect(socket_path);

    fcgi_add_begin(&out, 1, 1, false);
    fcgi_add_params(&out, 1, "POST", "/", pairs);
    fcgi_add_stdin(&out, 1, "123", 3);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_int_eq(a.status, 400);
    fcgi_answer_free(&a);
}
END_TEST

/* ---- parked, streamed, gone ---- */

START_TEST(test_half_closed_client_gets_its_answer)
{
    static const char *const uris[] = { "/", "/park", "/large", "/deaf" };
    struct fcgi_answer a;

    for (int i = 0; i < 4; i++) {
        _cleanup_buffer_ struct buffer out = BUFFER_INIT;
        _cleanup_close_ int fd = fcgi_connect(socket_path);
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
        fds[i] = fcgi_connect(socket_path);
        fcgi_add_request(&out, 1, i & 1, "GET", i % 4 < 2 ? "/park-long" : "/stream", "", 0);
        ck_assert(fcgi_send(fds[i], out.data, out.length));
    }
    ck_assert(becomes("parked", 40, 2000));
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    ck_assert(becomes("gone", 40, 2000));
    ck_assert_int_eq(ask_count("open"), 1);
    /* One whose handler does not ask is let go after its answer. */
    out.length = 0;
    fcgi_add_request(&out, 1, false, "GET", "/deaf", "", 0);
    fds[0] = fcgi_connect(socket_path);
    ck_assert(fcgi_send(fds[0], out.data, out.length));
    close(fds[0]);
    ck_assert(becomes("parked", 0, 2000));
}
END_TEST

START_TEST(test_parked_exchange_is_small)
{
    enum { MANY = 1000 };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    int fds[MANY];

    fcgi_add_request(&out, 1, false, "POST", "/park-long", "0123456789", 10);
    int before = ask_count("heap");
    for (int i = 0; i < MANY; i++) {
        fds[i] = fcgi_connect(socket_path);
        ck_assert(fcgi_send(fds[i], out.data, out.length));
    }
    ck_assert(becomes("parked", MANY, 5000));
    int each = (ask_count("heap") - before) / MANY - (int)sizeof(struct parked) - 16;
    printf("heap of a parked connection with its exchange: %d bytes\n", each);
    ck_assert_int_lt(each, 500);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    ck_assert(becomes("parked", 0, 5000));
}
END_TEST

static void check_large(const char *uri, bool slow)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(socket_path);

    fcgi_add_request(&out, 1, false, "GET", uri, "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    if (slow)
        usleep(300000);
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_uint_eq(a.body_length, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        if (a.body[i] != (char)(i * 7 + i / 251))
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
    _cleanup_close_ int idle = fcgi_connect(socket_path), waiting = fcgi_connect(socket_path);

    ask_on(idle, "/", true, &a);
    fcgi_answer_free(&a);
    fcgi_add_request(&out, 1, true, "GET", "/park", "", 0);
    ck_assert(fcgi_send(waiting, out.data, out.length));
    ck_assert(becomes("parked", 1, 1000));
    kill(server, SIGTERM);
    ck_assert(closes(idle, 200));
    ck_assert(fcgi_read(waiting, 1, &a));
    ck_assert_str_eq(a.body, "late");
    ck_assert(closes(waiting, 200));
    fcgi_answer_free(&a);
}
END_TEST

/* ---- hostile in numbers ---- */

START_TEST(test_silent_clients_are_dropped)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;
    int fds[3];

    for (int i = 0; i < 3; i++)
        fds[i] = fcgi_connect(socket_path);
    fcgi_add_request(&out, 1, false, "POST", "/body", "0123456789", 10);
    ck_assert(fcgi_send(fds[0], out.data, out.length - 10));
    ask_on(fds[1], "/", true, &a);
    fcgi_answer_free(&a);
    int64_t start = clock_boottime_ms();
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(closes(fds[i], 3000), "client %d", i);
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

    ck_assert_int_eq(prlimit(server, RLIMIT_NOFILE, &few, &old), 0);
    for (int i = 0; i < 60; i++)
        fds[i] = fcgi_connect(socket_path);
    usleep(200000);
    for (int i = 0; i < 59; i++)
        close(fds[i]);
    ask_on(fds[59], "/", false, &a);
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
        _cleanup_close_ int fd = fcgi_connect(socket_path);
        ask_on(fd, "/", false, &a);
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
    int fd = fcgi_connect(socket_path);

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
    int fd = fcgi_connect(socket_path);

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
    TCase *protocol = tcase_create("protocol"), *crowd = tcase_create("crowd");
    Suite *suite = suite_create("connection");

    log_init("test", LOG_LEVEL_ERROR, NULL);
    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(protocol, setup, teardown);
    tcase_add_checked_fixture(crowd, setup, teardown);
    tcase_set_timeout(protocol, 60);
    tcase_set_timeout(crowd, 60);
    tcase_set_tags(crowd, "timing");
    tcase_add_test(protocol, test_answer);
    tcase_add_test(protocol, test_keep_connection);
    tcase_add_test(protocol, test_byte_by_byte);
    tcase_add_test(protocol, test_pipelined_requests_are_answered_in_order);
    tcase_add_test(protocol, test_other_roles_and_multiplexing);
    tcase_add_test(protocol, test_management_records);
    tcase_add_test(protocol, test_abort);
    tcase_add_test(protocol, test_garbage_closes);
    tcase_add_test(protocol, test_stray_records_are_ignored);
    tcase_add_test(protocol, test_body_limit);
    tcase_add_test(protocol, test_large_header);
    tcase_add_test(protocol, test_short_body_is_refused);
    tcase_add_test(protocol, test_half_closed_client_gets_its_answer);
    tcase_add_test(protocol, test_vanished_clients);
    tcase_add_test(protocol, test_parked_exchange_is_small);
    tcase_add_test(protocol, test_large_answers);
    tcase_add_test(protocol, test_drain);
    tcase_add_test(crowd, test_silent_clients_are_dropped);
    tcase_add_test(crowd, test_descriptors_run_out);
    tcase_add_test(crowd, test_slow_writers);
    tcase_add_test(crowd, test_slow_readers);
    suite_add_tcase(suite, protocol);
    suite_add_tcase(suite, crowd);
    return unit_run(suite);
}
