/* run_bash through a real web server and a real sandbox, as REST and as a tool: order, ends, timeouts,
 * handles, what is cut. */
#include "lib/base/buffer.h"
#include "lib/base/lines.h"
#include "tests/support/bash_case.h"

#include <stdio.h>
#include <string.h>

enum { VIEW = 51200 };

/* ---- ends and text ---- */

static const struct {
    const char *command, *out;
    long long returncode;
    const char *signal;
} ends[] = {
    { "true", "", 0, NULL },
    { "echo out; echo err >&2; echo out; exit 3", "out\nerr\nout\n", 3, NULL },
    { "for k in 1 2 3; do echo $k; echo e$k >&2; done", "1\ne1\n2\ne2\n3\ne3\n", 0, NULL },
    { "kill -9 $$", "", -9, "KILL" },
    { "kill -SEGV $$", "", -11, "SEGV" },
    { "pwd; echo \"$BASH_VERSION\" | grep -c .", "/workspace\n1\n", 0, NULL },
    { "cat; read -r x; echo \"$?\"", "1\n", 0, NULL }, /* there is no input */
    { "cat <<'EOF'\n$not `expanded` \\\nEOF", "$not `expanded` \\\n", 0, NULL },
    { "cat <<EOF | tr a-z A-Z\none\n$((1 + 1))\nEOF", "ONE\n2\n", 0, NULL },
    { "printf 'no newline'", "no newline", 0, NULL },
    { "no-such-command-here 2>/dev/null", "", 127, NULL },
};

START_TEST(ends_are_told_in_both_forms)
{
    json_auto_t *result = bash(ends[_i].command);
    ck_assert_str_eq(member_text(result, "stdout"), ends[_i].out);
    ck_assert_str_eq(member_text(result, "stderr"), "");
    ck_assert_int_eq(member_number(result, "returncode"), ends[_i].returncode);
    ck_assert_str_eq(member_text(result, "state"), "finished");
    ck_assert(json_is_null(json_object_get(result, "error")));

    json_auto_t *shown = tool_call_here("run_bash", make_json("{s:s}", "command", ends[_i].command));
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_printf(&text, "[Exit code: %lld]%s%s", ends[_i].returncode, ends[_i].out[0] ? "\n" : "",
                  ends[_i].out);
    ck_assert_str_eq(tool_block(shown, 0), buffer_text(&text));
    ck_assert(!member_flag(shown, "isError"));
    ck_assert_uint_eq(tool_blocks(shown), ends[_i].signal ? 2 : 1);
    if (ends[_i].signal)
        ck_assert_ptr_nonnull(strstr(tool_block(shown, 1), ends[_i].signal));
}
END_TEST

START_TEST(a_tool_needs_no_workspace)
{
    json_auto_t *shown = tool_call("run_bash", make_json("{s:s}", "command", "echo one > f; cat f"));
    ck_assert_str_eq(tool_block(shown, 0), "[Exit code: 0]\none\n");
    char own[40];
    snprintf(own, sizeof own, "%s", member_text(json_object_get(shown, "structuredContent"), "workspace_id"));
    json_auto_t *again = tool_call("run_bash", make_json("{s:s}", "command", "cat f"));
    ck_assert_str_eq(tool_block(again, 0), "[Exit code: 0]\none\n");
    workspace_terminate(the, own);
}
END_TEST

/* Who named no workspace learns from the text alone which one to read on in, with which tool. */
START_TEST(a_text_names_all_that_reading_on_takes)
{
    static const struct {
        const char *command;
        int wait;
    } cases[] = { { "sleep 5", 0 }, { "for k in $(seq 200); do echo ok $k; done; echo end", 25 } };
    char own[40] = "";
    for (size_t k = 0; k < N_ELEMENTS(cases); k++) {
        json_auto_t *shown = tool_call(
            "run_bash", make_json("{s:s, s:i}", "command", cases[k].command, "wait_seconds", cases[k].wait));
        const json_t *result = json_object_get(shown, "structuredContent");
        const char *notice = tool_block(shown, tool_blocks(shown) - 1);
        snprintf(own, sizeof own, "%s", member_text(result, "workspace_id"));
        ck_assert_msg(strstr(notice, own) && strstr(notice, member_text(result, "exec_id")) &&
                          strstr(notice, "workspace_realtime_exec_events"),
                      "%s", notice);
    }
    workspace_terminate(the, own);
}
END_TEST

