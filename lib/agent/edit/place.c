/* Owns: what takes a match's place. Lines that old and new have in common at their ends stay the file's; the
 * rest gets the line ends of what it replaces, else of the match, else of the file.
 * It must not know: how matches were found and chosen. */
#include "lib/agent/edit/place.h"

#include "lib/agent/edit/indent.h"

void places_free(struct places *places)
{
    for (size_t i = 0; places->owned != NULL && i < places->count; i++)
        buffer_free(&places->owned[i]);
    free(places->owned);
    free(places->splices);
    *places = (struct places)PLACES_INIT;
}

/* ---- line ends ---- */

/* Walks through the matches, which are sorted, and knows which line ends each has. */
struct end_walk {
    const struct place_edit *edit;
    size_t at, index;
};

static const char *ends_at(struct end_walk *walk, size_t at)
{
    const struct view *file = walk->edit->file;
    walk->index += lines_count_ends(bytes_cut(view_text(file), walk->at, at - walk->at));
    walk->at = at;
    return file->ends.data + walk->index;
}

/* Of a match, or of the part of it that is replaced. */
static enum view_end usual_within(const struct place_edit *edit, const char *ends, size_t from, size_t length)
{
    return view_usual_end(ends, lines_count_ends(bytes_cut(view_text(edit->file), from, length)));
}

/* splice lies within match, or right behind it; matches and splices are asked for in their order. */
static void choose_end(struct end_walk *walk, const struct match *match, struct view_splice *splice)
{
    const struct place_edit *edit = walk->edit;
    const char *of_match = ends_at(walk, match->at), *of_splice = ends_at(walk, splice->at);
    splice->end = usual_within(edit, of_splice, splice->at, splice->length);
    if (splice->end == VIEW_NONE)
        splice->end = usual_within(edit, of_match, match->at, match->length);
    if (splice->end == VIEW_NONE)
        splice->end = edit->usual;
}

/* ---- exact matches ---- */

static bool ends_line(struct bytes text, size_t length)
{
    return length > 0 && text.data[length - 1] == '\n';
}

/* Whole lines that both begin and end with: the bytes of them. */
static void common_lines(struct bytes a, struct bytes b, size_t *before, size_t *after)
{
    size_t least = a.length < b.length ? a.length : b.length;
    *before = *after = 0;
    if (bytes_equal(a, b)) {
        *before = a.length;
        return;
    }
    for (size_t same = 0; same < least && a.data[same] == b.data[same]; same++)
        if (a.data[same] == '\n')
            *before = same + 1;
    for (size_t same = 0; same <= least - *before; same++) {
        if (ends_line(a, a.length - same) && ends_line(b, b.length - same))
            *after = same;
        if (same == least - *before || a.data[a.length - 1 - same] != b.data[b.length - 1 - same])
            break;
    }
}

/* Its line end goes along, unless that is part of the next match. */
static bool is_whole_line(struct bytes text, const struct match *match, const struct match *next)
{
    size_t end = match->at + match->length;
    return (match->at == 0 || text.data[match->at - 1] == '\n') && text.data[end - 1] != '\n' &&
           end < text.length && text.data[end] == '\n' && (next == NULL || next->at > end);
}

void places_make_exact(const struct place_edit *edit, const struct match *matches, size_t count,
                       bool more_follow, struct places *ret)
{
    struct bytes text = view_text(edit->file), new = view_text(edit->new);
    struct end_walk walk = { edit, 0, 0 };
    size_t before, after;
    common_lines(edit->old, new, &before, &after);
    struct bytes put = bytes_cut(new, before, new.length - before - after);
    size_t taken = edit->old.length - before - after;
    ret->splices = xcalloc(count, sizeof(*ret->splices));
    ret->count = count;
    for (size_t i = 0; i < count; i++) {
        struct view_splice *splice = &ret->splices[i];
        *splice = (struct view_splice){ .at = matches[i].at + before, .length = taken, .text = put };
        bool is_last = i + 1 == count && !more_follow;
        if (new.length == 0 && is_whole_line(text, &matches[i], is_last ? NULL : &matches[i + 1]))
            splice->length++;
        choose_end(&walk, &matches[i], splice);
        if (edit->usual == VIEW_NONE && splice->end == VIEW_NONE)
            splice->ends = edit->new->ends.data + lines_count_ends(bytes_cut(new, 0, before));
    }
}

/* ---- whole lines ---- */

