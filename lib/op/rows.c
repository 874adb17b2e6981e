/* Shared rows and the small readers of checked parameters. Knows no single operation. */
#include "lib/op/rows.h"

const struct field row_env_value = { NULL, FIELD_STRING, .nullable = true, FIELD_RANGE(0, 131000),
                                     .format = &format_no_nul };
const struct field row_secret_name = { NULL, FIELD_STRING, FIELD_RANGE(0, 200), .format = &format_no_nul };
const struct field row_text_item = { NULL, FIELD_STRING, FIELD_RANGE(1, 200), .format = &format_no_nul };
const char *const exec_states[] = { "starting", "running", "finished", "cancelled", "failed", NULL };

const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

int64_t integer_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

bool is_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

bool is_given(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return value && !json_is_null(value);
}

bool is_nonempty(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_array_size(value) > 0 || json_object_size(value) > 0;
}

int unsupported(const struct config *config, const char *field, struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED, "%s: the %s driver cannot honour it", field, config->driver);
}

int check_secret_names(const struct config *config, const json_t *in, struct error *err)
{
    const json_t *name;
    size_t index;

    json_array_foreach(json_object_get(in, "secret_names"), index, name)
        if (json_string_length(name) > 0)
            return unsupported(config, "secret_names", err);
    return 0;
}

const char *call_sandbox_id(const struct call *call)
{
    return text_of(call->workspace, "sandbox_id");
}

int exec_not_found(const char *exec_id, struct error *err)
{
    if (!err || err->code == ERROR_NOT_FOUND)
        return error_set(err, ERROR_NOT_FOUND, "exec %s is not known in this workspace", exec_id);
    return -1;
}

struct events_reader *call_reader(struct call *call, const char *exec_id, struct error *err)
{
    struct events_reader *reader =
        events_cache_get(call->events, text_of(call->workspace, "workspace_id"), err);

    if (!reader && exec_id)
        exec_not_found(exec_id, err);
    return reader;
}
