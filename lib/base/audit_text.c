/* Owns how a client's text looks in the audit log: short, and without what are secrets by their form. Knows
 * no names of parameters: those that are secret are marked where they are declared. */
#include "lib/base/audit.h"
#include "lib/base/utf8.h"

#include <ctype.h>
#include <strings.h>

#define HIDDEN "***"

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

/* ---- passwords in URLs ---- */

/* ":8080" and what may follow a port: no password. */
static bool is_port(const char *text, size_t length)
{
    size_t i = 1;
    while (i < length && i < 6 && isdigit((unsigned char)text[i]))
        i++;
    return i == length || (unsigned char)text[i] <= ' ' || is_one_of(text[i], "/?#\\\"'`<>|),;");
}

/* RFC 3986, 3.2.1: what stands between "://" and the last "@" of its authority; 0 where there is none. Behind
 * "user:" a "/" or a quote ends nothing: passwords are written there as they are. */
static size_t userinfo_length(const char *text, size_t length)
{
    size_t found = 0;
    bool has_password = false, has_blank = false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool ends = c < ' ' || c == 0x7f || ((c == ' ' || is_one_of(text[i], "/?#\\\"'`<>|")) && found > 0);
        if (ends || (!has_password && is_one_of(text[i], "/?#\\\"'`<>|")) || (has_password && c == ' '))
            break;
        if (c == ':' && text[0] != '[' && !is_port(text + i, length - i))
            has_password = true;
        has_blank |= c == ' ';
        if (c == '@' && (has_password || !has_blank))
            found = i;
    }
    return found;
}

/* ---- what stands behind the name of a secret ---- */

enum { NAME_MAX_LENGTH = 40 };

/* Of one that begins at text: as it is, or as URLs write it. */
static size_t separator_length(const char *text, size_t length)
{
    static const char *const escaped[] = { "%20", "%09", "%22", "%27", "%2b", "%3a", "%3d" };
    if (length > 0 && is_one_of(*text, " \t\r\n\"':=+\\"))
        return 1;
    for (size_t i = 0; length >= 3 && *text == '%' && i < N_ELEMENTS(escaped); i++)
        if (strncasecmp(text, escaped[i], 3) == 0)
            return 3;
    return 0;
}

/* Where those begin that end at text + at. assigns: "=" or ":" is among them. */
static size_t skip_back(const char *text, size_t at, bool *ret_assigns)
{
    *ret_assigns = false;
    for (int i = 0; i < NAME_MAX_LENGTH && at > 0; i++) {
        size_t length =
            at >= 3 && separator_length(text + at - 3, 3) == 3 ? 3 : separator_length(text + at - 1, 1);
        if (length == 0)
            break;
        at -= length;
        *ret_assigns |= is_one_of(text[at], ":=") || (length == 3 && text[at + 1] == '3');
    }
    return at;
}

static bool ends_with(const char *text, size_t end, const char *word)
{
    size_t length = strlen(word);
    return end >= length && strncasecmp(text + end - length, word, length) == 0;
}

/* Where the name begins that ends at text + end. */
static size_t name_begin(const char *text, size_t end)
{
    size_t begin = end;
    while (begin > 0 && end - begin < NAME_MAX_LENGTH &&
           !(begin >= 3 && separator_length(text + begin - 3, 3) == 3) &&
           (isalnum((unsigned char)text[begin - 1]) || is_one_of(text[begin - 1], "_-")))
        begin--;
    return begin;
}

/* A variable of the shell says where a secret is, not which. */
static size_t value_length(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && (unsigned char)text[i] > ' ' && text[i] != 0x7f &&
           !is_one_of(text[i], "\"'`<>|;&#\\"))
        i++;
    return *text == '$' ? 0 : i;
}

/* "the bearer token is not valid" speaks of one: what follows is a word, of small letters and shorter than
 * tokens are (16). */
static bool is_word(const char *text, size_t length)
{
    size_t small = 0;
    while (small < length && islower((unsigned char)text[small]))
        small++;
    return small < 16 && (small == length || (small + 1 == length && is_one_of(text[small], ".,:)")));
}

