/* Buffers, errors, ids, clocks and processes. */
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/ids.h"
#include "lib/base/lines.h"
#include "lib/base/process.h"

#include "lib/base/steady.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/wait.h>
#include <time.h>

START_TEST(buffer_grows_and_drops)
{
    _cleanup_buffer_ struct buffer b = BUFFER_INIT;
    ck_assert_str_eq(buffer_text(&b), "");
    buffer_append(&b, NULL, 0);
    buffer_append_text(&b, "one ");
    buffer_append_u64(&b, UINT64_MAX);
    buffer_append_char(&b, ' ');
    buffer_append_i64(&b, INT64_MIN);
    buffer_printf(&b, " %0200d|%s", 7, "end");
    ck_assert_uint_eq(b.length, 4 + 20 + 1 + 20 + 1 + 200 + 4);
    ck_assert_mem_eq(b.data, "one 18446744073709551615 -9223372036854775808 0000", 50);
    buffer_consume(&b, b.length - 3);
    ck_assert_str_eq(buffer_text(&b), "end");
    buffer_consume(&b, 100);
    ck_assert_uint_eq(b.length, 0);
}
END_TEST

START_TEST(buffer_base64_is_that_of_rfc_4648)
{
    static const char *const wanted[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
    for (size_t length = 0; length < N_ELEMENTS(wanted); length++) {
        _cleanup_buffer_ struct buffer b = BUFFER_INIT;
        buffer_append_base64(&b, "foobar", length);
        ck_assert_str_eq(buffer_text(&b), wanted[length]);
    }
}
END_TEST

START_TEST(buffer_base64_of_random_bytes_decodes)
{
    for (size_t length = 0; length < 300; length++) {
        unsigned char data[300], back[300];
        size_t got;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT;
        id_random(data, length);
        buffer_append_base64(&b, data, length);
        int result = sodium_base642bin(back, sizeof(back), b.data, b.length, NULL, &got, NULL,
                                       sodium_base64_VARIANT_ORIGINAL);
        ck_assert_int_eq(result, 0);
        ck_assert_uint_eq(got, length);
        ck_assert(length == 0 || memcmp(data, back, length) == 0);
    }
}
END_TEST

START_TEST(error_has_a_row_for_each_code)
{
    for (int code = ERROR_INVALID; code < ERROR_CODE_COUNT; code++) {
        ck_assert_str_ne(error_type((enum error_code)code), "None");
        ck_assert_int_ge(error_status((enum error_code)code), 400);
        int rpc = error_rpc_code((enum error_code)code);
        ck_assert(rpc == -32602 || rpc == -32603 || rpc == error_status((enum error_code)code));
    }
    ck_assert_str_eq(error_type((enum error_code)9999), "InternalError");
}
END_TEST

START_TEST(error_texts)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    ck_assert_int_eq(error_set(&err, ERROR_INVALID, "bad %s", "thing"), -1);
    error_wrap(&err, "part %d", 2);
    ck_assert_str_eq(err.message, "part 2: bad thing");
    error_errno(&err, ERROR_DRIVER, ENOENT, "cannot %s", "open");
    ck_assert_str_eq(err.message, "cannot open: ENOENT (No such file or directory)");
    ck_assert_int_eq(err.code, ERROR_DRIVER);
    error_errno(&err, ERROR_DRIVER, ENOSPC, "cannot write");
    ck_assert_int_eq(err.code, ERROR_FULL);
    error_errno(&err, ERROR_DRIVER, EDQUOT, "cannot write");
    ck_assert_int_eq(err.code, ERROR_FULL);
    error_set(&err, ERROR_INVALID, "%s again", err.message);
    ck_assert_str_eq(err.message, "cannot write: the disk is full (EDQUOT) again");
    ck_assert_int_eq(error_set(NULL, ERROR_INVALID, "nobody listens"), -1);
    ck_assert_str_eq(error_errno_name(12345), "E?");
}
END_TEST

