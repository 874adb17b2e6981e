/* UTF-8 on hostile bytes, against a decoder written the slow way from RFC 3629, section 4. */
#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "lib/base/utf8.h"
#include "tests/support/unit.h"

#include <check.h>
#include <jansson.h>

/* Length of the character at p by decoding it; 0 where it is none. */
static size_t slow_character(const unsigned char *p, size_t length)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t size = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    if (size <= 1 || size > length)
        return size > length ? 0 : size;
    uint32_t point = p[0] & (0x7F >> size);
    for (size_t at = 1; at < size; at++) {
        if (p[at] >> 6 != 2)
            return 0;
        point = point << 6 | (p[at] & 0x3F);
    }
    bool wrong = point < least[size] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF);
    return wrong ? 0 : size;
}

static size_t slow_prefix(const char *data, size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t size = slow_character((const unsigned char *)data + at, length - at);
        if (size == 0)
            return at;
        at += size;
    }
    return at;
}

static size_t slow_count(const char *data, size_t length)
{
    size_t count = 0;
    for (size_t at = 0; at < length; count++) {
        size_t size = slow_character((const unsigned char *)data + at, length - at);
        at += size > 0 ? size : 1;
    }
    return count;
}

/* Whether more bytes could make the tail of data a character. */
static size_t slow_tail(const char *data, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char p[4] = { 0 };
        memcpy(p, data + length - back, back);
        if (slow_character(p, back) == back)
            return 0;
        for (uint32_t rest = 0; rest < 1u << 12; rest++) {
            unsigned char filled[4] = { p[0], p[1], p[2], p[3] };
            for (size_t at = back, shift = 0; at < 4; at++, shift += 6)
                filled[at] = (unsigned char)(0x80 | (rest >> shift & 0x3F));
            if (slow_character(filled, 4) > back)
                return back;
        }
    }
    return 0;
}

/* Bytes that make interesting sequences likely. */
static size_t random_text(char *out, size_t size)
{
    static const unsigned char likely[] = {
        'a',  '"',  '\\', '\n', 0,    0x1F, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
        0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4
    };
    unsigned char dice[256];
    id_random(dice, sizeof(dice));
    size_t length = dice[0] % size, plain = dice[1] % 2 == 0 ? 0 : dice[2] % 48;
    for (size_t at = 0; at < length; at++)
        out[at] = at < plain ? 'x' : (char)likely[dice[3 + at % 250] % N_ELEMENTS(likely)];
    return length;
}

START_TEST(agrees_with_decoder_on_random_bytes)
{
    for (int round = 0; round < 20000; round++) {
        char text[128];
        size_t length = random_text(text, sizeof(text));
        ck_assert_uint_eq(utf8_valid_prefix(text, length), slow_prefix(text, length));
        ck_assert_uint_eq(utf8_count(text, length), slow_count(text, length));
    }
}
END_TEST

START_TEST(agrees_with_decoder_on_every_short_sequence)
{
    for (uint32_t bits = 0; bits < 1u << 24; bits++) {
        char text[4] = { (char)(bits >> 16), (char)(bits >> 8), (char)bits, (char)0x80 };
        if (bits >> 16 < 0xC0 && (bits & 0xFFFF) != 0)
            continue;
        if (utf8_valid_prefix(text, 4) != slow_prefix(text, 4))
            ck_abort_msg("differs at %06x", bits);
    }
}
END_TEST