START_TEST(folder_and_variables_are_the_calls)
{
    json_auto_t *result = bash_with(
        make_json("{s:s, s:s, s:{s:s}}", "command", "pwd; echo $WHO", "workdir", "/tmp", "env", "WHO", "me"));
    ck_assert_str_eq(member_text(result, "stdout"), "/tmp\nme\n");
    json_auto_t *missing = tool_call_here(
        "run_bash", make_json("{s:s, s:s}", "command", "pwd", "workdir", "/workspace/no/such"));
    ck_assert(member_flag(missing, "isError"));
    ck_assert_ptr_nonnull(strstr(tool_block(missing, 0), "Error executing command: "));
    ck_assert_ptr_nonnull(strstr(tool_block(missing, 0), "ENOENT"));
    const json_t *structured = json_object_get(missing, "structuredContent");
    ck_assert_str_eq(member_text(structured, "state"), "failed");
    ck_assert(json_is_null(json_object_get(structured, "returncode")));
}
END_TEST

START_TEST(long_commands_run_whole)
{
    _cleanup_buffer_ struct buffer command = BUFFER_INIT;
    buffer_append_text(&command, "cat <<'EOF' | wc -c\n");
    for (int k = 0; k < 99970; k++)
        buffer_append_text(&command, _i == 0 ? "x" : "\xe2\x98\x95");
    buffer_append_text(&command, "\nEOF");
    json_auto_t *result = bash(buffer_text(&command));
    ck_assert_int_eq(atol(member_text(result, "stdout")), 99970 * (_i == 0 ? 1 : 3) + 1);
}
END_TEST

START_TEST(one_key_is_one_run)
{
    static const char *const headers[] = { "Idempotency-Key: bash-once", NULL };
    char path[100], ids[2][40];
    snprintf(path, sizeof path, "/api/workspaces/%s/bash", ws);
    for (int k = 0; k < 2; k++) {
        struct http_options o = { .body = "{\"command\": \"echo x >> once; cat once\"}", .headers = headers };
        struct answer a = http_send(the, "POST", path, &o);
        ck_assert_int_eq(a.status, 200);
        ck_assert_str_eq(member_text(a.json, "stdout"), "x\n");
        snprintf(ids[k], sizeof ids[k], "%s", member_text(a.json, "exec_id"));
        answer_clear(&a);
    }
    ck_assert_str_eq(ids[0], ids[1]);
}
END_TEST

/* ---- time ---- */

static void expect_none_left(const char *name)
{
    char command[200];
    snprintf(command, sizeof command,
             "for k in $(seq 60); do pgrep -x %s >/dev/null || exit 0; sleep 0.1; done; exit 1", name);
    json_auto_t *result = bash(command);
    ck_assert_msg(member_number(result, "returncode") == 0, "a %s is left", name);
}

/* A child in a session of its own, and one that ignores TERM; what was written stays. */
static const char stubborn[] = "echo before; echo err >&2; setsid sh -c \"trap '' TERM; sleep 300\" & "
                               "(trap '' TERM; sleep 300) & sleep 300; echo after";

START_TEST(a_timeout_is_a_failed_call_that_keeps_what_was_written)
{
    static const char why[] = "Command timed out after 1s. The process was killed.";
    long long began = now_ms();
    json_auto_t *result = bash_with(make_json("{s:s, s:i}", "command", stubborn, "timeout", 1));
    ck_assert_int_lt(now_ms() - began, 10000);
    ck_assert(member_flag(result, "timed_out"));
    ck_assert_str_eq(member_text(result, "stdout"), "before\nerr\n");
    ck_assert_int_eq(strncmp(member_text(result, "error"), why, strlen(why)), 0);
    ck_assert_ptr_nonnull(strstr(member_text(result, "error"), "all that it had started"));
    expect_none_left("sleep");
    json_auto_t *shown =
        tool_call_here("run_bash", make_json("{s:s, s:i}", "command", stubborn, "timeout", 1));
    ck_assert(member_flag(shown, "isError"));
    const char *text = tool_block(shown, 0);
    ck_assert_int_eq(strncmp(text, why, strlen(why)), 0);
    ck_assert_ptr_nonnull(strstr(text, "increase timeout.\nbefore\nerr\n"));
    ck_assert_str_eq(member_text(json_object_get(shown, "structuredContent"), "stdout"), "before\nerr\n");
    expect_none_left("sleep");
}
END_TEST

