/* Workspaces and execs through HTTP for tests: starting, following a log to its end with every promise of a
 * page checked. */
#include "lib/base/buffer.h"
#include "tests/support/instance.h"
#include "tests/support/must.h"

#include <stdio.h>

#define PAGE_BOUND 90000

void workspace_create(const struct instance *i, json_t *body, char id[static 40])
{
    json_auto_t *created = api(i, 200, "POST", "/api/workspaces", body ? body : json_object());
    snprintf(id, 40, "%s", member_text(created, "workspace_id"));
}

void workspace_terminate(const struct instance *i, const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s", id);
    json_decref(api(i, 200, "DELETE", path, NULL));
}

void exec_start(const struct instance *i, const char *ws, json_t *body, char id[static 40])
{
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs", ws);
    json_auto_t *started = api(i, 200, "POST", path, body);
    snprintf(id, 40, "%s", member_text(started, "exec_id"));
}

void exec_start_command(const struct instance *i, const char *ws, const char *command, char id[static 40])
{
    exec_start(i, ws, make_json("{s:s}", "command", command), id);
}

static size_t decode_base64(const char *text, struct buffer *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t before = out->length;
    unsigned value = 0, bits = 0;
    for (; *text && *text != '='; text++) {
        const char *at = strchr(alphabet, *text);
        must(at != NULL, "not base64: %c", *text);
        value = value << 6 | (unsigned)(at - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buffer_append_char(out, (char)(value >> bits & 255));
        }
    }
    return out->length - before;
}

struct follower {
    struct buffer out, err, late;
    struct exec_log *log;
};

static void take_output(struct follower *f, const json_t *event, bool is_out)
{
    bool late = member_flag(event, "late");
    struct buffer *to = late ? &f->late : is_out ? &f->out : &f->err;
    const json_t *raw = json_object_get(event, "data_base64"), *data = json_object_get(event, "data");
    must_hold(json_is_string(data));
    if (raw) {
        decode_base64(json_string_value(raw), to);
        return;
    }
    if (memmem(json_string_value(data), json_string_length(data), "\xef\xbf\xbd", 3))
        f->log->replacement = true;
    buffer_append(to, json_string_value(data), json_string_length(data));
}

static void take_event(struct follower *f, const json_t *event)
{
    const char *type = member_text(event, "type");
    long seq = (long)member_number(event, "seq");
    if (f->log->first_seq == 0)
        f->log->first_seq = seq;
    else
        must(seq == f->log->last_seq + 1, "seq %ld after %ld", seq, f->log->last_seq);
    f->log->last_seq = seq;
    if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
        must(!f->log->exit || member_flag(event, "late"), "output after exit that is not marked late");
        take_output(f, event, strcmp(type, "stdout") == 0);
    } else if (strcmp(type, "exit") == 0) {
        must(f->log->exit == NULL, "two exit events");
        f->log->exit = json_incref((json_t *)event);
    } else if (strcmp(type, "error") == 0) {
        f->log->error = json_incref((json_t *)event);
    }
}

static bool state_is_terminal(const char *state)
{
    return strcmp(state, "finished") == 0 || strcmp(state, "cancelled") == 0 || strcmp(state, "failed") == 0;
}

/* Takes a page; returns the next cursor. */
static long take_page(struct follower *f, const struct answer *a)
{
    const json_t *events = json_object_get(a->json, "events");
    size_t index;
    json_t *event;
    must(a->length <= PAGE_BOUND || json_array_size(events) <= 1, "page of %zu characters", a->length);
    if (json_array_size(events) > 0 && f->log->last_seq > 0 && member_flag(a->json, "cursor_expired"))
        f->log->last_seq = (long)member_number(json_array_get(events, 0), "seq") - 1;
    json_array_foreach(events, index, event)
        take_event(f, event);
    f->log->dropped = member_number(a->json, "dropped_events");
    f->log->pages++;
    const char *state = member_text(a->json, "state");
    must(!state_is_terminal(state) || f->log->exit, "state %s in a page before the exit event", state);
    if (f->log->exit)
        snprintf(f->log->state, sizeof f->log->state, "%s", state);
    return (long)member_number(a->json, "next_cursor");
}

