/* MCP messages of strangers: headers and body, up to the choice of the revision. Three header values and the
 * body, each ended by a newline but the last: an empty value is an absent header. */
#include "fcgi/mcp/eras.h"
#include "lib/schema/field.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static char *take_line(const char **at, const char *end)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    size_t length = newline ? (size_t)(newline - *at) : (size_t)(end - *at);
    char *line = xstrndup(*at, length);
    *at += length + (newline != NULL);
    return line;
}

static void look(const struct request *r, const json_t *value)
{
    struct rpc_message m;
    enum era era;
    _cleanup_rpc_error_ struct rpc_error err = RPC_ERROR_INIT;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    int rc = rpc_read(value, &m, &err);
    if (rc == 0 && m.kind == RPC_REQUEST)
        rc = era_select(r, &m, &era, &err);
    if (rc < 0)
        rpc_append_error(&out, m.id, &err);
    else
        rpc_begin_result(&out, m.id);
    if (rc < 0 && err.status < 400)
        abort();
    json_auto_t *back = rc < 0 ? json_loadb(out.data, out.length, JSON_ALLOW_NUL, NULL) : NULL;
    if (rc < 0 && !json_is_object(back))
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static char *const names[] = { (char *)"mcp-protocol-version", (char *)"mcp-method", (char *)"mcp-name" };
    struct request_pair pairs[3];
    struct request r = { .headers = pairs };
    const char *at = (const char *)data, *end = at + size;
    char *lines[3];
    for (size_t i = 0; i < 3; i++) {
        lines[i] = take_line(&at, end);
        if (lines[i][0])
            pairs[r.header_count++] = (struct request_pair){ names[i], lines[i] };
    }
    _cleanup_free_ char *decoded = NULL;
    era_decode_header(lines[2], &decoded);
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *body = field_parse_json(at, (size_t)(end - at), &err);
    size_t index;
    const json_t *message;
    if (json_is_array(body) && era_takes_batches(&r)) {
        json_array_foreach(body, index, message)
            look(&r, message);
    } else if (body) {
        look(&r, body);
    }
    for (size_t i = 0; i < 3; i++)
        free(lines[i]);
    return 0;
}
