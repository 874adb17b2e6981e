/* Many file calls at one file at once: of those that name one content one goes through, and no change that
 * was answered is missing afterwards. */
#include "lib/base/io.h"
#include "lib/base/sha256.h"
#include "tests/support/agent_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

enum { AT_ONCE = 8, ROUNDS = 20, LENGTH = 15 };

static int folder_fd; /* the workspace, seen from outside */

static void set_up(void)
{
    agent_setup();
    folder_fd = open(peer->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
}

static void tear_down(void)
{
    close(folder_fd);
    agent_teardown();
}

/* ---- calls ---- */

static struct peer_exec *begin(const char *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *message = json_vpack_ex(NULL, 0, format, arguments);
    va_end(arguments);
    ck_assert_ptr_nonnull(message);
    json_object_set_new(message, "op", json_string("file"));
    json_object_set_new(message, "call", json_string(call));
    struct peer_exec *begun = peer_request(peer, message);
    json_decref(message);
    return begun;
}

static const json_t *finish(struct peer_exec *call)
{
    ck_assert(peer_until(peer, call->closed, 60000));
    ck_assert(call->replied);
    return call->reply;
}

static bool succeeds(struct peer_exec *call)
{
    return json_object_get(finish(call), "ret") != NULL;
}

static int code_of(struct peer_exec *call)
{
    return (int)json_integer_value(json_object_get(json_object_get(finish(call), "error"), "code"));
}

/* ---- the disk ---- */

static void put(const char *data)
{
    int fd = openat(folder_fd, "f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_eq(io_write_all(fd, data, strlen(data), NULL), 0);
    close(fd);
}

static void expect_file(const char *data)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    ck_assert_int_eq(io_read_file(folder_fd, "f", 1 << 20, &content, NULL), 0);
    ck_assert_str_eq(buffer_text(&content), data);
}

static void hash_of(const char *data, char text[static SHA256_TEXT_SIZE])
{
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, data, strlen(data));
    sha256_end(&hash, text);
}

/* ---- tests ---- */

/* All of one length, as the size must not be what tells them apart. */
static void one_goes_through(const char *name, enum error_code refusal)
{
    char content[40], hash[SHA256_TEXT_SIZE];
    put("the first one\n");
    hash_of("the first one\n", hash);
    for (int round = 0; round < ROUNDS; round++) {
        struct peer_exec *calls[AT_ONCE];
        int winner = -1, winners = 0;
        for (int i = 0; i < AT_ONCE; i++)
            calls[i] = begin(name, "{s:s, s:s, s:b, s:i}", "path", "f", "if_match", hash, "create_only", 0,
                             "length", LENGTH);
        for (int i = 0; i < AT_ONCE; i++) {
            snprintf(content, sizeof content, "round %02d by %02d\n", round, i);
            peer_input(peer, calls[i], content, LENGTH, true);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            bool wins = succeeds(calls[i]);
            winners += wins;
            winner = wins ? i : winner;
            ck_assert(wins || code_of(calls[i]) == (int)refusal);
        }
        ck_assert_msg(winners == 1, "round %d: %d of %d went through", round, winners, AT_ONCE);
        snprintf(content, sizeof content, "round %02d by %02d\n", round, winner);
        expect_file(content);
        hash_of(content, hash);
    }
}

START_TEST(one_hash_lets_one_write_through)
{
    one_goes_through("write", ERROR_CONFLICT);
}
END_TEST

START_TEST(one_tag_lets_one_upload_through)
{
    one_goes_through("upload", ERROR_PRECONDITION);
}
END_TEST

static struct peer_exec *begin_edit(int line, const char *from, const char *to, const char *hash)
{
    char old[40], new[40];
    snprintf(old, sizeof old, "line %02d is %s", line, from);
    snprintf(new, sizeof new, "line %02d is %s", line, to);
    return begin("edit", "{s:s, s:s, s:[{s:s, s:s}]}", "path", "f", "if_match", hash, "edits", "old", old,
                 "new", new);
}

static void lines(struct buffer *text, const char *state, int count)
{
    for (int i = 0; i < count; i++)
        buffer_printf(text, "line %02d is %s\n", i, state);
}

/* More than there are places, so that some come while others end. */
START_TEST(no_edit_that_was_answered_is_missing)
{
    enum { EDITS = 3 * AT_ONCE };
    for (int round = 0; round < ROUNDS; round++) {
        _cleanup_buffer_ struct buffer before = BUFFER_INIT, after = BUFFER_INIT;
        struct peer_exec *calls[EDITS];
        lines(&before, "old", EDITS);
        lines(&after, "new", EDITS);
        put(buffer_text(&before));
        for (int i = 0; i < EDITS; i++)
            calls[i] = begin_edit(i, "old", "new", "");
        for (int i = 0; i < EDITS; i++)
            ck_assert_msg(succeeds(calls[i]), "edit %d of round %d was refused", i, round);
        expect_file(buffer_text(&after));
    }
}
END_TEST

START_TEST(one_hash_lets_one_edit_through)
{
    for (int round = 0; round < ROUNDS; round++) {
        _cleanup_buffer_ struct buffer before = BUFFER_INIT;
        struct peer_exec *calls[AT_ONCE];
        char hash[SHA256_TEXT_SIZE];
        int winners = 0;
        lines(&before, "old", AT_ONCE);
        put(buffer_text(&before));
        hash_of(buffer_text(&before), hash);
        for (int i = 0; i < AT_ONCE; i++)
            calls[i] = begin_edit(i, "old", "new", hash);
        for (int i = 0; i < AT_ONCE; i++) {
            winners += succeeds(calls[i]);
            ck_assert(succeeds(calls[i]) || code_of(calls[i]) == ERROR_CONFLICT);
        }
        ck_assert_msg(winners == 1, "round %d: %d of %d went through", round, winners, AT_ONCE);
    }
}
END_TEST

/* What a command locks in the workspace keeps no call waiting. */
START_TEST(no_command_holds_a_turn)
{
    put("line 00 is old\n");
    peer_run(peer, "exec flock -x . flock -x f sleep 60", "{}");
    peer_until(peer, false, 300);
    int64_t begun = clock_boottime_ms();
    ck_assert(succeeds(begin_edit(0, "old", "new", "")));
    ck_assert_int_lt(clock_boottime_ms() - begun, 5000);
    expect_file("line 00 is new\n");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        one_hash_lets_one_write_through,
        one_tag_lets_one_upload_through,
        no_edit_that_was_answered_is_missing,
        one_hash_lets_one_edit_through,
        no_command_holds_a_turn,
    };
    return unit_run_tests("files together", tests, N_ELEMENTS(tests), set_up, tear_down, 120);
}
