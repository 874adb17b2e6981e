/* Execs through a real web server and a real sandbox: output, input, exact bytes, pages, ends. */
#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "lib/base/process.h"
#include "tests/support/workspace_case.h"

#include <stdio.h>

START_TEST(first_output_is_read_while_the_command_runs)
{
    char ex[40], path[200];
    exec_start_command(the, ws, "echo first; read -r line; echo \"got $line\"; sleep 0.2; echo last", ex);
    exec_wait_output(the, ws, ex, "first\n", 5000);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    json_auto_t *status = api(the, 200, "GET", path, NULL);
    ck_assert_str_eq(member_text(status, "state"), "running");
    exec_send(the, ws, ex, "the answer\n", false);
    exec_wait_output(the, ws, ex, "got the answer\n", 5000);
    struct exec_log log;
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_str_eq(log.out, "first\ngot the answer\nlast\n");
    ck_assert_int_eq(member_number(log.exit, "returncode"), 0);
    ck_assert_str_eq(log.state, "finished");
    exec_log_clear(&log);
}
END_TEST

/* With X-Worker (LOG_LEVEL=debug) the test sees which worker answered. A quiet kernel gives every request to
 * the same one, so that one is stopped while its input is read. */
START_TEST(input_by_one_worker_is_read_by_another)
{
    char ex[40], path[240], first[32] = "", other[32] = "";
    exec_start_command(the, ws, "while read -r line; do echo \"<$line>\"; done", ex);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?cursor=0", ws, ex);
    for (int k = 0; k < 20; k++) {
        char input[200], body[64], text[64];
        snprintf(input, sizeof input, "/api/workspaces/%s/realtime-execs/%s/input", ws, ex);
        snprintf(body, sizeof body, "{\"data\": \"line %d\\n\"}", k);
        struct http_options o = { .body = body };
        struct answer sent = http_send(the, "POST", input, &o);
        ck_assert_int_eq(sent.status, 200);
        answer_header(&sent, "X-Worker", first, sizeof first);
        answer_clear(&sent);
        _cleanup_close_ int writer = process_pidfd_open(atoi(first));
        ck_assert_int_ge(writer, 0);
        ck_assert_int_eq(process_pidfd_signal(writer, SIGSTOP), 0);
        snprintf(text, sizeof text, "<line %d>\n", k);
        exec_wait_output(the, ws, ex, text, 5000);
        struct answer read = http_send(the, "GET", path, NULL);
        ck_assert_int_eq(process_pidfd_signal(writer, SIGCONT), 0);
        answer_header(&read, "X-Worker", other, sizeof other);
        ck_assert_msg(first[0] && other[0] && strcmp(first, other) != 0, "one worker twice: '%s' '%s'", first,
                      other);
        answer_clear(&read);
    }
    exec_send(the, ws, ex, "", true);
    struct exec_log log;
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 0);
    exec_log_clear(&log);
}
END_TEST

static const struct {
    const char *command, *out, *err, *state;
    long long returncode;
    const char *signal;
} ends[] = {
    { "printf x", "x", "", "finished", 0, NULL },
    { "true", "", "", "finished", 0, NULL },
    { "exit 7", "", "", "finished", 7, NULL },
    { "echo out; echo err >&2; exit 3", "out\n", "err\n", "finished", 3, NULL },
    { "kill -9 $$", "", "", "finished", -9, "KILL" },
    { "kill -SEGV $$", "", "", "finished", -11, "SEGV" },
    { "printf 'no newline at the end'", "no newline at the end", "", "finished", 0, NULL },
    { "cd /; pwd", "/\n", "", "finished", 0, NULL },
    { "pwd; echo $HOME; id -un", "/workspace\n/home/workspace\nworkspace\n", "", "finished", 0, NULL },
    { "cat <<'EOF'\n$not `expanded`\nEOF", "$not `expanded`\n", "", "finished", 0, NULL },
    { "no-such-command-here 2>/dev/null", "", "", "finished", 127, NULL },
};

