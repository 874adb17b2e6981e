/* What suites over HTTP share: one workspace for each test, calls below its path, and tools. */
#ifndef TESTS_WORKSPACE_CASE_H
#define TESTS_WORKSPACE_CASE_H

#include "tests/support/suite.h"

extern char ws[40]; /* of the running test */
void ws_make(void);
void ws_end(void);

/* Below "/api/workspaces/WS/"; good until the fourth call after it. */
const char *ws_path(const char *rest);
json_t *ws_get(const char *rest);
json_t *ws_post(const char *rest, json_t *body); /* body is stolen, here and below */
void ws_refused(long status, const char *contains, const char *method, const char *rest, json_t *body);
void ws_expect_output(const char *command, const char *out);

/* The result of tools/call (a new reference), whose answer holds its bound; arguments are stolen. */
json_t *tool_call(const char *name, json_t *arguments);
json_t *tool_call_here(const char *name, json_t *arguments); /* on ws, but where arguments name another */
const char *tool_block(const json_t *result, size_t index);
size_t tool_blocks(const json_t *result);

#endif
