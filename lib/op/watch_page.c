/* Pages of a watch's events. Knows the store and the form of an event; no call, no waiting. */
#include "lib/op/watch_page.h"

#include "lib/base/utf8.h"
#include "lib/op/render.h"

#define ENVELOPE_ONCE  700
#define ENVELOPE_TWICE 2200
#define SHOWN_MAX      1000 /* bytes of a name that is not plain text */

struct rendering {
    const struct watch_page_request *request;
    struct buffer *out;
    struct watch_page *page;
    size_t budget, used;
    uint64_t next;
    bool expired; /* the event that stands for those that are gone is due */
    bool full;
};

static const char *const type_names[EVENT_TYPES] = {
    [EVENT_UNKNOWN] = "unknown", [EVENT_ACCESS] = "access", [EVENT_CREATE] = "create",
    [EVENT_MODIFY] = "modify",   [EVENT_REMOVE] = "remove", [EVENT_OVERFLOW] = "overflow",
};

/* ---- paths ---- */

struct path {
    const char *bytes;
    size_t length;
};

/* Names may be any bytes, and longer as text than may be: such are shown in part, and told exactly beside. */
static bool is_plain(const struct path *path)
{
    return utf8_is_valid(path->bytes, path->length) &&
           utf8_json_size(path->bytes, path->length) <= path->length + path->length / 2 + 16;
}

static void append_shown(struct buffer *out, const struct path *path, const char *before)
{
    size_t length = is_plain(path) || path->length < SHOWN_MAX ? path->length : SHOWN_MAX;
    bool is_root = path->length == 1 && path->bytes[0] == '.';
    buffer_append_char(out, '"');
    buffer_append_text(out, before);
    if (!is_root || !*before) {
        buffer_append_text(out, *before ? "/" : "");
        buffer_append_json(out, path->bytes, length);
    }
    buffer_append_char(out, '"');
}

static void append_exact(struct buffer *out, const struct path *path)
{
    buffer_append_char(out, '"');
    buffer_append_base64(out, path->bytes, path->length);
    buffer_append_char(out, '"');
}

static void render_pair(struct buffer *out, const char *name, const struct path *from, const struct path *to,
                        bool exact)
{
    render_name(out, name);
    buffer_append_text(out, "{");
    render_name(out, "from");
    exact ? append_exact(out, from) : append_shown(out, from, "");
    render_name(out, "to");
    exact ? append_exact(out, to) : append_shown(out, to, "");
    buffer_append_char(out, '}');
}

static void render_path(struct buffer *out, const struct path *path)
{
    render_name(out, "paths");
    buffer_append_char(out, '[');
    append_shown(out, path, "/workspace");
    buffer_append_char(out, ']');
    render_name(out, "path");
    append_shown(out, path, "");
    if (is_plain(path))
        return;
    render_name(out, "path_base64");
    append_exact(out, path);
}

static void render_move(struct buffer *out, const struct event *event, const struct path *path,
                        const struct path *other)
{
    bool gone = event->type == EVENT_REMOVE;
    const struct path *from = gone ? path : other, *to = gone ? other : path;
    render_pair(out, "move", from, to, false);
    if (!is_plain(from) || !is_plain(to))
        render_pair(out, "move_base64", from, to, true);
}

/* ---- events ---- */

static void split(const struct event *event, struct path *path, struct path *other)
{
    const char *nul = memchr(event->data, '\0', event->length);
    size_t length = nul ? (size_t)(nul - event->data) : event->length;
    *path = (struct path){ event->data, length };
    *other = nul ? (struct path){ nul + 1, event->length - length - 1 } : (struct path){ "", 0 };
}

static void render_event(struct buffer *out, const struct event *event)
{
    const char *type = event->type < EVENT_TYPES ? type_names[event->type] : NULL;
    struct path path, other;
    split(event, &path, &other);
    buffer_append_char(out, '{');
    render_u64(out, "seq", event->seq);
    render_time(out, "timestamp", event->wall_us);
    render_text(out, "type", type ? type : "unknown");
    render_path(out, &path);
    render_bool(out, "directory", (event->flags & EVENT_FOLDER) != 0);
    if (event->flags & EVENT_MOVED)
        render_move(out, event, &path, &other);
    if (event->type == EVENT_OVERFLOW) {
        render_bytes(out, "reason", other.bytes, other.length);
        render_bool(out, "rescan", true);
    }
    buffer_append_char(out, '}');
}