START_TEST(ends_are_told_as_they_are)
{
    struct exec_log log;
    exec_run_command(the, ws, ends[_i].command, &log);
    ck_assert_str_eq(log.out, ends[_i].out);
    ck_assert_str_eq(log.err, ends[_i].err);
    ck_assert_str_eq(log.state, ends[_i].state);
    ck_assert_int_eq(member_number(log.exit, "returncode"), ends[_i].returncode);
    const char *signal = json_string_value(json_object_get(log.exit, "signal"));
    ck_assert_msg(ends[_i].signal ? signal && strcmp(signal, ends[_i].signal) == 0 : signal == NULL,
                  "signal %s", signal ? signal : "null");
    exec_log_clear(&log);
}
END_TEST

START_TEST(characters_are_never_split)
{
    struct exec_log log;
    /* 100,000 three-byte characters through writes of 1, 2, 3, ... bytes; an incomplete one before a pause
     * arrives as it is. */
    exec_run_command(the, ws,
                     "python3 -c 'import os\n"
                     "data = \"\\u2615\".encode() * 100000\n"
                     "at = 0; size = 1\n"
                     "while at < len(data):\n"
                     "    os.write(1, data[at:at+size]); at += size; size = size % 997 + 1\n'",
                     &log);
    ck_assert_uint_eq(log.out_length, 300000);
    ck_assert(!log.replacement);
    for (size_t k = 0; k < log.out_length; k += 3)
        ck_assert_mem_eq(log.out + k, "\xe2\x98\x95", 3);
    exec_log_clear(&log);
    char ex[40];
    exec_start_command(the, ws, "printf 'a\\xe2\\x98'; read -r x; printf '\\x95b'", ex);
    sleep_ms(400);
    char path[240];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?cursor=0&wait_seconds=5", ws,
             ex);
    json_auto_t *page = api(the, 200, "GET", path, NULL);
    char *text = json_dumps(page, JSON_COMPACT);
    ck_assert_msg(strstr(text, "data_base64") != NULL, "the incomplete tail did not arrive: %s", text);
    free(text);
    exec_send(the, ws, ex, "\n", true);
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_uint_eq(log.out_length, 5);
    ck_assert_mem_eq(log.out,
                     "a\xe2\x98\x95"
                     "b",
                     5);
    exec_log_clear(&log);
}
END_TEST

START_TEST(random_bytes_are_exact)
{
    struct exec_log log;
    exec_run_command(the, ws, "head -c 1000000 /dev/urandom > r; sha256sum < r | cut -c1-64 >&2; cat r",
                     &log);
    ck_assert_uint_eq(log.out_length, 1000000);
    char hex[ID_HASH_SIZE];
    id_hash(log.out, log.out_length, hex);
    log.err[strcspn(log.err, "\n")] = '\0';
    ck_assert_str_eq(log.err, hex);
    exec_log_clear(&log);
}
END_TEST

START_TEST(pages_hold_their_bound_whatever_the_bytes)
{
    static const char *const commands[] = { "head -c 300000 /dev/zero",
                                            "head -c 300000 /dev/zero | tr '\\0' '\\033'",
                                            "head -c 300000 /dev/zero | tr '\\0' '\"'",
                                            "head -c 300000 /dev/zero | tr '\\0' '\\\\'",
                                            "python3 -c 'print(\"\\U0001f600\"*75000, end=\"\")'",
                                            "head -c 300000 /dev/urandom" };
    struct exec_log log;
    exec_run_command(the, ws, commands[_i], &log); /* exec_follow checks the bound of each page */
    ck_assert_uint_eq(log.out_length, 300000);
    exec_log_clear(&log);
}
END_TEST

START_TEST(long_commands_run_whole)
{
    struct buffer command = BUFFER_INIT;
    struct exec_log log;
    const char *fill = _i == 0 ? "x" : "\xe2\x98\x95";
    buffer_append_text(&command, "cat <<'EOF' | wc -c\n");
    for (int k = 0; k < 99970; k++)
        buffer_append_text(&command, fill);
    buffer_append_text(&command, "\nEOF");
    exec_run_command(the, ws, buffer_text(&command), &log);
    ck_assert_int_eq(atol(log.out), (long)(99970 * strlen(fill)) + 1);
    exec_log_clear(&log);
    buffer_free(&command);
    for (int k = 0; k < 100001; k++)
        buffer_append_text(&command, fill);
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs", ws);
    api_refused(the, 422, "command", "POST", path, make_json("{s:s}", "command", buffer_text(&command)));
    buffer_free(&command);
}
END_TEST

