/* Owns one ripgrep over a list of files: what it is told, what is taken of its answer, which is a stranger's.
 */
#include "lib/agent/files/beneath.h"
#include "lib/agent/files/grep.h"
#include "lib/agent/search/clip.h"
#include "lib/agent/search/names.h"
#include "lib/agent/search/order.h"
#include "lib/agent/search/ripgrep.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#define PIECE       (256u << 10)
#define BINARY_TOLD 20
#define PROBLEM_MAX 400

/* What is taken of one ripgrep. */
struct taking {
    struct grep *grep;
    struct hits *hits;
    struct rg_files files;
    const char *name; /* the file that it is in, as the list says it */
    bool whole;       /* its last message was read */
    int64_t until_ms;
    /* Of those that it finds by itself only the names are taken. */
    struct firsts *names;
    const char *behind; /* files up to this path are not wanted */
};

/* ---- lines ---- */

/* The line without its end. */
static uint64_t line_length(const struct ripgrep_message *m)
{
    uint64_t length = m->line_length;
    if (length > 0 && m->last == '\n')
        length -= length > 1 && m->before_last == '\r' ? 2 : 1;
    return length;
}

static size_t path_offset(const char *name, size_t length)
{
    return length >= 2 && !memcmp(name, "./", 2) ? 2 : 0;
}

/* Bytes of a line that were not kept, from the file itself, which may be another one by now: they must hold
 * what matched. 0 = they cannot be had. */
static size_t read_around(const struct taking *t, struct ripgrep_message *m, uint64_t from, char *to,
                          size_t size)
{
    uint64_t inside = (uint64_t)m->start - from;
    if (m->offset < 0)
        return 0;
    _cleanup_close_ int fd = beneath_open(t->grep->folder_fd, t->name);
    ssize_t got = fd < 0 ? -1 : pread(fd, to, size, m->offset + (off_t)from);
    if (got <= 0 || inside >= (uint64_t)got)
        return 0;
    size_t held = (size_t)got - inside < m->match.length ? (size_t)got - inside : m->match.length;
    return memcmp(to + inside, m->match.data, held) == 0 ? (size_t)got : 0;
}

/* What is shown of the line: of what was kept, of the file, or at least what matched. */
static void choose(const struct taking *t, struct ripgrep_message *m, struct hit *hit, char *space)
{
    uint64_t length = line_length(m), from, size;
    uint64_t start = m->start > 0 ? (uint64_t)m->start : 0, end = m->end > 0 ? (uint64_t)m->end : 0;
    clip_choose(length, start, end, &from, &size);
    hit->data = m->line.data + from;
    if (from + size > m->line.length) {
        hit->data = space;
        size = start >= from ? read_around(t, m, from, space, size) : 0;
    }
    if (size == 0 && length > 0) {
        from = start;
        hit->data = m->match.data;
        size = m->match.length < CLIP_BYTES ? m->match.length : CLIP_BYTES;
    }
    hit->length = size;
    const char *first = hit->data;
    clip_to_characters(&hit->data, &hit->length, from > 0, from + size < length);
    hit->before = from + (uint64_t)(hit->data - first);
    hit->after = hit->before + hit->length < length ? length - hit->before - hit->length : 0;
}

static void take_line(struct taking *t, struct ripgrep_message *m)
{
    char space[CLIP_BYTES];
    struct hit hit = { .line = m->line_number,
                       .matched = m->type == RIPGREP_MATCH,
                       .column = m->start + 1,
                       .count = (int64_t)m->submatches };
    choose(t, m, &hit, space);
    hits_add(t->hits, &hit);
}

/* ---- files ---- */

/* From the workspace on. */
static void append_path(const struct grep *grep, const char *name, size_t length, struct buffer *out)
{
    size_t skip = path_offset(name, length);
    buffer_append_text(out, grep->prefix);
    buffer_append(out, name + skip, length - skip);
}

json_t *grep_path(const struct grep *grep, const char *name, size_t length)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    json_t *told = json_object();
    append_path(grep, name, length, &path);
    names_put(told, "path", buffer_text(&path), path.length);
    return told;
}

