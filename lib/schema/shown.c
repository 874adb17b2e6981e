/* Arguments as the audit log tells them: by their rows, so that nothing that a row calls secret or content is
 * shown, under whatever name and however deep. */
#include "lib/schema/shown.h"

#include "lib/base/audit.h"

#include <stdio.h>

#define TAIL 40 /* what says that something is left out */

struct show {
    struct buffer *out;
    size_t end; /* of out: no member goes beyond */
};

static void show_value(struct show *s, const struct field *row, bool secret, const json_t *value);

static bool is_default(const struct field *row, const json_t *value)
{
    if (json_is_null(value))
        return true;
    if (!row->dflt || json_string_length(value) > 100)
        return false;
    if (json_is_number(value)) { /* of a number's field the default is a real too */
        char *end;
        double number = strtod(row->dflt, &end);
        return *end == '\0' && number == json_number_value(value);
    }
    _cleanup_free_ char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    return text && strcmp(text, row->dflt) == 0;
}

static void show_size(struct show *s, const json_t *value)
{
    if (json_is_string(value))
        buffer_printf(s->out, "\"(%zu bytes)\"", json_string_length(value));
    else
        buffer_append_text(s->out, "\"(content)\"");
}

static void show_string(struct show *s, const char *text, size_t length)
{
    buffer_append_char(s->out, '"');
    audit_append_shown(s->out, text, length);
    buffer_append_char(s->out, '"');
}

/* ---- several ---- */

/* Ends one member or item: it stays where there is room for it. */
static bool keep(struct show *s, size_t begin)
{
    if (s->out->length <= s->end)
        return true;
    s->out->length = begin;
    return false;
}

static void show_map(struct show *s, const struct field *row, bool secret, const json_t *value)
{
    const char *name;
    json_t *member;
    size_t left_out = 0, first = s->out->length;
    json_object_foreach((json_t *)value, name, member) {
        size_t begin = s->out->length;
        buffer_append_text(s->out, begin == first ? "" : ",");
        show_string(s, name, strlen(name));
        buffer_append_char(s->out, ':');
        show_value(s, row, secret, member);
        left_out += !keep(s, begin);
        if (left_out > 0)
            break;
    }
    if (left_out > 0)
        buffer_printf(s->out, "%s\"...\":%zu", s->out->length == first ? "" : ",", json_object_size(value));
}

static void show_members(struct show *s, const struct field *rows, const char *const *without, bool secret,
                         const json_t *value)
{
    size_t told = 0, first = s->out->length;
    for (const struct field *row = rows; row->type != FIELD_TYPE_END; row++) {
        const json_t *member = json_object_get(value, row->name);
        bool is_passed_over = !member || is_default(row, member);
        for (const char *const *name = without; !is_passed_over && name && *name; name++)
            is_passed_over = strcmp(*name, row->name) == 0;
        told += member && is_passed_over;
        if (is_passed_over)
            continue;
        size_t begin = s->out->length;
        buffer_printf(s->out, "%s\"%s\":", begin == first ? "" : ",", row->name);
        show_value(s, row, secret, member);
        told += keep(s, begin);
    }
    size_t left_out = json_object_size(value) - told;
    if (left_out > 0)
        buffer_printf(s->out, "%s\"...\":%zu", s->out->length == first ? "" : ",", left_out);
}

static void show_object(struct show *s, const struct field *row, bool secret, const json_t *value)
{
    s->end -= TAIL;
    buffer_append_char(s->out, '{');
    if (row->members)
        show_members(s, row->members, NULL, secret, value);
    else if (row->items)
        show_map(s, row->items, secret, value);
    else if (json_object_size(value) > 0)
        buffer_printf(s->out, "\"...\":%zu", json_object_size(value));
    buffer_append_char(s->out, '}');
    s->end += TAIL;
}

static void show_array(struct show *s, const struct field *row, bool secret, const json_t *value)
{
    size_t index, first = s->out->length + 1;
    json_t *item;
    s->end -= TAIL;
    buffer_append_char(s->out, '[');
    json_array_foreach(value, index, item) {
        size_t begin = s->out->length;
        buffer_append_text(s->out, begin == first ? "" : ",");
        if (row->items)
            show_value(s, row->items, secret, item);
        else
            buffer_append_text(s->out, "\"...\"");
        if (!keep(s, begin)) {
            buffer_printf(s->out, "%s\"...(%zu in all)\"", begin == first ? "" : ",", json_array_size(value));
            break;
        }
    }
    buffer_append_char(s->out, ']');
    s->end += TAIL;
}

/* ---- one ---- */

static bool fits(const struct field *row, const json_t *value)
{
    static const unsigned kinds[] = {
        [FIELD_STRING] = 1u << JSON_STRING,
        [FIELD_INTEGER] = 1u << JSON_INTEGER | 1u << JSON_REAL,
        [FIELD_NUMBER] = 1u << JSON_INTEGER | 1u << JSON_REAL,
        [FIELD_BOOLEAN] = 1u << JSON_TRUE | 1u << JSON_FALSE,
        [FIELD_OBJECT] = 1u << JSON_OBJECT,
        [FIELD_ARRAY] = 1u << JSON_ARRAY,
        [FIELD_ANY] = ~0u,
    };
    return json_is_null(value) || (kinds[row->type] >> json_typeof(value) & 1) ||
           (row->also && fits(row->also, value));
}

static bool hides(const struct field *row)
{
    bool found =
        row->secret || row->content || (row->items && hides(row->items)) || (row->also && hides(row->also));
    for (const struct field *m = row->members; !found && m && m->type != FIELD_TYPE_END; m++)
        found = hides(m);
    return found;
}

/* What was refused for its type may hold all the same what the row would have hidden. */
static void show_kind(struct show *s, const json_t *value)
{
    if (json_is_string(value))
        buffer_printf(s->out, "\"(string, %zu bytes)\"", json_string_length(value));
    else if (json_is_array(value))
        buffer_printf(s->out, "\"(array of %zu)\"", json_array_size(value));
    else if (json_is_object(value))
        buffer_printf(s->out, "\"(object of %zu)\"", json_object_size(value));
    else
        buffer_append_text(s->out, json_is_boolean(value) ? "\"(boolean)\"" : "\"(number)\"");
}

static void show_value(struct show *s, const struct field *row, bool secret, const json_t *value)
{
    secret |= row->secret;
    if (row->content && !json_is_object(value) && !json_is_array(value)) {
        show_size(s, value);
    } else if (!secret && !fits(row, value) && hides(row)) {
        show_kind(s, value);
    } else if (secret && !fits(row, value)) {
        buffer_append_text(s->out, "\"(secret)\"");
    } else if (json_is_object(value)) {
        show_object(s, row, secret, value);
    } else if (json_is_array(value)) {
        show_array(s, row->also && row->type != FIELD_ARRAY ? row->also : row, secret, value);
    } else if (secret) {
        buffer_append_text(s->out, "\"(secret)\"");
    } else if (json_is_string(value)) {
        show_string(s, json_string_value(value), json_string_length(value));
    } else {
        _cleanup_free_ char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        buffer_append_text(s->out, text ? text : "null");
    }
}

void field_show(const struct field *rows, const char *const *without, const json_t *in, size_t room,
                struct buffer *out)
{
    struct show s = { .out = out, .end = out->length + room - TAIL };
    buffer_append_char(out, '{');
    show_members(&s, rows, without, false, in);
    buffer_append_char(out, '}');
}
