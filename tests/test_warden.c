/* The warden as a real process, with real keepers and sandboxes: starting, joining, back-off, mending,
 * adopting, removing, sweeping. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/base/steady.h"
#include "lib/keeper/lost.h"
#include "lib/warden/warden.h"
#include "tests/support/house.h"
#include "tests/support/unit.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct house house;
static pid_t warden;
static struct talk *desk; /* the connection to the warden */

static void begin(const char *const *settings)
{
    house_open(&house, NULL, settings);
    warden = house_start_warden(&house);
    desk = talk_open(&house, "warden.sock");
    ck_assert_ptr_nonnull(desk);
}

static void end(void)
{
    talk_close(desk);
    house_close(&house);
}

static json_t *start_message(const char *id)
{
    return json_pack("{s:s, s:s}", "op", "start", "workspace_id", id);
}

static json_t *record_of(json_t *answer)
{
    json_t *record = json_object_get(json_object_get(answer, "ret"), "record");
    _cleanup_free_ char *text = json_dumps(answer, 0);
    ck_assert_msg(record != NULL, "%s", text);
    return record;
}

static void create(char id[static ID_SIZE])
{
    id[0] = '\0';
    json_t *record = house_record(id, NULL);
    json_auto_t *answer = talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", record));
    ck_assert_str_eq(json_string_value(json_object_get(record_of(answer), "state")), "running");
}

static void start(const char *id)
{
    json_auto_t *answer = talk_ask(desk, start_message(id));
    record_of(answer);
}

static struct talk *connect_to(const char *id)
{
    _cleanup_free_ char *leaf = xasprintf("%s.sock", id);
    struct talk *t = talk_open(&house, leaf);
    ck_assert_ptr_nonnull(t);
    return t;
}

static char exec_id[ID_SIZE]; /* of the last run */

static void run(const char *id, const char *command, struct told *told)
{
    struct talk *t = connect_to(id);
    talk_start(t, command, NULL, exec_id);
    ck_assert(told_wait(&house, id, exec_id, told, 20000));
    talk_close(t);
}

static void stop(const char *id)
{
    struct talk *t = connect_to(id);
    json_auto_t *answer = talk_call(t, "stop", NULL);
    ck_assert_int_eq(talk_error(answer), 0);
    talk_close(t);
}

static int keeper_of_record(const char *id)
{
    struct process_identity identity;
    json_auto_t *record = house_stored(&house, id);
    ck_assert_int_eq(process_identity_from_json(json_object_get(record, "keeper"), &identity), 0);
    int pidfd = process_open(&identity);
    ck_assert_int_ge(pidfd, 0);
    return pidfd;
}

static void kill_keeper(const char *id)
{
    int pidfd = keeper_of_record(id);
    process_pidfd_signal(pidfd, SIGKILL);
    ck_assert_int_eq(process_pidfd_wait(pidfd, 5000), 1);
    close(pidfd);
}

/* ---- starting ---- */

