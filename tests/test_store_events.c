/* An events environment in use: what is written comes back in order and whole, by cursor, within the limit of
 * its log. */
#include "lib/store/events_internal.h"
#include "tests/support/logs.h"
#include "tests/support/logs_case.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- writing and reading ---- */
START_TEST(what_is_written_comes_back)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head head, read;
    logs_add(w, &head);
    for (size_t size = 1; size <= EVENT_DATA_MAX; size = size * 3 + 1)
        logs_write(w, &head, 20, size);
    logs_write(w, &head, 5, EVENT_DATA_MAX);
    struct logs_seen seen = logs_read(events_writer_reader(w), head.id, 0, &read);
    ck_assert_uint_eq(seen.first, 1);
    ck_assert_uint_eq(seen.count, head.last_seq);
    ck_assert_uint_eq(seen.bytes, head.total_bytes);
    ck_assert_uint_eq(read.last_seq, head.last_seq);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    events_writer_close(w);
    /* and again after it was closed */
    w = logs_open_writer();
    seen = logs_read(events_writer_reader(w), head.id, 0, &read);
    ck_assert_uint_eq(seen.count, head.last_seq);
    events_writer_close(w);
}
END_TEST

START_TEST(a_cursor_names_the_last_seen)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head a, b;
    logs_add(w, &a);
    logs_add(w, &b);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), a.id, 0, NULL).count, 0);
    for (int i = 0; i < 10; i++) {
        logs_write(w, &a, 7, 100);
        logs_write(w, &b, 3, 3000);
    }
    for (uint64_t cursor = 0; cursor <= 70; cursor++) {
        struct logs_seen seen = logs_read(events_writer_reader(w), a.id, cursor, NULL);
        ck_assert_uint_eq(seen.count, 70 - cursor);
        ck_assert(cursor == 70 || seen.first == cursor + 1);
    }
    ck_assert_uint_eq(logs_read(events_writer_reader(w), a.id, 71, NULL).count, 0);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), a.id, UINT64_MAX, NULL).count, 0);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), b.id, 29, NULL).count, 1);
    /* a page ends where its reader says */
    struct logs_seen page = { .limit = 5 };
    struct exec_head head;
    ck_assert_int_eq(logs_try_read(events_writer_reader(w), a.id, 10, &page, &head, &logs_error), 0);
    ck_assert_uint_eq(page.count, 5);
    ck_assert_uint_eq(page.last, 15);
    ck_assert_uint_eq(head.last_seq, 70);
    events_writer_close(w);
}
END_TEST

START_TEST(unknown_execs_and_workspaces_are_not_found)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head head;
    json_t *info = NULL;
    char id[ID_SIZE];
    id_make(ID_EXEC, id);
    const char *const ids[] = { id, "", "ex-", "../../etc", "ex-0123456789abcdef0123456789abcdeF" };
    for (size_t i = 0; i < N_ELEMENTS(ids); i++) {
        ck_assert_int_eq(events_get_exec(events_writer_reader(w), ids[i], &head, &logs_error), -1);
        ck_assert_int_eq(logs_error.code, ERROR_NOT_FOUND);
        ck_assert_int_eq(events_get_exec_info(events_writer_reader(w), ids[i], &info, &logs_error), -1);
    }
    events_writer_close(w);
    struct events_cache *cache = events_cache_new(scratch, 2);
    id_make(ID_WORKSPACE, id);
    const char *const workspaces[] = { id, "", "..", "ws-1/../../x" };
    for (size_t i = 0; i < N_ELEMENTS(workspaces); i++) {
        ck_assert_ptr_null(events_cache_get(cache, workspaces[i], &logs_error));
        ck_assert_int_eq(logs_error.code, ERROR_NOT_FOUND);
        struct events_options options = { scratch, workspaces[i], 0, MB };
        ck_assert(i == 0 || events_writer_open(&options, &logs_error) == NULL);
    }
    events_cache_free(cache);
}
END_TEST

