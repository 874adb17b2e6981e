/* What every exchange can do, whoever carries it: shed the request while it waits, answer with JSON or an
 * error. Knows no socket and no route. */
#include "fcgi/exchange.h"

#include "lib/base/json_text.h"

void exchange_shed(struct exchange *x)
{
    if (x->request != NULL)
        request_clear(x->request);
}

size_t exchange_backlog(struct exchange *x)
{
    return x->carrier->backlog != NULL ? x->carrier->backlog(x) : 0;
}

void exchange_reply_json(struct exchange *x, int status, const char *headers, const json_t *value)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;

    json_text_append(&text, value);
    x->carrier->reply(x, status, "application/json", headers, buffer_text(&text), text.length);
}

void exchange_reply_error(struct exchange *x, const struct error *err, const char *headers)
{
    json_auto_t *value = error_to_json(err);
    _cleanup_buffer_ struct buffer lines = BUFFER_INIT;

    if (headers != NULL)
        buffer_append_text(&lines, headers);
    /* A 429 always says when to come again. */
    int seconds = err->retry_after > 0 ? err->retry_after : err->code == ERROR_TOO_MANY;
    if (seconds > 0)
        buffer_printf(&lines, "Retry-After: %d\r\n", seconds);
    exchange_reply_json(x, error_status(err->code), buffer_text(&lines), value);
}
