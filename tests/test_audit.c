/* The audit log: what a line shows, and that none is lost or torn, whoever writes beside it. */
#include "lib/base/audit.h"
#include "lib/schema/shown.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static char directory[80];

static void begin(int64_t bytes, int files)
{
    snprintf(directory, sizeof directory, "%s/audit", scratch);
    audit_init("test", AUDIT_ALL, directory, bytes, files);
}

static void write_line(int writer, int number)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    audit_begin(&line, "call");
    audit_number(&line, "writer", writer);
    audit_number(&line, "number", number);
    audit_text(&line, "text", "The quick brown fox jumps over the lazy dog, and over again.");
    audit_end(&line);
}

static char *path_of(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static long size_of(const char *name)
{
    struct stat status;
    return stat(path_of(name), &status) == 0 ? (long)status.st_size : -1;
}

/* Each line of a file is whole JSON; take sees it. */
typedef void taker(const json_t *line, void *user);
static size_t read_lines(const char *name, taker *take, void *user)
{
    FILE *file = fopen(path_of(name), "r");
    char *text = NULL;
    size_t size = 0, count = 0;
    ck_assert_ptr_nonnull(file);
    for (ssize_t length; (length = getline(&text, &size, file)) > 0; count++) {
        ck_assert_msg(text[length - 1] == '\n' && length <= AUDIT_LINE_MAX, "%s", text);
        json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(json_is_object(line), "a line is torn: %s", text);
        if (take)
            take(line, user);
        json_decref(line);
    }
    free(text);
    fclose(file);
    return count;
}

/* ---- what is shown ---- */

static void expect_shown(const char *text, size_t length, const char *wanted)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    audit_append_shown(&out, text, length);
    ck_assert_str_eq(buffer_text(&out), wanted);
}

START_TEST(values_are_shown_without_harm)
{
    expect_shown("a\"\\\n\t\x1b[31m", 10, "a\\\"\\\\\\n\\t\\u001b[31m");
    expect_shown("\x7f\xc2\x9b\xe2\x80\xa8\xe2\x80\xae", 9, "\\u007f\\u009b\\u2028\\u202e");
    expect_shown("\xff\xfe\xc3(", 4, "\\\\xff\\\\xfe\\\\xc3(");
    expect_shown("\x80'\x80", 3, "\\\\x80'\\\\x80");
    expect_shown("\xed\xa0\x80", 3, "\\\\xed\\\\xa0\\\\x80");
    expect_shown("\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80");
    expect_shown("a\0b", 3, "a\\u0000b");
}
END_TEST

START_TEST(what_is_secret_by_its_form_is_hidden)
{
    static const char *const shown[][2] = {
        { "git clone https://user:pa%40ss@host/x.git", "git clone https://***@host/x.git" },
        { "https://token@host", "https://***@host" },
        { "ssh://git@a@b/", "ssh://***@b/" },
        { "https://host/a@b", "https://host/a@b" },
        { "https://host?mail=a@b", "https://host?mail=a@b" },
        { "curl -H 'Authorization: Bearer abc.DEF-1' x", "curl -H 'Authorization: Bearer ***' x" },
        { "bEARER  x", "bEARER  ***" },
        { "Bearer\tx1", "Bearer\\t***" },
        { "Bearer \"x\" y", "Bearer \\\"***\\\" y" },
        { "bearer:x", "bearer:***" },
        { "Bearer%20x&y", "Bearer%20***&y" },
        { "Bearer+x", "Bearer+***" },
        { "Bearer a1,b2", "Bearer ***" },
        { "Bearer $TOKEN", "Bearer $TOKEN" },
        { "curl -H \"Authorization: Basic x\" y", "curl -H \\\"Authorization: Basic ***\\\" y" },
        { "Authorization:Bearer%20x", "Authorization:Bearer%20***" },
        { "Authorization%3A%20Digest%20x", "Authorization%3A%20Digest%20***" },
        { "authorization: x y", "authorization: x ***" },
        { "'Authorization: x' y", "'Authorization: ***' y" },
        { "{\"Authorization\": \"token ghp_1\"}", "{\\\"Authorization\\\": \\\"token ***\\\"}" },
        { "no authorization for it", "no authorization for it" },
        { "Basic dXNlcjpwYXNz", "Basic ***" },
        { "a basic thing", "a basic thing" },
        { "https://h/?token=x&a=b", "https://h/?token=***&a=b" },
        { "'h?a=b&access_token=x#y'", "'h?a=b&access_token=***#y'" },
        { "h?api-KEY=x h?PassWord=x", "h?api-KEY=*** h?PassWord=***" },
        { "h?monkey=x sort --key=2", "h?monkey=x sort --key=2" },
        { "https://a b:secret@h", "https://***@h" },
        { "HTTPS://user:p\"secret@h", "HTTPS://***@h" },
        { "https://user:p/secret@h/", "https://***@h/" },
        { "https://user:p1/2?3#4@h/a@b", "https://***@h/a@b" },
        { "https://h:8080/a@b", "https://h:8080/a@b" },
        { "https://[::1]/a@b", "https://[::1]/a@b" },
        { "see https://host and a@b", "see https://host and a@b" },
        { "a bearer token is required", "a bearer token is required" },
        { "bearer X", "bearer ***" },
        { "Bearer s3cret", "Bearer ***" },
        { "Bearer abcdefghijklmnop", "Bearer ***" },
        { "Bearer abc..", "Bearer ***" },
        { "the bearer token is not valid", "the bearer token is not valid" },
        { "send a bearer token.", "send a bearer token." },
        { "a@b ://", "a@b ://" },
    };
    for (size_t i = 0; i < N_ELEMENTS(shown); i++)
        expect_shown(shown[i][0], strlen(shown[i][0]), shown[i][1]);
}
END_TEST

