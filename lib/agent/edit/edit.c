/* Owns: the order of things: each edit is found, chosen and put in place on the result of the one before; the
 * first that cannot be made ends it all.
 * It must not know: files, paths, what a change means. Bytes, old and new are hostile: every step takes time
 * linear in them, and the result is bounded before it is made. */
#include "lib/agent/edit/edit.h"

#include "lib/agent/edit/place.h"
#include "lib/agent/edit/tell.h"

/* Places that are replaced at once: what is made for each of them exists for so many. */
enum { ROUND = 32768 };

struct job {
    struct view now, spare, original;
    struct changes changes;
    enum view_end usual; /* of the original */
    size_t limit;
    size_t exact, fuzzy, replaced;
};

static void job_free(struct job *job)
{
    view_free(&job->now);
    view_free(&job->spare);
    view_free(&job->original);
    changes_free(&job->changes);
}

void edit_result_clear(struct edit_result *result)
{
    buffer_free(&result->bytes);
    free(result->spans);
    *result = (struct edit_result)EDIT_RESULT_INIT;
}

/* ---- one edit ---- */

/* Its texts as the file is seen. The file's byte order mark is not part of it, so it is none of theirs. */
struct texts {
    struct view old, new;
    bool old_had_bom;
};

static void texts_free(struct texts *texts)
{
    view_free(&texts->old);
    view_free(&texts->new);
}

static bool skip_bom(struct bytes *text)
{
    bool has_bom = bytes_begin_with(*text, (struct bytes){ "\xEF\xBB\xBF", 3 });
    if (has_bom)
        *text = bytes_from(*text, 3);
    return has_bom;
}

static void texts_load(struct texts *texts, const struct job *job, const struct edit *edit)
{
    struct bytes old = bytes_placed(edit->old);
    texts->old_had_bom = job->original.has_bom && skip_bom(&old);
    view_load_part(&texts->old, old, job->original.cr_only);
    view_load_part(&texts->new, bytes_placed(edit->new), job->original.cr_only);
}

/* new comes right behind the file's mark and brings one. */
static void drop_second_bom(struct texts *texts, const struct job *job, const struct matches *matches)
{
    struct bytes new = view_text(&texts->new);
    bool at_start = matches->count == 0 || (matches->count == 1 && matches->items[0].at == 0);
    if (job->original.has_bom && (texts->old_had_bom || at_start) && skip_bom(&new))
        buffer_consume(&texts->new.text, texts->new.text.length - new.length);
}

static int check_growth(const struct job *job, const struct view_splice *splices, size_t count,
                        struct error *err)
{
    size_t size = job->now.text.length;
    bool too_large = false;
    for (size_t i = 0; i < count; i++)
        size -= splices[i].length;
    for (size_t i = 0; i < count; i++)
        too_large |= __builtin_add_overflow(size, splices[i].text.length, &size);
    if (too_large || size > job->limit)
        return error_set(err, ERROR_TOO_LARGE, "the edited file would be larger than %zu bytes", job->limit);
    return 0;
}

