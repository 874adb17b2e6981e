/* Checks a JSON value against rows of fields: collects every problem, fills defaults, refuses what no row
 * declares. Knows nothing of where the value came from, and changes nothing that it was given. */
#include "lib/schema/field.h"

#include "lib/base/buffer.h"
#include "lib/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#define PROBLEMS_MAX 100 /* told; the rest is counted: the answer stays small whatever came in */
#define EXACT_MAX    9007199254740992.0

struct place {
    const struct place *up;
    const char *name; /* NULL: index */
    size_t index;
};

struct check {
    json_t *detail;
    size_t count;
    bool for_result; /* no defaults; absent members are fine */
    const char *path;
};

static json_t *place_to_json(const struct place *place)
{
    json_t *loc = json_array();

    for (; place; place = place->up)
        json_array_insert_new(
            loc, 0, place->name ? json_string(place->name) : json_integer((json_int_t)place->index));
    return loc;
}

/* Returns NULL, so that a check can end with it. */
static PRINTF_LIKE(3, 4) json_t *problem(struct check *check, const struct place *place, const char *format,
                                         ...)
{
    va_list arguments;

    if (check->count++ >= PROBLEMS_MAX)
        return NULL;
    va_start(arguments, format);
    json_array_append_new(check->detail, json_pack("{s:o, s:o}", "loc", place_to_json(place), "msg",
                                                   json_vsprintf(format, arguments)));
    va_end(arguments);
    return NULL;
}

static const char *type_text(enum field_type type)
{
    static const char *const texts[] = {
        [FIELD_STRING] = "a string",   [FIELD_INTEGER] = "a whole number", [FIELD_NUMBER] = "a number",
        [FIELD_BOOLEAN] = "a boolean", [FIELD_OBJECT] = "an object",       [FIELD_ARRAY] = "an array",
        [FIELD_ANY] = "any value",
    };
    return texts[type];
}

static bool type_fits(enum field_type type, const json_t *value)
{
    switch (type) {
    case FIELD_STRING:
        return json_is_string(value);
    case FIELD_INTEGER:
    case FIELD_NUMBER:
        return json_is_number(value);
    case FIELD_BOOLEAN:
        return json_is_boolean(value);
    case FIELD_OBJECT:
        return json_is_object(value);
    case FIELD_ARRAY:
        return json_is_array(value);
    default:
        return true;
    }
}

static json_t *check_row(struct check *check, const struct place *place, const struct field *row,
                         const json_t *value);
static json_t *check_object(struct check *check, const struct place *place, const struct field *rows,
                            const json_t *in);

/* Counts of characters, items and members. */
static bool check_count(struct check *check, const struct place *place, const struct field *row, size_t count,
                        const char *unit)
{
    if (row->has_min && (double)count < row->min) {
        problem(check, place, row->min == 1 ? "must not be empty" : "must have at least %.0f %s", row->min,
                unit);
        return false;
    }
    if (row->has_max && (double)count > row->max) {
        problem(check, place, "must have at most %.0f %s, not %zu", row->max, unit, count);
        return false;
    }
    return true;
}

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isspace((unsigned char)text[i]))
            return false;
    return true;
}

static bool choice_fits(const char *const *choices, const char *text, size_t length)
{
    for (; *choices; choices++)
        if (strlen(*choices) == length && !memcmp(*choices, text, length))
            return true;
    return false;
}

static void problem_choices(struct check *check, const struct place *place, const char *const *choices)
{
    char text[256] = "";

    for (size_t at = 0; *choices && at < sizeof text; choices++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "", *choices);
    problem(check, place, "must be one of: %s", text);
}

static json_t *check_string(struct check *check, const struct place *place, const struct field *row,
                            const json_t *value)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);

    if ((row->has_min || row->has_max) &&
        !check_count(check, place, row, utf8_count(text, length), "characters"))
        return NULL;
    if (row->nonblank && is_blank(text, length))
        return problem(check, place, "must not be blank");
    if (row->choices && !choice_fits(row->choices, text, length)) {
        problem_choices(check, place, row->choices);
        return NULL;
    }
    if (row->format && memchr(text, '\0', length))
        return problem(check, place, "must not contain a NUL character");
    if (row->format && !row->format->accepts(text, length))
        return problem(check, place, "%s", row->format->message);
    return json_incref((json_t *)value);
}