START_TEST(odd_environment_names_arrive)
{
    struct exec_log log;
    exec_run(the, ws,
             make_json("{s:s, s:{s:s, s:s, s:s, s:n}}", "command",
                       "env | grep -a -e '^a-b=' -e '^1x=' -e 'Schl' ; echo \"home=$HOME\"", "env", "a-b",
                       "minus", "1x", "digit", "Schl\xc3\xbcssel", "v\xc3\xa4lue", "HOME"),
             &log);
    ck_assert_ptr_nonnull(strstr(log.out, "a-b=minus\n"));
    ck_assert_ptr_nonnull(strstr(log.out, "1x=digit\n"));
    ck_assert_ptr_nonnull(strstr(log.out, "Schl\xc3\xbcssel=v\xc3\xa4lue\n"));
    exec_log_clear(&log);
}
END_TEST

START_TEST(missing_workdir_is_a_failed_exec)
{
    struct exec_log log;
    exec_run(the, ws, make_json("{s:s, s:s}", "command", "pwd", "workdir", "/workspace/no/such"), &log);
    ck_assert_str_eq(log.state, "failed");
    ck_assert_ptr_nonnull(log.error);
    ck_assert(json_is_null(json_object_get(log.exit, "returncode")));
    char *text = json_dumps(log.error, 0);
    ck_assert_ptr_nonnull(strstr(text, "ENOENT"));
    free(text);
    exec_log_clear(&log);
}
END_TEST

START_TEST(background_children_do_not_hold_the_exit)
{
    char ex[40];
    struct exec_log log;
    char path[200];
    exec_start_command(the, ws, "yes & echo started; sleep 0.2; exit 4", ex);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    for (long long deadline = now_ms() + 3000;; sleep_ms(20)) {
        json_auto_t *status = api(the, 200, "GET", path, NULL);
        if (strcmp(member_text(status, "state"), "finished") == 0 && member_number(status, "returncode") == 4)
            break;
        ck_assert_msg(now_ms() < deadline, "no exit within 3 s");
    }
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/cancel", ws, ex);
    json_decref(api(the, 200, "POST", path, make_json("{s:s, s:b}", "signal_name", "KILL", "tree", 1)));
    exec_run_command(
        the, ws,
        "for k in 1 2 3 4 5 6 7 8 9 10; do pgrep -x yes >/dev/null || exit 0; sleep 0.2; done; exit 1", &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 0);
    exec_log_clear(&log);
}
END_TEST

START_TEST(orphans_leave_no_zombie)
{
    struct exec_log log;
    char ex[40];
    exec_start_command(the, ws,
                       "for k in $(seq 5000); do (setsid true &) ; done; sleep 1; "
                       "echo zombies=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ')",
                       ex);
    exec_follow(the, ws, ex, 200000,
                &log); /* seconds on a quiet machine; 10,000 processes on a busy one take their time */
    ck_assert_msg(strstr(log.out, "zombies=0\n") != NULL, "%s %s", log.out, log.err);
    exec_log_clear(&log);
}
END_TEST

START_TEST(log_limit_is_kept_and_told)
{
    struct exec_log log;
    char ex[40], other[40];
    exec_start_command(the, ws, "head -c 300000000 /dev/zero | tr '\\0' 'a'; echo; echo the end", ex);
    exec_start_command(the, ws, "for k in $(seq 20); do echo tick $k; sleep 0.05; done", other);
    struct exec_log ticks;
    exec_follow(the, ws, other, 30000, &ticks); /* nobody reads ex meanwhile */
    ck_assert_ptr_nonnull(strstr(ticks.out, "tick 20\n"));
    exec_log_clear(&ticks);
    char path[240];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    for (long long deadline = now_ms() + 60000;; sleep_ms(50)) {
        json_auto_t *status = api(the, 200, "GET", path, NULL);
        if (strcmp(member_text(status, "state"), "finished") == 0)
            break;
        ck_assert_msg(now_ms() < deadline, "300 MB took over 60 s");
    }
    snprintf(path, sizeof path,
             "/api/workspaces/%s/realtime-execs/%s/events?cursor=0&max_events=500&max_bytes=8388608", ws, ex);
    json_auto_t *first = api(the, 200, "GET", path, NULL);
    ck_assert(member_flag(first, "cursor_expired"));
    ck_assert_int_gt(member_number(first, "dropped_events"), 10000);
    ck_assert_int_eq(member_number(json_array_get(json_object_get(first, "events"), 0), "seq"),
                     member_number(first, "first_seq"));
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?tail=3", ws, ex);
    json_auto_t *tail = api(the, 200, "GET", path, NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(tail, "events")), 3);
    char *text = json_dumps(tail, 0);
    ck_assert_ptr_nonnull(strstr(text, "the end"));
    free(text);
    (void)log;
}
END_TEST