void exec_follow(const struct instance *i, const char *ws, const char *ex, long deadline_ms,
                 struct exec_log *ret)
{
    struct follower f = { .log = ret };
    long cursor = 0;
    long long deadline = now_ms() + deadline_ms;
    memset(ret, 0, sizeof *ret);
    for (bool more = true; !ret->exit || more;) {
        char path[256];
        must(now_ms() < deadline, "exec %s did not end within %ld ms", ex, deadline_ms);
        snprintf(path, sizeof path,
                 "/api/workspaces/%s/realtime-execs/%s/events?cursor=%ld&wait_seconds=%d&max_events=500", ws,
                 ex, cursor, ret->exit ? 0 : 10);
        struct answer a = http_send(i, "GET", path, NULL);
        must(a.status == 200, "events: %ld %.300s", a.status, a.body ? a.body : "");
        cursor = take_page(&f, &a);
        more = member_flag(a.json, "has_more");
        answer_clear(&a);
    }
    ret->out_length = f.out.length;
    ret->err_length = f.err.length;
    ret->late_length = f.late.length;
    buffer_text(&f.out);
    buffer_text(&f.err);
    buffer_text(&f.late);
    ret->out = f.out.data;
    ret->err = f.err.data;
    ret->late = f.late.data;
}

void exec_log_clear(struct exec_log *log)
{
    free(log->out);
    free(log->err);
    free(log->late);
    json_decref(log->exit);
    json_decref(log->error);
    memset(log, 0, sizeof *log);
}

void exec_run(const struct instance *i, const char *ws, json_t *body, struct exec_log *ret)
{
    char ex[40];
    exec_start(i, ws, body, ex);
    exec_follow(i, ws, ex, 60000, ret);
}

void exec_run_command(const struct instance *i, const char *ws, const char *command, struct exec_log *ret)
{
    exec_run(i, ws, make_json("{s:s}", "command", command), ret);
}

void exec_send(const struct instance *i, const char *ws, const char *ex, const char *text, bool eof)
{
    char path[160];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/input", ws, ex);
    json_decref(api(i, 200, "POST", path, make_json("{s:s, s:b}", "data", text, "eof", eof)));
}

long exec_wait_output(const struct instance *i, const char *ws, const char *ex, const char *text,
                      long deadline_ms)
{
    struct buffer seen = BUFFER_INIT;
    long cursor = 0;
    long long deadline = now_ms() + deadline_ms;
    for (;;) {
        char path[256];
        size_t index;
        json_t *event;
        snprintf(path, sizeof path,
                 "/api/workspaces/%s/realtime-execs/%s/events?cursor=%ld&wait_seconds=1&max_events=500", ws,
                 ex, cursor);
        json_auto_t *page = api(i, 200, "GET", path, NULL);
        json_array_foreach(json_object_get(page, "events"), index, event) {
            const json_t *data = json_object_get(event, "data");
            if (json_is_string(data))
                buffer_append(&seen, json_string_value(data), json_string_length(data));
        }
        cursor = (long)member_number(page, "next_cursor");
        if (seen.length && memmem(seen.data, seen.length, text, strlen(text)))
            break;
        must(now_ms() < deadline, "'%s' was not written within %ld ms; seen: %.300s", text, deadline_ms,
             buffer_text(&seen));
    }
    buffer_free(&seen);
    return cursor;
}

long exec_end(const struct instance *i, const char *ws, const char *ex)
{
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?tail=1", ws, ex);
    json_auto_t *page = api(i, 200, "GET", path, NULL);
    return (long)member_number(page, "next_cursor");
}
