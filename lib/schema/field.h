/* Rows of fields: what an object may contain. One row serves checking, defaults, JSON Schema, query coercion
 * and settings. Rows are const arrays ended by FIELD_END. */
#ifndef SCHEMA_FIELD_H
#define SCHEMA_FIELD_H

#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum field_type {
    FIELD_TYPE_END,
    FIELD_STRING,
    FIELD_INTEGER,
    FIELD_NUMBER,
    FIELD_BOOLEAN,
    FIELD_OBJECT,
    FIELD_ARRAY,
    FIELD_ANY
};

/* A named rule for strings: the pattern is what JSON Schema says (ECMA 262), accepts is what we run; both
 * must agree. */
struct field_format {
    const char *name;
    const char *pattern; /* NULL: not expressible, say it in text */
    bool (*accepts)(const char *text, size_t length);
    const char *message; /* "must be an absolute path without '..'" */
};

struct field {
    const char *name;
    enum field_type type;
    bool required;
    bool nullable; /* null is accepted, and is the default where dflt is NULL and required is false */
    bool has_min,
        has_max; /* bounds of numbers; lengths of strings (characters); counts of arrays and objects */
    double min, max;
    bool nonblank;              /* a string of white space alone is refused */
    bool clamp;                 /* a larger number than max is taken as max, not refused */
    bool unset;                 /* nullable, but absent stays absent: null says something else */
    const char *dflt;           /* JSON text; NULL = absent */
    const char *const *choices; /* strings, NULL-ended */
    const struct field_format *format;
    const struct field *members; /* FIELD_OBJECT: fixed members; NULL = a map */
    const struct field
        *items; /* FIELD_ARRAY: one row (name NULL); FIELD_OBJECT as a map: the row of the values */
    const struct field_format *keys; /* FIELD_OBJECT as a map: rule for names */
    const struct field *also; /* a further type that is accepted (string or array of strings): one row */
    bool secret;              /* values never reach a log */
    bool content;             /* of a file, or what is typed: a log tells how much of it there is */
    bool http_only;           /* how HTTP answers: no tool has it */
    const char *text;         /* one or two plain sentences, at most 300 characters */
};
#define FIELD_END                                                                                            \
    {                                                                                                        \
        NULL, FIELD_TYPE_END, .text = NULL                                                                   \
    }
#define FIELD_RANGE(low, high) .has_min = true, .has_max = true, .min = (low), .max = (high)

/* How the "msg" begins that tells of a member without a row, whose name is the client's own word. */
#define FIELD_UNKNOWN "is not a known member"

/* Checks in (an object) against rows, collecting every problem into err (ERROR_VALIDATION, detail [{"loc":
 * ["body", ...], "msg"}]); where: first element of loc ("body", "query", "path", "arguments"); path (may be
 * NULL): an operation's, whose names in {} are not told among those that there are. On success *ret is a new
 * object with the defaults filled. in is not changed. Undeclared members are refused. A NUL inside a string
 * is refused where format is set, kept otherwise. */
int field_check(const struct field *rows, const char *where, const char *path, const json_t *in, json_t **ret,
                struct error *err);
char *field_names(const struct field *rows, const char *path); /* "a, b" without those in {} of path */
/* Text of a query or path parameter -> JSON by the row's type ("true", "1", "12.5", plain text). NULL where
 * it does not fit: then the caller passes it as a string and field_check names the problem. */
json_t *field_from_text(const struct field *row, const char *text, size_t length);
const struct field *field_find(const struct field *rows, const char *name);
/* JSON Schema 2020-12 of the rows as an object; a new reference. additionalProperties is false. for_result:
 * members that are not required may be absent. */
json_t *field_to_schema(const struct field *rows, bool for_result);
json_t *field_row_schema(const struct field *row);
/* Is a result what its rows declare? For tests and debug builds: first problem as text in err. Undeclared
 * members fail. */
int field_check_result(const struct field *rows, const json_t *value, struct error *err);

/* Scans JSON text before it is parsed: depth <= 64, values <= 50,000, RFC 8259 grammar not needed.
 * ERROR_INVALID / ERROR_TOO_LARGE. */
int field_scan_json(const char *text, size_t length, struct error *err);
/* field_scan_json, then json_loadb with duplicate names refused. Message: what is wrong and at which line and
 * column. */
json_t *field_parse_json(const char *text, size_t length, struct error *err);

#endif
