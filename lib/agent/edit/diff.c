/* Owns: the form of a unified diff: which lines belong to a hunk, how they are written, where it is cut.
 * It must not know: what the edit was. Spans are widened to whole lines, and only those are compared. */
#include "lib/agent/edit/diff.h"

#include "lib/agent/edit/compare.h"
#include "lib/agent/edit/lines.h"
#include "lib/base/utf8.h"

enum { CONTEXT = 3 };

/* Lines that changed: numbers from 0, and where the first is. */
struct atom {
    size_t old_line, old_count, old_at, new_line, new_count, new_at;
};

struct diff {
    struct bytes old, new;
    struct atom *atoms;
    size_t count, room;
    size_t start, limit; /* of the output */
    bool is_cut;
    size_t left_out; /* changed lines */
    struct buffer *out;
};

/* ---- which lines ---- */

/* The line at *at, with its end. */
static bool next_line(struct bytes text, size_t *at, struct bytes *ret)
{
    size_t from = *at;
    if (!line_next(text, at, ret))
        return false;
    *ret = bytes_cut(text, from, *at - from);
    return true;
}

static struct bytes *split(struct bytes text, size_t *ret_count)
{
    size_t count = 0, at = 0;
    struct bytes *lines = xreallocarray(NULL, lines_count_ends(text) + 1, sizeof(*lines));
    while (next_line(text, &at, &lines[count]))
        count++;
    *ret_count = count;
    return lines;
}

static bool is_line_start(struct bytes text, size_t at)
{
    return at == 0 || text.data[at - 1] == '\n';
}

/* Whole lines of both, of the spans from *index on that share them. */
static struct edit_span next_region(const struct diff *diff, const struct edit_span *spans, size_t count,
                                    size_t *index)
{
    const struct edit_span *first = &spans[*index];
    size_t start = line_start(diff->old, first->old_at), end, new_end, rest;
    struct edit_span region = { start, 0, first->new_at - (first->old_at - start), 0 };
    do {
        end = spans[*index].old_at + spans[*index].old_length;
        new_end = spans[*index].new_at + spans[*index].new_length;
        bool ends_line = is_line_start(diff->old, end) && is_line_start(diff->new, new_end);
        size_t line_end = ends_line ? end : bytes_find(diff->old, end, '\n');
        rest = line_end - end + (!ends_line && line_end < diff->old.length);
        ++*index;
    } while (*index < count && spans[*index].old_at < end + rest);
    region.old_length = end + rest - region.old_at;
    region.new_length = new_end + rest - region.new_at;
    return region;
}

static void add_atom(struct diff *diff, struct atom atom)
{
    if (diff->count == diff->room) {
        diff->room = diff->room > 0 ? diff->room * 2 : 16;
        diff->atoms = xreallocarray(diff->atoms, diff->room, sizeof(*diff->atoms));
    }
    diff->atoms[diff->count++] = atom;
}

static size_t offset_of(struct bytes text, const struct bytes *lines, size_t count, size_t index, size_t end)
{
    return index < count ? (size_t)(lines[index].data - text.data) : end;
}

/* old_line, new_line: of the region's first lines. */
static void compare_region(struct diff *diff, const struct edit_span *region, size_t old_line,
                           size_t new_line)
{
    size_t old_count, new_count;
    _cleanup_free_ struct bytes *old =
        split(bytes_cut(diff->old, region->old_at, region->old_length), &old_count);
    _cleanup_free_ struct bytes *new =
        split(bytes_cut(diff->new, region->new_at, region->new_length), &new_count);
    _cleanup_line_changes_ struct line_changes changes = { NULL, 0 };
    compare_lines(old, old_count, new, new_count, &changes);
    for (size_t i = 0; i < changes.count; i++) {
        const struct line_change *change = &changes.items[i];
        size_t old_at =
            offset_of(diff->old, old, old_count, change->old_line, region->old_at + region->old_length);
        size_t new_at =
            offset_of(diff->new, new, new_count, change->new_line, region->new_at + region->new_length);
        add_atom(diff, (struct atom){ old_line + change->old_line, change->old_count, old_at,
                                      new_line + change->new_line, change->new_count, new_at });
    }
}

static void find_atoms(struct diff *diff, const struct edit_span *spans, size_t count)
{
    size_t old_at = 0, new_at = 0, old_line = 0, new_line = 0;
    for (size_t index = 0; index < count;) {
        struct edit_span region = next_region(diff, spans, count, &index);
        old_line += lines_count_ends(bytes_cut(diff->old, old_at, region.old_at - old_at));
        new_line += lines_count_ends(bytes_cut(diff->new, new_at, region.new_at - new_at));
        old_at = region.old_at;
        new_at = region.new_at;
        compare_region(diff, &region, old_line, new_line);
    }
}

/* ---- writing ---- */

static size_t room_left(const struct diff *diff)
{
    size_t used = diff->out->length - diff->start;
    return used < diff->limit ? diff->limit - used : 0;
}

