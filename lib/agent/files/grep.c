/* Owns the search for content: {"pattern", "path", "literal", "case_sensitive", "whole_words",
 * "include_patterns", "exclude_patterns", "context_lines", "gitignore", "hidden", "default_ignores", "limit",
 * "max_per_file", "at", "wait_ms", "max_bytes", "twice"}. One ripgrep says which files there are, in order;
 * others search some of them at a time, all cores at once, until a page is full: so pages are in order, and a
 * page of what stands everywhere costs little. */
#include "lib/agent/files/grep.h"
#include "lib/agent/files/patterns.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>

#define FIRST_FILES 128
#define SOON_FILES  2048 /* and those before them */
#define MOST_FILES  16384
#define MOST_BYTES  (512u << 10) /* of names in one command line */
#define LEAST_BYTES (16u << 10)
#define BY_FILES    "f" /* before a cursor: to go on so that each page is whole */
#define MOST_LINES  5000
#define MOST_ROOM   700000    /* so many lines and their files: an answer may have 50,000 JSON values */
#define WHOLE_FILE  INT64_MAX /* the line that a page goes on at behind all of a file */

/* Where the next page goes on: owned. */
struct next {
    char *path; /* NULL = this is the last one */
    int64_t line;
    bool partial; /* the page has some of what stands behind it */
};

struct batch {
    struct buffer names;
    const char **files;
    size_t count;
};

static void batch_clear(struct batch *batch)
{
    buffer_free(&batch->names);
    free(batch->files);
    *batch = (struct batch){ .count = 0 };
}

static size_t name_bytes(void)
{
    long most = sysconf(_SC_ARG_MAX) / 4;
    return most < (long)LEAST_BYTES ? LEAST_BYTES : most > (long)MOST_BYTES ? MOST_BYTES : (size_t)most;
}

static void batch_read(struct batch *batch, struct grep_list *list, size_t count)
{
    grep_list_next(list, count, name_bytes(), &batch->names);
    const char *at = batch->names.data, *end = at + batch->names.length;
    batch->files = xcalloc(count, sizeof *batch->files);
    for (; at < end; at += strlen(at) + 1)
        batch->files[batch->count++] = at;
}

static void go_on_behind(const struct grep *grep, const char *name, struct next *next)
{
    free(next->path);
    next->path = xasprintf("%s%s", grep->prefix, name + 2);
    next->line = WHOLE_FILE;
}

/* A run that breaks, which a file of endless lines may bring about, is tried with fewer files, and the one
 * that breaks it alone is left out. */
static int search_batch(struct grep *grep, const struct batch *batch, struct next *next, struct error *err)
{
    struct hits *hits = hits_new(&grep->rules);
    int rc = 0;
    for (size_t at = 0, size = batch->count; at < batch->count && rc == 0 && !grep->timed_out;) {
        enum grep_outcome outcome = GREP_BROKEN;
        if (size > batch->count - at)
            size = batch->count - at;
        rc = grep_files(grep, batch->files + at, size, hits, &outcome, err);
        if (rc < 0)
            break;
        if (outcome == GREP_BROKEN && size > 1) {
            hits_free(hits);
            hits = hits_new(&grep->rules);
            size /= 2;
            continue;
        }
        hits_move(hits, grep->hits);
        grep->unreadable += outcome == GREP_BROKEN;
        grep->timed_out |= outcome == GREP_LATE;
        at += size;
        go_on_behind(grep, batch->files[at - 1], next);
    }
    hits_free(hits);
    return rc;
}

/* 1 = it broke, and what is left is still to be searched. */
static int search_rest(struct grep *grep, struct next *next, struct error *err)
{
    enum grep_outcome outcome = GREP_BROKEN;
    struct hits *hits = hits_new(&grep->rules);
    int rc = grep_rest(grep, next->path, hits, &outcome, err);
    if (rc == 0 && outcome != GREP_BROKEN)
        hits_move(hits, grep->hits);
    hits_free(hits);
    grep->timed_out |= outcome == GREP_LATE;
    grep->by_files |= outcome != GREP_DONE;
    next->partial = outcome == GREP_LATE;
    return rc < 0 ? -1 : outcome == GREP_BROKEN;
}

static int search_all(struct grep *grep, struct grep_list *list, struct next *next, struct error *err)
{
    enum grep_outcome outcome;
    for (size_t count = FIRST_FILES;; count = count * 4 < MOST_FILES ? count * 4 : MOST_FILES) {
        struct batch batch = { .count = 0 };
        batch_read(&batch, list, count);
        bool is_over = batch.count == 0 || grep->timed_out;
        int rc = is_over ? 0 : search_batch(grep, &batch, next, err);
        if (batch.count == 0 && count == FIRST_FILES) /* nothing else would tell a bad pattern */
            rc = grep_files(grep, NULL, 0, grep->hits, &outcome, err);
        batch_clear(&batch);
        if (rc < 0)
            return -1;
        if (list->broken)
            return error_set(err, ERROR_UNAVAILABLE,
                             "ripgrep was ended before it had listed all files: try again");
        if (is_over || grep->timed_out || hits_is_full(grep->hits))
            return 0;
        if (count >= SOON_FILES && !grep->by_files && (rc = search_rest(grep, next, err)) <= 0)
            return rc;
    }
}

/* ---- the answer ---- */

static json_t *pack_next(const struct next *next)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, base64 = BUFFER_INIT;
    if (!next->path)
        return json_null();
    buffer_printf(&text, "%s%lld:%s", next->partial ? BY_FILES : "", (long long)next->line, next->path);
    buffer_append_base64(&base64, text.data, text.length);
    return json_string(buffer_text(&base64));
}

