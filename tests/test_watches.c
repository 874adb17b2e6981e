/* Watches in a real events environment: the ring, what it drops, how one is pruned, pages whose bounds hold
 * for whatever names, and lists. */
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/utf8.h"
#include "lib/op/ops.h"
#include "lib/op/watch_page.h"
#include "lib/store/events_internal.h"
#include "lib/store/watches.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>

#define WORKSPACE "ws-0123456789abcdef0123456789abcdef"

static char directory[] = "/tmp/test-watches-XXXXXX";
static struct events_writer *writer;
static struct events_reader *reader;
static struct watch_head head;

static void set_up(void)
{
    struct events_options options = { directory, WORKSPACE, 64 << 20, 1 << 30 };
    ck_assert_ptr_nonnull(mkdtemp(directory));
    writer = events_writer_open(&options, NULL);
    ck_assert_ptr_nonnull(writer);
    reader = events_writer_reader(writer);
    json_auto_t *info = json_pack("{s:s}", "path", "/workspace/src");
    head = (struct watch_head){ .state = EXEC_RUNNING, .created_us = clock_wall_us() };
    id_make(ID_WATCH, head.id);
    ck_assert_int_eq(events_begin(writer, NULL), 0);
    ck_assert_int_eq(watches_add(writer, &head, info, NULL), 0);
    ck_assert_int_eq(events_commit(writer, NULL), 0);
}

static void tear_down(void)
{
    ck_assert_int_eq(events_verify(reader, NULL), 0);
    events_writer_close(writer);
    io_remove_tree(AT_FDCWD, directory, NULL);
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
}

static void append(enum event_type type, unsigned flags, const void *data, size_t length)
{
    struct event event = {
        .type = type, .flags = flags, .wall_us = 1700000000123456, .data = data, .length = length
    };
    ck_assert_int_eq(watches_append(writer, &head, &event, NULL), 0);
    ck_assert_uint_eq(event.seq, head.next - 1);
}

static void begin(void)
{
    ck_assert_int_eq(events_begin(writer, NULL), 0);
}

static void commit(void)
{
    ck_assert_int_eq(watches_put(writer, &head, NULL), 0);
    ck_assert_int_eq(events_commit(writer, NULL), 0);
}

static void append_many(size_t count)
{
    begin();
    for (size_t i = 0; i < count; i++)
        append(EVENT_CREATE, 0, "a/b", 3);
    commit();
}

struct seen {
    uint64_t first, next;
    size_t count;
};

static bool take(void *user, const struct event *event)
{
    struct seen *seen = user;
    if (seen->count++ == 0)
        seen->first = seen->next = event->seq;
    ck_assert_uint_eq(event->seq, seen->next);
    seen->next++;
    return true;
}

static struct seen read_from(uint64_t cursor)
{
    struct seen seen = { 0 };
    struct watch_head found;
    ck_assert_int_eq(watches_read(reader, head.id, cursor, &found, take, &seen, NULL), 0);
    ck_assert(found.next == head.next && found.base == head.base && found.dropped == head.dropped);
    return seen;
}

START_TEST(seqs_count_from_zero_and_a_cursor_is_the_next)
{
    append_many(3);
    struct seen all = read_from(0), last = read_from(2), none = read_from(3);
    ck_assert(all.first == 0 && all.count == 3);
    ck_assert(last.first == 2 && last.count == 1);
    ck_assert_uint_eq(none.count, 0);
}
END_TEST

START_TEST(the_ring_keeps_the_newest)
{
    append_many(WATCH_RING);
    ck_assert_uint_eq(head.base, 0);
    append_many(5);
    ck_assert(head.base == 5 && head.next == WATCH_RING + 5 && head.dropped == 5);
    struct seen seen = read_from(2);
    ck_assert(seen.first == 5 && seen.count == WATCH_RING);
    begin();
    ck_assert_int_eq(watches_skip(writer, &head, 10000, NULL), 0);
    append(EVENT_REMOVE, 0, "x", 1);
    commit();
    ck_assert(head.base == WATCH_RING + 10005 && head.dropped == WATCH_RING + 10005);
    seen = read_from(0);
    ck_assert(seen.first == head.base && seen.count == 1);
}
END_TEST