START_TEST(the_operators_timeout_is_the_usual_one)
{
    long long began = now_ms();
    json_auto_t *result = bash("sleep 60"); /* WORKSPACE_COMMAND_TIMEOUT=6 */
    ck_assert(member_flag(result, "timed_out"));
    ck_assert_ptr_nonnull(strstr(member_text(result, "error"), "after 6s"));
    ck_assert_int_ge(now_ms() - began, 5900);
    json_auto_t *longer = bash_with(make_json("{s:s, s:i}", "command", "sleep 7; echo done", "timeout", 60));
    ck_assert_str_eq(member_text(longer, "stdout"), "done\n");
}
END_TEST

START_TEST(background_children_do_not_hold_it)
{
    long long began = now_ms();
    json_auto_t *result = bash("sleep 50 & setsid sleep 50 & (sleep 50; echo never) & echo started");
    ck_assert_int_lt(now_ms() - began, 5000);
    ck_assert_str_eq(member_text(result, "stdout"), "started\n");
    ck_assert_int_eq(member_number(result, "returncode"), 0);
}
END_TEST

START_TEST(what_takes_longer_is_a_handle)
{
    static const char command[] = "echo first; sleep 2; echo last; exit 5";
    json_auto_t *result = bash_with(make_json("{s:s, s:f}", "command", command, "wait_seconds", 0.7));
    ck_assert_str_eq(member_text(result, "state"), "running");
    ck_assert(json_is_null(json_object_get(result, "returncode")));
    ck_assert(json_is_null(json_object_get(result, "duration_ms")));
    ck_assert_str_eq(member_text(result, "stdout"), "first\n");
    char path[300];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?cursor=%lld&wait_seconds=20", ws,
             member_text(result, "exec_id"), member_number(result, "next_cursor"));
    json_auto_t *page = api(the, 200, "GET", path, NULL);
    ck_assert_str_eq(member_text(json_array_get(json_object_get(page, "events"), 0), "data"), "last\n");
    struct exec_log log;
    bash_log(result, &log);
    ck_assert_str_eq(log.out, "first\nlast\n");
    ck_assert_int_eq(member_number(log.exit, "returncode"), 5);
    exec_log_clear(&log);

    json_auto_t *shown =
        tool_call_here("run_bash", make_json("{s:s, s:f}", "command", command, "wait_seconds", 0.7));
    const json_t *structured = json_object_get(shown, "structuredContent");
    const char *exec_id = member_text(structured, "exec_id");
    ck_assert(!member_flag(shown, "isError"));
    ck_assert_int_eq(strncmp(tool_block(shown, 0), "[Still running: no exit code yet", 32), 0);
    ck_assert_ptr_nonnull(strstr(tool_block(shown, 0), "]\nfirst\n"));
    ck_assert_ptr_nonnull(strstr(tool_block(shown, 1), "workspace_realtime_exec_events"));
    ck_assert_ptr_nonnull(strstr(tool_block(shown, 1), exec_id));
    bash_log(structured, &log);
    exec_log_clear(&log);
}
END_TEST

/* ---- what is shown ---- */

/* What is shown of raw: head, a line, tail, all numbers right, and the cursor leads to what follows the head.
 */
static void check_cut(const json_t *result, const char *shown, size_t length, const char *raw, size_t size)
{
    unsigned long long bytes, lines, cursor;
    char id[40];
    ck_assert_uint_le(length, VIEW);
    const char *marker = memmem(shown, length, "\n... [", 6);
    ck_assert_ptr_nonnull(marker);
    ck_assert_int_eq(sscanf(marker,
                            "\n... [%llu bytes and %llu lines left out: read events of %35s from cursor %llu",
                            &bytes, &lines, id, &cursor),
                     4);
    ck_assert_str_eq(id, member_text(result, "exec_id"));
    size_t front = (size_t)(marker - shown);
    front += raw[front] == '\n'; /* the line's own end, else one for the marker */
    size_t back = length - (size_t)(strstr(marker, "] ...\n") + 6 - shown);
    ck_assert_uint_eq(front + bytes + back, size);
    ck_assert_uint_eq(lines, lines_count(raw + front, bytes));
    ck_assert_mem_eq(shown, raw, front);
    ck_assert_mem_eq(shown + length - back, raw + size - back, back);
    ck_assert_uint_gt(front, 10000);
    ck_assert_uint_gt(back, 10000);
    char path[300];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?cursor=%llu", ws, id, cursor);
    json_auto_t *page = api(the, 200, "GET", path, NULL);
    const char *next = member_text(json_array_get(json_object_get(page, "events"), 0), "data");
    const char *place = memmem(raw, size, next, strlen(next));
    ck_assert_msg(place && (size_t)(place - raw) <= front, "cursor %llu does not follow the head", cursor);
}

