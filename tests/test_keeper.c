/* The keeper as a real process with a real sandbox: what an exec tells, how it ends, timeouts, input,
 * subscriptions, a full store. */
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/keeper/lost.h"
#include "tests/support/house.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

static struct house house;
static char ws[ID_SIZE];
static struct line keeper;
static struct talk *talk;

/* ---- one live workspace for each test ---- */

static struct talk *connect_to(const char *id)
{
    _cleanup_free_ char *leaf = xasprintf("%s.sock", id);
    return talk_open(&house, leaf);
}

static void begin(json_t *spec, const char *const *settings)
{
    house_open(&house, NULL, settings);
    ws[0] = '\0';
    json_t *record = house_record(ws, spec);
    keeper = house_keep(&house, ws, record);
    _cleanup_free_ char *text = json_dumps(keeper.answer, 0);
    ck_assert_msg(json_object_get(keeper.answer, "ret") != NULL, "%s", text);
    talk = connect_to(ws);
    ck_assert_ptr_nonnull(talk);
}

static void end(void)
{
    talk_close(talk);
    json_decref(keeper.answer);
    house_close(&house);
}

static void run(const char *command, json_t *extra, struct told *told)
{
    char id[ID_SIZE];
    talk_start(talk, command, extra, id);
    ck_assert_msg(told_wait(&house, ws, id, told, 30000), "%s: no final event", command);
    ck_assert(!told->gap);
    ck_assert_uint_eq(told->exits, 1);
}

/* ---- start and end ---- */

START_TEST(test_ready)
{
    begin(NULL, NULL);
    json_t *record = json_object_get(keeper.answer, "ret");
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "running");
    ck_assert_int_gt(json_integer_value(json_object_get(record, "expires_us")), clock_wall_us());
    ck_assert(id_is_valid(ID_SANDBOX, json_string_value(json_object_get(record, "sandbox_id"))));
    json_auto_t *stored = house_stored(&house, ws);
    ck_assert(json_equal(stored, record));
    struct told told = { 0 };
    run("printf x; printf y >&2", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "x");
    ck_assert_str_eq(buffer_text(&told.err), "y");
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"returncode\":0,\"signal\":null,\"timed_out\":false"));
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"state\":\"finished\""));
    ck_assert_uint_eq(told.events, 5);
    told_clear(&told);
    end();
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
    begin(NULL, NULL);
    struct told told = { 0 };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        run(cases[i].command, NULL, &told);
        ck_assert_int_eq(told.head.returncode, cases[i].returncode);
        ck_assert_int_eq(told.head.signal, cases[i].signal);
        ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    }
    run("true", json_pack("{s:s}", "workdir", "/workspace/none"), &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert(!told.head.has_returncode);
    ck_assert_ptr_nonnull(strstr(told.errors.data, "ENOENT"));
    ck_assert_ptr_nonnull(strstr(told.head.reason, "ENOENT"));
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"returncode\":null"));
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_environment)
{
    json_t *spec = json_pack("{s:{s:s, s:s, s:s}}", "env", "ONE", "1", "TWO", "2", "THREE", "3");
    begin(spec, NULL);
    struct told told = { 0 };
    run("echo $ONE-$TWO-${THREE-unset}-$FOUR",
        json_pack("{s:{s:s, s:n, s:s}}", "env", "TWO", "zwei", "THREE", "FOUR", "4"), &told);
    ck_assert_str_eq(buffer_text(&told.out), "1-zwei-unset-4\n");
    told_clear(&told);
    end();
}
END_TEST