/* Each character, and what its bytes are not without the last one. */
START_TEST(reads_every_character)
{
    for (uint32_t code = 0; code <= 0x10FFFF; code += code == 0xD7FF ? 0x801 : 1) {
        size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        static const unsigned char begins[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
        unsigned char text[4];
        uint32_t left = code, read = UINT32_MAX;
        for (size_t i = size - 1; i > 0; i--, left >>= 6)
            text[i] = (unsigned char)(0x80 | (left & 0x3F));
        text[0] = (unsigned char)(begins[size] | left);
        if (utf8_character((char *)text, size, &read) != size || read != code ||
            utf8_character((char *)text, size - 1, &read) != 0)
            ck_abort_msg("differs at %06x", code);
    }
}
END_TEST

START_TEST(stops_at_an_error_at_every_place)
{
    char text[100];
    for (size_t at = 0; at < sizeof(text); at++) {
        memset(text, 'a', sizeof(text));
        text[at] = (char)0xFF;
        ck_assert_uint_eq(utf8_valid_prefix(text, sizeof(text)), at);
        text[at] = '"';
        ck_assert_uint_eq(utf8_valid_prefix(text, sizeof(text)), sizeof(text));
        ck_assert_uint_eq(utf8_json_raw_prefix(text, sizeof(text)), at);
    }
}
END_TEST

START_TEST(finds_the_incomplete_tail)
{
    static const unsigned char leads[] = { 'a',  0x80, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE2,
                                           0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF };
    static const unsigned char seconds[] = { 'a', 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2, 0xE2 };
    for (size_t one = 0; one < N_ELEMENTS(leads); one++)
        for (size_t two = 0; two < N_ELEMENTS(seconds); two++)
            for (size_t three = 0; three < N_ELEMENTS(seconds); three++)
                for (size_t length = 1; length <= 5; length++) {
                    char text[5] = { 'x', (char)leads[one], (char)seconds[two], (char)seconds[three],
                                     (char)0x80 };
                    ck_assert_uint_eq(utf8_incomplete_tail(text, length), slow_tail(text, length));
                }
}
END_TEST

/* "twice" is what encoding the encoded text gives. */
START_TEST(sizes_are_those_of_the_text_made)
{
    for (int round = 0; round < 20000; round++) {
        char text[128];
        size_t length = random_text(text, sizeof(text));
        _cleanup_buffer_ struct buffer once = BUFFER_INIT, twice = BUFFER_INIT;
        buffer_append_json(&once, text, length);
        buffer_append_json(&twice, once.data, once.length);
        ck_assert_uint_eq(utf8_json_size(text, length), once.length);
        ck_assert_uint_eq(utf8_json_size_twice(text, length), twice.length);
    }
}
END_TEST

static void expect_json(const char *data, size_t length, const char *wanted)
{
    _cleanup_buffer_ struct buffer b = BUFFER_INIT;
    buffer_append_json(&b, data, length);
    ck_assert_str_eq(buffer_text(&b), wanted);
}
#define EXPECT_JSON(text, wanted) expect_json(text, sizeof(text) - 1, wanted)

START_TEST(json_escapes_what_it_must_and_no_more)
{
    EXPECT_JSON("plain /'<> \x7f \xc3\xa9 \xf0\x9f\x98\x80", "plain /'<> \x7f \xc3\xa9 \xf0\x9f\x98\x80");
    EXPECT_JSON("\"\\\b\f\n\r\t", "\\\"\\\\\\b\\f\\n\\r\\t");
    EXPECT_JSON("\0\x01\x1f", "\\u0000\\u0001\\u001f");
    EXPECT_JSON("", "");
    ck_assert_uint_eq(utf8_json_size("\0", 1), 6);
    ck_assert_uint_eq(utf8_json_size_twice("\0", 1), 7);
}
END_TEST

/* The examples of the Unicode standard, section 3.9, table 3-8 to 3-11. */
START_TEST(one_replacement_for_each_maximal_part)
{
#define R "\xEF\xBF\xBD"
    EXPECT_JSON("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A");
    EXPECT_JSON("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A");
    EXPECT_JSON("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B");
    EXPECT_JSON("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A");
    EXPECT_JSON("\xF0\x9F\x98", R);
}
END_TEST

START_TEST(json_text_is_read_back_by_a_parser)
{
    for (int round = 0; round < 2000; round++) {
        char text[128];
        size_t length = random_text(text, sizeof(text));
        _cleanup_buffer_ struct buffer b = BUFFER_INIT, lossy = BUFFER_INIT;
        buffer_append_char(&b, '"');
        buffer_append_json(&b, text, length);
        buffer_append_char(&b, '"');
        buffer_append_utf8(&lossy, text, length);
        json_auto_t *parsed = json_loadb(b.data, b.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        ck_assert_ptr_nonnull(parsed);
        ck_assert_uint_eq(json_string_length(parsed), lossy.length);
        if (lossy.length > 0)
            ck_assert_mem_eq(json_string_value(parsed), lossy.data, lossy.length);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *cases = tcase_create("utf8");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, agrees_with_decoder_on_random_bytes);
    tcase_add_test(cases, agrees_with_decoder_on_every_short_sequence);
    tcase_add_test(cases, reads_every_character);
    tcase_add_test(cases, stops_at_an_error_at_every_place);
    tcase_add_test(cases, finds_the_incomplete_tail);
    tcase_add_test(cases, sizes_are_those_of_the_text_made);
    tcase_add_test(cases, json_escapes_what_it_must_and_no_more);
    tcase_add_test(cases, one_replacement_for_each_maximal_part);
    tcase_add_test(cases, json_text_is_read_back_by_a_parser);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
