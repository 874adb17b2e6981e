/* Values of logs as they lie on the disk: older versions are read, and damaged or senseless ones are refused.
 */
#include "lib/store/crc32c.h"
#include "lib/store/events_internal.h"
#include "tests/support/logs.h"
#include "tests/support/logs_case.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>

/* ---- logs of version 1 ---- */
static void seal_as_version_1(const struct exec_head *head, unsigned char value[static DISK_HEAD_SIZE])
{
    format_head(head, value);
    value[4] = 1;
    value[6] &= 0x7f; /* no `counted` then */
    format_seal(value, DISK_HEAD_SIZE_1);
}

/* What is counted since is not made up for an exec that was begun before. */
START_TEST(heads_of_version_2_are_read)
{
    unsigned char value[DISK_HEAD_SIZE];
    struct exec_head head = { .stream = 7,
                              .first_seq = 1,
                              .last_seq = 3,
                              .stream_bytes = { 12, 13 },
                              .counted = true },
                     read;
    id_make(ID_EXEC, head.id);
    format_head(&head, value);
    ck_assert_int_eq(parse_head(value, DISK_HEAD_SIZE_2, &read), -1); /* a version's length is its own */
    value[4] = 2;
    format_seal(value, DISK_HEAD_SIZE_2);
    ck_assert_int_eq(parse_head(value, DISK_HEAD_SIZE_2, &read), 0);
    ck_assert(read.counted && !read.counted_lines && read.stream_bytes[1] == 13);
    ck_assert_int_eq(parse_head(value, DISK_HEAD_SIZE_1, &read), -1);
    ck_assert_int_eq(parse_head(value, DISK_HEAD_SIZE_2 - 1, &read), -1);
}
END_TEST

START_TEST(logs_of_version_1_go_on)
{
    struct events_writer *w = logs_open_writer();
    unsigned char value[DISK_HEAD_SIZE];
    struct exec_head head, read;
    MDB_val found;
    struct disk_meta meta;
    struct events_key meta_key = key_kind(KEY_META);
    logs_add(w, &head);
    logs_write(w, &head, 5, 100);
    seal_as_version_1(&head, value);
    struct events_key key = key_stream(KEY_HEAD, head.stream);
    ck_assert_int_eq(events_begin(w, &logs_error), 0);
    ck_assert_int_eq(batch_put(w, &key, value, DISK_HEAD_SIZE_1, NULL, 0, &logs_error), 0);
    ck_assert_int_eq(batch_get(w, &meta_key, &found, &logs_error), 1);
    memcpy(&meta, found.mv_data, sizeof meta);
    meta.version = 1;
    format_seal(&meta, sizeof meta);
    ck_assert_int_eq(batch_put(w, &meta_key, &meta, sizeof meta, NULL, 0, &logs_error), 0);
    ck_assert_int_eq(events_commit(w, &logs_error), 0);
    events_writer_close(w);

    w = logs_open_writer();
    ck_assert_int_eq(events_get_exec(events_writer_reader(w), head.id, &read, &logs_error), 0);
    ck_assert(!read.counted && read.last_seq == 5 && read.total_bytes == 500);
    logs_write(w, &read, 5, 100);
    ck_assert_int_eq(events_verify(events_writer_reader(w), &logs_error), 0);
    ck_assert_int_eq(events_get_exec(events_writer_reader(w), head.id, &read, &logs_error), 0);
    ck_assert(!read.counted && read.last_seq == 10);
    /* What the older program would now misread, it refuses. */
    ck_assert_int_eq(events_begin(w, &logs_error), 0);
    ck_assert_int_eq(batch_get(w, &meta_key, &found, &logs_error), 1);
    memcpy(&meta, found.mv_data, sizeof meta);
    ck_assert_uint_eq(meta.version, EVENTS_VERSION);
    events_abort(w);
    events_writer_close(w);
}
END_TEST