/* Two parts of an environment that each pass and together do not. */
START_TEST(test_large_environment)
{
    enum { OWN = 900000, MORE = 3900000 };
    _cleanup_free_ char *text = xcalloc(1, MORE + 1);
    memset(text, 'x', OWN);
    begin(json_pack("{s:{s:s}}", "env", "ONE", text), NULL);
    memset(text, 'x', MORE);
    struct told told = { 0 };
    run("true", json_pack("{s:{s:s}}", "env", "TWO", text), &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_ptr_nonnull(strstr(told.head.reason, "E2BIG"));
    memset(text, 0, MORE);
    memset(text, 'y', OWN); /* more than the kernel takes in one string */
    run("true", json_pack("{s:{s:s}}", "env", "TWO", text), &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_ptr_nonnull(strstr(told.head.reason, "E2BIG"));
    run("echo ${#THREE}", json_pack("{s:{s:n, s:s}}", "env", "ONE", "THREE", "3"), &told);
    ck_assert_str_eq(buffer_text(&told.out), "1\n");
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_same_key)
{
    begin(NULL, NULL);
    json_auto_t *in = json_pack("{s:s}", "command", "echo once >>/workspace/runs");
    json_auto_t *first = talk_call_keyed(talk, "start", json_deep_copy(in), "k1", "d1");
    json_auto_t *second = talk_call_keyed(talk, "start", json_deep_copy(in), "k1", "d1");
    json_auto_t *other = talk_call_keyed(talk, "start", json_deep_copy(in), "k1", "d2");
    ck_assert(json_equal(first, second));
    ck_assert_int_eq(talk_error(other), ERROR_CONFLICT);
    struct told told = { 0 };
    usleep(100000);
    run("cat runs", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "once\n");
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_create_again)
{
    begin(NULL, NULL);
    char id[ID_SIZE] = "", other[ID_SIZE] = "";
    json_t *spec = json_pack("{s:o, s:{s:s, s:s, s:s}}", "record", house_record(id, NULL), "idempotency",
                             "principal", "owner", "key", "k", "digest", "d");
    struct line first = house_keep(&house, id, spec);
    ck_assert_ptr_nonnull(json_object_get(first.answer, "ret"));
    json_decref(first.answer);
    spec = json_pack("{s:o, s:{s:s, s:s, s:s}}", "record", house_record(other, NULL), "idempotency",
                     "principal", "owner", "key", "k", "digest", "d");
    struct line second = house_keep(&house, other, spec);
    json_t *existing = json_object_get(second.answer, "existing");
    ck_assert_str_eq(json_string_value(json_object_get(existing, "workspace_id")), id);
    ck_assert_int_eq(house_wait(second.pid, 5000), 0);
    json_auto_t *stored = house_stored(&house, other);
    ck_assert_ptr_null(stored);
    _cleanup_free_ char *path = config_path(house.config, "workspaces", other);
    ck_assert_int_ne(access(path, F_OK), 0);
    json_decref(second.answer);
    end();
}
END_TEST

START_TEST(test_failed_start_leaves_nothing)
{
    house_open(&house, NULL, NULL);
    setenv("WORKSPACE_AGENT", "/nonexistent/agent", 1);
    ws[0] = '\0';
    json_t *record = house_record(ws, NULL);
    struct line line = house_keep(&house, ws, record);
    ck_assert_int_ne(talk_error(line.answer), 0);
    ck_assert_int_eq(house_wait(line.pid, 5000), 1);
    json_auto_t *stored = house_stored(&house, ws);
    ck_assert_ptr_null(stored);
    _cleanup_free_ char *files = config_path(house.config, "workspaces", ws),
                        *events = config_path(house.config, "events", ws);
    ck_assert_int_ne(access(files, F_OK), 0);
    ck_assert_int_ne(access(events, F_OK), 0);
    json_decref(line.answer);
    unsetenv("WORKSPACE_AGENT");
    house_close(&house);
}
END_TEST

/* ---- output ---- */

START_TEST(test_many_lines)
{
    enum { LINES = 200000 };
    begin(NULL, NULL);
    struct told told = { 0 };
    run("seq 1 200000", NULL, &told);
    _cleanup_buffer_ struct buffer expected = BUFFER_INIT;
    for (int i = 1; i <= LINES; i++) {
        buffer_append_i64(&expected, i);
        buffer_append_char(&expected, '\n');
    }
    ck_assert_uint_eq(told.out.length, expected.length);
    ck_assert_int_eq(memcmp(told.out.data, expected.data, expected.length), 0);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_characters)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    run("perl -e '$|=1; my $s=\"\\xe2\\x98\\x95\" x 100000; my $i=0; my @n=(1,7,4093,5,16381,2); my $k=0;"
        "while($i<length $s){my $n=$n[$k++%6]; syswrite STDOUT, substr($s,$i,$n); $i+=$n}'",
        NULL, &told);
    ck_assert_uint_eq(told.out.length, 300000);
    ck_assert(!told.replaced);
    /* the beginning of a character before a pause goes out alone */
    char id[ID_SIZE];
    talk_start(talk, "printf 'a\\342'; sleep 1; printf '\\230\\225b'", NULL, id);
    usleep(600000);
    told_read(&house, ws, id, &told);
    ck_assert_uint_eq(told.out.length, 2);
    ck_assert(told_wait(&house, ws, id, &told, 5000));
    ck_assert_uint_eq(told.out.length, 5);
    ck_assert_int_eq(memcmp(told.out.data,
                            "a\xe2\x98\x95"
                            "b",
                            5),
                     0);
    run("printf 'end\\342\\230'", NULL, &told);
    ck_assert_uint_eq(told.out.length, 5);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_binary)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    run("head -c 1000000 /dev/urandom | tee /workspace/copy", NULL, &told);
    _cleanup_free_ char *leaf = xasprintf("%s/files/copy", ws);
    _cleanup_free_ char *path = config_path(house.config, "workspaces", leaf);
    _cleanup_free_ char *copy = xmalloc(1000000);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(read(fd, copy, 1000000), 1000000);
    close(fd);
    ck_assert_uint_eq(told.out.length, 1000000);
    ck_assert_int_eq(memcmp(told.out.data, copy, 1000000), 0);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_late)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk, "(sleep 0.5; echo late) & echo early", NULL, id);
    ck_assert(told_wait(&house, ws, id, &told, 5000));
    ck_assert_str_eq(buffer_text(&told.out), "early\n");
    ck_assert_uint_eq(told.late.length, 0);
    usleep(1200000);
    told_read(&house, ws, id, &told);
    ck_assert_str_eq(buffer_text(&told.late), "late\n");
    ck_assert_uint_eq(told.exits, 1);
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    told_clear(&told);
    end();
}
END_TEST

