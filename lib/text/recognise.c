/* Owns: reading a line once: its words, its numbers, its shape; then the rows that may be about it. Must not
 * know other lines. */
#include "lib/text/recognise.h"

#include "lib/base/memory.h"
#include "lib/text/features.h"
#include "lib/text/pattern.h"

enum { SLOTS = 1024, CANDIDATES = 24, WORD_MAX = 24, HASH_LENGTH = 7, TALKATIVE = 6, EXTENSION_MAX = 5 };

struct slot {
    const char *word; /* NULL = free */
    size_t length;
    uint32_t hash;
    enum line_level level;
    int row; /* first pattern row of the word, -1 = none */
};

struct recogniser {
    struct slot slots[SLOTS];
    int *next; /* for each pattern row: the next of the same word or first byte, -1 = none */
    int lead[256];
};

/* What a byte is to the scan. */
enum byte_class { B_OTHER, B_LETTER, B_DIGIT, B_BLANK, B_JOIN };
static const unsigned char byte_classes[256] = {
    ['a' ... 'z'] = B_LETTER, ['A' ... 'Z'] = B_LETTER, ['0' ... '9'] = B_DIGIT, [' '] = B_BLANK,
    ['\t'] = B_BLANK,         ['_'] = B_JOIN,           ['/'] = B_JOIN,          ['\\'] = B_JOIN,
    ['-'] = B_JOIN,           ['@'] = B_JOIN,
};

static uint32_t word_step(uint32_t hash, unsigned char letter)
{
    return (hash ^ (letter | 0x20u)) * 0x85EBCA6Bu + (hash >> 15);
}

static uint32_t word_hash(const char *word, size_t length)
{
    uint32_t hash = 0x9E3779B9u;
    for (size_t at = 0; at < length; at++)
        hash = word_step(hash, (unsigned char)word[at]);
    return hash;
}

static struct slot *slot_of(const struct recogniser *r, uint32_t hash, const char *word, size_t length)
{
    size_t at = (hash >> 8) % SLOTS;
    const struct slot *slot;
    for (;; at = (at + 1) % SLOTS) {
        slot = &r->slots[at];
        if (slot->word == NULL)
            break;
        if (slot->hash == hash && slot->length == length && strncasecmp(slot->word, word, length) == 0)
            break;
    }
    return (struct slot *)slot;
}

static struct slot *add_word(struct recogniser *r, const char *word)
{
    size_t length = strlen(word);
    struct slot *slot = slot_of(r, word_hash(word, length), word, length);
    if (slot->word == NULL)
        *slot = (struct slot){ .word = word, .length = length, .hash = word_hash(word, length), .row = -1 };
    return slot;
}

struct recogniser *recogniser_new(void)
{
    struct recogniser *r = xcalloc(1, sizeof *r);
    r->next = xcalloc(pattern_rows_count, sizeof *r->next);
    for (size_t at = 0; at < 256; at++)
        r->lead[at] = -1;
    for (size_t at = 0; at < word_rows_count; at++)
        add_word(r, word_rows[at].word)->level = word_rows[at].level;
    /* From the end, so that each chain goes through the table in its order. */
    for (int at = (int)pattern_rows_count - 1; at >= 0; at--) {
        const struct pattern_row *row = &pattern_rows[at];
        int *head = row->key != NULL ? &add_word(r, row->key)->row : &r->lead[(unsigned char)row->pattern[0]];
        r->next[at] = *head;
        *head = at;
    }
    return r;
}

void recogniser_free(struct recogniser *r)
{
    if (r != NULL)
        free(r->next);
    free(r);
}

/* The scan of one line. */
struct scan {
    const struct recogniser *r;
    const char *line, *end;
    struct line_facts *facts;
    int candidates[CANDIDATES];
    size_t candidate_count, tokens, words, alnums;
    bool after_zero; /* the token before was 0, or no */
    bool loud;       /* a word of failure stands in capitals */
};

static void shape_add(struct scan *s, uint64_t value)
{
    s->facts->shape = (s->facts->shape ^ value) * 0x9E3779B97F4A7C15u;
    s->facts->shape ^= s->facts->shape >> 29;
}

static bool is_zero_count(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == ':' || *at == '='))
        at++;
    if (at == end || *at != '0')
        return false;
    return at + 1 == end || (byte_classes[(unsigned char)at[1]] != B_DIGIT && at[1] != '.');
}

/* Part of a path or of an identifier, not a word of a sentence. */
static bool is_embedded(const struct scan *s, const char *begin, const char *stop)
{
    unsigned char before = begin > s->line ? (unsigned char)begin[-1] : ' ';
    unsigned char after = stop < s->end ? (unsigned char)*stop : ' ';
    unsigned char beyond = stop + 1 < s->end ? (unsigned char)stop[1] : ' ';
    if (byte_classes[before] == B_JOIN || byte_classes[before] == B_DIGIT || before == '.')
        return true;
    if (byte_classes[after] == B_JOIN || byte_classes[after] == B_DIGIT)
        return true;
    return after == '.' && (byte_classes[beyond] == B_LETTER || byte_classes[beyond] == B_DIGIT);
}

