/* A worker's side of keepers and of the warden, against peers that the test plays itself on real sockets. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/keeper/client.h"
#include "lib/wire/channel.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#define WS "ws-0123456789abcdef0123456789abcdef"
#define EX "ex-0123456789abcdef0123456789abcdef"

/* One peer: a listener, at most one connection, and what came on it. */
struct peer {
    char path[128];
    int listen_fd;
    struct channel *channel;
    struct {
        int type;
        uint32_t stream;
        char text[512];
    } got[16];
    size_t count, bytes; /* bytes: of DATA */
};

static char dir[64];
static struct config config;
static struct keeper_client *client;
static struct peer keeper, warden;
static int ensured;

static void ensure(void *user)
{
    (void)user;
    ensured++;
}

static void listen_at(struct peer *p, const char *leaf)
{
    snprintf(p->path, sizeof(p->path), "%s/run/%s.sock", dir, leaf);
    p->listen_fd = io_listen_unix(p->path, 0600, 16, NULL);
    ck_assert_int_ge(p->listen_fd, 0);
}

static void hang_up(struct peer *p)
{
    if (p->channel)
        channel_free(STEAL(p->channel));
}

static void leave(struct peer *p)
{
    hang_up(p);
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
        hang_up(p);
}

/* Lets all of them run for a while, or until a count is reached. */
static void spin(int ms, const size_t *count, size_t until)
{
    int64_t end = clock_boottime_ms() + ms;
    while (clock_boottime_ms() < end && !(count && *count >= until)) {
        struct pollfd fd = { .fd = keeper_client_fd(client), .events = POLLIN };
        poll(&fd, 1, 2);
        keeper_client_turn(client);
        turn(&keeper);
        turn(&warden);
    }
}

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    char run[96];
    snprintf(run, sizeof(run), "%s/run", dir);
    ck_assert_int_eq(io_ensure_directory(run, 0700, NULL), 0);
    config.state_dir = dir;
    log_init("test", LOG_LEVEL_ERROR, NULL);
    client = keeper_client_new(&config, ensure, NULL);
    keeper = (struct peer){ .listen_fd = -1 };
    warden = (struct peer){ .listen_fd = -1 };
}

static void teardown(void)
{
    keeper_client_free(client);
    leave(&keeper);
    leave(&warden);
    io_remove_tree(AT_FDCWD, dir, NULL);
}

/* ---- answers ---- */

struct outcome {
    size_t count;
    char ret[256];
    struct error error;
};

static void answered(void *user, const json_t *ret, const struct error *err)
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

static uint64_t ask(struct outcome *o, bool start, int timeout_ms)
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
    return keeper_client_request(client, &request, answered, o);
}

static void reply(struct peer *p, size_t which, const char *text)
{
    json_auto_t *ret = json_loads(text, JSON_DECODE_ANY, NULL);
    channel_send_reply(p->channel, p->got[which].stream, ret, NULL);
}

START_TEST(a_request_is_answered)
{
    struct outcome o, second;
    listen_at(&keeper, WS);
    ask(&o, false, 5000);
    ask(&second, false, 5000);
    ck_assert_uint_eq(o.count, 0);
    spin(2000, &keeper.count, 2);
    ck_assert_int_eq(keeper.got[0].type, FRAME_REQUEST);
    json_auto_t *message = json_loads(keeper.got[0].text, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(message, "operation")), "op");
    ck_assert_str_eq(json_string_value(json_object_get(message, "principal")), "owner");
    ck_assert_ptr_null(json_object_get(message, "key"));
    reply(&keeper, 1, "{\"n\":2}");
    spin(2000, &second.count, 1);
    ck_assert_str_eq(second.ret, "{\"n\":2}");
    ck_assert_uint_eq(o.count, 0);
    reply(&keeper, 0, "{\"n\":1}");
    spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "{\"n\":1}");
}
END_TEST

START_TEST(errors_come_as_they_are)
{
    struct outcome o;
    struct error err = ERROR_INIT;
    listen_at(&keeper, WS);
    ask(&o, false, 5000);
    spin(2000, &keeper.count, 1);
    error_set(&err, ERROR_CONFLICT, "no");
    channel_send_reply(keeper.channel, keeper.got[0].stream, NULL, &err);
    spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_CONFLICT);
    ck_assert_str_eq(o.error.message, "no");
}
END_TEST

