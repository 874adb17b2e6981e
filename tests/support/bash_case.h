/* What the suites on run_bash share: calls as REST, and what became of them. */
#ifndef TESTS_BASH_CASE_H
#define TESTS_BASH_CASE_H

#include "tests/support/workspace_case.h"

/* POST bash; body is stolen. */
json_t *bash_with(json_t *body);
json_t *bash(const char *command);
/* All events of a result's exec. */
void bash_log(const json_t *result, struct exec_log *ret);
void bash_upload(const char *path, const char *data, size_t length);

#endif