START_TEST(a_head_keeps_every_member)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head head, read;
    logs_add(w, &head);
    logs_write(w, &head, 3, 10);
    struct exec_head full = {
        .stream = head.stream,
        .state = EXEC_CANCELLED,
        .has_returncode = true,
        .timed_out = true,
        .oom_killed = true,
        .cancel_requested = true,
        .waiting_for_input = true,
        .pty = true,
        .stdin_closed = true,
        .returncode = -15,
        .signal = 15,
        .pid = 7,
        .pgid = 8,
        .created_us = 1,
        .started_us = 2,
        .finished_us = 3,
        .updated_us = 4,
        .duration_ms = 5,
        .first_seq = 1,
        .last_seq = 3,
        .exit_seq = 3,
        .log_bytes = 30,
        .dropped_events = 9,
        .dropped_bytes = 10,
        .total_bytes = 11,
        .stream_bytes = { 12, 13 },
        .stream_dropped = { 14, 15 },
        .counted = true,
        .stream_lines = { 16, 17 },
        .stream_lines_dropped = { 18, 19 },
        .counted_lines = true,
        .reason = "ENOENT: no such file",
    };
    memcpy(full.id, head.id, ID_SIZE);
    ck_assert_int_eq(events_begin(w, &logs_error), 0);
    ck_assert_int_eq(events_put_exec(w, &full, &logs_error), 0);
    ck_assert_int_eq(events_commit(w, &logs_error), 0);
    ck_assert_int_eq(events_get_exec(events_writer_reader(w), head.id, &read, &logs_error), 0);
    unsigned char a[DISK_HEAD_SIZE], b[DISK_HEAD_SIZE];
    format_head(&full, a);
    format_head(&read, b);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert(read.counted && read.stream_bytes[1] == 13 && read.stream_dropped[0] == 14);
    ck_assert(read.counted_lines && read.stream_lines[1] == 17 && read.stream_lines_dropped[0] == 18);
    ck_assert(read.has_returncode && read.timed_out && read.oom_killed && read.cancel_requested &&
              read.waiting_for_input && read.pty && read.stdin_closed);
    ck_assert_int_eq(read.state, EXEC_CANCELLED);
    ck_assert_int_eq(read.returncode, -15);
    ck_assert_str_eq(read.reason, full.reason);
    json_auto_t *info = NULL;
    ck_assert_int_eq(events_get_exec_info(events_writer_reader(w), head.id, &info, &logs_error), 0);
    ck_assert_str_eq(json_string_value(json_object_get(info, "command")), "true");
    events_writer_close(w);
}
END_TEST

START_TEST(lists_are_newest_first)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head heads[7], listed[10];
    ck_assert_int_eq(events_list_execs(events_writer_reader(w), 0, listed, 10, &logs_error), 0);
    for (size_t i = 0; i < 7; i++) {
        logs_add(w, &heads[i]);
        logs_write(w, &heads[i], 2, 5000);
    }
    ck_assert_int_eq(events_list_execs(events_writer_reader(w), 0, listed, 10, &logs_error), 7);
    for (size_t i = 0; i < 7; i++)
        ck_assert_str_eq(listed[i].id, heads[6 - i].id);
    ck_assert_int_eq(events_list_execs(events_writer_reader(w), 0, listed, 3, &logs_error), 3);
    uint32_t before = listed[2].stream;
    ck_assert_int_eq(events_list_execs(events_writer_reader(w), before, listed, 10, &logs_error), 4);
    ck_assert_str_eq(listed[0].id, heads[3].id);
    ck_assert_int_eq(events_list_execs(events_writer_reader(w), heads[0].stream, listed, 10, &logs_error), 0);
    ck_assert_int_eq(events_list_execs(events_writer_reader(w), UINT32_MAX, listed, 10, &logs_error), 7);
    events_writer_close(w);
}
END_TEST

START_TEST(an_aborted_batch_leaves_nothing)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head head, lost = { .state = EXEC_STARTING };
    json_auto_t *info = json_object();
    logs_add(w, &head);
    logs_write(w, &head, 3, 100);
    struct exec_head saved = head;
    id_make(ID_EXEC, lost.id);
    struct event event = { .type = EVENT_STDOUT, .data = "x", .length = 1 };
    ck_assert_int_eq(events_begin(w, &logs_error), 0);
    ck_assert_int_eq(events_begin(w, &logs_error), -1);
    ck_assert_int_eq(events_add_exec(w, &lost, info, "p\nkey", "d", &logs_error), 0);
    ck_assert_int_eq(events_append(w, &head, &event, &logs_error), 0);
    events_abort(w);
    ck_assert_int_eq(events_append(w, &head, &event, &logs_error), -1);
    ck_assert_int_eq(events_commit(w, &logs_error), -1);
    head = saved;
    ck_assert_int_eq(events_get_exec(events_writer_reader(w), lost.id, &lost, &logs_error), -1);
    logs_write(w, &head, 1, 10);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).count, 4);
    events_writer_close(w);
}
END_TEST