START_TEST(a_stopped_workspace_is_a_conflict)
{
    struct outcome o;
    ask(&o, false, 5000);
    ck_assert_uint_eq(o.count, 0);
    spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_CONFLICT);
    spin(50, NULL, 0);
    ck_assert_uint_eq(o.count, 1);
}
END_TEST

START_TEST(a_missing_keeper_is_started_once_for_all)
{
    struct outcome a, b, c;
    listen_at(&warden, "warden");
    ask(&a, true, 5000);
    ask(&b, true, 5000);
    ask(&c, false, 5000);
    spin(2000, &warden.count, 1);
    spin(50, NULL, 0);
    ck_assert_uint_eq(warden.count, 1);
    ck_assert_ptr_nonnull(strstr(warden.got[0].text, "\"start\""));
    ck_assert_ptr_nonnull(strstr(warden.got[0].text, WS));
    listen_at(&keeper, WS);
    reply(&warden, 0, "{\"record\":{}}");
    spin(2000, &keeper.count, 3);
    ck_assert_uint_eq(keeper.count, 3);
    for (size_t i = 0; i < 3; i++)
        reply(&keeper, i, "true");
    spin(2000, &a.count, 1);
    spin(50, NULL, 0);
    ck_assert_str_eq(a.ret, "true");
    ck_assert_str_eq(b.ret, "true");
    ck_assert_str_eq(c.ret, "true");
}
END_TEST

START_TEST(a_failed_start_fails_who_waits)
{
    struct outcome o;
    struct error err = ERROR_INIT;
    listen_at(&warden, "warden");
    ask(&o, true, 5000);
    spin(2000, &warden.count, 1);
    error_set(&err, ERROR_DRIVER, "cannot start");
    channel_send_reply(warden.channel, warden.got[0].stream, NULL, &err);
    spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_DRIVER);
}
END_TEST

START_TEST(a_missing_warden_is_called)
{
    struct outcome o = { 0 };
    keeper_client_start(client, WS, answered, &o);
    spin(100, NULL, 0);
    ck_assert_int_eq(ensured, 1);
    ck_assert_uint_eq(o.count, 0);
    listen_at(&warden, "warden");
    spin(3000, &warden.count, 1);
    reply(&warden, 0, "{\"record\":{}}");
    spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "{\"record\":{}}");
}
END_TEST

START_TEST(what_a_dead_keeper_took_in_is_not_sent_twice)
{
    struct outcome o;
    listen_at(&keeper, WS);
    ask(&o, true, 5000);
    spin(2000, &keeper.count, 1);
    spin(20, NULL, 0);
    hang_up(&keeper);
    spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_UNAVAILABLE);
    ck_assert_uint_eq(keeper.count, 1);
}
END_TEST

START_TEST(what_a_stopping_keeper_refuses_waits_for_its_end)
{
    struct outcome started, other, late;
    listen_at(&keeper, WS);
    listen_at(&warden, "warden");
    ask(&started, true, 5000);
    ask(&other, false, 5000);
    spin(2000, &keeper.count, 2);
    for (size_t i = 0; i < 2; i++)
        channel_send(keeper.channel, FRAME_CLOSE, 0, keeper.got[i].stream, NULL, 0);
    spin(20, NULL, 0);
    ask(&late, true, 5000);
    spin(50, NULL, 0);
    ck_assert_uint_eq(keeper.count, 2);
    ck_assert_uint_eq(other.count, 0); /* it has not ended yet */
    leave(&keeper);
    spin(2000, &other.count, 1);
    ck_assert_int_eq(other.error.code, ERROR_CONFLICT);
    spin(2000, &warden.count, 1);
    listen_at(&keeper, WS);
    reply(&warden, 0, "{\"record\":{}}");
    spin(2000, &keeper.count, 4);
    ck_assert_uint_eq(keeper.count, 4);
    reply(&keeper, 2, "1");
    reply(&keeper, 3, "1");
    spin(2000, &late.count, 1);
    spin(2000, &started.count, 1);
    ck_assert_str_eq(started.ret, "1");
}
END_TEST