/* "%g" alone would show large whole numbers with an exponent. */
static json_t *out_of_bounds(struct check *check, const struct place *place, const char *which, double bound)
{
    bool whole = bound == floor(bound) && fabs(bound) <= EXACT_MAX;

    return problem(check, place, whole ? "must be at %s %.0f" : "must be at %s %.15g", which, bound);
}

static json_t *check_number(struct check *check, const struct place *place, const struct field *row,
                            const json_t *value)
{
    bool whole = row->type == FIELD_INTEGER;
    double number = json_number_value(value);

    if (whole && json_is_real(value) && number != floor(number))
        return problem(check, place, "must be a whole number");
    if (row->clamp && row->has_max && number > row->max)
        return whole ? json_integer((json_int_t)row->max) : json_real(row->max);
    if (row->has_min && number < row->min)
        return out_of_bounds(check, place, "least", row->min);
    if (row->has_max && number > row->max)
        return out_of_bounds(check, place, "most", row->max);
    if (whole && json_is_real(value) && fabs(number) > EXACT_MAX)
        return problem(check, place, "must be a whole number of at most 53 bits");
    if (whole)
        return json_integer(json_is_integer(value) ? json_integer_value(value) : (json_int_t)number);
    return json_real(number);
}

static json_t *check_map(struct check *check, const struct place *place, const struct field *row,
                         const json_t *value)
{
    json_t *ret = json_object(), *member, *checked;
    size_t before = check->count;
    const char *name;

    json_object_foreach((json_t *)value, name, member) {
        const struct place here = { place, name, 0 };
        if (row->keys && !row->keys->accepts(name, strlen(name)))
            problem(check, &here, "name: %s", row->keys->message);
        checked = row->items ? check_row(check, &here, row->items, member) : json_incref(member);
        if (checked)
            json_object_set_new_nocheck(ret, name, checked);
    }
    if (check->count == before)
        return ret;
    json_decref(ret);
    return NULL;
}

static json_t *check_array(struct check *check, const struct place *place, const struct field *row,
                           const json_t *value)
{
    json_t *ret, *item, *checked;
    size_t before = check->count, index;

    if (!check_count(check, place, row, json_array_size(value), "items"))
        return NULL;
    if (!row->items)
        return json_incref((json_t *)value);
    ret = json_array();
    json_array_foreach(value, index, item) {
        const struct place here = { place, NULL, index };
        checked = check_row(check, &here, row->items, item);
        if (checked)
            json_array_append_new(ret, checked);
    }
    if (check->count == before)
        return ret;
    json_decref(ret);
    return NULL;
}

static json_t *check_type(struct check *check, const struct place *place, const struct field *row,
                          const json_t *value)
{
    switch (row->type) {
    case FIELD_STRING:
        return check_string(check, place, row, value);
    case FIELD_INTEGER:
    case FIELD_NUMBER:
        return check_number(check, place, row, value);
    case FIELD_ARRAY:
        return check_array(check, place, row, value);
    case FIELD_OBJECT:
        if (row->members)
            return check_object(check, place, row->members, value);
        return check_count(check, place, row, json_object_size(value), "members")
                   ? check_map(check, place, row, value)
                   : NULL;
    default:
        return json_incref((json_t *)value);
    }
}

/* A new reference of the value as it is to be used, or NULL after a problem. */
static json_t *check_row(struct check *check, const struct place *place, const struct field *row,
                         const json_t *value)
{
    if (row->nullable && json_is_null(value))
        return json_null();
    if (type_fits(row->type, value))
        return check_type(check, place, row, value);
    if (row->also && type_fits(row->also->type, value))
        return check_type(check, place, row->also, value);
    return problem(check, place, "must be %s%s%s%s", type_text(row->type), row->also ? " or " : "",
                   row->also ? type_text(row->also->type) : "", row->nullable ? " or null" : "");
}

static json_t *default_of(const struct field *row)
{
    json_t *value = row->dflt                      ? json_loads(row->dflt, JSON_DECODE_ANY, NULL)
                    : row->nullable && !row->unset ? json_null()
                                                   : NULL;

    if (row->type == FIELD_NUMBER && json_is_integer(value)) { /* as a given one would be */
        json_t *real = json_real((double)json_integer_value(value));
        json_decref(value);
        return real;
    }
    return value;
}

static bool stands_in(const char *path, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = path; at && (at = strchr(at, '{')); at++)
        if (strncmp(at + 1, name, length) == 0 && at[1 + length] == '}')
            return true;
    return false;
}

