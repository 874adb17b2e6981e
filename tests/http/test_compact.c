/* Condensed output through a real web server and a real sandbox: what is shown is what lib/text makes of the
 * bytes, what went wrong survives, and the raw bytes stay. */
#include "lib/text/condense.h"
#include "tests/support/bash_case.h"
#include "tests/support/recordings.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct recordings all;

static void check_raw(const json_t *result, const struct buffer *raw)
{
    struct exec_log log;
    bash_log(result, &log);
    ck_assert_uint_eq(log.out_length, raw->length);
    ck_assert_mem_eq(log.out, raw->data, raw->length);
    exec_log_clear(&log);
}

START_TEST(redraws_are_folded_and_the_raw_bytes_stay)
{
    static const char command[] =
        "for k in $(seq 1 200); do printf '\\r\\033[32m%3d%%\\033[0m' $((k / 2)); done; "
        "printf '\\r\\033[Kdone\\n'";
    struct exec_log log;
    json_auto_t *result = bash(command);
    char wanted[200];
    snprintf(wanted, sizeof wanted, "done\n[condensed: 1 lines -> 1; raw: read events of %s from cursor 0]\n",
             member_text(result, "exec_id"));
    ck_assert_str_eq(member_text(result, "stdout"), wanted);
    ck_assert(member_flag(result, "condensed"));
    bash_log(result, &log);
    ck_assert_uint_ge(log.out_length, 200 * 14);
    json_auto_t *plain = bash_with(make_json("{s:s, s:b}", "command", command, "compact", 0));
    ck_assert(!member_flag(plain, "condensed"));
    ck_assert_str_eq(member_text(plain, "stdout"), log.out);
    exec_log_clear(&log);
}
END_TEST

START_TEST(little_is_shown_as_it_is)
{
    json_auto_t *result = bash("printf 'ok 1\\nok 2\\nok 3\\n'");
    ck_assert_str_eq(member_text(result, "stdout"), "ok 1\nok 2\nok 3\n");
    ck_assert(!member_flag(result, "condensed"));
}
END_TEST

/* ---- recorded outputs ---- */

static const char *const names[] = {
    "pytest-click-v.pipe", "jest-fail.pipe", "make-libgit2.pipe",   "npm-install-http.pipe",
    "cargo-build.pipe",    "mvn-fail.pipe",  "git-clone.pty",       "apt-install.pipe",
    "find-usr.pipe",       "tqdm.pipe",      "rsync-progress.pipe", "gcc-warn.pipe",
};

static const struct recording *named(const char *name)
{
    for (size_t at = 0; at < all.count; at++)
        if (strcmp(all.rows[at].name, name) == 0)
            return &all.rows[at];
    ck_abort_msg("no recording %s", name);
}

static const char *const needles[] = {
    "error: out of reach, number ",
    "Traceback (most recent call last): ",
    "FAILED tests/test_x.py::test_wrong - assert False ",
    "please move the piano before noon, says ",
};

/* At the beginnings of lines. */
static void hide(struct buffer *raw, struct buffer hidden[static N_ELEMENTS(needles)], unsigned *seed)
{
    for (size_t k = 0; k < N_ELEMENTS(needles); k++) {
        size_t at = (size_t)rand_r(seed) % raw->length;
        struct buffer whole = BUFFER_INIT;
        while (at > 0 && raw->data[at - 1] != '\n')
            at--;
        buffer_printf(&hidden[k], "%s%d", needles[k], 10000 + rand_r(seed) % 90000);
        buffer_append(&whole, raw->data, at);
        buffer_append(&whole, hidden[k].data, hidden[k].length);
        buffer_append_char(&whole, '\n');
        buffer_append(&whole, raw->data + at, raw->length - at);
        buffer_free(raw);
        *raw = whole;
    }
}

START_TEST(what_is_shown_is_condensed_and_errors_survive)
{
    const struct recording *recording = named(names[_i]);
    _cleanup_buffer_ struct buffer raw = BUFFER_INIT;
    struct buffer hidden[N_ELEMENTS(needles)] = { 0 };
    unsigned seed = (unsigned)_i + 1;
    buffer_append(&raw, recording->raw.data, recording->raw.length);
    hide(&raw, hidden, &seed);
    bash_upload("output", raw.data, raw.length);
    json_auto_t *result = bash("cat output");
    const json_t *out = json_object_get(result, "stdout");
    const char *shown = json_string_value(out), *exec_id = member_text(result, "exec_id");
    size_t length = json_string_length(out);
    _cleanup_condensed_ struct condensed c = { 0 };
    _cleanup_free_ char *how = xasprintf("read events of %s from cursor 0", exec_id);
    condense(raw.data, raw.length, 0, how, &c);
    ck_assert_uint_le(length, raw.length);
    if (!c.unchanged && c.text.length <= 51200) {
        ck_assert(member_flag(result, "condensed"));
        ck_assert_uint_eq(length, c.text.length);
        ck_assert_mem_eq(shown, c.text.data, length);
    }
    for (size_t k = 0; k < N_ELEMENTS(needles); k++) {
        ck_assert_msg(memmem(shown, length, hidden[k].data, hidden[k].length) ||
                          member_flag(result, "stdout_truncated"),
                      "%s lost \"%s\"", names[_i], buffer_text(&hidden[k]));
        buffer_free(&hidden[k]);
    }
    check_raw(result, &raw);
    printf("%-24s %7zu -> %6zu bytes\n", names[_i], raw.length, length);
}
END_TEST

