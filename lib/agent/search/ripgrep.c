/* Owns a JSON reader that is fed piece by piece and keeps a few members, by a table of their places, up to a
 * bound each. Must not know: files, patterns, what becomes of a message. */
#include "lib/agent/search/ripgrep.h"

#include <errno.h>

#define DEPTH_MAX 8
#define WORD_MAX  24 /* keys and numbers that matter are shorter */
#define NO_NUMBER (-1)

/* ---- where members stand ---- */

enum key {
    KEY_NONE,  /* behind the last one of a place */
    KEY_OTHER, /* not begun, or one that does not matter */
    KEY_ITEM,  /* of an array */
    KEY_TYPE,
    KEY_DATA,
    KEY_PATH,
    KEY_LINES,
    KEY_TEXT,
    KEY_BYTES,
    KEY_LINE_NUMBER,
    KEY_OFFSET,
    KEY_SUBMATCHES,
    KEY_MATCH,
    KEY_START,
    KEY_END,
    KEY_BINARY_OFFSET,
};
static const struct {
    const char *name;
    enum key key;
} keys[] = {
    { "type", KEY_TYPE },
    { "data", KEY_DATA },
    { "path", KEY_PATH },
    { "lines", KEY_LINES },
    { "text", KEY_TEXT },
    { "bytes", KEY_BYTES },
    { "line_number", KEY_LINE_NUMBER },
    { "absolute_offset", KEY_OFFSET },
    { "submatches", KEY_SUBMATCHES },
    { "match", KEY_MATCH },
    { "start", KEY_START },
    { "end", KEY_END },
    { "binary_offset", KEY_BINARY_OFFSET },
};

enum target {
    TARGET_NONE,
    TARGET_TYPE,
    TARGET_PATH,
    TARGET_LINE,
    TARGET_MATCH,
    TARGET_LINE_NUMBER,
    TARGET_OFFSET,
    TARGET_START,
    TARGET_END,
    TARGET_BINARY_OFFSET,
};
static const struct {
    enum key place[DEPTH_MAX];
    enum target target;
} places[] = {
    { { KEY_TYPE }, TARGET_TYPE },
    { { KEY_DATA, KEY_PATH, KEY_TEXT }, TARGET_PATH },
    { { KEY_DATA, KEY_PATH, KEY_BYTES }, TARGET_PATH },
    { { KEY_DATA, KEY_LINES, KEY_TEXT }, TARGET_LINE },
    { { KEY_DATA, KEY_LINES, KEY_BYTES }, TARGET_LINE },
    { { KEY_DATA, KEY_LINE_NUMBER }, TARGET_LINE_NUMBER },
    { { KEY_DATA, KEY_OFFSET }, TARGET_OFFSET },
    { { KEY_DATA, KEY_SUBMATCHES, KEY_ITEM, KEY_MATCH, KEY_TEXT }, TARGET_MATCH },
    { { KEY_DATA, KEY_SUBMATCHES, KEY_ITEM, KEY_MATCH, KEY_BYTES }, TARGET_MATCH },
    { { KEY_DATA, KEY_SUBMATCHES, KEY_ITEM, KEY_START }, TARGET_START },
    { { KEY_DATA, KEY_SUBMATCHES, KEY_ITEM, KEY_END }, TARGET_END },
    { { KEY_DATA, KEY_BINARY_OFFSET }, TARGET_BINARY_OFFSET },
};

static const struct {
    const char *name;
    enum ripgrep_type type;
} types[] = {
    { "begin", RIPGREP_BEGIN }, { "match", RIPGREP_MATCH },     { "context", RIPGREP_CONTEXT },
    { "end", RIPGREP_END },     { "summary", RIPGREP_SUMMARY },
};

/* ---- the reader ---- */

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
    IN_WORD, /* a number, true, false, null */
    BROKEN,
};