/* What a command left behind writes on after its log is gone: to nobody, and in nobody's way. */
START_TEST(test_late_for_ever)
{
    static const char *const settings[] = { "WORKSPACE_EVENT_LOG_TTL=1", NULL };
    begin(NULL, settings);
    struct told told = { 0 };
    char id[ID_SIZE], other[ID_SIZE];
    struct exec_head head;
    _cleanup_error_ struct error err = ERROR_INIT;
    talk_start(talk, "(while :; do echo late; printf '\\303'; sleep 0.01; done) & echo early", NULL, id);
    ck_assert(told_wait(&house, ws, id, &told, 5000));
    talk_start(talk, "sleep 5; echo still here", NULL, other);
    struct events_cache *cache = events_cache_new(house.config->state_dir, 2);
    bool is_there = true;
    for (int i = 0; i < 40 && is_there; i++, usleep(100000))
        is_there = events_get_exec(events_cache_get(cache, ws, NULL), id, &head, NULL) == 0;
    ck_assert(!is_there);
    ck_assert(told_wait(&house, ws, other, &told, 10000));
    ck_assert_str_eq(buffer_text(&told.out), "still here\n");
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(events_verify(events_cache_get(cache, ws, NULL), &err), 0);
    events_cache_free(cache);
    told_clear(&told);
    end();
}
END_TEST

static off_t log_size(void)
{
    struct stat st;
    _cleanup_free_ char *file = xasprintf("%s/events/%s/data.mdb", house.config->state_dir, ws);
    ck_assert_int_eq(stat(file, &st), 0);
    return st.st_size;
}

/* What is too old for one step of the pruning goes in the steps right after: the next log has its room. */
START_TEST(test_prune_keeps_up)
{
    static const char *const settings[] = { "WORKSPACE_EVENT_LOG_TTL=1", NULL };
    begin(NULL, settings);
    struct told told = { 0 };
    run("yes | head -c 60000000", NULL, &told);
    usleep(2500000);
    off_t first = log_size();
    ck_assert_int_gt(first, 60000000);
    run("yes | head -c 60000000", NULL, &told);
    ck_assert_uint_eq(told.out.length, 60000000);
    off_t second = log_size();
    ck_assert_msg(second < first + first / 10, "the file grew from %lld to %lld", (long long)first,
                  (long long)second);
    told_clear(&told);
    end();
}
END_TEST

/* ---- ends that are asked for ---- */

#define STUBBORN                                                                                             \
    "trap '' TERM INT HUP; setsid bash -c \"trap '' TERM; while :; do sleep 0.05; done\" & "                 \
    "setsid perl -e '$SIG{TERM}=\"IGNORE\"; sleep 1 while 1' & echo up; while :; do sleep 0.05; done"

static void wait_for_output(const char *id, struct told *told)
{
    int64_t deadline = clock_boottime_ms() + 5000;
    do {
        usleep(2000);
        told_read(&house, ws, id, told);
    } while (told->out.length == 0 && clock_boottime_ms() < deadline);
}

static void assert_alone(void)
{
    struct told told = { 0 };
    usleep(300000);
    run("n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c "
        "'sleep [01]' ; true",
        NULL, &told);
    ck_assert_msg(strcmp(buffer_text(&told.out), "1\n") == 0 || strcmp(buffer_text(&told.out), "0\n") == 0,
                  "left: %s", buffer_text(&told.out));
    told_clear(&told);
}

