/* The warden as a real process: what it makes good where keepers, or wardens before it, died. */
#include "lib/base/clock.h"
#include "lib/keeper/lost.h"
#include "tests/support/warden_case.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>

static void assert_lost(const char *id, const char *lost_id, struct told *told)
{
    told_read(&desk_house, id, lost_id, told);
    ck_assert_int_eq(told->head.state, EXEC_FAILED);
    ck_assert_str_eq(told->head.reason, "lost: " LOST_KEEPER);
    ck_assert_str_eq(buffer_text(&told->out), "up\n");
    ck_assert_uint_eq(told->exits, 1);
    ck_assert(!told->gap);
}

static void begin_with_a_dead_keeper(char id[static ID_SIZE], char lost_id[static ID_SIZE])
{
    desk_begin(NULL);
    desk_create(id);
    kept_begin_exec(id, lost_id);
    kept_kill_keeper(id);
}

START_TEST(test_mend)
{
    char id[ID_SIZE], lost_id[ID_SIZE];
    struct told told = { 0 };
    begin_with_a_dead_keeper(id, lost_id);
    int64_t begun = clock_boottime_ms();
    ck_assert(told_wait(&desk_house, id, lost_id, &told, 5000));
    int64_t took = clock_boottime_ms() - begun;
    fprintf(stderr, "last events of a killed keeper after %d ms\n", (int)took);
    ck_assert_int_lt(took, 2000);
    assert_lost(id, lost_id, &told);
    ck_assert(house_wait_state(&desk_house, id, "stopped", 1000));
    json_auto_t *record = house_stored(&desk_house, id);
    ck_assert_str_eq(json_string_value(json_object_get(record, "reason")), "lost: " LOST_KEEPER);
    ck_assert(json_is_null(json_object_get(record, "handle")));
    desk_start(id);
    kept_writes(id, "cat file", "kept\n");
    told_clear(&told);
    desk_end();
}
END_TEST

START_TEST(test_start_after_death)
{
    char id[ID_SIZE], lost_id[ID_SIZE];
    struct told told = { 0 };
    begin_with_a_dead_keeper(id, lost_id);
    desk_start(id); /* does not wait for the mend, does its work */
    assert_lost(id, lost_id, &told);
    kept_writes(id, "cat file", "kept\n");
    told_clear(&told);
    desk_end();
}
END_TEST

START_TEST(test_adopt)
{
    char id[ID_SIZE], other[ID_SIZE], lost_id[ID_SIZE], other_exec[ID_SIZE];
    struct told told = { 0 };
    desk_begin(NULL);
    desk_create(id);
    desk_create(other);
    kept_begin_exec(id, lost_id);
    kept_begin_exec(other, other_exec);
    desk_kill();
    kept_writes(id, "echo alive", "alive\n");
    kept_kill_keeper(other); /* nobody sees that */
    usleep(200000);
    ck_assert_uint_eq(house_head(&desk_house, other, other_exec).exit_seq, 0);
    desk_begin_again();
    ck_assert(told_wait(&desk_house, other, other_exec, &told, 3000));
    assert_lost(other, other_exec, &told);
    desk_start(id); /* known as running */
    kept_writes(id, "echo alive", "alive\n");
    kept_kill_keeper(id);
    ck_assert(told_wait(&desk_house, id, lost_id, &told, 3000));
    assert_lost(id, lost_id, &told);
    told_clear(&told);
    desk_end();
}
END_TEST

/* The warden dies at any point of a creation; who asked asks its successor for the same. */
START_TEST(test_create_again)
{
    desk_begin(NULL);
    for (int ms = 0; ms < 40; ms += 3) {
        char id[ID_SIZE] = "";
        json_auto_t *record = house_record(id, NULL);
        talk_send(desk, json_pack("{s:s, s:O}", "op", "create", "record", record));
        usleep((useconds_t)ms * 1000);
        desk_kill();
        desk_begin_again();
        json_auto_t *answer = talk_ask(desk, json_pack("{s:s, s:O}", "op", "create", "record", record));
        ck_assert_str_eq(json_string_value(json_object_get(desk_record(answer), "state")), "running");
        kept_stop(id);
    }
    desk_end();
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = { test_mend, test_start_after_death, test_adopt, test_create_again };
    return house_run_tests(argc, argv, "warden_mends", tests, N_ELEMENTS(tests));
}