char *field_names(const struct field *rows, const char *path)
{
    _cleanup_buffer_ struct buffer names = BUFFER_INIT;

    for (const struct field *row = rows; row->name; row++)
        if (!stands_in(path, row->name))
            buffer_printf(&names, "%s%s", names.length ? ", " : "", row->name);
    return xstrdup(names.length ? buffer_text(&names) : "none");
}

static void check_undeclared(struct check *check, const struct place *place, const struct field *rows,
                             const json_t *in)
{
    json_t *member;
    const char *name;
    bool told = false; /* what there is, once */

    json_object_foreach((json_t *)in, name, member) {
        if (field_find(rows, name))
            continue;
        _cleanup_free_ char *shown = xstrndup(name, 100),
                            *known = told ? NULL : field_names(rows, check->path);
        shown[utf8_valid_prefix(shown, strlen(shown))] = '\0';
        const struct place here = { place, shown, 0 };
        problem(check, &here, FIELD_UNKNOWN "%s%s", known ? "; there are: " : "", known ? known : "");
        told = true;
    }
}

static json_t *check_object(struct check *check, const struct place *place, const struct field *rows,
                            const json_t *in)
{
    json_t *ret = json_object(), *value;
    size_t before = check->count;

    /* First: a wrong name is why the right one is missing. */
    check_undeclared(check, place, rows, in);
    for (const struct field *row = rows; row->name; row++) {
        const struct place here = { place, row->name, 0 };
        const json_t *given = json_object_get(in, row->name);
        if (given)
            value = check_row(check, &here, row, given);
        else if (row->required)
            value = problem(check, &here, "is required");
        else
            value = check->for_result ? NULL : default_of(row);
        if (value)
            json_object_set_new_nocheck(ret, row->name, value);
    }
    if (check->count == before)
        return ret;
    json_decref(ret);
    return NULL;
}

const struct field *field_find(const struct field *rows, const char *name)
{
    for (; rows && rows->name; rows++)
        if (!strcmp(rows->name, name))
            return rows;
    return NULL;
}

/* "command: is required" and, where there are more, how many. */
static void summarise(const struct check *check, struct error *err)
{
    const json_t *first = json_array_get(check->detail, 0), *part;
    const json_t *loc = json_object_get(first, "loc");
    char path[160] = "";
    size_t index, at = 0;

    json_array_foreach(loc, index, part) {
        if (index == 0 && json_array_size(loc) > 1)
            continue;
        if (at < sizeof path && json_is_integer(part))
            at += (size_t)snprintf(path + at, sizeof path - at, "[%d]", (int)json_integer_value(part));
        else if (at < sizeof path)
            at +=
                (size_t)snprintf(path + at, sizeof path - at, "%s%s", at ? "." : "", json_string_value(part));
    }
    path[utf8_valid_prefix(path, strlen(path))] = '\0';
    error_set(err, ERROR_VALIDATION, "%s: %s", path, json_string_value(json_object_get(first, "msg")));
    if (check->count > 1 && err) {
        size_t used = strlen(err->message);
        snprintf(err->message + used, sizeof err->message - used, " (and %zu more)", check->count - 1);
    }
}

static int fail(struct check *check, const struct place *root, struct error *err)
{
    if (check->count > PROBLEMS_MAX)
        json_array_append_new(check->detail,
                              json_pack("{s:o, s:o}", "loc", place_to_json(root), "msg",
                                        json_sprintf("and %zu more problems", check->count - PROBLEMS_MAX)));
    summarise(check, err);
    if (err)
        err->detail = json_incref(check->detail);
    return -1;
}

int field_check(const struct field *rows, const char *where, const char *path, const json_t *in, json_t **ret,
                struct error *err)
{
    json_auto_t *detail = json_array();
    struct check check = { detail, 0, false, path };
    const struct place root = { NULL, where, 0 };
    json_t *checked = NULL;

    if (!json_is_object(in))
        problem(&check, &root, "must be an object");
    else
        checked = check_object(&check, &root, rows, in);
    if (!checked)
        return fail(&check, &root, err);
    *ret = checked;
    return 0;
}

int field_check_result(const struct field *rows, const json_t *value, struct error *err)
{
    json_auto_t *detail = json_array(), *checked = NULL;
    struct check check = { detail, 0, true, NULL };
    const struct place root = { NULL, "result", 0 };

    if (!json_is_object(value))
        problem(&check, &root, "must be an object");
    else
        checked = check_object(&check, &root, rows, value);
    return checked ? 0 : fail(&check, &root, err);
}
