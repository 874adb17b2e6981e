/* The keeper as a real process with a real sandbox: how it starts, what an exec tells, input, subscriptions,
 * a full store. How all of that ends is another suite's. */
#include "lib/base/clock.h"
#include "tests/support/keeper_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* ---- start and end ---- */

START_TEST(test_ready)
{
    live_begin(NULL, NULL);
    json_t *record = json_object_get(live.keeper.answer, "ret");
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "running");
    ck_assert_int_gt(json_integer_value(json_object_get(record, "expires_us")), clock_wall_us());
    ck_assert(id_is_valid(ID_SANDBOX, json_string_value(json_object_get(record, "sandbox_id"))));
    json_auto_t *stored = house_stored(&live.house, live.ws);
    ck_assert(json_equal(stored, record));
    struct told told = { 0 };
    live_run("printf x; printf y >&2", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "x");
    ck_assert_str_eq(buffer_text(&told.err), "y");
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"returncode\":0,\"signal\":null,\"timed_out\":false"));
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"state\":\"finished\""));
    ck_assert_uint_eq(told.events, 5);
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_ends)
{
    static const struct {
        const char *command;
        int returncode, signal;
    } cases[] = {
        { "exit 7", 7, 0 }, { "kill -9 $$", -9, 9 },     { "kill -TERM $$", -15, 15 },
        { "true", 0, 0 },   { "nosuchcommand", 127, 0 },
    };
    live_begin(NULL, NULL);
    struct told told = { 0 };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        live_run(cases[i].command, NULL, &told);
        ck_assert_int_eq(told.head.returncode, cases[i].returncode);
        ck_assert_int_eq(told.head.signal, cases[i].signal);
        ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    }
    live_run("true", json_pack("{s:s}", "workdir", "/workspace/none"), &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert(!told.head.has_returncode);
    ck_assert_ptr_nonnull(strstr(told.errors.data, "ENOENT"));
    ck_assert_ptr_nonnull(strstr(told.head.reason, "ENOENT"));
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"returncode\":null"));
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_environment)
{
    json_t *spec = json_pack("{s:{s:s, s:s, s:s}}", "env", "ONE", "1", "TWO", "2", "THREE", "3");
    live_begin(spec, NULL);
    struct told told = { 0 };
    live_run("echo $ONE-$TWO-${THREE-unset}-$FOUR",
             json_pack("{s:{s:s, s:n, s:s}}", "env", "TWO", "zwei", "THREE", "FOUR", "4"), &told);
    ck_assert_str_eq(buffer_text(&told.out), "1-zwei-unset-4\n");
    told_clear(&told);
    live_end();
}
END_TEST