START_TEST(ended_ones_are_listed_and_pruned)
{
    struct watch_head found;
    struct watch_head list[4];
    size_t removed = 0;
    append_many(700);
    ck_assert_int_eq(watches_list(reader, 0, list, 4, NULL), 1);
    begin();
    head.state = EXEC_FAILED;
    head.finished_us = 1700000000000000;
    strcpy(head.reason, "lost: for a test");
    commit();
    ck_assert_int_eq(watches_get(reader, head.id, &found, NULL), 0);
    ck_assert_str_eq(found.reason, "lost: for a test");
    while (events_prune(writer, clock_wall_us(), &removed, NULL) > 0)
        ;
    _cleanup_error_ struct error err = ERROR_INIT;
    ck_assert_int_eq(watches_get(reader, head.id, &found, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_int_eq(watches_list(reader, 0, list, 4, NULL), 0);
    struct exec_head execs[4];
    ck_assert_int_eq(events_list_execs(reader, 0, execs, 4, NULL), 0);
}
END_TEST

/* ---- pages ---- */

static json_t *page_at(uint64_t cursor, size_t max_bytes, bool twice, struct watch_page *ret)
{
    const struct watch_page_request request = { .workspace_id = WORKSPACE,
                                                .watch_id = head.id,
                                                .path = "/workspace/src",
                                                .cursor = cursor,
                                                .max_events = 500,
                                                .max_bytes = max_bytes,
                                                .twice = twice };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    ck_assert_int_eq(watch_page_render(reader, &request, &out, ret, NULL), 0);
    ck_assert(utf8_is_valid(out.data, out.length));
    size_t whole = twice ? out.length + utf8_json_size(out.data, out.length) : out.length;
    ck_assert_uint_le(whole, max_bytes);
    json_error_t problem;
    json_t *page = json_loadb(out.data, out.length, JSON_REJECT_DUPLICATES, &problem);
    ck_assert_msg(page != NULL, "%s: %s", problem.text, buffer_text(&out));
    return page;
}

/* Both names as long and as odd as they may be. */
static void append_odd(unsigned char byte)
{
    char data[2 * 4095 + 1];
    memset(data, byte, sizeof data);
    data[4095] = '\0';
    append(EVENT_REMOVE, EVENT_MOVED, data, sizeof data);
}

START_TEST(any_names_make_a_page)
{
    static const unsigned char bytes[] = { 'a', 1, 0xff, '"', '\\', 0x7f, 0xe2 };
    begin();
    for (size_t i = 0; i < sizeof bytes; i++)
        append_odd(bytes[i]);
    append(EVENT_OVERFLOW, EVENT_FOLDER, "src\0queue", 9);
    commit();
    for (int twice = 0; twice < 2; twice++) {
        size_t count = 0;
        for (uint64_t cursor = 0; cursor < head.next;) {
            struct watch_page page;
            json_auto_t *json = page_at(cursor, 90000, twice, &page);
            ck_assert_uint_ge(page.events, 1);
            cursor = (uint64_t)json_integer_value(json_object_get(json, "next_cursor"));
            count += page.events;
        }
        ck_assert_uint_eq(count, sizeof bytes + 1);
    }
}
END_TEST

START_TEST(what_is_exact_is_told_exactly)
{
    struct watch_page page;
    begin();
    append(EVENT_CREATE, EVENT_FOLDER, "a\377", 2);
    commit();
    json_auto_t *json = page_at(0, 90000, false, &page);
    const json_t *event = json_array_get(json_object_get(json, "events"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(event, "path_base64")), "Yf8=");
    ck_assert(json_is_true(json_object_get(event, "directory")));
    ck_assert_ptr_null(json_object_get(event, "move"));
}
END_TEST

START_TEST(what_left_the_ring_is_one_overflow)
{
    struct watch_page page;
    append_many(WATCH_RING + 10);
    json_auto_t *json = page_at(3, 90000, false, &page);
    const json_t *event = json_array_get(json_object_get(json, "events"), 0);
    ck_assert(json_is_true(json_object_get(json, "cursor_expired")));
    ck_assert_int_eq(json_integer_value(json_object_get(event, "seq")), 9);
    ck_assert_str_eq(json_string_value(json_object_get(event, "reason")), "ring");
    ck_assert_str_eq(json_string_value(json_object_get(event, "path")), "src");
    ck_assert(json_is_true(json_object_get(event, "rescan")));
    json_auto_t *at_base = page_at(10, 90000, false, &page);
    ck_assert(json_is_false(json_object_get(at_base, "cursor_expired")));
}
END_TEST

START_TEST(the_end_is_told_with_the_last_event)
{
    struct watch_page page;
    append_many(2);
    begin();
    head.state = EXEC_FINISHED;
    head.finished_us = clock_wall_us();
    strcpy(head.reason, "watch_timeout");
    commit();
    const struct watch_page_request request = { WORKSPACE, head.id, "/workspace", 0, 1, 90000, false };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    ck_assert_int_eq(watch_page_render(reader, &request, &out, &page, NULL), 0);
    ck_assert(!page.over && strstr(buffer_text(&out), "\"state\":\"running\"") != NULL);
    json_auto_t *last = page_at(1, 90000, false, &page);
    ck_assert(page.over);
    ck_assert_str_eq(json_string_value(json_object_get(last, "state")), "finished");
    ck_assert(json_is_null(json_object_get(last, "error")));
}
END_TEST

/* ---- lists ---- */

static void add_exec(struct exec_head *exec)
{
    json_auto_t *info = json_pack("{s:s}", "command", "true");
    *exec = (struct exec_head){ .state = EXEC_RUNNING, .created_us = clock_wall_us() };
    id_make(ID_EXEC, exec->id);
    begin();
    ck_assert_int_eq(events_add_exec(writer, exec, info, NULL, NULL, NULL), 0);
    ck_assert_int_eq(events_commit(writer, NULL), 0);
}

static char *listed(struct events_cache *cache, const struct op *op)
{
    struct call call = { .events = cache,
                         .workspace = json_pack("{s:s}", "workspace_id", WORKSPACE),
                         .in = json_pack("{s:i, s:i}", "limit", 50, "cursor", 0) };
    _cleanup_error_ struct error err = ERROR_INIT;
    ck_assert_msg(op->run(&call, &err) == OP_DONE, "%s: %s", op->id, err.message);
    char *text = call.result ? json_dumps(call.result, 0) : xstrdup(buffer_text(&call.body));
    call_clear(&call);
    return text;
}

/* As where it is pruned after the list is read, and before its description is. */
START_TEST(a_list_leaves_out_what_is_gone)
{
    struct exec_head execs[2];
    const struct events_options options = { directory, WORKSPACE, 64 << 20, 1 << 30 };
    add_exec(&execs[0]);
    add_exec(&execs[1]);
    const struct events_key keys[] = { key_id(execs[1].id), key_id(head.id) };
    begin();
    for (size_t i = 0; i < N_ELEMENTS(keys); i++)
        ck_assert_int_eq(batch_delete(writer, &keys[i], NULL), 0);
    ck_assert_int_eq(events_commit(writer, NULL), 0);
    events_writer_close(writer);

    struct events_cache *cache = events_cache_new(directory, 1);
    _cleanup_free_ char *watches = listed(cache, &op_list_watches), *commands = listed(cache, &op_list_execs);
    ck_assert_str_eq(watches, "[]");
    json_auto_t *page = json_loads(commands, 0, NULL);
    const json_t *list = json_object_get(page, "execs");
    ck_assert_msg(json_array_size(list) == 1, "%s", commands);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "exec_id")), execs[0].id);
    events_cache_free(cache);

    writer = events_writer_open(&options, NULL);
    reader = events_writer_reader(writer);
    begin();
    ck_assert_int_eq(batch_put_id(writer, execs[1].id, execs[1].stream, NULL), 0);
    ck_assert_int_eq(batch_put_id(writer, head.id, head.stream, NULL), 0);
    ck_assert_int_eq(events_commit(writer, NULL), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { seqs_count_from_zero_and_a_cursor_is_the_next,
                                   the_ring_keeps_the_newest,
                                   ended_ones_are_listed_and_pruned,
                                   any_names_make_a_page,
                                   what_is_exact_is_told_exactly,
                                   what_left_the_ring_is_one_overflow,
                                   the_end_is_told_with_the_last_event,
                                   a_list_leaves_out_what_is_gone };
    return unit_run_tests("watches", tests, sizeof tests / sizeof *tests, set_up, tear_down, 30);
}
