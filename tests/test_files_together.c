/* Many file calls at one file at once: of those that name one content one goes through, and no change that
 * was answered is missing afterwards. */
#include "lib/base/sha256.h"
#include "tests/support/file_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

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

/* ---- what a command changes meanwhile ---- */

/* p and d are a folder, a file, a link, a FIFO, a socket or nothing, and hardly the same for a moment. */
static const char changes[] = "exec python3 -uc '\n"
                              "import itertools, os, socket\n"
                              "print(\"go\")\n"
                              "def folder(p): os.makedirs(p + \"/q/r\"); open(p + \"/q/f\", \"w\").close(); "
                              "open(p + \"/f\", \"w\").close()\n"
                              "def file(p): open(p, \"w\").write(\"a: 1\\n\")\n"
                              "def link(p): os.symlink(\"d\" if p == \"p\" else \"nowhere\", p)\n"
                              "def sock(p): socket.socket(socket.AF_UNIX).bind(p)\n"
                              "kinds = [folder, file, link, folder, os.mkfifo, sock]\n"
                              "for n in itertools.count():\n"
                              "    p = \"pd\"[n // 2 % 2]\n"
                              "    try: os.rename(p, \"old%d\" % n)\n"
                              "    except OSError: pass\n"
                              "    try: kinds[n // 4 % len(kinds)](p)\n"
                              "    except OSError: pass\n"
                              "    if n % 100 == 0: os.system(\"rm -rf old*\")\n"
                              "'";

static struct peer_exec *begin_one(int which)
{
    static const char *const paths[] = { "p", "p/f", "p/q/r/s", "d/q/f" };
    const char *path = paths[which / 12 % 4];
    switch (which % 12) {
    case 0:
    case 1:
        return file_begin(file_message("remove", "{s:s, s:b}", "path", path, "recursive", which % 12));
    case 2:
        return file_begin(file_message("mkdir", "{s:s, s:b}", "path", path, "create_parents", 1));
    case 3:
        return file_begin(
            file_message("move", "{s:s, s:s, s:b}", "source", path, "destination", "d/x", "overwrite", 1));
    case 4:
        return file_begin(file_message("move", "{s:s, s:s}", "source", "d", "destination", path));
    case 5:
    case 6:
        return file_begin(file_message(which % 12 == 5 ? "write" : "upload", "{s:s, s:b, s:i}", "path", path,
                                       "create_only", 0, "length", 5));
    case 7:
        return file_begin(
            file_message("edit", "{s:s, s:[{s:s, s:s}]}", "path", path, "edits", "old", "1", "new", "2"));
    case 8:
        return file_begin(file_message("read", "{s:s}", "path", path));
    case 9:
        return file_begin(file_message("list", "{s:s}", "path", path));
    case 10:
        return file_begin(file_message("search", "{s:s}", "pattern", "p/**"));
    default:
        return file_begin(file_message("download", "{s:s}", "path", path));
    }
}

static void expect_a_fair_answer(int which, struct peer_exec *call)
{
    static const int fair[] = { ERROR_NONE, ERROR_INVALID, ERROR_NOT_FOUND, ERROR_CONFLICT,
                                ERROR_PRECONDITION };
    const json_t *error = json_object_get(file_finish(call), "error");
    int code = (int)json_integer_value(json_object_get(error, "code"));
    for (size_t i = 0; i < N_ELEMENTS(fair); i++)
        if (fair[i] == code)
            return;
    ck_abort_msg("call %d: %d %s", which, code, json_string_value(json_object_get(error, "message")));
}

START_TEST(no_change_meanwhile_is_our_fault)
{
    enum { SECONDS = 8 };
    struct peer_exec *changer = peer_run(peer, changes, "{}");
    ck_assert(peer_until(peer, changer->out[1].length > 0, 10000));
    int64_t until = clock_boottime_ms() + SECONDS * 1000;
    for (int which = 0; clock_boottime_ms() < until; which += 6) {
        struct peer_exec *calls[6];
        for (int i = 0; i < 6; i++) {
            calls[i] = begin_one(which + i);
            if ((which + i) % 12 == 5 || (which + i) % 12 == 6)
                peer_input(peer, calls[i], "a: 1\n", 5, true);
        }
        for (int i = 0; i < 6; i++)
            expect_a_fair_answer(which + i, calls[i]);
    }
    ck_assert(!changer->closed);
}
END_TEST

