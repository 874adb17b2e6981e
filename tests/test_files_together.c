/* Many file calls at one file at once: of those that name one content one goes through, and no change that
 * was answered is missing afterwards. */
#include "lib/base/sha256.h"
#include "tests/support/file_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

enum { AT_ONCE = 8, ROUNDS = 20, LENGTH = 15 };

/* ---- calls ---- */

static bool succeeds(struct peer_exec *call)
{
    return json_object_get(file_finish(call), "ret") != NULL;
}

static int code_of(struct peer_exec *call)
{
    return (int)json_integer_value(json_object_get(json_object_get(file_finish(call), "error"), "code"));
}

/* ---- the disk ---- */

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
    folder_put_text("f", "the first one\n");
    hash_of("the first one\n", hash);
    for (int round = 0; round < ROUNDS; round++) {
        struct peer_exec *calls[AT_ONCE];
        int winner = -1, winners = 0;
        for (int i = 0; i < AT_ONCE; i++)
            calls[i] = file_begin(file_message(name, "{s:s, s:s, s:b, s:i}", "path", "f", "if_match", hash,
                                               "create_only", 0, "length", LENGTH));
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
        folder_expect("f", content);
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
    return file_begin(file_message("edit", "{s:s, s:s, s:[{s:s, s:s}]}", "path", "f", "if_match", hash,
                                   "edits", "old", old, "new", new));
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
        folder_put_text("f", buffer_text(&before));
        for (int i = 0; i < EDITS; i++)
            calls[i] = begin_edit(i, "old", "new", "");
        for (int i = 0; i < EDITS; i++)
            ck_assert_msg(succeeds(calls[i]), "edit %d of round %d was refused", i, round);
        folder_expect("f", buffer_text(&after));
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
        folder_put_text("f", buffer_text(&before));
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

/* What a command locks in the workspace, in whichever way, keeps no call waiting. */
START_TEST(no_command_holds_a_turn)
{
    folder_put_text("f", "line 00 is old\n");
    struct peer_exec *holder =
        peer_run(peer,
                 "exec flock -x . flock -x f python3 -uc 'import fcntl, time; f = open(\"f\", \"r+\"); "
                 "fcntl.lockf(f, fcntl.LOCK_EX); print(\"held\"); time.sleep(60)'",
                 "{}");
    ck_assert_msg(peer_until(peer, holder->out[1].length >= strlen("held\n"), 10000), "%s",
                  peer_text(holder, 2));
    int64_t begun = clock_boottime_ms();
    ck_assert(succeeds(begin_edit(0, "old", "new", "")));
    ck_assert_int_lt(clock_boottime_ms() - begun, 5000);
    ck_assert(!holder->closed);
    folder_expect("f", "line 00 is new\n");
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
    return unit_run_tests("files together", tests, N_ELEMENTS(tests), files_set_up, files_tear_down, 120);
}