/* ValueError, java.lang.NullPointerException: a name that ends so, whatever stands before it. */
static bool names_failure(const struct scan *s, const char *begin, const char *stop)
{
    static const char *const ends[] = { "Error", "Exception", "Failure", "Panic", "Fault" };
    size_t length = (size_t)(stop - begin);
    unsigned char after = stop < s->end ? (unsigned char)*stop : ' ';
    if (byte_classes[after] == B_JOIN || byte_classes[after] == B_DIGIT || after == '.' || length < 6)
        return false;
    for (size_t at = 0; at < N_ELEMENTS(ends); at++) {
        size_t n = strlen(ends[at]);
        if (length > n && memcmp(stop - n, ends[at], n) == 0)
            return true;
    }
    return false;
}

static void raise_level(struct scan *s, enum line_level level)
{
    s->facts->level = level > s->facts->level ? level : s->facts->level;
}

static bool is_loud(const char *begin, const char *stop)
{
    for (const char *at = begin; at < stop; at++)
        if (*at >= 'a')
            return false;
    return stop - begin > 3;
}

static void take_word(struct scan *s, uint32_t hash, const char *begin, const char *stop)
{
    size_t length = (size_t)(stop - begin);
    s->words += length > 1;
    if (length > WORD_MAX)
        return;
    const struct slot *slot = slot_of(s->r, hash, begin, length);
    if (slot->word == NULL) {
        if ((stop[-1] == 'r' || stop[-1] == 'n' || stop[-1] == 'e' || stop[-1] == 'c' || stop[-1] == 't') &&
            names_failure(s, begin, stop))
            raise_level(s, LEVEL_FAILURE);
        return;
    }
    if (slot->row >= 0 && s->candidate_count < CANDIDATES)
        s->candidates[s->candidate_count++] = slot->row;
    if (slot->level != LEVEL_NOTHING && !is_embedded(s, begin, stop) && !s->after_zero &&
        !is_zero_count(stop, s->end)) {
        raise_level(s, slot->level);
        s->loud = s->loud || (slot->level == LEVEL_FAILURE && is_loud(begin, stop));
    }
}

/* 10:30:00.25, 1,024, 3f2a91c0: one number. Returns its end. */
static const char *take_number(struct scan *s, const char *at)
{
    const char *p = at;
    while (p < s->end) {
        unsigned char class = byte_classes[(unsigned char)*p];
        if (class == B_DIGIT || class == B_LETTER)
            p++;
        else if ((*p == '.' || *p == ',' || *p == ':' || *p == '-') && p + 1 < s->end &&
                 byte_classes[(unsigned char)p[1]] == B_DIGIT)
            p += 2;
        else
            break;
    }
    shape_add(s, '0');
    s->alnums += (size_t)(p - at) - 1;
    return p;
}

static bool is_hex(const char *begin, const char *stop)
{
    for (; begin < stop; begin++) {
        unsigned char c = (unsigned char)*begin | 0x20u;
        if (byte_classes[(unsigned char)*begin] != B_DIGIT && (c < 'a' || c > 'f'))
            return false;
    }
    return true;
}

/* Letters, with what follows them where that makes them a hash (deadbeef12). Returns the end. */
static const char *take_letters(struct scan *s, const char *begin)
{
    const char *at = begin;
    uint32_t hash = 0x9E3779B9u;
    while (at < s->end && byte_classes[(unsigned char)*at] == B_LETTER)
        hash = word_step(hash, (unsigned char)*at++);
    if (at < s->end && byte_classes[(unsigned char)*at] == B_DIGIT) {
        const char *stop = at;
        while (stop < s->end && (byte_classes[(unsigned char)*stop] == B_DIGIT ||
                                 byte_classes[(unsigned char)*stop] == B_LETTER))
            stop++;
        if (stop - begin >= HASH_LENGTH && is_hex(begin, stop)) {
            shape_add(s, '0');
            return stop;
        }
    }
    take_word(s, hash, begin, at);
    shape_add(s, hash);
    return at;
}

/* Words of a token are looked up wherever they stand; its shape is taken only where it is no path. */
static void take_token(struct scan *s, const char *begin, const char *stop, bool path)
{
    const char *end = s->end;
    uint64_t shape = s->facts->shape;
    s->end = stop;
    for (const char *at = begin; at < stop;) {
        unsigned char class = byte_classes[(unsigned char)*at];
        s->alnums += class == B_LETTER || class == B_DIGIT;
        if (class == B_LETTER) {
            s->end = end;
            at = take_letters(s, at);
            s->end = stop;
        } else if (class == B_DIGIT) {
            at = take_number(s, at);
        } else {
            shape_add(s, (unsigned char)*at++);
        }
    }
    s->end = end;
    if (!path)
        return;
    s->facts->shape = shape;
    s->facts->has_path = true;
    shape_add(s, 'P');
    if (stop[-1] == ':' || stop[-1] == ',')
        shape_add(s, (unsigned char)stop[-1]);
}

