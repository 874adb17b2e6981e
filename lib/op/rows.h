/* Rows that several operations share, as initialisers: a row is written once and stands in each operation's
 * own order. Also what their handlers share. */
#ifndef OP_ROWS_H
#define OP_ROWS_H

#include "lib/op/op.h"
#include "lib/op/page.h"
#include "lib/schema/formats.h"

#define ANSWER_BYTES      90000 /* no answer is longer unless asked */
#define ANSWER_BYTES_TEXT "90000"

extern const struct field row_env_value, row_secret_name, row_text_item;

/* ---- parameters ---- */
#define ROW_WORKSPACE_ID                                                                                     \
    {                                                                                                        \
        "workspace_id", FIELD_STRING,                                                                        \
            .required = true, .format = &format_workspace_id,                                                \
            .text = "Id of the workspace (ws-...), as {{createRemoteWorkspace}} answered or "                \
                    "{{listRemoteWorkspaces}} tells."                                                        \
    }
#define ROW_EXEC_ID                                                                                          \
    {                                                                                                        \
        "exec_id", FIELD_STRING, .required = true, .format = &format_exec_id,                                \
                                 .text = "Id of the command (ex-...), as its start answered."                \
    }
#define ROW_ENVIRONMENT_NAME                                                                                 \
    {                                                                                                        \
        "environment_name", FIELD_STRING, .nullable = true, FIELD_RANGE(1, 200), .format = &format_no_nul,   \
                                          .text = "Environment of the driver, for drivers that have "        \
                                                  "several; the local driver has one and takes any name."    \
    }
#define ROW_COMMAND                                                                                          \
    {                                                                                                        \
        "command", FIELD_STRING, .required = true, FIELD_RANGE(1, 100000), .nonblank = true,                 \
                                 .format = &format_no_nul, .text = "Command for bash -lc."                   \
    }
#define ROW_WORKDIR                                                                                          \
    {                                                                                                        \
        "workdir", FIELD_STRING,                                                                             \
            .nullable = true, .format = &format_remote_path,                                                 \
            .text = "Absolute directory to run in; by default the repository's, else /workspace."            \
    }
#define NOT_LOCAL " Not with the local driver (501)."
#define ROW_SECRET_NAMES(who)                                                                                \
    {                                                                                                        \
        "secret_names", FIELD_ARRAY,                                                                         \
            .nullable = true, FIELD_RANGE(0, 100), .items = &row_secret_name,                                \
            .text = "Names of secrets of the gateway that " who " gets as environment variables." NOT_LOCAL  \
    }
#define ROW_ENV                                                                                              \
    {                                                                                                        \
        "env", FIELD_OBJECT, .nullable = true, FIELD_RANGE(0, 1000), .items = &row_env_value,                \
                             .keys = &format_env_name, .secret = true,                                       \
                             .text = "Environment variables by name; a null value removes the variable."     \
    }
#define ROW_PTY                                                                                              \
    {                                                                                                        \
        "pty", FIELD_BOOLEAN, .dflt = "false",                                                               \
                              .text = "Run on a terminal: for programs that need one. All output is then "   \
                                      "stdout, with CRLF line ends."                                         \
    }
#define ROW_MAX_BYTES                                                                                        \
    {                                                                                                        \
        "max_bytes", FIELD_INTEGER, FIELD_RANGE(1024, 8388608), .dflt = ANSWER_BYTES_TEXT,                   \
                                                                .text = "Largest answer, in encoded bytes."  \
    }
#define ROW_CURSOR                                                                                           \
    {                                                                                                        \
        "cursor", FIELD_INTEGER, FIELD_RANGE(0, 2147483647),                                                 \
            .dflt = "0",                                                                                     \
            .text =                                                                                          \
                "The last seq you have seen: pass next_cursor of the answer before; 0 = from the beginning." \
    }

/* ---- results ---- */
#define RESULT_TEXT(member, said)                                                                            \
    {                                                                                                        \
        member, FIELD_STRING, .required = true, .text = said                                                 \
    }
#define RESULT_TEXT0(member, said)                                                                           \
    {                                                                                                        \
        member, FIELD_STRING, .required = true, .nullable = true, .text = said                               \
    }
#define RESULT_INT(member, said)                                                                             \
    {                                                                                                        \
        member, FIELD_INTEGER, .required = true, .text = said                                                \
    }
#define RESULT_INT0(member, said)                                                                            \
    {                                                                                                        \
        member, FIELD_INTEGER, .required = true, .nullable = true, .text = said                              \
    }
#define RESULT_BOOL(member, said)                                                                            \
    {                                                                                                        \
        member, FIELD_BOOLEAN, .required = true, .text = said                                                \
    }
#define RESULT_WORKSPACE_ID RESULT_TEXT("workspace_id", "Id of the workspace.")
#define RESULT_SANDBOX_ID                                                                                    \
    RESULT_TEXT0("sandbox_id", "Id of the sandbox that runs it; changes when the workspace starts anew.")
#define RESULT_EXEC_ID RESULT_TEXT("exec_id", "Id of the command.")
#define RESULT_RETURNCODE                                                                                    \
    RESULT_INT0("returncode",                                                                                \
                "Exit code; negative signal number where a signal ended it; null while it runs.")
extern const char *const exec_states[];
#define RESULT_EXEC_STATE                                                                                    \
    {                                                                                                        \
        "state", FIELD_STRING, .required = true, .choices = exec_states,                                     \
                               .text = "finished, cancelled and failed are final."                           \
    }

/* ---- handlers ---- */
const char *text_of(const json_t *object, const char *name); /* NULL where absent or null */
int64_t integer_of(const json_t *object, const char *name);
bool is_true(const json_t *object, const char *name);
bool is_given(const json_t *object, const char *name);    /* there and not null */
bool is_nonempty(const json_t *object, const char *name); /* a list or map with something in it */
/* ERROR_UNSUPPORTED that names the field and the driver. */
int unsupported(const struct config *config, const char *field, struct error *err);
/* Secrets come with a later issue: a list that names any is refused. */
int check_secret_names(const struct config *config, const json_t *in, struct error *err);
const char *call_sandbox_id(const struct call *call);
/* The logs of the call's workspace; ERROR_NOT_FOUND names the exec. */
struct events_reader *call_reader(struct call *call, const char *exec_id, struct error *err);
/* Makes a NOT_FOUND of the store one that names the exec; returns -1. */
int exec_not_found(const char *exec_id, struct error *err);

#endif
