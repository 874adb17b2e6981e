/* Where output is cut into events: joined again it is the same bytes, no character is split, every piece is
 * within its bounds. */
#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "lib/base/utf8.h"
#include "lib/store/events.h"
#include "tests/support/unit.h"

#include <check.h>

static void check_bounds(const char *data, size_t length, unsigned flags)
{
    size_t base64 = flags & EVENT_BINARY ? (length + 2) / 3 * 4 : 0;
    ck_assert_uint_ge(length, 1);
    ck_assert_uint_le(length, EVENT_DATA_MAX);
    size_t once = utf8_json_size(data, length) + base64, twice = utf8_json_size_twice(data, length) + base64;
    ck_assert_uint_le(once, EVENT_ENCODED_MAX);
    ck_assert_uint_le(once + twice, EVENT_ENCODED_BOTH_MAX);
    ck_assert_int_eq(!(flags & EVENT_BINARY), utf8_is_valid(data, length));
}

/* Cuts data that arrives in pieces of at most step bytes, as a keeper does. Returns how many events. */
static size_t cut_all(const char *data, size_t length, size_t step, size_t *ret_binary)
{
    size_t done = 0, arrived = 0, count = 0;
    *ret_binary = 0;
    while (done < length) {
        unsigned flags = 0;
        size_t more = length - arrived < step ? length - arrived : step;
        arrived += more;
        size_t cut = events_cut(data + done, arrived - done, arrived == length && more == 0, &flags);
        ck_assert_uint_le(cut, arrived - done);
        if (cut == 0) {
            ck_assert_uint_le(arrived - done, 3);
            continue;
        }
        check_bounds(data + done, cut, flags);
        done += cut;
        count++;
        *ret_binary += flags & EVENT_BINARY ? 1 : 0;
    }
    return count;
}

START_TEST(text_is_never_split_within_a_character)
{
    static const char *const alphabets[] = {
        "abc\n",   "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
        "\"\\\t\r"
    };
    for (size_t i = 0; i < N_ELEMENTS(alphabets); i++)
        for (size_t step = 1; step < 70000; step = step * 3 + 1) {
            struct buffer text = BUFFER_INIT;
            size_t binary;
            while (text.length < (step < 10 ? 20000 : 200000))
                buffer_append_text(&text, alphabets[i]);
            cut_all(text.data, text.length, step, &binary);
            ck_assert_uint_eq(binary, 0);
            buffer_free(&text);
        }
}
END_TEST

START_TEST(any_bytes_are_cut_within_bounds)
{
    static char data[300000];
    for (int round = 0; round < 30; round++) {
        size_t binary;
        id_random(data, sizeof data);
        if (round % 3 == 1) /* mostly text */
            for (size_t i = 0; i < sizeof data; i++)
                data[i] = data[i] == 0 ? (char)0xe2 : (char)('a' + (data[i] & 15));
        if (round % 3 == 2) /* mostly control characters and lead bytes */
            for (size_t i = 0; i < sizeof data; i++)
                data[i] = (char)(data[i] & 1 ? data[i] & 31 : data[i] | 0xf0);
        cut_all(data, sizeof data, 1 + (size_t)round * 977, &binary);
    }
}
END_TEST

START_TEST(what_inflates_is_cut_sooner)
{
    static char data[EVENT_DATA_MAX * 2];
    unsigned flags;
    memset(data, 'x', sizeof data);
    ck_assert_uint_eq(events_cut(data, sizeof data, false, &flags), EVENT_DATA_MAX);
    memset(data, 0, sizeof data);
    size_t nuls = events_cut(data, sizeof data, false, &flags);
    ck_assert_uint_le(nuls, EVENT_ENCODED_MAX / 6);
    ck_assert_uint_ge(nuls, EVENT_ENCODED_MAX / 6 - 4);
    ck_assert_uint_eq(flags, 0);
    memset(data, 0xff, sizeof data);
    size_t bytes = events_cut(data, sizeof data, false, &flags);
    ck_assert_uint_eq(flags, EVENT_BINARY);
    ck_assert_uint_ge(bytes, EVENT_ENCODED_MAX * 3 / 13 - 8);
}
END_TEST

START_TEST(an_incomplete_end_waits_unless_final)
{
    unsigned flags;
    ck_assert_uint_eq(events_cut("\xe2", 1, false, &flags), 0);
    ck_assert_uint_eq(events_cut("\xe2\x82", 2, false, &flags), 0);
    ck_assert_uint_eq(events_cut("\xe2\x82\xac", 3, false, &flags), 3);
    ck_assert_uint_eq(flags, 0);
    ck_assert_uint_eq(events_cut("ab\xf0\x9f\x98", 5, false, &flags), 2);
    ck_assert_uint_eq(flags, 0);
    ck_assert_uint_eq(events_cut("ab\xf0\x9f\x98", 5, true, &flags), 5);
    ck_assert_uint_eq(flags, EVENT_BINARY);
    ck_assert_uint_eq(events_cut("\xf0\x9f", 2, true, &flags), 2);
    ck_assert_uint_eq(flags, EVENT_BINARY);
    ck_assert_uint_eq(events_cut("", 0, false, &flags), 0);
    ck_assert_uint_eq(events_cut("\xff\xfe", 2, false, &flags), 2);
    ck_assert_uint_eq(flags, EVENT_BINARY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_cut");
    TCase *cases = tcase_create("cut");
    tcase_add_test(cases, text_is_never_split_within_a_character);
    tcase_add_test(cases, any_bytes_are_cut_within_bounds);
    tcase_add_test(cases, what_inflates_is_cut_sooner);
    tcase_add_test(cases, an_incomplete_end_waits_unless_final);
    tcase_set_timeout(cases, 120);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
