/* Owns the search for content: {"pattern", "path", "literal", "case_sensitive", "whole_words",
 * "include_patterns", "exclude_patterns", "context_lines", "gitignore", "hidden", "default_ignores", "limit",
 * "max_per_file", "at", "wait_ms", "asked_ms", "max_bytes", "twice"}, and where the page behind it begins.
 * Must not know: how it is searched. */
#include "lib/agent/files/grep.h"
#include "lib/agent/files/patterns.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>

#define BY_FILES   "f" /* before a cursor: with care, file by file at first, and never all the rest at once */
#define MOST_LINES 5000
#define MOST_ROOM  700000 /* so many lines and their files: an answer may have 50,000 JSON values */

/* ---- the answer ---- */

/* Where the next page goes on; path NULL: this is the last one. */
static json_t *pack_next(const struct grep *grep, const char *path, int64_t line)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, base64 = BUFFER_INIT;
    if (!path)
        return json_null();
    buffer_printf(&text, "%s%lld:%s", grep->by_files ? BY_FILES : "", (long long)line, path);
    buffer_append_base64(&base64, text.data, text.length);
    return json_string(buffer_text(&base64));
}

/* behind: all up to this path was searched; NULL = nothing was. */
static json_t *tell(struct grep *grep, const char *behind)
{
    const char *path;
    int64_t line, matches;
    json_t *files = hits_page(grep->hits, &path, &line, &matches);
    const char *over = grep->timed_out ? "time" : path ? "limit" : NULL;
    if (path) { /* what took too long is met again */
        json_array_clear(grep->skipped);
    } else if (!grep->whole && behind) {
        path = behind;
        line = GREP_WHOLE_FILE;
    } else if (!grep->whole) {
        path = grep->rules.at_path ? grep->rules.at_path : "";
        line = grep->rules.at_line;
    }
    return json_pack("{s:o, s:I, s:o, s:s?, s:I, s:I, s:O, s:O, s:b}", "files", files, "matches",
                     (json_int_t)matches, "next_cursor", pack_next(grep, path, line), "over", over,
                     "unreadable", (json_int_t)grep->unreadable, "binary_files", (json_int_t)grep->binary,
                     "binary", grep->binaries, "skipped", grep->skipped, "one_file", grep->only != NULL);
}

/* ---- the request ---- */

static void take_rules(struct grep *grep)
{
    grep->rules.limit = (size_t)file_call_bounded(grep->call, "limit", 50, 1, MOST_LINES);
    grep->rules.max_per_file = (size_t)file_call_bounded(grep->call, "max_per_file", 20, 1, MOST_LINES);
    grep->rules.context = file_call_bounded(grep->call, "context_lines", 0, 0, 100);
    grep->rules.room = (size_t)file_call_bounded(grep->call, "max_bytes", 90000, 1, MOST_ROOM);
    grep->rules.twice = file_call_flag(grep->call, "twice");
    int64_t wait_ms = file_call_bounded(grep->call, "wait_ms", 25000, 1, 60000);
    grep->until_ms = clock_boottime_ms() + wait_ms;
    grep->asked_ms = file_call_bounded(grep->call, "asked_ms", wait_ms, 1, 60000);
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

/* A page that is as the one before would be asked for again and again. */
static int expect_progress(const struct grep *grep, bool was_by_files, const char *behind, struct error *err)
{
    if (!was_by_files || behind || grep->whole)
        return 0;
    return error_set(err, ERROR_TIMEOUT,
                     "no file could be searched within wait_seconds: to list them may take longer, or the "
                     "machine is busy; nothing was lost, ask again with more of it, or search a folder "
                     "farther down");
}

static int run(struct grep *grep, json_t **ret, struct error *err)
{
    struct grep_list list = { .rg = RG_INIT };
    _cleanup_free_ char *behind = NULL;
    bool was_by_files = grep->by_files;
    int rc = grep_list_begin(&list, grep, err);
    if (rc == 0)
        rc = grep_search(grep, &list, &behind, err);
    grep->by_files |= grep->timed_out;
    if (rc == 0)
        rc = expect_progress(grep, was_by_files, behind, err);
    if (rc == 0)
        *ret = tell(grep, behind);
    grep_list_clear(&list);
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
                         .binaries = json_array(),
                         .skipped = json_array() };
    grep.hits = hits_new(&grep.rules);
    int rc = prepare(&grep, &place, &at, err) < 0 ? -1 : run(&grep, ret, err);
    hits_free(grep.hits);
    glob_free(grep.include);
    glob_free(grep.exclude);
    json_decref(grep.binaries);
    json_decref(grep.skipped);
    memory_close_fd(&grep.folder_fd);
    free(grep.prefix);
    return rc;
}
