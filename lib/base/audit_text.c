/* Owns how a client's text looks in the audit log: short, and without what are secrets by their form. Knows
 * no names of parameters: those that are secret are marked where they are declared. */
#include "lib/base/audit.h"
#include "lib/base/utf8.h"

#include <ctype.h>
#include <strings.h>

#define HIDDEN "***"

/* A password in a URL (RFC 3986, 3.2.1): what stands between "://" and the last "@" of its authority; 0 where
 * there is none. */
static size_t userinfo_length(const char *text, size_t length)
{
    size_t found = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c <= ' ' || c == 0x7f || strchr("/?#\\\"'`<>|", c))
            break;
        if (c == '@')
            found = i;
    }
    return found;
}

static bool is_token_char(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-._~+/=", c));
}

/* RFC 6750, 2.1. "the bearer token is not valid" speaks of one: what follows is a word, of small letters and
 * shorter than tokens are (16). */
static size_t bearer_length(const char *text, size_t length)
{
    size_t i = 0, small = 0;
    while (i < length && is_token_char(text[i]))
        i++;
    while (small < i && islower((unsigned char)text[small]))
        small++;
    bool is_word = small < 16 && (small == i || (small + 1 == i && text[small] == '.'));
    return is_word ? 0 : i;
}

/* What is not shown where text + at stands: bytes to leave out. */
static size_t hidden_at(const char *text, size_t at, size_t length)
{
    static const char slashes[] = "://", bearer[] = "bearer ";
    enum { SLASHES = sizeof slashes - 1, BEARER = sizeof bearer - 1 };
    if (at >= SLASHES && memcmp(text + at - SLASHES, slashes, SLASHES) == 0)
        return userinfo_length(text + at, length - at);
    if (at >= BEARER && strncasecmp(text + at - BEARER, bearer, BEARER) == 0)
        return bearer_length(text + at, length - at);
    return 0;
}

static size_t character_length(const char *text, size_t length)
{
    size_t size = 1;
    while (size < length && size < 4 && ((unsigned char)text[size] & 0xc0) == 0x80)
        size++;
    return size;
}

static unsigned code_point(const char *text, size_t length)
{
    static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    unsigned code = (unsigned char)text[0] & masks[length];
    for (size_t i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    return code;
}

/* What a terminal or an editor acts on, instead of showing it: controls, ends of lines, directions. */
static bool acts(unsigned code)
{
    static const struct {
        unsigned first, last;
    } ranges[] = {
        { 0x7f, 0x9f }, { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0xfeff, 0xfeff }
    };
    for (size_t i = 0; i < N_ELEMENTS(ranges); i++)
        if (ranges[i].first <= code && code <= ranges[i].last)
            return true;
    return false;
}

static void append_character(struct buffer *out, const char *text, size_t length)
{
    if (acts(code_point(text, length)))
        buffer_printf(out, "\\u%04x", code_point(text, length));
    else
        buffer_append_json(out, text, length);
}

static void append_byte(struct buffer *out, char byte)
{
    buffer_printf(out, "\\\\x%02x", (unsigned char)byte);
}

/* Length of what begins at text and is itself in JSON, and neither a part of what hides something nor
 * followed by it: most text is nothing else. */
static size_t plain_length(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && (isalnum((unsigned char)text[i]) || (text[i] && strchr("_-.,=+()[]{}", text[i]))))
        i++;
    return i;
}

void audit_append_shown(struct buffer *out, const char *text, size_t length)
{
    size_t at = 0;
    for (size_t shown = 0; at < length && shown < AUDIT_TEXT_MAX; shown++) {
        size_t hidden = hidden_at(text, at, length);
        if (hidden > 0) {
            buffer_append_text(out, HIDDEN);
            at += hidden;
            continue;
        }
        size_t left = AUDIT_TEXT_MAX - shown,
               plain = plain_length(text + at, length - at < left ? length - at : left);
        if (plain > 0) {
            buffer_append(out, text + at, plain);
            at += plain;
            shown += plain - 1;
            continue;
        }
        size_t size = character_length(text + at, length - at);
        bool is_character = utf8_is_valid(text + at, size);
        if (is_character)
            append_character(out, text + at, size);
        else
            append_byte(out, text[at]);
        at += is_character ? size : 1;
    }
    if (at < length)
        buffer_printf(out, "\xe2\x80\xa6(%zu chars total)", utf8_count(text, length));
}