START_TEST(test_timeout)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    int64_t begun = clock_boottime_ms();
    run(STUBBORN, json_pack("{s:i}", "timeout_seconds", 1), &told);
    ck_assert_int_gt(clock_boottime_ms() - begun, 2500);
    ck_assert_int_lt(clock_boottime_ms() - begun, 5000);
    ck_assert(told.head.timed_out);
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(told.head.returncode, -9);
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"timed_out\":true"));
    assert_alone();
    begun = clock_boottime_ms();
    run("sleep 100", json_pack("{s:i}", "timeout_seconds", 1), &told);
    ck_assert_int_lt(clock_boottime_ms() - begun, 1900);
    ck_assert_int_eq(told.head.returncode, -15);
    ck_assert(told.head.timed_out);
    told_clear(&told);
    end();
}
END_TEST

static int signal_exec(const char *id, const char *name, bool tree)
{
    json_auto_t *answer =
        talk_call(talk, "signal", json_pack("{s:s, s:s, s:b}", "exec_id", id, "signal", name, "tree", tree));
    return talk_error(answer);
}

START_TEST(test_cancel)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk, "echo up; sleep 100", NULL, id);
    wait_for_output(id, &told);
    ck_assert_int_eq(signal_exec(id, "TERM", false), 0);
    ck_assert(told_wait(&house, ws, id, &told, 3000));
    ck_assert_int_eq(told.head.state, EXEC_CANCELLED);
    ck_assert_int_eq(told.head.returncode, -15);
    ck_assert(told.head.cancel_requested);
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"signal\":\"TERM\""));
    ck_assert_int_eq(signal_exec(id, "TERM", false), ERROR_CONFLICT);
    ck_assert_int_eq(signal_exec(id, "TERM", true), 0);
    /* one that handles it ended by itself */
    talk_start(talk, "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", NULL, id);
    wait_for_output(id, &told);
    ck_assert_int_eq(signal_exec(id, "TERM", false), 0);
    ck_assert(told_wait(&house, ws, id, &told, 3000));
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_int_eq(told.head.returncode, 0);
    /* a tree that does not listen */
    talk_start(talk, STUBBORN, NULL, id);
    wait_for_output(id, &told);
    ck_assert_int_eq(signal_exec(id, "TERM", true), 0);
    ck_assert(told_wait(&house, ws, id, &told, 5000));
    ck_assert_int_eq(told.head.state, EXEC_CANCELLED);
    ck_assert_int_eq(told.head.returncode, -9);
    assert_alone();
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_tree_after_exit)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk,
               "setsid bash -c \"trap '' TERM; while :; do sleep 0.05; done\" >/dev/null 2>&1 & echo up",
               NULL, id);
    ck_assert(told_wait(&house, ws, id, &told, 3000));
    usleep(300000);
    ck_assert_int_eq(signal_exec(id, "TERM", true), 0);
    usleep(2500000);
    assert_alone();
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_input)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk, "cat; echo done", json_pack("{s:b}", "input", 1), id);
    json_auto_t *one = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "hello\n"));
    ck_assert_int_eq(talk_error(one), 0);
    wait_for_output(id, &told);
    ck_assert_str_eq(buffer_text(&told.out), "hello\n");
    json_auto_t *two =
        talk_call(talk, "input", json_pack("{s:s, s:s, s:b}", "exec_id", id, "data", "bye\n", "eof", 1));
    ck_assert_int_eq(talk_error(two), 0);
    ck_assert(house_head(&house, ws, id).stdin_closed);
    ck_assert(told_wait(&house, ws, id, &told, 5000));
    ck_assert_str_eq(buffer_text(&told.out), "hello\nbye\ndone\n");
    json_auto_t *three = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "late"));
    ck_assert_int_eq(talk_error(three), ERROR_CONFLICT);
    /* nobody reads: what fits waits, what does not is refused whole */
    talk_start(talk, "sleep 2; wc -c", json_pack("{s:b}", "input", 1), id);
    json_auto_t *big = json_object();
    _cleanup_free_ char *bytes = xmalloc(2000000);
    memset(bytes, 'a', 2000000);
    json_object_set_new(big, "exec_id", json_string(id));
    json_object_set_new(big, "data", json_stringn(bytes, 2000000));
    size_t taken = 0, refused = 0;
    for (int i = 0; i < 4; i++) {
        json_auto_t *answer = talk_call(talk, "input", json_deep_copy(big));
        ck_assert(talk_error(answer) == 0 || talk_error(answer) == ERROR_TOO_MANY);
        *(talk_error(answer) == 0 ? &taken : &refused) += 2000000;
    }
    ck_assert_uint_gt(refused, 0);
    json_auto_t *eof =
        talk_call(talk, "input", json_pack("{s:s, s:s, s:b}", "exec_id", id, "data", "", "eof", 1));
    ck_assert_int_eq(talk_error(eof), 0);
    json_auto_t *after = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "x"));
    ck_assert_int_eq(talk_error(after), ERROR_CONFLICT);
    ck_assert(told_wait(&house, ws, id, &told, 10000));
    ck_assert_uint_eq(strtoul(buffer_text(&told.out), NULL, 10), taken);
    /* no input at all */
    talk_start(talk, "wc -c; sleep 0.3", NULL, id);
    json_auto_t *none = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "x"));
    ck_assert_int_eq(talk_error(none), ERROR_CONFLICT);
    json_auto_t *unknown =
        talk_call(talk, "input",
                  json_pack("{s:s, s:s}", "exec_id", "ex-00000000000000000000000000000000", "data", "x"));
    ck_assert_int_eq(talk_error(unknown), ERROR_NOT_FOUND);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_terminal)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk, "trap 'stty size' WINCH; stty size; read x; echo got $x",
               json_pack("{s:b, s:b}", "pty", 1, "input", 1), id);
    wait_for_output(id, &told);
    ck_assert_str_eq(buffer_text(&told.out), "24 80\r\n");
    ck_assert(house_head(&house, ws, id).pty);
    json_auto_t *resized =
        talk_call(talk, "resize", json_pack("{s:s, s:i, s:i}", "exec_id", id, "rows", 50, "cols", 132));
    ck_assert_int_eq(talk_error(resized), 0);
    json_auto_t *sent = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "yes\n"));
    ck_assert_int_eq(talk_error(sent), 0);
    ck_assert(told_wait(&house, ws, id, &told, 5000));
    ck_assert_ptr_nonnull(strstr(told.out.data, "50 132"));
    ck_assert_ptr_nonnull(strstr(told.out.data, "got yes"));
    told_clear(&told);
    end();
}
END_TEST