/* A log beyond what is looked at: both ends are condensed, and what lies between is counted. */
START_TEST(of_a_very_long_log_both_ends_are_condensed)
{
    unsigned long long bytes, lines;
    json_auto_t *result =
        bash("echo the first line; for k in $(seq 100000); do echo \"t/test_a.py::test_$k PASSED\"; "
             "done; echo 'E   the last one: assert 1 == 2'");
    const char *shown = member_text(result, "stdout"), *marker = strstr(shown, "\n... [");
    ck_assert(member_flag(result, "condensed") && member_flag(result, "stdout_truncated"));
    ck_assert_uint_lt(strlen(shown), 2000);
    ck_assert_int_eq(strncmp(shown, "the first line\n", 15), 0);
    ck_assert_ptr_nonnull(strstr(shown, "E   the last one: assert 1 == 2\n"));
    ck_assert_ptr_nonnull(marker);
    ck_assert_int_eq(sscanf(marker, "\n... [%llu bytes and %llu lines left out", &bytes, &lines), 2);
    ck_assert_uint_gt(bytes, 2000000);
    ck_assert_uint_gt(lines, 60000);
}
END_TEST

START_TEST(the_synchronous_exec_condenses_each_stream_when_asked)
{
    static const char command[] = "for k in $(seq 2000); do echo \"t/test_a.py::test_$k PASSED\"; "
                                  "echo \"epoch $k: saved\" >&2; done; echo 'E  wrong'; exit 1";
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    json_auto_t *plain = api(the, 200, "POST", path, make_json("{s:s}", "command", command));
    ck_assert(!member_flag(plain, "condensed"));
    json_auto_t *result =
        api(the, 200, "POST", path, make_json("{s:s, s:b}", "command", command, "compact", 1));
    ck_assert(member_flag(result, "condensed"));
    ck_assert_int_eq(member_number(result, "returncode"), 1);
    ck_assert_ptr_nonnull(strstr(member_text(result, "stdout"), "E  wrong\n"));
    ck_assert_ptr_nonnull(strstr(member_text(result, "stdout"), "passing-test lines"));
    ck_assert_ptr_nonnull(strstr(member_text(result, "stderr"), "similar lines"));
    ck_assert_uint_lt(strlen(member_text(result, "stdout")) + strlen(member_text(result, "stderr")), 1000);
}
END_TEST

/* A call that is over before its helper thread is, and many at once: the worker answers others meanwhile. */
START_TEST(long_work_holds_nobody_up)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    pid_t children[6];
    for (int k = 0; k < 6; k++) {
        children[k] = fork();
        if (children[k] == 0) {
            char bash_path[120];
            snprintf(bash_path, sizeof bash_path, "%s/bash", path);
            /* the slowest kind of output */
            struct http_options o = { .body =
                                          "{\"command\": \"python3 -c 'print(\\\"a\\\\n\\\" * 500000)'\"}",
                                      .timeout_ms = k < 3 ? 300 : 60000 };
            http_send(the, "POST", bash_path, &o);
            _exit(0);
        }
    }
    double worst = 0;
    for (int k = 0; k < 200; k++) {
        struct answer a = http_send(the, "GET", path, NULL);
        ck_assert_int_eq(a.status, 200);
        worst = a.ms > worst ? a.ms : worst;
        answer_clear(&a);
    }
    printf("beside long condensing the slowest of 200 answers took %.1f ms\n", worst);
    for (int k = 0; k < 6; k++)
        waitpid(children[k], NULL, 0);
    json_auto_t *result = bash("echo fine");
    ck_assert_str_eq(member_text(result, "stdout"), "fine\n");
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", NULL };
    recordings_load(&all);
    Suite *suite = suite_create("compact");
    TCase *c = tcase_create("compact");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_add_test(c, redraws_are_folded_and_the_raw_bytes_stay);
    tcase_add_test(c, little_is_shown_as_it_is);
    tcase_add_loop_test(c, what_is_shown_is_condensed_and_errors_survive, 0, N_ELEMENTS(names));
    tcase_add_test(c, of_a_very_long_log_both_ends_are_condensed);
    tcase_add_test(c, the_synchronous_exec_condenses_each_stream_when_asked);
    tcase_add_test(c, long_work_holds_nobody_up);
    suite_add_tcase(suite, c);
    int status = suite_main(suite, environment);
    recordings_free(&all);
    return status;
}
