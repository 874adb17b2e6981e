/* What is shown of what was found: clipped lines, the order of paths, pages of hits. Nothing here opens a
 * file. */
#include "lib/agent/search/clip.h"
#include "lib/agent/search/firsts.h"
#include "lib/agent/search/hits.h"
#include "lib/agent/search/order.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

/* ---- first names ---- */

START_TEST(test_the_first_names_are_kept)
{
    struct firsts *firsts = firsts_new(3);
    _cleanup_buffer_ struct buffer names = BUFFER_INIT;
    for (int c = 'z'; c >= 'a'; c--)
        firsts_add(firsts, (char[]){ '.', '/', (char)c, c % 2 ? '\0' : '/', 'q', '\0' });
    ck_assert(firsts_take(firsts, &names));
    ck_assert_uint_eq(names.length, 14);
    ck_assert_int_eq(memcmp(names.data, "./a\0./b/q\0./c", 14), 0);
    firsts_add(firsts, "./b.");
    firsts_add(firsts, "./b/c");
    names.length = 0;
    ck_assert(!firsts_take(firsts, &names));
    ck_assert_uint_eq(names.length, 11);
    ck_assert_int_eq(memcmp(names.data, "./b/c\0./b.", 11), 0);
    firsts_free(firsts);
}
END_TEST

/* ---- clipped lines ---- */

static const struct {
    uint64_t length, start, end, from, size;
} clips[] = {
    { 0, 0, 0, 0, 0 },
    { 10, 2, 4, 0, 10 },
    { CLIP_BYTES, 0, 1, 0, CLIP_BYTES },
    { CLIP_BYTES + 1, 0, 1, 0, CLIP_BYTES },
    { 10000, 0, 0, 0, CLIP_BYTES },
    { 10000, 100, 110, 0, CLIP_BYTES },
    { 10000, 5000, 5010, 5000 - CLIP_BYTES / 3, CLIP_BYTES },
    { 10000, 9990, 10000, 10000 - CLIP_BYTES, CLIP_BYTES },
    { 10000, 5000, 5400, 4950, CLIP_BYTES },                 /* a match that fits is shown whole */
    { 10000, 5000, 5600, 5000, CLIP_BYTES },                 /* of one that does not, the beginning */
    { 10000, 20000, 30000, 10000 - CLIP_BYTES, CLIP_BYTES }, /* lies are harmless */
    { UINT64_MAX, UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - CLIP_BYTES, CLIP_BYTES },
};

START_TEST(test_lines_are_clipped_around_the_match)
{
    uint64_t from, size;
    clip_choose(clips[_i].length, clips[_i].start, clips[_i].end, &from, &size);
    ck_assert_uint_eq(from, clips[_i].from);
    ck_assert_uint_eq(size, clips[_i].size);
}
END_TEST

START_TEST(test_no_half_characters_are_shown)
{
    const char *data = "\xa9needle\xc3";
    size_t length = strlen(data);
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    clip_to_characters(&data, &length, true, true);
    clip_show(&text, data, length, 4, 0);
    ck_assert_str_eq(buffer_text(&text), "[... 4 bytes ...] needle");
    data = "\xa9needle\xc3";
    length = strlen(data);
    clip_to_characters(&data, &length, false, false);
    ck_assert_uint_eq(length, 8);
    text.length = 0;
    clip_show(&text, data, length, 0, 12);
    ck_assert_str_eq(buffer_text(&text), "\xef\xbf\xbdneedle\xef\xbf\xbd [... 12 bytes ...]");
}
END_TEST

/* ---- the order of paths ---- */

