/* Changes on their way to be told: halves of renamings that meet or do not, files that are written on and on,
 * order, bounds, and the bytes that a change becomes. */
#include "lib/agent/watch/pending.h"
#include "lib/base/ids.h"
#include "lib/base/memory.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { USUAL = 1 << CHANGE_CREATE | 1 << CHANGE_MODIFY | 1 << CHANGE_REMOVE };
enum { NOW = 5000000 };
static struct pending *p;
static char text[4096];

static void set_up(void)
{
    p = pending_new(USUAL, "top");
}

static void tear_down(void)
{
    pending_free(p);
}

static void with_types(unsigned types)
{
    pending_free(p);
    p = pending_new(types, "top");
}

/* All that is due then, as letters: "+a -b(c) ~d !top:buffer". */
static const char *told(int64_t now_us)
{
    static const char letters[] = "??@+~-!.";
    const struct change *c;
    size_t at = 0;
    text[0] = '\0';
    while ((c = pending_next(p, now_us)) != NULL && at < sizeof text - 300) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%c%.*s", at ? " " : "", letters[c->type],
                               (int)c->length, c->path);
        if (c->flags & CHANGE_MOVED)
            at += (size_t)snprintf(text + at, sizeof text - at, "(%.*s)", (int)c->other_length, c->other);
        if (c->why)
            at += (size_t)snprintf(text + at, sizeof text - at, ":%s", change_why_name(c->why));
        pending_done(p, now_us);
    }
    return text;
}

static void add(enum change_type type, const char *path, int64_t now_us)
{
    pending_add(p, type, 0, path, now_us);
}

START_TEST(what_is_not_wanted_is_not_told)
{
    add(CHANGE_ACCESS, "a", NOW);
    add(CHANGE_CREATE, "a", NOW);
    add(CHANGE_UNKNOWN, "a", NOW);
    ck_assert_str_eq(told(NOW), "+a");
    ck_assert(pending_due(p) == INT64_MAX);
    with_types(1 << CHANGE_ACCESS);
    add(CHANGE_CREATE, "a", NOW);
    add(CHANGE_ACCESS, "a", NOW);
    pending_from(p, 0, "a", 1, NOW);
    pending_to(p, 0, "b", 1, false, NOW);
    ck_assert_str_eq(told(NOW), "@a");
}
END_TEST

START_TEST(halves_of_a_renaming_meet)
{
    pending_from(p, 0, "a", 7, NOW);
    add(CHANGE_CREATE, "x", NOW);
    ck_assert_str_eq(told(NOW), ""); /* nothing passes it */
    ck_assert(pending_due(p) == NOW + PENDING_PAIR_US);
    ck_assert(!pending_to(p, 0, "other", 8, false, NOW + 5));
    ck_assert(pending_to(p, 0, "b", 7, false, NOW + 10));
    ck_assert_str_eq(told(NOW + 10), "-a(b) +x +other +b(a)");
}
END_TEST

START_TEST(half_a_renaming_is_told_when_its_time_is_over)
{
    pending_from(p, 0, "a", 7, NOW);
    add(CHANGE_CREATE, "x", NOW);
    ck_assert_str_eq(told(NOW + PENDING_PAIR_US - 1), "");
    ck_assert_str_eq(told(NOW + PENDING_PAIR_US), "-a +x");
    ck_assert(!pending_to(p, 0, "b", 7, false, NOW + PENDING_PAIR_US + 1));
    ck_assert_str_eq(told(NOW + PENDING_PAIR_US + 1), "+b");
}
END_TEST

START_TEST(one_half_of_a_renaming_may_not_be_wanted)
{
    with_types(1 << CHANGE_CREATE);
    pending_from(p, 0, "a", 7, NOW);
    pending_to(p, 0, "b", 7, false, NOW);
    ck_assert_str_eq(told(NOW), "+b(a)");
    with_types(1 << CHANGE_REMOVE);
    pending_from(p, 0, "a", 7, NOW);
    pending_to(p, 0, "b", 7, false, NOW);
    ck_assert_str_eq(told(NOW), "-a(b)");
    with_types(1 << CHANGE_MODIFY); /* who saves by renaming has modified */
    pending_from(p, 0, "a", 7, NOW);
    pending_to(p, 0, "b", 7, false, NOW);
    pending_from(p, CHANGE_FOLDER, "c", 8, NOW);
    pending_to(p, CHANGE_FOLDER, "d", 8, false, NOW);
    ck_assert_str_eq(told(NOW), "~b(a)");
}
END_TEST

START_TEST(what_is_known_is_not_told_again)
{
    pending_from(p, 0, "a", 7, NOW);
    ck_assert(pending_to(p, 0, "b", 7, true, NOW));
    ck_assert_str_eq(told(NOW), "-a"); /* "-a(b)" would take the place of what is there */
}
END_TEST