START_TEST(test_create)
{
    char id[ID_SIZE];
    struct told told = { 0 };
    begin(NULL);
    create(id);
    run(id, "echo hello", &told);
    ck_assert_str_eq(buffer_text(&told.out), "hello\n");
    start(id); /* it runs: told at once */
    json_auto_t *taken =
        talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(id, NULL)));
    const json_t *again =
        json_object_get(json_object_get(taken, "ret"), "record"); /* who asks again is told again */
    ck_assert_str_eq(json_string_value(json_object_get(again, "state")), "running");
    stop(id);
    usleep(200000); /* also where it stands still: nothing of it is touched */
    json_auto_t *taken_too =
        talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(id, NULL)));
    ck_assert_int_ne(talk_error(taken_too), 0);
    ck_assert(house_wait_state(&house, id, "stopped", 0));
    told_read(&house, id, exec_id, &told);
    ck_assert_str_eq(buffer_text(&told.out), "hello\n");
    start(id);
    json_auto_t *nobody = talk_ask(desk, start_message("ws-00000000000000000000000000000000"));
    ck_assert_int_eq(talk_error(nobody), ERROR_NOT_FOUND);
    json_auto_t *path = talk_ask(desk, start_message("ws-../../../../../etc/passwd"));
    ck_assert_int_eq(talk_error(path), ERROR_INVALID);
    json_auto_t *nothing = talk_ask(desk, json_pack("{s:s}", "op", "dance"));
    ck_assert_int_eq(talk_error(nothing), ERROR_INVALID);
    json_auto_t *array = talk_ask(desk, json_pack("[]"));
    ck_assert_int_eq(talk_error(array), ERROR_INVALID);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_same_key)
{
    char first[ID_SIZE] = "", second[ID_SIZE] = "";
    begin(NULL);
    json_auto_t *key = json_pack("{s:s, s:s, s:s}", "principal", "owner", "key", "k", "digest", "d");
    json_auto_t *one = talk_ask(desk, json_pack("{s:s, s:o, s:O}", "op", "create", "record",
                                                house_record(first, NULL), "idempotency", key));
    record_of(one);
    json_auto_t *two = talk_ask(desk, json_pack("{s:s, s:o, s:O}", "op", "create", "record",
                                                house_record(second, NULL), "idempotency", key));
    json_t *existing = json_object_get(json_object_get(two, "ret"), "existing");
    ck_assert_str_eq(json_string_value(json_object_get(existing, "workspace_id")), first);
    ck_assert_str_eq(json_string_value(json_object_get(existing, "digest")), "d");
    end();
}
END_TEST

START_TEST(test_too_many)
{
    static const char *const settings[] = { "WORKSPACE_MAX_WORKSPACES=1", NULL };
    char id[ID_SIZE], other[ID_SIZE] = "";
    begin(settings);
    create(id);
    json_auto_t *answer =
        talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(other, NULL)));
    ck_assert_int_eq(talk_error(answer), ERROR_TOO_MANY);
    _cleanup_free_ char *logs = config_path(house.config, "events", other);
    ck_assert_int_ne(access(logs, F_OK), 0);
    unsetenv("WORKSPACE_MAX_WORKSPACES");
    end();
}
END_TEST

START_TEST(test_join)
{
    enum { MANY = 20 };
    char id[ID_SIZE];
    uint32_t numbers[MANY];
    begin(NULL);
    create(id);
    stop(id); /* its keeper may still be about to end */
    json_auto_t *first = NULL;
    for (int i = 0; i < MANY; i++)
        numbers[i] = talk_send(desk, start_message(id));
    for (int i = 0; i < MANY; i++) {
        json_auto_t *answer = talk_wait(desk, numbers[i]);
        json_t *sandbox = json_object_get(record_of(answer), "sandbox_id");
        if (first == NULL)
            first = json_incref(sandbox);
        ck_assert(json_equal(first, sandbox));
    }
    end();
}
END_TEST