/* Two parts of an environment that each pass and together do not. */
START_TEST(test_large_environment)
{
    enum { OWN = 900000, MORE = 3900000 };
    _cleanup_free_ char *text = xcalloc(1, MORE + 1);
    memset(text, 'x', OWN);
    live_begin(json_pack("{s:{s:s}}", "env", "ONE", text), NULL);
    memset(text, 'x', MORE);
    struct told told = { 0 };
    live_run("true", json_pack("{s:{s:s}}", "env", "TWO", text), &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_ptr_nonnull(strstr(told.head.reason, "E2BIG"));
    memset(text, 0, MORE);
    memset(text, 'y', OWN); /* more than the kernel takes in one string */
    live_run("true", json_pack("{s:{s:s}}", "env", "TWO", text), &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_ptr_nonnull(strstr(told.head.reason, "E2BIG"));
    live_run("echo ${#THREE}", json_pack("{s:{s:n, s:s}}", "env", "ONE", "THREE", "3"), &told);
    ck_assert_str_eq(buffer_text(&told.out), "1\n");
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_same_key)
{
    live_begin(NULL, NULL);
    json_auto_t *in = json_pack("{s:s}", "command", "echo once >>/workspace/runs");
    json_auto_t *first = talk_call_keyed(live.talk, "start", json_deep_copy(in), "k1", "d1");
    json_auto_t *second = talk_call_keyed(live.talk, "start", json_deep_copy(in), "k1", "d1");
    json_auto_t *other = talk_call_keyed(live.talk, "start", json_deep_copy(in), "k1", "d2");
    ck_assert(json_equal(first, second));
    ck_assert_int_eq(talk_error(other), ERROR_CONFLICT);
    struct told told = { 0 };
    usleep(100000);
    live_run("cat runs", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "once\n");
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_create_again)
{
    live_begin(NULL, NULL);
    char id[ID_SIZE] = "", other[ID_SIZE] = "";
    json_t *spec = json_pack("{s:o, s:{s:s, s:s, s:s}}", "record", house_record(id, NULL), "idempotency",
                             "principal", "owner", "key", "k", "digest", "d");
    struct line first = house_keep(&live.house, id, spec);
    ck_assert_ptr_nonnull(json_object_get(first.answer, "ret"));
    json_decref(first.answer);
    spec = json_pack("{s:o, s:{s:s, s:s, s:s}}", "record", house_record(other, NULL), "idempotency",
                     "principal", "owner", "key", "k", "digest", "d");
    struct line second = house_keep(&live.house, other, spec);
    json_t *existing = json_object_get(second.answer, "existing");
    ck_assert_str_eq(json_string_value(json_object_get(existing, "workspace_id")), id);
    ck_assert_int_eq(house_wait(second.pid, 5000), 0);
    json_auto_t *stored = house_stored(&live.house, other);
    ck_assert_ptr_null(stored);
    _cleanup_free_ char *path = config_path(live.house.config, "workspaces", other);
    ck_assert_int_ne(access(path, F_OK), 0);
    json_decref(second.answer);
    live_end();
}
END_TEST

START_TEST(test_failed_start_leaves_nothing)
{
    house_open(&live.house, NULL, NULL);
    setenv("WORKSPACE_AGENT", "/nonexistent/agent", 1);
    live.ws[0] = '\0';
    json_t *record = house_record(live.ws, NULL);
    struct line line = house_keep(&live.house, live.ws, record);
    ck_assert_int_ne(talk_error(line.answer), 0);
    ck_assert_int_eq(house_wait(line.pid, 5000), 1);
    json_auto_t *stored = house_stored(&live.house, live.ws);
    ck_assert_ptr_null(stored);
    _cleanup_free_ char *files = config_path(live.house.config, "workspaces", live.ws),
                        *events = config_path(live.house.config, "events", live.ws);
    ck_assert_int_ne(access(files, F_OK), 0);
    ck_assert_int_ne(access(events, F_OK), 0);
    json_decref(line.answer);
    unsetenv("WORKSPACE_AGENT");
    house_close(&live.house);
}
END_TEST

/* ---- output ---- */

START_TEST(test_many_lines)
{
    enum { LINES = 200000 };
    live_begin(NULL, NULL);
    struct told told = { 0 };
    live_run("seq 1 200000", NULL, &told);
    _cleanup_buffer_ struct buffer expected = BUFFER_INIT;
    for (int i = 1; i <= LINES; i++) {
        buffer_append_i64(&expected, i);
        buffer_append_char(&expected, '\n');
    }
    ck_assert_uint_eq(told.out.length, expected.length);
    ck_assert_int_eq(memcmp(told.out.data, expected.data, expected.length), 0);
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_characters)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    live_run(
        "perl -e '$|=1; my $s=\"\\xe2\\x98\\x95\" x 100000; my $i=0; my @n=(1,7,4093,5,16381,2); my $k=0;"
        "while($i<length $s){my $n=$n[$k++%6]; syswrite STDOUT, substr($s,$i,$n); $i+=$n}'",
        NULL, &told);
    ck_assert_uint_eq(told.out.length, 300000);
    ck_assert(!told.replaced);
    /* the beginning of a character before a pause goes out alone */
    char id[ID_SIZE];
    talk_start(live.talk, "printf 'a\\342'; sleep 1; printf '\\230\\225b'", NULL, id);
    usleep(600000);
    told_read(&live.house, live.ws, id, &told);
    ck_assert_uint_eq(told.out.length, 2);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 5000));
    ck_assert_uint_eq(told.out.length, 5);
    ck_assert_int_eq(memcmp(told.out.data,
                            "a\xe2\x98\x95"
                            "b",
                            5),
                     0);
    live_run("printf 'end\\342\\230'", NULL, &told);
    ck_assert_uint_eq(told.out.length, 5);
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_binary)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    live_run("head -c 1000000 /dev/urandom | tee /workspace/copy", NULL, &told);
    _cleanup_free_ char *leaf = xasprintf("%s/files/copy", live.ws);
    _cleanup_free_ char *path = config_path(live.house.config, "workspaces", leaf);
    _cleanup_free_ char *copy = xmalloc(1000000);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(read(fd, copy, 1000000), 1000000);
    close(fd);
    ck_assert_uint_eq(told.out.length, 1000000);
    ck_assert_int_eq(memcmp(told.out.data, copy, 1000000), 0);
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_late)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(live.talk, "(sleep 0.5; echo late) & echo early", NULL, id);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 5000));
    ck_assert_str_eq(buffer_text(&told.out), "early\n");
    ck_assert_uint_eq(told.late.length, 0);
    usleep(1200000);
    told_read(&live.house, live.ws, id, &told);
    ck_assert_str_eq(buffer_text(&told.late), "late\n");
    ck_assert_uint_eq(told.exits, 1);
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    told_clear(&told);
    live_end();
}
END_TEST

