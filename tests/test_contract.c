/* The contract that was written by hand (tests/cases/contract.json) is contained in the OpenAPI documents and
 * in the MCP tools that the program emits, and the committed documents are those. */
#include "lib/op/describe.h"
#include "tests/support/schema.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

#define SERVER "https://workspace.example.com"

static json_t *contract, *openapi, *actions, *tools;

static json_t *load(const char *path)
{
    json_error_t problem;
    json_t *value = json_load_file(path, 0, &problem);

    ck_assert_msg(value != NULL, "%s: %s (line %d)", path, problem.text, problem.line);
    return value;
}

static void set_up(void)
{
    contract = load("tests/cases/contract.json");
    openapi = describe_openapi(NULL, SERVER);
    actions = describe_actions(NULL, SERVER);
    tools = describe_tools(NULL);
}

static void tear_down(void)
{
    json_decref(contract);
    json_decref(openapi);
    json_decref(actions);
    json_decref(tools);
}

static const json_t *operation_in(const json_t *document, const json_t *wanted)
{
    const json_t *path = json_object_get(json_object_get(document, "paths"),
                                         json_string_value(json_object_get(wanted, "path")));

    return json_object_get(path, json_string_value(json_object_get(wanted, "method")));
}

static const json_t *tool_named(const char *name)
{
    const json_t *tool;
    size_t index;

    if (!name)
        return NULL;
    json_array_foreach(tools, index, tool)
        if (!strcmp(json_string_value(json_object_get(tool, "name")), name))
            return tool;
    return NULL;
}

static const json_t *body_schema(const json_t *operation)
{
    const json_t *content = json_object_get(json_object_get(operation, "requestBody"), "content");

    return json_object_get(json_object_get(content, "application/json"), "schema");
}

static bool array_has(const json_t *array, const char *text)
{
    const json_t *item;
    size_t index;

    json_array_foreach(array, index, item)
        if (json_is_string(item) && !strcmp(json_string_value(item), text))
            return true;
    return false;
}

/* The schema of a parameter in the OpenAPI document, and whether it is required. */
static const json_t *find_parameter(const json_t *operation, const char *name, const char *in,
                                    bool *ret_required)
{
    const json_t *parameter, *schema;
    size_t index;

    if (!strcmp(in, "body")) {
        schema = body_schema(operation);
        *ret_required = array_has(json_object_get(schema, "required"), name);
        return json_object_get(json_object_get(schema, "properties"), name);
    }
    json_array_foreach(json_object_get(operation, "parameters"), index, parameter)
        if (!strcmp(json_string_value(json_object_get(parameter, "name")), name) &&
            !strcmp(json_string_value(json_object_get(parameter, "in")), in)) {
            *ret_required = json_is_true(json_object_get(parameter, "required"));
            return json_object_get(parameter, "schema");
        }
    return NULL;
}

static bool type_is(const json_t *schema, const char *type, bool null)
{
    const json_t *types = json_object_get(schema, "type");
    const json_t *first = json_array_get(json_object_get(schema, "anyOf"), 0);

    if (first)
        return type_is(first, type, null);
    if (json_is_string(types))
        return !null && !strcmp(json_string_value(types), type);
    return null && json_array_size(types) == 2 && array_has(types, type) && array_has(types, "null");
}

static void check_bound(const char *where, const json_t *schema, const json_t *wanted, const char *bound,
                        const char *const keys[4])
{
    const json_t *value = json_object_get(wanted, bound), *shown = NULL;

    if (!value)
        return;
    for (int i = 0; i < 4 && !shown; i++)
        shown = json_object_get(schema, keys[i]);
    ck_assert_msg(shown != NULL, "%s: no %s", where, bound);
    ck_assert_msg(json_number_value(shown) == json_number_value(value), "%s: %s is %g", where, bound,
                  json_number_value(shown));
}

static void check_field(const char *where, const json_t *schema, const json_t *wanted)
{
    static const char *const low[4] = { "minimum", "minLength", "minItems", "minProperties" };
    static const char *const high[4] = { "maximum", "maxLength", "maxItems", "maxProperties" };
    const json_t *dflt = json_object_get(wanted, "default"), *pattern = json_object_get(wanted, "pattern");

    ck_assert_msg(type_is(schema, json_string_value(json_object_get(wanted, "type")),
                          json_is_true(json_object_get(wanted, "null"))),
                  "%s: type", where);
    if (dflt && json_is_number(dflt))
        ck_assert_msg(json_number_value(json_object_get(schema, "default")) == json_number_value(dflt),
                      "%s: default", where);
    else if (dflt)
        ck_assert_msg(json_equal(json_object_get(schema, "default"), dflt), "%s: default", where);
    if (pattern)
        ck_assert_msg(json_equal(json_object_get(schema, "pattern"), pattern), "%s: pattern", where);
    check_bound(where, schema, wanted, "min", low);
    check_bound(where, schema, wanted, "max", high);
}

