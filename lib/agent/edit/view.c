/* Owns: the way from a file's bytes to a text whose line ends are all '\n', and back without changing one.
 * It must not know: why a text is replaced. Any bytes are a text: NULs, half characters, form feeds. */
#include "lib/agent/edit/view.h"

#include "lib/agent/edit/lines.h"

static const struct bytes bom = { "\xEF\xBB\xBF", 3 };

void view_free(struct view *view)
{
    buffer_free(&view->text);
    buffer_free(&view->ends);
}

static void load_lines(struct view *view, struct bytes from)
{
    for (size_t at = 0; at < from.length;) {
        size_t end = bytes_find(from, at, '\n');
        bool is_crlf = end < from.length && end > at && from.data[end - 1] == '\r';
        buffer_append(&view->text, from.data + at, end - at - is_crlf);
        if (end == from.length)
            return;
        buffer_append_char(&view->text, '\n');
        buffer_append_char(&view->ends, is_crlf ? VIEW_CRLF : VIEW_LF);
        at = end + 1;
    }
}

static void load_cr_lines(struct view *view, struct bytes from)
{
    for (size_t at = 0; at < from.length; at++) {
        bool is_crlf = from.data[at] == '\r' && at + 1 < from.length && from.data[at + 1] == '\n';
        bool is_end = from.data[at] == '\r' || from.data[at] == '\n';
        buffer_append_char(&view->text, is_end ? '\n' : from.data[at]);
        if (is_end)
            buffer_append_char(&view->ends, is_crlf ? VIEW_CRLF : from.data[at] == '\r' ? VIEW_CR : VIEW_LF);
        at += is_crlf;
    }
}

void view_load_part(struct view *view, struct bytes part, bool cr_only)
{
    view->cr_only = cr_only;
    buffer_reserve(&view->text, part.length);
    buffer_reserve(&view->ends, 1);
    if (cr_only)
        load_cr_lines(view, part);
    else
        load_lines(view, part);
}

void view_load(struct view *view, struct bytes original)
{
    view->has_bom = bytes_begin_with(original, bom);
    struct bytes from = view->has_bom ? bytes_from(original, bom.length) : original;
    bool has_lf = bytes_find(from, 0, '\n') < from.length, has_cr = bytes_find(from, 0, '\r') < from.length;
    view_load_part(view, from, has_cr && !has_lf);
}

size_t view_stored_size(const struct view *view)
{
    size_t size = view->text.length + (view->has_bom ? bom.length : 0);
    for (size_t i = 0; i < view->ends.length; i++)
        size += view->ends.data[i] == VIEW_CRLF;
    return size;
}

static void store_end(struct buffer *ret, char end)
{
    if (end != VIEW_LF)
        buffer_append_char(ret, '\r');
    if (end != VIEW_CR)
        buffer_append_char(ret, '\n');
}

void view_store(const struct view *view, struct buffer *ret)
{
    struct bytes text = view_text(view);
    size_t at = 0;
    buffer_reserve(ret, view_stored_size(view));
    if (view->has_bom)
        buffer_append(ret, bom.data, bom.length);
    for (size_t i = 0; i < view->ends.length; i++) {
        size_t end = bytes_find(text, at, '\n');
        buffer_append(ret, text.data + at, end - at);
        store_end(ret, view->ends.data[i]);
        at = end + 1;
    }
    buffer_append(ret, text.data + at, text.length - at);
}

enum view_end view_usual_end(const char *ends, size_t count)
{
    size_t seen[256] = { 0 };
    enum view_end usual = count > 0 ? (enum view_end)(unsigned char)ends[0] : VIEW_NONE;
    for (size_t i = 0; i < count; i++)
        seen[(unsigned char)ends[i]]++;
    static const enum view_end all[] = { VIEW_LF, VIEW_CRLF, VIEW_CR };
    for (size_t i = 0; i < N_ELEMENTS(all) && count > 0; i++)
        if (seen[all[i]] > seen[usual])
            usual = all[i];
    return usual;
}

/* Copies text up to `to`, and as many ends as it has. */
static void keep(const struct view *view, struct view *ret, size_t *at, size_t *end_index, size_t to)
{
    struct bytes piece = bytes_cut(view_text(view), *at, to - *at);
    size_t ends = lines_count_ends(piece);
    buffer_append(&ret->text, piece.data, piece.length);
    buffer_append(&ret->ends, view->ends.data + *end_index, ends);
    *at = to;
    *end_index += ends;
}

static void insert(const struct view_splice *splice, struct view *ret)
{
    size_t ends = lines_count_ends(splice->text);
    buffer_append(&ret->text, splice->text.data, splice->text.length);
    if (splice->ends != NULL)
        buffer_append(&ret->ends, splice->ends, ends);
    else if (ends > 0) {
        memset(buffer_reserve(&ret->ends, ends), splice->end, ends);
        ret->ends.length += ends;
    }
}

static void swap_buffers(struct buffer *a, struct buffer *b)
{
    struct buffer kept = *a;
    *a = *b;
    *b = kept;
}

void view_replace(struct view *view, const struct view_splice *splices, size_t count, struct view *spare)
{
    size_t at = 0, end_index = 0;
    spare->text.length = spare->ends.length = 0;
    buffer_reserve(&spare->text, 1);
    buffer_reserve(&spare->ends, 1);
    for (size_t i = 0; i < count; i++) {
        keep(view, spare, &at, &end_index, splices[i].at);
        end_index += lines_count_ends(bytes_cut(view_text(view), at, splices[i].length));
        at += splices[i].length;
        insert(&splices[i], spare);
    }
    keep(view, spare, &at, &end_index, view->text.length);
    swap_buffers(&view->text, &spare->text);
    swap_buffers(&view->ends, &spare->ends);
}

struct view_cursor view_cursor_at_start(const struct view *view)
{
    return (struct view_cursor){ view, 0, 0, view->has_bom ? bom.length : 0 };
}

size_t view_cursor_to(struct view_cursor *cursor, size_t at)
{
    struct bytes piece = bytes_cut(view_text(cursor->view), cursor->at, at - cursor->at);
    size_t ends = lines_count_ends(piece);
    cursor->stored += piece.length;
    for (size_t i = 0; i < ends; i++)
        cursor->stored += cursor->view->ends.data[cursor->end_index + i] == VIEW_CRLF;
    cursor->end_index += ends;
    cursor->at = at;
    return cursor->stored;
}