/* A request that crossed the goodbye was not taken in, one that came before it may have been. */
START_TEST(a_goodbye_tells_what_was_not_taken_in)
{
    struct outcome taken, crossed, late;
    listen_at(&keeper, WS);
    listen_at(&warden, "warden");
    ask(&taken, true, 5000);
    spin(2000, &keeper.count, 1);
    channel_send(keeper.channel, FRAME_CLOSE, 0, 0, NULL, 0);
    ask(&crossed, true, 5000);
    keeper_client_turn(client); /* sent, and read by nobody */
    reply(&keeper, 0, "\"done\"");
    channel_send(keeper.channel, FRAME_END, 0, 0, NULL, 0);
    channel_write(keeper.channel, NULL);
    ask(&late, true, 5000);
    leave(&keeper);
    spin(2000, &taken.count, 1);
    ck_assert_str_eq(taken.ret, "\"done\"");
    spin(2000, &warden.count, 1);
    listen_at(&keeper, WS);
    reply(&warden, 0, "{\"record\":{}}");
    spin(2000, &keeper.count, 3);
    ck_assert_uint_eq(keeper.count, 3);
    reply(&keeper, 1, "1");
    reply(&keeper, 2, "1");
    spin(2000, &late.count, 1);
    spin(2000, &crossed.count, 1);
    ck_assert_str_eq(crossed.ret, "1");
    ck_assert_str_eq(late.ret, "1");
}
END_TEST

START_TEST(after_a_goodbye_nothing_is_sent)
{
    struct outcome first, late, other;
    listen_at(&keeper, WS);
    listen_at(&warden, "warden");
    ask(&first, true, 5000);
    spin(2000, &keeper.count, 1);
    channel_send(keeper.channel, FRAME_CLOSE, 0, 0, NULL, 0);
    spin(20, NULL, 0);
    ask(&late, true, 5000);
    ask(&other, false, 5000);
    spin(50, NULL, 0);
    ck_assert_uint_eq(keeper.count, 1);
    leave(&keeper); /* without a word: what it had taken in may have been done */
    spin(2000, &first.count, 1);
    ck_assert_int_eq(first.error.code, ERROR_UNAVAILABLE);
    spin(2000, &other.count, 1);
    ck_assert_int_eq(other.error.code, ERROR_CONFLICT);
    ck_assert_uint_eq(late.count, 0);
    spin(2000, &warden.count, 1);
}
END_TEST

/* Its key makes it safe to ask again. */
START_TEST(a_keyed_request_survives_its_keeper)
{
    struct outcome o = { 0 };
    json_auto_t *in = json_object();
    struct keeper_request request = { .workspace_id = WS,
                                      .operation = "op",
                                      .in = in,
                                      .start = true,
                                      .idempotency_key = "k",
                                      .digest = "d",
                                      .timeout_ms = 5000 };
    listen_at(&keeper, WS);
    listen_at(&warden, "warden");
    keeper_client_request(client, &request, answered, &o);
    spin(2000, &keeper.count, 1);
    spin(20, NULL, 0);
    leave(&keeper);
    spin(2000, &warden.count, 1);
    ck_assert_uint_eq(o.count, 0);
    listen_at(&keeper, WS);
    reply(&warden, 0, "{\"record\":{}}");
    spin(2000, &keeper.count, 2);
    ck_assert_str_eq(keeper.got[0].text, keeper.got[1].text);
    reply(&keeper, 1, "1");
    spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "1");
}
END_TEST

START_TEST(deadlines_hold)
{
    struct outcome o;
    listen_at(&keeper, WS);
    int64_t begun = clock_boottime_ms();
    ask(&o, true, 60);
    spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_TIMEOUT);
    ck_assert_int_lt(clock_boottime_ms() - begun, 500);
    ck_assert_int_ge(clock_boottime_ms() - begun, 60);
    spin(30, NULL, 0);
    reply(&keeper, 0, "1"); /* late: nobody hears it */
    spin(30, NULL, 0);
    ck_assert_uint_eq(o.count, 1);
}
END_TEST