/* ---- keys ---- */
static int add_keyed(struct events_writer *w, struct exec_head *head, const char *key, const char *digest)
{
    json_auto_t *info = json_object();
    *head = (struct exec_head){ .state = EXEC_STARTING };
    id_make(ID_EXEC, head->id);
    ck_assert_int_eq(events_begin(w, &logs_error), 0);
    int result = events_add_exec(w, head, info, key, digest, &logs_error);
    if (result == 0)
        ck_assert_int_eq(events_commit(w, &logs_error), 0);
    else
        events_abort(w);
    return result;
}

START_TEST(a_key_begins_one_exec)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head first, again;
    ck_assert_int_eq(add_keyed(w, &first, "owner\nkey", "digest"), 0);
    ck_assert_int_eq(add_keyed(w, &again, "owner\nkey", "digest"), 1);
    ck_assert_str_eq(again.id, first.id);
    ck_assert_uint_eq(again.stream, first.stream);
    ck_assert_int_eq(add_keyed(w, &again, "owner\nkey", "other"), -1);
    ck_assert_int_eq(logs_error.code, ERROR_CONFLICT);
    ck_assert_int_eq(add_keyed(w, &again, "somebody\nkey", "digest"), 0);
    events_writer_close(w);
    w = logs_open_writer();
    ck_assert_int_eq(add_keyed(w, &again, "owner\nkey", "digest"), 1);
    ck_assert_str_eq(again.id, first.id);
    /* within one batch too, and a removed exec's key starts nothing */
    logs_finish(w, &first, 5);
    size_t removed;
    ck_assert_int_eq(events_begin(w, &logs_error), 0);
    ck_assert_int_eq(events_prune(w, 10, &removed, &logs_error), 0);
    ck_assert_int_eq(events_commit(w, &logs_error), 0);
    ck_assert_uint_eq(removed, 1);
    ck_assert_int_eq(add_keyed(w, &again, "owner\nkey", "digest"), -1);
    ck_assert_int_eq(logs_error.code, ERROR_CONFLICT);
    events_writer_close(w);
}
END_TEST

/* ---- limits ---- */
START_TEST(a_log_keeps_its_newest)
{
    const uint64_t limit = 300 * KB;
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, (int64_t)limit);
    struct exec_head head, read;
    logs_add(w, &head);
    for (size_t i = 0; i < 200; i++) {
        logs_write(w, &head, 1 + i % 9, 1 + i * 7919 % EVENT_DATA_MAX);
        struct logs_seen seen = logs_read(events_writer_reader(w), head.id, 0, &read);
        ck_assert_uint_eq(seen.first, read.first_seq);
        ck_assert_uint_eq(seen.last, read.last_seq);
        ck_assert_uint_eq(seen.bytes, read.log_bytes);
        ck_assert_uint_le(seen.bytes + seen.count * EVENT_COST, limit);
        ck_assert_uint_eq(read.dropped_events, read.first_seq - 1);
        ck_assert_uint_eq(read.dropped_bytes + read.log_bytes, read.total_bytes);
    }
    ck_assert_uint_gt(head.dropped_events, 300);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    events_writer_close(w);
}
END_TEST

START_TEST(space_is_used_again)
{
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 2 * MB);
    struct exec_head head;
    struct stat st;
    char *path = xasprintf("%s/events/%s/data.mdb", scratch, logs_workspace);
    logs_add(w, &head);
    for (int i = 0; i < 100; i++)
        logs_write(w, &head, 64, EVENT_DATA_MAX);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_msg(st.st_size < 8 * MB, "2 MB kept of 100 MB take %lld bytes", (long long)st.st_size);
    free(path);
    events_writer_close(w);
}
END_TEST

START_TEST(the_end_of_a_log_stays)
{
    struct events_writer *w = logs_open(scratch, logs_workspace, 64 * KB, 64 * KB);
    struct exec_head head, read;
    logs_add(w, &head);
    logs_write(w, &head, 20, 10000);
    logs_append_text(w, &head, EVENT_ERROR, 0, "lost: the keeper died");
    logs_append_text(w, &head, EVENT_EXIT, 0, "\"returncode\":null");
    uint64_t exit_seq = head.last_seq;
    ck_assert_uint_eq(head.exit_seq, exit_seq);
    char *late = xcalloc(1, 10001);
    memset(late, 'l', 10000);
    for (int i = 0; i < 50; i++)
        logs_append_text(w, &head, EVENT_STDOUT, EVENT_LATE, late);
    ck_assert_int_eq(events_get_exec(events_writer_reader(w), head.id, &read, &logs_error), 0);
    ck_assert_uint_eq(read.first_seq, exit_seq - 1);
    ck_assert_uint_eq(read.last_seq, exit_seq + 6);
    ck_assert_uint_eq(read.dropped_events, 20 + 44);
    ck_assert_uint_eq(read.dropped_bytes + read.log_bytes, read.total_bytes);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    free(late);
    events_writer_close(w);
}
END_TEST