/* ---- subscriptions ---- */

START_TEST(test_subscriptions)
{
    enum { MANY = 50 };
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    uint32_t numbers[MANY];
    talk_start(talk, "read x; echo one; read x; sleep 0.2; seq 1 50000", json_pack("{s:b}", "input", 1), id);
    for (int i = 0; i < MANY; i++)
        numbers[i] = talk_subscribe(talk, id);
    for (int i = 0; i < MANY; i++) /* each is answered at once */
        ck_assert(talk_notified(talk, numbers[i], 1000));
    usleep(300000);
    for (int i = 0; i < MANY; i++) /* STARTED and waiting_for_input */
        talk_notified(talk, numbers[i], 20);
    json_auto_t *sent = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(sent), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert(talk_notified(talk, numbers[i], 1000));
    json_auto_t *again = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(again), 0);
    /* a worker that reads nothing while much is committed gets few notices, and one after the last commit */
    ck_assert(told_wait(&house, ws, id, &told, 10000));
    usleep(50000);
    ck_assert(talk_notified(talk, numbers[0], 1000));
    told_clear(&told);
    end();
}
END_TEST

/* While a worker does not read, one notice lies ready for it whatever is committed, and one more follows. */
START_TEST(test_coalesced)
{
    enum { REQUESTS = 3000 };
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    struct talk *slow = connect_to(ws);
    talk_start(talk, "read x; for i in $(seq 1 30); do echo $i; sleep 0.02; done",
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
    json_auto_t *go = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(go), 0);
    ck_assert(told_wait(&house, ws, id, &told, 10000));
    ck_assert(talk_notified(slow, number, 5000));
    while (talk_notified(slow, number, 500))
        continue;
    size_t notices = talk_notices(slow, number) - before;
    ck_assert_msg(notices >= 2 && notices <= 4, "%zu notices", notices);
    talk_close(slow);
    told_clear(&told);
    end();
}
END_TEST

