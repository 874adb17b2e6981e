/* The header block of every answer, with the lines that each of them has. Knows text only: no socket, no
 * exchange. */
#include "fcgi/reply.h"

#include "lib/base/log.h"

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 422, "Unprocessable Content" },
    { 429, "Too Many Requests" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 507, "Insufficient Storage" },
};

const char *reply_reason(int status)
{
    for (size_t i = 0; i < N_ELEMENTS(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Status";
}

static void append_length(struct buffer *out, int status, int64_t length)
{
    if (length < 0 || status == 204 || status == 304)
        return;
    buffer_append_text(out, "Content-Length: ");
    buffer_append_i64(out, length);
    buffer_append_text(out, "\r\n");
}

static void append_line(struct buffer *out, const char *name, const char *value)
{
    buffer_append_text(out, name);
    buffer_append_text(out, value);
    buffer_append_text(out, "\r\n");
}

/* On the way to the client one proxy holds an answer back to its end (nginx), another to compress it. */
static void append_for_proxies(struct buffer *out, bool streams)
{
    buffer_append_text(out, streams ? "Cache-Control: no-store, no-transform\r\nX-Accel-Buffering: no\r\n"
                                    : "Cache-Control: no-store\r\n");
}

void reply_head(struct buffer *out, int status, const char *content_type, const char *headers,
                const char *request_id, int64_t length)
{
    buffer_append_text(out, "Status: ");
    buffer_append_i64(out, status);
    append_line(out, " ", reply_reason(status));
    if (content_type != NULL)
        append_line(out, "Content-Type: ", content_type);
    append_length(out, status, length);
    append_for_proxies(out, content_type != NULL && strncmp(content_type, "text/event-stream", 17) == 0);
    buffer_append_text(out, "X-Content-Type-Options: nosniff\r\n");
    append_line(out, "X-Request-Id: ", request_id);
    if (log_enabled(LOG_LEVEL_DEBUG)) {
        buffer_append_text(out, "X-Worker: ");
        buffer_append_i64(out, getpid());
        buffer_append_text(out, "\r\n");
    }
    if (headers != NULL)
        buffer_append_text(out, headers);
    buffer_append_text(out, "\r\n");
}
