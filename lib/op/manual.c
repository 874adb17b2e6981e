/* Writes an operation's row for who types it. Knows rows, no handler. */
#include "lib/op/manual.h"

#include "lib/op/names.h"
#include "lib/schema/formats.h"

enum { WIDTH = 98 };

static const struct {
    const char *name, *before, *after; /* around "LOW to HIGH" */
} types[] = {
    [FIELD_STRING] = { "string", " of ", " characters" },
    [FIELD_INTEGER] = { "integer", " from ", "" },
    [FIELD_NUMBER] = { "number", " from ", "" },
    [FIELD_BOOLEAN] = { "boolean", "", "" },
    [FIELD_OBJECT] = { "object", " of ", " members" },
    [FIELD_ARRAY] = { "array", " of ", " items" },
    [FIELD_ANY] = { "anything", "", "" },
};

/* No argument can hold a NUL: that rule goes without saying. */
static const char *rule_of(const struct field_format *format)
{
    return format && format != &format_no_nul ? format->message : NULL;
}

/* Whole ones to the last digit. */
static void append_number(struct buffer *out, double value)
{
    buffer_printf(out, value == (double)(int64_t)value ? "%.0f" : "%.15g", value);
}

static void append_items(struct buffer *out, const struct field *items);

static void append_kind(struct buffer *out, const struct field *row)
{
    buffer_append_text(out, types[row->type].name);
    if (row->has_min && row->has_max) {
        buffer_append_text(out, types[row->type].before);
        append_number(out, row->min);
        buffer_append_text(out, " to ");
        append_number(out, row->max);
        buffer_append_text(out, types[row->type].after);
    }
    if (row->clamp)
        buffer_append_text(out, " (more is taken as that)");
    for (size_t i = 0; row->choices && row->choices[i]; i++)
        buffer_printf(out, "%s\"%s\"", i == 0 ? ": " : row->choices[i + 1] ? ", " : " or ", row->choices[i]);
    if (row->items && !row->items->members)
        append_items(out, row->items);
    if (row->also) {
        buffer_append_text(out, " or ");
        append_kind(out, row->also);
    }
    if (row->nullable)
        buffer_append_text(out, " or null");
}

static void append_rules(struct buffer *out, const struct field *row)
{
    if (rule_of(row->format))
        buffer_printf(out, "; %s", rule_of(row->format));
    if (rule_of(row->keys))
        buffer_printf(out, "; a name %s", rule_of(row->keys));
}

static void append_items(struct buffer *out, const struct field *items)
{
    buffer_append_text(out, " (each: ");
    append_kind(out, items);
    append_rules(out, items);
    buffer_append_char(out, ')');
}

static void append_value(struct buffer *out, const struct field *row)
{
    append_kind(out, row);
    if (row->required)
        buffer_append_text(out, ", required");
    else if (row->dflt || (row->nullable && !row->unset))
        buffer_printf(out, ", default %s", row->dflt ? row->dflt : "null");
    append_rules(out, row);
}

static void append_rows(struct buffer *out, const struct field *rows, const char *indent);

static void append_row(struct buffer *out, const struct field *row, const char *indent)
{
    _cleanup_buffer_ struct buffer value = BUFFER_INIT;
    _cleanup_free_ char *first = xasprintf("%s%s  ", indent, row->name),
                        *deeper = xasprintf("%s    ", indent),
                        *text = row->text ? names_text(row->text, DOCUMENT_CALL) : xstrdup("");
    const struct field *parts = row->members ? row->members : row->items ? row->items->members : NULL;

    append_value(&value, row);
    buffer_append_wrapped(out, first, deeper, buffer_text(&value), WIDTH);
    buffer_append_wrapped(out, deeper, deeper, text, WIDTH);
    if (parts)
        append_rows(out, parts, deeper);
}

static void append_rows(struct buffer *out, const struct field *rows, const char *indent)
{
    for (; rows->name; rows++)
        if (!rows->http_only)
            append_row(out, rows, indent);
}

/* "^ws-[0-9a-f]{32}$" -> "ws-" */
static void append_prefix(struct buffer *out, const char *pattern)
{
    pattern += strspn(pattern, "^");
    buffer_append(out, pattern, strcspn(pattern, "["));
}

char *manual_example(const struct op *op)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    buffer_append_char(&out, '{');
    for (const struct field *row = op->params; row->name; row++) {
        if (!row->required || !op_path_has(op, row->name))
            continue;
        buffer_printf(&out, "%s\"%s\": \"", out.length > 1 ? ", " : "", row->name);
        append_prefix(&out, row->format->pattern);
        buffer_append_text(&out, "...\"");
    }
    if (op->example)
        buffer_printf(&out, "%s%s", out.length > 1 ? ", " : "", op->example);
    buffer_append_char(&out, '}');
    return xstrdup(buffer_text(&out));
}

void manual_append(struct buffer *out, const struct op *op, const char *command)
{
    _cleanup_free_ char *summary = names_text(op->summary, DOCUMENT_CALL),
                        *description = names_text(op->description ? op->description : "", DOCUMENT_CALL),
                        *whole = xasprintf("%s %s", summary, description), *example = manual_example(op);

    buffer_append_wrapped(out, "", "", whole, WIDTH);
    buffer_append_text(out, "\nParameters, as members of one JSON object:\n");
    append_rows(out, op->params, "  ");
    buffer_append_text(out, "\nExample:\n");
    if (op->flags & OP_RAW)
        buffer_append_wrapped(out, "  ", "  ", op_raw_way, WIDTH);
    else
        buffer_printf(out, "  %s '%s'\n", command, example);
}