/* Patience is with who has the request and says nothing; a goodbye is a word. */
START_TEST(patience_ends_before_the_deadline)
{
    struct outcome quiet = { 0 }, leaving = { 0 };
    json_auto_t *in = json_object();
    struct keeper_request request = {
        .workspace_id = WS, .operation = "op", .in = in, .timeout_ms = 600, .patience_ms = 60
    };
    listen_at(&keeper, WS);
    int64_t begun = clock_boottime_ms();
    keeper_client_request(client, &request, answered, &quiet);
    spin(2000, &quiet.count, 1);
    ck_assert_int_eq(quiet.error.code, ERROR_TIMEOUT);
    ck_assert_int_lt(clock_boottime_ms() - begun, 500);
    keeper_client_request(client, &request, answered, &leaving);
    spin(2000, &keeper.count, 2);
    channel_send(keeper.channel, FRAME_CLOSE, 0, 0, NULL, 0);
    begun = clock_boottime_ms();
    spin(2000, &leaving.count, 1);
    ck_assert_int_eq(leaving.error.code, ERROR_TIMEOUT);
    ck_assert_int_gt(clock_boottime_ms() - begun, 400);
}
END_TEST

START_TEST(who_cancels_hears_nothing)
{
    struct outcome o;
    listen_at(&keeper, WS);
    uint64_t number = ask(&o, true, 5000);
    spin(2000, &keeper.count, 1);
    keeper_client_cancel(client, number);
    reply(&keeper, 0, "1");
    spin(50, NULL, 0);
    ck_assert_uint_eq(o.count, 0);
}
END_TEST

static void expect_taken_back(size_t which, size_t request)
{
    spin(2000, &keeper.count, which + 1);
    ck_assert_uint_gt(keeper.count, which);
    ck_assert_int_eq(keeper.got[which].type, FRAME_CLOSE);
    ck_assert_uint_eq(keeper.got[which].stream, keeper.got[request].stream);
}

/* Else the keeper, and all behind it, would work on for nobody. What was answered is not taken back. */
START_TEST(the_keeper_hears_that_nobody_waits)
{
    struct outcome cancelled, late, fine;
    listen_at(&keeper, WS);
    uint64_t number = ask(&cancelled, true, 5000);
    spin(2000, &keeper.count, 1);
    keeper_client_cancel(client, number);
    expect_taken_back(1, 0);
    ask(&late, true, 60);
    spin(2000, &late.count, 1);
    ck_assert_int_eq(late.error.code, ERROR_TIMEOUT);
    expect_taken_back(3, 2);
    ask(&fine, true, 5000);
    spin(2000, &keeper.count, 5);
    reply(&keeper, 4, "1");
    spin(50, NULL, 0);
    ck_assert_uint_eq(fine.count, 1);
    ck_assert_uint_eq(keeper.count, 5);
}
END_TEST

/* ---- subscriptions ---- */

struct listener {
    size_t count, gone;
    struct keeper_subscription *subscription;
    bool leaves;
};

static void changed(void *user, bool keeper_gone)
{
    struct listener *l = user;
    l->count++;
    l->gone += keeper_gone;
    if (l->leaves)
        keeper_client_unsubscribe(STEAL(l->subscription));
}

static void listen_to(struct listener *l)
{
    l->subscription = keeper_client_subscribe(client, WS, EX, changed, l);
}

START_TEST(one_subscription_serves_all)
{
    struct listener a = { 0 }, b = { .leaves = true }, c = { 0 };
    listen_at(&keeper, WS);
    listen_to(&a);
    listen_to(&b);
    listen_to(&c);
    spin(2000, &keeper.count, 1);
    spin(30, NULL, 0);
    ck_assert_uint_eq(keeper.count, 1);
    ck_assert_int_eq(keeper.got[0].type, FRAME_SUBSCRIBE);
    ck_assert_str_eq(keeper.got[0].text, EX);
    channel_send(keeper.channel, FRAME_NOTIFY, 0, keeper.got[0].stream, NULL, 0);
    spin(2000, &a.count, 1);
    spin(30, NULL, 0);
    ck_assert_uint_eq(a.count + b.count + c.count, 3);
    channel_send(keeper.channel, FRAME_NOTIFY, 0, keeper.got[0].stream, NULL, 0);
    spin(2000, &a.count, 2);
    ck_assert_uint_eq(b.count, 1);
    keeper_client_unsubscribe(a.subscription);
    spin(30, NULL, 0);
    ck_assert_uint_eq(keeper.count, 1);
    keeper_client_unsubscribe(c.subscription);
    spin(2000, &keeper.count, 2);
    ck_assert_int_eq(keeper.got[1].type, FRAME_UNSUBSCRIBE);
    ck_assert_uint_eq(keeper.got[1].stream, keeper.got[0].stream);
}
END_TEST

