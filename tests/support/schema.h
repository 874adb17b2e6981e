/* Does a value keep to a schema of our documents? Knows the words of JSON Schema that they use, and fails on
 * others. */
#ifndef TESTS_SCHEMA_H
#define TESTS_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

enum { SCHEMA_WHY_SIZE = 200 };

/* why: what is wrong, and at which member. */
bool schema_allows(const json_t *schema, const json_t *value, char why[static SCHEMA_WHY_SIZE]);

struct op;
/* An answer with status 200 (else: of an error) against what openapi.json, and actions.json where it has the
 * operation, say of it. */
bool schema_allows_answer(const struct op *op, bool is_error, const json_t *value,
                          char why[static SCHEMA_WHY_SIZE]);

#endif
