/* What several operations show of a workspace's record: rows of their results and the members. */
#ifndef OP_WORKSPACE_VIEW_H
#define OP_WORKSPACE_VIEW_H

#include "lib/op/rows.h"

#define WORKSPACE_ROOT "/workspace"

extern const char *const workspace_states[];
extern const struct field workspace_limits_rows[];
#define RESULT_NUMBER0(member, said)                                                                         \
    {                                                                                                        \
        member, FIELD_NUMBER, .required = true, .nullable = true, .text = said                               \
    }
#define RESULT_ROOT    RESULT_TEXT("root", "Directory whose files last.")
#define RESULT_RUNNING RESULT_BOOL("running", "A sandbox runs now.")
#define RESULT_STATE                                                                                         \
    {                                                                                                        \
        "state", FIELD_STRING,                                                                               \
            .required = true, .choices = workspace_states,                                                   \
            .text = "A stopped workspace has its files and starts with the next command or call on files."   \
    }
#define RESULT_TIMEOUTS                                                                                      \
    RESULT_INT0("timeout_seconds", "In force: stops this long after its start, or after it was extended; "   \
                                   "expires_at says when."),                                                 \
        RESULT_INT0("idle_timeout_seconds",                                                                  \
                    "In force: stops after this long without activity; null = never for that reason.")
#define RESULT_BASICS                                                                                        \
    RESULT_TEXT0("name", "Name to recognise it by."), RESULT_STATE,                                          \
        RESULT_TEXT("created_at", "When it was made."),                                                      \
        RESULT_TEXT0("expires_at", "When it stops; null while it does not run."),                            \
        RESULT_TEXT("driver", "Driver that runs it."), RESULT_TEXT("owner", "Whose it is.")
#define RESULT_LIMITS                                                                                        \
    { "limits", FIELD_OBJECT, .required = true, .members = workspace_limits_rows, .text = "Its bounds." },   \
    {                                                                                                        \
        "capabilities", FIELD_OBJECT, .required = true, .nullable = true,                                    \
                                      .text = "By which means each limit holds here, and in "                \
                                              "`missing_tools` the programs that commands do "               \
                                              "not find; null where not known yet."                          \
    }

/* Copies a member, null where there is none. */
void view_copy(json_t *to, const char *name, const json_t *from, const char *from_name);
bool view_is_running(const json_t *record);
void view_add_identity(json_t *to, const json_t *record);
void view_add_expiry(json_t *to, const json_t *record);
void view_add_basics(json_t *to, const json_t *record);                              /* RESULT_BASICS */
void view_add_limits(json_t *to, const struct config *config, const json_t *record); /* RESULT_LIMITS */
void view_add_timeouts(json_t *to, const json_t *record);                            /* RESULT_TIMEOUTS */
json_t *view_own_tags(const char *workspace_id); /* the gateway's, a new reference */

#endif