START_TEST(a_file_that_is_written_on_and_on_is_told_now_and_then)
{
    add(CHANGE_MODIFY, "a", NOW);
    add(CHANGE_MODIFY, "a", NOW);
    ck_assert_str_eq(told(NOW), "~a"); /* the first one at once */
    for (int i = 1; i < 50; i++)
        add(CHANGE_MODIFY, "a", NOW + i * 1000);
    ck_assert_str_eq(told(NOW + 50000), "");
    ck_assert(pending_due(p) == NOW + PENDING_QUIET_US);
    add(CHANGE_CREATE, "b", NOW + 50000);
    ck_assert_str_eq(told(NOW + 50000), "+b");            /* others pass */
    ck_assert_str_eq(told(NOW + PENDING_QUIET_US), "~a"); /* and the last one comes */
    add(CHANGE_MODIFY, "a", NOW + 3 * PENDING_QUIET_US);
    ck_assert_str_eq(told(NOW + 3 * PENDING_QUIET_US), "~a");
}
END_TEST

START_TEST(what_else_happens_to_a_path_keeps_its_place)
{
    add(CHANGE_MODIFY, "a", NOW);
    ck_assert_str_eq(told(NOW), "~a");
    add(CHANGE_MODIFY, "a", NOW + 1);
    add(CHANGE_REMOVE, "a", NOW + 2);
    add(CHANGE_CREATE, "a", NOW + 3);
    add(CHANGE_MODIFY, "a", NOW + 4);
    ck_assert_str_eq(told(NOW + 4), "~a -a +a ~a");
    add(CHANGE_MODIFY, "d/a", NOW + 5);
    ck_assert_str_eq(told(NOW + 5), "~d/a");
    add(CHANGE_MODIFY, "d/a", NOW + 6);
    pending_from(p, CHANGE_FOLDER, "d", 9, NOW + 7); /* the folder goes: first what was in it */
    pending_to(p, CHANGE_FOLDER, "e", 9, false, NOW + 8);
    ck_assert_str_eq(told(NOW + 8), "~d/a -d(e) +e(d)");
}
END_TEST

START_TEST(too_much_becomes_one_overflow)
{
    char path[32];
    for (int i = 0; i <= PENDING_MOST; i++) {
        snprintf(path, sizeof path, "f%d", i);
        add(CHANGE_CREATE, path, NOW);
    }
    add(CHANGE_CREATE, "after", NOW);
    ck_assert_str_eq(told(NOW), "!top:buffer +after");
    char *large = xcalloc(4000, 1);
    memset(large, 'x', 3999);
    for (int i = 0; i < 300; i++)
        add(CHANGE_CREATE, large, NOW);
    ck_assert(!strncmp(told(NOW), "!top:buffer", 11));
    free(large);
}
END_TEST

START_TEST(an_overflow_is_told_once)
{
    pending_tell(p, CHANGE_OVERFLOW, WHY_QUEUE, "top", NOW);
    pending_tell(p, CHANGE_OVERFLOW, WHY_QUEUE, "top", NOW);
    pending_tell(p, CHANGE_OVERFLOW, WHY_WATCHES, "top/a", NOW);
    pending_tell(p, CHANGE_END, WHY_REMOVED, "top", NOW);
    ck_assert_str_eq(told(NOW), "!top:queue !top/a:watches .top:watched_path_removed");
}
END_TEST

enum { PATHS = 6 };

/* Takes all that is due out of the row, and what came of each path down. */
static void take_due(int64_t now_us, unsigned came[PATHS][CHANGE_REMOVE + 1], char last[PATHS])
{
    for (const struct change *c; (c = pending_next(p, now_us)) != NULL; pending_done(p, now_us)) {
        int path = c->path[0] - 'a';
        ck_assert_int_le(c->type, CHANGE_REMOVE);
        ck_assert_msg(came[path][c->type]-- > 0, "%d of %c did not come", c->type, c->path[0]);
        last[path] = (char)c->type;
    }
}

/* Whatever comes in whatever order: nothing is told that did not come, each create and remove is told, and
 * what of them came last of a path is the last that is told. */
