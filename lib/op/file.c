/* Owns what stands between operations on files and the agent's call. Knows no single operation. */
#include "lib/op/file.h"

#include "lib/base/utf8.h"

const char *const file_validated[] = { "true", "skipped", "false", NULL };

enum { AROUND = 1400, LEAST = 512 };

void file_set_room(json_t *request, const struct keeper_call *call, const json_t *in, const char *path)
{
    bool twice = keeper_call_twice(call);
    int64_t around = AROUND + 3 * (int64_t)utf8_json_size(path, strlen(path));
    int64_t room = integer_of(in, "max_bytes") - (twice ? 2 * around : around);
    json_object_set_new(request, "max_bytes", json_integer(room > LEAST ? room : LEAST));
    json_object_set_new(request, "twice", json_boolean(twice));
}

json_t *file_result(const struct call *call, const struct file_member *members)
{
    json_t *result = json_pack("{s:s}", "workspace_id", text_of(call->workspace, "workspace_id"));
    for (; members->name; members++) {
        json_t *value = json_object_get(call->kept, members->name);
        json_object_set_new(result, members->name,
                            value ? json_incref(value)
                                  : json_loads(members->otherwise, JSON_DECODE_ANY, NULL));
    }
    return result;
}