static void check_fields(const json_t *wanted, const json_t *operation, const json_t *tool)
{
    const char *id = json_string_value(json_object_get(wanted, "id")), *name;
    const json_t *properties = json_object_get(json_object_get(tool, "inputSchema"), "properties");
    const json_t *required = json_object_get(json_object_get(tool, "inputSchema"), "required");
    json_t *field;

    json_object_foreach(json_object_get(wanted, "fields"), name, field) {
        char where[128];
        bool must = json_is_true(json_object_get(field, "required")), is = false;
        const json_t *schema =
            find_parameter(operation, name, json_string_value(json_object_get(field, "in")), &is);
        snprintf(where, sizeof where, "%s.%s", id, name);
        ck_assert_msg(schema != NULL, "%s is not in the document", where);
        bool must_in_tool = must && !json_is_true(json_object_get(field, "optional_in_tool"));
        ck_assert_msg(must == is && (!tool || must_in_tool == array_has(required, name)), "%s: required",
                      where);
        check_field(where, schema, field);
        if (!tool)
            continue;
        if (json_is_true(json_object_get(field, "http_only"))) {
            ck_assert_msg(!json_object_get(properties, name), "%s is in the tool, which cannot", where);
            continue;
        }
        ck_assert_msg(json_object_get(properties, name) != NULL, "%s is not in the tool", where);
        check_field(where, json_object_get(properties, name), field);
    }
}

static void check_results(const json_t *wanted, const json_t *schema, const char *kind)
{
    const char *id = json_string_value(json_object_get(wanted, "id"));
    const json_t *member;
    size_t index;

    json_array_foreach(json_object_get(wanted, "result"), index, member) {
        const char *name = json_string_value(member);
        ck_assert_msg(json_object_get(json_object_get(schema, "properties"), name) != NULL, "%s: %s lacks %s",
                      id, kind, name);
        ck_assert_msg(array_has(json_object_get(schema, "required"), name), "%s: %s does not promise %s", id,
                      kind, name);
    }
}

static const json_t *answer_schema(const json_t *operation)
{
    const json_t *ok = json_object_get(json_object_get(operation, "responses"), "200");

    return json_object_get(json_object_get(json_object_get(ok, "content"), "application/json"), "schema");
}

static void check_operation(const json_t *wanted)
{
    const char *id = json_string_value(json_object_get(wanted, "id"));
    const json_t *operation = operation_in(openapi, wanted);
    const json_t *tool = tool_named(json_string_value(json_object_get(wanted, "tool")));
    const json_t *answer = answer_schema(operation), *output = json_object_get(tool, "outputSchema");
    const json_t *hints = json_object_get(tool, "annotations");
    bool in_actions = !json_is_false(json_object_get(wanted, "actions"));

    ck_assert_msg(operation != NULL, "%s is not at its place in the document", id);
    ck_assert_str_eq(json_string_value(json_object_get(operation, "operationId")), id);
    if (json_is_null(json_object_get(wanted, "tool"))) { /* REST only */
        ck_assert_ptr_null(tool);
        tool = NULL;
    } else {
        ck_assert_msg(tool != NULL, "%s has no tool", id);
    }
    check_fields(wanted, operation, tool);
    if (json_is_true(json_object_get(wanted, "list"))) {
        ck_assert_str_eq(json_string_value(json_object_get(answer, "type")), "array");
        answer = json_object_get(answer, "items");
        output = json_object_get(json_object_get(json_object_get(output, "properties"), "result"), "items");
    }
    check_results(wanted, answer, "answer");
    if (tool)
        check_results(wanted, output, "tool");
    ck_assert_msg((operation_in(actions, wanted) != NULL) == in_actions, "%s in actions.json", id);
    ck_assert_msg(json_is_true(json_object_get(operation, "x-openai-isConsequential")) ==
                      json_is_true(json_object_get(wanted, "consequential")),
                  "%s: consequential", id);
    ck_assert_msg(!tool || json_is_true(json_object_get(hints, "readOnlyHint")) ==
                               json_is_true(json_object_get(wanted, "readonly")),
                  "%s: read only", id);
}

START_TEST(test_contained)
{
    const json_t *wanted;
    size_t index;

    json_array_foreach(json_object_get(contract, "operations"), index, wanted)
        check_operation(wanted);
    ck_assert_uint_ge(index, 14);
}
END_TEST

/* Every operation of the table is in the contract: one that is added gets its case. */
START_TEST(test_complete)
{
    for (const struct op *const *op = ops; *op; op++) {
        const json_t *wanted;
        bool found = false;
        size_t index;
        json_array_foreach(json_object_get(contract, "operations"), index, wanted)
            found |= !strcmp(json_string_value(json_object_get(wanted, "id")), (*op)->id);
        ck_assert_msg(found, "%s is not in tests/cases/contract.json", (*op)->id);
    }
}
END_TEST

/* ---- answers ---- */

/* A value of the row: null where it may be, else as plain as can be. */
static json_t *value_of(const struct field *row);

