/* ripgrep's answers in any pieces, and any bytes instead of them: what is taken does not depend on the
 * pieces, is bounded, and makes a page that holds its rules. */
#include "lib/agent/search/clip.h"
#include "lib/agent/search/hits.h"
#include "lib/agent/search/ripgrep.h"
#include "lib/base/utf8.h"
#include "tests/fuzz/input.h"

enum { SIZE_MOST = 20000 };

struct taking {
    struct hits *hits;
    struct buffer seen;
};

static void take(void *user, const struct ripgrep_message *m)
{
    struct taking *t = user;
    uint64_t from, size;
    holds(m->path.length <= RIPGREP_PATH_MAX && m->line.length <= RIPGREP_LINE_MAX &&
          m->match.length <= RIPGREP_MATCH_MAX);
    holds(m->line.length <= m->line_length && m->match.length <= m->match_length);
    buffer_printf(&t->seen, "%d %zu %llu %lld %lld %lld %lld %llu;", m->type, m->path.length,
                  (unsigned long long)m->line_length, (long long)m->line_number, (long long)m->start,
                  (long long)m->end, (long long)m->binary_offset, (unsigned long long)m->submatches);
    clip_choose(m->line_length, m->start < 0 ? 0 : (uint64_t)m->start, m->end < 0 ? 0 : (uint64_t)m->end,
                &from, &size);
    holds(size <= CLIP_BYTES && from <= m->line_length && size <= m->line_length - from);
    struct hit hit = {
        .line = m->line_number, .matched = m->type == RIPGREP_MATCH, .column = m->start + 1, .count = 1
    };
    if (from + size <= m->line.length) {
        hit.data = m->line.length ? m->line.data + from : "";
        hit.length = size;
        clip_to_characters(&hit.data, &hit.length, from > 0, from + size < m->line_length);
        holds(hit.length <= size);
    }
    if (m->type == RIPGREP_BEGIN && m->path.length > 0 && !memchr(m->path.data, 0, m->path.length))
        hits_begin(t->hits, m->path.data, m->path.length);
    else if (m->type == RIPGREP_END)
        hits_end(t->hits, m->binary_offset < 0);
    else if (hit.data)
        hits_add(t->hits, &hit);
}

static void check_page(struct hits *hits, const struct hits_rules *rules)
{
    const char *path;
    int64_t line, matches, counted = 0;
    const json_t *file, *row;
    size_t i, k;
    json_t *page = hits_page(hits, &path, &line, &matches);
    holds(matches <= (int64_t)rules->limit);
    json_array_foreach(page, i, file) {
        int64_t own = 0;
        json_array_foreach(json_object_get(file, "lines"), k, row)
            own += json_is_true(json_object_get(row, "matched"));
        holds(own > 0 && own == json_integer_value(json_object_get(file, "matches")) &&
              own <= (int64_t)rules->max_per_file);
        counted += own;
    }
    holds(counted == matches && (!path || matches > 0));
    json_decref(page);
}

static bool feed(const char *data, size_t length, size_t piece, const struct hits_rules *rules,
                 struct buffer *ret_seen)
{
    struct taking t = { .hits = hits_new(rules), .seen = BUFFER_INIT };
    struct ripgrep *reader = ripgrep_new(take, &t);
    bool good = true;
    for (size_t at = 0; at < length && good; at += piece)
        good = ripgrep_feed(reader, data + at, length - at < piece ? length - at : piece);
    holds(good || !ripgrep_feed(reader, "{}", 2));
    holds(good || !ripgrep_is_whole(reader));
    hits_end(t.hits, true);
    check_page(t.hits, rules);
    ripgrep_free(reader);
    hits_free(t.hits);
    *ret_seen = t.seen;
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data, size };
    if (size < 4 || size > SIZE_MOST)
        return 0;
    const struct hits_rules rules = { .limit = 1 + input_u8(&in) % 8,
                                      .max_per_file = 1 + input_u8(&in) % 4,
                                      .context = input_u8(&in) % 4,
                                      .room = 200 + 10 * (size_t)input_u8(&in),
                                      .at_path = "a",
                                      .at_line = 2 };
    struct buffer whole, pieces;
    size_t piece = 1 + (size_t)rules.room % 7;
    bool good = feed((const char *)in.at, in.left, in.left ? in.left : 1, &rules, &whole);
    holds(feed((const char *)in.at, in.left, piece, &rules, &pieces) == good);
    holds(whole.length == pieces.length &&
          (whole.length == 0 || !memcmp(whole.data, pieces.data, whole.length)));
    buffer_free(&whole);
    buffer_free(&pieces);
    return 0;
}
