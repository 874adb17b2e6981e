/* Owns what stands between operations on files and the agent's call. Knows no single operation. */
#include "lib/op/file.h"

#include "lib/base/base64.h"
#include "lib/base/utf8.h"
#include "lib/op/blocks.h"

#include <stdio.h>

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

void file_append_name(struct buffer *out, const json_t *entry, const char *member)
{
    char exact[64];
    _cleanup_buffer_ struct buffer name = BUFFER_INIT;
    snprintf(exact, sizeof exact, "%.40s_base64", member);
    const char *base64 = text_of(entry, exact);
    if (!base64 || !base64_decode(base64, strlen(base64), &name)) {
        const json_t *text = json_object_get(entry, member);
        buffer_append(&name, json_string_value(text), json_string_length(text));
    }
    buffer_append_shown(out, buffer_text(&name), name.length);
}

void file_complete_match(json_t *in)
{
    const char *match = text_of(in, "if_match");
    if (match && strlen(match) == 64 && !strchr(match, ':'))
        json_object_set_new(in, "if_match", json_sprintf("sha256:%s", match));
}

void file_show_hash(struct call *call)
{
    const char *hash = text_of(call->result, "hash");
    if (!hash || !*hash)
        return;
    _cleanup_free_ char *text = xasprintf("[hash %s]", hash);
    blocks_add_text(&call->blocks, text, strlen(text));
}

json_t *file_result(const struct call *call, const struct file_member *members)
{
    json_t *result = json_pack("{s:s}", "workspace_id", text_of(call->workspace, "workspace_id"));
    for (; members->name; members++) {
        json_t *value = json_object_get(call->kept, members->name);
        if (!value && !members->otherwise)
            continue;
        json_object_set_new(result, members->name,
                            value ? json_incref(value)
                                  : json_loads(members->otherwise, JSON_DECODE_ANY, NULL));
    }
    return result;
}