START_TEST(a_fork_bomb_ends_inside_while_others_answer)
{
    char other[40], ex[40];
    struct exec_log log;
    workspace_create(the, NULL, other);
    exec_start(the, ws, make_json("{s:s, s:i}", "command", ":(){ :|:& };:; wait", "timeout_seconds", 3), ex);
    for (int k = 0; k < 10; k++) {
        long long started = now_ms();
        exec_run_command(the, other, "echo alive", &log);
        ck_assert_str_eq(log.out, "alive\n");
        ck_assert_msg(now_ms() - started < 5000, "another workspace took %lld ms", now_ms() - started);
        exec_log_clear(&log);
    }
    exec_follow(the, ws, ex, 30000, &log);
    exec_log_clear(&log);
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/cancel", ws, ex);
    json_decref(api(the, 200, "POST", path, make_json("{s:s, s:b}", "signal_name", "KILL", "tree", 1)));
    exec_run_command(the, ws, "sleep 0.5; echo back", &log);
    char *end = json_dumps(log.exit, 0), *problem = json_dumps(log.error, 0);
    ck_assert_msg(strcmp(log.out, "back\n") == 0, "'%s' '%s' %s %s", log.out, log.err, end,
                  problem ? problem : "");
    free(end);
    free(problem);
    exec_log_clear(&log);
    workspace_terminate(the, other);
}
END_TEST

START_TEST(a_memory_hog_ends_inside)
{
    char small[40];
    struct exec_log log;
    workspace_create(the, make_json("{s:i, s:i}", "memory_mib", 128, "memory_limit_mib", 300), small);
    exec_run(the, small,
             make_json("{s:s, s:i}", "command",
                       "for k in $(seq 100); do python3 -c 'import time; x = b\"x\" * (100<<20); "
                       "time.sleep(600)' & done 2>/dev/null; sleep 2; "
                       "echo left=$(cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ {s += $2} END "
                       "{print int(s / 1024)}'); "
                       "pkill -9 python3; wait",
                       "timeout_seconds", 60),
             &log);
    /* the command itself may be among the killed: then there is no figure */
    ck_assert_msg(log.out_length == 0 || atoi(strstr(log.out, "left=") + 5) <= 310,
                  "%s MiB live on under a limit of 300 MiB", log.out);
    exec_log_clear(&log);
    exec_run_command(the, small, "echo usable", &log);
    ck_assert_str_eq(log.out, "usable\n");
    exec_log_clear(&log);
    /* Where the host gives no cgroup the limit is watched: it has 2 s to act. */
    exec_run_command(the, small,
                     "python3 -c 'import time; x = b\"x\" * (1000<<20); time.sleep(3); print(len(x))'", &log);
    ck_assert_msg(strstr(log.out, "1048576000") == NULL, "1000 MB under a limit of 300 MiB");
    exec_log_clear(&log);
    workspace_terminate(the, small);
}
END_TEST

START_TEST(a_slow_reader_blocks_nobody)
{
    char ex[40], quick[40];
    struct exec_log log;
    exec_start_command(the, ws, "cat /dev/zero | tr '\\0' 'z' | head -c 100000000", ex);
    exec_start_command(the, ws, "sleep 0.1; echo quick", quick);
    long long started = now_ms();
    exec_follow(the, ws, quick, 10000, &log);
    ck_assert_str_eq(log.out, "quick\n");
    ck_assert_int_lt(now_ms() - started, 5000);
    exec_log_clear(&log);
}
END_TEST