/* What does not fit is cut within the line, and nothing comes after it. */
static void put_line(struct diff *diff, char mark, struct bytes line)
{
    if (!diff->is_cut && line.length + 1 <= room_left(diff)) {
        buffer_append_char(diff->out, mark);
        buffer_append(diff->out, line.data, line.length);
        if (bytes_find(line, 0, '\n') == line.length)
            buffer_append_text(diff->out, "\n\\ No newline at end of file\n");
        return;
    }
    size_t room = room_left(diff);
    if (!diff->is_cut && room > CONTEXT * 2) {
        size_t part = room - 1 - utf8_incomplete_tail(line.data, room - 1);
        buffer_append_char(diff->out, mark);
        buffer_append(diff->out, line.data, part);
        buffer_append_char(diff->out, '\n');
    }
    diff->is_cut = true;
    diff->left_out += mark != ' ';
}

/* Returns where the lines end. */
static size_t put_lines(struct diff *diff, char mark, struct bytes text, size_t at, size_t count)
{
    struct bytes line;
    for (; count > 0 && next_line(text, &at, &line); count--)
        put_line(diff, mark, line);
    return at;
}

static size_t context_before(const struct diff *diff, const struct atom *first, size_t *ret_at)
{
    size_t lines = 0, at = first->old_at;
    for (; lines < CONTEXT && at > 0; lines++)
        at = line_start(diff->old, at - 1);
    *ret_at = at;
    return lines;
}

static size_t context_after(const struct diff *diff, const struct atom *last)
{
    struct bytes line;
    size_t at = last->old_at, lines = 0;
    for (size_t i = 0; i < last->old_count; i++)
        next_line(diff->old, &at, &line);
    while (lines < CONTEXT && next_line(diff->old, &at, &line))
        lines++;
    return lines;
}

/* An empty range stands behind the line before it. */
static void put_range(struct buffer *out, char mark, size_t line, size_t count)
{
    buffer_printf(out, " %c%zu", mark, count > 0 ? line + 1 : line);
    if (count != 1)
        buffer_printf(out, ",%zu", count);
}

static void put_hunk(struct diff *diff, const struct atom *first, const struct atom *last)
{
    size_t at, before = context_before(diff, first, &at), after = context_after(diff, last);
    size_t old_line = first->old_line - before, new_line = first->new_line - before;
    if (!diff->is_cut) {
        buffer_append_text(diff->out, "@@");
        put_range(diff->out, '-', old_line, last->old_line + last->old_count + after - old_line);
        put_range(diff->out, '+', new_line, last->new_line + last->new_count + after - new_line);
        buffer_append_text(diff->out, " @@\n");
    }
    for (const struct atom *atom = first; atom <= last; atom++) {
        at = put_lines(diff, ' ', diff->old, at,
                       atom == first ? before : atom->old_line - atom[-1].old_line - atom[-1].old_count);
        at = put_lines(diff, '-', diff->old, at, atom->old_count);
        put_lines(diff, '+', diff->new, atom->new_at, atom->new_count);
    }
    put_lines(diff, ' ', diff->old, at, after);
}

/* Length of what path begins with and git writes in octal. Bytes that are no UTF-8 stay, for whoever shows
 * the diff. */
static size_t octal_length(const char *path)
{
    uint32_t code;
    size_t size = utf8_character(path, strnlen(path, 4), &code);
    return size > 0 && utf8_acts(code) ? size : 0;
}

static bool is_quoted(const char *path)
{
    for (; *path != '\0'; path++)
        if (*path == '"' || *path == '\\' || octal_length(path) > 0)
            return true;
    return false;
}

/* As git writes it: quoted where a byte would end the name early, or is acted on instead of shown; a tab
 * behind it where it has blanks. */
static void put_path(struct buffer *out, const char *mark, const char *path)
{
    bool quoted = is_quoted(path);
    buffer_printf(out, "%.4s%s%s", mark, quoted ? "\"" : "", mark + 4);
    for (const char *p = path; *p != '\0';) {
        size_t octal = octal_length(p);
        for (size_t i = 0; i < octal; i++)
            buffer_printf(out, "\\%03o", (unsigned char)*p++);
        if (octal > 0)
            continue;
        if (*p == '"' || *p == '\\')
            buffer_append_char(out, '\\');
        buffer_append_char(out, *p++);
    }
    buffer_append_text(out, quoted ? "\"" : strchr(path, ' ') != NULL ? "\t" : "");
    buffer_append_char(out, '\n');
}

void diff_append(struct bytes old, struct bytes new, const struct edit_span *spans, size_t count,
                 const char *path, size_t limit, struct buffer *ret)
{
    struct diff diff = {
        .old = bytes_placed(old), .new = bytes_placed(new), .out = ret, .start = ret->length, .limit = limit
    };
    find_atoms(&diff, spans, count);
    if (diff.count > 0) {
        put_path(ret, "--- a/", path);
        put_path(ret, "+++ b/", path);
    }
    for (size_t i = 0, last; i < diff.count; i = last + 1) {
        for (last = i; last + 1 < diff.count; last++)
            if (diff.atoms[last + 1].old_line - diff.atoms[last].old_line - diff.atoms[last].old_count >
                2 * CONTEXT)
                break;
        put_hunk(&diff, &diff.atoms[i], &diff.atoms[last]);
    }
    if (diff.is_cut)
        buffer_printf(ret, "... diff cut at %zu bytes: %zu more changed lines\n", limit, diff.left_out);
    free(diff.atoms);
}