/* name.ext, with an extension of letters and digits. */
static bool is_file_name(const char *begin, const char *stop)
{
    const char *dot = memrchr(begin, '.', (size_t)(stop - begin));
    stop -= stop[-1] == ':' || stop[-1] == ',';
    if (dot == NULL || dot == begin || stop - dot < 2 || stop - dot > EXTENSION_MAX + 1)
        return false;
    for (const char *at = dot + 1; at < stop; at++)
        if (byte_classes[(unsigned char)*at] != B_LETTER)
            return false;
    return byte_classes[(unsigned char)dot[-1]] != B_OTHER && byte_classes[(unsigned char)dot[-1]] != B_DIGIT;
}

bool recognise_path(const char *begin, const char *stop)
{
    return (stop - begin > 1 && memchr(begin, '/', (size_t)(stop - begin)) != NULL) ||
           is_file_name(begin, stop);
}

static void scan_tokens(struct scan *s)
{
    for (const char *at = s->line; at < s->end;) {
        const char *stop = at;
        if (byte_classes[(unsigned char)*at] == B_BLANK) {
            while (at < s->end && byte_classes[(unsigned char)*at] == B_BLANK)
                at++;
            shape_add(s, ' ');
            continue;
        }
        while (stop < s->end && byte_classes[(unsigned char)*stop] != B_BLANK)
            stop++;
        take_token(s, at, stop, recognise_path(at, stop));
        s->after_zero = (stop - at == 1 && *at == '0') || (stop - at == 2 && strncasecmp(at, "no", 2) == 0);
        s->tokens++;
        at = stop;
    }
}

static const char *skip(const char *at, const char *end, const char *bytes)
{
    while (at < end && *at != '\0' && strchr(bytes, *at) != NULL)
        at++;
    return at;
}

/* Past what a builder of images or a log writes before each line: "#12 0.345 ", "2026-11-30T10:30:00.123Z ".
 */
static const char *skip_stamp(const char *line, const char *end)
{
    static const char digits[] = "0123456789";
    const char *at = line;
    if (end - line > 5 && line[0] == '#') {
        const char *number = skip(line + 1, end, digits);
        at = number < end && *number == ' ' ? skip(number + 1, end, "0123456789.") : line;
        return at > number + 1 && at + 1 < end && *at == ' ' ? at + 1 : line;
    }
    if (end - line > 21 && line[4] == '-' && line[7] == '-' && (line[10] == 'T' || line[10] == ' ') &&
        line[13] == ':')
        at = skip(line, end, "0123456789-:.,TZ+ ");
    return at < end ? at : line;
}

/* The first row of the table that matches, of all that may. */
static const struct pattern_row *match_rows(const struct scan *s)
{
    const char *first = skip_stamp(s->line, s->end);
    int best = -1;
    while (first < s->end && byte_classes[(unsigned char)*first] == B_BLANK)
        first++;
    for (size_t at = 0; at <= s->candidate_count; at++) {
        int row = at < s->candidate_count ? s->candidates[at]
                  : first < s->end        ? s->r->lead[(unsigned char)*first]
                                          : -1;
        for (; row >= 0 && (best < 0 || row < best); row = s->r->next[row])
            if (pattern_matches(pattern_rows[row].pattern, first, (size_t)(s->end - first)))
                best = row;
    }
    return best < 0 ? NULL : &pattern_rows[best];
}

void recognise(const struct recogniser *r, const char *line, size_t length, struct line_facts *ret)
{
    *ret = (struct line_facts){ .kind = KIND_BLANK };
    struct scan s = { .r = r, .line = line, .end = line + length, .facts = ret };
    scan_tokens(&s);
    if (s.tokens == 0)
        return;
    const struct pattern_row *row = match_rows(&s);
    ret->kind = row != NULL ? row->kind : feature_kind(line, length, s.tokens);
    if (row == NULL && ret->kind == KIND_PROGRESS && s.words >= TALKATIVE)
        ret->kind = KIND_PLAIN; /* a sentence was written over what is left of a bar */
    /* Names of tests may say what they like; a step that tells of a failure had one. */
    bool test = ret->kind == KIND_PASS || ret->kind == KIND_SKIP;
    bool failed = ret->level == LEVEL_FAILURE && (!test || s.loud);
    ret->sure = row != NULL && row->trust == SURE && !failed;
    ret->loose = row != NULL && row->trust == LOOSE;
    if (ret->kind == KIND_FAILURE) {
        ret->kind = KIND_PLAIN;
        raise_level(&s, LEVEL_FAILURE);
    }
    ret->columns = ret->kind == KIND_NAME && s.tokens > 1;
    ret->sentence = s.words >= 3 && (ret->kind == KIND_PLAIN || ret->loose);
    ret->solid = s.alnums >= 2 && length >= 3 && !feature_is_code(line, length);
}
