/* Owns the turns of a client and of the peers that a test plays. Knows no rule of either. */
#include "tests/support/client_case.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

static char dir[64];
static struct config config;
struct keeper_client *client;
struct peer keeper_peer, warden_peer;
int warden_calls;

static void ensure(void *user)
{
    (void)user;
    warden_calls++;
}

void peer_listen(struct peer *p, const char *leaf)
{
    snprintf(p->path, sizeof(p->path), "%s/run/%s.sock", dir, leaf);
    p->listen_fd = io_listen_unix(p->path, 0600, 16, NULL);
    ck_assert_int_ge(p->listen_fd, 0);
}

void peer_hang_up(struct peer *p)
{
    if (p->channel)
        channel_free(STEAL(p->channel));
}

void peer_leave(struct peer *p)
{
    peer_hang_up(p);
    if (p->listen_fd >= 0)
        close(STEAL_FD(p->listen_fd));
    unlink(p->path);
}

static void receive(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct peer *p = user;
    if (frame->type == FRAME_DATA) {
        p->bytes += length;
        return;
    }
    if (p->count == N_ELEMENTS(p->got))
        return;
    p->got[p->count].type = frame->type;
    p->got[p->count].stream = frame->stream;
    snprintf(p->got[p->count++].text, sizeof(p->got->text), "%.*s", (int)length, data);
}

static void turn(struct peer *p)
{
    if (p->listen_fd >= 0 && !p->channel) {
        int fd = accept4(p->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            p->channel = channel_new(fd);
    }
    if (!p->channel)
        return;
    int rc = channel_read(p->channel, 65536, receive, p, NULL);
    channel_write(p->channel, NULL);
    if (rc != 0)
        peer_hang_up(p);
}

void client_spin(int ms, const size_t *count, size_t until)
{
    int64_t end = clock_boottime_ms() + ms;
    while (clock_boottime_ms() < end && !(count && *count >= until)) {
        struct pollfd fd = { .fd = keeper_client_fd(client), .events = POLLIN };
        poll(&fd, 1, 2);
        keeper_client_turn(client);
        turn(&keeper_peer);
        turn(&warden_peer);
    }
}

void client_set_up(void)
{
    snprintf(dir, sizeof(dir), "/tmp/client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    char run[96];
    snprintf(run, sizeof(run), "%s/run", dir);
    ck_assert_int_eq(io_ensure_directory(run, 0700, NULL), 0);
    config.state_dir = dir;
    log_init("test", LOG_LEVEL_ERROR, NULL);
    client = keeper_client_new(&config, ensure, NULL);
    keeper_peer = (struct peer){ .listen_fd = -1 };
    warden_peer = (struct peer){ .listen_fd = -1 };
}

void client_tear_down(void)
{
    keeper_client_free(client);
    peer_leave(&keeper_peer);
    peer_leave(&warden_peer);
    io_remove_tree(AT_FDCWD, dir, NULL);
}

void client_answered(void *user, const json_t *ret, const struct error *err)
{
    struct outcome *o = user;
    o->count++;
    ck_assert((ret == NULL || err == NULL));
    if (err) {
        error_set(&o->error, err->code, "%s", err->message);
        return;
    }
    char *text = json_dumps(ret, JSON_COMPACT | JSON_ENCODE_ANY);
    snprintf(o->ret, sizeof(o->ret), "%s", text ? text : "null");
    free(text);
}

uint64_t client_ask(struct outcome *o, bool start, int timeout_ms)
{
    json_auto_t *in = json_pack("{s:s}", "command", "true");
    struct keeper_request request = { .workspace_id = WS,
                                      .operation = "op",
                                      .principal = "owner",
                                      .request_id = "r1",
                                      .in = in,
                                      .start = start,
                                      .timeout_ms = timeout_ms };
    *o = (struct outcome){ 0 };
    return keeper_client_request(client, &request, client_answered, o);
}

void peer_reply(struct peer *p, size_t which, const char *text)
{
    json_auto_t *ret = json_loads(text, JSON_DECODE_ANY, NULL);
    channel_send_reply(p->channel, p->got[which].stream, ret, NULL);
}
