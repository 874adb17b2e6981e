/* Members of a workspace's record as answers show them. Knows the record's form; no call. */
#include "lib/op/workspace_view.h"

#include "lib/base/clock.h"

#define MANAGED_BY "workspace-fcgi"

const char *const workspace_states[] = { "creating", "running", "stopped", "failed", NULL };

const struct field workspace_limits_rows[] = {
    RESULT_NUMBER0("cpu", "CPUs to count on."),
    RESULT_NUMBER0("cpu_limit", "CPUs at most; null = no limit."),
    RESULT_INT0("memory_mib", "Memory to count on."),
    RESULT_INT0("memory_limit_mib", "Memory at most; null = no limit."),
    RESULT_INT("processes", "Processes at most."),
    RESULT_TIMEOUTS,
    RESULT_BOOL("block_network", "No network at all."),
    FIELD_END,
};

void view_copy(json_t *to, const char *name, const json_t *from, const char *from_name)
{
    json_t *value = json_object_get(from, from_name);

    json_object_set_new(to, name, value ? json_incref(value) : json_null());
}

bool view_is_running(const json_t *record)
{
    const char *state = text_of(record, "state");

    return state && !strcmp(state, "running");
}

void view_add_identity(json_t *to, const json_t *record)
{
    view_copy(to, "workspace_id", record, "workspace_id");
    view_copy(to, "sandbox_id", record, "sandbox_id");
}

void view_add_expiry(json_t *to, const json_t *record)
{
    char text[CLOCK_TEXT_SIZE];
    int64_t expires = integer_of(record, "expires_us");

    if (expires > 0 && view_is_running(record))
        clock_format(expires, text);
    json_object_set_new(to, "expires_at",
                        expires > 0 && view_is_running(record) ? json_string(text) : json_null());
}

void view_add_basics(json_t *to, const json_t *record)
{
    static const char *const names[] = { "name", "state", "created_at", "driver", "owner" };

    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        view_copy(to, names[i], record, names[i]);
    view_add_expiry(to, record);
}

/* What stopped starts anew with its creation's; a record of an earlier version tells nothing else. */
void view_add_timeouts(json_t *to, const json_t *record)
{
    static const char *const names[] = { "timeout_seconds", "idle_timeout_seconds" };
    const json_t *spec = json_object_get(record, "spec");

    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        view_copy(to, names[i], view_is_running(record) && json_object_get(record, names[i]) ? record : spec,
                  names[i]);
}

void view_add_limits(json_t *to, const struct config *config, const json_t *record)
{
    static const char *const names[] = { "cpu", "cpu_limit", "memory_mib", "memory_limit_mib" };
    const json_t *spec = json_object_get(record, "spec");
    json_t *limits = json_object();

    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        view_copy(limits, names[i], spec, names[i]);
    view_add_timeouts(limits, record);
    json_object_set_new(limits, "processes", json_integer(config->processes));
    json_object_set_new(limits, "block_network", json_boolean(is_true(spec, "block_network")));
    json_object_set_new(to, "limits", limits);
    json_t *capabilities = json_copy(json_object_get(record, "capabilities"));
    if (capabilities && is_true(spec, "block_network"))
        json_object_set_new(capabilities, "network", json_string("none"));
    json_object_set_new(to, "capabilities", capabilities ? capabilities : json_null());
}

json_t *view_own_tags(const char *workspace_id)
{
    return json_pack("{s:s, s:s, s:s}", "managed-by", MANAGED_BY, "workspace-id", workspace_id,
                     "workspace-root", WORKSPACE_ROOT);
}
