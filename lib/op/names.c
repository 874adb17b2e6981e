/* Writes each document's own names of operations into its texts. Knows the rows' names and which document has
 * which row; not what the documents look like. */
#include "lib/op/names.h"

const char *document_name(enum document document, const struct op *op)
{
    if (document == DOCUMENT_TOOLS)
        return op->tool;
    return document != DOCUMENT_ACTIONS || op->flags & OP_IN_ACTIONS ? op->id : NULL;
}

/* The name for what stands between the braces; NULL = none in this document. */
static const char *name_of(const char *id, size_t length, enum document document)
{
    static const char of_tools[] = "tools";

    if (length == sizeof of_tools - 1 && memcmp(id, of_tools, length) == 0)
        return document == DOCUMENT_TOOLS || document == DOCUMENT_CALL ? "" : NULL;
    for (const struct op *const *op = ops; *op; op++)
        if (strlen((*op)->id) == length && memcmp((*op)->id, id, length) == 0)
            return document_name(document, *op);
    return NULL;
}

/* Appends up to end with the names filled in; false where one is missing (its braces stay). */
static bool append_filled(struct buffer *out, const char *at, const char *end, enum document document)
{
    bool complete = true;

    while (at < end) {
        const char *open = memmem(at, (size_t)(end - at), "{{", 2);
        const char *close = open ? memmem(open, (size_t)(end - open), "}}", 2) : NULL;
        const char *name = close ? name_of(open + 2, (size_t)(close - open - 2), document) : NULL;
        const char *next = close ? close + 2 : end;
        buffer_append(out, at, (size_t)((name ? open : next) - at));
        if (name)
            buffer_append_text(out, name);
        complete = complete && (name || !close);
        at = next;
    }
    return complete;
}

char *names_text(const char *text, enum document document)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    const char *end = text + strlen(text);

    for (const char *at = text; at < end;) {
        const char *open = strstr(at, "[["), *close = open ? strstr(open, "]]") : NULL;
        append_filled(&out, at, close ? open : end, document);
        size_t mark = out.length;
        if (close && !append_filled(&out, open + 2, close, document))
            out.length = mark;
        at = close ? close + 2 : end;
    }
    return xstrdup(buffer_text(&out));
}

void names_fill(json_t *value, enum document document)
{
    const char *key;
    json_t *member;
    size_t index;
    void *next;

    json_array_foreach(value, index, member)
        names_fill(member, document);
    json_object_foreach_safe(value, next, key, member) {
        bool is_text = !strcmp(key, "description") || !strcmp(key, "summary");
        if (!is_text || !json_is_string(member))
            names_fill(member, document);
        else if (strstr(json_string_value(member), "{{") || strstr(json_string_value(member), "[[")) {
            _cleanup_free_ char *text = names_text(json_string_value(member), document);
            json_object_set_new(value, key, json_string(text));
        }
    }
}
