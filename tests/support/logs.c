/* Owns the pattern that tests of logs write and expect. */
#include "tests/support/logs.h"

#include <check.h>
#include <stdio.h>

#define OK(call)                                                                                             \
    do {                                                                                                     \
        struct error ok_ = ERROR_INIT;                                                                       \
        ck_assert_msg((call) >= 0, "%s: %s", #call, ok_.message);                                            \
    } while (0)

struct events_writer *logs_open(const char *state_dir, const char *workspace_id, int64_t map_bytes,
                                int64_t log_bytes)
{
    struct error err = ERROR_INIT;
    struct events_options options = { state_dir, workspace_id, map_bytes, log_bytes };
    struct events_writer *w = events_writer_open(&options, &err);
    ck_assert_msg(w != NULL, "%s", err.message);
    return w;
}

void logs_add(struct events_writer *w, struct exec_head *head)
{
    json_auto_t *info = json_pack("{s:s}", "command", "true");
    *head = (struct exec_head){ .state = EXEC_RUNNING, .created_us = 1 };
    id_make(ID_EXEC, head->id);
    OK(events_begin(w, &ok_));
    OK(events_add_exec(w, head, info, NULL, NULL, &ok_));
    OK(events_commit(w, &ok_));
}

void logs_fill(char *data, size_t size, uint64_t seq)
{
    char stamp[24];
    int length = snprintf(stamp, sizeof stamp, "%020llu.", (unsigned long long)seq);
    for (size_t at = 0; at < size; at += (size_t)length)
        memcpy(data + at, stamp, size - at < (size_t)length ? size - at : (size_t)length);
}

static int write_all(struct events_writer *w, struct exec_head *head, size_t count, size_t size,
                     struct error *err)
{
    char data[EVENT_DATA_MAX];
    for (size_t i = 0; i < count; i++) {
        struct event event = {
            .type = EVENT_STDOUT, .wall_us = (int64_t)head->last_seq + 1, .data = data, .length = size
        };
        logs_fill(data, size, head->last_seq + 1);
        if (events_append(w, head, &event, err) < 0)
            return -1;
    }
    return events_put_exec(w, head, err);
}

int logs_try_write(struct events_writer *w, struct exec_head *head, size_t count, size_t size,
                   struct error *err)
{
    struct exec_head next = *head;
    if (events_begin(w, err) < 0)
        return -1;
    if (write_all(w, &next, count, size, err) < 0) {
        events_abort(w);
        return -1;
    }
    if (events_commit(w, err) < 0)
        return -1;
    *head = next;
    return 0;
}

void logs_write(struct events_writer *w, struct exec_head *head, size_t count, size_t size)
{
    OK(logs_try_write(w, head, count, size, &ok_));
}

void logs_append_text(struct events_writer *w, struct exec_head *head, enum event_type type, unsigned flags,
                      const char *text)
{
    struct event event = { .type = type, .flags = flags, .wall_us = 1, .data = text, .length = strlen(text) };
    OK(events_begin(w, &ok_));
    OK(events_append(w, head, &event, &ok_));
    OK(events_put_exec(w, head, &ok_));
    OK(events_commit(w, &ok_));
}

void logs_finish(struct events_writer *w, struct exec_head *head, int64_t finished_us)
{
    head->state = EXEC_FINISHED;
    head->finished_us = finished_us;
    logs_append_text(w, head, EVENT_EXIT, 0, "\"returncode\":0");
}

static bool see(void *user, const struct event *event)
{
    struct logs_seen *seen = user;
    char expected[EVENT_DATA_MAX];
    if (seen->count == 0)
        seen->first = event->seq;
    else if (event->seq != seen->last + 1)
        seen->broken = true;
    logs_fill(expected, event->length, event->seq);
    if (event->type == EVENT_STDOUT && memcmp(expected, event->data, event->length) != 0)
        seen->broken = true;
    seen->last = event->seq;
    seen->bytes += event->length;
    return ++seen->count != seen->limit;
}

int logs_try_read(struct events_reader *r, const char *exec_id, uint64_t cursor, struct logs_seen *ret,
                  struct exec_head *ret_head, struct error *err)
{
    *ret = (struct logs_seen){ .limit = ret->limit };
    return events_read(r, exec_id, cursor, ret_head, see, ret, err);
}

struct logs_seen logs_read(struct events_reader *r, const char *exec_id, uint64_t cursor,
                           struct exec_head *ret_head)
{
    struct logs_seen seen = { 0 };
    struct exec_head head;
    OK(logs_try_read(r, exec_id, cursor, &seen, ret_head ? ret_head : &head, &ok_));
    ck_assert_msg(!seen.broken, "a gap or wrong bytes between %llu and %llu", (unsigned long long)seen.first,
                  (unsigned long long)seen.last);
    return seen;
}
