/* Owns: what white space a new line begins with. The first line of new goes where the first line found
 * stands, the others keep their distance from it, in the file's own kind of indentation. Better evidence goes
 * first: where old showed that it knows the file's indentation, new is taken as it is; where a line of old
 * with the same indentation was found in the file, that one's is taken. It must not know: how lines are
 * found, or what becomes of the text. */
#include "lib/agent/edit/indent.h"

#include "lib/agent/edit/lines.h"

enum { LOOK_AROUND = 32, UNIT_DEFAULT = 4, UNIT_MOST = 8, LINES_SAMPLED = 2000 };

struct indent {
    struct indent_case what;
    struct bytes *old, *file;  /* the white space that each line begins with */
    struct bytes base, target; /* that of the first line of new, and of the file */
    bool is_known;             /* old is indented as the file is */
    bool shares_frame;         /* indentation in new means what it means in old */
    bool file_has_tabs;
    size_t file_unit; /* blanks for one step */
    size_t step;      /* blanks in new that are a step of the file; 0: blanks are blanks */
};

static const struct bytes *first_text(const struct bytes *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!line_is_blank(lines[i]))
            return &lines[i];
    return NULL;
}

static struct bytes first_indent(const struct bytes *lines, size_t count)
{
    const struct bytes *line = first_text(lines, count);
    return line != NULL ? line_indent(*line) : (struct bytes){ "", 0 };
}

static struct bytes *all_indents(const struct bytes *lines, size_t count)
{
    struct bytes *indents = xreallocarray(NULL, count, sizeof(*indents));
    for (size_t i = 0; i < count; i++)
        indents[i] = line_indent(lines[i]);
    return indents;
}

static bool has_tab(struct bytes indent)
{
    return bytes_find(indent, 0, '\t') < indent.length;
}

/* The smallest step in blanks between the lines and base; 0 = none. */
static size_t smallest_step(const struct bytes *lines, size_t count, struct bytes base)
{
    size_t least = 0;
    for (size_t i = 0; i < count; i++) {
        struct bytes own = line_indent(lines[i]);
        size_t step = own.length > base.length ? own.length - base.length : base.length - own.length;
        if (step > 0 && !has_tab(own) && !line_is_blank(lines[i]) && (least == 0 || step < least))
            least = step;
    }
    return least <= UNIT_MOST ? least : 0;
}

struct indent_style indent_sample(struct bytes text)
{
    struct bytes line;
    for (size_t at = 0, count = 0; count < LINES_SAMPLED && line_next(text, &at, &line); count++) {
        struct bytes own = line_indent(line);
        bool is_step = own.length >= 2 && own.length <= UNIT_MOST;
        if (own.length > 0 && own.length < line.length)
            return (struct indent_style){ has_tab(own), is_step && !has_tab(own) ? own.length : 0 };
    }
    return (struct indent_style){ false, 0 };
}

/* Blanks become tabs by new's smallest step, or old's; and other blanks where old is seen to have other steps
 * than the file. */
static size_t find_step(const struct indent *indent)
{
    const struct indent_case *what = &indent->what;
    size_t new_step = smallest_step(what->new_lines, what->new_count, indent->base);
    size_t old_step =
        smallest_step(what->old_lines, what->old_count, first_indent(what->old_lines, what->old_count));
    if (indent->file_has_tabs)
        return new_step > 0 ? new_step : old_step > 0 ? old_step : UNIT_DEFAULT;
    return indent->shares_frame && indent->file_unit > 0 ? old_step : 0;
}

/* The place itself says it; where nothing is indented there, the file does. */
static void find_style(struct indent *indent)
{
    const struct indent_case *what = &indent->what;
    bool is_indented = false;
    for (size_t i = 0; i < what->old_count; i++) {
        indent->file_has_tabs |= has_tab(indent->file[i]);
        is_indented |= indent->file[i].length > 0 && !line_is_blank(what->file_lines[i]);
    }
    indent->file_has_tabs = is_indented ? indent->file_has_tabs : what->style.has_tabs;
    indent->file_unit = smallest_step(what->file_lines, what->old_count, indent->target);
    indent->step = find_step(indent);
    indent->file_unit = indent->file_unit > 0 ? indent->file_unit : what->style.unit;
    indent->file_unit = indent->file_unit > 0 ? indent->file_unit : UNIT_DEFAULT;
}