static json_t *tell(struct grep *grep, struct next *next)
{
    const char *path;
    int64_t line, matches;
    json_t *files = hits_page(grep->hits, &path, &line, &matches);
    if (path && !next->partial) {
        free(next->path);
        *next = (struct next){ xstrdup(path), line, false };
    } else if (!grep->timed_out) {
        free(STEAL(next->path));
    } else if (!next->path) { /* nothing was searched yet */
        *next = (struct next){ xstrdup(grep->rules.at_path ? grep->rules.at_path : ""), grep->rules.at_line,
                               grep->by_files };
    }
    const char *over = grep->timed_out ? "time" : path ? "limit" : NULL;
    return json_pack("{s:o, s:I, s:o, s:s?, s:I, s:I, s:O, s:b}", "files", files, "matches",
                     (json_int_t)matches, "next_cursor", pack_next(next), "over", over, "unreadable",
                     (json_int_t)grep->unreadable, "binary_files", (json_int_t)grep->binary, "binary",
                     grep->binaries, "one_file", grep->only != NULL);
}

/* ---- the request ---- */

static void take_rules(struct grep *grep)
{
    grep->rules.limit = (size_t)file_call_bounded(grep->call, "limit", 50, 1, MOST_LINES);
    grep->rules.max_per_file = (size_t)file_call_bounded(grep->call, "max_per_file", 20, 1, MOST_LINES);
    grep->rules.context = file_call_bounded(grep->call, "context_lines", 0, 0, 100);
    grep->rules.room = (size_t)file_call_bounded(grep->call, "max_bytes", 90000, 1, MOST_ROOM);
    grep->rules.twice = file_call_flag(grep->call, "twice");
    grep->until_ms = clock_boottime_ms() + file_call_bounded(grep->call, "wait_ms", 25000, 1, 60000);
    grep->hidden = file_call_flag(grep->call, "hidden");
}

/* "LINE:PATH"; ret_path is owned by the caller. */
static int take_at(struct grep *grep, char **ret_path, struct error *err)
{
    _cleanup_buffer_ struct buffer at = BUFFER_INIT;
    const char *text = file_call_path(grep->call, "at");
    if (!*text)
        return 0;
    bool good = base64_decode(text, strlen(text), &at) && at.length < 2 * PATH_MAX &&
                !memchr(at.data, '\0', at.length);
    const char *line = buffer_text(&at);
    char *end = NULL;
    grep->by_files = !strncmp(line, BY_FILES, 1);
    grep->rules.at_line = good ? strtoll(line + grep->by_files, &end, 10) : -1;
    if (!good || *end != ':' || grep->rules.at_line < 0)
        return error_set(err, ERROR_INVALID, "cursor: it is none of this operation's");
    *ret_path = xstrdup(end + 1);
    grep->rules.at_path = *ret_path;
    return 0;
}

/* A folder, or one file, which is searched whatever the patterns say. */
static int open_place(struct grep *grep, struct place *place, struct error *err)
{
    const char *path = file_call_path(grep->call, "path");
    if (path_find_existing(&grep->call->root, path, 0, place, err) < 0)
        return -1;
    if (S_ISDIR(place->stat.st_mode)) {
        grep->folder_fd = path_open_folder(place, path, err);
        grep->prefix = strcmp(place->shown, ".") != 0 ? xasprintf("%s/", place->shown) : xstrdup("");
        return grep->folder_fd < 0 ? -1 : 0;
    }
    struct stat stat;
    _cleanup_close_ int fd = path_open_file(place, path, O_RDONLY, &stat, err);
    if (fd < 0)
        return -1;
    const char *slash = strrchr(place->shown, '/');
    grep->folder_fd = fcntl(place->folder_fd, F_DUPFD_CLOEXEC, 3);
    grep->prefix = xstrndup(place->shown, slash ? (size_t)(slash + 1 - place->shown) : 0);
    grep->only = place->name;
    return 0;
}

static int run(struct grep *grep, json_t **ret, struct error *err)
{
    struct grep_list list = { .rg = RG_INIT };
    struct next next = { NULL, 0, false };
    int rc = grep_list_begin(&list, grep, err);
    if (rc == 0)
        rc = search_all(grep, &list, &next, err);
    if (rc == 0)
        *ret = tell(grep, &next);
    grep_list_clear(&list);
    free(next.path);
    return rc;
}

static int prepare(struct grep *grep, struct place *place, char **ret_at, struct error *err)
{
    take_rules(grep);
    grep->pattern = file_call_path(grep->call, "pattern");
    if (!*grep->pattern)
        return error_set(err, ERROR_INVALID, "pattern: it is empty");
    if (rg_check(grep->call, err) < 0 || take_at(grep, ret_at, err) < 0 || open_place(grep, place, err) < 0)
        return -1;
    return patterns_add_all(grep->include, grep->call, "include_patterns", err) < 0
               ? -1
               : patterns_add_all(grep->exclude, grep->call, "exclude_patterns", err);
}

int file_grep(struct file_call_context *call, json_t **ret, struct error *err)
{
    _cleanup_place_ struct place place = PLACE_INIT;
    _cleanup_free_ char *at = NULL;
    struct grep grep = { .call = call,
                         .folder_fd = -1,
                         .include = glob_new(GLOB_FIND),
                         .exclude = glob_new(GLOB_EXCLUDE),
                         .binaries = json_array() };
    grep.hits = hits_new(&grep.rules);
    int rc = prepare(&grep, &place, &at, err) < 0 ? -1 : run(&grep, ret, err);
    hits_free(grep.hits);
    glob_free(grep.include);
    glob_free(grep.exclude);
    json_decref(grep.binaries);
    memory_close_fd(&grep.folder_fd);
    free(grep.prefix);
    return rc;
}
