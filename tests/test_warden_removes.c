/* The warden as a real process: removing, what is taken back, sweeping what is old. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/base/steady.h"
#include "tests/support/warden_case.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

static size_t entries_of(const char *name)
{
    _cleanup_free_ char *path = config_path(desk_house.config, name, NULL);
    DIR *dir = opendir(path);
    size_t n = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    if (dir != NULL)
        closedir(dir);
    return n;
}

static bool wait_for_empty_trash(void)
{
    int64_t deadline = clock_boottime_ms() + 10000;
    while (entries_of("workspaces/.trash") + entries_of("events/.trash") > 0 &&
           clock_boottime_ms() < deadline)
        usleep(10000);
    return entries_of("workspaces/.trash") + entries_of("events/.trash") == 0;
}

static json_t *remove_message(const char *id)
{
    return json_pack("{s:s, s:s}", "op", "remove", "workspace_id", id);
}

START_TEST(test_remove)
{
    char id[ID_SIZE];
    struct told told = { 0 };
    desk_begin(NULL);
    desk_create(id);
    kept_run(id, "mkdir -p a/b/c && echo x >a/b/c/f && chmod 000 a/b/c a/b a && ln -s / link", &told);
    json_auto_t *running = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(running), ERROR_CONFLICT);
    kept_stop(id);
    json_auto_t *removed = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(removed), 0);
    ck_assert(house_wait_state(&desk_house, id, "gone", 0));
    ck_assert_uint_eq(entries_of("workspaces"), 0);
    ck_assert_uint_eq(entries_of("events"), 0);
    ck_assert(wait_for_empty_trash());
    json_auto_t *again = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(again), ERROR_NOT_FOUND);
    told_clear(&told);
    desk_end();
}
END_TEST

/* Who asks while it is being made is not left waiting for its end. */
START_TEST(test_remove_while_it_starts)
{
    char id[ID_SIZE] = "";
    desk_begin(NULL);
    uint32_t made =
        talk_send(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(id, NULL)));
    usleep(5000); /* it is begun */
    int64_t begun = clock_boottime_ms();
    json_auto_t *removed = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(removed), ERROR_CONFLICT);
    ck_assert_int_lt(clock_boottime_ms() - begun, 5000);
    json_auto_t *answer = talk_wait(desk, made);
    desk_record(answer);
    desk_end();
}
END_TEST

/* A keeper that does not answer is ended for it; one that does not answer and is not even known is found. */
START_TEST(test_remove_by_force)
{
    for (int kind = 0; kind < 2; kind++) {
        char id[ID_SIZE];
        desk_begin(NULL);
        desk_create(id);
        int keeper = kept_keeper(id);
        process_pidfd_signal(keeper, SIGSTOP);
        if (kind == 1) {
            desk_kill();
            desk_begin_again();
        }
        json_auto_t *politely = talk_ask(desk, remove_message(id));
        ck_assert_int_eq(talk_error(politely), ERROR_CONFLICT);
        json_t *message = remove_message(id);
        json_object_set_new(message, "force", json_true());
        json_auto_t *removed = talk_ask(desk, message);
        ck_assert_int_eq(talk_error(removed), 0);
        ck_assert_int_eq(process_pidfd_wait(keeper, 1000), 1);
        ck_assert(house_wait_state(&desk_house, id, "gone", 0));
        close(keeper);
        desk_end();
    }
}
END_TEST

static size_t count_records(void)
{
    json_auto_t *all = NULL;
    ck_assert_int_eq(state_list_workspaces(desk_house.state, NULL, NULL, 100, &all, NULL), 0);
    return json_array_size(all);
}

/* Who asked for a workspace and went away before the answer leaves none behind, but where it can come back.
 */
START_TEST(test_take_back)
{
    desk_begin(NULL);
    for (int i = 0; i < 12; i++) {
        char id[ID_SIZE] = "";
        struct talk *t = talk_open(&desk_house, "warden.sock");
        talk_send(t, json_pack("{s:s, s:o}", "op", "create", "record", house_record(id, NULL)));
        usleep(500 * (unsigned)i); /* begun or not, but not answered */
        talk_close(t);
    }
    usleep(500000);
    int64_t deadline = clock_boottime_ms() + 10000;
    while (count_records() > 0 && clock_boottime_ms() < deadline)
        usleep(20000);
    ck_assert_uint_eq(count_records(), 0);
    char id[ID_SIZE] = "";
    struct talk *t = talk_open(&desk_house, "warden.sock");
    talk_send(t, json_pack("{s:s, s:o, s:{s:s, s:s, s:s}}", "op", "create", "record", house_record(id, NULL),
                           "idempotency", "principal", "owner", "key", "k", "digest", "d"));
    usleep(20000); /* it is begun */
    talk_close(t);
    ck_assert(house_wait_state(&desk_house, id, "running", 5000));
    usleep(200000);
    ck_assert(house_wait_state(&desk_house, id, "running", 0));
    desk_end();
}
END_TEST

/* A keeper that died is no hindrance: its sandbox is ended first. */
START_TEST(test_remove_dead)
{
    char id[ID_SIZE], lost_id[ID_SIZE];
    desk_begin(NULL);
    desk_create(id);
    kept_begin_exec(id, lost_id);
    kept_kill_keeper(id);
    json_auto_t *removed = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(removed), 0);
    ck_assert(house_wait_state(&desk_house, id, "gone", 0));
    ck_assert(wait_for_empty_trash());
    desk_end();
}
END_TEST

/* ---- sweeping ---- */

