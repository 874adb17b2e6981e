/* Owns: matching a line against a pattern. Must not know what the lines mean. */
#include "lib/text/pattern.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_dot(char c)
{
    return c == '.' || c == 's' || c == 'x' || c == 'X';
}

static bool is_special(char c)
{
    return c == '*' || c == '~' || c == '#' || c == '^' || c == '!' || c == '$' || c == ' ';
}

static size_t failed_dots(const char *at, const char *end)
{
    const char *p = at;
    bool failed = false;
    for (; p < end && (is_dot(*p) || *p == 'F' || *p == 'E'); p++)
        failed = failed || !is_dot(*p);
    return failed ? (size_t)(p - at) : 0;
}

static size_t skipped_dots(const char *at, const char *end)
{
    const char *p = at;
    bool skipped = false;
    for (; p < end && is_dot(*p); p++)
        skipped = skipped || *p != '.';
    return skipped ? (size_t)(p - at) : 0;
}

static size_t number(const char *at, const char *end)
{
    const char *p = at;
    for (; p < end; p++) {
        bool joins = (*p == '.' || *p == ',' || *p == ':') && p > at && p + 1 < end && is_digit(p[1]);
        if (!is_digit(*p) && !joins)
            break;
    }
    return (size_t)(p - at);
}

/* How far the piece of a pattern that has one length only reaches; 0 = does not match. */
static size_t piece(char kind, const char *at, const char *end)
{
    const char *p = at;
    switch (kind) {
    case ' ':
        while (p < end && is_blank(*p))
            p++;
        return (size_t)(p - at);
    case '#':
        return number(at, end);
    case '!':
        return failed_dots(at, end);
    case '$':
        return skipped_dots(at, end);
    case '^':
        while (p < end && is_dot(*p))
            p++;
        return (size_t)(p - at);
    }
    return at < end && *at == kind;
}

/* Goes on after the latest * or ~ by letting it take one byte more: what an earlier one took need never
 * change. */
bool pattern_matches(const char *pattern, const char *line, size_t length)
{
    const char *at = line, *end = line + length;
    const char *retry = NULL, *retry_at = NULL;
    bool retry_any = false;
    if (length > PATTERN_LINE_MAX)
        return false;
    while (at < end && is_blank(*at))
        at++;
    if (at < end && *at != *pattern && !is_special(*pattern))
        return false; /* what is most often the case, soon said */
    while (end > at && is_blank(end[-1]))
        end--;
    for (;;) {
        size_t took;
        if (*pattern == '*') {
            retry = ++pattern;
            retry_at = at;
            retry_any = true;
            if (*pattern == '\0')
                return true;
        } else if (*pattern == '~' && at < end && !is_blank(*at)) {
            retry = ++pattern;
            retry_at = ++at;
            retry_any = false;
        } else if (*pattern == '\0' && at == end) {
            return true;
        } else if (*pattern != '\0' && *pattern != '~' && (took = piece(*pattern, at, end)) > 0) {
            pattern++;
            at += took;
        } else if (retry != NULL && retry_at < end && (retry_any || !is_blank(*retry_at))) {
            pattern = retry;
            for (retry_at++; !is_special(*pattern) && retry_at < end && *retry_at != *pattern; retry_at++)
                if (!retry_any && is_blank(*retry_at))
                    return false;
            at = retry_at;
        } else {
            return false;
        }
    }
}
