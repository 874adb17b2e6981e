/* Owns the grammar: the text of a pattern becomes steps. README, "Patterns", says it to users; the two must
 * agree. Must not know: how steps are matched. */
#include "lib/agent/search/glob_program.h"

#define NESTED_MAX 16

struct parser {
    struct glob *glob;
    const char *name; /* for messages */
    const char *text; /* what is left of the pattern */
    const char *end;
    struct error *err;
};

static int wrong(const struct parser *p, const char *what)
{
    return error_set(p->err, ERROR_INVALID, "%s: %s", p->name, what);
}

/* ---- steps ---- */

static uint32_t add(struct glob *glob, enum step_kind kind, uint32_t a, uint32_t b)
{
    if (glob->count == glob->capacity) {
        glob->capacity = glob->capacity ? 2 * glob->capacity : 64;
        glob->steps = xreallocarray(glob->steps, glob->capacity, sizeof *glob->steps);
    }
    glob->steps[glob->count] = (struct step){ kind, a, b };
    return (uint32_t)glob->count++;
}

static uint32_t here(const struct glob *glob)
{
    return (uint32_t)glob->count;
}

static void add_many(struct glob *glob, enum step_kind kind)
{
    uint32_t split = add(glob, STEP_SPLIT, here(glob) + 1, here(glob) + 3);
    add(glob, kind, 0, 0);
    add(glob, STEP_JUMP, split, 0);
}

/* Any number of folders, also none. */
static void add_folders(struct glob *glob)
{
    uint32_t split = add(glob, STEP_SPLIT, here(glob) + 1, 0);
    add_many(glob, STEP_ALL);
    add(glob, STEP_CHARACTER, '/', 0);
    glob->steps[split].b = here(glob);
}

/* All that lies below. */
static void add_below(struct glob *glob)
{
    add(glob, STEP_ALL, 0, 0);
    add_many(glob, STEP_ALL);
}

/* ---- sets of characters ---- */

static void take_character(struct parser *p, uint32_t *ret)
{
    if (*p->text == '\\' && p->text + 1 < p->end)
        p->text++;
    p->text += glob_character(p->text, (size_t)(p->end - p->text), ret);
}

static int take_range(struct parser *p)
{
    struct glob *glob = p->glob;
    struct range range = { 0, 0 };
    take_character(p, &range.low);
    range.high = range.low;
    if (p->end - p->text >= 2 && p->text[0] == '-' && p->text[1] != ']') {
        p->text++;
        take_character(p, &range.high);
    }
    if (range.high < range.low)
        return wrong(p, "a range in [...] runs backwards");
    glob->ranges = xreallocarray(glob->ranges, glob->n_ranges + 1, sizeof *glob->ranges);
    glob->ranges[glob->n_ranges++] = range;
    return 0;
}

static int take_set(struct parser *p)
{
    uint32_t first = (uint32_t)p->glob->n_ranges;
    bool negated = ++p->text < p->end && (*p->text == '!' || *p->text == '^');
    p->text += negated;
    for (bool begun = false; p->text < p->end && (*p->text != ']' || !begun); begun = true)
        if (take_range(p) < 0)
            return -1;
    if (p->text == p->end)
        return wrong(p, "a '[' has no ']': write \\[ for the character itself");
    p->text++;
    add(p->glob, negated ? STEP_NOT_IN : STEP_IN, first, (uint32_t)p->glob->n_ranges);
    return 0;
}

/* ---- sequences ---- */

static bool ends_here(const struct parser *p, unsigned depth)
{
    return p->text == p->end || (depth > 0 && (*p->text == ',' || *p->text == '}'));
}

/* `**` means folders where it is a whole name; elsewhere it is a `*`. Returns whether a name begins behind
 * it. */
static bool take_stars(struct parser *p, unsigned depth, bool fresh)
{
    const char *first = p->text;
    while (p->text < p->end && *p->text == '*')
        p->text++;
    bool folders = fresh && p->text - first == 2;
    if (folders && ends_here(p, depth)) {
        add_below(p->glob);
        return false;
    }
    if (folders && *p->text == '/') {
        p->text++;
        add_folders(p->glob);
        return true;
    }
    add_many(p->glob, p->glob->use == GLOB_EXCLUDE ? STEP_ALL : STEP_ANY);
    return false;
}

static int take_sequence(struct parser *p, unsigned depth, bool fresh);