START_TEST(error_text_is_cut_between_characters)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    char text[2000];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'a', sizeof(text));
        for (size_t at = shift; at + 3 < sizeof(text); at += 3)
            memcpy(text + at, "\xE2\x82\xAC", 3);
        text[sizeof(text) - 1] = '\0';
        error_set(&err, ERROR_INVALID, "%s", text);
        ck_assert_uint_ge(strlen(err.message), sizeof(err.message) - 4);
        json_auto_t *json = error_to_json(&err);
        ck_assert_str_eq(json_string_value(json_object_get(json, "error")), err.message);
    }
    error_set(&err, ERROR_INVALID, "no \xFF text");
    json_auto_t *json = error_to_json(&err);
    ck_assert_str_eq(json_string_value(json_object_get(json, "error")), "no \xEF\xBF\xBD text");
    ck_assert_str_eq(json_string_value(json_object_get(json, "type")), "ValueError");
}
END_TEST

START_TEST(error_crosses_a_process)
{
    _cleanup_error_ struct error err = ERROR_INIT, back = ERROR_INIT;
    error_set(&err, ERROR_VALIDATION, "two problems");
    err.retry_after = 7;
    err.detail = json_pack("[{s:[s], s:s}]", "loc", "a", "msg", "b");
    json_auto_t *packed = error_pack(&err);
    error_unpack(&back, packed);
    ck_assert_int_eq(back.code, ERROR_VALIDATION);
    ck_assert_int_eq(back.retry_after, 7);
    ck_assert_str_eq(back.message, "two problems");
    ck_assert(json_equal(back.detail, err.detail));
    error_move(&err, &back);
    ck_assert_int_eq(back.code, ERROR_NONE);
    ck_assert_ptr_null(back.detail);
}
END_TEST

START_TEST(error_unpack_survives_strangers)
{
    static const char *const hostile[] = {
        "{}",
        "[]",
        "null",
        "{\"code\": 0, \"message\": \"m\"}",
        "{\"code\": -1, \"message\": \"m\"}",
        "{\"code\": 4294967297, \"message\": \"m\"}",
        "{\"code\": \"1\", \"message\": \"m\"}",
        "{\"code\": 1, \"message\": 1}",
        "{\"code\": 1}",
        "{\"code\": 1e300, \"message\": \"m\"}",
    };
    for (size_t at = 0; at < N_ELEMENTS(hostile); at++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        json_auto_t *json = json_loads(hostile[at], JSON_DECODE_ANY, NULL);
        error_unpack(&err, json);
        ck_assert_int_eq(err.code, ERROR_INTERNAL);
    }
    _cleanup_error_ struct error err = ERROR_INIT;
    error_unpack(&err, NULL);
    ck_assert_int_eq(err.code, ERROR_INTERNAL);
    json_auto_t *json =
        json_loads("{\"code\": 12, \"message\": \"%n%s\", \"retry_after\": 1e18, \"detail\": []}", 0, NULL);
    json_object_set_new(json, "retry_after", json_integer(INT64_MAX));
    error_unpack(&err, json);
    ck_assert_str_eq(err.message, "%n%s");
    ck_assert_int_eq(err.code, ERROR_TOO_MANY);
    ck_assert_int_eq(err.retry_after, 86400);
    ck_assert_ptr_null(err.detail);
}
END_TEST