START_TEST(test_paths_are_ordered_folder_by_folder)
{
    static const char *const sorted[] = { "a",
                                          "a/b",
                                          "a/b/c",
                                          "a/c",
                                          "a\x01"
                                          "b",
                                          "a b/x",
                                          "a-b",
                                          "a.c",
                                          "a.d/x",
                                          "aa",
                                          "b",
                                          "\xff" };
    for (size_t i = 0; i < N_ELEMENTS(sorted); i++)
        for (size_t k = 0; k < N_ELEMENTS(sorted); k++) {
            int order = order_of_paths(sorted[i], sorted[k]);
            ck_assert_msg((order < 0) == (i < k) && (order > 0) == (i > k), "%s %s", sorted[i], sorted[k]);
        }
}
END_TEST

/* ---- hits ---- */

static void add_line(struct hits *hits, int64_t line, bool matched, const char *text)
{
    hits_add(hits, &(struct hit){ .line = line,
                                  .matched = matched,
                                  .column = matched,
                                  .count = matched,
                                  .data = text,
                                  .length = strlen(text) });
}

/* "path: 1- 2+ ..." where + is a match. */
static void add_file(struct hits *hits, const char *path, const char *lines)
{
    char *end;
    hits_begin(hits, path, strlen(path));
    for (const char *at = lines; *at; at = end + 1 + (end[1] == ' ')) {
        int64_t line = strtoll(at, &end, 10);
        add_line(hits, line, *end == '+', "text");
        if (!end[1])
            break;
    }
    hits_end(hits, true);
}

static void expect_page(struct hits *hits, const char *expected)
{
    const char *path, *name;
    int64_t line, matches;
    const json_t *file, *shown;
    size_t i, k;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    json_auto_t *page = hits_page(hits, &path, &line, &matches);
    json_array_foreach(page, i, file) {
        name = json_string_value(json_object_get(file, "path"));
        buffer_printf(&text, "%s%s:", i ? " " : "", name);
        json_array_foreach(json_object_get(file, "lines"), k, shown)
            buffer_printf(&text, " %lld%c", (long long)json_integer_value(json_object_get(shown, "line")),
                          json_is_true(json_object_get(shown, "matched")) ? '+' : '-');
        buffer_append_text(&text, json_is_true(json_object_get(file, "more")) ? " more" : "");
    }
    if (path)
        buffer_printf(&text, " -> %s:%lld", path, (long long)line);
    ck_assert_str_eq(buffer_text(&text), expected);
}

static const struct hits_case {
    struct hits_rules rules;
    const char *files[9]; /* path, lines */
    const char *page;
} pages[] = {
    { { .limit = 10, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ 5+ b: 1+" },
    { { .limit = 3, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ 5+ b: 1+" },
    { { .limit = 2, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ 5+ -> b:1" },
    { { .limit = 1, .max_per_file = 10, .room = 90000 }, { "b", "1+", "a", "3+ 5+" }, "a: 3+ -> a:5" },
    { { .limit = 9, .max_per_file = 2, .room = 90000 },
      { "a", "1+ 2+", "b", "1+ 2+ 3+" },
      "a: 1+ 2+ b: 1+ 2+ more" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .at_path = "a", .at_line = 5 },
      { "a", "3+ 5+ 7+", "b", "1+" },
      "a: 5+ 7+ b: 1+" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .at_path = "a", .at_line = INT64_MAX },
      { "a", "3+ 5+ 7+", "b", "1+" },
      "b: 1+" },
    /* the bound of a file counts from its beginning, whatever was on earlier pages */
    { { .limit = 9, .max_per_file = 2, .room = 90000, .at_path = "a", .at_line = 5 },
      { "a", "3+ 5+ 7+" },
      "a: 5+ more" },
    /* lines around */
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 1 },
      { "a", "4- 5+ 6- 9- 10+ 11-" },
      "a: 4- 5+ 6- 9- 10+ 11-" },
    { { .limit = 1, .max_per_file = 9, .room = 90000, .context = 1 },
      { "a", "4- 5+ 6- 9- 10+ 11-" },
      "a: 4- 5+ 6- -> a:10" },
    { { .limit = 9, .max_per_file = 1, .room = 90000, .context = 1 },
      { "a", "4- 5+ 6- 9- 10+ 11-" },
      "a: 4- 5+ 6- more" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 2, .at_path = "a", .at_line = 10 },
      { "a", "3- 4- 5+ 6- 7- 8- 9- 10+ 11- 12-" },
      "a: 8- 9- 10+ 11- 12-" },
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 3 },
      { "a", "1+ 2- 3+ 4-" },
      "a: 1+ 2- 3+ 4-" },
    /* a line that goes with nothing */
    { { .limit = 9, .max_per_file = 9, .room = 90000, .context = 1 },
      { "a", "1- 2- 3-", "b", "1+" },
      "b: 1+" },
    /* little room: one match at least, lines around it only where they fit */
    { { .limit = 9, .max_per_file = 9, .room = 1, .context = 1 }, { "a", "1- 2+ 3- 4+" }, "a: 2+ -> a:4" },
    { { .limit = 9, .max_per_file = 9, .room = 500 },
      { "b", "1+ 2+ 3+", "a", "1+" },
      "a: 1+ b: 1+ 2+ -> b:3" },
    { { .limit = 9, .max_per_file = 9, .room = 90000 }, { NULL }, "" },
};

