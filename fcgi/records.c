/* The FastCGI record codec. Reading keeps no content: pieces point into the caller's bytes, so that a record
 * that comes byte by byte costs no copying and no memory. Knows record layouts, not what a request is. */
#include "fcgi/records.h"

#include <fastcgi.h>

/* A multiple of 8, so that full records need no padding. */
enum { FULL_CONTENT = 65528 };

_Static_assert(sizeof(FCGI_BeginRequestBody) == 8 && FCGI_HEADER_LEN == 8, "held has 8 bytes");

/* Collects 8 bytes; false = not yet. */
static bool hold(struct record_reader *r, const char **data, size_t *length)
{
    size_t count = sizeof(r->held) - r->held_count;

    count = count < *length ? count : *length;
    memcpy(r->held + r->held_count, *data, count);
    r->held_count = (uint8_t)(r->held_count + count);
    *data += count;
    *length -= count;
    return r->held_count == sizeof(r->held);
}

static int begin_record(struct record_reader *r, struct record_piece *ret)
{
    r->type = r->held[1];
    r->id = (uint16_t)(r->held[2] << 8 | r->held[3]);
    r->content_left = (uint16_t)(r->held[4] << 8 | r->held[5]);
    r->padding_left = r->held[6];
    r->held_count = 0;
    r->in_content = r->content_left > 0;
    if (r->type == FCGI_BEGIN_REQUEST && (r->content_left != sizeof(FCGI_BeginRequestBody) || r->id == 0))
        return -1;
    if (r->in_content)
        return 0;
    *ret = (struct record_piece){ .data = "", .id = r->id, .type = r->type, .last = true, .empty = true };
    return 1;
}

static int begin_request_piece(struct record_reader *r, const char **data, size_t *length,
                               struct record_piece *ret)
{
    if (!hold(r, data, length))
        return 0;
    r->held_count = 0;
    r->in_content = false;
    r->content_left = 0;
    *ret = (struct record_piece){ (const char *)r->held, sizeof(r->held), r->id, r->type, true, false };
    return 1;
}

static int content_piece(struct record_reader *r, const char **data, size_t *length, struct record_piece *ret)
{
    size_t count = r->content_left < *length ? r->content_left : *length;

    r->content_left = (uint16_t)(r->content_left - count);
    r->in_content = r->content_left > 0;
    *ret = (struct record_piece){ *data, count, r->id, r->type, r->content_left == 0, false };
    *data += count;
    *length -= count;
    return 1;
}

static void skip_padding(struct record_reader *r, const char **data, size_t *length)
{
    size_t count = r->padding_left < *length ? r->padding_left : *length;

    r->padding_left = (uint8_t)(r->padding_left - count);
    *data += count;
    *length -= count;
}

int record_read(struct record_reader *r, const char **data, size_t *length, struct record_piece *ret)
{
    while (*length > 0) {
        if (r->in_content && r->type == FCGI_BEGIN_REQUEST)
            return begin_request_piece(r, data, length, ret);
        if (r->in_content)
            return content_piece(r, data, length, ret);
        if (r->padding_left > 0) {
            skip_padding(r, data, length);
            continue;
        }
        if (r->held_count == 0 && (unsigned char)**data != FCGI_VERSION_1)
            return -1;
        if (!hold(r, data, length))
            return 0;
        int begun = begin_record(r, ret);
        if (begun != 0)
            return begun;
    }
    return 0;
}

static void append_header(struct buffer *out, uint8_t type, uint16_t id, size_t length, uint8_t padding)
{
    const unsigned char header[FCGI_HEADER_LEN] = { FCGI_VERSION_1,
                                                    type,
                                                    (unsigned char)(id >> 8),
                                                    (unsigned char)id,
                                                    (unsigned char)(length >> 8),
                                                    (unsigned char)length,
                                                    padding,
                                                    0 };

    buffer_append(out, header, sizeof(header));
}

void record_append_stdout(struct buffer *out, uint16_t id, const char *data, size_t length)
{
    while (length > 0) {
        size_t count = length < FULL_CONTENT ? length : FULL_CONTENT;
        append_header(out, FCGI_STDOUT, id, count, 0);
        buffer_append(out, data, count);
        data += count;
        length -= count;
    }
}

size_t record_open_stdout(struct buffer *out, uint16_t id)
{
    append_header(out, FCGI_STDOUT, id, 0, 0);
    return out->length;
}

void record_close_stdout(struct buffer *out, size_t opened)
{
    size_t length = out->length - opened;

    if (length > FCGI_MAX_LENGTH)
        abort();
    out->data[opened - 4] = (char)(length >> 8);
    out->data[opened - 3] = (char)length;
}

void record_append_end(struct buffer *out, uint16_t id)
{
    append_header(out, FCGI_STDOUT, id, 0, 0);
    record_append_refusal(out, id, FCGI_REQUEST_COMPLETE);
}

void record_append_refusal(struct buffer *out, uint16_t id, uint8_t protocol_status)
{
    const unsigned char body[8] = { 0, 0, 0, 0, protocol_status, 0, 0, 0 };

    append_header(out, FCGI_END_REQUEST, id, sizeof(body), 0);
    buffer_append(out, body, sizeof(body));
}

void record_append_unknown_type(struct buffer *out, uint8_t type)
{
    const unsigned char body[8] = { type };

    append_header(out, FCGI_UNKNOWN_TYPE, FCGI_NULL_REQUEST_ID, sizeof(body), 0);
    buffer_append(out, body, sizeof(body));
}

static const struct {
    const char *name, *value;
} values[] = {
    { FCGI_MAX_CONNS, "16384" },
    { FCGI_MAX_REQS, "16384" },
    { FCGI_MPXS_CONNS, "0" },
};

static void append_value(struct buffer *out, const char *name, size_t length)
{
    for (size_t i = 0; i < N_ELEMENTS(values); i++) {
        if (strlen(values[i].name) != length || memcmp(values[i].name, name, length) != 0)
            continue;
        buffer_append_char(out, (char)length);
        buffer_append_char(out, (char)strlen(values[i].value));
        buffer_append_text(out, values[i].name);
        buffer_append_text(out, values[i].value);
    }
}

/* The names known here are short: a length in four bytes ends the list. */
void record_append_values(struct buffer *out, const char *names, size_t length)
{
    _cleanup_buffer_ struct buffer body = BUFFER_INIT;

    while (length >= 2 && body.length < 512) {
        size_t name = (unsigned char)names[0], value = (unsigned char)names[1];
        if (name > 127 || value > 127 || name + value > length - 2)
            break;
        append_value(&body, names + 2, name);
        names += 2 + name + value;
        length -= 2 + name + value;
    }
    append_header(out, FCGI_GET_VALUES_RESULT, FCGI_NULL_REQUEST_ID, body.length, 0);
    buffer_append(out, body.data, body.length);
}