START_TEST(ids_are_made_and_known)
{
    char id[ID_SIZE], other[ID_SIZE];
    id_make(ID_EXEC, id);
    id_make(ID_EXEC, other);
    ck_assert_uint_eq(strlen(id), ID_SIZE - 1);
    ck_assert_str_ne(id, other);
    ck_assert(id_is_valid(ID_EXEC, id));
    ck_assert(!id_is_valid(ID_WORKSPACE, id));
    ck_assert(!id_is_valid(ID_EXEC, NULL));
    ck_assert(!id_is_valid(ID_EXEC, ""));
    ck_assert(!id_is_valid(ID_EXEC, "ex-"));
    ck_assert(!id_is_valid(ID_EXEC, "ex-0123456789ABCDEF0123456789abcdef"));
    ck_assert(!id_is_valid(ID_EXEC, "ex-0123456789abcdef0123456789abcde"));
    ck_assert(!id_is_valid(ID_EXEC, "ex-0123456789abcdef0123456789abcdef0"));
    ck_assert(!id_is_valid(ID_EXEC, "ex-../../../../../../../../etc/pass"));
    ck_assert(id_is_valid(ID_SANDBOX, "sb-0123456789abcdef0123456789abcdef"));
    char digits[201];
    id_random_hex(digits, 200);
    ck_assert_uint_eq(strspn(digits, "0123456789abcdef"), 200);
    ck_assert_mem_ne(digits, digits + 64, 64);
    id_random_hex(digits, 7);
    ck_assert_uint_eq(strlen(digits), 7);
}
END_TEST

START_TEST(ids_compare_and_hash)
{
    char hex[ID_HASH_SIZE];
    id_hash("abc", 3, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ck_assert(id_secret_equal("secret", "secret"));
    ck_assert(!id_secret_equal("secret", "secreT"));
    ck_assert(!id_secret_equal("secret", "secret "));
    ck_assert(!id_secret_equal("secret", ""));
    ck_assert(!id_secret_equal(NULL, NULL));
}
END_TEST

/* The C library is asked for the same days. */
START_TEST(clock_formats_as_the_library_does)
{
    for (int64_t second = 0; second < 253402300800; second += 86400 * 13 + 12345) {
        char text[CLOCK_TEXT_SIZE], wanted[64];
        time_t when = (time_t)second;
        struct tm parts;
        gmtime_r(&when, &parts);
        strftime(wanted, sizeof(wanted), "%Y-%m-%dT%H:%M:%S.000042+00:00", &parts);
        clock_format(second * 1000000 + 42, text);
        ck_assert_str_eq(text, wanted);
    }
    char text[CLOCK_TEXT_SIZE];
    clock_format(INT64_MIN, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00.000000+00:00");
    clock_format(INT64_MAX, text);
    ck_assert_str_eq(text, "9999-12-31T23:59:59.999999+00:00");
    char one[CLOCK_BOOT_ID_SIZE], two[CLOCK_BOOT_ID_SIZE];
    clock_boot_id(one);
    clock_boot_id(two);
    ck_assert_uint_eq(strlen(one), CLOCK_BOOT_ID_SIZE - 1);
    ck_assert_str_eq(one, two);
}
END_TEST

static pid_t start_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    ck_assert_int_gt(pid, 0);
    return pid;
}

START_TEST(process_is_held_by_identity)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct process_identity identity, back;
    pid_t pid = start_sleeper();
    ck_assert_int_eq(process_identify(pid, &identity, &err), 0);
    json_auto_t *json = process_identity_to_json(&identity);
    ck_assert_int_eq(process_identity_from_json(json, &back), 0);
    ck_assert(back.pid == identity.pid && back.start_time == identity.start_time);
    ck_assert_str_eq(back.boot_id, identity.boot_id);
    _cleanup_close_ int fd = process_open(&back);
    ck_assert_int_ge(fd, 0);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ck_assert_int_eq(process_pidfd_wait(fd, 10), 0);
    ck_assert_int_eq(process_pidfd_signal(fd, SIGKILL), 0);
    ck_assert_int_eq(process_pidfd_wait(fd, 5000), 1);
    waitpid(pid, NULL, 0);
    ck_assert_int_eq(process_open(&back), -1);
    ck_assert_int_eq(errno, ESRCH);
    ck_assert_int_eq(process_identify(pid, &identity, &err), -1);
}
END_TEST