struct ripgrep {
    ripgrep_take *take;
    void *user;
    enum state state;
    struct {
        bool array;
        enum key key; /* of what is being read in it */
    } levels[DEPTH_MAX];
    unsigned depth;
    /* of the string or word that is being read */
    bool is_key;
    enum target target;
    bool base64;
    unsigned unicode, digits, high; /* high: the first half of a pair, 0 = none */
    char word[WORD_MAX];
    size_t word_length;
    uint32_t bits;
    unsigned n_bits;
    struct ripgrep_message message;
};

static void message_reset(struct ripgrep_message *m)
{
    m->path.length = m->line.length = m->match.length = 0;
    m->line_length = m->match_length = m->submatches = 0;
    m->type = RIPGREP_OTHER;
    m->last = m->before_last = 0;
    m->line_number = 0;
    m->offset = m->start = m->end = m->binary_offset = NO_NUMBER;
}

struct ripgrep *ripgrep_new(ripgrep_take *take, void *user)
{
    struct ripgrep *r = xcalloc(1, sizeof *r);
    r->take = take;
    r->user = user;
    message_reset(&r->message);
    return r;
}

void ripgrep_free(struct ripgrep *r)
{
    if (!r)
        return;
    buffer_free(&r->message.path);
    buffer_free(&r->message.line);
    buffer_free(&r->message.match);
    free(r);
}

bool ripgrep_is_whole(const struct ripgrep *r)
{
    return r->state == WANTS_VALUE && r->depth == 0;
}

/* ---- values ---- */

static enum target find_target(const struct ripgrep *r)
{
    for (size_t i = 0; i < N_ELEMENTS(places); i++) {
        unsigned depth = 0;
        while (depth < r->depth && places[i].place[depth] == r->levels[depth].key)
            depth++;
        if (depth == r->depth && (depth == DEPTH_MAX || places[i].place[depth] == KEY_NONE))
            return places[i].target;
    }
    return TARGET_NONE;
}

static void keep(struct buffer *to, uint64_t *ret_length, size_t most, const char *data, size_t length)
{
    size_t room = to->length < most ? most - to->length : 0;
    buffer_append(to, data, length < room ? length : room);
    if (ret_length)
        *ret_length += length;
}

static void put_line(struct ripgrep_message *m, const char *data, size_t length)
{
    keep(&m->line, &m->line_length, RIPGREP_LINE_MAX, data, length);
    if (length == 0)
        return;
    m->before_last = length > 1 ? data[length - 2] : m->last;
    m->last = data[length - 1];
}

/* Decoded bytes of a string. */
static void put_bytes(struct ripgrep *r, const char *data, size_t length)
{
    struct ripgrep_message *m = &r->message;
    if (r->target == TARGET_PATH)
        keep(&m->path, NULL, RIPGREP_PATH_MAX, data, length);
    else if (r->target == TARGET_LINE)
        put_line(m, data, length);
    else if (r->target == TARGET_MATCH && m->submatches == 1)
        keep(&m->match, &m->match_length, RIPGREP_MATCH_MAX, data, length);
}

static unsigned base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

static void put_base64(struct ripgrep *r, const char *data, size_t length)
{
    char out[256];
    size_t made = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned value = base64_value(data[i]);
        if (value > 63) /* padding */
            continue;
        r->bits = (r->bits << 6 | value) & 0xffff;
        r->n_bits += 6;
        if (r->n_bits < 8)
            continue;
        r->n_bits -= 8;
        out[made++] = (char)(r->bits >> r->n_bits);
        if (made == sizeof out) {
            put_bytes(r, out, made);
            made = 0;
        }
    }
    put_bytes(r, out, made);
}

/* The inside of a string, without escapes. */
static void put(struct ripgrep *r, const char *data, size_t length)
{
    if (r->is_key || r->target == TARGET_TYPE) {
        size_t room = sizeof r->word - r->word_length; /* one that is longer matters to nobody */
        size_t kept = length < room ? length : room;
        memcpy(r->word + r->word_length, data, kept);
        r->word_length += kept;
    } else if (r->target != TARGET_NONE && r->base64) {
        put_base64(r, data, length);
    } else if (r->target != TARGET_NONE) {
        put_bytes(r, data, length);
    }
}

