/* Owns in what pieces the files of a search for content are searched. One ripgrep says which files there are,
 * in order; others search some of them at a time, all cores at once, until a page is full: so pages are in
 * order, and a page of what stands everywhere costs little. A ripgrep that is ended does not say which files
 * it was through with, so nothing that it found counts: each piece has a part of the time that is left, and
 * one that takes longer is tried again with fewer files. */
#include "lib/agent/files/grep.h"
#include "lib/base/clock.h"

#include <fcntl.h>
#include <sys/stat.h>

#define FIRST_FILES 128
#define SOON_FILES  2048
#define MOST_FILES  4096
#define MOST_BYTES  (512u << 10) /* of names in one command line */
#define LEAST_BYTES (16u << 10)
#define NAME_BYTES  32 /* of what ripgrep calls a file, and of where that stands */
#define MORE_FILES  64 /* than a page has lines: of what changes meanwhile some have none any more */
#define LEAST_MS    20 /* to start one and read its answer */
#define LARGE_BYTES (1 << 20)

struct batch {
    struct buffer names;
    const char **files;
    size_t count;
};

struct search {
    struct grep *grep;
    struct grep_list *list;
    struct batch batch;
    size_t at;      /* the first file of it that is not searched */
    size_t size;    /* of the next piece */
    size_t wary_to; /* up to this file of it something is slow, or breaks it: no larger pieces */
    bool begun;     /* a ripgrep had some of the time */
    char *behind;
};

/* ---- files ---- */

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

static size_t most_files(const struct search *s)
{
    size_t most = rg_files_most(s->grep->call), named = name_bytes() / NAME_BYTES;
    most = named < most ? named : most;
    return most < MOST_FILES ? most : MOST_FILES;
}

static void batch_read(struct search *s)
{
    struct batch *batch = &s->batch;
    batch_clear(batch);
    s->at = s->wary_to = 0;
    s->size = s->size < most_files(s) ? s->size : most_files(s);
    grep_list_next(s->list, s->size, name_bytes(), &batch->names);
    const char *at = batch->names.data, *end = at + batch->names.length;
    batch->files = xcalloc(s->size, sizeof *batch->files);
    for (; at < end; at += strlen(at) + 1)
        batch->files[batch->count++] = at;
}

/* ---- pieces ---- */

static int64_t time_left(const struct search *s)
{
    return s->grep->until_ms - clock_boottime_ms();
}

/* One file may have all of the time. */
static int64_t end_of_piece(const struct search *s, size_t size)
{
    int64_t left = time_left(s);
    return s->grep->until_ms - (size > 1 && left > 2 * LEAST_MS ? left / 2 : 0);
}

/* A piece is to take about a tenth of the time that is left: what is lost when time is over is little. */
static void set_pace(struct search *s, size_t searched, int64_t took_ms)
{
    int64_t left = time_left(s);
    if (4 * took_ms > left)
        s->size = searched > 1 ? searched / 2 : 1;
    else if (searched == s->size && s->at >= s->wary_to && 8 * took_ms <= left)
        s->size *= 16 * took_ms <= left ? 4 : 2;
}

static void accept(struct search *s, size_t searched, struct hits *hits)
{
    const char *last = s->batch.files[s->at + searched - 1];
    hits_move(hits, s->grep->hits);
    s->at += searched;
    free(s->behind);
    s->behind = xasprintf("%s%s", s->grep->prefix, last + 2);
}

static void try_fewer(struct search *s, size_t searched, enum grep_outcome outcome)
{
    size_t fewer = searched / (outcome == GREP_LATE ? 8 : 2);
    if (s->wary_to < s->at + searched)
        s->wary_to = s->at + searched;
    s->size = fewer > 0 ? fewer : 1;
}

/* No page is whole that waits for it: it had all the time of this one, or nearly so. Where a small file had,
 * it is the machine that is slow. */