START_TEST(a_keeper_that_goes_is_told)
{
    struct listener a = { .leaves = true }, b = { 0 };
    listen_at(&keeper, WS);
    listen_to(&a);
    listen_to(&b);
    spin(2000, &keeper.count, 1);
    leave(&keeper);
    spin(2000, &b.gone, 1);
    ck_assert_uint_eq(a.gone, 1);
    spin(50, NULL, 0);
    ck_assert_uint_eq(b.count, 1);
    keeper_client_unsubscribe(b.subscription);
}
END_TEST

START_TEST(no_keeper_is_told_once_soon)
{
    struct listener a = { 0 };
    listen_to(&a);
    ck_assert_uint_eq(a.count, 0);
    spin(2000, &a.count, 1);
    spin(50, NULL, 0);
    ck_assert_uint_eq(a.count, 1);
    ck_assert_uint_eq(a.gone, 1);
    keeper_client_unsubscribe(a.subscription);
}
END_TEST

START_TEST(garbage_takes_the_connection_down)
{
    struct outcome o;
    listen_at(&keeper, WS);
    ask(&o, false, 5000);
    spin(2000, &keeper.count, 1);
    ck_assert_int_eq(write(channel_fd(keeper.channel), "nonsense nonsense nonsense", 26), 26);
    spin(2000, &o.count, 1);
    ck_assert_int_eq(o.error.code, ERROR_UNAVAILABLE);
}
END_TEST

/* ---- transfers ---- */

struct flow {
    struct outcome outcome; /* first: answered() gets its address */
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
    flow->number = keeper_client_request(client, &request, answered, flow);
}

START_TEST(bytes_follow_an_answer)
{
    struct flow flow;
    char bytes[1000], close = 0;
    memset(bytes, 'x', sizeof(bytes));
    listen_at(&keeper, WS);
    transfer(&flow);
    spin(2000, &keeper.count, 1);
    ck_assert_ptr_nonnull(strstr(keeper.got[0].text, "\"streams\":true"));
    reply(&keeper, 0, "{\"size\":3000}");
    for (int i = 0; i < 3000; i++) { /* more than the credit of one window */
        while (channel_data_room(keeper.channel, keeper.got[0].stream) < sizeof(bytes))
            spin(5, NULL, 0);
        channel_send_data(keeper.channel, 1, keeper.got[0].stream, bytes, sizeof(bytes));
    }
    channel_send_after_data(keeper.channel, FRAME_CLOSE, 0, keeper.got[0].stream, &close, 1);
    spin(5000, &flow.ends, 1);
    ck_assert_uint_eq(flow.bytes, 3000 * sizeof(bytes));
    ck_assert(flow.whole);
    spin(50, NULL, 0);
    ck_assert_uint_eq(flow.ends, 1);
    transfer(&flow);
    spin(2000, &keeper.count, 2);
    reply(&keeper, 1, "{}");
    spin(2000, &flow.outcome.count, 1);
    hang_up(&keeper);
    spin(2000, &flow.ends, 1);
    ck_assert(!flow.whole);
    ck_assert_uint_eq(flow.outcome.count, 1);
}
END_TEST

