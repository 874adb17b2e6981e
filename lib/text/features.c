/* Owns: telling bars and listings by how their bytes are made up. Must not know words. */
#include "lib/text/features.h"

#include <string.h>

enum { MODE_LENGTH = 10, BAR_LENGTH = 5, LINE_MAX_ = 1024, NAME_LINE_MAX = 400 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* drwxr-xr-x of ls -l and tar -tv */
static bool begins_with_mode(const char *line, size_t length)
{
    if (length < MODE_LENGTH + 1 || strchr("-dlcbsp", line[0]) == NULL)
        return false;
    for (size_t at = 1; at < MODE_LENGTH; at++)
        if (strchr("rwxsStT-", line[at]) == NULL || line[at] == '\0')
            return false;
    return is_blank(line[MODE_LENGTH]) || line[MODE_LENGTH] == '+' || line[MODE_LENGTH] == '.';
}

/* The branches that tree, npm ls and cargo tree draw: U+2500 to U+257F, or |-- and `-- */
static bool begins_with_branch(const char *line, size_t length)
{
    return (length > 4 && line[0] == '\xE2' && (line[1] == '\x94' || line[1] == '\x95')) ||
           (length > 4 && (line[0] == '|' || line[0] == '`') && line[1] == '-' && line[2] == '-' &&
            line[3] == ' ');
}

/* Blocks, box lines, braille: U+2500 to U+259F and U+2800 to U+28FF. */
static bool is_drawn(const unsigned char *at)
{
    return at[0] == 0xE2 && ((at[1] >= 0x94 && at[1] <= 0x96) || (at[1] >= 0xA0 && at[1] <= 0xA3));
}

static const bool bar_bytes[256] = {
    ['#'] = true, ['='] = true, ['>'] = true, ['.'] = true, ['-'] = true, ['*'] = true
};
static const bool meter_bytes[256] = {
    ['0' ... '9'] = true, [':'] = true, ['.'] = true, ['-'] = true, ['k'] = true, ['M'] = true,
    ['G'] = true,         ['T'] = true, ['D'] = true, ['d'] = true, ['h'] = true, ['m'] = true,
    ['s'] = true,         ['%'] = true, [' '] = true, ['\t'] = true
};

/* A bar beside a percentage or a count, or a spinner. */
static bool is_progress(const char *line, size_t length)
{
    size_t run = 0, best = 0;
    bool percent = false, count = false;
    const unsigned char *first = (const unsigned char *)line;
    if (length > 3 && first[0] == 0xE2 && first[1] >= 0xA0 && first[1] <= 0xA3)
        return true;
    if (memchr(line, '%', length) == NULL && memchr(line, '/', length) == NULL)
        return false;
    for (size_t at = 0; at < length; at++) {
        const unsigned char *p = (const unsigned char *)line + at;
        percent = percent || (*p == '%' && at > 0 && is_digit(line[at - 1]));
        count = count || (*p == '/' && at > 0 && (is_digit(line[at - 1]) || line[at - 1] == 'B') &&
                          at + 1 < length && is_digit(line[at + 1]));
        if (at + 2 < length && is_drawn(p)) {
            run += 2;
            at += 2;
        } else if (bar_bytes[*p] && at > 0) {
            run++;
        } else {
            run = 0;
        }
        best = run > best ? run : best;
    }
    return best >= BAR_LENGTH && (percent || (count && best >= 2 * BAR_LENGTH));
}

/* curl's meter: numbers, sizes and times alone, one of which is a time */
static bool is_meter(const char *line, size_t length, size_t tokens)
{
    bool time = false;
    for (size_t at = 0; at < length; at++) {
        if (!meter_bytes[(unsigned char)line[at]])
            return false;
        time = time || line[at] == ':';
    }
    return time && tokens >= 10;
}

/* What names of files are made of, as a rule; code and data have quotes, commas and brackets. */
static const bool name_bytes[256] = {
    ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['.'] = true,          ['_'] = true,
    ['-'] = true,         ['+'] = true,         ['@'] = true,         ['~'] = true,          ['%'] = true,
    ['/'] = true,         [' '] = true,         ['\t'] = true,        [0x80 ... 0xFF] = true
};

/* Only names in columns: no blank stands alone between two of them. */
static bool is_names(const char *line, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (!name_bytes[(unsigned char)line[at]] || (line[at] == ' ' && at > 0 && !is_blank(line[at - 1]) &&
                                                     at + 1 < length && !is_blank(line[at + 1])))
            return false;
    return true;
}

/* Code and data that a command shows have lines like these; what commands say of their work has not. */
bool feature_is_code(const char *line, size_t length)
{
    while (length > 0 && is_blank(line[length - 1]))
        length--;
    while (length > 0 && is_blank(line[0])) {
        line++;
        length--;
    }
    if (length == 0)
        return false;
    bool comment = length > 1 && (line[0] == '/' || line[0] == '*') &&
                   (line[1] == '/' || line[1] == '*' || line[1] == ' ');
    return comment || strchr("#\"'<", line[0]) != NULL ||
           (line[0] != '{' && strchr(",;{}()[\\", line[length - 1]) != NULL);
}

/* a size, or a number, and a path: du */
static bool is_sized_path(const char *line, size_t length)
{
    size_t at = 0;
    while (at < length && (is_digit(line[at]) || line[at] == '.'))
        at++;
    if (at == 0 || at + 1 >= length)
        return false;
    at += strchr("KMGT", line[at]) != NULL;
    return at < length && line[at] == '\t' && memchr(line + at, '/', length - at) != NULL;
}

/* file | 12 ++--, of git diff --stat */
static bool is_difference(const char *line, size_t length)
{
    const char *bar = memchr(line, '|', length), *end = line + length;
    if (bar == NULL || bar == line || bar + 2 >= end || bar[-1] != ' ' || bar[1] != ' ')
        return false;
    for (bar++; bar < end && is_blank(*bar); bar++)
        continue;
    if (bar < end && *bar == 'B')
        return end - bar > 3 && memcmp(bar, "Bin ", 4) == 0;
    if (bar >= end || !is_digit(*bar))
        return false;
    while (bar < end && (is_digit(*bar) || is_blank(*bar) || *bar == '+' || *bar == '-'))
        bar++;
    return bar == end;
}

static bool has_letter(const char *line, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if ((line[at] | 0x20) >= 'a' || (unsigned char)line[at] >= 0x80)
            return true;
    return false;
}

/* A path, the name of a folder before what it holds, or a name; a number alone is none. */
static enum line_kind single_token(const char *line, size_t length)
{
    bool slash = memchr(line, '/', length) != NULL;
    if ((slash && length > 1) || (line[length - 1] == ':' && line[0] == '.'))
        return KIND_LISTING;
    return is_names(line, length) && has_letter(line, length) ? KIND_NAME : KIND_PLAIN;
}

enum line_kind feature_kind(const char *line, size_t length, size_t tokens)
{
    while (length > 0 && is_blank(line[length - 1]))
        length--;
    while (length > 0 && is_blank(line[0])) {
        line++;
        length--;
    }
    if (length > LINE_MAX_ || length == 0)
        return KIND_PLAIN;
    if (begins_with_mode(line, length) || is_sized_path(line, length) || is_difference(line, length))
        return KIND_LISTING;
    if (is_progress(line, length) || is_meter(line, length, tokens))
        return KIND_PROGRESS;
    if (begins_with_branch(line, length))
        return KIND_LISTING;
    if (tokens == 1)
        return single_token(line, length);
    return length <= NAME_LINE_MAX && is_names(line, length) ? KIND_NAME : KIND_PLAIN;
}
