/* The answer about a command whose end is waited for: what the synchronous exec and run_bash share. */
#ifndef OP_OUTCOME_H
#define OP_OUTCOME_H

#include "lib/op/output.h"
#include "lib/op/rows.h"

#define ROW_WAIT_FOR_END                                                                                     \
    {                                                                                                        \
        "wait_seconds", FIELD_NUMBER, FIELD_RANGE(0, 60),                                                    \
            .clamp = true, .dflt = "25",                                                                     \
            .text = "How long to wait for the end; after that the answer has state running, and the "        \
                    "command goes on. More than 60 is taken as 60."                                          \
    }
#define ROW_COMPACT(otherwise)                                                                               \
    {                                                                                                        \
        "compact", FIELD_BOOLEAN,                                                                            \
            .dflt = otherwise,                                                                               \
            .text = "Condense the output: redraws, colours, long listings, passing tests, progress and "     \
                    "repetition give way to counts; failures stay word for word. False: all of it. The raw " \
                    "bytes stay in the events."                                                              \
    }
/* Members that outcome_render writes. */
#define OUTCOME_ROWS(out, err)                                                                               \
    RESULT_SANDBOX_ID, RESULT_RETURNCODE, RESULT_TEXT("stdout", out), RESULT_TEXT("stderr", err),            \
        RESULT_BOOL("stdout_truncated", "The middle of stdout was left out; a line in it says how much and " \
                                        "where to read it."),                                                \
        RESULT_BOOL("stderr_truncated", "The same for stderr."),                                             \
        RESULT_BOOL("condensed", "What is shown was condensed; its last line says what, and where the raw "  \
                                 "bytes are."),                                                              \
        RESULT_WORKSPACE_ID, RESULT_EXEC_STATE,                                                              \
        RESULT_TEXT0("signal", "Name of the signal that ended it, such as KILL."),                           \
        RESULT_BOOL("timed_out", "Its timeout ended it."),                                                   \
        RESULT_BOOL("oom_killed", "The memory limit ended a process of it."),                                \
        RESULT_INT0("duration_ms", "How long it ran; null while it runs."), RESULT_EXEC_ID,                  \
        RESULT_INT("next_cursor", "Where its events go on."),                                                \
        RESULT_TEXT0("reason", "Why it failed to start or was lost.")

/* Waits for the exec that the keeper's half began, as kept says, and collects what it wrote. OP_DONE: *ret,
 * which belongs to the call, is ready to be rendered; else what run returns. request's exec_id is set here.
 */
int outcome_collect(struct call *call, const struct output_request *request, const struct output **ret,
                    struct error *err);
/* The members into call->body, without the braces around them. */
void outcome_render(struct call *call, const struct output *output);

#endif
