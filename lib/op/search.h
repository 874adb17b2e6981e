/* What the two searches share: rows, members of the agent's request, what is said of what was left out. */
#ifndef OP_SEARCH_H
#define OP_SEARCH_H

#include "lib/op/file.h"

#define SEARCH_FLAGS (OP_ON_WORKSPACE | OP_DEFAULT_WORKSPACE | OP_NEEDS_SANDBOX)

#define SEARCH_PATTERN_CHARACTERS 1000
#define SEARCH_GRAMMAR_TEXT                                                                                  \
    "*.py (no slash: at any depth), src/**/*.c (from /workspace on), docs/ (all in it); * ? [a-z] [!a] "     \
    "{a,b}; ** any folders, also none; \\ makes the next character plain."

extern const struct field search_pattern_row;

#define SEARCH_ROW_EXCLUDE                                                                                   \
    {                                                                                                        \
        "exclude_patterns", FIELD_ARRAY, FIELD_RANGE(0, 100),                                                \
            .dflt = "[]", .items = &search_pattern_row,                                                      \
            .text = "What to leave out, in the same form, but that * crosses "                               \
                    "slashes; a folder that matches is left out with all in it. Several: one item each (in " \
                    "a query the parameter again for each)."                                                 \
    }
#define SEARCH_ROW_LIMIT(said)                                                                               \
    {                                                                                                        \
        "limit", FIELD_INTEGER, .nullable = true, FIELD_RANGE(1, 5000), .text = said                         \
    }
#define SEARCH_ROW_CURSOR                                                                                    \
    {                                                                                                        \
        "cursor", FIELD_STRING, .nullable = true, FIELD_RANGE(0, 6000), .format = &format_base64,            \
                                .text = "next_cursor of the page before; all else as for that page."         \
    }
#define SEARCH_ROW_WAIT                                                                                      \
    {                                                                                                        \
        "wait_seconds", FIELD_INTEGER, FIELD_RANGE(1, 50),                                                   \
            .dflt = "25", .text = "A search that takes longer is ended and answers with what it has."        \
    }

/* "limit", "wait_ms" and "at". */
void search_set_common(json_t *request, struct keeper_call *call, const json_t *in);
/* From "over", "unreadable" and "too_deep" of the agent's answer. */
void search_append_lost(struct buffer *notice, const json_t *kept, int64_t wait_seconds);
/* Where a list's pattern looks like several in one. */
void search_append_commas(struct buffer *notice, const json_t *in, const char *member);
/* "[...]", or null where nothing is to be said. */
json_t *search_notice(const struct buffer *notice);

#endif