/* A worker that never reads is dropped or held, the others go on. */
START_TEST(test_deaf_worker)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    struct talk *deaf = connect_to(ws);
    talk_start(talk, "sleep 0.2; seq 1 100000", NULL, id);
    for (int i = 0; i < 100; i++)
        talk_subscribe(deaf, id);
    for (int i = 0; i < 20000; i++)
        talk_send(deaf, json_pack("{s:s, s:{}, s:s, s:s}", "operation", "record", "in", "principal", "p",
                                  "request_id", "r"));
    ck_assert(told_wait(&house, ws, id, &told, 10000));
    ck_assert_uint_gt(told.out.length, 500000);
    talk_close(deaf);
    run("echo fine", NULL, &told);
    told_clear(&told);
    end();
}
END_TEST

/* ---- the workspace's own end ---- */

START_TEST(test_idle)
{
    begin(json_pack("{s:i}", "idle_timeout_seconds", 1), NULL);
    struct told told = { 0 };
    int64_t begun = clock_boottime_ms();
    run("sleep 2.5; (sleep 30 &) ; echo kept >/workspace/file", NULL,
        &told); /* running is activity, what is left behind is not */
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    ck_assert_int_gt(clock_boottime_ms() - begun, 3300);
    json_auto_t *record = house_stored(&house, ws);
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "stopped");
    ck_assert_str_eq(json_string_value(json_object_get(record, "reason")), "workspace stopped: idle timeout");
    ck_assert_int_eq(json_integer_value(json_object_get(record, "expires_us")), 0);
    /* and it comes back with its files */
    talk_close(talk);
    json_decref(keeper.answer);
    keeper = house_keep(&house, ws, NULL);
    ck_assert_ptr_nonnull(json_object_get(keeper.answer, "ret"));
    talk = connect_to(ws);
    run("cat file", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "kept\n");
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_absolute)
{
    begin(json_pack("{s:i}", "timeout_seconds", 1), NULL);
    struct told told = { 0 };
    run("echo out; sleep 100", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "out\n");
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_str_eq(told.head.reason, "lost: workspace stopped: timeout");
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_extend)
{
    begin(json_pack("{s:i}", "timeout_seconds", 1), NULL);
    json_auto_t *answer = talk_call(
        talk, "extend", json_pack("{s:i, s:i}", "timeout_seconds", 100, "idle_timeout_seconds", -1));
    int64_t expires_us = json_integer_value(json_object_get(json_object_get(answer, "ret"), "expires_us"));
    ck_assert_int_gt(expires_us, clock_wall_us() + 98000000);
    struct told told = { 0 };
    run("sleep 2", NULL, &told);
    ck_assert_int_eq(told.head.returncode, 0);
    told_clear(&told);
    end();
}
END_TEST

START_TEST(test_stop_and_remove)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk, "echo out; sleep 100", NULL, id);
    wait_for_output(id, &told);
    json_auto_t *stopped = talk_call(talk, "stop", NULL);
    json_t *record = json_object_get(stopped, "ret");
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "stopped");
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    told_read(&house, ws, id, &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_str_eq(told.head.reason, "lost: workspace stopped");
    talk_close(talk);
    json_decref(keeper.answer);
    keeper = house_keep(&house, ws, NULL);
    talk = connect_to(ws);
    json_auto_t *removed = talk_call(talk, "stop", json_pack("{s:b}", "remove", 1));
    json_t *ret = json_object_get(removed, "ret");
    ck_assert(json_is_true(json_object_get(ret, "terminated")));
    ck_assert_str_eq(json_string_value(json_object_get(ret, "workspace_id")), ws);
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    ck_assert(house_wait_state(&house, ws, "gone", 0));
    _cleanup_free_ char *files = config_path(house.config, "workspaces", ws),
                        *logs = config_path(house.config, "events", ws);
    ck_assert_int_ne(access(files, F_OK), 0);
    ck_assert_int_ne(access(logs, F_OK), 0);
    told_clear(&told);
    end();
}
END_TEST

static json_t *request_of(const char *operation, json_t *in)
{
    return json_pack("{s:s, s:o, s:s, s:s}", "operation", operation, "in", in, "principal", "owner",
                     "request_id", "r");
}

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
    begin(NULL, NULL);
    json_auto_t *none = talk_ask(talk, json_object());
    ck_assert_int_eq(talk_error(none), ERROR_INVALID);
    json_auto_t *list = talk_ask(talk, json_array());
    ck_assert_int_eq(talk_error(list), ERROR_INVALID);
    json_auto_t *deep = talk_ask(talk, request_of("record", nested(80)));
    ck_assert_int_eq(talk_error(deep), ERROR_INVALID);
    json_t *values = json_array();
    for (int i = 0; i < 60000; i++)
        json_array_append_new(values, json_integer(i));
    json_auto_t *many = talk_ask(talk, request_of("record", values));
    ck_assert_int_eq(talk_error(many), ERROR_INVALID);
    json_auto_t *fine = talk_call(talk, "record", NULL);
    ck_assert_ptr_nonnull(json_object_get(fine, "ret"));
    end();
}
END_TEST