/* What a command left behind writes on after its log is gone: to nobody, and in nobody's way. */
START_TEST(test_late_for_ever)
{
    static const char *const settings[] = { "WORKSPACE_EVENT_LOG_TTL=1", NULL };
    live_begin(NULL, settings);
    struct told told = { 0 };
    char id[ID_SIZE], other[ID_SIZE];
    struct exec_head head;
    _cleanup_error_ struct error err = ERROR_INIT;
    talk_start(live.talk, "(while :; do echo late; printf '\\303'; sleep 0.01; done) & echo early", NULL, id);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 5000));
    talk_start(live.talk, "sleep 5; echo still here", NULL, other);
    struct events_cache *cache = events_cache_new(live.house.config->state_dir, 2);
    bool is_there = true;
    for (int i = 0; i < 40 && is_there; i++, usleep(100000))
        is_there = events_get_exec(events_cache_get(cache, live.ws, NULL), id, &head, NULL) == 0;
    ck_assert(!is_there);
    ck_assert(told_wait(&live.house, live.ws, other, &told, 10000));
    ck_assert_str_eq(buffer_text(&told.out), "still here\n");
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(events_verify(events_cache_get(cache, live.ws, NULL), &err), 0);
    events_cache_free(cache);
    told_clear(&told);
    live_end();
}
END_TEST

static off_t log_size(void)
{
    struct stat st;
    _cleanup_free_ char *file = xasprintf("%s/events/%s/data.mdb", live.house.config->state_dir, live.ws);
    ck_assert_int_eq(stat(file, &st), 0);
    return st.st_size;
}

/* What is too old for one step of the pruning goes in the steps right after: the next log has its room. */
START_TEST(test_prune_keeps_up)
{
    static const char *const settings[] = { "WORKSPACE_EVENT_LOG_TTL=1", NULL };
    live_begin(NULL, settings);
    struct told told = { 0 };
    live_run("yes | head -c 60000000", NULL, &told);
    for (int i = 0; i < 2000 && !live_is_pruned(told.head.id); i++)
        usleep(10000);
    ck_assert(live_is_pruned(told.head.id));
    off_t first = log_size();
    ck_assert_int_gt(first, 60000000);
    live_run("yes | head -c 60000000", NULL, &told);
    ck_assert_uint_eq(told.out.length, 60000000);
    off_t second = log_size();
    ck_assert_msg(second < first + first / 10, "the file grew from %lld to %lld", (long long)first,
                  (long long)second);
    told_clear(&told);
    live_end();
}
END_TEST