START_TEST(test_pages_of_hits)
{
    const struct hits_case *c = &pages[_i];
    struct hits *hits = hits_new(&c->rules);
    for (int i = 0; c->files[i]; i += 2)
        add_file(hits, c->files[i], c->files[i + 1]);
    expect_page(hits, c->page);
    hits_free(hits);
}
END_TEST

/* What was found in many small steps is the same page. */
START_TEST(test_hits_of_several_runs_are_one_page)
{
    const struct hits_case *c = &pages[_i];
    struct hits *all = hits_new(&c->rules), *run = hits_new(&c->rules);
    for (int i = 0; c->files[i]; i += 2) {
        add_file(run, c->files[i], c->files[i + 1]);
        hits_move(run, all);
    }
    expect_page(all, c->page);
    hits_free(run);
    hits_free(all);
}
END_TEST

START_TEST(test_a_page_is_all_that_is_kept)
{
    const struct hits_rules rules = { .limit = 3, .max_per_file = 2, .room = 90000 };
    struct hits *hits = hits_new(&rules);
    char path[20];
    for (int i = 99999; i > 0; i--) {
        snprintf(path, sizeof path, "%05d", i);
        add_file(hits, path, "1+ 2+ 3+");
    }
    ck_assert(hits_is_full(hits));
    expect_page(hits, "00001: 1+ 2+ more 00002: 1+ more -> 00002:2");
    hits_free(hits);
}
END_TEST

START_TEST(test_a_page_that_is_just_full_is_not_over)
{
    const struct hits_rules rules = { .limit = 2, .max_per_file = 9, .room = 90000 };
    struct hits *hits = hits_new(&rules);
    add_file(hits, "a", "1+ 2+");
    ck_assert(!hits_is_full(hits));
    add_file(hits, "b", "1+");
    ck_assert(hits_is_full(hits));
    hits_begin(hits, "c", 1); /* one that never ends is forgotten */
    add_line(hits, 1, true, "x");
    hits_free(hits);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("search_pages");
    TCase *tests = tcase_create("pages");
    tcase_add_test(tests, test_the_first_names_are_kept);
    tcase_add_loop_test(tests, test_lines_are_clipped_around_the_match, 0, N_ELEMENTS(clips));
    tcase_add_test(tests, test_no_half_characters_are_shown);
    tcase_add_test(tests, test_paths_are_ordered_folder_by_folder);
    tcase_add_loop_test(tests, test_pages_of_hits, 0, N_ELEMENTS(pages));
    tcase_add_loop_test(tests, test_hits_of_several_runs_are_one_page, 0, N_ELEMENTS(pages));
    tcase_add_test(tests, test_a_page_is_all_that_is_kept);
    tcase_add_test(tests, test_a_page_that_is_just_full_is_not_over);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