/* What it took in is answered before it says so; what came later is nobody's. */
/* What was answered has its final event, however early the stop ended it; what was not has left no trace. */
START_TEST(test_goodbye)
{
    begin(NULL, NULL);
    struct talk *other = connect_to(ws);
    json_decref(talk_call(other, "record", NULL));
    uint32_t stop = talk_send(talk, request_of("stop", json_object()));
    uint32_t late =
        talk_send(talk, request_of("start", json_pack("{s:s}", "command", "echo ran >>/workspace/late")));
    uint32_t others =
        talk_send(other, request_of("start", json_pack("{s:s}", "command", "echo ran >>/workspace/others")));
    json_auto_t *stopped = talk_wait(talk, stop);
    ck_assert_ptr_nonnull(json_object_get(stopped, "ret"));
    ck_assert_ptr_null(talk_wait(talk, late));
    ck_assert(talk_farewell(talk));
    json_auto_t *before = talk_wait(other, others);
    ck_assert(talk_farewell(other));
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    const char *id = json_string_value(json_object_get(json_object_get(before, "ret"), "exec_id"));
    ck_assert(before == NULL || house_head(&house, ws, id).exit_seq > 0);
    talk_close(other);
    talk_close(talk);
    json_decref(keeper.answer);
    keeper = house_keep(&house, ws, NULL);
    talk = connect_to(ws);
    struct told told = { 0 };
    run(before != NULL ? "cat late" : "cat late others", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "");
    told_clear(&told);
    end();
}
END_TEST

static pid_t sandbox_pid(void)
{
    struct process_identity identity;
    json_auto_t *record = house_stored(&house, ws);
    json_t *child = json_object_get(json_object_get(record, "handle"), "child");
    ck_assert_int_eq(process_identity_from_json(child, &identity), 0);
    return identity.pid;
}

START_TEST(test_sandbox_dies)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk, "echo out; sleep 100", NULL, id);
    wait_for_output(id, &told);
    kill(sandbox_pid(), SIGKILL);
    ck_assert(told_wait(&house, ws, id, &told, 3000));
    ck_assert_str_eq(buffer_text(&told.out), "out\n");
    ck_assert_str_eq(told.head.reason, "lost: the sandbox ended");
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    ck_assert(house_wait_state(&house, ws, "stopped", 0));
    told_clear(&told);
    end();
}
END_TEST

/* A command that comes just after the sandbox's death is none of those that died with it. */
START_TEST(test_after_the_sandbox)
{
    for (int i = 0; i < 10; i++) {
        begin(NULL, NULL);
        int pidfd = process_pidfd_open(sandbox_pid());
        kill(keeper.pid, SIGSTOP);
        uint32_t late = talk_send(talk, request_of("start", json_pack("{s:s}", "command", "true")));
        process_pidfd_signal(pidfd, SIGKILL);
        ck_assert_int_eq(process_pidfd_wait(pidfd, 5000), 1);
        close(pidfd);
        kill(keeper.pid, SIGCONT);
        ck_assert_ptr_null(talk_wait(talk, late));
        ck_assert(talk_farewell(talk));
        end();
    }
}
END_TEST

START_TEST(test_term)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    talk_start(talk, "echo out; sleep 100", NULL, id);
    wait_for_output(id, &told);
    kill(keeper.pid, SIGTERM);
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    told_read(&house, ws, id, &told);
    ck_assert_str_eq(told.head.reason, "lost: the gateway was stopped");
    told_clear(&told);
    end();
}
END_TEST

/* A second keeper of the same workspace finds it taken; one after kill -9 ends the old sandbox, tells the
 * lost execs and has the files. */