START_TEST(bytes_are_given_as_there_is_room)
{
    struct flow flow;
    char bytes[8192];
    memset(bytes, 'y', sizeof(bytes));
    listen_at(&keeper, WS);
    transfer(&flow);
    ck_assert_uint_eq(keeper_client_room(client, flow.number), 0); /* nobody has greeted */
    keeper_client_want_room(client, flow.number);
    spin(2000, &flow.rooms, 1);
    size_t given = 0, room;
    while ((room = keeper_client_room(client, flow.number)) > 0) {
        size_t piece = room < sizeof(bytes) ? room : sizeof(bytes);
        keeper_client_send(client, flow.number, bytes, piece);
        given += piece;
        spin(1, NULL, 0);
    }
    ck_assert_uint_eq(given, FRAME_WINDOW);
    keeper_client_want_room(client, flow.number);
    spin(50, NULL, 0);
    ck_assert_uint_eq(flow.rooms, 1);
    channel_grant(keeper.channel, keeper.got[0].stream, FRAME_WINDOW);
    spin(2000, &flow.rooms, 2);
    struct flow other; /* nothing comes from the keeper, yet there is room */
    transfer(&other);
    keeper_client_want_room(client, other.number);
    spin(2000, &other.rooms, 1);
    ck_assert_uint_eq(other.rooms, 1);
    keeper_client_cancel(client, flow.number);
    spin(20, NULL, 0);
    keeper.count = 0;
    keeper_client_cancel(client, other.number);
    spin(2000, &keeper.count, 1);
    ck_assert_int_eq(keeper.got[0].type, FRAME_CLOSE);
    ck_assert_uint_eq(flow.outcome.count + flow.ends, 0);
}
END_TEST

/* What was given is gone with its keeper: it cannot be given to the next. */
START_TEST(a_transfer_that_began_is_not_begun_again)
{
    struct flow flow;
    listen_at(&keeper, WS);
    transfer(&flow);
    keeper_client_want_room(client, flow.number);
    spin(2000, &flow.rooms, 1);
    keeper_client_send(client, flow.number, "y", 1);
    spin(50, NULL, 0);
    channel_send(keeper.channel, FRAME_CLOSE, 0, keeper.got[0].stream, NULL, 0);
    spin(2000, &flow.outcome.count, 1);
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
    listen_at(&keeper, WS);
    keeper_client_request(client, &request, answered, &o);
    spin(2000, &keeper.count, 1);
    ck_assert_ptr_nonnull(strstr(keeper.got[0].text, "\"data\":3145728"));
    size_t came = 0;
    for (bool ended = false; !ended;) {
        keeper.count = 0;
        spin(20, &keeper.count, 1);
        for (size_t i = 0; i < keeper.count; i++)
            ended |= keeper.got[i].type == FRAME_END;
        came = keeper.bytes;
        channel_grant(keeper.channel, 1, FRAME_WINDOW);
    }
    ck_assert_uint_eq(came, length);
    keeper.got[0].stream = 1;
    reply(&keeper, 0, "true");
    spin(2000, &o.count, 1);
    ck_assert_str_eq(o.ret, "true");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *all = tcase_create("client");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, a_request_is_answered);
    tcase_add_test(all, errors_come_as_they_are);
    tcase_add_test(all, a_stopped_workspace_is_a_conflict);
    tcase_add_test(all, a_missing_keeper_is_started_once_for_all);
    tcase_add_test(all, a_failed_start_fails_who_waits);
    tcase_add_test(all, a_missing_warden_is_called);
    tcase_add_test(all, what_a_dead_keeper_took_in_is_not_sent_twice);
    tcase_add_test(all, what_a_stopping_keeper_refuses_waits_for_its_end);
    tcase_add_test(all, a_goodbye_tells_what_was_not_taken_in);
    tcase_add_test(all, after_a_goodbye_nothing_is_sent);
    tcase_add_test(all, a_keyed_request_survives_its_keeper);
    tcase_add_test(all, deadlines_hold);
    tcase_add_test(all, patience_ends_before_the_deadline);
    tcase_add_test(all, who_cancels_hears_nothing);
    tcase_add_test(all, the_keeper_hears_that_nobody_waits);
    tcase_add_test(all, one_subscription_serves_all);
    tcase_add_test(all, a_keeper_that_goes_is_told);
    tcase_add_test(all, no_keeper_is_told_once_soon);
    tcase_add_test(all, garbage_takes_the_connection_down);
    tcase_add_test(all, bytes_follow_an_answer);
    tcase_add_test(all, bytes_are_given_as_there_is_room);
    tcase_add_test(all, a_transfer_that_began_is_not_begun_again);
    tcase_add_test(all, a_text_follows_its_request);
    suite_add_tcase(suite, all);
    return unit_run(suite);
}