START_TEST(test_many_at_once)
{
    enum { MANY = 12 };
    char ids[MANY][ID_SIZE];
    uint32_t numbers[MANY];
    struct told told = { 0 };
    begin(NULL);
    for (int i = 0; i < MANY; i++) {
        ids[i][0] = '\0';
        numbers[i] =
            talk_send(desk, json_pack("{s:s, s:o}", "op", "create", "record", house_record(ids[i], NULL)));
    }
    for (int i = 0; i < MANY; i++) {
        json_auto_t *answer = talk_wait(desk, numbers[i]);
        record_of(answer);
    }
    for (int i = 0; i < MANY; i++)
        run(ids[i], "true", &told);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_back_off)
{
    char id[ID_SIZE];
    begin(NULL);
    create(id);
    stop(id);
    /* another warden, with an agent that is not there */
    kill(warden, SIGTERM);
    ck_assert_int_eq(house_wait(warden, 3000), 0);
    talk_close(desk);
    _cleanup_free_ char *agent = xstrdup(getenv("WORKSPACE_AGENT"));
    setenv("WORKSPACE_AGENT", "/nonexistent/agent", 1);
    warden = house_start_warden(&house);
    setenv("WORKSPACE_AGENT", agent, 1);
    desk = talk_open(&house, "warden.sock");
    json_auto_t *first = talk_ask(desk, start_message(id));
    ck_assert_int_ne(talk_error(first), 0);
    int64_t begun = clock_boottime_ms();
    json_auto_t *second = talk_ask(desk, start_message(id));
    ck_assert_int_lt(clock_boottime_ms() - begun, 500);
    ck_assert_int_eq(talk_error(second), ERROR_DRIVER);
    json_t *error = json_object_get(second, "error");
    ck_assert_int_eq(json_integer_value(json_object_get(error, "retry_after")), 1);
    ck_assert_ptr_nonnull(
        strstr(json_string_value(json_object_get(error, "message")), "could not be started: "));
    ck_assert(house_wait_state(&house, id, "failed", 1000));
    usleep(1100000);
    json_auto_t *third = talk_ask(desk, start_message(id));
    ck_assert_int_ne(talk_error(third), 0);
    json_auto_t *fourth = talk_ask(desk, start_message(id));
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(fourth, "error"), "retry_after")), 2);
    end();
}
END_TEST

/* ---- mending ---- */

static void assert_lost(const char *id, const char *lost_id, struct told *told)
{
    told_read(&house, id, lost_id, told);
    ck_assert_int_eq(told->head.state, EXEC_FAILED);
    ck_assert_str_eq(told->head.reason, "lost: " LOST_KEEPER);
    ck_assert_str_eq(buffer_text(&told->out), "up\n");
    ck_assert_uint_eq(told->exits, 1);
    ck_assert(!told->gap);
}

static void begin_exec(const char *id, char lost_id[static ID_SIZE])
{
    struct talk *t = connect_to(id);
    struct told told = { 0 };
    talk_start(t, "echo kept >file; echo up; sleep 100", NULL, lost_id);
    int64_t deadline = clock_boottime_ms() + 5000;
    while (told_read(&house, id, lost_id, &told), told.out.length == 0 && clock_boottime_ms() < deadline)
        usleep(2000);
    told_clear(&told);
    talk_close(t);
}

START_TEST(test_mend)
{
    char id[ID_SIZE], lost_id[ID_SIZE];
    struct told told = { 0 };
    begin(NULL);
    create(id);
    begin_exec(id, lost_id);
    kill_keeper(id);
    int64_t begun = clock_boottime_ms();
    ck_assert(told_wait(&house, id, lost_id, &told, 5000));
    int64_t took = clock_boottime_ms() - begun;
    fprintf(stderr, "last events of a killed keeper after %d ms\n", (int)took);
    ck_assert_int_lt(took, 2000);
    assert_lost(id, lost_id, &told);
    ck_assert(house_wait_state(&house, id, "stopped", 1000));
    json_auto_t *record = house_stored(&house, id);
    ck_assert_str_eq(json_string_value(json_object_get(record, "reason")), "lost: " LOST_KEEPER);
    ck_assert(json_is_null(json_object_get(record, "handle")));
    start(id);
    run(id, "cat file", &told);
    ck_assert_str_eq(buffer_text(&told.out), "kept\n");
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_start_after_death)
{
    char id[ID_SIZE], lost_id[ID_SIZE];
    struct told told = { 0 };
    begin(NULL);
    create(id);
    begin_exec(id, lost_id);
    kill_keeper(id);
    start(id); /* does not wait for the mend, does its work */
    assert_lost(id, lost_id, &told);
    run(id, "cat file", &told);
    ck_assert_str_eq(buffer_text(&told.out), "kept\n");
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_adopt)
{
    char id[ID_SIZE], other[ID_SIZE], lost_id[ID_SIZE], other_exec[ID_SIZE];
    struct told told = { 0 };
    begin(NULL);
    create(id);
    create(other);
    begin_exec(id, lost_id);
    begin_exec(other, other_exec);
    kill(warden, SIGKILL);
    ck_assert_int_eq(house_wait(warden, 3000), 128 + SIGKILL);
    talk_close(desk);
    run(id, "echo alive", &told);
    ck_assert_str_eq(buffer_text(&told.out), "alive\n");
    kill_keeper(other); /* nobody sees that */
    usleep(200000);
    ck_assert_uint_eq(house_head(&house, other, other_exec).exit_seq, 0);
    warden = house_start_warden(&house);
    desk = talk_open(&house, "warden.sock");
    ck_assert(told_wait(&house, other, other_exec, &told, 3000));
    assert_lost(other, other_exec, &told);
    start(id); /* known as running */
    run(id, "echo alive", &told);
    ck_assert_str_eq(buffer_text(&told.out), "alive\n");
    kill_keeper(id);
    ck_assert(told_wait(&house, id, lost_id, &told, 3000));
    assert_lost(id, lost_id, &told);
    told_clear(&told);
    end();
}
END_TEST