static size_t cost_since(const struct rendering *r, size_t mark)
{
    size_t once = r->out->length - mark;
    return r->request->twice ? once + utf8_json_size(r->out->data + mark, once) : once;
}

static bool put_event(struct rendering *r, const struct event *event)
{
    size_t mark = r->out->length;
    if (r->page->events > 0)
        buffer_append_char(r->out, ',');
    render_event(r->out, event);
    size_t cost = cost_since(r, mark);
    if (r->page->events > 0 && (r->used >= r->budget || cost > r->budget - r->used)) {
        r->out->length = mark;
        r->full = true;
        return false;
    }
    r->used += cost;
    r->page->events++;
    r->next = event->seq + 1;
    r->full = r->page->events >= r->request->max_events;
    return !r->full;
}

/* What fell out of the ring before it was read: one event, in the place of the last of those. */
static bool put_gap(struct rendering *r, uint64_t base, int64_t wall_us)
{
    static const char why[] = "\0ring", root[] = "/workspace/";
    const char *path = r->request->path;
    _cleanup_buffer_ struct buffer data = BUFFER_INIT;
    buffer_append_text(&data, strncmp(path, root, sizeof(root) - 1) ? "." : path + sizeof(root) - 1);
    buffer_append(&data, why, sizeof(why) - 1);
    const struct event gap = { .seq = base - 1,
                               .type = EVENT_OVERFLOW,
                               .flags = EVENT_FOLDER,
                               .wall_us = wall_us,
                               .data = data.data,
                               .length = data.length };
    r->expired = true;
    return put_event(r, &gap);
}

static bool take_event(void *user, const struct event *event)
{
    struct rendering *r = user;
    bool gap = r->page->events == 0 && event->seq > r->request->cursor;
    if (gap && !put_gap(r, event->seq, event->wall_us))
        return false;
    return put_event(r, event);
}

/* ---- the page ---- */

static void render_begin(const struct watch_page_request *request, struct buffer *out)
{
    buffer_append_char(out, '{');
    render_text(out, "workspace_id", request->workspace_id);
    render_text(out, "watch_id", request->watch_id);
    render_text(out, "path", request->path);
    render_raw(out, "events", "[");
}

static void render_end(const struct rendering *r)
{
    const struct watch_head *head = &r->page->head;
    bool has_more = r->next < head->next, ended = exec_state_is_terminal(head->state) && !has_more;
    struct buffer *out = r->out;
    buffer_append_char(out, ']');
    render_u64(out, "next_cursor", r->next);
    render_u64(out, "base_cursor", head->base);
    render_text(out, "state",
                exec_state_name(ended || !exec_state_is_terminal(head->state) ? head->state : EXEC_RUNNING));
    render_text(out, "reason", ended ? head->reason : NULL);
    render_text(out, "error", ended && head->state == EXEC_FAILED ? head->reason : NULL);
    render_u64(out, "dropped_events", head->dropped);
    render_bool(out, "cursor_expired", r->expired);
    render_bool(out, "has_more", has_more);
    buffer_append_char(out, '}');
    r->page->over = ended;
}

static size_t budget_of(const struct watch_page_request *request)
{
    size_t path = utf8_json_size(request->path, strlen(request->path));
    size_t around = request->twice ? ENVELOPE_TWICE + 3 * path : ENVELOPE_ONCE + path;
    return request->max_bytes > around ? request->max_bytes - around : 0;
}

int watch_page_render(struct events_reader *reader, const struct watch_page_request *request,
                      struct buffer *out, struct watch_page *ret, struct error *err)
{
    size_t mark = out->length;
    struct rendering r = {
        .request = request, .out = out, .page = ret, .budget = budget_of(request), .next = request->cursor
    };
    *ret = (struct watch_page){ 0 };
    render_begin(request, out);
    if (watches_read(reader, request->watch_id, request->cursor, &ret->head, take_event, &r, err) < 0) {
        out->length = mark;
        return -1;
    }
    if (ret->events == 0 && request->cursor < ret->head.base)
        put_gap(&r, ret->head.base, ret->head.finished_us);
    render_end(&r);
    return 0;
}
