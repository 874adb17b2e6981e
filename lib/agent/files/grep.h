/* The two halves of a search for content: which files there are, and what they hold. Of grep*.c alone. */
#ifndef AGENT_FILES_GREP_H
#define AGENT_FILES_GREP_H

#include "lib/agent/files/call.h"
#include "lib/agent/files/rg.h"
#include "lib/agent/search/glob.h"
#include "lib/agent/search/hits.h"

#define GREP_ARGUMENTS_MAX 512

struct grep {
    struct file_call_context *call;
    const char *pattern;
    int folder_fd;    /* ripgrep works in here */
    char *prefix;     /* of paths in it, from the workspace on: "" or "a/b/" */
    const char *only; /* the one file that is searched; NULL = the folder */
    struct glob *include, *exclude;
    struct hits_rules rules;
    int64_t until_ms;
    bool timed_out, hidden;
    int64_t unreadable, searched, binary;
    json_t *binaries; /* paths of the first ones */
    struct hits *hits;
};

/* ---- grep_list.c: the files, in the order of their paths ---- */
struct grep_list {
    struct grep *grep;
    struct rg rg;
    struct buffer read; /* of ripgrep's output, from at on not looked at */
    size_t at;
    bool over;
};
int grep_list_begin(struct grep_list *list, struct grep *grep, struct error *err);
/* The next ones, NUL-ended, "./" in front; at most count and size bytes. None: the end, or the deadline. */
void grep_list_next(struct grep_list *list, size_t count, size_t size, struct buffer *ret);
void grep_list_clear(struct grep_list *list);

/* ---- grep_run.c: one ripgrep over some of them ---- */
enum grep_outcome {
    GREP_DONE,
    GREP_LATE,  /* the deadline came first: hits are what there was */
    GREP_BROKEN /* it ended before it was through */
};
/* files: NULL-ended; none: only the pattern is checked. -1: the pattern is none, or it cannot run at all. */
int grep_run(struct grep *grep, const char *const *files, size_t count, struct hits *hits,
             enum grep_outcome *ret, struct error *err);

#endif
