/* A file's bytes as an editor sees them: every line end is one '\n', a byte order mark is not there; what
 * each end really is stands beside it. Storing a view gives exactly the bytes it was loaded from, but for
 * what was replaced. */
#ifndef EDIT_VIEW_H
#define EDIT_VIEW_H

#include "lib/agent/edit/bytes.h"
#include "lib/base/buffer.h"

/* CR alone is a line end in a file that has no LF at all, an ordinary byte in all others. */
enum view_end { VIEW_NONE = 0, VIEW_LF = 'n', VIEW_CRLF = 'b', VIEW_CR = 'r' };

struct view {
    struct buffer text;
    struct buffer ends; /* a view_end for each '\n' of text */
    bool has_bom, cr_only;
};
#define VIEW_INIT                                                                                            \
    {                                                                                                        \
        BUFFER_INIT, BUFFER_INIT, false, false                                                               \
    }
#define _cleanup_view_ __attribute__((cleanup(view_free)))

void view_free(struct view *view);
void view_load(struct view *view, struct bytes original);
/* A part of an edit's text, seen as the file is: cr_only is the file's; its first bytes are no mark of it. */
void view_load_part(struct view *view, struct bytes part, bool cr_only);
void view_store(const struct view *view, struct buffer *ret);
size_t view_stored_size(const struct view *view);
static inline struct bytes view_text(const struct view *view)
{
    return (struct bytes){ view->text.data, view->text.length };
}

/* The end that most of count ends are, the first of them where two are as frequent; VIEW_NONE without any. */
enum view_end view_usual_end(const char *ends, size_t count);

struct view_splice {
    size_t at, length;
    struct bytes text; /* what comes there */
    const char *ends;  /* for each '\n' of it; NULL: all are end */
    enum view_end end;
};
/* Splices are sorted and do not overlap. spare: where the new text is made, kept for the next time. */
void view_replace(struct view *view, const struct view_splice *splices, size_t count, struct view *spare);

/* Turns offsets of a view into offsets of its stored bytes, going forward. */
struct view_cursor {
    const struct view *view;
    size_t at, end_index, stored;
};
struct view_cursor view_cursor_at_start(const struct view *view);
size_t view_cursor_to(struct view_cursor *cursor, size_t at);

#endif
