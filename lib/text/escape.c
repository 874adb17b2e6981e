/* Owns: the grammar of escape sequences. Must not know what a screen does with them. */
#include "lib/text/escape.h"

enum { ESC = 0x1B, BEL = 7, CAN = 0x18, SUB = 0x1A, CONTROL_MAX = 128, STRING_MAX = 8192 };

/* ESC [ parameters (0x30-0x3F), intermediates (0x20-0x2F), one final byte (0x40-0x7E). A byte that fits
 * nowhere ends it unfinished. */
static size_t parse_control(const unsigned char *data, size_t length, struct escape *ret)
{
    size_t at = 2;
    bool plain = true, open = false;
    for (; at < length && at < CONTROL_MAX && data[at] >= 0x20 && data[at] <= 0x3F; at++) {
        if (data[at] >= '0' && data[at] <= '9') {
            if (!open && ret->count < ESCAPE_PARAMETERS)
                ret->parameters[ret->count] = 0;
            ret->count += !open && ret->count < ESCAPE_PARAMETERS;
            open = true;
            int *value = &ret->parameters[ret->count - 1];
            *value = *value >= ESCAPE_PARAMETER_MAX ? ESCAPE_PARAMETER_MAX : *value * 10 + (data[at] - '0');
        } else if (data[at] == ';' || data[at] == ':') {
            if (!open && ret->count < ESCAPE_PARAMETERS)
                ret->parameters[ret->count++] = 0;
            open = false;
        } else {
            ret->private_ = ret->private_ || data[at] == '?';
            plain = plain && data[at] == '?';
        }
    }
    if (at >= length || data[at] < 0x40 || data[at] > 0x7E)
        return at;
    ret->control = (char)(plain ? data[at] : 0);
    return at + 1;
}

/* ESC ] text BEL, or ESC ] text ESC \ (the same for the other strings). */
static size_t parse_string(const unsigned char *data, size_t length)
{
    for (size_t at = 2; at < length && at < STRING_MAX; at++) {
        if (data[at] == BEL || data[at] == CAN || data[at] == SUB)
            return at + 1;
        if (data[at] == ESC)
            return at + 1 < length && data[at + 1] == '\\' ? at + 2 : at;
        if (data[at] == '\n')
            break;
    }
    return 2;
}

size_t escape_parse(const char *text, size_t length, struct escape *ret)
{
    const unsigned char *data = (const unsigned char *)text;
    *ret = (struct escape){ .control = 0 };
    if (length < 2)
        return 1;
    switch (data[1]) {
    case '[':
        return parse_control(data, length, ret);
    case ']':
    case 'P':
    case 'X':
    case '^':
    case '_':
        return parse_string(data, length);
    }
    if (data[1] >= 0x20 && data[1] <= 0x2F) /* ESC ( B and its kin: a character set */
        return length > 2 && data[2] >= 0x30 && data[2] <= 0x7E ? 3 : 2;
    if (data[1] < 0x30 || data[1] > 0x7E)
        return 1;
    ret->simple = (char)data[1];
    return 2;
}

int escape_parameter(const struct escape *e, int at, int fallback)
{
    return at < e->count && e->parameters[at] > 0 ? e->parameters[at] : fallback;
}
