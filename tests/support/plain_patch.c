/* Owns: reading a unified diff. It must share nothing with what writes them. */
#include "tests/support/plain_patch.h"

#include <stdio.h>

/* With its end. */
static struct bytes take_line(struct bytes *text)
{
    size_t end = bytes_find(*text, 0, '\n');
    struct bytes line = bytes_cut(*text, 0, end < text->length ? end + 1 : end);
    *text = bytes_from(*text, line.length);
    return line;
}

static bool begins(struct bytes text, const char *start)
{
    return bytes_begin_with(text, (struct bytes){ start, strlen(start) });
}

/* "@@ -4,7 +4[,1] @@": the counts; a missing one is 1. An empty range stands behind its line. */
static bool read_range(struct bytes line, size_t ret_start[2], size_t ret_count[2])
{
    char text[200], *at = text;
    snprintf(text, sizeof(text), "%.*s", (int)line.length, line.data);
    for (int i = 0; i < 2; i++) {
        at = strchr(at, i == 0 ? '-' : '+');
        if (at == NULL)
            return false;
        ret_start[i] = strtoul(at + 1, &at, 10);
        ret_count[i] = *at == ',' ? strtoul(at + 1, &at, 10) : 1;
        ret_start[i] -= ret_count[i] > 0;
    }
    return true;
}

/* The line of a hunk behind its mark, without its end where the note behind it says so. */
static struct bytes content(struct bytes line, struct bytes *diff)
{
    struct bytes rest = bytes_from(line, 1);
    if (begins(*diff, "\\ No newline")) {
        take_line(diff);
        rest.length--;
    }
    return rest;
}

static bool apply_hunk(struct bytes *old, struct bytes *diff, size_t old_count, size_t new_count,
                       struct buffer *ret)
{
    while (old_count + new_count > 0) {
        struct bytes line = take_line(diff);
        if (line.length == 0)
            return false;
        struct bytes text = content(line, diff);
        bool is_old = line.data[0] != '+', is_new = line.data[0] != '-';
        if ((is_old && (old_count-- == 0 || !bytes_equal(take_line(old), text))) ||
            (is_new && new_count-- == 0) || strchr(" +-", line.data[0]) == NULL)
            return false;
        if (is_new)
            buffer_append(ret, text.data, text.length);
    }
    return true;
}

bool plain_patch(struct bytes old, struct bytes diff, struct buffer *ret)
{
    size_t old_line = 0, new_line = 0, start[2], count[2];
    old = bytes_placed(old);
    diff = bytes_placed(diff);
    if (diff.length > 0 && (!begins(take_line(&diff), "--- a/") || !begins(take_line(&diff), "+++ b/")))
        return false;
    while (diff.length > 0) {
        if (!read_range(take_line(&diff), start, count) || start[0] < old_line)
            return false;
        for (; old_line < start[0]; old_line++, new_line++) {
            struct bytes line = take_line(&old);
            buffer_append(ret, line.data, line.length);
        }
        if (new_line != start[1] || !apply_hunk(&old, &diff, count[0], count[1], ret))
            return false;
        old_line += count[0];
        new_line += count[1];
    }
    buffer_append(ret, old.data, old.length);
    return true;
}
