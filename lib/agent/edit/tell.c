/* Owns: the words for edits that cannot be made, short enough for a struct error: what was asked for, where
 * it stands, what comes near. It must not know: how a match is found. */
#include "lib/agent/edit/tell.h"

#include "lib/agent/edit/nearest.h"
#include "lib/base/utf8.h"

enum { QUOTED_OLD = 20, QUOTED_LINE = 60, LINES_NAMED = 10 };

/* At most `most` characters, on one line: control characters as an escape, what is no UTF-8 as U+FFFD. */
static void append_quoted(struct buffer *to, struct bytes text, size_t most)
{
    static const char names[] = "0......abtnvfr";
    size_t at = 0, count = 0;
    for (; at < text.length && count < most; count++) {
        unsigned char c = (unsigned char)text.data[at];
        size_t ill_formed = c < 0x80 ? 0 : utf8_ill_formed_part(text.data + at, text.length - at);
        size_t size = c < 0x80 ? 1 : ill_formed > 0 ? ill_formed : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        if (c >= 0x80)
            buffer_append_utf8(to, text.data + at, size);
        else if (c < sizeof(names) - 1 && names[c] != '.')
            buffer_printf(to, "\\%c", names[c]);
        else if (c < 0x20 || c == 0x7F)
            buffer_printf(to, "\\x%02x", c);
        else
            buffer_append_char(to, (char)c);
        at += size;
    }
    if (at < text.length)
        buffer_append_text(to, "...");
}

static void begin(const struct tell *tell, struct buffer *to)
{
    buffer_printf(to, "Edit %zu: '", tell->index);
    append_quoted(to, tell->old, QUOTED_OLD);
    buffer_append_text(to, "' ");
}

/* From 1, in the original. */
static size_t line_number(const struct tell *tell, size_t at)
{
    struct bytes original = view_text(tell->original);
    size_t origin = changes_origin(tell->changes, at);
    return 1 + lines_count_ends(bytes_cut(original, 0, origin < original.length ? origin : original.length));
}

static void append_line_numbers(const struct tell *tell, const struct matches *matches, struct buffer *to)
{
    buffer_append_text(to, matches->count == 1 ? "line " : "lines ");
    for (size_t i = 0; i < matches->count && i < LINES_NAMED; i++)
        buffer_printf(to, "%s%zu", i > 0 ? ", " : "", line_number(tell, matches->items[i].at));
    if (matches->count > LINES_NAMED)
        buffer_append_text(to, ", ...");
}

int tell_too_many(const struct tell *tell, const struct matches *matches, bool is_exact, struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    size_t count = matches->count + (matches->count == 1 && matches->overlap);
    if (is_exact) {
        begin(tell, &text);
        buffer_printf(&text, "found %zu times (exact match). Make it unique.", count);
    } else
        buffer_printf(&text, "Edit %zu: Found %zu fuzzy matches. Make search text more unique.", tell->index,
                      count);
    buffer_append_text(&text, " It stands at ");
    append_line_numbers(tell, matches, &text);
    if (matches->count == 1)
        buffer_append_text(&text, ", twice, overlapping itself");
    else
        buffer_append_text(&text, "; 'occurrence' (from 1) chooses one, 'replace_all' takes all");
    buffer_append_text(&text, ".");
    return error_set(err, ERROR_INVALID, "%s", buffer_text(&text));
}

int tell_no_such_occurrence(const struct tell *tell, const struct matches *matches, size_t wanted,
                            struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    begin(tell, &text);
    buffer_printf(&text, "has no occurrence %zu: found %zu times, at ", wanted, matches->count);
    append_line_numbers(tell, matches, &text);
    buffer_append_text(&text, ".");
    return error_set(err, ERROR_INVALID, "%s", buffer_text(&text));
}

static void append_place(const struct tell *tell, const struct nearest *place, struct buffer *to)
{
    size_t line = line_number(tell, place->at), before = place->line - place->first;
    size_t lines = place->last - place->first;
    if (lines > 0 && line > before)
        buffer_printf(to, "lines %zu-%zu, where line %zu is '", line - before, line - before + lines, line);
    else
        buffer_printf(to, "line %zu is '", line);
    append_quoted(to, place->content, QUOTED_LINE);
    buffer_append_char(to, '\'');
}

static void append_nearest(const struct tell *tell, struct buffer *to)
{
    struct nearest places[NEAREST_MOST];
    size_t count = nearest_find(view_text(tell->now), tell->old, places);
    if (count == 0)
        buffer_append_text(to, " Nothing comes near it: read the file again.");
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(to, i == 0 ? " Nearest: " : "; ");
        append_place(tell, &places[i], to);
    }
    if (count > 0)
        buffer_append_char(to, '.');
}

int tell_not_found(const struct tell *tell, struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    struct bytes original = view_text(tell->original);
    begin(tell, &text);
    buffer_append_text(&text, "not found (tried exact and fuzzy match).");
    bool was_there = tell->changes->count > 0 &&
                     memmem(original.data, original.length, tell->old.data, tell->old.length) != NULL;
    if (was_there)
        buffer_append_text(&text, " An earlier edit of this call changed it.");
    else if (line_longest_word(tell->old).length == 0)
        buffer_append_text(&text, " White space alone matches exactly only.");
    else if (bytes_begin_with(original, (struct bytes){ "\xFF\xFE", 2 }) ||
             bytes_begin_with(original, (struct bytes){ "\xFE\xFF", 2 }))
        buffer_append_text(&text, " The file is UTF-16: convert it before you edit it.");
    else
        append_nearest(tell, &text);
    return error_set(err, ERROR_INVALID, "%s", buffer_text(&text));
}