static void take_begin(struct taking *t)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    append_path(t->grep, t->name, strlen(t->name), &path);
    hits_end(t->hits, false);
    hits_begin(t->hits, path.data, path.length);
}

static void take_end(struct taking *t, const struct ripgrep_message *m)
{
    struct grep *grep = t->grep;
    bool binary = m->binary_offset >= 0;
    hits_end(t->hits, !binary);
    if (!binary)
        return;
    grep->binary++;
    if (json_array_size(grep->binaries) >= BINARY_TOLD)
        return;
    json_array_append_new(grep->binaries, grep_path(grep, t->name, strlen(t->name)));
}

static void take_name(struct taking *t, struct ripgrep_message *m)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    const char *name = buffer_text(&m->path);
    append_path(t->grep, name, m->path.length, &path);
    if ((!t->behind || order_of_paths(buffer_text(&path), t->behind) > 0) && grep_wants(t->grep, name))
        firsts_add(t->names, name);
}

static void take_of_file(struct taking *t, struct ripgrep_message *m)
{
    size_t index = rg_file_index(&t->files, m->path.data, m->path.length);
    if (index == RG_FILE_NONE)
        return;
    t->name = t->files.names[index];
    if (m->type == RIPGREP_BEGIN)
        take_begin(t);
    else if (m->type == RIPGREP_END)
        take_end(t, m);
    else
        take_line(t, m);
}

static void take(void *user, const struct ripgrep_message *message)
{
    struct taking *t = user;
    struct ripgrep_message m = *message;
    bool has_path =
        m.path.length > 0 && m.path.length < RIPGREP_PATH_MAX && !memchr(m.path.data, '\0', m.path.length);
    t->whole |= m.type == RIPGREP_SUMMARY;
    if (!has_path || m.type == RIPGREP_SUMMARY || m.type == RIPGREP_OTHER)
        return;
    if (!t->names)
        take_of_file(t, &m);
    else if (m.type == RIPGREP_BEGIN)
        take_name(t, &m);
}

/* ---- the process ---- */

/* A '$' that stands for the end of a line is meant before "\r\n" too, as lines are shown without it; who
 * writes of the "\r" in a pattern knows where it is. */
static bool wants_ends_of_both_kinds(const struct grep *grep)
{
    if (file_call_flag(grep->call, "literal") || strstr(grep->pattern, "\\r"))
        return false;
    for (const char *at = grep->pattern; *at; at++) {
        if (*at == '$')
            return true;
        at += *at == '\\' && at[1];
    }
    return false;
}

static void add_search(struct grep_arguments *a, const struct grep *grep, size_t most, int64_t context,
                       char numbers[2][24])
{
    const struct file_call_context *call = grep->call;
    snprintf(numbers[0], sizeof numbers[0], "%zu", most);
    snprintf(numbers[1], sizeof numbers[1], "%lld", (long long)context);
    const char *const options[] = {
        "--json",
        "--no-mmap", /* a file that is cut meanwhile would end it */
        file_call_flag(call, "case_sensitive") ? "--case-sensitive" : "--ignore-case",
        file_call_flag(call, "literal") ? "--fixed-strings" : "--no-fixed-strings",
        "--max-count",
        numbers[0],
        "--context",
        numbers[1]
    };
    for (size_t i = 0; i < N_ELEMENTS(options); i++)
        grep_argument(a, options[i]);
    if (file_call_flag(call, "whole_words"))
        grep_argument(a, "--word-regexp");
    if (wants_ends_of_both_kinds(grep))
        grep_argument(a, "--crlf");
}

static void add_pattern(struct grep_arguments *a, const struct grep *grep)
{
    grep_argument(a, "-e");
    grep_argument(a, grep->pattern);
    grep_argument(a, "--");
}

