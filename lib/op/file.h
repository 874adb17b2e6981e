/* What operations on files share: rows, requests to the agent, results. */
#ifndef OP_FILE_H
#define OP_FILE_H

#include "lib/op/rows.h"

#define RAW_KEEP_MS  300000 /* without a byte */
#define FILE_KEEP_MS 65000  /* a little longer than the agent gives a call */

#define ROW_ITS_WORKSPACE                                                                                    \
    {                                                                                                        \
        "workspace_id", FIELD_STRING,                                                                        \
            .format = &format_workspace_id,                                                                  \
            .text = "Id of the workspace (ws-...), as {{createRemoteWorkspace}} answered or "                \
                    "{{listRemoteWorkspaces}} tells.[[{{tools}} Left out: your workspace named default, "    \
                    "made on first use.]]"                                                                   \
    }
#define ROW_PATH(member, said)                                                                               \
    {                                                                                                        \
        member, FIELD_STRING, .required = true, FIELD_RANGE(1, 4095), .format = &format_no_nul, .text = said \
    }
/* Names of files are bytes, and what clients say is UTF-8. In answers such a name is shown with U+FFFD,
 * beside a member "..._base64" with its exact bytes; any path of a client may be base64: and those (the
 * agent's path.h). All operations that take or tell paths keep to this. */
#define FILE_PATH_TEXT                                                                                       \
    "relative to /workspace, or absolute inside of it; no '..'. Where it is not UTF-8: base64: and a "       \
    "path_base64."
#define RESULT_EXACT(member)                                                                                 \
    {                                                                                                        \
        member "_base64", FIELD_STRING, .text = "Its exact bytes, where those are not UTF-8."                \
    }
#define RESULT_EXACT_PATH                                                                                    \
    RESULT_TEXT0("path_base64",                                                                              \
                 "Its exact path from /workspace on, where that is not UTF-8, else null: base64: and this "  \
                 "is taken as a path.")
#define ROW_FILEPATH ROW_PATH("filepath", "The file: " FILE_PATH_TEXT)
#define ROW_IF_MATCH                                                                                         \
    {                                                                                                        \
        "if_match", FIELD_STRING, .nullable = true, .format = &format_file_match,                            \
                                  .text = "The hash that the file must have now, as reading it told: "       \
                                          "sha256:..., or those 64 digits alone; *: any, but a file."        \
    }

#define ROW_VALIDATE                                                                                         \
    {                                                                                                        \
        "validate", FIELD_BOOLEAN,                                                                           \
            .dflt = "true",                                                                                  \
            .text = "Refuse a JSON, JSONL, YAML, TOML or Python file whose syntax is "                       \
                    "broken."                                                                                \
    }
#define RESULT_VALIDATED                                                                                     \
    {                                                                                                        \
        "validated", FIELD_STRING,                                                                           \
            .required = true, .choices = file_validated,                                                     \
            .text = "Was the new content's syntax found right? A word, no boolean: true, "                   \
                    "skipped (validation says why), or false: not looked at."                                \
    }
#define RESULT_VALIDATION RESULT_TEXT0("validation", "Why it was skipped, else null.")
#define FILE_VALIDATION_MEMBERS                                                                              \
    { "validated", "\"false\"" },                                                                            \
    {                                                                                                        \
        "validation", "null"                                                                                 \
    }
extern const char *const file_validated[];

/* A hash in if_match gets its prefix, where it came without. */
void file_complete_match(json_t *in);
/* What the next if_match is, for who reads text alone: "[hash sha256:...]" as a block of its own. */
void file_show_hash(struct call *call);

/* Bounds the text of an answer: members "max_bytes" and "twice" of the agent's request, from the parameter
 * max_bytes less what stands around the text. */
void file_set_room(json_t *request, const struct keeper_call *call, const json_t *in, const char *path);

/* A name for a reader of plain text, as buffer_append_shown() writes it: one with a line end in it must not
 * look like two. entry's member, or its member_base64 where that is there. */
void file_append_name(struct buffer *out, const json_t *entry, const char *member);

/* The agent's members in the order of the result; JSON text for those that it left out, NULL = left out too.
 * NULL-ended. */
struct file_member {
    const char *name, *otherwise;
};
json_t *file_result(const struct call *call, const struct file_member *members);

#endif
