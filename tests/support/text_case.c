/* Owns how a test makes and condenses text. Knows no rule of what stays. */
#include "tests/support/text_case.h"

#include <check.h>

uint64_t text_draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

void text_add_numbered(struct buffer *out, const char *text, uint64_t number)
{
    for (; *text != '\0'; text++)
        if (*text == '@')
            buffer_append_u64(out, number);
        else
            buffer_append_char(out, *text);
}

const char *text_condense_wide(const struct buffer *raw, size_t columns, struct condensed *c)
{
    condense(raw->data, raw->length, columns, TEXT_HOW, c);
    ck_assert(c->unchanged ? c->text.length == 0 : c->text.length < raw->length);
    return buffer_text(&c->text);
}

const char *text_condense(const struct buffer *raw, struct condensed *c)
{
    return text_condense_wide(raw, 0, c);
}