static const char *const long_outputs[] = {
    "head -c 60000 /dev/zero | tr '\\0' x",
    "python3 -c 'for k in range(20000): print(\"%d\" % (k * 7919 % 100003))'",
    "python3 -c 'for k in range(400000): print(\"%d\" % (k * 7919 % 1000003))'",
};

START_TEST(of_what_is_long_the_middle_is_left_out)
{
    struct exec_log log;
    json_auto_t *result =
        bash_with(make_json("{s:s, s:b, s:i}", "command", long_outputs[_i], "compact", 0, "timeout", 60));
    bash_log(result, &log);
    ck_assert(member_flag(result, "stdout_truncated"));
    ck_assert(!member_flag(result, "condensed"));
    const json_t *out = json_object_get(result, "stdout");
    check_cut(result, json_string_value(out), json_string_length(out), log.out, log.out_length);
    exec_log_clear(&log);
    json_auto_t *shown = tool_call_here(
        "run_bash", make_json("{s:s, s:b, s:i}", "command", long_outputs[_i], "compact", 0, "timeout", 60));
    const json_t *structured = json_object_get(shown, "structuredContent");
    bash_log(structured, &log);
    const char *text = tool_block(shown, 0) + strlen("[Exit code: 0]\n");
    check_cut(structured, text, strlen(text), log.out, log.out_length);
    ck_assert_str_eq(text, member_text(structured, "stdout"));
    exec_log_clear(&log);
}
END_TEST

START_TEST(what_fits_is_whole)
{
    json_auto_t *result = bash("head -c 51200 /dev/zero | tr '\\0' x");
    ck_assert_uint_eq(json_string_length(json_object_get(result, "stdout")), 51200);
    ck_assert(!member_flag(result, "stdout_truncated"));
}
END_TEST

START_TEST(binary_output_is_shown_and_kept)
{
    struct exec_log log;
    json_auto_t *result = bash("printf 'a\\0b\\377\\376\\n'");
    ck_assert_ptr_nonnull(strstr(member_text(result, "notice"), "U+FFFD"));
    bash_log(result, &log);
    ck_assert_uint_eq(log.out_length, 6);
    ck_assert_mem_eq(log.out, "a\0b\377\376\n", 6);
    exec_log_clear(&log);
    json_auto_t *shown =
        tool_call_here("run_bash", make_json("{s:s}", "command", "head -c 200000 /dev/urandom"));
    const json_t *out = json_object_get(json_object_get(shown, "structuredContent"), "stdout");
    ck_assert_ptr_nonnull(memmem(json_string_value(out), json_string_length(out), " lines left out: ", 17));
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", "WORKSPACE_COMMAND_TIMEOUT=6",
                                               NULL };
    Suite *suite = suite_create("bash");
    TCase *c = tcase_create("bash");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_add_loop_test(c, ends_are_told_in_both_forms, 0, N_ELEMENTS(ends));
    tcase_add_test(c, a_tool_needs_no_workspace);
    tcase_add_test(c, a_text_names_all_that_reading_on_takes);
    tcase_add_test(c, folder_and_variables_are_the_calls);
    tcase_add_loop_test(c, long_commands_run_whole, 0, 2);
    tcase_add_test(c, one_key_is_one_run);
    tcase_add_test(c, a_timeout_is_a_failed_call_that_keeps_what_was_written);
    tcase_add_test(c, the_operators_timeout_is_the_usual_one);
    tcase_add_test(c, background_children_do_not_hold_it);
    tcase_add_test(c, what_takes_longer_is_a_handle);
    tcase_add_loop_test(c, of_what_is_long_the_middle_is_left_out, 0, N_ELEMENTS(long_outputs));
    tcase_add_test(c, what_fits_is_whole);
    tcase_add_test(c, binary_output_is_shown_and_kept);
    suite_add_tcase(suite, c);
    return suite_main(suite, environment);
}
