/* Follows one log. It knows the promises of a page and of an event, not what the command writes. */
#include "tests/chaos/chase.h"

#include "lib/base/base64.h"
#include "tests/chaos/work.h"

#include <curl/curl.h>
#include <stdio.h>

#define PAGE_BOUND 90000

void chase_begin(struct chase *c, const struct entry *e)
{
    memset(c, 0, sizeof *c);
    c->entry = e;
    c->more = true;
}

void chase_clear(struct chase *c)
{
    buffer_free(&c->out);
    buffer_free(&c->err);
    buffer_free(&c->late);
    buffer_free(&c->line);
    json_decref(c->exit);
    memset(c, 0, sizeof *c);
}

enum visit visit_judge(const char *what, const struct answer *a)
{
    const char *type = json_string_value(json_object_get(a->json, "type"));
    bool of_gateway = type != NULL; /* else the web server's own */
    atomic_fetch_add(&ledger->tries, 1);
    switch (a->status) {
    case 200:
        return VISIT_DONE;
    case 404:
        return VISIT_GONE;
    case 409:
        return VISIT_CONFLICT;
    case 0: /* refused, reset, cut */
    case 429:
    case 502:
    case 503:
    case 504:
    case 507:
        return VISIT_AGAIN;
    case 500:
        if (!of_gateway)
            return VISIT_AGAIN;
        break;
    default:
        break;
    }
    fail("%s: status %ld: %.400s", what, a->status, a->body ? a->body : "");
    return VISIT_BROKEN;
}

/* ---- events ---- */

static void take_output(struct chase *c, const json_t *event, struct buffer *to)
{
    const json_t *data = json_object_get(event, "data"), *raw = json_object_get(event, "data_base64");
    if (raw) {
        if (!base64_decode(json_string_value(raw), json_string_length(raw), to))
            fail("%s: data_base64 is none", c->entry->id);
    } else {
        buffer_append(to, json_string_value(data), json_string_length(data));
    }
}

/* What was read so far and what follows do not touch. */
static void skip_to(struct chase *c, unsigned long seq)
{
    c->expired = true;
    c->cursor = seq - 1;
    c->out.length = c->err.length = c->late.length = 0;
}

static void take_event(struct chase *c, const json_t *event)
{
    const char *type = member_text(event, "type");
    unsigned long seq = (unsigned long)member_number(event, "seq");
    bool late = member_flag(event, "late"), out = strcmp(type, "stdout") == 0;
    if (seq != c->cursor + 1)
        fail("%s: seq %lu after %lu", c->entry->id, seq, c->cursor);
    c->cursor = seq;
    atomic_fetch_add(&ledger->events, 1);
    if (out || strcmp(type, "stderr") == 0) {
        if (c->exit && !late)
            fail("%s: output after exit that is not marked late", c->entry->id);
        take_output(c, event, late ? &c->late : out ? &c->out : &c->err);
    } else if (strcmp(type, "error") == 0) {
        snprintf(c->error, sizeof c->error, "%s", member_text(event, "data"));
    } else if (strcmp(type, "exit") == 0) {
        if (c->exit)
            fail("%s: two exit events", c->entry->id);
        c->exit = json_incref((json_t *)event);
        c->ended = true;
    }
}

/* ---- pages ---- */

static bool is_terminal(const char *state)
{
    return strcmp(state, "finished") == 0 || strcmp(state, "cancelled") == 0 || strcmp(state, "failed") == 0;
}

static void take_page(struct chase *c, const struct answer *a)
{
    const json_t *events = json_object_get(a->json, "events");
    size_t index, count = json_array_size(events);
    json_t *event;
    if (!json_is_array(events)) {
        fail("%s: a page without events: %.300s", c->entry->id, a->body ? a->body : "");
        return;
    }
    if (a->length > PAGE_BOUND && count > 1)
        fail("%s: a page of %zu characters", c->entry->id, a->length);
    if (count > 0 && member_flag(a->json, "cursor_expired"))
        skip_to(c, (unsigned long)member_number(json_array_get(events, 0), "seq"));
    json_array_foreach(events, index, event)
        take_event(c, event);
    if (count > 0 && (unsigned long)member_number(a->json, "next_cursor") != c->cursor)
        fail("%s: next_cursor is %lld after event %lu", c->entry->id, member_number(a->json, "next_cursor"),
             c->cursor);
    c->more = member_flag(a->json, "has_more");
    snprintf(c->state, sizeof c->state, "%s", member_text(a->json, "state"));
    if (is_terminal(c->state) != c->ended)
        fail("%s: state %s in a page %s the exit event", c->entry->id, c->state,
             c->ended ? "after" : "before");
}