/* The warden dies at any point of a creation; who asked asks its successor for the same. */
START_TEST(test_create_again)
{
    begin(NULL);
    for (int ms = 0; ms < 40; ms += 3) {
        char id[ID_SIZE] = "";
        json_auto_t *record = house_record(id, NULL);
        talk_send(desk, json_pack("{s:s, s:O}", "op", "create", "record", record));
        usleep((useconds_t)ms * 1000);
        kill(warden, SIGKILL);
        ck_assert_int_eq(house_wait(warden, 3000), 128 + SIGKILL);
        talk_close(desk);
        warden = house_start_warden(&house);
        desk = talk_open(&house, "warden.sock");
        json_auto_t *answer = talk_ask(desk, json_pack("{s:s, s:O}", "op", "create", "record", record));
        ck_assert_str_eq(json_string_value(json_object_get(record_of(answer), "state")), "running");
        stop(id);
    }
    end();
}
END_TEST

START_TEST(test_ends_alone)
{
    char id[ID_SIZE];
    struct told told = { 0 };
    begin(NULL);
    create(id);
    pid_t second = fork();
    if (second == 0) {
        execl("/proc/self/exe", "test", "warden", "--state", house.dir, NULL);
        _exit(127);
    }
    ck_assert_int_eq(house_wait(second, 3000), 0); /* another one holds the lock */
    kill(warden, SIGTERM);
    ck_assert_int_eq(house_wait(warden, 3000), 0);
    run(id, "echo alive", &told);
    ck_assert_str_eq(buffer_text(&told.out), "alive\n");
    ck_assert_int_eq(warden_ensure(house.config, "/proc/self/exe", 0, NULL), 1);
    int64_t deadline = clock_boottime_ms() + 3000;
    struct talk *t;
    while ((t = talk_open(&house, "warden.sock")) == NULL && clock_boottime_ms() < deadline)
        usleep(5000);
    ck_assert_ptr_nonnull(t);
    talk_close(t);
    told_clear(&told);
    end();
}
END_TEST

/* ---- removing ---- */

static size_t entries_of(const char *name)
{
    _cleanup_free_ char *path = config_path(house.config, name, NULL);
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
    begin(NULL);
    create(id);
    run(id, "mkdir -p a/b/c && echo x >a/b/c/f && chmod 000 a/b/c a/b a && ln -s / link", &told);
    json_auto_t *running = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(running), ERROR_CONFLICT);
    stop(id);
    json_auto_t *removed = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(removed), 0);
    ck_assert(house_wait_state(&house, id, "gone", 0));
    ck_assert_uint_eq(entries_of("workspaces"), 0);
    ck_assert_uint_eq(entries_of("events"), 0);
    ck_assert(wait_for_empty_trash());
    json_auto_t *again = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(again), ERROR_NOT_FOUND);
    told_clear(&told);
    end();
}
END_TEST

