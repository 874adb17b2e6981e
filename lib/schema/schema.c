/* Rows of fields -> JSON Schema 2020-12, as MCP and OpenAPI 3.1 show it. Flat on purpose: no $ref, unions
 * only as a list of types or, for a row with `also`, anyOf. Knows nothing of checking. */
#include "lib/schema/field.h"

static const char *type_name(enum field_type type)
{
    static const char *const names[] = {
        [FIELD_STRING] = "string",   [FIELD_INTEGER] = "integer", [FIELD_NUMBER] = "number",
        [FIELD_BOOLEAN] = "boolean", [FIELD_OBJECT] = "object",   [FIELD_ARRAY] = "array",
    };
    return type < N_ELEMENTS(names) ? names[type] : NULL;
}

static json_t *number(double value)
{
    return value == (double)(json_int_t)value ? json_integer((json_int_t)value) : json_real(value);
}

static void add_bounds(json_t *schema, const struct field *row)
{
    static const char *const keys[][2] = {
        [FIELD_STRING] = { "minLength", "maxLength" }, [FIELD_INTEGER] = { "minimum", "maximum" },
        [FIELD_NUMBER] = { "minimum", "maximum" },     [FIELD_OBJECT] = { "minProperties", "maxProperties" },
        [FIELD_ARRAY] = { "minItems", "maxItems" },
    };
    if (row->type >= N_ELEMENTS(keys) || !keys[row->type][0])
        return;
    if (row->has_min)
        json_object_set_new(schema, keys[row->type][0], number(row->min));
    if (row->has_max)
        json_object_set_new(schema, keys[row->type][1], number(row->max));
}

static void add_choices(json_t *schema, const struct field *row)
{
    json_t *list;

    if (!row->choices)
        return;
    list = json_array();
    for (const char *const *choice = row->choices; *choice; choice++)
        json_array_append_new(list, json_string(*choice));
    if (row->nullable)
        json_array_append_new(list, json_null());
    json_object_set_new(schema, "enum", list);
}

static json_t *rows_schema(const struct field *rows, bool for_result);
static json_t *row_schema(const struct field *row, bool for_result);

static void add_object(json_t *schema, const struct field *row, bool for_result)
{
    json_auto_t *inner = NULL;

    if (row->members) {
        inner = rows_schema(row->members, for_result);
        json_object_del(inner, "type");
        json_object_update(schema, inner);
        return;
    }
    /* Some readers of OpenAPI (GPT Actions among them) refuse an object without "properties". */
    json_object_set_new(schema, "properties", json_object());
    json_object_set_new(schema, "additionalProperties",
                        row->items ? row_schema(row->items, for_result) : json_true());
    if (row->keys && row->keys->pattern)
        json_object_set_new(schema, "propertyNames", json_pack("{s:s}", "pattern", row->keys->pattern));
}

static void add_type(json_t *schema, const struct field *row)
{
    const char *name = type_name(row->type);

    if (name && row->nullable)
        json_object_set_new(schema, "type", json_pack("[s,s]", name, "null"));
    else if (name)
        json_object_set_new(schema, "type", json_string(name));
}

/* What holds for the value of a row, but for its other type and its default. */
static json_t *plain_schema(const struct field *row, bool for_result)
{
    json_t *schema = json_object();

    add_type(schema, row);
    add_bounds(schema, row);
    add_choices(schema, row);
    if (row->format && row->format->pattern)
        json_object_set_new(schema, "pattern", json_string(row->format->pattern));
    if (row->type == FIELD_OBJECT)
        add_object(schema, row, for_result);
    if (row->type == FIELD_ARRAY)
        json_object_set_new(schema, "items", row->items ? row_schema(row->items, for_result) : json_object());
    return schema;
}

static void add_default(json_t *schema, const struct field *row)
{
    json_t *value = row->dflt ? json_loads(row->dflt, JSON_DECODE_ANY, NULL)
                    : row->nullable && !row->required && !row->unset ? json_null()
                                                                     : NULL;

    if (value)
        json_object_set_new(schema, "default", value);
}

static json_t *row_schema(const struct field *row, bool for_result)
{
    json_t *schema;

    if (row->also) {
        schema = json_object();
        json_object_set_new(
            schema, "anyOf",
            json_pack("[o,o]", plain_schema(row, for_result), plain_schema(row->also, for_result)));
    } else {
        schema = plain_schema(row, for_result);
    }
    if (row->text)
        json_object_set_new(schema, "description", json_string(row->text));
    if (!for_result)
        add_default(schema, row);
    return schema;
}

static json_t *rows_schema(const struct field *rows, bool for_result)
{
    json_t *properties = json_object(), *required = json_array();
    json_t *schema = json_object();

    for (const struct field *row = rows; row && row->name; row++) {
        json_object_set_new(properties, row->name, row_schema(row, for_result));
        if (row->required)
            json_array_append_new(required, json_string(row->name));
    }
    json_object_set_new(schema, "type", json_string("object"));
    json_object_set_new(schema, "properties", properties);
    if (json_array_size(required) > 0)
        json_object_set(schema, "required", required);
    json_decref(required);
    json_object_set_new(schema, "additionalProperties", json_false());
    return schema;
}

json_t *field_row_schema(const struct field *row)
{
    return row_schema(row, false);
}

json_t *field_to_schema(const struct field *rows, bool for_result)
{
    return rows_schema(rows, for_result);
}
