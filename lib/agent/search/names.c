/* Owns how a name of any bytes stands in an answer, so that it can be read and still be addressed exactly. */
#include "lib/agent/search/names.h"

#include "lib/base/buffer.h"
#include "lib/base/utf8.h"

#include <stdio.h>

const char *const names_hidden[] = { ".venv_container", ".mcp",  "__pycache__", ".git",
                                     ".ruff_cache",     ".venv", NULL };

bool names_is_hidden(const char *name)
{
    for (const char *const *hidden = names_hidden; *hidden; hidden++)
        if (!strcmp(name, *hidden))
            return true;
    return false;
}

void names_put(json_t *object, const char *member, const char *name, size_t length)
{
    char exact_member[64];
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, exact = BUFFER_INIT;
    buffer_append_utf8(&text, name, length);
    json_object_set_new(object, member, json_stringn(buffer_text(&text), text.length));
    if (utf8_is_valid(name, length))
        return;
    snprintf(exact_member, sizeof exact_member, "%.40s_base64", member);
    buffer_append_base64(&exact, name, length);
    json_object_set_new(object, exact_member, json_string(buffer_text(&exact)));
}
