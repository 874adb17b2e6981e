/* Changes of records as the audit log tells them, after they were committed, whoever made them. */
#ifndef STORE_TOLD_H
#define STORE_TOLD_H

#include "lib/store/events.h"

#include <jansson.h>

/* A workspace was made (old NULL), went from one state to another, or was removed (record NULL); what changes
 * no state is not told. Either may be NULL, both: nothing. */
void told_workspace(const json_t *old, const json_t *record);
void told_token(const char *event, const json_t *record);
/* principal: who started it; NULL = not known here. */
void told_exec_started(const char *workspace_id, const struct exec_head *head, const char *principal);
void told_exec_ended(const char *workspace_id, const struct exec_head *head);

#endif
