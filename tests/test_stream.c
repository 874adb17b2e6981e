/* Answers in pieces: the next one only when the client took the last and it is its turn, whatever ends them.
 * The operation is the test's own. */
#include "fcgi/dispatch.h"
#include "lib/base/clock.h"
#include "tests/support/caller.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define MOST 64

static struct caller *the;
static struct service *service;

static void setup(void)
{
    the = caller_new(NULL);
    service = caller_service(the);
}

static void teardown(void)
{
    caller_free(the);
}

/* ---- the operation: so many pieces, then the end ---- */

static int pieces_of_all = 10, made;
static int64_t piece_us;

static void work(void)
{
    for (int64_t until = clock_boottime_us() + piece_us; clock_boottime_us() < until;)
        ;
}

static int run(struct call *call, struct error *err)
{
    int *number = call->memo;
    (void)err;
    ck_assert(call->going_on == (number != NULL));
    ck_assert_int_eq(json_integer_value(json_object_get(call->in, "mark")), 7);
    if (!number)
        number = call->memo = xcalloc(1, sizeof(*number));
    do {
        made++;
        work();
        if (*number == pieces_of_all || (call->last && *number > 0)) {
            buffer_append_text(&call->body, "end");
            return OP_DONE;
        }
        buffer_printf(&call->body, "%d,", (*number)++);
    } while (!call->pieces);
    return OP_MORE;
}

static const struct field params[] = { FIELD_END };
static const struct op op_pieces = { .id = "pieces", .params = params, .flags = OP_READ_ONLY, .run = run };

/* ---- the clients ---- */

struct client {
    struct flight *flight;
    struct buffer text;
    int answers;
    size_t pieces, queued;
    bool slow; /* takes nothing until told */
};
static struct client clients[MOST];

static void answer(void *user, struct flight *f, const char *text, size_t length, const struct error *err)
{
    struct client *c = user;
    (void)f;
    ck_assert_ptr_null(err);
    c->flight = NULL;
    c->answers++;
    buffer_append(&c->text, text, length);
}

static void piece(void *user, struct flight *f, const char *data, size_t length)
{
    struct client *c = user;
    f->begun = true;
    c->pieces++;
    buffer_append(&c->text, data, length);
    c->queued += c->slow ? length : 0;
}

static size_t queued(void *user)
{
    return ((struct client *)user)->queued;
}

static const struct dispatch_sink sink = { .answer = answer, .piece = piece, .queued = queued },
                                  whole_sink = { .answer = answer };

static void begin(struct client *c, const struct dispatch_sink *to, enum call_form form)
{
    struct principal principal = { .name = (char *)"owner", .read = true };
    struct dispatch_request request = { .op = &op_pieces,
                                        .principal = &principal,
                                        .form = form,
                                        .in = json_pack("{s:i}", "mark", 7),
                                        .request_id = "r",
                                        .started_us = clock_boottime_us() };
    c->flight = dispatch_start(service, &request, to, c);
}

static void take(struct client *c)
{
    c->queued = 0;
    dispatch_drained(c->flight);
}

static void client_clear(struct client *c)
{
    buffer_free(&c->text);
    *c = (struct client){ 0 };
}

START_TEST(a_slow_client_gets_a_piece_at_a_time)
{
    struct client *c = &clients[0];
    c->slow = true;
    begin(c, &sink, CALL_REST);
    for (size_t i = 1; i <= 10; i++) {
        caller_turn(the, 5);
        ck_assert_uint_eq(c->pieces, i);
        ck_assert_int_eq(made, (int)i);
        ck_assert_int_eq(c->answers, 0);
        take(c);
    }
    caller_turn(the, 5);
    ck_assert_int_eq(c->answers, 1);
    ck_assert_str_eq(buffer_text(&c->text), "0,1,2,3,4,5,6,7,8,9,end");
    client_clear(c);
}
END_TEST

START_TEST(who_takes_no_pieces_gets_it_whole)
{
    begin(&clients[0], &whole_sink, CALL_REST);
    begin(&clients[1], &sink, CALL_MCP);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(clients[i].answers, 1);
        ck_assert_str_eq(buffer_text(&clients[i].text), "0,1,2,3,4,5,6,7,8,9,end");
        client_clear(&clients[i]);
    }
}
END_TEST

static int turns, made_before, made_most;

