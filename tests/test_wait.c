/* Parked calls: one run for all that are alike, deadlines, bounds, the last turn, streams to slow clients.
 * The operations are the test's own; the keeper is a socket that the test plays. */
#include "fcgi/dispatch.h"
#include "fcgi/wait.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/wire/channel.h"
#include "tests/support/caller.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define WS   "ws-0123456789abcdef0123456789abcdef"
#define EX   "ex-0123456789abcdef0123456789abcdef"
#define MOST 600

static struct caller *the;
static struct service *service;

/* ---- the keeper ---- */

static int listen_fd = -1;
static struct channel *peer;
static uint32_t subscribed; /* the stream of the last subscription */
static int subscriptions;
static struct loop_watch *listen_watch, *peer_watch;

static void receive(void *user, const struct frame *frame, const char *data, size_t length)
{
    (void)user;
    (void)data;
    (void)length;
    if (frame->type != FRAME_SUBSCRIBE)
        return;
    subscriptions++;
    subscribed = frame->stream;
    channel_send(peer, FRAME_NOTIFY, 0, subscribed, NULL, 0);
}

static void peer_ready(void *user, uint32_t events)
{
    (void)user;
    (void)events;
    if (channel_read(peer, 65536, receive, NULL, NULL) != 0)
        loop_unwatch(STEAL(peer_watch));
    else
        channel_write(peer, NULL);
}

static void accept_peer(void *user, uint32_t events)
{
    (void)user;
    (void)events;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    peer = channel_new(fd);
    channel_write(peer, NULL);
    peer_watch = loop_watch_fd(caller_loop(the), fd, EPOLLIN, peer_ready, NULL);
}

static void notify(void)
{
    channel_send(peer, FRAME_NOTIFY, 0, subscribed, NULL, 0);
    channel_write(peer, NULL);
}

static void setup(void)
{
    the = caller_new(
        (const char *const[]){ "WORKSPACE_MAX_PARKED=510", "WORKSPACE_MAX_PARKED_PER_PRINCIPAL=505", NULL });
    service = caller_service(the);
    _cleanup_free_ char *run = config_path(caller_config(the), "run", NULL);
    _cleanup_free_ char *path = config_path(caller_config(the), "run", WS ".sock");
    ck_assert_int_eq(io_ensure_directory(run, 0700, NULL), 0);
    listen_fd = io_listen_unix(path, 0600, 16, NULL);
    ck_assert_int_ge(listen_fd, 0);
    listen_watch = loop_watch_fd(caller_loop(the), listen_fd, EPOLLIN, accept_peer, NULL);
}

static void teardown(void)
{
    if (peer_watch)
        loop_unwatch(peer_watch);
    loop_unwatch(listen_watch);
    if (peer)
        channel_free(peer);
    close(listen_fd);
    caller_free(the);
}

/* ---- the operations ---- */

static int runs, last_runs, stream_runs;
static bool ready;
static int pages; /* what the stream has still to give */
static const char *share = "alike";
static int64_t wait_ms = 60000;

static int run(struct call *call, struct error *err)
{
    (void)err;
    runs++;
    last_runs += call->last;
    ck_assert_str_eq(json_string_value(json_object_get(call->in, "exec_id")), EX);
    if (ready || call->last) {
        buffer_printf(&call->body, "\"%s\"", ready ? "ready" : "late");
        return OP_DONE;
    }
    snprintf(call->park.exec_id, sizeof(call->park.exec_id), "%s", EX);
    snprintf(call->park.share, sizeof(call->park.share), "%s", share);
    call->park.deadline_ms = clock_boottime_ms() + wait_ms;
    return OP_PARKED;
}

static int run_stream(struct call *call, struct error *err)
{
    (void)err;
    int *seen = call->memo;
    stream_runs++;
    if (!seen)
        seen = call->memo = xcalloc(1, sizeof(*seen));
    ck_assert_int_eq(*seen, stream_runs - 1); /* what it remembers is kept between runs */
    *seen = stream_runs;
    call->park.deadline_ms = clock_boottime_ms() + wait_ms;
    snprintf(call->park.exec_id, sizeof(call->park.exec_id), "%s", EX);
    if (pages > 0) {
        char *page = buffer_reserve(&call->body, 100000);
        memset(page, 'x', 100000);
        call->body.length += 100000;
        pages--;
    }
    return ready || call->last ? OP_DONE : OP_PARKED;
}

/* Three pieces once it is ready. */
static int run_large(struct call *call, struct error *err)
{
    int *seen = call->memo;
    if (!ready)
        return run(call, err);
    buffer_append_text(&call->body, "piece");
    if (call->last || (seen && *seen == 2))
        return OP_DONE;
    if (!seen)
        seen = call->memo = xcalloc(1, sizeof(*seen));
    ++*seen;
    return OP_MORE;
}