START_TEST(process_is_not_taken_for_another)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct process_identity identity, other;
    ck_assert_int_eq(process_identify(getpid(), &identity, &err), 0);
    other = identity;
    other.start_time++;
    ck_assert_int_eq(process_open(&other), -1);
    ck_assert_int_eq(errno, ESRCH);
    other = identity;
    other.boot_id[0] = other.boot_id[0] == '0' ? '1' : '0';
    ck_assert_int_eq(process_open(&other), -1);
    ck_assert_int_eq(errno, ESRCH);
    other.pid = 0;
    ck_assert_int_eq(process_open(&other), -1);
    ck_assert_int_eq(errno, ESRCH);
    static const char *const hostile[] = { "{}", "[]", "{\"pid\": 0, \"start_time\": 1, \"boot_id\": \"\"}",
                                           "{\"pid\": 4294967297, \"start_time\": 1, \"boot_id\": \"\"}",
                                           "{\"pid\": 1, \"start_time\": 1, \"boot_id\": "
                                           "\"0123456789012345678901234567890123456789\"}" };
    for (size_t at = 0; at < N_ELEMENTS(hostile); at++) {
        json_auto_t *json = json_loads(hostile[at], 0, NULL);
        ck_assert_int_eq(process_identity_from_json(json, &other), -1);
    }
    ck_assert_int_eq(process_identity_from_json(NULL, &other), -1);
}
END_TEST

