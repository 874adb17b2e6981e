/* Owns the events environment of a test and the log of its exec. */
#include "tests/support/log_case.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/utf8.h"
#include "lib/op/op.h"

#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SANDBOX "sb-0123456789abcdef0123456789abcdef"

struct kept kept;
char kept_directory[] = "/tmp/test-page-XXXXXX";

void kept_set_up(void)
{
    struct events_options options = { kept_directory, KEPT_WORKSPACE, 64 << 20, 1 << 30 };
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_ptr_nonnull(mkdtemp(kept_directory));
    kept.writer = events_writer_open(&options, &err);
    ck_assert_msg(kept.writer != NULL, "%s", err.message);
    kept.reader = events_writer_reader(kept.writer);
}

void kept_tear_down(void)
{
    events_writer_close(kept.writer);
    io_remove_tree(AT_FDCWD, kept_directory, NULL);
    strcpy(kept_directory + strlen(kept_directory) - 6, "XXXXXX");
}

void kept_begin(void)
{
    json_auto_t *info = json_pack("{s:s}", "command", "true");
    _cleanup_error_ struct error err = ERROR_INIT;

    memset(&kept.head, 0, sizeof kept.head);
    id_make(ID_EXEC, kept.head.id);
    kept.head.created_us = kept.head.updated_us = clock_wall_us();
    ck_assert_int_eq(events_begin(kept.writer, &err), 0);
    ck_assert_int_eq(events_add_exec(kept.writer, &kept.head, info, NULL, NULL, &err), 0);
    ck_assert_int_eq(events_commit(kept.writer, &err), 0);
}

void kept_add(enum event_type type, unsigned flags, const void *data, size_t length)
{
    struct event event = {
        .type = type, .flags = flags, .wall_us = 1700000000123456, .data = data, .length = length
    };
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_int_eq(events_begin(kept.writer, &err), 0);
    ck_assert_msg(events_append(kept.writer, &kept.head, &event, &err) == 0, "%s", err.message);
    ck_assert_int_eq(events_put_exec(kept.writer, &kept.head, &err), 0);
    ck_assert_int_eq(events_commit(kept.writer, &err), 0);
}

/* As the keeper does: one transaction for the lot. */
void kept_write(enum event_type type, const char *data, size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    ck_assert_int_eq(events_begin(kept.writer, &err), 0);
    while (length > 0) {
        unsigned flags = 0;
        size_t part = events_cut(data, length, true, &flags);
        struct event event = {
            .type = type, .flags = flags, .wall_us = 1700000000123456, .data = data, .length = part
        };
        ck_assert_msg(events_append(kept.writer, &kept.head, &event, &err) == 0, "%s", err.message);
        data += part;
        length -= part;
    }
    ck_assert_int_eq(events_put_exec(kept.writer, &kept.head, &err), 0);
    ck_assert_int_eq(events_commit(kept.writer, &err), 0);
}

void kept_end(void)
{
    static const char members[] = "\"returncode\":0,\"signal\":null,\"timed_out\":false,\"oom_killed\":false,"
                                  "\"state\":\"finished\",\"duration_ms\":5";

    kept.head.state = EXEC_FINISHED;
    kept.head.has_returncode = true;
    kept.head.exit_seq = kept.head.last_seq + 1;
    kept.head.finished_us = clock_wall_us();
    kept_add(EVENT_EXIT, 0, members, sizeof members - 1);
}

void kept_fill(char *data, size_t length, int kind)
{
    static const char *const emoji = "\xf0\x9f\x98\x80", *const han = "\xe6\xbc\xa2";
    uint32_t random = 1;

    for (size_t i = 0; i < length; i++) {
        random = random * 1103515245 + 12345;
        switch (kind) {
        case 0:
            data[i] = '\0';
            break;
        case 1:
            data[i] = '"';
            break;
        case 2:
            data[i] = '\\';
            break;
        case 3:
            data[i] = emoji[i % 4];
            break;
        case 4:
            data[i] = han[i % 3];
            break;
        case 5:
            data[i] = (char)(random >> 16);
            break;
        case 6:
            data[i] = '\xff';
            break;
        case 7:
            data[i] = "\x1b[1;31m\"\\\t"[i % 10];
            break;
        default:
            data[i] = (char)('a' + i % 26);
            break;
        }
    }
}

/* ---- pages of it ---- */

struct page_request kept_request(uint64_t cursor)
{
    return (struct page_request){ .workspace_id = KEPT_WORKSPACE,
                                  .sandbox_id = SANDBOX,
                                  .exec_id = kept.head.id,
                                  .cursor = cursor,
                                  .max_events = 500,
                                  .max_bytes = 90000 };
}

json_t *kept_render(const struct page_request *request, struct page *page)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *value;

    ck_assert_msg(page_render(kept.reader, request, &out, page, &err) == 0, "%s", err.message);
    value = json_loadb(out.data, out.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    ck_assert_msg(value != NULL, "%.*s", (int)(out.length < 400 ? out.length : 400), out.data);
    ck_assert_msg(field_check_result(op_find("getRealtimeWorkspaceExecEvents")->result, value, &err) == 0,
                  "%s", err.message);
    if (page->events > 1 || request->max_bytes >= 90000)
        ck_assert_uint_le(out.length + (request->twice ? utf8_json_size(out.data, out.length) + 400 : 0),
                          request->max_bytes);
    return value;
}

bool kept_says(const json_t *value, const char *name, const char *wanted)
{
    const char *text = json_string_value(json_object_get(value, name));

    return text && !strcmp(text, wanted);
}
