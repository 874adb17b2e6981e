/* Places of file calls: transfers whose client stalls keep neither other kinds of calls waiting nor, for
 * long, their own; who gets no place is told so. */
#include "lib/base/io.h"
#include "tests/support/file_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>

enum { PLACES = 8, BIG = 8 << 20, SOON_MS = 3000 };

static void put(const char *name, off_t length)
{
    int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(ftruncate(fd, length), 0);
    close(fd);
}

static void set_up(void)
{
    files_set_up();
    put("big", BIG);
    put("small", 100 << 10);
}

/* ---- calls ---- */

static const json_t *soon(struct peer_exec *call)
{
    ck_assert_msg(peer_until(peer, call->closed, SOON_MS), "it waits");
    const json_t *ret = json_object_get(call->reply, "ret");
    ck_assert_ptr_nonnull(ret);
    ck_assert(!call->broken);
    return ret;
}

static struct peer_exec *begin_stalled(void)
{
    struct peer_exec *call = file_begin(file_message("download", "{s:s}", "path", "big"));
    call->holds = true;
    return call;
}

static void begin_upload(struct peer_exec *ret[static PLACES])
{
    for (int i = 0; i < PLACES; i++) {
        ret[i] = file_begin(file_message("upload", "{s:s}", "path", "stalled"));
        peer_input(peer, ret[i], "half", 4, false);
    }
}

static void stall_downloads(struct peer_exec *ret[static PLACES])
{
    for (int i = 0; i < PLACES; i++)
        ret[i] = begin_stalled();
    for (int i = 0; i < PLACES; i++)
        ck_assert(peer_until(peer, ret[i]->bytes[1] >= FRAME_WINDOW, 10000));
}

static void expect_refused(struct peer_exec *call)
{
    ck_assert_msg(peer_until(peer, call->closed, 15000), "it waits for ever");
    const json_t *error = json_object_get(call->reply, "error");
    ck_assert_int_eq(json_integer_value(json_object_get(error, "code")), ERROR_TOO_MANY);
    ck_assert_int_gt(json_integer_value(json_object_get(error, "retry_after")), 0);
    ck_assert_uint_eq(call->bytes[1], 0);
}

static void close_call(struct peer_exec *call)
{
    channel_send(peer->channel, FRAME_CLOSE, 0, call->number, NULL, 0);
    ck_assert(peer_until(peer, call->closed, SOON_MS));
}

static void looks_and_small_files_are_served(void)
{
    const json_t *ret =
        soon(file_begin(file_message("download", "{s:s, s:b}", "path", "big", "head_only", 1)));
    ck_assert_int_eq(json_integer_value(json_object_get(ret, "size")), BIG);
    struct peer_exec *small = file_begin(file_message("download", "{s:s}", "path", "small"));
    soon(small);
    ck_assert_uint_eq(small->bytes[1], 100 << 10);
    struct peer_exec *part =
        file_begin(file_message("download", "{s:s, s:i, s:i}", "path", "big", "first", 5, "last", 9));
    soon(part);
    ck_assert_uint_eq(part->bytes[1], 5);
}

/* ---- tests ---- */

START_TEST(stalled_downloads_keep_only_their_own_waiting)
{
    struct peer_exec *stalled[PLACES], *others[PLACES];
    stall_downloads(stalled);
    looks_and_small_files_are_served();
    struct peer_exec *upload = file_begin(file_message("upload", "{s:s}", "path", "new"));
    peer_input(peer, upload, "x", 1, true);
    soon(upload);
    for (int i = 0; i < PLACES; i++)
        others[i] = file_begin(file_message("download", "{s:s}", "path", "big"));
    peer_until(peer, false, 300);
    looks_and_small_files_are_served(); /* those that wait take no place of others either */
    close_call(stalled[0]);
    close_call(stalled[1]);
    for (int i = 0; i < PLACES; i++)
        soon(others[i]);
    ck_assert_uint_eq(others[0]->bytes[1], BIG);
}
END_TEST

START_TEST(stalled_uploads_keep_only_their_own_waiting)
{
    struct peer_exec *stalled[PLACES];
    begin_upload(stalled);
    looks_and_small_files_are_served();
    struct peer_exec *download = file_begin(file_message("download", "{s:s}", "path", "big"));
    soon(download);
    ck_assert_uint_eq(download->bytes[1], BIG);
    struct peer_exec *upload = file_begin(file_message("upload", "{s:s}", "path", "new"));
    peer_input(peer, upload, "x", 1, true);
    expect_refused(upload);
    ck_assert_int_ne(faccessat(folder_fd, "new", F_OK, 0), 0);
    close_call(stalled[0]);
    upload = file_begin(file_message("upload", "{s:s}", "path", "new"));
    peer_input(peer, upload, "x", 1, true);
    soon(upload);
}
END_TEST

/* Others wait in vain at first; then those that do not move lose their places, and those that do keep them.
 */
START_TEST(a_stalled_transfer_is_ended_where_others_wait)
{
    struct peer_exec *stalled[PLACES], *next = NULL;
    int64_t until = clock_boottime_ms() + 60000;
    int refused = 0;
    stall_downloads(stalled);
    while (clock_boottime_ms() < until && !stalled[1]->closed) {
        if (next && next->closed)
            expect_refused(next);
        if (!next || next->closed) {
            refused += next != NULL;
            next = begin_stalled();
        }
        channel_grant(peer->channel, stalled[0]->number, 100 << 10);
        peer_until(peer, stalled[1]->closed, 1000);
    }
    ck_assert_int_gt(refused, 0);
    ck_assert(stalled[1]->closed && stalled[1]->broken);
    ck_assert(!stalled[0]->closed);
    ck_assert(peer_until(peer, next->bytes[1] >= FRAME_WINDOW, SOON_MS));
}
END_TEST

START_TEST(a_huge_file_is_not_read_for_its_hash)
{
    static const char none[] = "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"";
    put("huge", 1ll << 40);
    const json_t *ret =
        soon(file_begin(file_message("download", "{s:s, s:b}", "path", "huge", "head_only", 1)));
    ck_assert_str_eq(json_string_value(json_object_get(ret, "tag")), "");
    peer_until(peer, false, 3500);
    ret = soon(file_begin(file_message("download", "{s:s, s:s, s:b}", "path", "huge", "if_none_match",
                                       none + 1, "head_only", 1)));
    ck_assert(json_is_false(json_object_get(ret, "known")));
    ck_assert_int_eq(strncmp(json_string_value(json_object_get(ret, "tag")), "stat:", 5), 0);
    struct peer_exec *upload =
        file_begin(file_message("upload", "{s:s, s:s}", "path", "huge", "if_match", none));
    peer_input(peer, upload, "x", 1, true);
    ck_assert(peer_until(peer, upload->closed, SOON_MS));
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(upload->reply, "error"), "code")),
                     ERROR_PRECONDITION);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        stalled_downloads_keep_only_their_own_waiting,
        stalled_uploads_keep_only_their_own_waiting,
        a_stalled_transfer_is_ended_where_others_wait,
        a_huge_file_is_not_read_for_its_hash,
    };
    return unit_run_tests("files places", tests, N_ELEMENTS(tests), set_up, files_tear_down, 120);
}
