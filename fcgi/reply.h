/* The CGI header block of an answer (RFC 3875, 6): pure text, for whoever carries it. */
#ifndef FCGI_REPLY_H
#define FCGI_REPLY_H

#include "lib/base/buffer.h"

#include <stdint.h>

const char *reply_reason(int status); /* "Not Found"; "Status" where unknown */
/* Appends "Status: ..." to the empty line. content_type NULL = none; headers: further lines or NULL; length
 * -1 = not told (streamed). */
void reply_head(struct buffer *out, int status, const char *content_type, const char *headers,
                const char *request_id, int64_t length);

#endif
