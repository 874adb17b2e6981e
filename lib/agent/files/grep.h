/* The parts of a search for content: which files there are, what they hold, and how they come to be searched
 * in time. Of grep*.c alone. */
#ifndef AGENT_FILES_GREP_H
#define AGENT_FILES_GREP_H

#include "lib/agent/files/call.h"
#include "lib/agent/files/rg.h"
#include "lib/agent/search/firsts.h"
#include "lib/agent/search/glob.h"
#include "lib/agent/search/hits.h"

#define GREP_WHOLE_FILE INT64_MAX /* the line that a page goes on at behind all of a file */

struct grep {
    struct file_call_context *call;
    const char *pattern;
    int folder_fd;    /* ripgrep works in here */
    char *prefix;     /* of paths in it, from the workspace on: "" or "a/b/" */
    const char *only; /* the one file that is searched; NULL = the folder */
    struct glob *include, *exclude;
    struct hits_rules rules;
    int64_t until_ms;
    int64_t asked_ms; /* the whole wait; some of it may have gone before this one began */
    bool timed_out, hidden;
    bool by_files; /* time was over before: one file first, and never all the rest at once */
    bool whole;    /* there is nothing behind what was searched */
    int64_t unreadable, binary;
    json_t *binaries; /* paths of the first ones */
    json_t *skipped;  /* the path of what takes longer than the whole wait alone */
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
    bool whole;        /* it came to its end by itself */
    bool narrowed;
};
int grep_list_begin(struct grep_list *list, struct grep *grep, struct error *err);
/* The next ones, NUL-ended, "./" in front; at most count and size bytes. None: the end, or the deadline. */
void grep_list_next(struct grep_list *list, size_t count, size_t size, struct buffer *ret);
/* From now on it is these, NUL-ended; cut: others come behind them. Takes the names. */
void grep_list_narrow(struct grep_list *list, struct buffer *names, bool cut);
/* It is, and what comes next is known. */
bool grep_list_was_narrowed(const struct grep_list *list);
bool grep_list_is_at_end(const struct grep_list *list);
void grep_list_clear(struct grep_list *list);

/* ---- grep_search.c: all of them, in order, until a page is full or time is over ---- */
/* *ret_behind (may become NULL: no file at all): all files up to this path were searched, none behind it has
 * hits; owned by the caller. */
int grep_search(struct grep *grep, struct grep_list *list, char **ret_behind, struct error *err);

/* ---- grep_run.c: one ripgrep over some of them ---- */
enum grep_outcome {
    GREP_DONE,
    GREP_LATE,  /* the deadline came first: which files it had searched is not known; of one alone hits are
                 * what there was */
    GREP_BROKEN /* it ended before it was through */
};
/* -1: the pattern is none, or it cannot run at all. None: only the pattern is looked at. Deadlines are
 * clock_boottime_ms(). */
int grep_files(struct grep *grep, const char *const *files, size_t count, int64_t until_ms, struct hits *hits,
               enum grep_outcome *ret, struct error *err);
/* Which files behind this one may have hits, which ripgrep finds by itself: faster, but what it has before
 * its end is no beginning, and as it goes by names it may have been led anywhere. */
int grep_rest(struct grep *grep, const char *behind, int64_t until_ms, struct firsts *names,
              enum grep_outcome *ret, struct error *err);
/* {"path", "path_base64"} of a file, from the workspace on; name: as ripgrep says it. */
json_t *grep_path(const struct grep *grep, const char *name, size_t length);

#endif