/* ---- input ---- */

START_TEST(test_input)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(live.talk, "cat; echo done", json_pack("{s:b}", "input", 1), id);
    json_auto_t *one =
        talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "hello\n"));
    ck_assert_int_eq(talk_error(one), 0);
    live_wait_output(id, &told);
    ck_assert_str_eq(buffer_text(&told.out), "hello\n");
    json_auto_t *two =
        talk_call(live.talk, "input", json_pack("{s:s, s:s, s:b}", "exec_id", id, "data", "bye\n", "eof", 1));
    ck_assert_int_eq(talk_error(two), 0);
    ck_assert(house_head(&live.house, live.ws, id).stdin_closed);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 5000));
    ck_assert_str_eq(buffer_text(&told.out), "hello\nbye\ndone\n");
    json_auto_t *three =
        talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "late"));
    ck_assert_int_eq(talk_error(three), ERROR_CONFLICT);
    /* nobody reads: what fits waits, what does not is refused whole */
    talk_start(live.talk, "sleep 2; wc -c", json_pack("{s:b}", "input", 1), id);
    json_auto_t *big = json_object();
    _cleanup_free_ char *bytes = xmalloc(2000000);
    memset(bytes, 'a', 2000000);
    json_object_set_new(big, "exec_id", json_string(id));
    json_object_set_new(big, "data", json_stringn(bytes, 2000000));
    size_t taken = 0, refused = 0;
    for (int i = 0; i < 4; i++) {
        json_auto_t *answer = talk_call(live.talk, "input", json_deep_copy(big));
        ck_assert(talk_error(answer) == 0 || talk_error(answer) == ERROR_TOO_MANY);
        *(talk_error(answer) == 0 ? &taken : &refused) += 2000000;
    }
    ck_assert_uint_gt(refused, 0);
    json_auto_t *eof =
        talk_call(live.talk, "input", json_pack("{s:s, s:s, s:b}", "exec_id", id, "data", "", "eof", 1));
    ck_assert_int_eq(talk_error(eof), 0);
    json_auto_t *after = talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "x"));
    ck_assert_int_eq(talk_error(after), ERROR_CONFLICT);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 10000));
    ck_assert_uint_eq(strtoul(buffer_text(&told.out), NULL, 10), taken);
    /* no input at all */
    talk_start(live.talk, "wc -c; sleep 0.3", NULL, id);
    json_auto_t *none = talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "x"));
    ck_assert_int_eq(talk_error(none), ERROR_CONFLICT);
    json_auto_t *unknown =
        talk_call(live.talk, "input",
                  json_pack("{s:s, s:s}", "exec_id", "ex-00000000000000000000000000000000", "data", "x"));
    ck_assert_int_eq(talk_error(unknown), ERROR_NOT_FOUND);
    told_clear(&told);
    live_end();
}
END_TEST

START_TEST(test_terminal)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(live.talk, "trap 'stty size' WINCH; stty size; read x; echo got $x",
               json_pack("{s:b, s:b}", "pty", 1, "input", 1), id);
    live_wait_output(id, &told);
    ck_assert_str_eq(buffer_text(&told.out), "24 80\r\n");
    ck_assert(house_head(&live.house, live.ws, id).pty);
    json_auto_t *resized =
        talk_call(live.talk, "resize", json_pack("{s:s, s:i, s:i}", "exec_id", id, "rows", 50, "cols", 132));
    ck_assert_int_eq(talk_error(resized), 0);
    json_auto_t *sent =
        talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "yes\n"));
    ck_assert_int_eq(talk_error(sent), 0);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 5000));
    ck_assert_ptr_nonnull(strstr(told.out.data, "50 132"));
    ck_assert_ptr_nonnull(strstr(told.out.data, "got yes"));
    told_clear(&told);
    live_end();
}
END_TEST

