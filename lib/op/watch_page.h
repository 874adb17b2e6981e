/* Pages of a watch's events as JSON text, straight from the store. The page is bounded by its encoded size
 * and holds at least one event where there is one. */
#ifndef OP_WATCH_PAGE_H
#define OP_WATCH_PAGE_H

#include "lib/base/buffer.h"
#include "lib/store/watches.h"

struct watch_page_request {
    const char *workspace_id, *watch_id;
    const char *path; /* that is watched, as it is told */
    uint64_t cursor;
    size_t max_events, max_bytes;
    bool twice; /* MCP: max_bytes bounds text and structured content together */
};
struct watch_page {
    size_t events;
    bool over; /* nothing is left, and nothing comes any more */
    struct watch_head head;
};
int watch_page_render(struct events_reader *reader, const struct watch_page_request *request,
                      struct buffer *out, struct watch_page *ret, struct error *err);

#endif
