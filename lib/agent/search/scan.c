/* Owns the grammar of JSON, character by character. Must not know: what the texts say. */
#include "lib/agent/search/scan.h"

#include <string.h>

enum state {
    WANTS_VALUE,
    WANTS_VALUE_OR_END, /* behind '[' */
    WANTS_KEY,
    WANTS_KEY_OR_END, /* behind '{' */
    WANTS_COLON,
    WANTS_MORE, /* behind a value: ',' or the end */
    IN_STRING,
    IN_ESCAPE,
    IN_UNICODE,
    IN_WORD,
    BROKEN,
};

bool scan_is_whole(const struct scan *s)
{
    return s->state == WANTS_VALUE && s->depth == 0;
}

static void tell(struct scan *s, enum scan_event event)
{
    s->take(s->user, event, NULL, 0);
}

static void put(struct scan *s, const char *data, size_t length)
{
    if (length > 0)
        s->take(s->user, SCAN_TEXT, data, length);
}

/* ---- structure ---- */

static void value_ends(struct scan *s)
{
    s->state = s->depth > 0 ? WANTS_MORE : WANTS_VALUE;
}

static void begin_container(struct scan *s, bool array)
{
    if (s->depth == SCAN_DEPTH_MAX || (s->depth == 0 && array)) {
        s->state = BROKEN;
        return;
    }
    s->arrays[s->depth++] = array;
    s->state = array ? WANTS_VALUE_OR_END : WANTS_KEY_OR_END;
    tell(s, array ? SCAN_ARRAY : SCAN_OBJECT);
}

static void end_container(struct scan *s)
{
    s->depth--;
    value_ends(s);
    tell(s, SCAN_CLOSE);
}

static void begin_string(struct scan *s, bool is_key)
{
    s->state = IN_STRING;
    s->is_key = is_key;
    s->high = 0;
    tell(s, is_key ? SCAN_KEY : SCAN_STRING);
}

static void end_string(struct scan *s)
{
    tell(s, s->is_key ? SCAN_KEY_END : SCAN_STRING_END);
    if (s->is_key)
        s->state = WANTS_COLON;
    else
        value_ends(s);
}

static void begin_value(struct scan *s, char c)
{
    if (c == '{' || c == '[') {
        begin_container(s, c == '[');
    } else if (s->depth == 0) { /* a text is an object */
        s->state = BROKEN;
    } else if (c == '"') {
        begin_string(s, false);
    } else if (c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) {
        s->state = IN_WORD;
        tell(s, SCAN_WORD);
        put(s, &c, 1);
    } else {
        s->state = BROKEN;
    }
}

static void take_mark(struct scan *s, char c)
{
    bool in_array = s->depth > 0 && s->arrays[s->depth - 1];
    if (c == '}' && s->depth > 0 && !in_array && (s->state == WANTS_MORE || s->state == WANTS_KEY_OR_END))
        end_container(s);
    else if (c == ']' && in_array && (s->state == WANTS_MORE || s->state == WANTS_VALUE_OR_END))
        end_container(s);
    else if (c == ',' && s->state == WANTS_MORE)
        s->state = in_array ? WANTS_VALUE : WANTS_KEY;
    else if (c == ':' && s->state == WANTS_COLON)
        s->state = WANTS_VALUE;
    else if (c == '"' && (s->state == WANTS_KEY || s->state == WANTS_KEY_OR_END))
        begin_string(s, true);
    else if (s->state == WANTS_VALUE || s->state == WANTS_VALUE_OR_END)
        begin_value(s, c);
    else
        s->state = BROKEN;
}

/* ---- characters ---- */

static void put_character(struct scan *s, unsigned c)
{
    char text[4];
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = length - 1; i > 0; i--, c >>= 6)
        text[i] = (char)(0x80 | (c & 0x3f));
    text[0] = (char)(leads[length] | c);
    put(s, text, length);
}

/* A half of a pair alone is what UTF-8 cannot say. */
static void end_unicode(struct scan *s)
{
    unsigned c = s->unicode, high = s->high;
    s->state = IN_STRING;
    s->high = 0;
    if (c >= 0xd800 && c < 0xdc00)
        s->high = c;
    else if (c >= 0xdc00 && c < 0xe000 && high)
        put_character(s, 0x10000 + ((high & 0x3ff) << 10 | (c & 0x3ff)));
    else
        put_character(s, c >= 0xdc00 && c < 0xe000 ? 0xfffd : c);
}

static void take_digit(struct scan *s, char c)
{
    unsigned value = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                            : 16;
    if (value > 15) {
        s->state = BROKEN;
        return;
    }
    s->unicode = s->unicode << 4 | value;
    if (++s->digits == 4)
        end_unicode(s);
}

static void take_escape(struct scan *s, char c)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *found = c ? strchr(names, c) : NULL;
    s->state = IN_STRING;
    if (found) {
        put(s, &meant[found - names], 1);
    } else if (c == 'u') {
        s->state = IN_UNICODE;
        s->unicode = s->digits = 0;
    } else {
        s->state = BROKEN;
    }
}

/* As far as nothing is special; returns how far. */
static size_t take_string(struct scan *s, const char *data, size_t length)
{
    size_t at = 0;
    while (at < length && data[at] != '"' && data[at] != '\\')
        at++;
    put(s, data, at);
    if (at == length)
        return at;
    if (data[at] == '"')
        end_string(s);
    else
        s->state = IN_ESCAPE;
    return at + 1;
}

static bool is_in_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '+' || c == '-' || c == 'E';
}

static size_t take_word(struct scan *s, const char *data, size_t length)
{
    size_t at = 0;
    while (at < length && is_in_word(data[at]))
        at++;
    put(s, data, at);
    if (at < length) {
        tell(s, SCAN_WORD_END);
        value_ends(s);
    }
    return at;
}

static size_t take_one(struct scan *s, const char *data, size_t length)
{
    switch (s->state) {
    case IN_STRING:
        return take_string(s, data, length);
    case IN_WORD:
        return take_word(s, data, length);
    case IN_ESCAPE:
        take_escape(s, *data);
        return 1;
    case IN_UNICODE:
        take_digit(s, *data);
        return 1;
    default:
        if (*data != '\n' && *data != ' ' && *data != '\r' && *data != '\t')
            take_mark(s, *data);
        return 1;
    }
}

bool scan_feed(struct scan *s, const char *data, size_t length)
{
    for (size_t at = 0; at < length && s->state != BROKEN;)
        at += take_one(s, data + at, length - at);
    return s->state != BROKEN;
}
