/* Owns which members of rg's messages are kept, by a table of their places, up to a bound each. Must not
 * know: files, patterns, what becomes of a message. */
#include "lib/agent/search/ripgrep.h"

#include "lib/agent/search/scan.h"
#include "lib/base/base64.h"

#include <errno.h>

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
    enum key place[SCAN_DEPTH_MAX];
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

struct ripgrep {
    ripgrep_take *take;
    void *user;
    struct scan scan;
    enum key levels[SCAN_DEPTH_MAX]; /* of what is being read in each */
    unsigned depth;
    /* of the key, string or word that is being read */
    bool is_word; /* kept here, as far as it matters */
    enum target target;
    bool base64;
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

/* ---- values ---- */

static enum target find_target(const struct ripgrep *r)
{
    for (size_t i = 0; i < N_ELEMENTS(places); i++) {
        unsigned depth = 0;
        while (depth < r->depth && places[i].place[depth] == r->levels[depth])
            depth++;
        if (depth == r->depth && (depth == SCAN_DEPTH_MAX || places[i].place[depth] == KEY_NONE))
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

static void put_base64(struct ripgrep *r, const char *data, size_t length)
{
    char out[256];
    size_t made = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned value = base64_value(data[i]);
        if (value == BASE64_NONE) /* padding */
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

/* The inside of a key, a string without escapes, or a word. */
static void put(struct ripgrep *r, const char *data, size_t length)
{
    if (r->is_word) {
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
    r->levels[r->depth - 1] = key;
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

/* ---- events ---- */

static void begin_container(struct ripgrep *r, bool array)
{
    r->message.submatches += r->depth == 3 && r->levels[0] == KEY_DATA && r->levels[1] == KEY_SUBMATCHES &&
                             r->levels[2] == KEY_ITEM;
    r->levels[r->depth++] = array ? KEY_ITEM : KEY_OTHER;
}

static void end_container(struct ripgrep *r)
{
    if (--r->depth > 0)
        return;
    r->take(r->user, &r->message);
    message_reset(&r->message);
}

static void begin_text(struct ripgrep *r, enum scan_event event)
{
    r->word_length = r->n_bits = 0;
    r->target = event == SCAN_KEY ? TARGET_NONE : find_target(r);
    r->is_word = event != SCAN_STRING || r->target == TARGET_TYPE;
    r->base64 = r->levels[r->depth - 1] == KEY_BYTES;
}

static void take_event(void *user, enum scan_event event, const char *data, size_t length)
{
    struct ripgrep *r = user;
    switch (event) {
    case SCAN_OBJECT:
    case SCAN_ARRAY:
        begin_container(r, event == SCAN_ARRAY);
        break;
    case SCAN_CLOSE:
        end_container(r);
        break;
    case SCAN_KEY:
    case SCAN_STRING:
    case SCAN_WORD:
        begin_text(r, event);
        break;
    case SCAN_TEXT:
        put(r, data, length);
        break;
    case SCAN_KEY_END:
        take_key(r);
        break;
    case SCAN_STRING_END:
        if (r->target == TARGET_TYPE)
            take_type(r);
        break;
    case SCAN_WORD_END:
        take_number(r);
        break;
    }
}

/* ---- the whole ---- */

struct ripgrep *ripgrep_new(ripgrep_take *take, void *user)
{
    struct ripgrep *r = xcalloc(1, sizeof *r);
    r->scan = (struct scan){ .take = take_event, .user = r };
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

bool ripgrep_feed(struct ripgrep *r, const char *data, size_t length)
{
    return scan_feed(&r->scan, data, length);
}

bool ripgrep_is_whole(const struct ripgrep *r)
{
    return scan_is_whole(&r->scan);
}