static bool word_is(const struct ripgrep *r, const char *text)
{
    return strlen(text) == r->word_length && !memcmp(text, r->word, r->word_length);
}

static void take_type(struct ripgrep *r)
{
    for (size_t i = 0; i < N_ELEMENTS(types); i++)
        if (word_is(r, types[i].name))
            r->message.type = types[i].type;
}

static void take_key(struct ripgrep *r)
{
    enum key key = KEY_OTHER;
    for (size_t i = 0; i < N_ELEMENTS(keys); i++)
        if (word_is(r, keys[i].name))
            key = keys[i].key;
    r->levels[r->depth - 1].key = key;
}

static void take_number(struct ripgrep *r)
{
    struct ripgrep_message *m = &r->message;
    char text[WORD_MAX + 1], *end;
    memcpy(text, r->word, r->word_length);
    text[r->word_length] = '\0';
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end || end == text || errno || value < 0)
        return;
    switch (r->target) {
    case TARGET_LINE_NUMBER:
        m->line_number = value;
        break;
    case TARGET_OFFSET:
        m->offset = value;
        break;
    case TARGET_START:
        m->start = m->submatches == 1 ? value : m->start;
        break;
    case TARGET_END:
        m->end = m->submatches == 1 ? value : m->end;
        break;
    case TARGET_BINARY_OFFSET:
        m->binary_offset = value;
        break;
    default:
        break;
    }
}

/* ---- structure ---- */

static void value_ends(struct ripgrep *r)
{
    r->state = r->depth > 0 ? WANTS_MORE : WANTS_VALUE;
    if (r->depth > 0)
        return;
    r->take(r->user, &r->message);
    message_reset(&r->message);
}

static void begin_container(struct ripgrep *r, bool array)
{
    if (r->depth == DEPTH_MAX || (r->depth == 0 && array)) {
        r->state = BROKEN;
        return;
    }
    bool is_submatch = r->depth == 3 && r->levels[0].key == KEY_DATA && r->levels[1].key == KEY_SUBMATCHES &&
                       r->levels[2].key == KEY_ITEM;
    r->message.submatches += is_submatch;
    r->levels[r->depth].array = array;
    r->levels[r->depth].key = array ? KEY_ITEM : KEY_OTHER;
    r->depth++;
    r->state = array ? WANTS_VALUE_OR_END : WANTS_KEY_OR_END;
}

static void end_container(struct ripgrep *r, bool array)
{
    if (r->depth == 0 || r->levels[r->depth - 1].array != array) {
        r->state = BROKEN;
        return;
    }
    r->depth--;
    value_ends(r);
}

static void begin_string(struct ripgrep *r, bool is_key)
{
    r->state = IN_STRING;
    r->is_key = is_key;
    r->word_length = r->n_bits = r->high = 0;
    r->target = is_key ? TARGET_NONE : find_target(r);
    r->base64 = r->depth > 0 && r->levels[r->depth - 1].key == KEY_BYTES;
}

static void end_string(struct ripgrep *r)
{
    if (r->is_key) {
        take_key(r);
        r->state = WANTS_COLON;
        return;
    }
    if (r->target == TARGET_TYPE)
        take_type(r);
    value_ends(r);
}

static void begin_value(struct ripgrep *r, char c)
{
    if (c == '{' || c == '[') {
        begin_container(r, c == '[');
    } else if (r->depth == 0) { /* a message is an object */
        r->state = BROKEN;
    } else if (c == '"') {
        begin_string(r, false);
    } else if (c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) {
        r->state = IN_WORD;
        r->target = find_target(r);
        r->word[0] = c;
        r->word_length = 1;
    } else {
        r->state = BROKEN;
    }
}

