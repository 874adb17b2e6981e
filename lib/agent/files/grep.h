/* The two halves of a search for content: which files there are, and what they hold. Of grep*.c alone. */
#ifndef AGENT_FILES_GREP_H
#define AGENT_FILES_GREP_H

#include "lib/agent/files/call.h"
#include "lib/agent/files/rg.h"
#include "lib/agent/search/glob.h"
#include "lib/agent/search/hits.h"

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
    bool by_files; /* never all the rest at once */
    int64_t unreadable, binary;
    json_t *binaries; /* paths of the first ones */
    struct hits *hits;
};

/* ---- grep_filters.c: which files are looked at ---- */
struct grep_arguments {
    const char **list; /* NULL-ended */
    char **owned;
    size_t count, capacity, n_owned;
};
void grep_arguments_begin(struct grep_arguments *a);
void grep_argument(struct grep_arguments *a, const char *text);
void grep_arguments_filter(struct grep_arguments *a, const struct grep *grep);
void grep_arguments_clear(struct grep_arguments *a);
/* name: as ripgrep says it, "./" and a path in the folder that it works in. */
bool grep_wants(const struct grep *grep, const char *name);

/* ---- grep_list.c: the files, in the order of their paths ---- */
struct grep_list {
    struct grep *grep;
    struct rg rg;
    struct buffer read; /* of ripgrep's output, from at on not looked at */
    size_t at;
    bool over, broken; /* broken: its end came too early */
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
/* -1: the pattern is none, or it cannot run at all. None: only the pattern is looked at. */
int grep_files(struct grep *grep, const char *const *files, size_t count, struct hits *hits,
               enum grep_outcome *ret, struct error *err);
/* All files behind this one, which ripgrep finds by itself: faster, but what it has before its end is no
 * beginning. */
int grep_rest(struct grep *grep, const char *behind, struct hits *hits, enum grep_outcome *ret,
              struct error *err);

#endif
