/* Owns the server that the suites on connections speak to, and how they ask it. Knows no rule that they
 * prove.
 */
#include "tests/support/connection_case.h"

#include "fcgi/listener.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <check.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
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

const size_t connection_parked_bytes = sizeof(struct parked);

char connection_large_byte(size_t at)
{
    return (char)(at * 7 + at / 251);
}

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

    while (p->sent < CONNECTION_LARGE && x->carrier->stream_queued(x) < 256 << 10) {
        x->carrier->stream(x, p->server->large + p->sent, 64 << 10);
        p->sent += 64 << 10;
    }
    if (p->sent < CONNECTION_LARGE)
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
        x->carrier->reply(x, 200, "application/octet-stream", NULL, s->large, CONNECTION_LARGE);
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
    struct server s = { .loop = loop_new(), .large = malloc(CONNECTION_LARGE) };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < CONNECTION_LARGE; i++)
        s.large[i] = connection_large_byte(i);
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

static char folder[64];
char connection_path[96];
pid_t connection_server;

void connection_set_up(void)
{
    struct error err = ERROR_INIT;

    snprintf(folder, sizeof(folder), "/tmp/test-connection-XXXXXX");
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(connection_path, sizeof(connection_path), "%s/sock", folder);
    int fd = io_listen_unix(connection_path, 0600, 4096, &err);
    ck_assert_msg(fd >= 0, "%s", err.message);
    connection_server = fork();
    if (connection_server == 0)
        serve(fd);
    close(fd);
}

void connection_tear_down(void)
{
    int status = 0;

    kill(connection_server, SIGTERM);
    ck_assert_int_eq(waitpid(connection_server, &status, 0), connection_server);
    unlink(connection_path);
    rmdir(folder);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the server's status is %x", status);
}

void connection_ask(int fd, const char *uri, bool keep, struct fcgi_answer *a)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    fcgi_add_request(&out, 1, keep, "GET", uri, "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    ck_assert(fcgi_read(fd, 1, a));
}

int connection_count(const char *member)
{
    struct fcgi_answer a;
    _cleanup_close_ int fd = fcgi_connect(connection_path);

    connection_ask(fd, "/count", false, &a);
    json_auto_t *value = json_loads(a.body, 0, NULL);
    int count_of = (int)json_integer_value(json_object_get(value, member));
    fcgi_answer_free(&a);
    return count_of;
}

bool connection_becomes(const char *member, int wanted, int ms)
{
    for (int64_t end = clock_boottime_ms() + ms; clock_boottime_ms() < end; usleep(10000))
        if (connection_count(member) == wanted)
            return true;
    return false;
}

bool connection_closes(int fd, int ms)
{
    char byte[4096];
    struct pollfd p = { .fd = fd, .events = POLLIN };

    for (int64_t end = clock_boottime_ms() + ms; clock_boottime_ms() < end;)
        if (poll(&p, 1, 20) > 0 && recv(fd, byte, sizeof(byte), MSG_DONTWAIT) <= 0)
            return true;
    return false;
}

void connection_begin(void)
{
    log_init("test", LOG_LEVEL_ERROR, NULL);
    signal(SIGPIPE, SIG_IGN);
}
