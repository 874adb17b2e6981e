/* Owns the way of long strings past jansson. A text is read in three steps: each long string is decoded and
 * a short one of a random name stands in its place, jansson reads that text, and the long ones come back into
 * its value. Where anything is unusual, jansson reads the whole: it alone says what is wrong. It must not
 * know: what any text is about. */
#include "lib/base/json_text.h"

#include "lib/base/utf8.h"

#include <stdio.h>
#include <sys/random.h>

enum { LONG = 256, DEPTH_MAX = 2048, NAME_SIZE = 32, TOKEN_SIZE = NAME_SIZE + 8 };

/* ---- reading ---- */

/* The long strings of one text, in its order. */
struct past {
    char name[NAME_SIZE + 1];
    json_t **strings;
    size_t count, capacity;
};

static void past_free(struct past *p)
{
    for (size_t i = 0; i < p->count; i++)
        json_decref(p->strings[i]);
    free(p->strings);
}

/* 128 bits that no text can have been made for. */
static bool past_name(struct past *p)
{
    unsigned long long random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(p->name, sizeof p->name, "%016llx%016llx", random[0], random[1]);
    return true;
}

const char *json_text_string_end(const char *at, const char *end)
{
    for (const char *quote, *from = at; (quote = memchr(at, '"', (size_t)(end - at))) != NULL;
         at = quote + 1) {
        const char *first = quote;
        while (first > from && first[-1] == '\\')
            first--;
        if ((quote - first) % 2 == 0)
            return quote + 1;
        from = quote + 1;
    }
    return end;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits behind \u; -1: they are none. */
static long code_unit(const char *at, const char *end)
{
    long unit = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static void append_character(struct buffer *out, unsigned long code)
{
    if (code < 0x80) {
        buffer_append_char(out, (char)code);
    } else if (code < 0x800) {
        buffer_append_char(out, (char)(0xC0 | code >> 6));
        buffer_append_char(out, (char)(0x80 | (code & 0x3F)));
    } else if (code < 0x10000) {
        buffer_append_char(out, (char)(0xE0 | code >> 12));
        buffer_append_char(out, (char)(0x80 | (code >> 6 & 0x3F)));
        buffer_append_char(out, (char)(0x80 | (code & 0x3F)));
    } else {
        buffer_append_char(out, (char)(0xF0 | code >> 18));
        buffer_append_char(out, (char)(0x80 | (code >> 12 & 0x3F)));
        buffer_append_char(out, (char)(0x80 | (code >> 6 & 0x3F)));
        buffer_append_char(out, (char)(0x80 | (code & 0x3F)));
    }
}

/* Behind \u; NULL: no character, or one that the flags refuse. */
static const char *decode_unit(const char *at, const char *end, size_t flags, struct buffer *out)
{
    long unit = code_unit(at, end), low;
    if (unit < 0 || (unit == 0 && !(flags & JSON_ALLOW_NUL)) || (unit >= 0xDC00 && unit < 0xE000))
        return NULL;
    at += 4;
    if (unit < 0xD800 || unit >= 0xE000) {
        append_character(out, (unsigned long)unit);
        return at;
    }
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return NULL;
    low = code_unit(at + 2, end);
    if (low < 0xDC00 || low >= 0xE000)
        return NULL;
    append_character(out, 0x10000 + ((unsigned long)(unit - 0xD800) << 10) + (unsigned long)(low - 0xDC00));
    return at + 6;
}

/* Behind a backslash. */
static const char *decode_escape(const char *at, const char *end, size_t flags, struct buffer *out)
{
    static const char meant[128] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    unsigned char c = at < end ? (unsigned char)*at : 0;
    if (c == 'u')
        return decode_unit(at + 1, end, flags, out);
    if (c >= sizeof meant || meant[c] == 0)
        return NULL;
    buffer_append_char(out, meant[c]);
    return at + 1;
}

/* What stands between the quotes; NULL: it is no string. */
static json_t *decode(const char *at, const char *end, size_t flags)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    buffer_reserve(&out, (size_t)(end - at));
    while (at < end) {
        size_t plain = utf8_json_raw_prefix(at, (size_t)(end - at));
        buffer_append(&out, at, plain);
        at += plain;
        if (at == end)
            break;
        at = *at == '\\' ? decode_escape(at + 1, end, flags, &out) : NULL;
        if (at == NULL)
            return NULL;
    }
    return json_stringn_nocheck(buffer_text(&out), out.length);
}

static bool is_name(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at < end && *at == ':';
}

static bool keep(struct past *p, json_t *string)
{
    if (string == NULL || p->count > UINT32_MAX - 1 || (p->count == 0 && !past_name(p))) {
        json_decref(string);
        return false;
    }
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 8;
        p->strings = xreallocarray(p->strings, p->capacity, sizeof *p->strings);
    }
    p->strings[p->count++] = string;
    return true;
}

