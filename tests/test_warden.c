/* The warden as a real process, with real keepers and sandboxes: starting, joining, back-off, its own end. */
#include "lib/base/clock.h"
#include "lib/warden/warden.h"
#include "tests/support/warden_case.h"

#include <check.h>
#include <signal.h>

START_TEST(test_create)
{
    char id[ID_SIZE];
    struct told told = { 0 };
    desk_begin(NULL);
    desk_create(id);
    kept_run(id, "echo hello", &told);
    ck_assert_str_eq(buffer_text(&told.out), "hello\n");
    desk_start(id); /* it runs: told at once */
    json_auto_t *taken =
        talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(id, NULL)));
    const json_t *again =
        json_object_get(json_object_get(taken, "ret"), "record"); /* who asks again is told again */
    ck_assert_str_eq(json_string_value(json_object_get(again, "state")), "running");
    kept_stop(id);
    usleep(200000); /* also where it stands still: nothing of it is touched */
    json_auto_t *taken_too =
        talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(id, NULL)));
    ck_assert_int_ne(talk_error(taken_too), 0);
    ck_assert(house_wait_state(&desk_house, id, "stopped", 0));
    told_read(&desk_house, id, kept_exec_id, &told);
    ck_assert_str_eq(buffer_text(&told.out), "hello\n");
    desk_start(id);
    json_auto_t *nobody = talk_ask(desk, desk_start_message("ws-00000000000000000000000000000000"));
    ck_assert_int_eq(talk_error(nobody), ERROR_NOT_FOUND);
    json_auto_t *path = talk_ask(desk, desk_start_message("ws-../../../../../etc/passwd"));
    ck_assert_int_eq(talk_error(path), ERROR_INVALID);
    json_auto_t *nothing = talk_ask(desk, json_pack("{s:s}", "op", "dance"));
    ck_assert_int_eq(talk_error(nothing), ERROR_INVALID);
    json_auto_t *array = talk_ask(desk, json_pack("[]"));
    ck_assert_int_eq(talk_error(array), ERROR_INVALID);
    told_clear(&told);
    desk_end();
}
END_TEST

START_TEST(test_same_key)
{
    char first[ID_SIZE] = "", second[ID_SIZE] = "";
    desk_begin(NULL);
    json_auto_t *key = json_pack("{s:s, s:s, s:s}", "principal", "owner", "key", "k", "digest", "d");
    json_auto_t *one = talk_ask(desk, json_pack("{s:s, s:o, s:O}", "op", "create", "record",
                                                house_record(first, NULL), "idempotency", key));
    desk_record(one);
    json_auto_t *two = talk_ask(desk, json_pack("{s:s, s:o, s:O}", "op", "create", "record",
                                                house_record(second, NULL), "idempotency", key));
    json_t *existing = json_object_get(json_object_get(two, "ret"), "existing");
    ck_assert_str_eq(json_string_value(json_object_get(existing, "workspace_id")), first);
    ck_assert_str_eq(json_string_value(json_object_get(existing, "digest")), "d");
    desk_end();
}
END_TEST

static json_t *by_name_message(char id[static ID_SIZE])
{
    return json_pack("{s:s, s:o, s:{s:b}}", "op", "create", "record", house_record(id, NULL), "idempotency",
                     "by_name", 1);
}

static size_t count_owners(void)
{
    json_auto_t *all = NULL;
    ck_assert_int_eq(state_list_workspaces(desk_house.state, "owner", NULL, 100, &all, NULL), 0);
    return json_array_size(all);
}

static void wait_until_it_is_begun(void)
{
    for (int i = 0; i < 5000 && count_owners() == 0; i++)
        usleep(1000);
}

/* Many ask for the one of that name at once: one is made, once, and all of them hear of it when it runs, the
 * first of them gone or not. Who comes later is told that it is there. */
START_TEST(test_same_name)
{
    enum { MANY = 12 };
    char first[ID_SIZE] = "", id[ID_SIZE], later[ID_SIZE] = "";
    uint32_t numbers[MANY];
    desk_begin(NULL);
    struct talk *maker = talk_open(&desk_house, "warden.sock");
    talk_send(maker, by_name_message(first));
    wait_until_it_is_begun();
    for (int i = 0; i < MANY; i++) {
        id[0] = '\0';
        numbers[i] = talk_send(desk, by_name_message(id));
    }
    talk_close(maker);
    for (int i = 0; i < MANY; i++) {
        json_auto_t *answer = talk_wait(desk, numbers[i]);
        json_t *record = desk_record(answer);
        ck_assert_str_eq(json_string_value(json_object_get(record, "workspace_id")), first);
        ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "running");
    }
    json_auto_t *answer = talk_ask(desk, by_name_message(later));
    json_t *existing = json_object_get(json_object_get(answer, "ret"), "existing");
    ck_assert_str_eq(json_string_value(json_object_get(existing, "workspace_id")), first);
    ck_assert_uint_eq(count_owners(), 1);
    desk_end();
}
END_TEST

/* Nobody waits for it any more: it is there for whoever asks again. */
START_TEST(test_named_stays)
{
    char first[ID_SIZE] = "";
    desk_begin(NULL);
    struct talk *maker = talk_open(&desk_house, "warden.sock");
    talk_send(maker, by_name_message(first));
    wait_until_it_is_begun();
    talk_close(maker);
    ck_assert(house_wait_state(&desk_house, first, "running", 5000));
    usleep(200000);
    ck_assert(house_wait_state(&desk_house, first, "running", 0));
    desk_end();
}
END_TEST