struct indent *indent_open(const struct indent_case *what)
{
    struct indent *indent = xcalloc(1, sizeof(*indent));
    indent->what = *what;
    indent->old = all_indents(what->old_lines, what->old_count);
    indent->file = all_indents(what->file_lines, what->old_count);
    indent->base = first_indent(what->new_lines, what->new_count);
    indent->target = first_indent(what->file_lines, what->old_count);
    struct bytes old_base = first_indent(what->old_lines, what->old_count);
    indent->shares_frame = what->same_before + what->same_after > 0 || bytes_equal(old_base, indent->base);
    indent->is_known = true;
    for (size_t i = 0; i < what->old_count; i++)
        indent->is_known &= line_is_blank(what->old_lines[i]) || bytes_equal(indent->old[i], indent->file[i]);
    find_style(indent);
    return indent;
}

void indent_close(struct indent *indent)
{
    if (indent == NULL)
        return;
    free(indent->old);
    free(indent->file);
    free(indent);
}

/* Which line of old stands where line `index` of new does. */
static size_t counterpart(const struct indent_case *what, size_t index)
{
    size_t changed = what->old_count - what->same_before - what->same_after;
    size_t into = index - what->same_before;
    if (changed == 0)
        return what->same_before > 0 ? what->same_before - 1 : 0;
    return what->same_before + (into < changed ? into : changed - 1);
}

static bool is_so_indented(const struct indent *indent, size_t at, struct bytes own)
{
    return at < indent->what.old_count && bytes_equal(indent->old[at], own) &&
           !line_is_blank(indent->what.old_lines[at]);
}

/* What the file has where old has `own`: of the line nearest to the counterpart. */
static const struct bytes *learned(const struct indent *indent, size_t index, struct bytes own)
{
    size_t near = counterpart(&indent->what, index);
    for (size_t away = 0; indent->shares_frame && away < LOOK_AROUND; away++) {
        if (away <= near && is_so_indented(indent, near - away, own))
            return &indent->file[near - away];
        if (is_so_indented(indent, near + away, own))
            return &indent->file[near + away];
    }
    return NULL;
}

static void append_step(const struct indent *indent, struct buffer *ret)
{
    if (indent->file_has_tabs)
        buffer_append_char(ret, '\t');
    else
        for (size_t n = 0; n < indent->file_unit; n++)
            buffer_append_char(ret, ' ');
}

/* More white space, in the file's kind. */
static void append_steps(const struct indent *indent, struct bytes extra, struct buffer *ret)
{
    size_t blanks = 0;
    for (size_t i = 0; i < extra.length; i++) {
        if (extra.data[i] == '\t')
            append_step(indent, ret);
        else if (extra.data[i] == ' ' && indent->step > 0)
            blanks++;
        else
            buffer_append_char(ret, extra.data[i]);
        if (indent->step > 0 && blanks == indent->step) {
            append_step(indent, ret);
            blanks = 0;
        }
    }
    for (; blanks > 0; blanks--)
        buffer_append_char(ret, ' ');
}

/* How many bytes at the end of the file's indentation are the same step as `less` is in new. */
static size_t steps_size(const struct indent *indent, struct bytes less)
{
    size_t tabs = 0, size = indent->file_has_tabs ? 1 : indent->file_unit;
    for (size_t i = 0; i < less.length; i++)
        tabs += less.data[i] == '\t';
    size_t blanks = less.length - tabs;
    if (indent->step == 0)
        return tabs * size + blanks;
    return (tabs + (blanks + indent->step - 1) / indent->step) * size;
}

/* White space of several bytes is not taken apart. */
static bool is_exotic(struct bytes indent)
{
    for (size_t i = 0; i < indent.length; i++)
        if ((unsigned char)indent.data[i] >= 0x80)
            return true;
    return false;
}

static void append_by_distance(const struct indent *indent, struct bytes own, struct buffer *ret)
{
    struct bytes base = indent->base, target = indent->target;
    size_t common = 0;
    if (is_exotic(base) || is_exotic(own) || is_exotic(target)) {
        buffer_append(ret, target.data, target.length);
        if (bytes_begin_with(own, base))
            buffer_append(ret, own.data + base.length, own.length - base.length);
        return;
    }
    while (common < own.length && common < base.length && own.data[common] == base.data[common])
        common++;
    size_t less = steps_size(indent, bytes_from(base, common));
    buffer_append(ret, target.data, less < target.length ? target.length - less : 0);
    append_steps(indent, bytes_from(own, common), ret);
}

void indent_append(const struct indent *indent, size_t index, struct buffer *ret)
{
    struct bytes line = indent->what.new_lines[index], own = line_indent(line);
    if (indent->is_known || own.length == line.length) {
        buffer_append(ret, line.data, line.length);
        return;
    }
    const struct bytes *known = learned(indent, index, own);
    if (known != NULL)
        buffer_append(ret, known->data, known->length);
    else
        append_by_distance(indent, own, ret);
    buffer_append(ret, line.data + own.length, line.length - own.length);
}
