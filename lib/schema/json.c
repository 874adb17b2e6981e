/* JSON text of strangers: scanned in one pass before jansson sees it, so that nesting and the number of
 * values are bounded before anything is allocated. Grammar is jansson's business. Knows no rows. */
#include "lib/base/json_text.h"
#include "lib/schema/field.h"

#include <string.h>

#define SCAN_DEPTH_MAX  64
#define SCAN_VALUES_MAX 50000

enum { SCAN_OTHER, SCAN_SPACE, SCAN_QUOTE, SCAN_OPEN, SCAN_CLOSE, SCAN_COMMA, SCAN_COLON };
static const unsigned char scan_kind[256] = {
    [' '] = SCAN_SPACE, ['\t'] = SCAN_SPACE, ['\r'] = SCAN_SPACE, ['\n'] = SCAN_SPACE,
    ['"'] = SCAN_QUOTE, ['{'] = SCAN_OPEN,   ['['] = SCAN_OPEN,   ['}'] = SCAN_CLOSE,
    [']'] = SCAN_CLOSE, [','] = SCAN_COMMA,  [':'] = SCAN_COLON,
};

static const char *skip_scalar(const char *at, const char *end)
{
    while (at < end && scan_kind[(unsigned char)*at] == SCAN_OTHER)
        at++;
    return at;
}

int field_scan_json(const char *text, size_t length, struct error *err)
{
    long depth = 0, values = 0; /* a name counts until its colon */
    const char *at = text, *end = text + length;

    while (at < end) {
        switch (scan_kind[(unsigned char)*at]) {
        case SCAN_OTHER:
            values++;
            at = skip_scalar(at, end);
            break;
        case SCAN_QUOTE:
            values++;
            at = json_text_string_end(at + 1, end);
            break;
        case SCAN_OPEN:
            values++;
            if (++depth > SCAN_DEPTH_MAX)
                return error_set(err, ERROR_INVALID, "the JSON text is nested more than %d deep",
                                 SCAN_DEPTH_MAX);
            at++;
            break;
        case SCAN_CLOSE:
            depth--;
            at++;
            break;
        case SCAN_COLON:
            values--;
            at++;
            break;
        default:
            at++;
        }
        if (values > SCAN_VALUES_MAX)
            return error_set(err, ERROR_TOO_LARGE, "the JSON text has more than %d values", SCAN_VALUES_MAX);
        if (depth < 0 || values < 0)
            return error_set(err, ERROR_INVALID, "the JSON text is not well formed at offset %zu",
                             (size_t)(at - text));
    }
    return 0;
}

/* jansson's reason without the piece of the text that it quotes: that may be cut inside a character, and may
 * be a secret. */
static int parse_error(const json_error_t *problem, struct error *err)
{
    const char *near = strstr(problem->text, " near '");
    int length = near ? (int)(near - problem->text) : (int)strnlen(problem->text, sizeof problem->text);

    return error_set(err, ERROR_INVALID, "the JSON text is not well formed: %.*s at line %d, column %d",
                     length, problem->text, problem->line, problem->column);
}

json_t *field_parse_json(const char *text, size_t length, struct error *err)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t problem;
    json_t *ret;

    if (field_scan_json(text, length, err) < 0)
        return NULL;
    ret = json_text_read(text, length, flags, &problem);
    /* A whole number beyond 64 bits is well-formed JSON: let the row's bounds refuse it by name. */
    if (!ret && json_error_code(&problem) == json_error_numeric_overflow)
        ret = json_text_read(text, length, flags | JSON_DECODE_INT_AS_REAL, &problem);
    if (!ret)
        parse_error(&problem, err);
    return ret;
}
