/* Indentation of lines that take the place of others whose white space is not what the edit said. */
#ifndef EDIT_INDENT_H
#define EDIT_INDENT_H

#include "lib/agent/edit/bytes.h"
#include "lib/base/buffer.h"

/* How a text is indented; unit: blanks for one step, 0 = not known. */
struct indent_style {
    bool has_tabs;
    size_t unit;
};
/* As its first indented line is. */
struct indent_style indent_sample(struct bytes text);

/* What an edit said (old, new) and what stands in the file for old: as many lines as old has. */
struct indent_case {
    const struct bytes *old_lines, *file_lines, *new_lines;
    size_t old_count, new_count;
    size_t same_before, same_after; /* lines that old and new have in common at their ends */
    struct indent_style style;      /* of the file as a whole */
};

struct indent;
struct indent *indent_open(const struct indent_case *what);
void indent_close(struct indent *indent);
#define _cleanup_indent_ __attribute__((cleanup(indent_close_pointer)))
static inline void indent_close_pointer(struct indent **indent)
{
    indent_close(*indent);
}
/* Appends line `index` of new, indented as the file is. */
void indent_append(const struct indent *indent, size_t index, struct buffer *ret);

#endif
