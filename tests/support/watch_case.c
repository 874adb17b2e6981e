/* Owns the lines of what a watch has told. */
#include "tests/support/watch_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *watch_start(json_t *body, char id[static 40])
{
    json_t *started = ws_post("file-watches", body);
    snprintf(id, 40, "%s", member_text(started, "watch_id"));
    return started;
}

json_t *watch_page(const char *fw, long long cursor, int wait_seconds)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s/events?cursor=%lld&wait_seconds=%d&max_events=500", fw,
             cursor, wait_seconds);
    return ws_get(rest);
}

json_t *watch_status(const char *fw)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s", fw);
    return ws_get(rest);
}

json_t *watch_cancel(const char *fw)
{
    char rest[200];
    snprintf(rest, sizeof rest, "file-watches/%s", fw);
    return api(the, 200, "DELETE", ws_path(rest), NULL);
}

void watch_run(const char *command)
{
    struct exec_log log;
    exec_run_command(the, ws, command, &log);
    ck_assert_msg(member_number(log.exit, "returncode") == 0, "%s: %s", command, log.err);
    exec_log_clear(&log);
}

/* ---- what was told ---- */

void heard_begin(struct heard *t, json_t *body)
{
    *t = (struct heard){ .cursor = 0 };
    json_decref(watch_start(body, t->fw));
}

void heard_end(struct heard *t)
{
    buffer_free(&t->lines);
}

static void note(struct heard *t, const json_t *event)
{
    const json_t *move = json_object_get(event, "move");
    char absolute[5000];
    ck_assert_int_eq(member_number(event, "seq"), t->cursor);
    t->cursor++;
    t->events++;
    buffer_printf(&t->lines, "%s %s", member_text(event, "type"), member_text(event, "path"));
    if (move)
        buffer_printf(&t->lines, " (%s -> %s)", member_text(move, "from"), member_text(move, "to"));
    buffer_append_char(&t->lines, '\n');
    if (!strcmp(member_text(event, "path"), "."))
        return;
    snprintf(absolute, sizeof absolute, "/workspace/%s", member_text(event, "path"));
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(event, "paths"), 0)), absolute);
}

void heard_read(struct heard *t, int wait_seconds)
{
    json_auto_t *page = watch_page(t->fw, t->cursor, wait_seconds);
    const json_t *event;
    size_t index;
    if (member_flag(page, "cursor_expired"))
        t->cursor = member_number(page, "base_cursor") - 1;
    json_array_foreach(json_object_get(page, "events"), index, event)
        note(t, event);
    ck_assert_int_eq(member_number(page, "next_cursor"), t->cursor);
    snprintf(t->state, sizeof t->state, "%s", member_text(page, "state"));
}

bool heard_has(struct heard *t, const char *line)
{
    char whole[6000];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    const char *text = buffer_text(&t->lines);
    return !strncmp(text, whole + 1, strlen(whole) - 1) || strstr(text, whole) != NULL;
}

void heard_wait(struct heard *t, const char *line)
{
    long long until = now_ms() + 15000;
    while (!heard_has(t, line)) {
        ck_assert_msg(now_ms() < until, "'%s' was not told:\n%s", line, buffer_text(&t->lines));
        heard_read(t, 2);
    }
}

size_t heard_count(struct heard *t, const char *line)
{
    size_t count = 0, length = strlen(line);
    for (const char *at = buffer_text(&t->lines); *at; at = strchr(at, '\n') + 1)
        count += !strncmp(at, line, length) && at[length] == '\n';
    return count;
}

void watch_told_once(const char *fw, const char *path)
{
    sleep_ms(30); /* for what would be one too many */
    json_auto_t *page = watch_page(fw, 0, 10);
    const json_t *events = json_object_get(page, "events"), *event = json_array_get(events, 0);
    ck_assert_msg(json_array_size(events) == 1, "%s: %zu events", path, json_array_size(events));
    ck_assert_str_eq(member_text(event, "type"), "create");
    ck_assert_str_eq(member_text(event, "path"), path);
}
