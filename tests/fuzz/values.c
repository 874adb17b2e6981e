/* Draws values from rows. Knows rows and JSON; no operation and no server. */
#include "tests/fuzz/values.h"

#include "lib/schema/formats.h"

#include <ctype.h>
#include <math.h>

unsigned dice_roll(struct dice *d, unsigned sides)
{
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return (unsigned)((d->state >> 11) % sides);
}

bool dice_one_in(struct dice *d, unsigned sides)
{
    return dice_roll(d, sides) == 0;
}

/* ---- right values ---- */

static const struct sample {
    const struct field_format *format;
    const char *texts[5];
} samples[] = {
    { &format_workspace_id, { "ws-0123456789abcdef0123456789abcdef" } },
    { &format_exec_id, { "ex-0123456789abcdef0123456789abcdef" } },
    { &format_watch_id, { "fw-0123456789abcdef0123456789abcdef" } },
    { &format_name, { "a", "name-of.it_9", "-", "..." } },
    { &format_remote_path, { "/workspace", "/", "//tmp/./x/", "/workspace/\xE2\x82\xAC" } },
    { &format_mount_path, { "/data", "/a//b/" } },
    { &format_image_name, { "debian:12", "a/b" } },
    { &format_image_id, { "im-1", "im-_-" } },
    { &format_package, { "git", "requests==2.0" } },
    { &format_env_name, { "A", "lower case", "\xE2\x82\xAC" } },
    { &format_cidr, { "10.0.0.1/8", "::1", "2001:db8::/32", "0.0.0.0/0" } },
    { &format_domain, { "example.org", "*.example.org", "*" } },
    { &format_tag_key, { "key", "\xF0\x9F\x98\x80", " " } },
    { &format_base64, { "", "aGk=", "AAEC/w==", "/w==" } },
    { &format_signal, { "TERM", "sigint", "KILL", "WINCH" } },
};

static void append_string(struct buffer *out, const char *text, size_t length)
{
    buffer_append_char(out, '"');
    buffer_append_json(out, text, length);
    buffer_append_char(out, '"');
}

static const char *sample_of(struct dice *d, const struct field_format *format)
{
    for (size_t i = 0; i < N_ELEMENTS(samples); i++) {
        size_t count = 1;
        while (count < N_ELEMENTS(samples[i].texts) && samples[i].texts[count] != NULL)
            count++;
        if (samples[i].format == format)
            return samples[i].texts[dice_roll(d, (unsigned)count)];
    }
    return NULL;
}

static void append_repeated(struct buffer *out, const char *unit, size_t characters)
{
    buffer_append_char(out, '"');
    for (size_t i = 0; i < characters; i++)
        buffer_append_json(out, unit, strlen(unit));
    buffer_append_char(out, '"');
}

static void append_text(struct dice *d, const struct field *row, struct buffer *out)
{
    static const char *const units[] = { "a", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\"", "\\", "\n", "\x7F" };
    const char *sample = row->format != NULL ? sample_of(d, row->format) : NULL;
    if (sample != NULL) {
        append_string(out, sample, strlen(sample));
        return;
    }
    size_t min = row->has_min ? (size_t)row->min : 0, max = row->has_max ? (size_t)row->max : 300;
    size_t lengths[] = { min, min + 1, min + dice_roll(d, 20), max };
    size_t length = lengths[dice_one_in(d, 10) ? 3 : dice_roll(d, 3)];
    const char *unit = units[row->nonblank || dice_roll(d, 2) ? 0 : dice_roll(d, N_ELEMENTS(units))];
    append_repeated(out, unit, length < max ? length : max);
}

static double pick_number(struct dice *d, const struct field *row)
{
    double low = row->has_min ? row->min : -1000, high = row->has_max ? row->max : 1000;
    switch (dice_roll(d, 4)) {
    case 0:
        return low;
    case 1:
        return high;
    case 2:
        return low + 1 < high ? low + 1 : high;
    default:
        return low + floor((high - low) * dice_roll(d, 1000) / 1000);
    }
}

static void append_number(struct dice *d, const struct field *row, struct buffer *out)
{
    double number = pick_number(d, row);
    if (row->type == FIELD_INTEGER)
        buffer_printf(out, "%.0f", number);
    else
        buffer_printf(out, dice_roll(d, 2) ? "%.3f" : "%.6e", number);
}