START_TEST(old_execs_are_pruned_in_steps)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head old[5], young, running;
    size_t removed, total = 0, calls = 0;
    for (size_t i = 0; i < 5; i++) {
        logs_add(w, &old[i]);
        logs_write(w, &old[i], 700, 1000);
        logs_finish(w, &old[i], (int64_t)(1000 - i));
    }
    logs_add(w, &young);
    logs_write(w, &young, 10, 1000);
    logs_finish(w, &young, 2000);
    logs_add(w, &running);
    logs_write(w, &running, 10, 1000);
    double full = events_fill(w);
    int more = 1;
    for (; more == 1; calls++, total += removed) {
        bool own = calls % 2;
        ck_assert(own || events_begin(w, &logs_error) == 0);
        more = events_prune(w, 1500, &removed, &logs_error);
        ck_assert_int_ge(more, 0);
        ck_assert(own || events_commit(w, &logs_error) == 0);
        ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
        if (calls == 0) /* the one that finished first */
            ck_assert_int_eq(events_get_exec(events_writer_reader(w), old[4].id, &old[4], &logs_error), -1);
    }
    ck_assert_uint_eq(total, 5);
    ck_assert_uint_ge(calls, 5);
    ck_assert_msg(events_fill(w) < full / 5, "%f of %f", events_fill(w), full);
    struct exec_head listed[10];
    ck_assert_int_eq(events_list_execs(events_writer_reader(w), 0, listed, 10, &logs_error), 2);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), young.id, 0, NULL).count, 11);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), running.id, 0, NULL).count, 10);
    /* a late writer cannot raise the dead, and its number is never used again */
    ck_assert_int_eq(events_begin(w, &logs_error), 0);
    ck_assert_int_eq(events_put_exec(w, &old[0], &logs_error), -1);
    ck_assert_int_eq(logs_error.code, ERROR_NOT_FOUND);
    events_abort(w);
    logs_add(w, &old[0]);
    ck_assert_uint_gt(old[0].stream, running.stream);
    events_writer_close(w);
}
END_TEST

/* ---- a map that is too small ---- */
START_TEST(a_full_map_grows_unseen)
{
    struct events_writer *w = logs_open_writer();
    struct exec_head head, other;
    logs_add(w, &head);
    logs_add(w, &other);
    logs_write(w, &head, 2000, EVENT_DATA_MAX); /* 32 MB in one batch, from a map of 64 KB */
    logs_write(w, &other, 1, 1);
    for (int i = 0; i < 20; i++)
        logs_write(w, &other, 100, 3000);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), head.id, 0, NULL).count, 2000);
    ck_assert_uint_eq(logs_read(events_writer_reader(w), other.id, 0, NULL).count, 2001);
    ck_assert(events_fill(w) > 0.2 && events_fill(w) <= 1);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    events_writer_close(w);
}
END_TEST

/* ---- both ends ---- */
struct ends {
    uint64_t front[200], back[200];
    size_t front_count, back_count, front_limit, back_limit;
};

static bool take_front(void *user, const struct event *event)
{
    struct ends *ends = user;
    ends->front[ends->front_count++] = event->seq;
    return ends->front_count < ends->front_limit;
}

static bool take_back(void *user, const struct event *event)
{
    struct ends *ends = user;
    ends->back[ends->back_count++] = event->seq;
    return ends->back_count < ends->back_limit;
}

static void check_ends(struct events_reader *r, const char *id, size_t front, size_t back, uint64_t last)
{
    struct ends ends = { .front_limit = front, .back_limit = back };
    struct exec_head head;
    ck_assert_int_eq(events_read_ends(r, id, &head, take_front, take_back, &ends, &logs_error), 0);
    size_t count = last + 1 - head.first_seq;
    ck_assert_uint_eq(ends.front_count, front < count ? front : count);
    ck_assert_uint_eq(ends.back_count, back < count - ends.front_count ? back : count - ends.front_count);
    for (size_t i = 0; i < ends.front_count; i++)
        ck_assert_uint_eq(ends.front[i], head.first_seq + i);
    for (size_t i = 0; i < ends.back_count; i++)
        ck_assert_uint_eq(ends.back[i], last - i);
}

