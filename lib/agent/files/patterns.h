/* Lists of patterns in a request. */
#ifndef AGENT_FILES_PATTERNS_H
#define AGENT_FILES_PATTERNS_H

#include "lib/agent/files/call.h"
#include "lib/agent/search/glob.h"

/* All of the request's member, a list of texts (or null); ERROR_INVALID names the member. */
int patterns_add_all(struct glob *glob, const struct file_call_context *call, const char *member,
                     struct error *err);

#endif