static const struct field params[] = { FIELD_END };
static const struct op op_large = {
    .id = "large", .params = params, .flags = OP_READ_ONLY, .run = run_large
};
static const struct op op_plain = { .id = "plain", .params = params, .flags = OP_READ_ONLY, .run = run };
static const struct op op_stream = {
    .id = "stream", .params = params, .flags = OP_READ_ONLY | OP_STREAMS, .run = run_stream
};

/* ---- the clients ---- */

struct client {
    struct flight *flight;
    int answers, status;
    char text[64];
    size_t pieces, bytes, queued;
};
static struct client clients[MOST];

static void answer(void *user, struct flight *f, const char *text, size_t length, const struct error *err)
{
    (void)f;
    struct client *c = user;
    c->flight = NULL;
    c->answers++;
    c->status = err ? error_status(err->code) : 200;
    snprintf(c->text, sizeof(c->text), "%.*s", err ? (int)strlen(err->message) : (int)length,
             err    ? err->message
             : text ? text
                    : "");
    if (err && err->code == ERROR_TOO_MANY)
        ck_assert_int_eq(err->retry_after, 1);
}

static void piece(void *user, struct flight *f, const char *data, size_t length)
{
    (void)data;
    struct client *c = user;
    f->begun = true;
    c->pieces++;
    c->bytes += length;
    c->queued += length;
}

static size_t queued(void *user)
{
    return ((struct client *)user)->queued;
}

static const struct dispatch_sink sink = { .answer = answer, .piece = piece, .queued = queued };

static void begin(struct client *c, const struct op *op, const char *principal_name, enum call_form form)
{
    struct principal principal = { .name = (char *)principal_name, .read = true };
    struct dispatch_request request = { .op = op,
                                        .principal = &principal,
                                        .form = form,
                                        .in = json_pack("{s:s, s:s}", "workspace_id", WS, "exec_id", EX),
                                        .request_id = "r",
                                        .started_us = clock_boottime_us() };
    *c = (struct client){ 0 };
    c->flight = dispatch_start(service, &request, &sink, c);
}

static size_t answered(size_t count, int status)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_le(clients[i].answers, 1);
        n += clients[i].answers == 1 && clients[i].status == status;
    }
    return n;
}

static void begin_many(size_t count)
{
    for (size_t i = 0; i < count; i++)
        begin(&clients[i], &op_plain, "owner", CALL_REST);
}

START_TEST(all_alike_share_one_run)
{
    begin_many(500);
    ck_assert_int_eq(runs, 500);
    caller_turn(the, 50);
    ck_assert_int_eq(subscriptions, 1);
    ck_assert_int_eq(runs, 501); /* the first notice */
    ready = true;
    notify();
    caller_turn(the, 50);
    ck_assert_int_eq(runs, 502);
    ck_assert_uint_eq(answered(500, 200), 500);
    ck_assert_str_eq(clients[499].text, "\"ready\"");
    ck_assert_uint_eq(wait_count(service->waiting), 0);
}
END_TEST

START_TEST(forms_are_apart_and_the_unshared_alone)
{
    begin(&clients[0], &op_plain, "owner", CALL_REST);
    begin(&clients[1], &op_plain, "owner", CALL_MCP);
    share = "";
    begin(&clients[2], &op_plain, "owner", CALL_REST);
    begin(&clients[3], &op_plain, "owner", CALL_REST);
    caller_turn(the, 50);
    runs = 0;
    ready = true;
    notify();
    caller_turn(the, 50);
    ck_assert_int_eq(runs, 4);
    ck_assert_uint_eq(answered(4, 200), 4);
}
END_TEST

START_TEST(deadlines_give_a_last_turn)
{
    int64_t begun = clock_boottime_ms();
    wait_ms = 60;
    begin(&clients[0], &op_plain, "owner", CALL_REST);
    wait_ms = 60000;
    begin(&clients[1], &op_plain, "owner", CALL_REST);
    for (int i = 0; i < 100 && clients[0].answers == 0; i++)
        caller_turn(the, 30);
    ck_assert_int_ge(clock_boottime_ms() - begun, 60);
    ck_assert_str_eq(clients[0].text, "\"late\"");
    ck_assert_int_eq(clients[1].answers, 0);
    ck_assert_int_eq(last_runs, 1);
    ready = true;
    notify();
    caller_turn(the, 50);
    ck_assert_str_eq(clients[1].text, "\"ready\"");
}
END_TEST

START_TEST(the_parked_are_bounded)
{
    begin_many(506);
    ck_assert_uint_eq(answered(506, 429), 1); /* of one principal */
    for (size_t i = 506; i < 512; i++)
        begin(&clients[i], &op_plain, "other", CALL_REST);
    ck_assert_uint_eq(answered(512, 429), 2); /* of all */
    dispatch_abandon(STEAL(clients[0].flight));
    begin(&clients[0], &op_plain, "owner", CALL_REST);
    ck_assert_int_eq(clients[0].answers, 0);
    ready = true;
    caller_turn(the, 50);
    notify();
    caller_turn(the, 50);
    ck_assert_uint_eq(answered(512, 200), 510);
    begin_many(1);
    ck_assert_str_eq(clients[0].text, "\"ready\"");
}
END_TEST