START_TEST(long_values_are_cut_and_counted)
{
    char text[1000], wanted[1000];
    memset(text, 'a', sizeof text);
    snprintf(wanted, sizeof wanted, "%.200s\xe2\x80\xa6(1000 chars total)", text);
    expect_shown(text, sizeof text, wanted);
    expect_shown(
        text, 200,
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "a");
    /* A password that the cut would show the beginning of. */
    memcpy(text + 180, "https://user:password", 21);
    text[700] = '@';
    snprintf(wanted, sizeof wanted, "%.180shttps://***@", text);
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    audit_append_shown(&out, text, sizeof text);
    ck_assert_msg(strncmp(buffer_text(&out), wanted, strlen(wanted)) == 0, "%s", buffer_text(&out));
    ck_assert_ptr_null(strstr(buffer_text(&out), "password"));
}
END_TEST

/* Whatever comes, it is the inside of a JSON string, one line, short, and shows no control. */
START_TEST(any_bytes_are_shown_as_text)
{
    static const char *const parts[] = {
        "://", "@", "Bearer ",          "\"", "\\", "\xff", "\xc2", "\x80", "\xe2\x80\xae", "\n", "a",
        " ",   "/", "\xf0\x9f\x98\x80", "\0"
    };
    unsigned seed = 7;
    for (int round = 0; round < 3000; round++) {
        _cleanup_buffer_ struct buffer text = BUFFER_INIT, out = BUFFER_INIT;
        for (int k = rand_r(&seed) % 300; k >= 0; k--) {
            const char *part = parts[(unsigned)rand_r(&seed) % N_ELEMENTS(parts)];
            buffer_append(&text, part, *part ? strlen(part) : 1);
        }
        buffer_append_char(&out, '"');
        audit_append_shown(&out, text.data, text.length);
        buffer_append_char(&out, '"');
        json_auto_t *value = json_loads(buffer_text(&out), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        ck_assert_msg(json_is_string(value), "%s", buffer_text(&out));
        ck_assert_uint_lt(out.length, 6 * AUDIT_TEXT_MAX + 40);
        bool plain = true;
        for (size_t i = 0; i < out.length; i++)
            plain = plain && (out.data[i] < 0 || (out.data[i] >= ' ' && out.data[i] != 0x7f));
        ck_assert(plain);
    }
}
END_TEST

static const struct field item_rows[] = {
    { "old", FIELD_STRING, .content = true },
    { "all", FIELD_BOOLEAN, .dflt = "false" },
    FIELD_END,
};
static const struct field value_row = { NULL, FIELD_STRING, .required = false };
static const struct field item_row = { NULL, FIELD_OBJECT, .members = item_rows };
static const struct field rows[] = {
    { "id", FIELD_STRING, .required = false },
    { "command", FIELD_STRING, .required = false },
    { "env", FIELD_OBJECT, .items = &value_row, .secret = true },
    { "key", FIELD_STRING, .secret = true },
    { "content", FIELD_STRING, .content = true },
    { "edits", FIELD_ARRAY, .items = &item_row },
    { "limit", FIELD_INTEGER, .dflt = "10" },
    FIELD_END,
};

static void expect_arguments(const char *given, const char *wanted)
{
    static const char *const without[] = { "id", NULL };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    json_auto_t *in = json_loads(given, 0, NULL);
    field_show(rows, without, in, 2000, &out);
    ck_assert_str_eq(buffer_text(&out), wanted);
}

START_TEST(arguments_are_shown_by_their_rows)
{
    expect_arguments("{}", "{}");
    expect_arguments("{\"id\": \"x\", \"command\": \"ls\", \"limit\": 10}", "{\"command\":\"ls\"}");
    expect_arguments("{\"limit\": 11, \"command\": null}", "{\"limit\":11}");
    expect_arguments("{\"env\": {\"A\": \"hunter2\", \"B\": null}, \"key\": \"hunter2\"}",
                     "{\"env\":{\"A\":\"(secret)\",\"B\":\"(secret)\"},\"key\":\"(secret)\"}");
    expect_arguments("{\"content\": \"hunter2\", \"edits\": [{\"old\": \"hunter2\", \"all\": true}]}",
                     "{\"content\":\"(7 bytes)\",\"edits\":[{\"old\":\"(7 bytes)\",\"all\":true}]}");
    /* What the rows refuse is no way around them. */
    expect_arguments("{\"key\": [\"hunter2\"], \"content\": {\"a\": \"hunter2\"}, \"env\": \"hunter2\"}",
                     "{\"env\":\"(secret)\",\"key\":\"(secret)\",\"content\":\"(object of 1)\"}");
    expect_arguments("{\"edits\": \"hunter2\"}", "{\"edits\":\"(string, 7 bytes)\"}");
    expect_arguments("{\"edits\": {\"hunter2\": 1}}", "{\"edits\":\"(object of 1)\"}");
    expect_arguments("{\"edits\": [\"hunter2\", {\"old\": [\"hunter2\", 1]}, null, true, 5]}",
                     "{\"edits\":[\"(string, 7 bytes)\",{\"old\":\"(array of 2)\"},null,\"(boolean)\","
                     "\"(number)\"]}");
    expect_arguments("{\"env\": {\"A\": [\"hunter2\"], \"B\": {\"hunter2\": 1}}, \"content\": 5}",
                     "{\"env\":{\"A\":\"(secret)\",\"B\":\"(secret)\"},\"content\":\"(content)\"}");
    expect_arguments("{\"hunter2\": \"hunter2\", \"command\": 5}", "{\"command\":5,\"...\":1}");
    expect_arguments("{\"command\": \"a\\\"b\\nc\"}", "{\"command\":\"a\\\"b\\nc\"}");
}
END_TEST

START_TEST(arguments_have_their_room)
{
    json_auto_t *in = json_object(), *edits = json_array(), *env = json_object();
    char name[300];
    for (int i = 0; i < 10000; i++)
        json_array_append_new(edits, json_pack("{s:s}", "old", "x"));
    for (int i = 0; i < 300; i++) {
        memset(name, '\1', sizeof name);
        snprintf(name, sizeof name, "%d", i);
        name[strlen(name)] = '\2';
        name[sizeof name - 1] = '\0';
        json_object_set_new(env, name, json_string("y"));
    }
    json_object_set(in, "edits", edits);
    json_object_set(in, "env", env);
    json_object_set(in, "command", json_object_get(in, "edits"));
    for (size_t room = 256; room < 4000; room += 7) {
        _cleanup_buffer_ struct buffer out = BUFFER_INIT;
        field_show(rows, NULL, in, room, &out);
        ck_assert_msg(out.length <= room + 2, "%zu of %zu", out.length, room);
        json_auto_t *value = json_loads(buffer_text(&out), JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(json_is_object(value), "%s", buffer_text(&out));
    }
}
END_TEST

/* ---- the file ---- */

START_TEST(a_line_says_when_who_and_what)
{
    begin(1 << 20, 2);
    mode_t before = umask(0);
    write_line(1, 2);
    umask(before);
    struct stat status;
    ck_assert_int_eq(stat(path_of("audit.log"), &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0600);
    ck_assert_int_eq(stat(directory, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0700);
    ck_assert_uint_eq(read_lines("audit.log", NULL, NULL), 1);
    audit_init("test", AUDIT_OFF, directory, 1 << 20, 2);
    write_line(1, 3);
    ck_assert_uint_eq(read_lines("audit.log", NULL, NULL), 1);
}
END_TEST

START_TEST(a_line_is_bounded_whatever_comes)
{
    begin(1 << 20, 2);
    char text[5000];
    memset(text, '\1', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    audit_begin(&line, "call");
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "m%d", i);
        audit_text(&line, name, text);
    }
    audit_end(&line);
    ck_assert_uint_eq(read_lines("audit.log", NULL, NULL), 1);
}
END_TEST

#define WRITERS 6
#define LINES   1500
static void count(const json_t *line, void *user)
{
    unsigned char *seen = user;
    long writer = (long)json_integer_value(json_object_get(line, "writer"));
    long number = (long)json_integer_value(json_object_get(line, "number"));
    ck_assert(writer >= 0 && writer < WRITERS && number >= 0 && number < LINES);
    ck_assert_msg(seen[writer * LINES + number]++ == 0, "%ld of %ld stands twice", number, writer);
}

static void write_many(int writer)
{
    for (int i = 0; i < LINES; i++)
        write_line(writer, i);
}

/* Somebody holds the lock all the time, off and on: lines are appended beside who sets aside. */
static void hold_lock(void)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY);
    for (;;) {
        flock(fd, LOCK_EX);
        usleep(15000);
        flock(fd, LOCK_UN);
        usleep(1000);
    }
}

static void all_rotate(bool is_held)
{
    static unsigned char seen[WRITERS * LINES];
    char name[32];
    memset(seen, 0, sizeof seen);
    begin(20000, 100);
    write_line(0, 0); /* children inherit what is open */
    pid_t holder = is_held ? fork() : -1;
    if (holder == 0)
        hold_lock();
    for (int writer = 0; writer < WRITERS; writer++) {
        if (fork() == 0) {
            for (int i = writer == 0; i < LINES; i++)
                write_line(writer, i);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    if (is_held) {
        kill(holder, SIGKILL);
        ck_assert_int_eq(waitpid(holder, NULL, 0), holder);
    }
    size_t lines = read_lines("audit.log", count, seen), files = 1;
    for (; snprintf(name, sizeof name, "audit.log.%zu", files), size_of(name) >= 0; files++) {
        /* who finds the lock taken for too long just appends */
        ck_assert(is_held || size_of(name) <= 200000);
        lines += read_lines(name, count, seen);
    }
    ck_assert_uint_gt(files, is_held ? 1 : 8);
    ck_assert_msg(lines == WRITERS * LINES, "%zu lines of %d", lines, WRITERS * LINES);
}

/* Every file is set aside a hundred lines after it was made, by whoever comes first. */
START_TEST(no_line_is_lost_or_torn_while_all_rotate)
{
    all_rotate(false);
}
END_TEST

START_TEST(nor_beside_who_appends_without_the_lock)
{
    all_rotate(true);
}
END_TEST

/* A process that was killed between the two steps of setting aside left a full file under the new one's name.
 */
START_TEST(a_rotation_that_broke_off_is_finished)
{
    begin(2000, 3);
    for (int i = 0; i < 5; i++)
        write_line(1, i);
    _cleanup_free_ char *old = xstrdup(path_of("audit.log"));
    ck_assert_int_eq(rename(old, path_of("audit.log.new")), 0);
    for (int i = 5; i < 25; i++)
        write_line(1, i);
    size_t lines = read_lines("audit.log", NULL, NULL);
    for (int i = 1; i <= 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "audit.log.%d", i);
        lines += size_of(name) >= 0 ? read_lines(name, NULL, NULL) : 0;
    }
    ck_assert_uint_eq(lines, 25);
    ck_assert_int_lt(size_of("audit.log.new"), 0);
}
END_TEST

START_TEST(only_so_many_files_are_kept)
{
    begin(5000, 3);
    write_many(0);
    ck_assert_int_gt(size_of("audit.log.3"), 0);
    ck_assert_int_lt(size_of("audit.log.4"), 0);
    begin(5000, 1);
    write_many(0);
    ck_assert_int_gt(size_of("audit.log.1"), 0);
    ck_assert_int_lt(size_of("audit.log.2"), 0);
    ck_assert_int_lt(size_of("audit.log.3"), 0);
    ck_assert_int_lt(size_of("audit.log.new"), 0);
}
END_TEST

static void note_loss(const json_t *line, void *user)
{
    const json_t *lines = json_object_get(line, "lines");
    if (lines)
        *(json_int_t *)user += json_integer_value(lines);
}

/* A limit of a file's size cuts a write short as a full disk does. */
START_TEST(a_full_disk_tears_no_line)
{
    struct rlimit before, tight = { 1000, RLIM_INFINITY };
    json_int_t lost = 0;
    begin(1 << 20, 2);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    tight.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    for (int i = 0; i < 20; i++)
        write_line(0, i);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    size_t kept = read_lines("audit.log", note_loss, &lost);
    ck_assert_uint_gt(kept, 2);
    ck_assert_uint_lt(kept, 20);
    write_line(0, 20);
    ck_assert_uint_eq(read_lines("audit.log", note_loss, &lost), kept + 2);
    ck_assert_int_eq(lost, 20 - (json_int_t)kept);
}
END_TEST

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

START_TEST(who_holds_the_lock_stops_nobody)
{
    begin(2000, 2);
    write_line(0, 0);
    int fd = open(directory, O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    double begun = now_ms();
    for (int i = 1; i < 100; i++)
        write_line(0, i);
    ck_assert_msg(now_ms() - begun < 400, "%.1f ms", now_ms() - begun);
    ck_assert_uint_eq(read_lines("audit.log", NULL, NULL), 100);
    close(fd);
    write_line(0, 100);
    ck_assert_uint_eq(read_lines("audit.log.1", NULL, NULL), 100);
    ck_assert_uint_eq(read_lines("audit.log", NULL, NULL), 1);
}
END_TEST

START_TEST(what_is_taken_away_is_made_again)
{
    begin(1 << 20, 2);
    write_line(0, 0);
    ck_assert_int_eq(unlink(path_of("audit.log")), 0);
    write_line(0, 1);
    ck_assert_uint_eq(read_lines("audit.log", NULL, NULL), 1);
    char other[100];
    snprintf(other, sizeof other, "%s/other", scratch);
    ck_assert_int_eq(rename(path_of("audit.log"), other), 0);
    write_line(0, 2);
    ck_assert_uint_eq(read_lines("audit.log", NULL, NULL), 1);
}
END_TEST

START_TEST(no_link_is_followed)
{
    begin(1 << 20, 2);
    write_line(0, 0);
    char other[100];
    snprintf(other, sizeof other, "%s/other", scratch);
    int fd = open(other, O_WRONLY | O_CREAT, 0600);
    close(fd);
    ck_assert_int_eq(unlink(path_of("audit.log")), 0);
    ck_assert_int_eq(symlink(other, path_of("audit.log")), 0);
    write_line(0, 1);
    ck_assert_int_eq(unlink(path_of("audit.log")), 0);
    ck_assert_int_eq(link(other, path_of("audit.log")), 0);
    write_line(0, 2);
    struct stat status;
    ck_assert_int_eq(stat(other, &status), 0);
    ck_assert_int_eq(status.st_size, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        values_are_shown_without_harm,
        what_is_secret_by_its_form_is_hidden,
        long_values_are_cut_and_counted,
        any_bytes_are_shown_as_text,
        arguments_are_shown_by_their_rows,
        arguments_have_their_room,
        a_line_says_when_who_and_what,
        a_line_is_bounded_whatever_comes,
        no_line_is_lost_or_torn_while_all_rotate,
        nor_beside_who_appends_without_the_lock,
        a_rotation_that_broke_off_is_finished,
        only_so_many_files_are_kept,
        a_full_disk_tears_no_line,
        who_holds_the_lock_stops_nobody,
        what_is_taken_away_is_made_again,
        no_link_is_followed,
    };
    return unit_run_tests("audit", tests, N_ELEMENTS(tests), scratch_make, scratch_remove, 60);
}