static int put(struct job *job, struct view_splice *splices, size_t count, struct error *err)
{
    size_t kept = 0;
    if (check_growth(job, splices, count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (splices[i].length > 0 || splices[i].text.length > 0)
            splices[kept++] = splices[i];
    changes_add(&job->changes, splices, kept);
    view_replace(&job->now, splices, kept, &job->spare);
    return 0;
}

static bool is_ended(struct bytes text)
{
    return text.length > 0 && text.data[text.length - 1] == '\n';
}

/* old is empty: the content of an empty file. */
static int fill(struct job *job, struct texts *texts, size_t index, struct error *err)
{
    const struct matches none = MATCHES_INIT;
    if (job->now.text.length > 0)
        return error_set(
            err, ERROR_INVALID,
            "Edit %zu: 'old' is empty, and the file is not. To insert text, give the line beside it "
            "as 'old', and that line with the text as 'new'.",
            index);
    drop_second_bom(texts, job, &none);
    struct view_splice splice = { .text = view_text(&texts->new), .end = job->usual };
    if (job->usual == VIEW_NONE)
        splice.ends = texts->new.ends.data;
    job->exact++;
    job->replaced++;
    return put(job, &splice, 1, err);
}

/* The first way that finds anything; true = exactly. */
static bool find(const struct job *job, struct bytes old, struct matches *ret)
{
    struct bytes text = view_text(&job->now);
    find_exact(text, old, ret);
    if (ret->count > 0)
        return true;
    for (int grade = 0; grade < LINES_GRADES && ret->count == 0; grade++)
        find_lines(text, old, (enum lines_grade)grade, ret);
    return false;
}

/* Leaves those that are to be replaced. */
static int choose(const struct tell *tell, const struct edit *edit, bool is_exact, struct matches *matches,
                  struct error *err)
{
    if (matches->count == 0)
        return tell_not_found(tell, err);
    if (edit->replace_all)
        return 0;
    if (edit->occurrence > matches->count)
        return tell_no_such_occurrence(tell, matches, edit->occurrence, err);
    if (edit->occurrence == 0 && (matches->count > 1 || matches->overlap))
        return tell_too_many(tell, matches, is_exact, err);
    if (edit->occurrence > 0)
        matches->items[0] = matches->items[edit->occurrence - 1];
    matches->count = 1;
    return 0;
}

static int replace_some(struct job *job, const struct place_edit *edit, const struct matches *matches,
                        size_t from, size_t count, bool is_exact, enum view_end *ret_end, struct error *err)
{
    _cleanup_places_ struct places places = PLACES_INIT;
    const struct match *some = matches->items + from;
    if (is_exact)
        places_make_exact(edit, some, count, from + count < matches->count, &places);
    else if (!places_make_lines(edit, some, count, &places))
        return error_set(err, ERROR_TOO_LARGE, "the edited file would be larger than %zu bytes", job->limit);
    *ret_end = places.splices[count - 1].end;
    return put(job, places.splices, places.count, err);
}

/* A file whose last line was ended stays so. */
static int end_last_line(struct job *job, enum view_end end, struct error *err)
{
    struct bytes text = view_text(&job->now);
    struct view_splice splice = { .at = text.length,
                                  .text = { "\n", 1 },
                                  .end = end != VIEW_NONE ? end : VIEW_LF };
    return text.length > 0 && !is_ended(text) ? put(job, &splice, 1, err) : 0;
}

/* From the last match to the first, so that places stay where they were found. */
static int replace(struct job *job, struct texts *texts, const struct matches *matches, bool is_exact,
                   struct error *err)
{
    drop_second_bom(texts, job, matches);
    struct place_edit edit = { &job->now, view_text(&texts->old), &texts->new, job->usual, job->limit };
    bool was_ended = is_ended(view_text(&job->now));
    enum view_end end, last_end = VIEW_NONE;
    for (size_t left = matches->count; left > 0;) {
        bool is_first = left == matches->count;
        size_t count = left < ROUND ? left : ROUND;
        left -= count;
        if (replace_some(job, &edit, matches, left, count, is_exact, &end, err) < 0)
            return -1;
        last_end = is_first ? end : last_end;
    }
    job->exact += is_exact;
    job->fuzzy += !is_exact;
    job->replaced += matches->count;
    return was_ended ? end_last_line(job, last_end, err) : 0;
}

static int apply_one(struct job *job, const struct edit *edit, size_t index, struct error *err)
{
    __attribute__((cleanup(texts_free))) struct texts texts = { VIEW_INIT, VIEW_INIT, false };
    _cleanup_matches_ struct matches matches = MATCHES_INIT;
    if (edit->replace_all && edit->occurrence > 0)
        return error_set(err, ERROR_INVALID, "Edit %zu: 'replace_all' and 'occurrence' exclude each other.",
                         index);
    texts_load(&texts, job, edit);
    struct tell tell = { index, view_text(&texts.old), &job->now, &job->original, &job->changes };
    if (tell.old.length == 0)
        return fill(job, &texts, index, err);
    bool is_exact = find(job, tell.old, &matches);
    if (choose(&tell, edit, is_exact, &matches, err) < 0)
        return -1;
    return replace(job, &texts, &matches, is_exact, err);
}

/* ---- all of them ---- */

static void job_start(struct job *job, struct bytes original, size_t limit)
{
    view_load(&job->original, original);
    job->now.has_bom = job->original.has_bom;
    job->now.cr_only = job->original.cr_only;
    buffer_reserve(&job->now.text, 1);
    buffer_reserve(&job->now.ends, 1);
    buffer_append(&job->now.text, job->original.text.data, job->original.text.length);
    buffer_append(&job->now.ends, job->original.ends.data, job->original.ends.length);
    job->usual = view_usual_end(job->original.ends.data, job->original.ends.length);
    job->limit = limit;
}

/* Spans of the views, as offsets of the bytes. */
static struct edit_span *stored_spans(struct job *job)
{
    struct view_cursor old = view_cursor_at_start(&job->original), new = view_cursor_at_start(&job->now);
    for (size_t i = 0; i < job->changes.count; i++) {
        struct edit_span *span = &job->changes.spans[i];
        size_t old_end = span->old_at + span->old_length, new_end = span->new_at + span->new_length;
        span->old_at = view_cursor_to(&old, span->old_at);
        span->old_length = view_cursor_to(&old, old_end) - span->old_at;
        span->new_at = view_cursor_to(&new, span->new_at);
        span->new_length = view_cursor_to(&new, new_end) - span->new_at;
    }
    return STEAL(job->changes.spans);
}

static int finish(struct job *job, struct edit_result *ret, struct error *err)
{
    if (view_stored_size(&job->now) > job->limit)
        return error_set(err, ERROR_TOO_LARGE, "the edited file would be larger than %zu bytes", job->limit);
    *ret = (struct edit_result){ .exact = job->exact, .fuzzy = job->fuzzy, .replaced = job->replaced };
    view_store(&job->now, &ret->bytes);
    ret->span_count = job->changes.count;
    ret->spans = stored_spans(job);
    return 0;
}

int edit_apply(struct bytes original, const struct edit *edits, size_t count, size_t limit,
               struct edit_result *ret, struct error *err)
{
    __attribute__((cleanup(job_free))) struct job job = { VIEW_INIT, VIEW_INIT, VIEW_INIT, CHANGES_INIT,
                                                          VIEW_NONE, 0,         0,         0,
                                                          0 };
    if (count == 0)
        return error_set(err, ERROR_INVALID, "'edits' has no edit");
    job_start(&job, bytes_placed(original), limit);
    for (size_t i = 0; i < count; i++)
        if (apply_one(&job, &edits[i], i, err) < 0)
            return -1;
    return finish(&job, ret, err);
}