/* "Basic" of "Authorization: Basic x": letters, and a value behind a blank. */
static bool is_scheme(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && i < 16 && (isalpha((unsigned char)text[i]) || text[i] == '-'))
        i++;
    size_t blank = separator_length(text + i, length - i);
    return i > 0 && blank > 0 && !is_one_of(text[i], "\"'=\\\r\n") && i + blank < length;
}

/* Of a query ("?token=x"). */
static bool names_secret(const char *text, size_t end)
{
    static const char *const words[] = { "token",  "key", "apikey",    "password",  "passwd",
                                         "secret", "sig", "signature", "credential" };
    size_t begin = name_begin(text, end);
    if (begin == 0 || !is_one_of(text[begin - 1], "?&"))
        return false;
    for (size_t i = 0; i < N_ELEMENTS(words); i++) {
        size_t left = end - begin, length = strlen(words[i]);
        if (ends_with(text, end, words[i]) &&
            (left == length || (left > length && is_one_of(text[end - length - 1], "_-"))))
            return true;
    }
    return false;
}

/* RFC 6750, 2.1, RFC 7617 and any other scheme behind "Authorization:"; but blanks, quotes and escapes may
 * stand where they would not. */
static size_t named_length(const char *text, size_t at, size_t length)
{
    enum { SHORTEST_BASIC = 8 };
    bool assigns, scheme_assigns;
    size_t end = skip_back(text, at, &assigns), left = length - at;
    if (end == at || separator_length(text + at, left) > 0)
        return 0;
    size_t value = value_length(text + at, left);
    if (ends_with(text, end, "bearer"))
        return at - end == 1 && text[end] == ' ' && is_word(text + at, value) ? 0 : value;
    if (assigns && ends_with(text, end, "authorization"))
        return is_scheme(text + at, left) ? 0 : value;
    size_t begin = name_begin(text, end), before = skip_back(text, begin, &scheme_assigns);
    if (begin < end && scheme_assigns && !is_one_of(text[end], "\"'\\") &&
        ends_with(text, before, "authorization"))
        return value;
    if (ends_with(text, end, "basic"))
        return value >= SHORTEST_BASIC && !is_word(text + at, value) ? value : 0;
    return text[at - 1] == '=' && names_secret(text, at - 1) ? value : 0;
}

/* What is not shown where text + at stands: bytes to leave out. */
static size_t hidden_at(const char *text, size_t at, size_t length)
{
    if (ends_with(text, at, "://"))
        return userinfo_length(text + at, length - at);
    return named_length(text, at, length);
}

/* Returns the bytes that it took: a character, or one that is no part of any. */
static size_t append_one(struct buffer *out, const char *text, size_t length)
{
    uint32_t code;
    size_t size = utf8_character(text, length, &code);
    if (size == 0)
        buffer_printf(out, "\\\\x%02x", (unsigned char)*text);
    else if (code >= 0x7f && code <= 0xffff && utf8_acts(code))
        buffer_printf(out, "\\u%04x", (unsigned)code);
    else if (code > 0xffff && utf8_acts(code)) /* RFC 8259, section 7: as a pair */
        buffer_printf(out, "\\u%04x\\u%04x", 0xd800 + (unsigned)(code - 0x10000) / 0x400,
                      0xdc00 + (unsigned)(code - 0x10000) % 0x400);
    else
        buffer_append_json(out, text, size);
    return size > 0 ? size : 1;
}

/* Length of what begins at text and is itself in JSON, and neither a part of what hides something nor
 * followed by it: most text is nothing else. */
static size_t plain_length(const char *text, size_t length)
{
    size_t i = 0;
    if (length >= 3 && separator_length(text, length) == 3)
        return 3;
    while (i < length && (isalnum((unsigned char)text[i]) || is_one_of(text[i], "_-.,()[]{}")))
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
        at += append_one(out, text + at, length - at);
    }
    if (at < length)
        buffer_printf(out, "\xe2\x80\xa6(%zu chars total)", utf8_count(text, length));
}
