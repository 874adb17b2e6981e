/* Owns which members of a record a line of the audit log has. Values of variables, hashes and specifications
 * are none of them. */
#include "lib/store/told.h"

#include "lib/base/audit.h"

static const char *text_of(const json_t *record, const char *name)
{
    return json_string_value(json_object_get(record, name));
}

static void begin(struct buffer *line, const char *event, const json_t *record, const char *const *members)
{
    audit_begin(line, "state");
    audit_text(line, "event", event);
    for (; *members; members++)
        audit_text(line, *members, text_of(record, *members));
}

static void tell(const char *event, const json_t *record, const char *const *members, const char *was)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    if (!audit_enabled(AUDIT_CHANGES))
        return;
    begin(&line, event, record, members);
    audit_text(&line, "was", was);
    audit_end(&line);
}

void told_workspace(const json_t *old, const json_t *record)
{
    static const char *const made[] = { "workspace_id", "owner", "name", "state", "driver", NULL };
    static const char *const changed[] = { "workspace_id", "owner", "state", "reason", "sandbox_id", NULL };
    static const char *const removed[] = { "workspace_id", "owner", NULL };
    const char *before = text_of(old, "state"), *now = text_of(record, "state");
    if (!old && record)
        tell("workspace_created", record, made, NULL);
    else if (old && !record)
        tell("workspace_removed", old, removed, before);
    else if (before && now && strcmp(before, now) != 0)
        tell("workspace_changed", record, changed, before);
}

void told_token(const char *event, const json_t *record)
{
    static const char *const members[] = { "id", "principal", "workspace_id", NULL };
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    if (!audit_enabled(AUDIT_CHANGES))
        return;
    begin(&line, event, record, members);
    _cleanup_free_ char *scopes = json_dumps(json_object_get(record, "scopes"), JSON_COMPACT);
    if (scopes)
        audit_json(&line, "scopes", scopes, strlen(scopes));
    audit_end(&line);
}

/* ---- commands ---- */

static void begin_exec(struct buffer *line, const char *event, const char *workspace_id,
                       const struct exec_head *head)
{
    audit_begin(line, "state");
    audit_text(line, "event", event);
    audit_text(line, "workspace_id", workspace_id);
    audit_text(line, "exec_id", head->id);
}

void told_exec_started(const char *workspace_id, const struct exec_head *head, const char *principal)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    if (!audit_enabled(AUDIT_CHANGES))
        return;
    begin_exec(&line, "exec_started", workspace_id, head);
    audit_text(&line, "principal", principal);
    audit_flag(&line, "pty", head->pty);
    audit_end(&line);
}

void told_exec_ended(const char *workspace_id, const struct exec_head *head)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    if (!audit_enabled(AUDIT_CHANGES))
        return;
    begin_exec(&line, "exec_ended", workspace_id, head);
    audit_text(&line, "state", exec_state_name(head->state));
    if (head->has_returncode)
        audit_number(&line, "returncode", head->returncode);
    if (head->signal != 0)
        audit_number(&line, "signal", head->signal);
    audit_flag(&line, "cancel_requested", head->cancel_requested);
    audit_flag(&line, "timed_out", head->timed_out);
    audit_flag(&line, "oom_killed", head->oom_killed);
    audit_text(&line, "reason", head->reason[0] ? head->reason : NULL);
    audit_number(&line, "duration_ms", head->duration_ms);
    audit_number(&line, "output_bytes", (int64_t)head->total_bytes);
    audit_end(&line);
}