static void append_array(struct dice *d, const struct field *row, struct buffer *out)
{
    size_t count = dice_roll(d, 3);
    buffer_append_char(out, '[');
    for (size_t i = 0; i < count && row->items != NULL; i++) {
        buffer_append_text(out, i > 0 ? "," : "");
        value_append_right(d, row->items, out);
    }
    buffer_append_char(out, ']');
}

static void append_map(struct dice *d, const struct field *row, struct buffer *out)
{
    size_t count = dice_roll(d, 3);
    buffer_append_char(out, '{');
    for (size_t i = 0; i < count && row->items != NULL; i++) {
        const char *sample = row->keys != NULL ? sample_of(d, row->keys) : NULL;
        _cleanup_free_ char *key = xasprintf("%s%zu", sample != NULL ? sample : "key", i);
        buffer_append_text(out, i > 0 ? "," : "");
        append_string(out, key, strlen(key));
        buffer_append_char(out, ':');
        value_append_right(d, row->items, out);
    }
    buffer_append_char(out, '}');
}

static void append_members(struct dice *d, const struct field *row, struct buffer *out)
{
    buffer_append_char(out, '{');
    size_t count = 0;
    for (const struct field *member = row->members; member->name != NULL; member++) {
        if (!member->required && dice_roll(d, 2))
            continue;
        buffer_append_text(out, count++ > 0 ? "," : "");
        append_string(out, member->name, strlen(member->name));
        buffer_append_char(out, ':');
        value_append_right(d, member, out);
    }
    buffer_append_char(out, '}');
}

static void append_choice(struct dice *d, const char *const *choices, struct buffer *out)
{
    unsigned count = 0;
    do
        count++;
    while (choices[count] != NULL);
    const char *text = choices[dice_roll(d, count)];
    append_string(out, text, strlen(text));
}

void value_append_right(struct dice *d, const struct field *row, struct buffer *out)
{
    if (row->nullable && dice_one_in(d, 4))
        buffer_append_text(out, "null");
    else if (row->dflt != NULL && dice_one_in(d, 4))
        buffer_append_text(out, row->dflt);
    else if (row->also != NULL && dice_one_in(d, 2))
        value_append_right(d, row->also, out);
    else if (row->choices != NULL)
        append_choice(d, row->choices, out);
    else if (row->type == FIELD_STRING)
        append_text(d, row, out);
    else if (row->type == FIELD_INTEGER || row->type == FIELD_NUMBER)
        append_number(d, row, out);
    else if (row->type == FIELD_BOOLEAN)
        buffer_append_text(out, dice_roll(d, 2) ? "true" : "false");
    else if (row->type == FIELD_ARRAY)
        append_array(d, row, out);
    else if (row->type == FIELD_OBJECT && row->members != NULL)
        append_members(d, row, out);
    else if (row->type == FIELD_OBJECT)
        append_map(d, row, out);
    else
        buffer_append_text(out, "7");
}

/* ---- wrong values ---- */

static const char *const odd[] = {
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    "-1e308",
    "9223372036854775808",
    "18446744073709551616",
    "-0",
    "0.5",
    "1E2",
    "123456789012345678901234567890",
    "NaN",
    "Infinity",
    "'x'",
    "01",
    ".5",
    "\"\"",
    "\" \"",
    "\"\\t\\n \"",
    "\"\\u0000\"",
    "\"a\\u0000b\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\uffff\\ufffe\"",
    "\"\xFF\xFE\"",
    "\"\xED\xA0\x80\"",
    "\"\xC0\x80\"",
    "\"\xF4\x90\x80\x80\"",
    "\"\\u202e\\u2066abc\"",
    "\"\xE2\x80\xA8\"",
    "\"../../etc/passwd\"",
    "\"/workspace/../etc\"",
    "\"/proc/self/environ\"",
    "\"%s%n%x\"",
    "\"a'b\\\"c;`$(id)\"",
    "\"\\r\\nX-Injected: 1\"",
    "\"ws-00000000000000000000000000000000\"",
    "\"ex-00000000000000000000000000000000\"",
    "\"2.5\"",
    "\"true\"",
    "[]",
    "{}",
    "[null]",
    "[[]]",
    "[1,2,3]",
    "{\"a\":1}",
    "{\"\":null}",
    "{\"a\":{\"a\":{}}}",
    "[\"a\",1,null,{}]",
    "{\"a\":1,\"a\":2}",
    "{\"__proto__\":{}}",
    "\"unclosed",
    "[",
    "{\"a\":",
    "",
    ",",
    "\"\\x\"",
    "\"tab\there\"",
    "/*c*/1",
    "tru",
};