START_TEST(synchronous_exec_answers_or_hands_out_a_handle)
{
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    json_auto_t *quick =
        api(the, 200, "POST", path, make_json("{s:s}", "command", "echo out; echo err >&2; exit 5"));
    ck_assert_str_eq(member_text(quick, "stdout"), "out\n");
    ck_assert_str_eq(member_text(quick, "stderr"), "err\n");
    ck_assert_int_eq(member_number(quick, "returncode"), 5);
    ck_assert(!member_flag(quick, "stdout_truncated"));
    long long started = now_ms();
    json_auto_t *handle =
        api(the, 200, "POST", path,
            make_json("{s:s, s:i}", "command", "echo begun; sleep 3; echo done", "wait_seconds", 1));
    ck_assert_int_lt(now_ms() - started, 2500);
    ck_assert_str_eq(member_text(handle, "state"), "running");
    ck_assert(json_is_null(json_object_get(handle, "returncode")));
    ck_assert_str_eq(member_text(handle, "stdout"), "begun\n");
    struct exec_log log;
    exec_follow(the, ws, member_text(handle, "exec_id"), 10000, &log);
    ck_assert_str_eq(log.out, "begun\ndone\n");
    exec_log_clear(&log);
    json_auto_t *reads =
        api(the, 200, "POST", path, make_json("{s:s}", "command", "cat; echo none")); /* no input */
    ck_assert_str_eq(member_text(reads, "stdout"), "none\n");
    json_auto_t *failed =
        api(the, 200, "POST", path, make_json("{s:s, s:s}", "command", "pwd", "workdir", "/nowhere"));
    ck_assert_str_eq(member_text(failed, "state"), "failed");
    char *text = json_dumps(failed, 0);
    ck_assert_ptr_nonnull(strstr(text, "ENOENT"));
    free(text);
}
END_TEST

START_TEST(a_large_synchronous_answer_keeps_head_and_tail)
{
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    json_auto_t *request =
        make_json("{s:s}", "command", "echo HEAD; head -c 5000000 /dev/zero | tr '\\0' '\\n'; echo TAIL");
    char *body = json_dumps(request, 0);
    struct http_options o = { .body = body };
    struct answer a = http_send(the, "POST", path, &o);
    ck_assert_int_eq(a.status, 200);
    ck_assert_uint_le(a.length, 90000);
    ck_assert(member_flag(a.json, "stdout_truncated"));
    const char *out = member_text(a.json, "stdout");
    ck_assert_mem_eq(out, "HEAD\n", 5);
    ck_assert_ptr_nonnull(strstr(out, "TAIL\n"));
    answer_clear(&a);
    free(body);
}
END_TEST

START_TEST(input_after_the_end_is_a_conflict)
{
    char ex[40], path[200];
    struct exec_log log;
    exec_start_command(the, ws, "cat; sleep 0.3", ex);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/input", ws, ex);
    json_decref(api(the, 200, "POST", path, make_json("{s:s, s:b}", "data_base64", "AP9hCg==", "eof", 1)));
    api_refused(the, 409, "", "POST", path, make_json("{s:s}", "data", "more"));
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_uint_eq(log.out_length, 4);
    ck_assert_mem_eq(log.out,
                     "\0\xff"
                     "a\n",
                     4);
    api_refused(the, 409, "", "POST", path, make_json("{s:s}", "data", "more"));
    api_refused(the, 400, "", "POST", path, json_object());
    exec_log_clear(&log);
}
END_TEST

START_TEST(execs_are_listed_newest_first)
{
    char path[160], ids[3][40];
    for (int k = 0; k < 3; k++)
        exec_start_command(the, ws, "true", ids[k]);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs?limit=2", ws);
    json_auto_t *page = api(the, 200, "GET", path, NULL);
    char *text = json_dumps(page, 0);
    char *a = strstr(text, ids[2]), *b = strstr(text, ids[1]);
    ck_assert_msg(a && b && a < b && !strstr(text, ids[0]), "%s", text);
    free(text);
}
END_TEST