START_TEST(both_ends_never_meet_twice)
{
    struct events_writer *w = logs_open_writer();
    struct events_reader *r = events_writer_reader(w);
    struct exec_head head, other;
    struct ends none = { .front_limit = 1, .back_limit = 1 };
    logs_add(w, &head);
    ck_assert_int_eq(events_read_ends(r, head.id, &other, take_front, take_back, &none, &logs_error), 0);
    ck_assert_uint_eq(none.front_count + none.back_count, 0);
    logs_add(w, &other);
    logs_write(w, &head, 100, 3000);
    logs_write(w, &other, 5, 3000); /* lies behind in the tree */
    check_ends(r, head.id, 1, 1, 100);
    check_ends(r, head.id, 10, 20, 100);
    check_ends(r, head.id, 60, 60, 100);
    check_ends(r, head.id, 100, 100, 100);
    check_ends(r, head.id, 150, 1, 100);
    logs_finish(w, &head, 5);
    logs_append_text(w, &head, EVENT_STDOUT, EVENT_LATE, "late");
    check_ends(r, head.id, 3, 3, 101);
    check_ends(r, head.id, 150, 1, 101);
    events_writer_close(w);
}
END_TEST

static bool add_to_streams(void *user, const struct event *event)
{
    uint64_t *kept = user;
    if ((event->type == EVENT_STDOUT || event->type == EVENT_STDERR) && !(event->flags & EVENT_LATE))
        kept[event->type == EVENT_STDERR] += event->length;
    for (size_t at = 0; at < event->length; at++)
        kept[2 + (event->type == EVENT_STDERR)] += event->data[at] == '\n';
    return true;
}

/* What each stream wrote and lost is exact over any mixture, also beyond the log's limit. */
START_TEST(streams_are_counted)
{
    struct events_writer *w = logs_open(scratch, logs_workspace, 1 << 20, 200000);
    struct exec_head head, read;
    uint64_t written[2] = { 0 }, kept[4] = { 0 }, lines[2] = { 0 }; /* kept: bytes, then lines */
    logs_add(w, &head);
    for (size_t i = 0; i < 600; i++) {
        char text[1000];
        size_t length = i * 7 % sizeof text;
        bool is_stderr = i % 3 == 0;
        memset(text, 'x', length);
        text[length] = '\0';
        for (size_t at = i % 11; at < length; at += 1 + i % 37, lines[is_stderr]++)
            text[at] = '\n';
        logs_append_text(w, &head, is_stderr ? EVENT_STDERR : EVENT_STDOUT, 0, text);
        written[is_stderr] += length;
        if (i % 50 == 0)
            logs_append_text(w, &head, EVENT_STATUS, 0, "\"state\":\"running\"");
    }
    logs_finish(w, &head, 5);
    logs_append_text(w, &head, EVENT_STDOUT, EVENT_LATE, "late output is not counted");
    ck_assert_int_eq(events_get_exec(events_writer_reader(w), head.id, &read, &logs_error), 0);
    ck_assert(read.counted && read.counted_lines && read.dropped_events > 0);
    ck_assert_int_eq(
        events_read(events_writer_reader(w), head.id, 0, &read, add_to_streams, kept, &logs_error), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(read.stream_bytes[i], written[i]);
        ck_assert_uint_eq(read.stream_bytes[i] - read.stream_dropped[i], kept[i]);
        ck_assert_uint_eq(read.stream_lines[i], lines[i]);
        ck_assert_uint_eq(read.stream_lines[i] - read.stream_lines_dropped[i], kept[2 + i]);
    }
    events_writer_close(w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        what_is_written_comes_back, a_cursor_names_the_last_seen,  unknown_execs_and_workspaces_are_not_found,
        a_head_keeps_every_member,  lists_are_newest_first,        an_aborted_batch_leaves_nothing,
        a_key_begins_one_exec,      a_log_keeps_its_newest,        space_is_used_again,
        the_end_of_a_log_stays,     old_execs_are_pruned_in_steps, a_full_map_grows_unseen,
        both_ends_never_meet_twice, streams_are_counted,
    };
    return unit_run_tests("store_events", tests, N_ELEMENTS(tests), logs_set_up, logs_tear_down, 120);
}
