/* Whether a new content may be written, as its syntax goes: lib/agent/syntax judges, here its program is run.
 */
#ifndef AGENT_FILES_VALIDATE_H
#define AGENT_FILES_VALIDATE_H

#include "lib/agent/edit/bytes.h"
#include "lib/agent/files/call.h"

/* As the request's member "validate" says. ERROR_INVALID where content is broken and before (data NULL: there
 * was nothing) was not; else members "validated" ("true", "skipped", or "false": it was not asked for) and
 * "validation" (why, or null) are set in ret. */
int file_validate(const struct file_call_context *call, const char *path, struct bytes before,
                  struct bytes content, json_t *ret, struct error *err);
/* The same members where the content stays as it is, broken or not. */
void file_validate_nothing(const struct file_call_context *call, json_t *ret);

#endif