START_TEST(process_child_starts_clean)
{
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGTERM, SIG_IGN);
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction action;
        process_reset_signals();
        process_close_on_exec_from(3);
        sigaction(SIGTERM, NULL, &action);
        sigprocmask(SIG_SETMASK, NULL, &set);
        bool clean = action.sa_handler == SIG_DFL && sigisemptyset(&set);
        _exit(clean && fcntl(fds[0], F_GETFD) == FD_CLOEXEC && fcntl(2, F_GETFD) == 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(process_names_signals)
{
    ck_assert_str_eq(process_signal_name(SIGTERM), "TERM");
    ck_assert_ptr_null(process_signal_name(0));
    ck_assert_ptr_null(process_signal_name(12345));
    ck_assert_int_eq(process_signal_number("sigterm"), SIGTERM);
    ck_assert_int_eq(process_signal_number("Kill"), SIGKILL);
    ck_assert_int_eq(process_signal_number("SIG"), -1);
    ck_assert_int_eq(process_signal_number(""), -1);
    ck_assert_int_eq(process_signal_number(NULL), -1);
}
END_TEST

/* ---- ages ---- */
#define SECOND INT64_C(1000000)
#define DAY    (86400 * SECOND)

static int64_t at(struct steady *s, int64_t boot_s, int64_t wall_us, const char *boot_id)
{
    struct steady_moment now = { .boot_us = boot_s * SECOND, .wall_us = wall_us };
    snprintf(now.boot_id, sizeof now.boot_id, "%s", boot_id);
    return steady_take(s, &now);
}

START_TEST(a_jump_of_the_wall_clock_ages_nothing)
{
    struct steady s = { 0 };
    const int64_t wall = 1000 * DAY;
    ck_assert_int_eq(at(&s, 5000, wall, "a"), wall);
    ck_assert_int_eq(at(&s, 5060, wall + 61 * SECOND, "a"), wall + 61 * SECOND); /* put right a little */
    int64_t jumped = wall + 31 * DAY;
    ck_assert_int_lt(at(&s, 5120, jumped + 121 * SECOND, "a"), wall + 130 * SECOND);
    struct steady again; /* another process goes on with what it knew */
    json_auto_t *json = steady_to_json(&s);
    steady_from_json(&again, json);
    ck_assert_int_lt(at(&again, 8000, jumped + 3001 * SECOND, "a"), wall + 3010 * SECOND);
    /* and back: all is as if it had not been */
    struct steady back = again;
    ck_assert_int_eq(at(&back, 8060, wall + 3061 * SECOND, "a"), wall + 3061 * SECOND);
    /* after an hour there it is the time */
    ck_assert_int_eq(at(&again, 8800, jumped + 3801 * SECOND, "a"), jumped + 3801 * SECOND);
}
END_TEST

START_TEST(time_with_the_machine_off_counts_after_an_hour)
{
    struct steady s = { 0 };
    const int64_t wall = 1000 * DAY;
    at(&s, 90000, wall, "a");
    int64_t later = wall + 40 * DAY;
    ck_assert_int_lt(at(&s, 30, later, "b"), wall + 100 * SECOND);
    ck_assert_int_lt(at(&s, 3000, later + 2970 * SECOND, "b"), wall + 3100 * SECOND);
    ck_assert_int_lt(at(&s, 30, later + 6000 * SECOND, "c"), wall + 3200 * SECOND); /* the hour anew */
    ck_assert_int_eq(at(&s, 3700, later + 9670 * SECOND, "c"), later + 9670 * SECOND);
}
END_TEST

START_TEST(nonsense_about_clocks_is_forgotten)
{
    struct steady s;
    json_auto_t *odd = json_pack("{s:s}", "boot_us", "x");
    steady_from_json(&s, odd);
    ck_assert(!s.known);
    steady_from_json(&s, NULL);
    ck_assert(!s.known);
}
END_TEST

START_TEST(line_ends_are_counted)
{
    char data[6000] = { 0 };
    unsigned seed = 7;
    for (int round = 0; round < 3000; round++) {
        size_t length = (size_t)rand_r(&seed) % sizeof data, begin = (size_t)rand_r(&seed) % (length + 1);
        size_t wanted = 0;
        int kind = round % 3;
        for (size_t at = 0; at < length; at++)
            data[at] = kind == 0 ? '\n' : kind == 1 ? (char)rand_r(&seed) : (char)("\n\v\t\x8a"[at % 4]);
        for (size_t at = begin; at < length; at++)
            wanted += data[at] == '\n';
        ck_assert_uint_eq(lines_count(data + begin, length - begin), wanted);
    }
}
END_TEST

START_TEST(a_closed_file_is_closed_once)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), number = fd;
    ck_assert_int_ge(fd, 0);
    memory_close_fd(&fd);
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(other, number);
    memory_close_fd(&fd);
    ck_assert_int_ge(fcntl(other, F_GETFD), 0);
    close(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *cases = tcase_create("base");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, buffer_grows_and_drops);
    tcase_add_test(cases, buffer_base64_is_that_of_rfc_4648);
    tcase_add_test(cases, buffer_base64_of_random_bytes_decodes);
    tcase_add_test(cases, error_has_a_row_for_each_code);
    tcase_add_test(cases, error_texts);
    tcase_add_test(cases, error_text_is_cut_between_characters);
    tcase_add_test(cases, error_crosses_a_process);
    tcase_add_test(cases, error_unpack_survives_strangers);
    tcase_add_test(cases, ids_are_made_and_known);
    tcase_add_test(cases, ids_compare_and_hash);
    tcase_add_test(cases, line_ends_are_counted);
    tcase_add_test(cases, a_closed_file_is_closed_once);
    tcase_add_test(cases, clock_formats_as_the_library_does);
    tcase_add_test(cases, process_child_starts_clean);
    tcase_add_test(cases, process_names_signals);
    tcase_add_test(cases, a_jump_of_the_wall_clock_ages_nothing);
    tcase_add_test(cases, time_with_the_machine_off_counts_after_an_hour);
    tcase_add_test(cases, nonsense_about_clocks_is_forgotten);
    suite_add_tcase(suite, cases);
    const TTest *const held[] = { process_is_held_by_identity, process_is_not_taken_for_another };
    unit_add(suite, "pidfd", held, N_ELEMENTS(held), NULL, NULL, 60, "pidfd");
    return unit_run(suite);
}