/* ---- hostile values ---- */
START_TEST(damaged_values_are_refused)
{
    unsigned char value[EVENT_HEADER + 100], head_value[DISK_HEAD_SIZE];
    struct event event = { .type = EVENT_STDOUT,
                           .wall_us = 77,
                           .data = (const char *)value + EVENT_HEADER,
                           .length = 100 },
                 read;
    memset(value, 'v', sizeof value);
    format_event(&event, value);
    ck_assert_int_eq(parse_event(value, sizeof value, 9, &read), 0);
    ck_assert_int_eq(read.length, 100);
    ck_assert_int_eq(read.wall_us, 77);
    for (size_t size = 0; size < sizeof value; size++)
        ck_assert_int_eq(parse_event(value, size, 9, &read), -1);
    for (size_t bit = 0; bit < 8 * sizeof value; bit++) {
        value[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_int_eq(parse_event(value, sizeof value, 9, &read), -1);
        value[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    struct exec_head head = { .stream = 1, .state = EXEC_RUNNING, .first_seq = 1 }, parsed;
    id_make(ID_EXEC, head.id);
    format_head(&head, head_value);
    ck_assert_int_eq(parse_head(head_value, sizeof head_value, &parsed), 0);
    for (size_t size = 0; size < sizeof head_value; size++)
        ck_assert_int_eq(parse_head(head_value, size, &parsed), -1);
    seal_as_version_1(&head, head_value);
    ck_assert_int_eq(parse_head(head_value, DISK_HEAD_SIZE_1, &parsed), 0);
    ck_assert_int_eq(parse_head(head_value, sizeof head_value, &parsed), -1);
    format_head(&head, head_value);
    for (size_t bit = 0; bit < 8 * sizeof head_value; bit++) {
        head_value[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_int_eq(parse_head(head_value, sizeof head_value, &parsed), -1);
        head_value[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
END_TEST

/* A checksum that fits, over members that are none: whoever writes garbage may also compute a CRC. */
START_TEST(sealed_nonsense_is_refused)
{
    for (int i = 0; i < 20000; i++) {
        unsigned char value[DISK_HEAD_SIZE];
        struct exec_head head;
        struct event event;
        id_random(value, sizeof value);
        format_seal(value, sizeof value);
        if (parse_head(value, sizeof value, &head) == 0)
            ck_abort_msg("random bytes are no head");
        if (parse_event(value, sizeof value, 1, &event) == 0)
            ck_assert(event.type >= EVENT_STATUS && event.type < EVENT_TYPES);
        struct events_key_parts parts;
        unsigned char key[64];
        id_random(key, sizeof key);
        if (i % 2)
            memset(key, 0, 4);
        key[4] = (unsigned char)"mhnifxko"[i % 8];
        if (key_parse(key, (size_t)i % 64, &parts))
            ck_assert(parts.kind != 0 || parts.stream != 0);
    }
    ck_assert_int_eq(parse_head("", 0, &(struct exec_head){ 0 }), -1);
}
END_TEST

START_TEST(both_ways_to_a_checksum_agree)
{
    unsigned char data[1000];
    id_random(data, sizeof data);
    ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283u);
    ck_assert_uint_eq(crc32c_by_table(0, "123456789", 9), 0xe3069283u);
    for (size_t length = 0; length < sizeof data; length++) {
        size_t part = length / 3;
        ck_assert_uint_eq(crc32c(0, data, length), crc32c_by_table(0, data, length));
        ck_assert_uint_eq(crc32c(crc32c(0, data, part), data + part, length - part), crc32c(0, data, length));
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        heads_of_version_2_are_read, logs_of_version_1_go_on,       damaged_values_are_refused,
        sealed_nonsense_is_refused,  both_ways_to_a_checksum_agree,
    };
    return unit_run_tests("store_values", tests, N_ELEMENTS(tests), logs_set_up, logs_tear_down, 120);
}