static void take_mark(struct ripgrep *r, char c)
{
    bool in_array = r->depth > 0 && r->levels[r->depth - 1].array;
    if (c == '}' && !in_array && (r->state == WANTS_MORE || r->state == WANTS_KEY_OR_END))
        end_container(r, false);
    else if (c == ']' && in_array && (r->state == WANTS_MORE || r->state == WANTS_VALUE_OR_END))
        end_container(r, true);
    else if (c == ',' && r->state == WANTS_MORE)
        r->state = in_array ? WANTS_VALUE : WANTS_KEY;
    else if (c == ':' && r->state == WANTS_COLON)
        r->state = WANTS_VALUE;
    else if (c == '"' && (r->state == WANTS_KEY || r->state == WANTS_KEY_OR_END))
        begin_string(r, true);
    else if (r->state == WANTS_VALUE || r->state == WANTS_VALUE_OR_END)
        begin_value(r, c);
    else
        r->state = BROKEN;
}

/* ---- characters ---- */

static void put_character(struct ripgrep *r, unsigned c)
{
    char text[4];
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = length - 1; i > 0; i--, c >>= 6)
        text[i] = (char)(0x80 | (c & 0x3f));
    text[0] = (char)(leads[length] | c);
    put(r, text, length);
}

/* A half of a pair alone is what UTF-8 cannot say: rg never writes one. */
static void end_unicode(struct ripgrep *r)
{
    unsigned c = r->unicode, high = r->high;
    r->state = IN_STRING;
    r->high = 0;
    if (c >= 0xd800 && c < 0xdc00)
        r->high = c;
    else if (c >= 0xdc00 && c < 0xe000 && high)
        put_character(r, 0x10000 + ((high & 0x3ff) << 10 | (c & 0x3ff)));
    else
        put_character(r, c >= 0xdc00 && c < 0xe000 ? 0xfffd : c);
}

static void take_digit(struct ripgrep *r, char c)
{
    unsigned value = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                            : 16;
    if (value > 15) {
        r->state = BROKEN;
        return;
    }
    r->unicode = r->unicode << 4 | value;
    if (++r->digits == 4)
        end_unicode(r);
}

static void take_escape(struct ripgrep *r, char c)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *found = c ? strchr(names, c) : NULL;
    r->state = IN_STRING;
    if (found) {
        put(r, &meant[found - names], 1);
    } else if (c == 'u') {
        r->state = IN_UNICODE;
        r->unicode = r->digits = 0;
    } else {
        r->state = BROKEN;
    }
}

/* As far as nothing is special; returns how far. */
static size_t take_string(struct ripgrep *r, const char *data, size_t length)
{
    size_t at = 0;
    while (at < length && data[at] != '"' && data[at] != '\\')
        at++;
    put(r, data, at);
    if (at == length)
        return at;
    if (data[at] == '"')
        end_string(r);
    else
        r->state = IN_ESCAPE;
    return at + 1;
}

static bool is_in_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '+' || c == '-' || c == 'E';
}

static size_t take_word(struct ripgrep *r, const char *data, size_t length)
{
    size_t at = 0;
    for (; at < length && is_in_word(data[at]); at++)
        if (r->word_length < sizeof r->word)
            r->word[r->word_length++] = data[at];
    if (at < length) {
        take_number(r);
        value_ends(r);
    }
    return at;
}

static size_t take_one(struct ripgrep *r, const char *data, size_t length)
{
    switch (r->state) {
    case IN_STRING:
        return take_string(r, data, length);
    case IN_WORD:
        return take_word(r, data, length);
    case IN_ESCAPE:
        take_escape(r, *data);
        return 1;
    case IN_UNICODE:
        take_digit(r, *data);
        return 1;
    default:
        if (*data != '\n' && *data != ' ' && *data != '\r' && *data != '\t')
            take_mark(r, *data);
        return 1;
    }
}

bool ripgrep_feed(struct ripgrep *r, const char *data, size_t length)
{
    for (size_t at = 0; at < length && r->state != BROKEN;)
        at += take_one(r, data + at, length - at);
    return r->state != BROKEN;
}
