/* The workspace `default` while many use it for the first time at once: there is one of it, what was
 * acknowledged is in it, and nobody hears of another. */
#include "lib/base/buffer.h"
#include "tests/support/fcgi.h"
#include "tests/support/suite.h"
#include "tests/support/tokens.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CALLERS = 8, ROUNDS = 12, IN_BATCH = 5 };

static char token[128], principal[40];

/* Nobody has used its `default` yet. */
static void new_principal(void)
{
    static int number;
    snprintf(principal, sizeof principal, "first-%d-%d", (int)getpid(), number++);
    token_add(the, principal, token);
}

/* ---- callers, each in a thread of its own ---- */

struct caller {
    pthread_t thread;
    pthread_barrier_t *barrier;
    int number, files;
    long delay_ms;
    long leaves_ms;   /* it goes away then, without an answer; 0 = it waits */
    const char *name; /* of a workspace that it creates; NULL = it writes files instead */
    struct answer answer;
};

static json_t *call_message(int id, const char *tool, json_t *arguments)
{
    return json_pack("{s:s, s:i, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "id", id, "method", "tools/call",
                     "params", "name", tool, "arguments", arguments);
}

static json_t *write_message(int caller, int file)
{
    return call_message(file, "write_file",
                        json_pack("{s:o, s:o, s:b}", "filepath", json_sprintf("f%d-%d", caller, file),
                                  "content", json_sprintf("%d", caller), "create_only", 0));
}

static char *body_of(const struct caller *c)
{
    json_t *message = c->files > 1 ? json_array() : c->name ? json_pack("{s:s}", "name", c->name) : NULL;
    for (int k = 0; c->files > 1 && k < c->files; k++)
        json_array_append_new(message, write_message(c->number, k));
    if (!message)
        message = write_message(c->number, 0);
    char *text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    return text;
}

/* Past the web server, which would wait in the client's place. */
static void send_and_leave(const char *where, const char *body, long after_ms)
{
    char path[256], length[24], bearer[160];
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    snprintf(path, sizeof path, "%s/fcgi.sock", instance_state(the));
    snprintf(length, sizeof length, "%zu", strlen(body));
    snprintf(bearer, sizeof bearer, "Bearer %s", token);
    const char *const pairs[] = {
        "CONTENT_LENGTH", length, "CONTENT_TYPE", "application/json", "HTTP_AUTHORIZATION", bearer, NULL
    };
    fcgi_add_begin(&out, 1, 1, false);
    fcgi_add_params(&out, 1, "POST", where, pairs);
    fcgi_add_stdin(&out, 1, body, strlen(body));
    int fd = fcgi_connect(path);
    fcgi_send(fd, out.data, out.length);
    sleep_ms(after_ms);
    close(fd);
}

static void *call(void *user)
{
    struct caller *c = user;
    char *body = body_of(c);
    struct http_options o = { .token = token, .body = body, .unchecked = true };
    pthread_barrier_wait(c->barrier);
    sleep_ms(c->delay_ms);
    if (c->leaves_ms)
        send_and_leave("/mcp", body, c->leaves_ms);
    else
        c->answer = http_send(the, "POST", c->name ? "/api/workspaces" : "/mcp", &o);
    http_thread_end();
    free(body);
    return NULL;
}

static void call_together(struct caller *callers, size_t count)
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (size_t k = 0; k < count; k++) {
        callers[k].barrier = &barrier;
        callers[k].number = (int)k;
        ck_assert_int_eq(pthread_create(&callers[k].thread, NULL, call, &callers[k]), 0);
    }
    for (size_t k = 0; k < count; k++)
        pthread_join(callers[k].thread, NULL);
    pthread_barrier_destroy(&barrier);
}

static void forget_answers(struct caller *callers, size_t count)
{
    for (size_t k = 0; k < count; k++)
        answer_clear(&callers[k].answer);
}

/* ---- what came of it ---- */

static const char *result_text(const json_t *message)
{
    const json_t *result = json_object_get(message, "result");
    return member_text(json_array_get(json_object_get(result, "content"), 0), "text");
}

static bool is_done(const json_t *message)
{
    const json_t *result = json_object_get(message, "result");
    return json_is_object(result) && !json_is_true(json_object_get(result, "isError"));
}

static void expect_done(const struct caller *c)
{
    size_t count = c->files > 1 ? json_array_size(c->answer.json) : 1;
    ck_assert_msg(c->answer.status == 200 && (c->files <= 1 || count == (size_t)c->files), "%s: %ld: %s",
                  principal, c->answer.status, c->answer.body);
    for (size_t k = 0; k < count; k++) {
        const json_t *message = c->files > 1 ? json_array_get(c->answer.json, k) : c->answer.json;
        ck_assert_msg(is_done(message), "%s: caller %d: %s", principal, c->number, c->answer.body);
    }
}