static void count_same_lines(struct indent_case *lines)
{
    size_t least = lines->old_count < lines->new_count ? lines->old_count : lines->new_count;
    size_t before = 0, after = 0;
    while (before < least && bytes_equal(lines->old_lines[before], lines->new_lines[before]))
        before++;
    while (after < least - before && bytes_equal(lines->old_lines[lines->old_count - 1 - after],
                                                 lines->new_lines[lines->new_count - 1 - after]))
        after++;
    lines->same_before = before;
    lines->same_after = after;
}

/* The lines of the match that are replaced, with the end of the last where there is one. */
static void span_lines(const struct place_edit *edit, const struct match *match,
                       const struct indent_case *lines, struct view_splice *splice)
{
    struct bytes text = view_text(edit->file);
    const struct bytes *last = &lines->file_lines[lines->old_count - 1 - lines->same_after];
    size_t end = match->at + match->length;
    bool is_ended = end < text.length;
    if (lines->same_before < lines->old_count)
        splice->at = (size_t)(lines->file_lines[lines->same_before].data - text.data);
    else
        splice->at = end + is_ended;
    if (lines->same_before + lines->same_after == lines->old_count)
        return;
    size_t line_end = (size_t)(last->data - text.data) + last->length;
    splice->length = line_end + (line_end < text.length) - splice->at;
}

static bool indent_lines(const struct place_edit *edit, const struct indent_case *lines, struct buffer *ret)
{
    _cleanup_indent_ struct indent *indent = indent_open(lines);
    for (size_t i = lines->same_before; i < lines->new_count - lines->same_after; i++) {
        indent_append(indent, i, ret);
        buffer_append_char(ret, '\n');
        if (ret->length > edit->limit)
            return false;
    }
    return true;
}

/* All lines that come have their end. Where the file's last line has none, it keeps having none, and what
 * comes behind it brings the end before itself. */
static void fit_unended(const struct place_edit *edit, struct view_splice *splice, struct buffer *put)
{
    struct bytes text = view_text(edit->file);
    bool at_end = splice->at + splice->length == text.length;
    if (!at_end || put->length == 0 || text.data[text.length - 1] == '\n')
        return;
    put->length--;
    if (splice->length == 0) {
        memmove(put->data + 1, put->data, put->length);
        put->data[0] = '\n';
        put->length++;
    }
}

static bool make_window(const struct place_edit *edit, struct indent_case lines, const struct match *match,
                        struct view_splice *splice, struct buffer *put)
{
    size_t count;
    _cleanup_free_ struct bytes *file =
        lines_split(bytes_cut(view_text(edit->file), match->at, match->length), &count);
    /* A last line that is empty has no end here, and is none. */
    if (count < lines.old_count)
        file[count++] = bytes_cut(view_text(edit->file), match->at + match->length, 0);
    lines.file_lines = file;
    span_lines(edit, match, &lines, splice);
    if (!indent_lines(edit, &lines, put))
        return false;
    fit_unended(edit, splice, put);
    splice->text = (struct bytes){ put->data, put->length };
    return true;
}

bool places_make_lines(const struct place_edit *edit, const struct match *matches, size_t count,
                       struct places *ret)
{
    struct indent_case lines = { .old_count = 0 };
    _cleanup_free_ struct bytes *old = lines_split(edit->old, &lines.old_count);
    _cleanup_free_ struct bytes *new = lines_split(view_text(edit->new), &lines.new_count);
    struct end_walk walk = { edit, 0, 0 };
    enum view_end own = view_usual_end(edit->new->ends.data, edit->new->ends.length);
    size_t size = 0;
    lines.old_lines = old;
    lines.new_lines = new;
    lines.style = indent_sample(view_text(edit->file));
    count_same_lines(&lines);
    ret->splices = xcalloc(count, sizeof(*ret->splices));
    ret->owned = xcalloc(count, sizeof(*ret->owned));
    ret->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!make_window(edit, lines, &matches[i], &ret->splices[i], &ret->owned[i]))
            return false;
        size += ret->owned[i].length;
        if (size > edit->limit)
            return false;
        struct match ended = { matches[i].at, matches[i].length };
        ended.length += ended.at + ended.length < edit->file->text.length;
        choose_end(&walk, &ended, &ret->splices[i]);
        if (ret->splices[i].end == VIEW_NONE)
            ret->splices[i].end = own != VIEW_NONE ? own : VIEW_LF;
    }
    return true;
}