START_TEST(test_killed)
{
    begin(NULL, NULL);
    struct told told = { 0 };
    char id[ID_SIZE];
    struct line second = house_keep(&house, ws, NULL);
    ck_assert_int_eq(talk_error(second.answer), ERROR_CONFLICT);
    ck_assert_int_eq(house_wait(second.pid, 1000), 1);
    ck_assert(house_wait_state(&house, ws, "running", 0));
    json_decref(second.answer);
    talk_start(talk, "echo kept >file; echo out; sleep 100", NULL, id);
    wait_for_output(id, &told);
    int old = process_pidfd_open(sandbox_pid());
    ck_assert_int_ge(old, 0);
    kill(keeper.pid, SIGKILL);
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 128 + SIGKILL);
    talk_close(talk);
    json_decref(keeper.answer);
    keeper = house_keep(&house, ws, NULL);
    ck_assert_ptr_nonnull(json_object_get(keeper.answer, "ret"));
    ck_assert_int_eq(process_pidfd_wait(old, 0), 1);
    close(old);
    told_read(&house, ws, id, &told);
    ck_assert_int_eq(told.head.state, EXEC_FAILED);
    ck_assert_str_eq(told.head.reason, "lost: " LOST_KEEPER);
    ck_assert_str_eq(buffer_text(&told.errors), "lost: " LOST_KEEPER);
    ck_assert_str_eq(buffer_text(&told.out), "out\n");
    ck_assert_uint_eq(told.exits, 1);
    talk = connect_to(ws);
    run("cat file", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "kept\n");
    told_clear(&told);
    end();
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
    house_open(&house, mount_point, settings);
    ws[0] = '\0';
    keeper = house_keep(&house, ws, house_record(ws, NULL));
    ck_assert_ptr_nonnull(json_object_get(keeper.answer, "ret"));
    talk = connect_to(ws);
    struct told told = { 0 };
    char id[ID_SIZE];
    run("echo before", NULL, &told);
    talk_start(talk, "read x; seq 1 1000000; echo end >&2", json_pack("{s:b}", "input", 1), id);
    fill_disk(mount_point, "filler");
    json_auto_t *go = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(go), 0);
    usleep(1500000);
    ck_assert_uint_eq(house_head(&house, ws, id).exit_seq, 0);
    json_auto_t *full = talk_call(talk, "start", json_pack("{s:s}", "command", "true"));
    ck_assert_int_eq(talk_error(full), ERROR_FULL);
    json_auto_t *status = talk_call(talk, "record", NULL);
    ck_assert_int_eq(talk_error(status), 0);
    told_read(&house, ws, id, &told);
    ck_assert(!told.gap);
    _cleanup_free_ char *filler = xasprintf("%s/filler", mount_point);
    ck_assert_int_eq(unlink(filler), 0);
    ck_assert(told_wait(&house, ws, id, &told, 20000));
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert(!told.gap);
    ck_assert_uint_eq(told.out.length, 6888896);
    ck_assert_str_eq(buffer_text(&told.err), "end\n");
    talk_close(talk);
    json_decref(keeper.answer);
    told_clear(&told);
    house_close(&house);
    ck_assert_int_eq(umount2(mount_point, MNT_DETACH), 0);
    rmdir(mount_point);
}
END_TEST

/* ---- memory ---- */

START_TEST(test_memory_hog)
{
    begin(json_pack("{s:i, s:i}", "memory_mib", 128, "memory_limit_mib", 192), NULL);
    struct told told = { 0 };
    run("perl -e 'my @a; while (1) { push @a, \"x\" x 1000000 }'", NULL, &told);
    ck_assert_msg(told.head.oom_killed, "%s", buffer_text(&told.exit));
    ck_assert_ptr_nonnull(strstr(told.exit.data, "\"oom_killed\":true"));
    run("echo alive", NULL, &told);
    ck_assert_str_eq(buffer_text(&told.out), "alive\n");
    ck_assert(!told.head.oom_killed);
    told_clear(&told);
    end();
}
END_TEST

int main(int argc, char **argv)
{
    int status = house_main(argc, argv);
    if (status >= 0)
        return status;
    setenv("HOUSE_QUIET", "1", 0);
    const TTest *const tests[] = { test_ready,
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
                                   test_timeout,
                                   test_cancel,
                                   test_tree_after_exit,
                                   test_input,
                                   test_terminal,
                                   test_subscriptions,
                                   test_deaf_worker,
                                   test_idle,
                                   test_absolute,
                                   test_extend,
                                   test_stop_and_remove,
                                   test_malformed_requests,
                                   test_goodbye,
                                   test_sandbox_dies,
                                   test_after_the_sandbox,
                                   test_term,
                                   test_killed,
                                   test_full,
                                   test_memory_hog };
    Suite *suite = suite_create("keeper");
    unit_add(suite, "keeper", tests, N_ELEMENTS(tests), NULL, NULL, 60, NULL);
    unit_add(suite, "pace", (const TTest *const[]){ test_coalesced }, 1, NULL, NULL, 60, "timing");
    return unit_run(suite);
}