static json_t *list_of_workspaces(void)
{
    return api_as(the, token, 200, "GET", "/api/workspaces?state=all", NULL);
}

static void terminate_all(void)
{
    json_auto_t *list = list_of_workspaces();
    json_t *one;
    size_t k;
    json_array_foreach(list, k, one) {
        char path[128];
        snprintf(path, sizeof path, "/api/workspaces/%s", member_text(one, "workspace_id"));
        json_decref(api_as(the, token, 200, "DELETE", path, NULL));
    }
}

static void expect_one_default(void)
{
    json_auto_t *list = list_of_workspaces();
    ck_assert_msg(json_array_size(list) == 1, "%s has %zu workspaces", principal, json_array_size(list));
    ck_assert_str_eq(member_text(json_array_get(list, 0), "name"), "default");
}

/* All of it is where calls that come later look. */
static void expect_files(const struct caller *c)
{
    for (int k = 0; k < (c->files > 1 ? c->files : 1); k++) {
        json_auto_t *arguments = json_object();
        json_object_set_new(arguments, "filepath", json_sprintf("f%d-%d", c->number, k));
        json_auto_t *answer =
            api_as(the, token, 200, "POST", "/mcp", call_message(1, "read_file", json_incref(arguments)));
        ck_assert_msg(is_done(answer), "%s: f%d-%d was acknowledged: %s", principal, c->number, k,
                      result_text(answer));
    }
}

static size_t lines_of_log(const char *words)
{
    char line[512];
    int count = -1;
    snprintf(line, sizeof line, "grep -c -F -e '%s' %s/../test.log", words, instance_state(the));
    FILE *pipe = popen(line, "r");
    ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return (size_t)count;
}

/* ---- tests ---- */

static void use_it_first(int files)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct caller callers[CALLERS] = { 0 };
        new_principal();
        for (int k = 0; k < CALLERS; k++)
            callers[k] = (struct caller){ .files = files, .delay_ms = round % 3 * k };
        call_together(callers, CALLERS);
        for (int k = 0; k < CALLERS; k++)
            expect_done(&callers[k]);
        expect_one_default();
        for (int k = 0; k < CALLERS; k++)
            expect_files(&callers[k]);
        forget_answers(callers, CALLERS);
        terminate_all();
    }
    ck_assert_uint_eq(lines_of_log(" ERROR "), 0);
}

START_TEST(the_first_calls_at_once)
{
    use_it_first(1);
}
END_TEST

START_TEST(the_first_batches_at_once)
{
    use_it_first(IN_BATCH);
}
END_TEST

/* Who set it going does not wait for it: that is no loss for the others. */
START_TEST(its_maker_goes_away)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct caller callers[CALLERS] = { 0 };
        new_principal();
        callers[0].leaves_ms = 5 + 4 * round;
        for (int k = 1; k < CALLERS; k++)
            callers[k].delay_ms = 5 * k;
        call_together(callers, CALLERS);
        for (int k = 1; k < CALLERS; k++)
            expect_done(&callers[k]);
        expect_one_default();
        for (int k = 1; k < CALLERS; k++)
            expect_files(&callers[k]);
        forget_answers(callers, CALLERS);
        terminate_all();
    }
    ck_assert_uint_eq(lines_of_log(" ERROR "), 0);
}
END_TEST

/* Another one is taken back where its maker went away: that is no fault of its keeper. */
START_TEST(what_nobody_waits_for_is_taken_back)
{
    size_t left = 1;
    new_principal();
    for (int round = 0; round < ROUNDS; round++)
        send_and_leave("/api/workspaces", "{}", 5 + 3 * round);
    for (long long until = now_ms() + 10000; left > 0 && now_ms() < until; sleep_ms(100)) {
        json_auto_t *list = list_of_workspaces();
        left = 0;
        json_t *one;
        size_t k;
        json_array_foreach(list, k, one)
            left += strcmp(member_text(one, "state"), "running") != 0;
    }
    ck_assert_uint_eq(left, 0);
    ck_assert_uint_gt(lines_of_log("nobody waits for it any more"), 0);
    ck_assert_uint_eq(lines_of_log(" ERROR "), 0);
    ck_assert_uint_eq(lines_of_log("its keeper died"), 0);
    terminate_all();
}
END_TEST

/* Workspaces of that name that are made by hand meanwhile: whichever was first stays the one that is meant.
 */
