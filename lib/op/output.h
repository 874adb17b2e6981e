/* What a synchronous command wrote, bounded: head and tail of each stream, and between them how much was left
 * out and where to read it. In three steps, for the second may take long: what is read from the store, what
 * is condensed, what is shown. */
#ifndef OP_OUTPUT_H
#define OP_OUTPUT_H

#include "lib/op/ends.h"

struct output_request {
    const char *exec_id;
    size_t max_bytes; /* encoded, both streams together */
    size_t max_chars; /* of each stream */
    bool twice;       /* max_bytes bounds two encodings (MCP) */
    bool compact;     /* condensed (lib/text) before it is cut */
    size_t max_raw;   /* bytes of each stream as they are shown; 0 = any number */
    size_t repeats;   /* how often max_bytes must hold `rewritten` beside the output */
};
struct output {
    struct ends ends;         /* until it is shown */
    struct buffer streams[2]; /* stdout, stderr: raw bytes, or what they were condensed to */
    bool truncated[2], condensed[2];
    uint64_t next_cursor;
    struct exec_head head;
    char *rewritten; /* as in ends.h */
};
/* Reads at most about max_bytes from each end of the log, the end being the final event where there is one;
 * compact: at most OUTPUT_CONDENSED. */
#define OUTPUT_CONDENSED (512u << 10)
int output_read(struct events_reader *reader, const struct output_request *request, struct output *ret,
                struct error *err);
/* Bytes that were read. */
size_t output_size(const struct output *output);
/* Pure, and slow for what is long. Nothing without compact. */
void output_condense(struct output *output, const struct output_request *request);
void output_show(struct output *output, const struct output_request *request);
void output_clear(struct output *output);
#define _cleanup_output_ __attribute__((cleanup(output_clear)))

#endif