/* ---- subscriptions ---- */

START_TEST(test_subscriptions)
{
    enum { MANY = 50 };
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    uint32_t numbers[MANY];
    talk_start(live.talk, "read x; echo one; read x; sleep 0.2; seq 1 50000", json_pack("{s:b}", "input", 1),
               id);
    for (int i = 0; i < MANY; i++)
        numbers[i] = talk_subscribe(live.talk, id);
    for (int i = 0; i < MANY; i++) /* each is answered at once */
        ck_assert(talk_notified(live.talk, numbers[i], 1000));
    usleep(300000);
    for (int i = 0; i < MANY; i++) /* STARTED and waiting_for_input */
        talk_notified(live.talk, numbers[i], 20);
    json_auto_t *sent = talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(sent), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert(talk_notified(live.talk, numbers[i], 1000));
    json_auto_t *again = talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(again), 0);
    /* a worker that reads nothing while much is committed gets few notices, and one after the last commit */
    ck_assert(told_wait(&live.house, live.ws, id, &told, 10000));
    usleep(50000);
    ck_assert(talk_notified(live.talk, numbers[0], 1000));
    told_clear(&told);
    live_end();
}
END_TEST

/* While a worker does not read, one notice lies ready for it whatever is committed, and one more follows. */
START_TEST(test_coalesced)
{
    enum { REQUESTS = 3000 };
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    struct talk *slow = live_connect(live.ws);
    talk_start(live.talk, "read x; for i in $(seq 1 30); do echo $i; sleep 0.02; done",
               json_pack("{s:b}", "input", 1), id);
    uint32_t number = talk_subscribe(slow, id);
    ck_assert(talk_notified(slow, number, 1000));
    usleep(400000);
    while (talk_notified(slow, number, 50))
        continue;
    size_t before = talk_notices(slow, number);
    for (int i = 0; i < REQUESTS; i++) /* their answers fill the socket */
        talk_send(slow, json_pack("{s:s, s:{}, s:s, s:s}", "operation", "record", "in", "principal", "p",
                                  "request_id", "r"));
    usleep(200000);
    json_auto_t *go = talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(go), 0);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 10000));
    ck_assert(talk_notified(slow, number, 5000));
    while (talk_notified(slow, number, 500))
        continue;
    size_t notices = talk_notices(slow, number) - before;
    ck_assert_msg(notices >= 2 && notices <= 4, "%zu notices", notices);
    talk_close(slow);
    told_clear(&told);
    live_end();
}
END_TEST

/* A worker that never reads is dropped or held, the others go on. */
START_TEST(test_deaf_worker)
{
    live_begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    struct talk *deaf = live_connect(live.ws);
    talk_start(live.talk, "sleep 0.2; seq 1 100000", NULL, id);
    for (int i = 0; i < 100; i++)
        talk_subscribe(deaf, id);
    for (int i = 0; i < 20000; i++)
        talk_send(deaf, json_pack("{s:s, s:{}, s:s, s:s}", "operation", "record", "in", "principal", "p",
                                  "request_id", "r"));
    ck_assert(told_wait(&live.house, live.ws, id, &told, 10000));
    ck_assert_uint_gt(told.out.length, 500000);
    talk_close(deaf);
    live_run("echo fine", NULL, &told);
    told_clear(&told);
    live_end();
}
END_TEST

static json_t *nested(int depth)
{
    json_t *value = json_array();
    while (--depth > 0)
        value = json_pack("[o]", value);
    return value;
}

