/* Owns reading lists of patterns out of a request, which is hostile. */
#include "lib/agent/files/patterns.h"

#include <stdio.h>

#define PATTERNS_MOST 100

int patterns_add_all(struct glob *glob, const struct file_call_context *call, const char *member,
                     struct error *err)
{
    const json_t *list = json_object_get(call->request, member), *item;
    size_t index;
    char name[80];
    if (json_array_size(list) > PATTERNS_MOST)
        return error_set(err, ERROR_INVALID, "%s: there are more than %d", member, PATTERNS_MOST);
    json_array_foreach(list, index, item) {
        const char *text = json_string_value(item);
        if (!text || strlen(text) != json_string_length(item))
            return error_set(err, ERROR_INVALID, "%s: an item is no text", member);
        snprintf(name, sizeof name, "%.40s '%.30s'", member, text);
        if (glob_add(glob, name, text, err) < 0)
            return -1;
    }
    return 0;
}