START_TEST(same_idempotency_key_runs_once)
{
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs", ws);
    const char *headers[] = { "Idempotency-Key: the-key-1", NULL };
    struct http_options o = { .body = "{\"command\": \"echo once >> /workspace/count; sleep 0.3\"}",
                              .headers = headers };
    struct answer first = http_send(the, "POST", path, &o), second = http_send(the, "POST", path, &o);
    ck_assert_int_eq(first.status, 200);
    ck_assert_int_eq(second.status, 200);
    ck_assert_str_eq(member_text(first.json, "exec_id"), member_text(second.json, "exec_id"));
    o.body = "{\"command\": \"echo other\"}";
    struct answer third = http_send(the, "POST", path, &o);
    ck_assert_int_eq(third.status, 409);
    struct exec_log log;
    exec_follow(the, ws, member_text(first.json, "exec_id"), 10000, &log);
    exec_log_clear(&log);
    exec_run_command(the, ws, "wc -l < /workspace/count", &log);
    ck_assert_int_eq(atoi(log.out), 1);
    exec_log_clear(&log);
    answer_clear(&first);
    answer_clear(&second);
    answer_clear(&third);
}
END_TEST

START_TEST(events_stream_to_a_client_that_asks)
{
    char ex[40], path[240];
    exec_start_command(the, ws, "for k in 1 2 3; do echo line $k; sleep 0.1; done", ex);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events", ws, ex);
    const char *headers[] = { "Accept: text/event-stream", NULL };
    struct http_options o = { .headers = headers, .unchecked = true };
    struct answer a = http_send(the, "GET", path, &o);
    ck_assert_int_eq(a.status, 200);
    char type[64] = "";
    answer_header(&a, "Content-Type", type, sizeof type);
    ck_assert_ptr_nonnull(strstr(type, "text/event-stream"));
    const char *at = a.body;
    for (const char *const *want =
             (const char *const[]){ "id: 1\n", "line 1", "line 2", "line 3", "\"exit\"", NULL };
         *want; want++) {
        at = strstr(at, *want);
        ck_assert_msg(at != NULL, "'%s' is missing in %s", *want, a.body);
    }
    answer_clear(&a);
    const char *resumed[] = { "Accept: text/event-stream", "Last-Event-ID: 2", NULL };
    o.headers = resumed;
    a = http_send(the, "GET", path, &o);
    ck_assert_ptr_null(strstr(a.body, "id: 2\n"));
    ck_assert_ptr_nonnull(strstr(a.body, "id: 3\n"));
    answer_clear(&a);
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", NULL };
    Suite *s = suite_create("exec");
    TCase *c = tcase_create("one workspace for each test");
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_set_timeout(c, 240);
    tcase_add_test(c, first_output_is_read_while_the_command_runs);
    tcase_add_test(c, input_by_one_worker_is_read_by_another);
    tcase_add_loop_test(c, ends_are_told_as_they_are, 0, (int)(sizeof ends / sizeof ends[0]));
    tcase_add_test(c, characters_are_never_split);
    tcase_add_test(c, random_bytes_are_exact);
    tcase_add_loop_test(c, pages_hold_their_bound_whatever_the_bytes, 0, 6);
    tcase_add_loop_test(c, long_commands_run_whole, 0, 2);
    tcase_add_test(c, odd_environment_names_arrive);
    tcase_add_test(c, missing_workdir_is_a_failed_exec);
    tcase_add_test(c, background_children_do_not_hold_the_exit);
    tcase_add_test(c, orphans_leave_no_zombie);
    tcase_add_test(c, log_limit_is_kept_and_told);
    tcase_add_test(c, a_fork_bomb_ends_inside_while_others_answer);
    tcase_add_test(c, a_memory_hog_ends_inside);
    tcase_add_test(c, a_slow_reader_blocks_nobody);
    tcase_add_test(c, synchronous_exec_answers_or_hands_out_a_handle);
    tcase_add_test(c, a_large_synchronous_answer_keeps_head_and_tail);
    tcase_add_test(c, input_after_the_end_is_a_conflict);
    tcase_add_test(c, execs_are_listed_newest_first);
    tcase_add_test(c, same_idempotency_key_runs_once);
    tcase_add_test(c, events_stream_to_a_client_that_asks);
    suite_add_tcase(s, c);
    return suite_main(s, environment);
}