/* A peer is trusted not to want harm, not to make no mistakes. */
START_TEST(test_malformed_requests)
{
    live_begin(NULL, NULL);
    json_auto_t *none = talk_ask(live.talk, json_object());
    ck_assert_int_eq(talk_error(none), ERROR_INVALID);
    json_auto_t *list = talk_ask(live.talk, json_array());
    ck_assert_int_eq(talk_error(list), ERROR_INVALID);
    json_auto_t *deep = talk_ask(live.talk, live_request("record", nested(80)));
    ck_assert_int_eq(talk_error(deep), ERROR_INVALID);
    json_t *values = json_array();
    for (int i = 0; i < 60000; i++)
        json_array_append_new(values, json_integer(i));
    json_auto_t *many = talk_ask(live.talk, live_request("record", values));
    ck_assert_int_eq(talk_error(many), ERROR_INVALID);
    json_auto_t *fine = talk_call(live.talk, "record", NULL);
    ck_assert_ptr_nonnull(json_object_get(fine, "ret"));
    live_end();
}
END_TEST

/* ---- a full store ---- */

static void fill_disk(const char *dir, const char *name)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    static char block[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    while (write(fd, block, sizeof(block)) > 0)
        continue;
    while (write(fd, block, 512) > 0)
        continue;
    close(fd);
}

START_TEST(test_full)
{
    static const char *const settings[] = { "WORKSPACE_EVENT_MAP_BYTES=1048576", NULL };
    _cleanup_free_ char *mount_point = house_mount_point();
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(mkdir(mount_point, 0711), 0);
    ck_assert_int_eq(mount("none", mount_point, "tmpfs", 0, "size=24m"), 0);
    house_open(&live.house, mount_point, settings);
    live.ws[0] = '\0';
    live.keeper = house_keep(&live.house, live.ws, house_record(live.ws, NULL));
    ck_assert_ptr_nonnull(json_object_get(live.keeper.answer, "ret"));
    live.talk = live_connect(live.ws);
    struct told told = { 0 };
    char id[ID_SIZE];
    live_run("echo before", NULL, &told);
    talk_start(live.talk, "read x; seq 1 1000000; echo end >&2", json_pack("{s:b}", "input", 1), id);
    fill_disk(mount_point, "filler");
    json_auto_t *go = talk_call(live.talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(go), 0);
    usleep(1500000);
    ck_assert_uint_eq(house_head(&live.house, live.ws, id).exit_seq, 0);
    json_auto_t *full = talk_call(live.talk, "start", json_pack("{s:s}", "command", "true"));
    ck_assert_int_eq(talk_error(full), ERROR_FULL);
    json_auto_t *status = talk_call(live.talk, "record", NULL);
    ck_assert_int_eq(talk_error(status), 0);
    told_read(&live.house, live.ws, id, &told);
    ck_assert(!told.gap);
    _cleanup_free_ char *filler = xasprintf("%s/filler", mount_point);
    ck_assert_int_eq(unlink(filler), 0);
    ck_assert(told_wait(&live.house, live.ws, id, &told, 20000));
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert(!told.gap);
    ck_assert_uint_eq(told.out.length, 6888896);
    ck_assert_str_eq(buffer_text(&told.err), "end\n");
    talk_close(live.talk);
    json_decref(live.keeper.answer);
    told_clear(&told);
    house_close(&live.house);
    ck_assert_int_eq(umount2(mount_point, MNT_DETACH), 0);
    rmdir(mount_point);
}
END_TEST

int main(int argc, char **argv)
{
    int status = house_main(argc, argv);
    if (status >= 0)
        return status;
    setenv("HOUSE_QUIET", "1", 0);
    const TTest *const tests[] = {
        test_ready,
        test_late_for_ever,
        test_prune_keeps_up,
        test_ends,
        test_environment,
        test_same_key,
        test_large_environment,
        test_create_again,
        test_failed_start_leaves_nothing,
        test_many_lines,
        test_characters,
        test_binary,
        test_late,
        test_input,
        test_terminal,
        test_subscriptions,
        test_deaf_worker,
        test_malformed_requests,
        test_full,
    };
    Suite *suite = suite_create("keeper");
    unit_add(suite, "keeper", tests, N_ELEMENTS(tests), NULL, NULL, 60, NULL);
    unit_add(suite, "pace", (const TTest *const[]){ test_coalesced }, 1, NULL, NULL, 60, "timing");
    return unit_run(suite);
}
