/* Text of query and path parameters -> JSON by the row's type. Only reads: what does not fit is left for
 * field_check to name. */
#include "lib/schema/field.h"

#include <errno.h>
#include <math.h>
#include <strings.h>

static bool same_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !strncasecmp(text, word, length);
}

static json_t *boolean_from_text(const char *text, size_t length)
{
    static const char *const yes[] = { "true", "1", "yes", "on" }, *const no[] = { "false", "0", "no",
                                                                                   "off" };

    for (size_t i = 0; i < N_ELEMENTS(yes); i++)
        if (same_word(text, length, yes[i]))
            return json_true();
    for (size_t i = 0; i < N_ELEMENTS(no); i++)
        if (same_word(text, length, no[i]))
            return json_false();
    return NULL;
}

/* Whole numbers that fit stay exact; all else that is a decimal number is a real. */
static json_t *number_from_text(const char *text, size_t length)
{
    char copy[64], *end;
    long long whole;
    double real;

    if (length == 0 || length >= sizeof copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (strspn(copy, "0123456789+-.eE") != length)
        return NULL;
    errno = 0;
    whole = strtoll(copy, &end, 10);
    if (!*end && !errno)
        return json_integer(whole);
    real = strtod(copy, &end);
    return *end || !isfinite(real) ? NULL : json_real(real);
}

static json_t *container_from_text(const struct field *row, const char *text, size_t length)
{
    char open = row->type == FIELD_ARRAY ? '[' : '{';
    json_t *value, *item;

    if (length > 0 && text[0] == open) {
        value = field_parse_json(text, length, NULL);
        return value;
    }
    if (row->type != FIELD_ARRAY || !row->items)
        return NULL;
    item = field_from_text(row->items, text, length); /* one item by itself */
    return item ? json_pack("[o]", item) : NULL;
}

static json_t *typed_from_text(const struct field *row, const char *text, size_t length)
{
    switch (row->type) {
    case FIELD_STRING:
        return json_stringn(text, length);
    case FIELD_INTEGER:
    case FIELD_NUMBER:
        return number_from_text(text, length);
    case FIELD_BOOLEAN:
        return boolean_from_text(text, length);
    case FIELD_ARRAY:
    case FIELD_OBJECT:
        return container_from_text(row, text, length);
    default:
        return field_parse_json(text, length, NULL);
    }
}

json_t *field_from_text(const struct field *row, const char *text, size_t length)
{
    json_t *value;

    if (row->nullable && row->type != FIELD_STRING && (length == 0 || same_word(text, length, "null")))
        return json_null();
    value = typed_from_text(row, text, length);
    if (!value && row->also)
        value = typed_from_text(row->also, text, length);
    return value;
}
