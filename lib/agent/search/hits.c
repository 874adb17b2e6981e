/* Owns found lines until they are a page. Must not know: ripgrep, files. */
#include "lib/agent/search/hits.h"

#include "lib/agent/search/clip.h"
#include "lib/agent/search/names.h"
#include "lib/agent/search/order.h"
#include "lib/base/utf8.h"

#define FILE_COST    100 /* in the answer, without its path */
#define LINE_COST    90  /* without its text */
#define PRUNED_FILES 64  /* more than a page may have */
#define PRUNED_COST  (1u << 20)

struct kept {
    struct hit hit; /* data is in the file's text, from at on */
    size_t at, cost;
};
struct file {
    char *path;
    struct kept *lines;
    size_t count, capacity;
    size_t pending; /* of those, at the end: lines before a match that is still to come */
    size_t seen, matched, cost;
    int64_t last; /* line of the last match that is kept */
    struct buffer text;
    bool more;
};
struct hits {
    const struct hits_rules *rules;
    struct file *files;
    size_t count, capacity;
    size_t cost; /* of all */
    bool open;   /* the last one is being filled */
    bool sorted, dropped;
};

struct hits *hits_new(const struct hits_rules *rules)
{
    struct hits *hits = xcalloc(1, sizeof *hits);
    hits->rules = rules;
    return hits;
}

static void file_clear(struct file *file)
{
    free(file->path);
    free(file->lines);
    buffer_free(&file->text);
}

static void cut_to(struct hits *hits, size_t count)
{
    while (hits->count > count) {
        hits->cost -= hits->files[--hits->count].cost;
        file_clear(&hits->files[hits->count]);
    }
}

void hits_free(struct hits *hits)
{
    if (!hits)
        return;
    cut_to(hits, 0);
    free(hits->files);
    free(hits);
}

/* ---- order ---- */