START_TEST(nothing_is_lost_in_any_order)
{
    enum { STEPS = 400 };
    with_types(USUAL | 1 << CHANGE_ACCESS);
    char last_in[PATHS] = { 0 }, last_out[PATHS] = { 0 };
    unsigned came[PATHS][CHANGE_REMOVE + 1] = { 0 };
    int64_t now = NOW;
    for (int i = 0; i < STEPS; i++) {
        unsigned char random[3];
        id_random(random, sizeof random);
        static const enum change_type types[] = { CHANGE_CREATE, CHANGE_MODIFY, CHANGE_REMOVE,
                                                  CHANGE_ACCESS };
        char path[2] = { (char)('a' + random[0] % PATHS), 0 };
        now += random[1] * 200;
        enum change_type type = types[random[2] % 4];
        add(type, path, now);
        last_in[random[0] % PATHS] = (char)type;
        came[random[0] % PATHS][type]++;
        if (random[2] % 3 == 0)
            take_due(now, came, last_out);
    }
    take_due(now + PENDING_QUIET_US, came, last_out);
    for (int i = 0; i < PATHS; i++) {
        if (last_in[i] == CHANGE_CREATE || last_in[i] == CHANGE_REMOVE)
            ck_assert_int_eq(last_in[i], last_out[i]);
        ck_assert_uint_eq(came[i][CHANGE_CREATE] + came[i][CHANGE_REMOVE], 0);
    }
    ck_assert(pending_due(p) == INT64_MAX);
}
END_TEST

/* ---- bytes ---- */

START_TEST(what_may_be_asked_for_is_found_by_its_name)
{
    enum change_type found;
    for (enum change_type type = CHANGE_UNKNOWN; type < CHANGE_OVERFLOW; type++)
        ck_assert_msg(change_type_find(change_type_names[type], &found) && found == type, "%d", type);
    ck_assert(change_type_find("Create", &found) && found == CHANGE_CREATE);
    ck_assert(!change_type_find("overflow", &found) && !change_type_find("creat", &found) &&
              !change_type_find("creates", &found) && !change_type_find("", &found));
    ck_assert_ptr_null(change_type_names[CHANGE_END]); /* where a row's choices end */
}
END_TEST

START_TEST(a_change_comes_out_as_it_went_in)
{
    const struct change in = { .type = CHANGE_REMOVE,
                               .flags = CHANGE_MOVED | CHANGE_FOLDER,
                               .path = "a/\xff",
                               .length = 3,
                               .other = "b",
                               .other_length = 1 };
    struct change out;
    _cleanup_buffer_ struct buffer bytes = BUFFER_INIT;
    change_encode(&in, &bytes);
    for (size_t i = 0; i < bytes.length; i++)
        ck_assert_int_eq(change_decode(bytes.data, i, &out, NULL), 0);
    ck_assert_int_eq(change_decode(bytes.data, bytes.length, &out, NULL), (long)bytes.length);
    ck_assert(out.type == in.type && out.flags == in.flags && out.length == 3 && out.other_length == 1);
    ck_assert(!memcmp(out.path, "a/\xff", 3) && out.other[0] == 'b');
}
END_TEST

START_TEST(paths_that_are_none_are_refused)
{
    static const struct {
        const char *path;
        size_t length;
    } bad[] = { { "", 0 },       { "/a", 2 },  { "a/", 2 },   { "a//b", 4 }, { "..", 2 },
                { "a/../b", 6 }, { "./a", 3 }, { "a\0b", 3 }, { "a/.", 3 } };
    struct change out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct change in = { .type = CHANGE_CREATE, .path = bad[i].path, .length = bad[i].length };
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT;
        change_encode(&in, &bytes);
        ck_assert_msg(change_decode(bytes.data, bytes.length, &out, NULL) == -1, "%s", bad[i].path);
    }
    static const char *const good[] = { ".", "a", "..a", ".git", "a/...", "a b" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct change in = { .type = CHANGE_CREATE, .path = good[i], .length = strlen(good[i]) };
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT;
        change_encode(&in, &bytes);
        ck_assert_msg(change_decode(bytes.data, bytes.length, &out, NULL) > 0, "%s", good[i]);
    }
    ck_assert_int_eq(change_decode("\x09\0\0\0\0\1\0\0a", 9, &out, NULL), -1);
    ck_assert_int_eq(change_decode("\3\0\0\0\xff\xff\0\0", 8, &out, NULL), -1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { what_is_not_wanted_is_not_told,
                                   halves_of_a_renaming_meet,
                                   half_a_renaming_is_told_when_its_time_is_over,
                                   one_half_of_a_renaming_may_not_be_wanted,
                                   what_is_known_is_not_told_again,
                                   a_file_that_is_written_on_and_on_is_told_now_and_then,
                                   what_else_happens_to_a_path_keeps_its_place,
                                   too_much_becomes_one_overflow,
                                   an_overflow_is_told_once,
                                   nothing_is_lost_in_any_order,
                                   what_may_be_asked_for_is_found_by_its_name,
                                   a_change_comes_out_as_it_went_in,
                                   paths_that_are_none_are_refused };
    return unit_run_tests("changes", tests, sizeof tests / sizeof *tests, set_up, tear_down, 20);
}