static bool takes_too_long(const struct search *s, int64_t had_ms)
{
    struct stat stat;
    const char *name = s->batch.files[s->at];
    return !s->begun && 2 * had_ms >= s->grep->asked_ms &&
           fstatat(s->grep->folder_fd, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && stat.st_size >= LARGE_BYTES;
}

static void skip(struct search *s, struct hits *hits)
{
    const char *name = s->batch.files[s->at];
    json_array_append_new(s->grep->skipped, grep_path(s->grep, name, strlen(name)));
    accept(s, 1, hits);
}

/* What breaks it, as a file of endless lines may, is left out once it is known which one does. */
static int search_piece(struct search *s, struct error *err)
{
    enum grep_outcome outcome;
    struct hits *hits = hits_new(&s->grep->rules);
    size_t left = s->batch.count - s->at, size = s->size < left ? s->size : left;
    int64_t started = clock_boottime_ms();
    int rc = grep_files(s->grep, s->batch.files + s->at, size, end_of_piece(s, size), hits, &outcome, err);
    int64_t took = clock_boottime_ms() - started;
    if (rc == 0 && (outcome == GREP_DONE || (outcome == GREP_BROKEN && size == 1))) {
        s->grep->unreadable += outcome == GREP_BROKEN;
        accept(s, size, hits);
        set_pace(s, size, took);
    } else if (rc == 0 && outcome == GREP_LATE && size == 1 && takes_too_long(s, took)) {
        skip(s, hits);
    } else if (rc == 0) {
        try_fewer(s, size, outcome);
    }
    s->grep->timed_out |= rc == 0 && outcome != GREP_DONE && time_left(s) <= 0;
    s->begun = true;
    hits_free(hits);
    return rc;
}

static int search_batch(struct search *s, struct error *err)
{
    int rc = 0;
    while (s->at < s->batch.count && rc == 0 && !s->grep->timed_out && !hits_is_full(s->grep->hits))
        rc = search_piece(s, err);
    return rc;
}

/* ---- the whole ---- */

/* Where files are searched fast and many are left, one that finds them by itself is faster still: those that
 * it names are searched as all are. Most of the time is its, once: where that is not enough it is lost, and
 * this search never tries it again. */
static int search_rest(struct search *s, struct error *err)
{
    enum grep_outcome outcome;
    struct firsts *names = firsts_new(s->grep->rules.limit + MORE_FILES);
    int rc = grep_rest(s->grep, s->behind, s->grep->until_ms - time_left(s) / 4, names, &outcome, err);
    if (rc == 0 && outcome == GREP_DONE) {
        _cleanup_buffer_ struct buffer list = BUFFER_INIT;
        bool cut = firsts_take(names, &list);
        grep_list_narrow(s->list, &list, cut);
        s->size = FIRST_FILES;
    } else {
        s->grep->by_files = true;
        s->grep->timed_out |= s->list->narrowed; /* the list that it was is gone */
        s->size = SOON_FILES;
    }
    firsts_free(names);
    return rc;
}

static bool is_for_rest(const struct search *s)
{
    if (s->list->narrowed)
        return !grep_list_was_narrowed(s->list);
    return !s->grep->by_files && s->size > SOON_FILES;
}

static int search_next(struct search *s, struct error *err)
{
    struct grep *grep = s->grep;
    if (is_for_rest(s))
        return search_rest(s, err);
    batch_read(s);
    if (s->list->broken)
        return error_set(err, ERROR_UNAVAILABLE,
                         "ripgrep was ended before it had listed all files: try again");
    if (grep->timed_out)
        return 0;
    grep->whole = s->batch.count == 0;
    return search_batch(s, err);
}

/* Where no file tells of a bad pattern. */
static int check_pattern(struct search *s, struct error *err)
{
    enum grep_outcome outcome;
    if (s->begun || s->grep->timed_out)
        return 0;
    return grep_files(s->grep, NULL, 0, s->grep->until_ms, s->grep->hits, &outcome, err);
}

int grep_search(struct grep *grep, struct grep_list *list, char **ret_behind, struct error *err)
{
    struct search s = { .grep = grep, .list = list, .size = grep->by_files ? 1 : FIRST_FILES };
    int rc = 0;
    while (rc == 0 && !grep->whole && !grep->timed_out && !hits_is_full(grep->hits))
        rc = search_next(&s, err);
    if (rc == 0)
        rc = check_pattern(&s, err);
    grep->whole |= s.at == s.batch.count && grep_list_is_at_end(list);
    *ret_behind = s.behind;
    batch_clear(&s.batch);
    return rc;
}
