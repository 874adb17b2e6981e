/* What a synchronous command wrote, bounded: head and tail of each stream, and between them how much was left
 * out and where to read it. */
#ifndef OP_OUTPUT_H
#define OP_OUTPUT_H

#include "lib/base/buffer.h"
#include "lib/store/events.h"

struct output_request {
    const char *exec_id;
    size_t max_bytes; /* encoded, both streams together */
    size_t max_chars; /* of each stream */
    bool twice;       /* max_bytes bounds two encodings (MCP) */
};
struct output {
    struct buffer streams[2]; /* stdout, stderr: raw bytes */
    bool truncated[2];
    uint64_t next_cursor;
    struct exec_head head;
};
/* Reads at most about max_bytes from each end of the log, the end being the final event where there is one.
 */
int output_collect(struct events_reader *reader, const struct output_request *request, struct output *ret,
                   struct error *err);
void output_clear(struct output *output);

#endif
