/* JSON Schema as far as our documents use it, written from its specification: it shares nothing with the rows
 * that they are made from. */
#include "tests/support/schema.h"

#include "lib/base/utf8.h"
#include "lib/op/describe.h"
#include "tests/support/must.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>

static bool wrong(char why[static SCHEMA_WHY_SIZE], const char *word, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(why, SCHEMA_WHY_SIZE, ": %s: %.60s", word, text ? text : "nothing");
    free(text);
    return false;
}

/* ---- words ---- */

static bool is_of(const char *type, const json_t *value)
{
    static const struct {
        const char *name;
        json_type types[2];
    } types[] = {
        { "null", { JSON_NULL, JSON_NULL } },          { "boolean", { JSON_TRUE, JSON_FALSE } },
        { "object", { JSON_OBJECT, JSON_OBJECT } },    { "array", { JSON_ARRAY, JSON_ARRAY } },
        { "number", { JSON_INTEGER, JSON_REAL } },     { "string", { JSON_STRING, JSON_STRING } },
        { "integer", { JSON_INTEGER, JSON_INTEGER } },
    };
    for (size_t i = 0; i < N_ELEMENTS(types); i++)
        if (strcmp(types[i].name, type) == 0)
            return json_typeof(value) == types[i].types[0] || json_typeof(value) == types[i].types[1];
    return false;
}

static bool check_type(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    const json_t *one;
    size_t index;
    (void)schema;
    (void)why;
    if (json_is_string(word))
        return is_of(json_string_value(word), value);
    json_array_foreach(word, index, one)
        if (is_of(json_string_value(one), value))
            return true;
    return false;
}

static bool check_enum(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    const json_t *one;
    size_t index;
    (void)schema;
    (void)why;
    json_array_foreach(word, index, one)
        if (json_equal(one, value))
            return true;
    return false;
}

static bool check_any_of(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    const json_t *one;
    size_t index;
    (void)schema;
    json_array_foreach(word, index, one)
        if (schema_allows(one, value, why))
            return true;
    return false;
}

static bool check_pattern(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    regex_t pattern;
    (void)schema;
    (void)why;
    if (!json_is_string(value))
        return true;
    must(regcomp(&pattern, json_string_value(word), REG_EXTENDED | REG_NOSUB) == 0, "pattern %s",
         json_string_value(word));
    bool fits = regexec(&pattern, json_string_value(value), 0, NULL, 0) == 0;
    regfree(&pattern);
    return fits;
}

static bool check_properties(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    const json_t *others = json_object_get(schema, "additionalProperties"), *member;
    const char *name;
    json_object_foreach((json_t *)value, name, member) {
        const json_t *own = json_object_get(word, name);
        char inner[SCHEMA_WHY_SIZE] = "";
        if (own == NULL && json_is_false(others))
            snprintf(inner, sizeof inner, ": not declared");
        else if (own != NULL || json_is_object(others))
            schema_allows(own != NULL ? own : others, member, inner);
        if (*inner == '\0')
            continue;
        snprintf(why, SCHEMA_WHY_SIZE, ".%.60s%.120s", name, inner);
        return false;
    }
    return true;
}

static bool check_required(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    const json_t *name;
    size_t index;
    (void)schema;
    if (!json_is_object(value))
        return true;
    json_array_foreach(word, index, name) {
        if (json_object_get(value, json_string_value(name)) != NULL)
            continue;
        snprintf(why, SCHEMA_WHY_SIZE, ".%.60s: missing", json_string_value(name));
        return false;
    }
    return true;
}

static bool check_items(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    const json_t *item;
    size_t index;
    (void)schema;
    json_array_foreach(value, index, item) {
        char inner[SCHEMA_WHY_SIZE];
        if (schema_allows(word, item, inner))
            continue;
        snprintf(why, SCHEMA_WHY_SIZE, "[%zu]%.170s", index, inner);
        return false;
    }
    return true;
}

static double size_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return (double)utf8_count(json_string_value(value), json_string_length(value));
    case JSON_ARRAY:
        return (double)json_array_size(value);
    case JSON_OBJECT:
        return (double)json_object_size(value);
    default:
        return json_number_value(value);
    }
}

static bool check_least(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    (void)schema;
    (void)why;
    return size_of(value) >= json_number_value(word);
}

static bool check_most(const json_t *schema, const json_t *word, const json_t *value, char *why)
{
    (void)schema;
    (void)why;
    return size_of(value) <= json_number_value(word);
}

static const struct word {
    const char *name;
    const char *type; /* of the values that it speaks of; NULL = all */
    bool (*check)(const json_t *schema, const json_t *word, const json_t *value, char *why);
} words[] = {
    { "type", NULL, check_type },
    { "enum", NULL, check_enum },
    { "anyOf", NULL, check_any_of },
    { "pattern", "string", check_pattern },
    { "properties", "object", check_properties },
    { "additionalProperties", NULL, NULL }, /* with properties, which stand beside it */
    { "required", "object", check_required },
    { "items", "array", check_items },
    { "minLength", "string", check_least },
    { "maxLength", "string", check_most },
    { "minimum", "number", check_least },
    { "maximum", "number", check_most },
    { "minItems", "array", check_least },
    { "maxItems", "array", check_most },
    { "minProperties", "object", check_least },
    { "maxProperties", "object", check_most },
    { "description", NULL, NULL },
};

static const struct word *find_word(const char *name)
{
    for (size_t i = 0; i < N_ELEMENTS(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return &words[i];
    return NULL;
}

bool schema_allows(const json_t *schema, const json_t *value, char why[static SCHEMA_WHY_SIZE])
{
    const json_t *said;
    const char *name;
    json_object_foreach((json_t *)schema, name, said) {
        const struct word *word = find_word(name);
        must(word != NULL, "the documents say %s, which nobody here knows", name);
        if (word->check == NULL || (word->type != NULL && !is_of(word->type, value)))
            continue;
        *why = '\0';
        if (!word->check(schema, said, value, why))
            return *why != '\0' ? false : wrong(why, name, value);
    }
    *why = '\0';
    return true;
}

/* ---- the documents ---- */

static const json_t *operation_of(const json_t *document, const struct op *op)
{
    char path[200], method[10] = "";
    snprintf(path, sizeof path, "/api%s", op->path);
    for (size_t i = 0; op->method[i] && i + 1 < sizeof method; i++)
        method[i] = (char)tolower((unsigned char)op->method[i]);
    return json_object_get(json_object_get(json_object_get(document, "paths"), path), method);
}

static const json_t *schema_of(const json_t *response)
{
    return json_object_get(json_object_get(json_object_get(response, "content"), "application/json"),
                           "schema");
}

static const json_t *answer_of(const json_t *document, const struct op *op, bool is_error)
{
    const json_t *responses = json_object_get(operation_of(document, op), "responses");
    const json_t *components = json_object_get(document, "components");
    const json_t *errors = json_object_get(json_object_get(components, "schemas"), "Error");
    if (!is_error)
        return schema_of(json_object_get(responses, "200"));
    return errors ? errors : schema_of(json_object_get(responses, "default"));
}

bool schema_allows_answer(const struct op *op, bool is_error, const json_t *value,
                          char why[static SCHEMA_WHY_SIZE])
{
    static json_t *documents[2];
    if (documents[0] == NULL) {
        documents[0] = describe_openapi(NULL, "");
        documents[1] = describe_actions(NULL, "");
    }
    for (size_t i = 0; i < N_ELEMENTS(documents); i++) {
        const json_t *schema = answer_of(documents[i], op, is_error);
        if (schema != NULL && !schema_allows(schema, value, why))
            return false;
    }
    return true;
}
