/* Makes the lines about requests. Knows operations by their rows only; what a line may show of an argument is
 * decided there. */
#include "fcgi/audited.h"

#include "lib/base/audit.h"
#include "lib/base/clock.h"
#include "lib/schema/shown.h"

#define ARGUMENTS_ROOM 2000

/* Of one process. An hour of guessing is some 60 lines, and leaves the history where it is. */
#define STRANGERS_AT_ONCE  20
#define STRANGERS_EVERY_MS 60000

static const char *const own_members[] = { "workspace_id", "exec_id", NULL }; /* of the line itself */

void audited_setup(const char *name, const struct config *config)
{
    static const char *const levels[] = {
        [AUDIT_OFF] = "off", [AUDIT_CHANGES] = "changes", [AUDIT_ALL] = "all"
    };
    enum audit_level level = AUDIT_ALL;
    _cleanup_free_ char *directory = config_path(config, "audit", NULL);
    for (size_t i = 0; i < N_ELEMENTS(levels); i++)
        if (strcmp(config->audit, levels[i]) == 0)
            level = (enum audit_level)i;
    audit_init(name, level, directory, config->audit_bytes, (int)config->audit_files);
}

static enum audit_level level_of(const struct op *op)
{
    return op->flags & OP_READ_ONLY ? AUDIT_ALL : AUDIT_CHANGES;
}

static const char *carried_as(enum call_form form)
{
    static const char *const names[] = { [CALL_REST] = "rest", [CALL_MCP] = "mcp", [CALL_SSE] = "sse" };
    return names[form];
}

static const char *unless_empty(const char *text)
{
    return text && *text ? text : NULL;
}

char *audited_begin(const struct op *op, const json_t *in, const char *peer)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    if (!audit_enabled(level_of(op)))
        return NULL;
    if (peer) {
        buffer_append_text(&text, "\"peer\":\"");
        audit_append_shown(&text, peer, strlen(peer));
        buffer_append_text(&text, "\",");
    }
    buffer_append_text(&text, "\"arguments\":");
    field_show(op->params, own_members, in, ARGUMENTS_ROOM, &text);
    buffer_text(&text);
    return STEAL(text.data);
}

/* Begun, as audited_begin made it, goes before what may be left out for want of room. */
static void begin(struct buffer *line, const struct op *op, const struct principal *principal,
                  enum call_form form, const char *request_id, const char *begun)
{
    audit_begin(line, "call");
    audit_text(line, "principal", principal->name);
    audit_text(line, "operation", op->id);
    audit_text(line, "form", carried_as(form));
    audit_text(line, "request_id", unless_empty(request_id));
    buffer_append_char(line, ',');
    buffer_append_text(line, begun);
}

/* A name that no row has is the client's, and may be a secret that slipped into the wrong place. */
static const char *message_of(const struct error *err)
{
    const json_t *first = err ? json_array_get(err->detail, 0) : NULL;
    const char *problem = json_string_value(json_object_get(first, "msg"));
    bool is_strange = problem && strncmp(problem, FIELD_UNKNOWN, strlen(FIELD_UNKNOWN)) == 0;
    return !err ? NULL : is_strange ? "a name in it " FIELD_UNKNOWN : err->message;
}

static void end(struct buffer *line, int status, const char *outcome, int64_t started_us,
                const struct error *err)
{
    int64_t us = clock_boottime_us() - started_us;
    char ms[32];
    int length = snprintf(ms, sizeof ms, "%lld.%03lld", (long long)us / 1000, (long long)us % 1000);
    audit_text(line, "outcome", err ? error_type(err->code) : outcome);
    audit_number(line, "status", status);
    audit_json(line, "ms", ms, (size_t)length);
    audit_text(line, "message", message_of(err));
    audit_end(line);
}

void audited_call(const struct flight *f, int status, const struct error *err)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    if (!f->audited)
        return;
    begin(&line, f->op, &f->principal, f->form, f->request_id, f->audited);
    audit_text(&line, "workspace_id", unless_empty(f->workspace_id));
    audit_text(&line, "exec_id", unless_empty(f->exec_id));
    end(&line, status, status == 499 ? "gone" : f->failed ? "failed" : "done", f->started_us, err);
}

void audited_refusal(const struct op *op, const struct principal *principal, enum call_form form,
                     const json_t *in, const struct exchange *x, const struct error *err)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    _cleanup_free_ char *begun = audited_begin(op, in, x && x->request ? x->request->peer : NULL);
    if (!begun)
        return;
    begin(&line, op, principal, form, x ? x->request_id : NULL, begun);
    audit_text(&line, "workspace_id", json_string_value(json_object_get(in, "workspace_id")));
    audit_text(&line, "exec_id", json_string_value(json_object_get(in, "exec_id")));
    end(&line, error_status(err->code), NULL, x ? x->started_us : clock_boottime_us(), err);
}

/* ---- strangers ---- */

/* Whether one more is told; *ret: how many were not since the last. */
static bool is_told(int64_t *ret)
{
    static int64_t refilled_ms, room = STRANGERS_AT_ONCE, untold;
    int64_t now = clock_boottime_ms(), more = (now - refilled_ms) / STRANGERS_EVERY_MS;
    if (more > 0) {
        room = room + more < STRANGERS_AT_ONCE ? room + more : STRANGERS_AT_ONCE;
        refilled_ms = now;
    }
    if (room == 0) {
        untold++;
        return false;
    }
    room--;
    *ret = untold;
    untold = 0;
    return true;
}

void audited_stranger(const struct exchange *x, const struct error *err)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    int64_t untold = 0;
    if (!audit_enabled(AUDIT_CHANGES) || !is_told(&untold))
        return;
    audit_begin(&line, "stranger");
    audit_text(&line, "peer", x->request->peer);
    audit_text(&line, "method", x->request->method);
    audit_text(&line, "path", x->request->path);
    audit_text(&line, "request_id", x->request_id);
    audit_flag(&line, "token_given", x->request->authorization != NULL);
    if (untold > 0)
        audit_number(&line, "others_not_told", untold);
    end(&line, error_status(err->code), NULL, x->started_us, err);
}