START_TEST(others_of_its_name_are_made)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct caller callers[CALLERS] = { 0 };
        new_principal();
        for (int k = 0; k < CALLERS; k++) {
            callers[k].name = k % 2 == 1 ? "default" : NULL;
            callers[k].delay_ms = round * (k % 2 == round % 2);
        }
        call_together(callers, CALLERS);
        for (int k = 0; k < CALLERS; k += 2)
            expect_done(&callers[k]);
        for (int k = 1; k < CALLERS; k += 2)
            ck_assert_int_eq(callers[k].answer.status, 200);
        for (int k = 0; k < CALLERS; k += 2)
            expect_files(&callers[k]);
        forget_answers(callers, CALLERS);
        terminate_all();
    }
}
END_TEST

/* ---- removed while it is used ---- */

struct remover {
    pthread_t thread;
    char path[128];
    long status;
};

static void *remove_it(void *user)
{
    struct remover *r = user;
    struct http_options o = { .token = token, .unchecked = true };
    struct answer a = http_send(the, "DELETE", r->path, &o);
    r->status = a.status;
    answer_clear(&a);
    http_thread_end();
    return NULL;
}

/* A call was in it to its end, or in a new one, or ended with it: no word of an id that the client never
 * named.
 */
static void expect_no_foreign_id(const struct caller *c)
{
    ck_assert_msg(c->answer.status == 200 && strstr(c->answer.body, "there is no workspace") == NULL,
                  "%s: caller %d: %ld %s", principal, c->number, c->answer.status, c->answer.body);
    if (!is_done(c->answer.json))
        ck_assert_msg(strncmp(result_text(c->answer.json), "UnavailableError: ", 18) == 0, "%s",
                      c->answer.body);
}

START_TEST(it_is_removed_meanwhile)
{
    size_t done = 0;
    new_principal();
    for (int round = 0; round < 2 * ROUNDS; round++) {
        struct caller callers[CALLERS] = { 0 }, before = { 0 };
        struct remover remover = { 0 };
        call_together(&before, 1);
        expect_done(&before);
        answer_clear(&before.answer);
        json_auto_t *list = list_of_workspaces();
        ck_assert_uint_eq(json_array_size(list), 1);
        snprintf(remover.path, sizeof remover.path, "/api/workspaces/%s",
                 member_text(json_array_get(list, 0), "workspace_id"));
        for (int k = 0; k < CALLERS; k++)
            callers[k].delay_ms = round % 4 * k;
        pthread_create(&remover.thread, NULL, remove_it, &remover);
        call_together(callers, CALLERS);
        pthread_join(remover.thread, NULL);
        ck_assert_int_eq(remover.status, 200);
        for (int k = 0; k < CALLERS; k++) {
            expect_no_foreign_id(&callers[k]);
            done += is_done(callers[k].answer.json);
        }
        forget_answers(callers, CALLERS);
    }
    ck_assert_msg(done > 2 * ROUNDS * CALLERS * 3 / 4, "%zu of %d calls were done", done,
                  2 * ROUNDS * CALLERS);
    terminate_all();
}
END_TEST

/* It cannot be made: everybody is told so, and once it can be, the next call has it. */
START_TEST(it_fails_first)
{
    struct caller callers[CALLERS] = { 0 }, after = { 0 };
    char line[300];
    new_principal();
    snprintf(line, sizeof line, "mv %s/workspaces %s/away && touch %s/workspaces", instance_state(the),
             instance_state(the), instance_state(the));
    ck_assert_int_eq(system(line), 0);
    call_together(callers, CALLERS);
    snprintf(line, sizeof line, "rm %s/workspaces && mv %s/away %s/workspaces", instance_state(the),
             instance_state(the), instance_state(the));
    ck_assert_int_eq(system(line), 0);
    for (int k = 0; k < CALLERS; k++) {
        ck_assert_msg(callers[k].answer.status == 200 && !is_done(callers[k].answer.json) &&
                          strstr(callers[k].answer.body, "there is no workspace") == NULL,
                      "%s", callers[k].answer.body);
    }
    call_together(&after, 1);
    expect_done(&after);
    expect_one_default();
    forget_answers(callers, CALLERS);
    answer_clear(&after.answer);
    terminate_all();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("default");
    suite_add(s, the_first_calls_at_once, 120);
    suite_add(s, the_first_batches_at_once, 120);
    suite_add(s, its_maker_goes_away, 120);
    suite_add(s, what_nobody_waits_for_is_taken_back, 60);
    suite_add(s, others_of_its_name_are_made, 120);
    suite_add(s, it_is_removed_meanwhile, 180);
    suite_add(s, it_fails_first, 60);
    return suite_main(s, NULL);
}