static int compare(const void *a, const void *b)
{
    return order_of_paths(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static void sort(struct hits *hits)
{
    if (!hits->sorted && hits->count > 0)
        qsort(hits->files, hits->count, sizeof *hits->files, compare);
    hits->sorted = true;
}

/* How many files, from the first on, make more than a page; all of them where they make less. */
static size_t page_files(struct hits *hits)
{
    size_t matched = 0, cost = 0;
    sort(hits);
    for (size_t i = 0; i < hits->count; i++) {
        matched += hits->files[i].matched;
        cost += hits->files[i].cost;
        if (matched > hits->rules->limit || cost > hits->rules->room)
            return i + 1;
    }
    return hits->count + 1;
}

static void prune(struct hits *hits)
{
    size_t count = page_files(hits);
    if (count >= hits->count)
        return;
    cut_to(hits, count);
    hits->dropped = true;
}

bool hits_is_full(struct hits *hits)
{
    return hits->dropped || page_files(hits) <= hits->count;
}

static struct file *add_file(struct hits *hits)
{
    if (hits->count == hits->capacity) {
        hits->capacity = hits->capacity ? 2 * hits->capacity : 16;
        hits->files = xreallocarray(hits->files, hits->capacity, sizeof *hits->files);
    }
    hits->sorted = false;
    return &hits->files[hits->count++];
}

void hits_move(struct hits *from, struct hits *to)
{
    for (size_t i = 0; i < from->count; i++)
        *add_file(to) = from->files[i];
    to->cost += from->cost;
    to->dropped |= from->dropped;
    from->count = from->cost = 0;
    from->dropped = false;
    prune(to);
}

/* ---- filling ---- */

void hits_begin(struct hits *hits, const char *path, size_t length)
{
    hits_end(hits, false);
    struct file *file = add_file(hits);
    *file = (struct file){ .path = xstrndup(path, length) };
    file->cost = FILE_COST + 2 * utf8_json_size(path, length);
    hits->open = true;
}

static size_t cost_of(const struct hits *hits, const struct hit *hit)
{
    size_t size = utf8_json_size(hit->data, hit->length);
    size_t exact = utf8_is_valid(hit->data, hit->length) ? 0 : hit->length * 4 / 3 + 4;
    return hits->rules->twice ? 2 * size + exact + LINE_COST + LINE_COST / 2 : size + exact + LINE_COST;
}

static void keep_line(const struct hits *hits, struct file *file, const struct hit *hit)
{
    if (file->count == file->capacity) {
        file->capacity = file->capacity ? 2 * file->capacity : 8;
        file->lines = xreallocarray(file->lines, file->capacity, sizeof *file->lines);
    }
    struct kept *kept = &file->lines[file->count++];
    *kept = (struct kept){ *hit, file->text.length, cost_of(hits, hit) };
    buffer_append(&file->text, hit->data, hit->length);
    file->cost += kept->cost;
}

static void drop_pending(struct file *file)
{
    for (; file->pending > 0; file->pending--)
        file->cost -= file->lines[--file->count].cost;
}

/* Of the lines that wait only the last ones may be near a match. */
static void shift_pending(struct file *file)
{
    struct kept *first = &file->lines[file->count - file->pending];
    file->cost -= first->cost;
    memmove(first, first + 1, (file->pending - 1) * sizeof *first);
    file->pending--;
    file->count--;
}

static void add_context(const struct hits *hits, struct file *file, const struct hit *hit)
{
    int64_t context = hits->rules->context;
    bool follows = file->matched > 0 && hit->line - file->last <= context && file->pending == 0;
    keep_line(hits, file, hit);
    if (follows)
        return;
    if (++file->pending > (size_t)context)
        shift_pending(file);
}

static void add_match(const struct hits *hits, struct file *file, const struct hit *hit)
{
    const struct hits_rules *rules = hits->rules;
    if (file->seen == rules->max_per_file) {
        file->more = true;
        drop_pending(file);
        return;
    }
    file->seen++;
    if (hit->line < rules->at_line && rules->at_path && !strcmp(file->path, rules->at_path)) {
        drop_pending(file);
        return;
    }
    while (file->pending > 0 &&
           file->lines[file->count - file->pending].hit.line + rules->context < hit->line)
        shift_pending(file);
    file->pending = 0;
    file->matched++;
    file->last = hit->line;
    keep_line(hits, file, hit);
}

void hits_add(struct hits *hits, const struct hit *hit)
{
    struct file *file = hits->open ? &hits->files[hits->count - 1] : NULL;
    if (!file || file->more)
        return;
    if (file->matched > 1 && file->cost > hits->rules->room) /* no page takes all of what is here already */
        return;
    if (hit->matched)
        add_match(hits, file, hit);
    else
        add_context(hits, file, hit);
}

void hits_end(struct hits *hits, bool keep)
{
    if (!hits->open)
        return;
    struct file *file = &hits->files[hits->count - 1];
    hits->open = false;
    drop_pending(file);
    hits->cost += file->cost;
    if (!keep || file->matched == 0)
        cut_to(hits, hits->count - 1);
    else if (hits->count > 2 * hits->rules->limit + PRUNED_FILES ||
             hits->cost > 4 * hits->rules->room + PRUNED_COST)
        prune(hits);
}

/* ---- the page ---- */

static json_t *show_line(const struct file *file, const struct kept *kept)
{
    const char *data = file->text.length > 0 ? file->text.data + kept->at : "";
    const struct hit *hit = &kept->hit;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, exact = BUFFER_INIT;
    clip_show(&text, data, hit->length, hit->before, hit->after);
    json_t *line = json_pack("{s:I, s:b}", "line", (json_int_t)hit->line, "matched", hit->matched);
    if (hit->matched) {
        json_object_set_new(line, "column", json_integer(hit->column));
        json_object_set_new(line, "count", json_integer(hit->count));
    }
    json_object_set_new(line, "text", json_stringn(buffer_text(&text), text.length));
    if (hit->before || hit->after)
        json_object_set_new(line, "clipped", json_true());
    if (utf8_is_valid(data, hit->length))
        return line;
    buffer_append_base64(&exact, data, hit->length);
    json_object_set_new(line, "text_base64", json_string(buffer_text(&exact)));
    return line;
}

struct page {
    json_t *files;
    size_t used;
    int64_t matches;
    const char *next_path; /* NULL: it goes on */
    int64_t next_line;
};

/* Lines of the page that were to go before a match which is not in it. */
static void drop_tail(json_t *lines, int64_t last, int64_t context)
{
    while (json_array_size(lines) > 0) {
        size_t end = json_array_size(lines) - 1;
        const json_t *line = json_array_get(lines, end);
        if (json_is_true(json_object_get(line, "matched")) ||
            json_integer_value(json_object_get(line, "line")) <= last + context)
            return;
        json_array_remove(lines, end);
    }
}

static void show_file(const struct hits *hits, const struct file *file, struct page *page)
{
    const struct hits_rules *rules = hits->rules;
    json_t *lines = json_array();
    int64_t matches = 0, last = INT64_MIN / 2;
    size_t used = page->used + FILE_COST + 2 * utf8_json_size(file->path, strlen(file->path));
    for (size_t i = 0; i < file->count && !page->next_path; i++) {
        const struct kept *kept = &file->lines[i];
        used += kept->cost;
        bool is_first = page->matches == 0 && matches == 0;
        if (kept->hit.matched && !is_first &&
            (used > rules->room || page->matches + matches == (int64_t)rules->limit)) {
            page->next_path = file->path;
            page->next_line = kept->hit.line;
            break;
        }
        if (!kept->hit.matched && used > rules->room) {
            used -= kept->cost;
            continue;
        }
        json_array_append_new(lines, show_line(file, kept));
        matches += kept->hit.matched;
        last = kept->hit.matched ? kept->hit.line : last;
    }
    if (page->next_path)
        drop_tail(lines, last, rules->context);
    if (matches > 0) {
        json_t *shown =
            json_pack("{s:I, s:b, s:O}", "matches", (json_int_t)matches, "more", file->more, "lines", lines);
        names_put(shown, "path", file->path, strlen(file->path));
        json_array_append_new(page->files, shown);
    }
    json_decref(lines);
    page->matches += matches;
    page->used = used;
}

json_t *hits_page(struct hits *hits, const char **ret_next_path, int64_t *ret_next_line, int64_t *ret_matches)
{
    struct page page = { .files = json_array() };
    sort(hits);
    for (size_t i = 0; i < hits->count && !page.next_path; i++)
        show_file(hits, &hits->files[i], &page);
    *ret_next_path = page.next_path;
    *ret_next_line = page.next_line;
    *ret_matches = page.matches;
    return page.files;
}
