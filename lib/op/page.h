/* Pages of an exec's events as JSON text (or server-sent events), straight from the store without a JSON
 * tree. DESIGN: the page is bounded by its encoded size, holds at least one event where there is one, and its
 * state is terminal only where it (or an earlier page) carried the final event. */
#ifndef OP_PAGE_H
#define OP_PAGE_H

#include "lib/base/buffer.h"
#include "lib/store/events.h"

struct page_request {
    const char *workspace_id, *sandbox_id, *exec_id;
    uint64_t cursor;
    size_t max_events, max_bytes, tail; /* tail 0 = not asked */
    bool twice;                         /* MCP: max_bytes bounds text and structured content together */
    bool as_sse;
};
struct page {
    size_t events;
    uint64_t next_cursor;
    bool has_more, final; /* final: the exec is over and nothing is left after next_cursor */
    struct exec_head head;
    /* of one that is made in parts */
    bool begun, over, expired;
    size_t used;
};
int page_render(struct events_reader *reader, const struct page_request *request, struct buffer *out,
                struct page *ret, struct error *err);
/* The same in parts: appends the next about `most` bytes; page is zero at first, and over once its end is
 * out. Each part reads a snapshot of its own: the members behind the events are those of the last one. Once
 * begun it does not fail: where the log is gone, or its oldest events went while the client was reading, the
 * page ends before the gap. */
int page_part(struct events_reader *reader, const struct page_request *request, size_t most,
              struct page *page, struct buffer *out, struct error *err);
/* Ends a page that is begun and not over where it is. */
void page_end(const struct page_request *request, struct page *page, struct buffer *out);

#endif
