/* Owns the words about the start, the end and the failure of a call. It knows operations by their rows only;
 * what is worth telling of a result, the row knows. */
#include "fcgi/mcp/notify.h"

#include "lib/base/version.h"

#define META_LEVEL "io.modelcontextprotocol/logLevel"

static const char *const level_names[] = {
    [NOTIFY_DEBUG] = "debug",     [NOTIFY_INFO] = "info",           [NOTIFY_NOTICE] = "notice",
    [NOTIFY_WARNING] = "warning", [NOTIFY_ERROR] = "error",         [NOTIFY_CRITICAL] = "critical",
    [NOTIFY_ALERT] = "alert",     [NOTIFY_EMERGENCY] = "emergency",
};

bool notify_level_find(const json_t *name, enum notify_level *ret)
{
    const char *text = json_string_value(name);
    for (size_t i = NOTIFY_DEBUG; text && i < N_ELEMENTS(level_names); i++) {
        if (strcmp(level_names[i], text) != 0)
            continue;
        *ret = (enum notify_level)i;
        return true;
    }
    return false;
}

int notify_level_of(const struct rpc_message *m, enum notify_level *ret, struct rpc_error *err)
{
    const json_t *name = json_object_get(json_object_get(m->params, "_meta"), META_LEVEL);
    *ret = NOTIFY_NONE;
    if (!name || notify_level_find(name, ret))
        return 0;
    return rpc_error_set(err, 400, RPC_INVALID_PARAMS,
                         "Invalid params: %s must be debug, info, notice, warning, error, critical, alert or "
                         "emergency",
                         META_LEVEL);
}

static bool tell(struct buffer *out, enum notify_level least, enum notify_level level, const struct op *op,
                 const char *message)
{
    _cleanup_buffer_ struct buffer shown = BUFFER_INIT;
    if (least == NOTIFY_NONE || level < least)
        return false;
    buffer_append_shown_text(&shown, message, strlen(message));
    buffer_printf(out,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"%s\","
                  "\"logger\":\"" WORKSPACE_NAME "\",\"data\":{\"tool\":\"%s\",\"msg\":\"",
                  level_names[level], op->tool);
    buffer_append_json(out, buffer_text(&shown), shown.length);
    buffer_append_text(out, "\"}}}");
    return true;
}

bool notify_started(struct buffer *out, enum notify_level least, const struct op *op)
{
    _cleanup_free_ char *message = xasprintf("%s started", op->tool);
    return tell(out, least, NOTIFY_INFO, op, message);
}

static char *told_of(const struct op *op, const char *text, size_t length)
{
    json_auto_t *result = op->told ? json_loadb(text, length, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL) : NULL;
    return result ? op->told(result) : NULL;
}

bool notify_ended(struct buffer *out, enum notify_level least, const struct op *op, bool failed,
                  const char *text, size_t length, const struct error *err)
{
    if (least == NOTIFY_NONE)
        return false;
    failed |= err != NULL;
    _cleanup_free_ char *told = err ? xstrdup(err->message) : told_of(op, text, length);
    _cleanup_free_ char *message =
        xasprintf("%s %s%s%s", op->tool, failed ? "failed" : "finished", told ? ": " : "", told ? told : "");
    return tell(out, least, failed ? NOTIFY_ERROR : NOTIFY_INFO, op, message);
}
