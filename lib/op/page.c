/* Pages of an exec's events, from the store's bytes to JSON text in one pass. Knows the store and the form of
 * an event; no call, no waiting. */
#include "lib/op/page.h"

#include "lib/base/clock.h"
#include "lib/base/utf8.h"
#include "lib/op/render.h"

/* The answer without its events and ids, with room for numbers of any length. */
#define ENVELOPE_ONCE  400
#define ENVELOPE_TWICE 1300 /* both forms, and JSON-RPC's own members */

struct rendering {
    const struct page_request *request;
    struct buffer *out;
    struct page *page;
    size_t budget; /* in encoded bytes, as max_bytes counts them */
    size_t stop;   /* length of out where this part ends */
    bool full;     /* the page has all that it may hold */
};

static const char *const event_names[] = {
    [EVENT_STATUS] = "status", [EVENT_STDOUT] = "stdout", [EVENT_STDERR] = "stderr",
    [EVENT_ERROR] = "error",   [EVENT_EXIT] = "exit",     [EVENT_TYPES] = NULL,
};

static void render_event(struct buffer *out, const struct event *event)
{
    buffer_append_char(out, '{');
    render_u64(out, "seq", event->seq);
    render_time(out, "timestamp", event->wall_us);
    render_text(out, "type", event_names[event->type]);
    if (event->type == EVENT_STATUS || event->type == EVENT_EXIT) {
        if (event->length > 0)
            buffer_append_char(out, ',');
        buffer_append(out, event->data, event->length);
    } else {
        render_bytes(out, "data", event->data, event->length);
    }
    if (event->flags & EVENT_BINARY) {
        render_name(out, "data_base64");
        buffer_append_char(out, '"');
        buffer_append_base64(out, event->data, event->length);
        buffer_append_char(out, '"');
    }
    if (event->flags & EVENT_LATE)
        render_bool(out, "late", true);
    buffer_append_char(out, '}');
}

static void render_sse(struct buffer *out, const struct event *event)
{
    buffer_append_text(out, "id: ");
    buffer_append_u64(out, event->seq);
    buffer_append_text(out, "\nevent: ");
    buffer_append_text(out, event_names[event->type]);
    buffer_append_text(out, "\ndata: ");
    render_event(out, event);
    buffer_append_text(out, "\n\n");
}

static size_t cost_since(const struct rendering *r, size_t mark)
{
    size_t once = r->out->length - mark;

    return r->request->twice ? once + utf8_json_size(r->out->data + mark, once) : once;
}

static void append_event(struct rendering *r, const struct event *event)
{
    if (r->request->as_sse) {
        render_sse(r->out, event);
        return;
    }
    if (r->page->events > 0)
        buffer_append_char(r->out, ',');
    render_event(r->out, event);
}

static bool take_event(void *user, const struct event *event)
{
    struct rendering *r = user;
    struct page *page = r->page;
    size_t mark = r->out->length, cost;

    /* What comes next was dropped while the client was reading: that is told by the page after this one. */
    bool gap = page->events > 0 && event->seq != page->next_cursor + 1;
    r->full = gap || (page->events > 0 && event->length > r->budget - page->used);
    if (r->full)
        return false;
    append_event(r, event);
    cost = cost_since(r, mark);
    r->full = page->events > 0 && cost > r->budget - page->used;
    if (r->full) {
        r->out->length = mark;
        return false;
    }
    page->used += cost;
    page->events++;
    page->next_cursor = event->seq;
    r->full = page->events >= r->request->max_events || page->used >= r->budget;
    return !r->full && r->out->length < r->stop;
}

static size_t budget_of(const struct page_request *request)
{
    size_t ids = strlen(request->exec_id) + strlen(request->workspace_id) +
                 (request->sandbox_id ? strlen(request->sandbox_id) : 4);
    size_t envelope = request->as_sse ? 0 : request->twice ? ENVELOPE_TWICE + 2 * ids : ENVELOPE_ONCE + ids;

    return request->max_bytes > envelope ? request->max_bytes - envelope : 0;
}