/* The text with short strings for the long ones, whose quotes stay; false: let jansson read the whole. */
static bool shorten(struct past *p, const char *text, const char *end, size_t flags, size_t least,
                    struct buffer *out)
{
    const char *at = text, *told = text;
    while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        const char *first = at + 1, *behind = json_text_string_end(first, end), *last = behind - 1;
        at = behind;
        if (behind == end && (last < first || *last != '"'))
            return false;
        if ((size_t)(last - first) < least || is_name(behind, end))
            continue;
        if (!keep(p, decode(first, last, flags)))
            return false;
        buffer_append(out, told, (size_t)(first - told));
        buffer_printf(out, "%s%08zx", p->name, p->count - 1);
        told = last;
    }
    if (p->count > 0)
        buffer_append(out, told, (size_t)(end - told));
    return p->count > 0;
}

/* The string that value stands for, or NULL. */
static json_t *meant_by(const struct past *p, const json_t *value)
{
    const char *text = json_string_value(value);
    if (text == NULL || json_string_length(value) != TOKEN_SIZE || memcmp(text, p->name, NAME_SIZE) != 0)
        return NULL;
    size_t index = strtoul(text + NAME_SIZE, NULL, 16);
    return index < p->count ? p->strings[index] : NULL;
}

/* As deep as jansson went, which has a bound of its own (2048). */
static void put_back(const struct past *p, json_t *value)
{
    json_t *member, *string;
    size_t index;
    if (json_is_object(value)) {
        for (void *at = json_object_iter(value); at != NULL; at = json_object_iter_next(value, at)) {
            string = meant_by(p, json_object_iter_value(at));
            if (string != NULL)
                json_object_iter_set(value, at, string);
            else
                put_back(p, json_object_iter_value(at));
        }
        return;
    }
    json_array_foreach(value, index, member) {
        string = meant_by(p, member);
        if (string != NULL)
            json_array_set(value, index, string);
        else
            put_back(p, member);
    }
}

static json_t *read_past(const char *text, size_t length, size_t flags, size_t least)
{
    __attribute__((cleanup(past_free))) struct past p = { .count = 0 };
    _cleanup_buffer_ struct buffer shorter = BUFFER_INIT;
    if (!shorten(&p, text, text + length, flags, least, &shorter))
        return NULL;
    json_t *value = json_loadb(shorter.data, shorter.length, flags, NULL);
    json_t *whole = value != NULL ? meant_by(&p, value) : NULL;
    if (whole != NULL) {
        json_decref(value);
        return json_incref(whole);
    }
    if (value != NULL)
        put_back(&p, value);
    return value;
}

json_t *json_text_read_long(const char *text, size_t length, size_t flags, size_t least,
                            json_error_t *problem)
{
    json_t *value = length >= least ? read_past(text, length, flags, least) : NULL;
    return value != NULL ? value : json_loadb(text, length, flags, problem);
}

json_t *json_text_read(const char *text, size_t length, size_t flags, json_error_t *problem)
{
    return json_text_read_long(text, length, flags, LONG, problem);
}

/* ---- writing ---- */

static void append_string(struct buffer *out, const char *text, size_t length)
{
    buffer_append_char(out, '"');
    buffer_append_json(out, text, length);
    buffer_append_char(out, '"');
}

static int append_piece(const char *text, size_t length, void *user)
{
    buffer_append(user, text, length);
    return 0;
}

static bool append_value(struct buffer *out, const json_t *value, int depth);

static bool append_object(struct buffer *out, json_t *value, int depth)
{
    const char *name;
    json_t *member;
    char before = '{';
    json_object_foreach(value, name, member) {
        buffer_append_char(out, before);
        append_string(out, name, strlen(name));
        buffer_append_char(out, ':');
        if (!append_value(out, member, depth + 1))
            return false;
        before = ',';
    }
    buffer_append_text(out, before == '{' ? "{}" : "}");
    return true;
}

static bool append_array(struct buffer *out, const json_t *value, int depth)
{
    size_t index;
    const json_t *member;
    buffer_append_char(out, '[');
    json_array_foreach(value, index, member) {
        if (index > 0)
            buffer_append_char(out, ',');
        if (!append_value(out, member, depth + 1))
            return false;
    }
    buffer_append_char(out, ']');
    return true;
}

static bool append_value(struct buffer *out, const json_t *value, int depth)
{
    if (depth > DEPTH_MAX)
        return false;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return append_object(out, (json_t *)value, depth);
    case JSON_ARRAY:
        return append_array(out, value, depth);
    case JSON_STRING:
        append_string(out, json_string_value(value), json_string_length(value));
        return true;
    case JSON_INTEGER:
        buffer_append_i64(out, json_integer_value(value));
        return true;
    case JSON_REAL:
        return json_dump_callback(value, append_piece, out, JSON_ENCODE_ANY | JSON_COMPACT) == 0;
    default:
        buffer_append_text(out, json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
        return true;
    }
}

bool json_text_append(struct buffer *out, const json_t *value)
{
    size_t before = out->length;
    if (value != NULL && append_value(out, value, 0))
        return true;
    out->length = before;
    return false;
}