static enum visit events_of_live_place(const struct chase *c, enum visit v)
{
    if (v == VISIT_CONFLICT)
        fail("%s: reading events is a conflict", c->entry->id);
    if (v == VISIT_GONE && atomic_load(&c->entry->state) != ENTRY_REMOVED &&
        atomic_load(&entry_place(c->entry)->state) != PLACE_REMOVED)
        fail("%s of %s: not found, but it was never removed", c->entry->id, entry_place(c->entry)->id);
    return v;
}

enum visit chase_page(struct chase *c, const struct instance *i, int wait_seconds, uint64_t *random)
{
    char path[300];
    snprintf(path, sizeof path,
             "/api/workspaces/%s/realtime-execs/%s/events?cursor=%lu&wait_seconds=%d&max_events=%u",
             entry_place(c->entry)->id, c->entry->id, c->cursor, wait_seconds,
             random ? random_between(random, 1, 500) : 500);
    struct http_options o = { .unchecked = true, .timeout_ms = wait_seconds * 1000 + 10000 };
    struct answer a = http_send(i, "GET", path, &o);
    enum visit v = events_of_live_place(c, visit_judge(path, &a));
    if (v == VISIT_DONE) {
        atomic_fetch_add(&ledger->pages, 1);
        take_page(c, &a);
    }
    answer_clear(&a);
    return v;
}

/* ---- streams ---- */

/* The stream broke off: judged as the answer to a request would be. */
static void take_problem(struct chase *c, json_t *problem)
{
    const char *type = json_string_value(json_object_get(problem, "type"));
    if (!type || strcmp(type, "InternalError") == 0)
        fail("%s: its stream ended with %.200s: %.300s", c->entry->id, type ? type : "no type",
             json_string_value(json_object_get(problem, "error")));
}

static void take_line(struct chase *c, const char *line, size_t length)
{
    if (length < 6 || memcmp(line, "data: ", 6) != 0)
        return;
    json_auto_t *event = json_loadb(line + 6, length - 6, JSON_ALLOW_NUL, NULL);
    if (!event) {
        fail("%s: an event of a stream is not JSON: %.200s", c->entry->id, line);
        return;
    }
    if (!json_is_integer(json_object_get(event, "seq"))) {
        take_problem(c, event);
        return;
    }
    unsigned long seq = (unsigned long)member_number(event, "seq");
    if (seq > c->cursor + 1 && (work_flags(c->entry->kind) & WORK_LONG))
        skip_to(c, seq);
    take_event(c, event);
}

static size_t take_stream(char *data, size_t size, size_t count, void *user)
{
    struct chase *c = user;
    buffer_append(&c->line, data, size * count);
    const char *end;
    size_t used = 0;
    while ((end = memchr(c->line.data + used, '\n', c->line.length - used))) {
        take_line(c, c->line.data + used, (size_t)(end - c->line.data) - used);
        used = (size_t)(end - c->line.data) + 1;
    }
    buffer_consume(&c->line, used);
    return size * count;
}

static struct curl_slist *stream_headers(const struct chase *c)
{
    char line[120];
    snprintf(line, sizeof line, "Authorization: Bearer %s", ledger->token);
    struct curl_slist *list = curl_slist_append(NULL, line);
    list = curl_slist_append(list, "Accept: text/event-stream");
    snprintf(line, sizeof line, "Last-Event-ID: %lu", c->cursor);
    return curl_slist_append(list, line);
}

enum visit chase_stream(struct chase *c, const struct instance *i, long ms)
{
    char url[300];
    struct answer a = { 0 };
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = stream_headers(c);
    c->line.length = 0;
    snprintf(url, sizeof url, "%s/api/workspaces/%s/realtime-execs/%s/events", instance_url(i),
             entry_place(c->entry)->id, c->entry->id);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_stream);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, c);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a.status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    atomic_fetch_add(&ledger->streams, 1);
    c->more = !c->ended;
    if (code != CURLE_OK && a.status == 200)
        return VISIT_AGAIN;
    return events_of_live_place(c, visit_judge(url, &a));
}