/* As rm -r does, it goes: whatever the name stands for at that moment. */
START_TEST(what_changes_is_removed)
{
    enum { SECONDS = 6 };
    int gone = 0, conflicts = 0, missing = 0;
    struct peer_exec *changer = peer_run(peer, changes, "{}");
    ck_assert(peer_until(peer, changer->out[1].length > 0, 10000));
    for (int64_t until = clock_boottime_ms() + SECONDS * 1000; clock_boottime_ms() < until;) {
        struct peer_exec *call =
            file_begin(file_message("remove", "{s:s, s:b}", "path", "p", "recursive", 1));
        int code = code_of(call);
        ck_assert_msg(code == 0 || code == ERROR_CONFLICT || code == ERROR_NOT_FOUND, "%d %s", code,
                      file_refusal(call->reply));
        gone += code == 0;
        conflicts += code == ERROR_CONFLICT;
        missing += code == ERROR_NOT_FOUND;
    }
    printf("%d gone, %d missing, %d conflicts\n", gone, missing, conflicts);
    ck_assert_int_gt(gone, 10);
    ck_assert_int_lt(conflicts, gone / 10 + 1);
}
END_TEST

/* Writes the file anew in its place, each time with another letter, until it is killed. */
static pid_t rewrite_for_ever(size_t size, unsigned pause_us)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _cleanup_free_ char *bytes = xmalloc(size);
    int fd = openat(folder_fd, "f", O_WRONLY | O_CLOEXEC);
    for (int i = 0;; i++) {
        memset(bytes, 'a' + i % 26, size);
        if (pwrite(fd, bytes, size, 0) != (ssize_t)size)
            _exit(1);
        usleep(pause_us);
    }
}

/* 1 = bytes came whole, and are those that the tag names. */
static int download_once(void)
{
    struct peer_exec *call = file_begin(file_message("download", "{s:s}", "path", "f"));
    const json_t *reply = file_finish(call);
    ck_assert(peer_until(peer, call->closed, 20000));
    if (json_object_get(reply, "error")) {
        ck_assert_int_eq(code_of(call), ERROR_CONFLICT);
        return 0;
    }
    const json_t *ret = json_object_get(reply, "ret");
    if (call->broken)
        return 0;
    struct sha256 hash;
    char text[SHA256_TEXT_SIZE];
    sha256_begin(&hash);
    sha256_add(&hash, call->out[1].data, call->out[1].length);
    sha256_end(&hash, text);
    ck_assert_str_eq(ret_text(ret, "tag"), text);
    ck_assert_int_eq(ret_number(ret, "length"), (long long)call->out[1].length);
    return 1;
}

static void read_beside_a_writer(size_t size, unsigned pause_us, int least)
{
    _cleanup_free_ char *bytes = xcalloc(1, size);
    int whole = 0, status;
    folder_put("f", bytes, size);
    pid_t pid = rewrite_for_ever(size, pause_us);
    for (int64_t until = clock_boottime_ms() + 4000; clock_boottime_ms() < until;)
        whole += download_once();
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("%zu bytes: %d came whole\n", size, whole);
    ck_assert_int_ge(whole, least);
}

START_TEST(bytes_that_came_whole_are_those_that_the_tag_names)
{
    read_beside_a_writer(4096, 2000, 10);
    read_beside_a_writer(200000, 10000, 10);
    read_beside_a_writer(3000000, 60000, 0);
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
        no_change_meanwhile_is_our_fault,
        what_changes_is_removed,
        bytes_that_came_whole_are_those_that_the_tag_names,
    };
    return unit_run_tests("files together", tests, N_ELEMENTS(tests), files_set_up, files_tear_down, 120);
}