START_TEST(test_too_many)
{
    static const char *const settings[] = { "WORKSPACE_MAX_WORKSPACES=1", NULL };
    char id[ID_SIZE], other[ID_SIZE] = "";
    desk_begin(settings);
    desk_create(id);
    json_auto_t *answer =
        talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(other, NULL)));
    ck_assert_int_eq(talk_error(answer), ERROR_TOO_MANY);
    _cleanup_free_ char *logs = config_path(desk_house.config, "events", other);
    ck_assert_int_ne(access(logs, F_OK), 0);
    unsetenv("WORKSPACE_MAX_WORKSPACES");
    desk_end();
}
END_TEST

START_TEST(test_join)
{
    enum { MANY = 20 };
    char id[ID_SIZE];
    uint32_t numbers[MANY];
    desk_begin(NULL);
    desk_create(id);
    kept_stop(id); /* its keeper may still be about to end */
    json_auto_t *first = NULL;
    for (int i = 0; i < MANY; i++)
        numbers[i] = talk_send(desk, desk_start_message(id));
    for (int i = 0; i < MANY; i++) {
        json_auto_t *answer = talk_wait(desk, numbers[i]);
        json_t *sandbox = json_object_get(desk_record(answer), "sandbox_id");
        if (first == NULL)
            first = json_incref(sandbox);
        ck_assert(json_equal(first, sandbox));
    }
    desk_end();
}
END_TEST

START_TEST(test_many_at_once)
{
    enum { MANY = 12 };
    char ids[MANY][ID_SIZE];
    uint32_t numbers[MANY];
    struct told told = { 0 };
    desk_begin(NULL);
    for (int i = 0; i < MANY; i++) {
        ids[i][0] = '\0';
        numbers[i] =
            talk_send(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(ids[i], NULL)));
    }
    for (int i = 0; i < MANY; i++) {
        json_auto_t *answer = talk_wait(desk, numbers[i]);
        desk_record(answer);
    }
    for (int i = 0; i < MANY; i++)
        kept_run(ids[i], "true", &told);
    told_clear(&told);
    desk_end();
}
END_TEST

START_TEST(test_back_off)
{
    char id[ID_SIZE];
    desk_begin(NULL);
    desk_create(id);
    kept_stop(id);
    /* another warden, with an agent that is not there */
    kill(desk_warden, SIGTERM);
    ck_assert_int_eq(house_wait(desk_warden, 3000), 0);
    talk_close(desk);
    _cleanup_free_ char *agent = xstrdup(getenv("WORKSPACE_AGENT"));
    setenv("WORKSPACE_AGENT", "/nonexistent/agent", 1);
    desk_warden = house_start_warden(&desk_house);
    setenv("WORKSPACE_AGENT", agent, 1);
    desk = talk_open(&desk_house, "warden.sock");
    json_auto_t *first = talk_ask(desk, desk_start_message(id));
    ck_assert_int_ne(talk_error(first), 0);
    int64_t begun = clock_boottime_ms();
    json_auto_t *second = talk_ask(desk, desk_start_message(id));
    ck_assert_int_lt(clock_boottime_ms() - begun, 500);
    ck_assert_int_eq(talk_error(second), ERROR_DRIVER);
    json_t *error = json_object_get(second, "error");
    ck_assert_int_eq(json_integer_value(json_object_get(error, "retry_after")), 1);
    ck_assert_ptr_nonnull(
        strstr(json_string_value(json_object_get(error, "message")), "could not be started: "));
    ck_assert(house_wait_state(&desk_house, id, "failed", 1000));
    usleep(1100000);
    json_auto_t *third = talk_ask(desk, desk_start_message(id));
    ck_assert_int_ne(talk_error(third), 0);
    json_auto_t *fourth = talk_ask(desk, desk_start_message(id));
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(fourth, "error"), "retry_after")), 2);
    desk_end();
}
END_TEST

START_TEST(test_ends_alone)
{
    char id[ID_SIZE];
    struct told told = { 0 };
    desk_begin(NULL);
    desk_create(id);
    pid_t second = fork();
    if (second == 0) {
        execl("/proc/self/exe", "test", "warden", "--state", desk_house.dir, NULL);
        _exit(127);
    }
    ck_assert_int_eq(house_wait(second, 3000), 0); /* another one holds the lock */
    kill(desk_warden, SIGTERM);
    ck_assert_int_eq(house_wait(desk_warden, 3000), 0);
    kept_run(id, "echo alive", &told);
    ck_assert_str_eq(buffer_text(&told.out), "alive\n");
    ck_assert_int_eq(warden_ensure(desk_house.config, "/proc/self/exe", 0, NULL), 1);
    int64_t deadline = clock_boottime_ms() + 3000;
    struct talk *t;
    while ((t = talk_open(&desk_house, "warden.sock")) == NULL && clock_boottime_ms() < deadline)
        usleep(5000);
    ck_assert_ptr_nonnull(t);
    talk_close(t);
    told_clear(&told);
    desk_end();
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = { test_create,       test_same_key, test_same_name,
                                   test_named_stays,  test_too_many, test_join,
                                   test_many_at_once, test_back_off, test_ends_alone };
    return house_run_tests(argc, argv, "warden", tests, N_ELEMENTS(tests));
}