/* A keeper that died is no hindrance: its sandbox is ended first. */
/* A keeper that does not answer is ended for it; one that does not answer and is not even known is found. */
START_TEST(test_remove_by_force)
{
    for (int kind = 0; kind < 2; kind++) {
        char id[ID_SIZE];
        begin(NULL);
        create(id);
        int keeper = keeper_of_record(id);
        process_pidfd_signal(keeper, SIGSTOP);
        if (kind == 1) {
            talk_close(desk);
            kill(warden, SIGKILL);
            house_wait(warden, 5000);
            warden = house_start_warden(&house);
            desk = talk_open(&house, "warden.sock");
        }
        json_auto_t *politely = talk_ask(desk, remove_message(id));
        ck_assert_int_eq(talk_error(politely), ERROR_CONFLICT);
        json_t *message = remove_message(id);
        json_object_set_new(message, "force", json_true());
        json_auto_t *removed = talk_ask(desk, message);
        ck_assert_int_eq(talk_error(removed), 0);
        ck_assert_int_eq(process_pidfd_wait(keeper, 1000), 1);
        ck_assert(house_wait_state(&house, id, "gone", 0));
        close(keeper);
        end();
    }
}
END_TEST

static size_t count_records(void)
{
    json_auto_t *all = NULL;
    ck_assert_int_eq(state_list_workspaces(house.state, NULL, NULL, 100, &all, NULL), 0);
    return json_array_size(all);
}

/* Who asked for a workspace and went away before the answer leaves none behind, but where it can come back.
 */
START_TEST(test_take_back)
{
    begin(NULL);
    for (int i = 0; i < 12; i++) {
        char id[ID_SIZE] = "";
        struct talk *t = talk_open(&house, "warden.sock");
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
    struct talk *t = talk_open(&house, "warden.sock");
    talk_send(t, json_pack("{s:s, s:o, s:{s:s, s:s, s:s}}", "op", "create", "record", house_record(id, NULL),
                           "idempotency", "principal", "owner", "key", "k", "digest", "d"));
    usleep(20000); /* it is begun */
    talk_close(t);
    ck_assert(house_wait_state(&house, id, "running", 5000));
    usleep(200000);
    ck_assert(house_wait_state(&house, id, "running", 0));
    end();
}
END_TEST

START_TEST(test_remove_dead)
{
    char id[ID_SIZE], lost_id[ID_SIZE];
    begin(NULL);
    create(id);
    begin_exec(id, lost_id);
    kill_keeper(id);
    json_auto_t *removed = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(removed), 0);
    ck_assert(house_wait_state(&house, id, "gone", 0));
    ck_assert(wait_for_empty_trash());
    end();
}
END_TEST

/* ---- sweeping ---- */

static void sweep(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test", "warden", "--chore", "sweep", "--state", house.dir, NULL);
        _exit(127);
    }
    ck_assert_int_eq(house_wait(pid, 20000), 0);
}

static void age(const char *id, const char *member, int64_t seconds)
{
    json_auto_t *changes = json_object();
    json_object_set_new(changes, member, json_integer(clock_wall_us() - seconds * 1000000));
    ck_assert_int_eq(state_patch_workspace(house.state, id, changes, NULL, NULL), 0);
}

