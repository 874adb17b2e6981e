/* Fuzzes a whole FastCGI connection over a socket pair: the bytes come in cuts, requests are answered at
 * once, streamed, parked or forgotten, and in the end nothing may be left. The first byte says how the bytes
 * are cut and whether the peer reads. */
#include "fcgi/connection.h"
#include "lib/base/memory.h"

#include <stdint.h>
#include <sys/socket.h>

static struct loop *loop;
static struct connections all;
static struct exchange *deaf[4096];
static size_t deaf_count, waiting;

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    (void)user;
    waiting--;
}

static void on_drained(struct exchange *x, void *user)
{
    (void)user;
    waiting--;
    x->on_gone = NULL;
    x->carrier->stream_finish(x);
}

static void stream(struct exchange *x)
{
    static char large[300000];

    x->on_gone = on_gone;
    x->on_drained = on_drained;
    waiting++;
    x->carrier->stream_begin(x, 200, "text/event-stream", NULL);
    x->carrier->stream(x, large, sizeof(large));
    if (x->carrier->stream_queued(x) == 0)
        on_drained(x, NULL);
}

static void handle(void *user, struct exchange *x)
{
    (void)user;
    switch (x->request->path[1]) {
    case 's':
        stream(x);
        break;
    case 'p':
        waiting++;
        x->on_gone = on_gone;
        exchange_shed(x);
        break;
    case 'd':
        exchange_shed(x);
        deaf[deaf_count++] = x;
        break;
    default:
        x->carrier->reply(x, 200, "text/plain", NULL, x->request->body.data, x->request->body.length);
    }
}

static void stop(void *user)
{
    (void)user;
    loop_stop(loop);
}

static void turn(void)
{
    loop_defer(loop, stop, NULL);
    loop_run(loop);
}

static void begin(void)
{
    loop = loop_new();
    all = (struct connections){ .loop = loop,
                                .limits = { 1000, 1000, 1000, 1000, 4096, 4096, 8192 },
                                .mount = "",
                                .handler = handle,
                                .input = xmalloc(CONNECTION_INPUT),
                                .local = true };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char sink[65536];
    int fds[2];

    if (loop == NULL)
        begin();
    if (size == 0 || size > 50000 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return 0;
    size_t step = (data[0] >> 1) == 0 ? size : (size_t)(data[0] >> 1) * 8;
    connection_accept(&all, fds[0]);
    for (size_t at = 1; at < size; at += step) {
        if (send(fds[1], data + at, size - at < step ? size - at : step, MSG_NOSIGNAL) < 0)
            break;
        turn();
        while ((data[0] & 1) && recv(fds[1], sink, sizeof(sink), 0) > 0)
            turn();
    }
    if (data[0] & 2)
        shutdown(fds[1], SHUT_WR);
    turn();
    /* Half of those that asked for nothing are answered while the peer is there, half afterwards. */
    for (size_t i = 0; i < deaf_count / 2; i++)
        deaf[i]->carrier->reply(deaf[i], 200, NULL, NULL, "late", 4);
    turn();
    close(fds[1]);
    for (int i = 0; i < 8 && all.count > 0; i++)
        turn();
    for (size_t i = deaf_count / 2; i < deaf_count; i++)
        deaf[i]->carrier->reply(deaf[i], 200, NULL, NULL, "late", 4);
    deaf_count = 0;
    turn();
    if (all.count != 0 || all.exchanges != 0 || all.body_bytes != 0 || waiting != 0)
        abort();
    return 0;
}