/* Each alternative but the last one begins with a split and ends with a jump behind the group. */
static int take_group(struct parser *p, unsigned depth, bool fresh)
{
    struct glob *glob = p->glob;
    uint32_t jump = UINT32_MAX; /* the jumps, a chain through their targets */
    if (depth >= NESTED_MAX)
        return wrong(p, "'{' is nested too deeply");
    do {
        p->text++;
        uint32_t split = add(glob, STEP_SPLIT, here(glob) + 1, 0);
        if (take_sequence(p, depth + 1, fresh) < 0)
            return -1;
        if (p->text == p->end)
            return wrong(p, "a '{' has no '}': write \\{ for the character itself");
        if (*p->text == '}') { /* the last one: nothing else is to be tried */
            glob->steps[split].b = split + 1;
            break;
        }
        jump = add(glob, STEP_JUMP, jump, 0);
        glob->steps[split].b = here(glob);
    } while (true);
    p->text++;
    while (jump != UINT32_MAX) {
        uint32_t before = glob->steps[jump].a;
        glob->steps[jump].a = here(glob);
        jump = before;
    }
    return 0;
}

static int take_sequence(struct parser *p, unsigned depth, bool fresh)
{
    while (!ends_here(p, depth)) {
        char c = *p->text;
        uint32_t character;
        if (p->glob->count > GLOB_SET_MAX)
            return wrong(p, "the patterns are too many or too long");
        if (c == '*') {
            fresh = take_stars(p, depth, fresh);
            continue;
        }
        if (c == '[' || c == '{') {
            if ((c == '[' ? take_set(p) : take_group(p, depth, fresh)) < 0)
                return -1;
        } else if (c == '?') {
            p->text++;
            add(p->glob, STEP_ANY, 0, 0);
        } else {
            take_character(p, &character);
            add(p->glob, STEP_CHARACTER, character, 0);
        }
        fresh = c == '/';
    }
    return 0;
}

/* ---- the whole ---- */

static bool has_step_up(const char *text)
{
    for (size_t length; *text; text += length + (text[length] == '/')) {
        length = strcspn(text, "/");
        if (length == 2 && !memcmp(text, "..", 2))
            return true;
    }
    return false;
}

/* Clients may name the workspace's folder, and the folder that they are in. */
static const char *strip(const char *text)
{
    if (!strncmp(text, "/workspace/", 11))
        text += 11;
    while (!strncmp(text, "./", 2))
        for (text += 2; *text == '/'; text++)
            ;
    return text;
}

static bool is_refused(const char *text)
{
    return *text == '/' || !strcmp(text, "~") || !strncmp(text, "~/", 2) || has_step_up(text);
}

int glob_add(struct glob *glob, const char *name, const char *text, struct error *err)
{
    struct parser p = { .glob = glob, .name = name, .err = err };
    if (strlen(text) > GLOB_PATTERN_MAX)
        return wrong(&p, "it is too long");
    text = strip(text);
    if (is_refused(text))
        return wrong(&p, "path traversal or absolute paths are not allowed in a pattern");
    p.text = text;
    p.end = text + strlen(text);
    bool whole_folder = p.end > text && p.end[-1] == '/' && (p.end - text < 2 || p.end[-2] != '\\');
    while (whole_folder && p.end > text && p.end[-1] == '/')
        p.end--;
    if (p.end == text)
        return wrong(&p, "it is empty");
    glob->starts = xreallocarray(glob->starts, glob->n_starts + 1, sizeof *glob->starts);
    glob->starts[glob->n_starts++] = here(glob);
    if (!memchr(text, '/', (size_t)(p.end - text)))
        add_folders(glob);
    if (take_sequence(&p, 0, true) < 0)
        return -1;
    if (whole_folder) {
        add(glob, STEP_CHARACTER, '/', 0);
        add_below(glob);
    }
    add(glob, STEP_END, 0, 0);
    return 0;
}

/* ---- for ripgrep ---- */

static bool is_plain(const char *text)
{
    return strpbrk(text, "[]{}\\?!#:\n") == NULL;
}

/* One level of alternatives, none of them empty, means the same to both. In --type-add a colon divides. */
static bool is_simple_choice(const char *text)
{
    const char *open = strchr(text, '{'), *close = strchr(text, '}');
    if (!open || !close || close < open || strpbrk(text, "[]\\?!#:/\n") || strchr(open + 1, '{') ||
        strchr(close + 1, '}'))
        return false;
    return open[1] != ',' && close[-1] != ',' && close - open > 1 && !strstr(text, ",,");
}

char *glob_for_names(const char *text)
{
    text = strip(text);
    if (is_simple_choice(text) && !strstr(text, "**"))
        return xstrdup(text);
    const char *slash = strrchr(text, '/'), *last = slash ? slash + 1 : text;
    return is_plain(text) && *last && !strstr(last, "**") ? xstrdup(last) : NULL;
}

char *glob_for_exclude(const char *text)
{
    text = strip(text);
    size_t length = strlen(text);
    if (!is_plain(text) || !length || *text == '/' || text[length - 1] == ' ') /* which it would not see */
        return NULL;
    const char *slash = strchr(text, '/');
    return xasprintf("!%s%s", slash && slash[1] ? "/" : "", text);
}