START_TEST(test_sweep)
{
    static const char *const settings[] = { "WORKSPACE_KEEP=86400", "WORKSPACE_EVENT_LOG_TTL=3600", NULL };
    char unused[ID_SIZE], old[ID_SIZE], fresh[ID_SIZE], running[ID_SIZE];
    struct told told = { 0 };
    begin(settings);
    create(unused);
    create(old);
    create(fresh);
    create(running);
    run(old, "echo x", &told);
    stop(unused);
    stop(old);
    stop(fresh);
    usleep(200000);
    age(unused, "used_us", 100000);
    age(unused, "created_us", 100000);
    age(running, "used_us", 100000);
    age(running, "created_us", 100000);
    age(old, "stopped_us", 4000);
    _cleanup_free_ char *stale = config_path(house.config, "run", "ws-00000000000000000000000000000000.sock");
    ck_assert_int_eq(io_replace_file(AT_FDCWD, stale, "", 0, 0600, NULL), 0);
    sweep();
    ck_assert(house_wait_state(&house, unused, "gone", 0));
    ck_assert(house_wait_state(&house, old, "stopped", 0));
    ck_assert(house_wait_state(&house, fresh, "stopped", 0));
    ck_assert(house_wait_state(&house, running, "running", 0));
    _cleanup_free_ char *old_logs = config_path(house.config, "events", old),
                        *fresh_logs = config_path(house.config, "events", fresh);
    ck_assert_int_ne(access(old_logs, F_OK), 0);
    ck_assert_int_eq(access(fresh_logs, F_OK), 0);
    ck_assert_int_ne(access(stale, F_OK), 0);
    start(old); /* with new logs */
    run(old, "echo y", &told);
    ck_assert_str_eq(buffer_text(&told.out), "y\n");
    told_clear(&told);
    unsetenv("WORKSPACE_KEEP");
    unsetenv("WORKSPACE_EVENT_LOG_TTL");
    end();
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
    ck_assert_int_eq(state_put_clock(house.state, json, NULL), 0);
}

START_TEST(test_clock_jumps)
{
    static const char *const settings[] = { "WORKSPACE_KEEP=86400", "WORKSPACE_EVENT_LOG_TTL=3600", NULL };
    char id[ID_SIZE];
    struct told told = { 0 };
    begin(settings);
    create(id);
    run(id, "echo x", &told);
    stop(id);
    usleep(200000);
    age(id, "used_us", 31 * 86400);
    age(id, "created_us", 31 * 86400);
    age(id, "stopped_us", 31 * 86400);
    _cleanup_free_ char *logs = config_path(house.config, "events", id);
    jump_clock(31 * 86400, 0);
    sweep();
    sweep(); /* it was remembered */
    ck_assert(house_wait_state(&house, id, "stopped", 0));
    ck_assert_int_eq(access(logs, F_OK), 0);
    jump_clock(31 * 86400, 3601);
    sweep();
    ck_assert(house_wait_state(&house, id, "gone", 0));
    told_clear(&told);
    unsetenv("WORKSPACE_KEEP");
    unsetenv("WORKSPACE_EVENT_LOG_TTL");
    end();
}
END_TEST

/* Locks of workspaces that are gone, or never came to be. */
START_TEST(test_no_locks_are_left)
{
    char id[ID_SIZE];
    begin(NULL);
    create(id);
    stop(id);
    json_auto_t *removed = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(removed), 0);
    json_auto_t *again = talk_ask(desk, remove_message(id));
    ck_assert_int_eq(talk_error(again), ERROR_NOT_FOUND);
    json_auto_t *nobody = talk_ask(desk, start_message(id));
    ck_assert_int_eq(talk_error(nobody), ERROR_NOT_FOUND);
    _cleanup_free_ char *leaf = xasprintf("%s.lock", id);
    _cleanup_free_ char *lock = config_path(house.config, "run", leaf);
    usleep(300000);
    ck_assert_int_ne(access(lock, F_OK), 0);
    end();
}
END_TEST

int main(int argc, char **argv)
{
    int status = house_main(argc, argv);
    if (status >= 0)
        return status;
    setenv("HOUSE_QUIET", "1", 0);
    const TTest *const tests[] = { test_create,       test_same_key,          test_too_many,
                                   test_join,         test_many_at_once,      test_back_off,
                                   test_mend,         test_start_after_death, test_adopt,
                                   test_create_again, test_ends_alone,        test_remove,
                                   test_remove_dead,  test_remove_by_force,   test_take_back,
                                   test_sweep,        test_clock_jumps,       test_no_locks_are_left };
    return unit_run_tests("warden", tests, N_ELEMENTS(tests), NULL, NULL, 60);
}