static void sweep(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test", "warden", "--chore", "sweep", "--state", desk_house.dir, NULL);
        _exit(127);
    }
    ck_assert_int_eq(house_wait(pid, 20000), 0);
}

static void age(const char *id, const char *member, int64_t seconds)
{
    json_auto_t *changes = json_object();
    json_object_set_new(changes, member, json_integer(clock_wall_us() - seconds * 1000000));
    ck_assert_int_eq(state_patch_workspace(desk_house.state, id, changes, NULL, NULL), 0);
}

START_TEST(test_sweep)
{
    static const char *const settings[] = { "WORKSPACE_KEEP=86400", "WORKSPACE_EVENT_LOG_TTL=3600", NULL };
    char unused[ID_SIZE], old[ID_SIZE], fresh[ID_SIZE], running[ID_SIZE];
    struct told told = { 0 };
    desk_begin(settings);
    desk_create(unused);
    desk_create(old);
    desk_create(fresh);
    desk_create(running);
    kept_run(old, "echo x", &told);
    kept_stop(unused);
    kept_stop(old);
    kept_stop(fresh);
    usleep(200000);
    age(unused, "used_us", 100000);
    age(unused, "created_us", 100000);
    age(running, "used_us", 100000);
    age(running, "created_us", 100000);
    age(old, "stopped_us", 4000);
    _cleanup_free_ char *stale =
        config_path(desk_house.config, "run", "ws-00000000000000000000000000000000.sock");
    ck_assert_int_eq(io_replace_file(AT_FDCWD, stale, "", 0, 0600, NULL), 0);
    sweep();
    ck_assert(house_wait_state(&desk_house, unused, "gone", 0));
    ck_assert(house_wait_state(&desk_house, old, "stopped", 0));
    ck_assert(house_wait_state(&desk_house, fresh, "stopped", 0));
    ck_assert(house_wait_state(&desk_house, running, "running", 0));
    _cleanup_free_ char *old_logs = config_path(desk_house.config, "events", old),
                        *fresh_logs = config_path(desk_house.config, "events", fresh);
    ck_assert_int_ne(access(old_logs, F_OK), 0);
    ck_assert_int_eq(access(fresh_logs, F_OK), 0);
    ck_assert_int_ne(access(stale, F_OK), 0);
    desk_start(old); /* with new logs */
    kept_run(old, "echo y", &told);
    ck_assert_str_eq(buffer_text(&told.out), "y\n");
    told_clear(&told);
    unsetenv("WORKSPACE_KEEP");
    unsetenv("WORKSPACE_EVENT_LOG_TTL");
    desk_end();
}
END_TEST

/* As if the wall clock had stood that much earlier when it was looked at last. */
static void jump_clock(int64_t jump_s, int64_t ago_s)
{
    struct steady clock = { 0 };
    steady_look(&clock);
    clock.last.wall_us -= jump_s * 1000000;
    if (ago_s > 0) { /* it is known, and has stayed since */
        clock.last.wall_us += jump_s * 1000000;
        clock.held_us = jump_s * 1000000;
        clock.jumped_us = clock.last.boot_us - ago_s * 1000000;
    }
    json_auto_t *json = steady_to_json(&clock);
    ck_assert_int_eq(state_put_clock(desk_house.state, json, NULL), 0);
}

START_TEST(test_clock_jumps)
{
    static const char *const settings[] = { "WORKSPACE_KEEP=86400", "WORKSPACE_EVENT_LOG_TTL=3600", NULL };
    char id[ID_SIZE];
    struct told told = { 0 };
    desk_begin(settings);
    desk_create(id);
    kept_run(id, "echo x", &told);
    kept_stop(id);
    usleep(200000);
    age(id, "used_us", 31 * 86400);
    age(id, "created_us", 31 * 86400);
    age(id, "stopped_us", 31 * 86400);
    _cleanup_free_ char *logs = config_path(desk_house.config, "events", id);
    jump_clock(31 * 86400, 0);
    sweep();
    sweep(); /* it was remembered */
    ck_assert(house_wait_state(&desk_house, id, "stopped", 0));
    ck_assert_int_eq(access(logs, F_OK), 0);
    jump_clock(31 * 86400, 3601);
    sweep();
    ck_assert(house_wait_state(&desk_house, id, "gone", 0));
    told_clear(&told);
    unsetenv("WORKSPACE_KEEP");
    unsetenv("WORKSPACE_EVENT_LOG_TTL");
    desk_end();
}
END_TEST

/* Locks of workspaces that are gone, or never came to be. */
START_TEST(test_no_locks_are_left)
{
    char id[ID_SIZE];
    desk_begin(NULL);
    desk_create(id);
    kept_stop(id);
    json_auto_t *removed = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(removed), 0);
    json_auto_t *again = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(again), ERROR_NOT_FOUND);
    json_auto_t *nobody = talk_ask(desk, desk_start_message(id));
    ck_assert_int_eq(talk_error(nobody), ERROR_NOT_FOUND);
    _cleanup_free_ char *leaf = xasprintf("%s.lock", id);
    _cleanup_free_ char *lock = config_path(desk_house.config, "run", leaf);
    usleep(300000);
    ck_assert_int_ne(access(lock, F_OK), 0);
    desk_end();
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = { test_remove,          test_remove_while_it_starts,
                                   test_remove_by_force, test_take_back,
                                   test_remove_dead,     test_sweep,
                                   test_clock_jumps,     test_no_locks_are_left };
    return house_run_tests(argc, argv, "warden_removes", tests, N_ELEMENTS(tests));
}