/* Its own words, on one line each, without the advice on its options. */
static int bad_pattern(struct rg *rg, struct error *err)
{
    char *text = (char *)buffer_text(&rg->problem), *advice = strstr(text, "\n\nConsider");
    if (advice)
        *advice = '\0';
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    const char *reason = strstr(text, "\nerror: ");
    if (reason && length > PROBLEM_MAX) /* the pattern, which stands before it, is long */
        return error_set(err, ERROR_INVALID, "pattern: regex parse error: %.*s", PROBLEM_MAX, reason + 8);
    return error_set(err, ERROR_INVALID, "pattern: %.*s", PROBLEM_MAX, text);
}

static int judge(const struct taking *t, struct rg *rg, int status, bool late, enum grep_outcome *ret,
                 struct error *err)
{
    *ret = late ? GREP_LATE : t->whole ? GREP_DONE : GREP_BROKEN;
    if (*ret != GREP_BROKEN)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return error_set(err, ERROR_UNAVAILABLE, "ripgrep could not be started: try again");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2 && rg->problem.length > 0)
        return bad_pattern(rg, err);
    return 0;
}

static bool read_all(struct rg *rg, struct taking *t)
{
    _cleanup_free_ char *piece = xmalloc(PIECE);
    struct ripgrep *reader = ripgrep_new(take, t);
    ssize_t got;
    while ((got = rg_read(rg, piece, PIECE, t->until_ms)) > 0 && ripgrep_feed(reader, piece, (size_t)got))
        ;
    t->whole &= got == 0 && ripgrep_is_whole(reader);
    ripgrep_free(reader);
    return got < 0;
}

static int run(struct taking *t, const struct grep_arguments *a, enum grep_outcome *ret, struct error *err)
{
    struct grep *grep = t->grep;
    struct rg rg = RG_INIT;
    int64_t binary = grep->binary;
    size_t told = json_array_size(grep->binaries);
    *ret = GREP_BROKEN;
    int rc = rg_start(&rg, grep->call, grep->folder_fd, a->list, &t->files, err);
    if (rc == 0) {
        bool late = read_all(&rg, t);
        int status = late ? 0 : rg_end(&rg);
        rc = judge(t, &rg, status, late, ret, err);
        grep->unreadable += *ret == GREP_DONE ? rg.problems : 0;
        if (t->hits)
            hits_end(t->hits, *ret == GREP_LATE);
    }
    if (*ret != GREP_DONE) { /* it is to be tried again */
        grep->binary = binary;
        while (json_array_size(grep->binaries) > told)
            json_array_remove(grep->binaries, told);
    }
    rg_clear(&rg);
    return rc;
}

int grep_files(struct grep *grep, const char *const *files, size_t count, int64_t until_ms, struct hits *hits,
               enum grep_outcome *ret, struct error *err)
{
    char numbers[2][24];
    struct grep_arguments a = { 0 };
    struct taking t = { .grep = grep, .hits = hits, .files = { files, count }, .until_ms = until_ms };
    _cleanup_free_ char(*names)[RG_FILE_NAME_MAX] = xcalloc(count + 1, sizeof *names);
    grep_arguments_begin(&a);
    add_search(&a, grep, grep->rules.max_per_file + 1, grep->rules.context, numbers);
    if (count == 1)
        grep_argument(&a, "--line-buffered"); /* what it has found when time is over is told */
    add_pattern(&a, grep);
    for (size_t i = 0; i < count; i++) {
        rg_file_name(i, names[i]);
        grep_argument(&a, names[i]);
    }
    if (count == 0)
        grep_argument(&a, "/dev/null");
    int rc = run(&t, &a, ret, err);
    grep_arguments_clear(&a);
    return rc;
}

int grep_rest(struct grep *grep, const char *behind, int64_t until_ms, struct firsts *names,
              enum grep_outcome *ret, struct error *err)
{
    char numbers[2][24];
    struct grep_arguments a = { 0 };
    struct taking t = { .grep = grep, .names = names, .behind = behind, .until_ms = until_ms };
    grep_arguments_begin(&a);
    add_search(&a, grep, 1, 0, numbers);
    grep_argument(&a, "--binary"); /* as it does with files that are named */
    grep_arguments_filter(&a, grep);
    add_pattern(&a, grep);
    grep_argument(&a, "./");
    int rc = run(&t, &a, ret, err);
    grep_arguments_clear(&a);
    return rc;
}
