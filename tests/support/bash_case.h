/* What the suites on run_bash share: calls in both forms, on one workspace for each test. */
#ifndef TESTS_BASH_CASE_H
#define TESTS_BASH_CASE_H

#include "tests/support/suite.h"

extern char bash_ws[40]; /* of the running test */
void bash_make_workspace(void);
void bash_end_workspace(void);

/* POST bash; body is stolen. */
json_t *bash_with(json_t *body);
json_t *bash(const char *command);
/* The result of tools/call run_bash on the test's workspace, but where arguments (stolen) name another. */
json_t *bash_tool(json_t *arguments);
json_t *bash_tool_default(json_t *arguments); /* without any workspace */
const char *bash_block(const json_t *result, size_t index);
size_t bash_blocks(const json_t *result);
/* All events of a result's exec. */
void bash_log(const json_t *result, struct exec_log *ret);
void bash_upload(const char *path, const char *data, size_t length);

#endif
