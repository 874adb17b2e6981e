/* Commands that the sandbox's `rtk` may rewrite: what it makes of them runs and is told, and whatever goes
 * wrong with it, the command runs as it was given. A small program of the test's stands for it. */
#include "lib/base/buffer.h"
#include "tests/support/bash_case.h"

#include <stdio.h>
#include <string.h>

/* Installs a script as rtk in the sandbox's PATH. */
static void install(const char *script)
{
    _cleanup_buffer_ struct buffer command = BUFFER_INIT;
    buffer_printf(&command,
                  "mkdir -p ~/.local/bin && cat > ~/.local/bin/rtk <<'END'\n#!/bin/sh\n%s\nEND\nchmod +x "
                  "~/.local/bin/rtk",
                  script);
    json_auto_t *result = bash_with(make_json("{s:s, s:b}", "command", buffer_text(&command), "rtk", 0));
    ck_assert_int_eq(member_number(result, "returncode"), 0);
}

static const struct {
    const char *script, *command, *rewritten, *out;
} cases[] = {
    { "[ $# = 2 ] && [ \"$1\" = rewrite ] && echo \"echo rtk $2\"", "ls  -al", "echo rtk ls  -al",
      "rtk ls -al\n" },
    { "echo 'echo asked'; exit 3", "echo x", "echo asked", "asked\n" },
    { "printf '\\n  echo trimmed \\n\\n'", "echo x", "echo trimmed", "trimmed\n" },
    { "pwd > ~/where; echo \"echo $WHO\"", "cat ~/where; echo", "echo me", "me\n" },
    { "cat > ~/got; echo 'wc -c < ~/got'", "echo x", "wc -c < ~/got", "0\n" }, /* it gets no input */
    /* nothing to say, or nothing that counts */
    { "exit 1", "echo x", NULL, "x\n" },
    { "echo 'echo denied'; exit 2", "echo x", NULL, "x\n" },
    { "exit 0", "echo x", NULL, "x\n" },
    { "printf ' \\n\\t '", "echo x", NULL, "x\n" },
    { "echo \"  $2  \"", "echo x", NULL, "x\n" },
    { "echo 'echo killed'; kill -9 $$", "echo x", NULL, "x\n" },
    { "printf 'echo \\377'", "echo x", NULL, "x\n" },
    { "printf 'echo a\\0b'", "echo x", NULL, "x\n" },
    { "head -c 5000 /dev/zero | tr '\\0' x", "echo x", NULL, "x\n" },
    { "yes", "echo x", NULL, "x\n" },
    { "head -c 3000 /dev/zero | tr '\\0' '\\001'", "echo x", NULL, "x\n" }, /* too long in JSON */
    { "echo 'only said' >&2", "echo x", NULL, "x\n" },
};

START_TEST(what_it_says_runs_and_is_told)
{
    install(cases[_i].script);
    const char *rewritten = cases[_i].rewritten;
    json_auto_t *result =
        bash_with(make_json("{s:s, s:{s:s}}", "command", cases[_i].command, "env", "WHO", "me"));
    ck_assert_str_eq(member_text(result, "stdout"), cases[_i].out);
    const char *told = json_string_value(json_object_get(result, "rewritten_command"));
    ck_assert_msg(rewritten ? told && strcmp(told, rewritten) == 0 : !told, "told: %s", told ? told : "null");
    json_auto_t *shown = tool_call_here(
        "run_bash", make_json("{s:s, s:{s:s}}", "command", cases[_i].command, "env", "WHO", "me"));
    ck_assert_uint_eq(tool_blocks(shown), rewritten ? 2 : 1);
    if (rewritten)
        ck_assert_ptr_nonnull(strstr(tool_block(shown, 1), rewritten));
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, member_text(result, "exec_id"));
    json_auto_t *status = api(the, 200, "GET", path, NULL);
    ck_assert_str_eq(member_text(status, "command"), cases[_i].command);
}
END_TEST

START_TEST(a_call_may_do_without_it)
{
    install("echo 'echo rewritten'");
    json_auto_t *result = bash_with(make_json("{s:s, s:b}", "command", "echo x", "rtk", 0));
    ck_assert_str_eq(member_text(result, "stdout"), "x\n");
    ck_assert(json_is_null(json_object_get(result, "rewritten_command")));
    struct exec_log log; /* nor does it touch the other ways to run a command */
    exec_run_command(the, ws, "echo x", &log);
    ck_assert_str_eq(log.out, "x\n");
    exec_log_clear(&log);
}
END_TEST

/* One that does not end, whatever it does: two seconds, then it is gone. */
static const char *const hangs[] = {
    "exec sleep 77",
    "trap '' TERM INT HUP; sleep 77; sleep 77",
    "echo 'echo early'; exec >&-; sleep 77",
    "sleep 77 & echo 'echo with a child'",
};

START_TEST(one_that_hangs_is_killed)
{
    install(hangs[_i]);
    long long began = now_ms();
    json_auto_t *result = bash("echo x");
    ck_assert_str_eq(member_text(result, "stdout"), "x\n");
    ck_assert_int_ge(now_ms() - began, 1900);
    ck_assert_int_lt(now_ms() - began, 8000);
    json_auto_t *left =
        bash_with(make_json("{s:s, s:b}", "command", "pgrep -x sleep; pgrep -x rtk; true", "rtk", 0));
    ck_assert_str_eq(member_text(left, "stdout"), "");
}
END_TEST

START_TEST(a_command_too_long_for_it_runs)
{
    _cleanup_buffer_ struct buffer command = BUFFER_INIT;
    install("echo 'echo rewritten'");
    buffer_append_text(&command, "cat <<'EOF' | wc -c\n");
    for (int k = 0; k < 90000; k++)
        buffer_append_text(&command, "\xe2\x98\x95");
    buffer_append_text(&command, "\nEOF");
    json_auto_t *result = bash(buffer_text(&command));
    ck_assert_int_eq(atol(member_text(result, "stdout")), 270001);
    ck_assert(json_is_null(json_object_get(result, "rewritten_command")));
}
END_TEST

START_TEST(a_long_answer_is_told_within_the_bound)
{
    install("printf 'python3 -c \"print(\\\\\"a\\\\\" * 90000)\" #'; head -c 3900 /dev/zero | tr '\\0' '\"'");
    json_auto_t *result = bash("echo x");
    const char *told = json_string_value(json_object_get(result, "rewritten_command"));
    ck_assert(told && strlen(told) > 3900);
    json_auto_t *shown = tool_call_here("run_bash", make_json("{s:s}", "command", "echo x"));
    ck_assert_ptr_nonnull(strstr(tool_block(shown, 0), "lines left out"));
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", "WORKSPACE_RTK=on", NULL };
    Suite *suite = suite_create("rtk");
    TCase *c = tcase_create("rtk");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_add_loop_test(c, what_it_says_runs_and_is_told, 0, N_ELEMENTS(cases));
    tcase_add_test(c, a_call_may_do_without_it);
    tcase_add_loop_test(c, one_that_hangs_is_killed, 0, N_ELEMENTS(hangs));
    tcase_add_test(c, a_command_too_long_for_it_runs);
    tcase_add_test(c, a_long_answer_is_told_within_the_bound);
    suite_add_tcase(suite, c);
    return suite_main(suite, environment);
}