/* Always ready: comes round once in each turn of the loop. */
static void each_turn(void *user, uint32_t events)
{
    (void)user;
    (void)events;
    if (made - made_before > made_most)
        made_most = made - made_before;
    made_before = made;
    turns++;
    size_t least = SIZE_MAX, most = 0;
    for (int i = 0; i < MOST; i++) {
        least = clients[i].pieces < least ? clients[i].pieces : least;
        most = clients[i].pieces > most ? clients[i].pieces : most;
    }
    ck_assert_uint_le(most - least, 1);
}

START_TEST(many_take_turns_and_leave_room_for_others)
{
    int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    pieces_of_all = 20;
    for (int i = 0; i < MOST; i++)
        begin(&clients[i], &sink, CALL_REST);
    made_before = made;
    piece_us = 300;
    struct loop_watch *watch = loop_watch_fd(caller_loop(the), fd, EPOLLIN, each_turn, NULL);
    for (int round = 0; round < 500 && clients[MOST - 1].answers == 0; round++)
        caller_turn(the, 20);
    loop_unwatch(watch);
    close(fd);
    for (int i = 0; i < MOST; i++) {
        ck_assert_int_eq(clients[i].answers, 1);
        ck_assert_uint_eq(clients[i].pieces, 20);
        client_clear(&clients[i]);
    }
    ck_assert_int_gt(turns, MOST * 19 / 4);
    ck_assert_int_le(made_most, 4); /* 0.3 ms each in a turn of 1 ms */
}
END_TEST

static size_t pieces_out(void)
{
    size_t sum = 0;
    for (int i = 0; i < MOST; i++)
        sum += clients[i].pieces;
    return sum;
}

/* At most six pieces lie untaken; who leaves his for 10 ms does not hold up the others. */
START_TEST(few_have_a_piece_to_take_at_a_time)
{
    for (int i = 0; i < MOST; i++) {
        clients[i].slow = true;
        begin(&clients[i], &sink, CALL_REST);
    }
    caller_turn(the, 15); /* the first pieces are forgiven by now */
    int64_t begun = clock_boottime_ms();
    for (int i = 0; i < MOST; i++)
        take(&clients[i]);
    while (pieces_out() < 2 * MOST && clock_boottime_ms() < begun + 5000) {
        caller_turn(the, 1);
        ck_assert_int_le(pieces_out() - MOST, 6 * (1 + (clock_boottime_ms() - begun) / 10));
    }
    ck_assert_uint_eq(pieces_out(), 2 * MOST);
    ck_assert_int_ge(clock_boottime_ms() - begun, 90); /* 64 of them, six in 10 ms */
    for (int i = 0; i < MOST; i++) {
        dispatch_abandon(STEAL(clients[i].flight));
        client_clear(&clients[i]);
    }
}
END_TEST

START_TEST(who_goes_away_gets_no_more)
{
    for (int i = 0; i < 3; i++) {
        clients[i].slow = i == 1;
        begin(&clients[i], &sink, CALL_REST);
    }
    dispatch_abandon(STEAL(clients[0].flight)); /* waits for its turn */
    dispatch_abandon(STEAL(clients[1].flight)); /* waits for its client */
    caller_turn(the, 20);
    ck_assert_int_eq(clients[0].answers + clients[1].answers, 0);
    ck_assert_uint_eq(clients[0].pieces + clients[1].pieces, 2);
    ck_assert_int_eq(clients[2].answers, 1);
    for (int i = 0; i < 3; i++)
        client_clear(&clients[i]);
}
END_TEST

START_TEST(the_worker_that_must_go_ends_them)
{
    clients[0].slow = true;
    begin(&clients[0], &sink, CALL_REST);
    begin(&clients[1], &sink, CALL_REST);
    service_drain(service);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(clients[i].answers, 1);
        ck_assert_str_eq(buffer_text(&clients[i].text), "0,end");
        client_clear(&clients[i]);
    }
    caller_turn(the, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    TCase *all = tcase_create("stream");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, a_slow_client_gets_a_piece_at_a_time);
    tcase_add_test(all, who_takes_no_pieces_gets_it_whole);
    tcase_add_test(all, many_take_turns_and_leave_room_for_others);
    tcase_add_test(all, few_have_a_piece_to_take_at_a_time);
    tcase_add_test(all, who_goes_away_gets_no_more);
    tcase_add_test(all, the_worker_that_must_go_ends_them);
    suite_add_tcase(suite, all);
    return unit_run(suite);
}
