/* FastCGI records (FastCGI 1.0, 3.3) taken apart as the bytes arrive and put together for an answer. Pure: no
 * socket. Fuzzed. */
#ifndef FCGI_RECORDS_H
#define FCGI_RECORDS_H

#include "lib/base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise. Keeps at most a header, or the 8 bytes of FCGI_BEGIN_REQUEST, between two calls: content
 * is handed on where it lies. */
struct record_reader {
    unsigned char held[8];
    uint8_t held_count, type, padding_left;
    bool in_content;
    uint16_t id, content_left;
};
struct record_piece {
    const char *data;
    size_t length;
    uint16_t id;
    uint8_t type;
    bool last;  /* the record is complete with this piece */
    bool empty; /* the record has no content at all: the end of a stream */
};
/* Takes bytes from *data. 1 = *ret holds the next piece (whole for FCGI_BEGIN_REQUEST); 0 = all bytes are
 * taken; -1 = not FastCGI. */
int record_read(struct record_reader *r, const char **data, size_t *length, struct record_piece *ret);

/* As many FCGI_STDOUT records as data needs; none for no data. */
void record_append_stdout(struct buffer *out, uint16_t id, const char *data, size_t length);
/* Opens a FCGI_STDOUT record, to be filled by appending to out at most 65,535 bytes; close sets its length.
 */
size_t record_open_stdout(struct buffer *out, uint16_t id);
void record_close_stdout(struct buffer *out, size_t opened);
/* The empty FCGI_STDOUT record and FCGI_END_REQUEST. */
void record_append_end(struct buffer *out, uint16_t id);
void record_append_refusal(struct buffer *out, uint16_t id, uint8_t protocol_status);
void record_append_unknown_type(struct buffer *out, uint8_t type);
/* Answers the names asked for by FCGI_GET_VALUES; names is that record's content. */
void record_append_values(struct buffer *out, const char *names, size_t length);

#endif