static void render_begin(const struct page_request *request, struct buffer *out)
{
    buffer_append_char(out, '{');
    render_text(out, "exec_id", request->exec_id);
    render_raw(out, "events", "[");
}

static void render_end(const struct page_request *request, const struct page *page, struct buffer *out)
{
    const struct exec_head *head = &page->head;
    bool told =
        head->exit_seq > 0 && page->next_cursor >= head->exit_seq; /* else the end lies ahead of the reader */
    enum exec_state state = exec_state_is_terminal(head->state) && !told ? EXEC_RUNNING : head->state;

    buffer_append_char(out, ']');
    render_u64(out, "cursor", request->cursor);
    render_u64(out, "next_cursor", page->next_cursor);
    render_text(out, "state", exec_state_name(state));
    if (told && head->has_returncode)
        render_i64(out, "returncode", head->returncode);
    else
        render_raw(out, "returncode", "null");
    render_text(out, "sandbox_id", request->sandbox_id);
    render_text(out, "workspace_id", request->workspace_id);
    render_bool(out, "has_more", page->has_more);
    render_u64(out, "first_seq", head->first_seq);
    render_bool(out, "cursor_expired", page->expired);
    render_u64(out, "dropped_events", head->dropped_events);
    buffer_append_char(out, '}');
}

/* Where reading begins: `tail` moves it towards the end. */
static int start_of(struct events_reader *reader, const struct page_request *request, uint64_t *ret,
                    struct error *err)
{
    struct exec_head head;

    *ret = request->cursor;
    if (request->tail == 0)
        return 0;
    if (events_get_exec(reader, request->exec_id, &head, err) < 0)
        return -1;
    if (head.last_seq > request->tail && head.last_seq - request->tail > *ret)
        *ret = head.last_seq - request->tail;
    return 0;
}

void page_end(const struct page_request *request, struct page *page, struct buffer *out)
{
    page->has_more = page->next_cursor < page->head.last_seq;
    page->final = page->head.exit_seq > 0 && !page->has_more;
    page->over = true;
    if (!request->as_sse)
        render_end(request, page, out);
}

static bool is_expired(uint64_t cursor, const struct exec_head *head)
{
    return head->first_seq > 1 && cursor < head->first_seq - 1;
}

/* The first part. Its snapshot says whether the page begins behind a gap. */
static int begin(struct events_reader *reader, struct rendering *r, struct error *err)
{
    struct page *page = r->page;
    size_t mark = r->out->length;

    if (start_of(reader, r->request, &page->next_cursor, err) < 0)
        return -1;
    if (!r->request->as_sse)
        render_begin(r->request, r->out);
    if (events_read(reader, r->request->exec_id, page->next_cursor, &page->head, take_event, r, err) < 0) {
        r->out->length = mark;
        return -1;
    }
    page->expired = is_expired(r->request->cursor, &page->head);
    page->begun = true;
    return 0;
}

static void go_on(struct events_reader *reader, struct rendering *r)
{
    _cleanup_error_ struct error gone = ERROR_INIT;
    struct page *page = r->page;
    struct exec_head head;

    /* A damaged event may stop the reading behind others that are in the page by now, and stay. */
    if (events_read(reader, r->request->exec_id, page->next_cursor, &head, take_event, r, &gone) < 0)
        r->full = true;
    else
        page->head = head;
}

int page_part(struct events_reader *reader, const struct page_request *request, size_t most,
              struct page *page, struct buffer *out, struct error *err)
{
    struct rendering r = { .request = request, .out = out, .page = page, .budget = budget_of(request) };

    if (__builtin_add_overflow(out->length, most, &r.stop))
        r.stop = SIZE_MAX;
    if (page->begun)
        go_on(reader, &r);
    else if (begin(reader, &r, err) < 0)
        return -1;
    if (r.full || page->next_cursor >= page->head.last_seq)
        page_end(request, page, out);
    return 0;
}

int page_render(struct events_reader *reader, const struct page_request *request, struct buffer *out,
                struct page *ret, struct error *err)
{
    struct page page = { 0 };

    if (page_part(reader, request, SIZE_MAX, &page, out, err) < 0)
        return -1;
    *ret = page;
    return 0;
}