static void append_nested(struct buffer *out, const char *open, const char *close, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        buffer_append_text(out, open);
    buffer_append_text(out, "1");
    for (size_t i = 0; i < depth; i++)
        buffer_append_text(out, close);
}

static void append_many(struct buffer *out, size_t count)
{
    buffer_append_char(out, '[');
    for (size_t i = 0; i < count; i++)
        buffer_append_text(out, i > 0 ? ",0" : "0");
    buffer_append_char(out, ']');
}

static void append_many_members(struct buffer *out, size_t count)
{
    buffer_append_char(out, '{');
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, "%s\"k%zu\":\"v\"", i > 0 ? "," : "", i);
    buffer_append_char(out, '}');
}

static void append_beyond(struct dice *d, const struct field *row, struct buffer *out)
{
    bool high = row->has_max && (!row->has_min || dice_roll(d, 2));
    double bound = high ? row->max + 1 : row->has_min ? row->min - 1 : 0;
    size_t count = bound > 0 ? bound < 300000 ? (size_t)bound : 300000 : 0;
    if (row->type == FIELD_STRING)
        append_repeated(out, dice_roll(d, 2) ? "x" : "\xF0\x9F\x98\x80", count);
    else if (row->type == FIELD_ARRAY)
        append_many(out, count);
    else if (row->type == FIELD_OBJECT)
        append_many_members(out, count);
    else
        buffer_printf(out, row->type == FIELD_INTEGER ? "%.0f" : "%.4f", bound);
}

static void append_huge(struct dice *d, struct buffer *out)
{
    static const size_t sizes[] = { 4097, 65536, 100001, 300000, 2000000 };
    size_t size = sizes[dice_roll(d, dice_one_in(d, 20) ? 5 : 4)];
    switch (dice_roll(d, 4)) {
    case 0:
        append_repeated(out, "x", size);
        break;
    case 1:
        append_repeated(out, "\x01", size / 6);
        break;
    case 2:
        append_many(out, size / 4);
        break;
    default:
        append_many_members(out, size / 20);
    }
}

void value_append_wrong(struct dice *d, const struct field *row, struct buffer *out)
{
    static const size_t depths[] = { 2, 62, 63, 64, 65, 1000, 100000 };
    switch (dice_roll(d, 12)) {
    case 0:
        append_huge(d, out);
        break;
    case 1: {
        bool object = dice_roll(d, 2);
        append_nested(out, object ? "{\"a\":" : "[", object ? "}" : "]",
                      depths[dice_roll(d, N_ELEMENTS(depths))]);
        break;
    }
    case 2:
    case 3:
    case 4:
        if (row != NULL) {
            append_beyond(d, row, out);
            break;
        }
        __attribute__((fallthrough));
    default:
        buffer_append_text(out, odd[dice_roll(d, N_ELEMENTS(odd))]);
    }
}

/* ---- in a query ---- */

static void append_encoded(struct dice *d, const char *text, size_t length, struct buffer *out)
{
    static const char *const broken[] = { "%",      "%4", "%zz", "%00", "%ff", "%c0%80",
                                          "%u20ac", "+",  "&",   "=",   "%26" };
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (isalnum(c) || strchr("-._~", c) != NULL)
            buffer_append_char(out, (char)c);
        else
            buffer_printf(out, dice_roll(d, 2) ? "%%%02X" : "%%%02x", c);
    }
    if (dice_one_in(d, 30))
        buffer_append_text(out, broken[dice_roll(d, N_ELEMENTS(broken))]);
}

void value_append_query(struct dice *d, const char *json, size_t length, struct buffer *out)
{
    json_auto_t *value = json_loadb(json, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (json_is_string(value))
        append_encoded(d, json_string_value(value), json_string_length(value), out);
    else
        append_encoded(d, json, length, out);
}