static json_t *object_of(const struct field *rows)
{
    json_t *object = json_object();

    for (const struct field *row = rows; row && row->name; row++)
        json_object_set_new(object, row->name, value_of(row));
    return object;
}

static json_t *value_of(const struct field *row)
{
    if (row->nullable)
        return json_null();
    switch (row->type) {
    case FIELD_STRING:
        return json_string(row->choices ? row->choices[0] : "text");
    case FIELD_INTEGER:
        return json_integer(row->has_min ? (json_int_t)row->min : 1);
    case FIELD_NUMBER:
        return json_real(row->has_min ? row->min : 0.5);
    case FIELD_BOOLEAN:
        return json_true();
    case FIELD_ARRAY:
        return row->items ? json_pack("[o]", value_of(row->items)) : json_array();
    case FIELD_OBJECT:
        return row->members ? object_of(row->members)
               : row->items ? json_pack("{s:o}", "name", value_of(row->items))
                            : json_object();
    default:
        return json_integer(1);
    }
}

/* What may be null in an answer is null: both documents allow it. */
START_TEST(test_nulls)
{
    for (const struct op *const *op = ops; *op; op++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        char why[SCHEMA_WHY_SIZE];
        json_auto_t *one = object_of((*op)->result), *list = json_pack("[O]", one);
        ck_assert_msg(field_check_result((*op)->result, one, &err) == 0, "%s: %s", (*op)->id, err.message);
        ck_assert_msg(schema_allows_answer(*op, false, (*op)->flags & OP_LIST ? list : one, why), "%s%s",
                      (*op)->id, why);
    }
}
END_TEST

static const struct {
    const char *schema, *value, *why; /* "" = it fits */
} judged[] = {
    { "{}", "null", "" },
    { "{\"type\":\"string\"}", "null", ": type: null" },
    { "{\"type\":[\"string\",\"null\"]}", "null", "" },
    { "{\"type\":\"integer\"}", "1.5", ": type: 1.5" },
    { "{\"type\":\"number\"}", "1", "" },
    { "{\"type\":\"boolean\"}", "\"true\"", ": type: \"true\"" },
    { "{\"enum\":[\"a\",null]}", "null", "" },
    { "{\"enum\":[\"a\"]}", "\"b\"", ": enum: \"b\"" },
    { "{\"minLength\":2,\"maxLength\":3}", "\"\u00e9\"", ": minLength: \"\u00e9\"" },
    { "{\"maxLength\":3}", "null", "" },
    { "{\"minimum\":2}", "1", ": minimum: 1" },
    { "{\"maxItems\":1}", "[1,2]", ": maxItems: [1,2]" },
    { "{\"minProperties\":1}", "{}", ": minProperties: {}" },
    { "{\"pattern\":\"^a+$\"}", "\"ab\"", ": pattern: \"ab\"" },
    { "{\"required\":[\"a\"]}", "{}", ".a: missing" },
    { "{\"properties\":{},\"additionalProperties\":false}", "{\"a\":1}", ".a: not declared" },
    { "{\"properties\":{},\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":1}", ".a: type: 1" },
    { "{\"properties\":{\"a\":{\"items\":{\"type\":\"string\"}}}}", "{\"a\":[\"\",1]}", ".a[1]: type: 1" },
    { "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\"}]}", "[]", "" },
    { "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\"}]}", "1", ": type: 1" },
};

START_TEST(test_judgement)
{
    char why[SCHEMA_WHY_SIZE];
    json_auto_t *schema = json_loads(judged[_i].schema, 0, NULL),
                *value = json_loads(judged[_i].value, JSON_DECODE_ANY, NULL);
    bool fits = schema_allows(schema, value, why);

    ck_assert_msg(fits == (*judged[_i].why == '\0'), "%s %s", judged[_i].schema, judged[_i].value);
    ck_assert_str_eq(why, judged[_i].why);
}
END_TEST

static void check_drift(const char *path, const json_t *document)
{
    json_auto_t *committed = load(path);
    char *is, *was;

    json_object_del(committed, "servers"); /* the address is the installation's */
    json_object_del((json_t *)document, "servers");
    json_object_del(json_object_get(committed, "info"), "x-privacy-policy-url");
    json_object_del(json_object_get(document, "info"), "x-privacy-policy-url");
    is = json_dumps(document, JSON_INDENT(2));
    was = json_dumps(committed, JSON_INDENT(2));
    ck_assert_msg(!strcmp(is, was), "%s is not what the table says: run `make openapi`", path);
    free(is);
    free(was);
}

START_TEST(test_drift)
{
    check_drift("openapi/openapi.json", openapi);
    check_drift("openapi/actions.json", actions);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("contract");
    TCase *tests = tcase_create("contract");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_contained);
    tcase_add_test(tests, test_complete);
    tcase_add_test(tests, test_drift);
    tcase_add_test(tests, test_nulls);
    tcase_add_loop_test(tests, test_judgement, 0, (int)N_ELEMENTS(judged));
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