START_TEST(who_goes_away_is_forgotten)
{
    begin_many(3);
    caller_turn(the, 30);
    dispatch_abandon(STEAL(clients[0].flight));
    dispatch_abandon(STEAL(clients[2].flight));
    ready = true;
    notify();
    caller_turn(the, 30);
    ck_assert_int_eq(clients[0].answers + clients[2].answers, 0);
    ck_assert_int_eq(clients[1].answers, 1);
}
END_TEST

START_TEST(the_worker_that_must_go_answers_all)
{
    begin_many(20);
    share = "";
    begin(&clients[20], &op_plain, "owner", CALL_REST);
    begin(&clients[21], &op_stream, "owner", CALL_SSE);
    service_drain(service);
    ck_assert_uint_eq(answered(22, 200), 22);
    ck_assert_str_eq(clients[5].text, "\"late\"");
    begin(&clients[0], &op_plain, "owner", CALL_REST);
    ck_assert_str_eq(clients[0].text, "\"late\"");
}
END_TEST

START_TEST(a_keeper_that_goes_lets_them_look_again)
{
    begin_many(2);
    caller_turn(the, 50);
    int before = runs;
    loop_unwatch(STEAL(peer_watch));
    channel_free(STEAL(peer));
    caller_turn(the, 50);
    ck_assert_int_gt(runs, before);
    caller_turn(the, 400); /* and subscribe again */
    ck_assert_int_ge(subscriptions, 2);
    ready = true;
    notify();
    caller_turn(the, 50);
    ck_assert_uint_eq(answered(2, 200), 2);
}
END_TEST

START_TEST(a_quick_client_keeps_its_subscription)
{
    for (int i = 0; i < 5; i++) {
        ready = false;
        begin_many(1);
        caller_turn(the, 20);
        ready = true;
        notify();
        caller_turn(the, 20);
        ck_assert_int_eq(clients[0].answers, 1);
    }
    ck_assert_int_eq(subscriptions, 1);
}
END_TEST

START_TEST(a_slow_client_gets_no_more_than_it_takes)
{
    pages = 40;
    begin(&clients[0], &op_stream, "owner", CALL_SSE);
    caller_turn(the, 50);
    ck_assert_uint_eq(clients[0].bytes, 100000);
    notify();
    caller_turn(the, 30);
    ck_assert_uint_eq(clients[0].bytes, 100000);
    for (size_t i = 1; i <= 40; i++) {
        ck_assert_uint_eq(clients[0].bytes, i * 100000);
        clients[0].queued = 0;
        dispatch_drained(clients[0].flight);
        caller_turn(the, 2);
    }
    ck_assert_uint_eq(clients[0].bytes, 4000000);
    ck_assert_int_eq(clients[0].answers, 0);
    ready = true;
    notify();
    caller_turn(the, 30);
    ck_assert_int_eq(clients[0].answers, 1);
}
END_TEST

/* Parked alike, then the answer is large: each client gets it as fast as he takes it. */
START_TEST(a_large_answer_goes_out_apart)
{
    for (int i = 0; i < 3; i++)
        begin(&clients[i], &op_large, "owner", CALL_REST);
    caller_turn(the, 50);
    ck_assert_uint_eq(wait_count(service->waiting), 3);
    ready = true;
    notify();
    caller_turn(the, 30);
    ck_assert_uint_eq(wait_count(service->waiting), 0);
    for (int k = 0; k < 5; k++) {
        clients[1].queued = 0;
        if (clients[1].flight)
            dispatch_drained(clients[1].flight);
        caller_turn(the, 5);
    }
    ck_assert_int_eq(clients[1].answers, 1);
    for (int i = 0; i < 3; i += 2) {
        ck_assert_int_eq(clients[i].answers, 0);
        ck_assert_uint_eq(clients[i].pieces, 1);
    }
    dispatch_abandon(STEAL(clients[0].flight));
    service_drain(service);
    ck_assert_int_eq(clients[2].answers, 1);
}
END_TEST

START_TEST(a_parked_call_is_small)
{
    ck_assert_uint_le(sizeof(struct flight), 512);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wait");
    TCase *all = tcase_create("wait");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, all_alike_share_one_run);
    tcase_add_test(all, forms_are_apart_and_the_unshared_alone);
    tcase_add_test(all, deadlines_give_a_last_turn);
    tcase_add_test(all, the_parked_are_bounded);
    tcase_add_test(all, who_goes_away_is_forgotten);
    tcase_add_test(all, the_worker_that_must_go_answers_all);
    tcase_add_test(all, a_keeper_that_goes_lets_them_look_again);
    tcase_add_test(all, a_quick_client_keeps_its_subscription);
    tcase_add_test(all, a_slow_client_gets_no_more_than_it_takes);
    tcase_add_test(all, a_large_answer_goes_out_apart);
    tcase_add_test(all, a_parked_call_is_small);
    suite_add_tcase(suite, all);
    return unit_run(suite);
}
