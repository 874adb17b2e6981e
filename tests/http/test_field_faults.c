/* clang-format off */
/* What users of systems like this one have met in public, each as a test. Where the test stands:
 *
 * output
 *   characters cut by a read become replacement marks      test_exec characters_are_never_split
 *   one byte that is no text fails the whole run           test_exec random_bytes_are_exact
 *   control bytes make an answer six times as long         test_exec pages_hold_their_bound_whatever_the_bytes
 *   a tool's redrawn lines are changed on the way          here redrawn_lines_stay_as_they_are
 *   a program that dies at once takes its words with it    here quick_deaths_lose_nothing
 *   a finished command turns into a failed one             here an_end_is_durable
 *   a lost connection takes the tail or the run with it    here who_goes_away_loses_nothing
 *   a reader that reconnects misses records unawares       here who_goes_away_loses_nothing, exec_follow (every seq)
 *   finished, too far and too late all look the same       here a_cursor_says_where_the_reader_is, test_exec log_limit_is_kept_and_told
 *   a quiet stream is cut or hangs unseen                  here a_quiet_stream_shows_that_it_lives
 *   the idle clock ends a workspace in the middle of a run test_keeper test_idle
 *   reading on costs more the longer the log is            test_page test_output_price, test_speed
 *   full pipes lock command and reader against each other  here full_pipes_lock_nobody
 *   a here-document or a background child never returns    test_exec ends_are_told_as_they_are, background_children_do_not_hold_the_exit
 *   an end by a signal is told as -1                       test_exec ends_are_told_as_they_are
 *   what could not start runs for ever                     here starts_that_fail_are_told
 *   the last bytes before an end are missing               here the_last_bytes_are_there
 * hanging, running away
 *   descendants live on after a timeout                    test_terminal a_timeout_ends_the_whole_tree
 *   a prompt waits for ever                                here nobody_is_asked, test_terminal waiting_for_input_is_shown
 *   Ctrl-C ends the whole sandbox                          here an_interrupt_reaches_one_command
 * terminals
 *   a size of nothing by nothing                           test_terminal a_terminal_has_a_name_and_a_size
 *   a lost connection looks like an ended session          here an_end_is_durable, ends_are_told_apart
 *   an end of input in the middle of a line                test_terminal end_of_file_reaches_a_terminal_program
 * between client and gateway
 *   events arrive in one lump                              here events_come_one_by_one
 *   a call lasts longer than its client waits              test_exec synchronous_exec_answers_or_hands_out_a_handle
 *   too many who wait hang instead of being told           test_slow parked_polls_are_bounded
 *   an answer is too long for its client                   exec_follow (every page), test_page test_bounds
 *   a schema is too large to be imported                   test_ops test_documents
 * limits
 *   out of memory looks like any kill                      here out_of_memory_is_told
 *   a full disk takes the gateway with it                  here a_full_workspace_is_its_own_problem, test_full
 *   a place that can be written has no bound               test_escape full_temporary_places_are_bounded; the workspace's own files
 *                                                          are bounded by their file system alone
 *   names do not resolve, or by a server nobody chose      here names_resolve_as_on_the_host
 *   a link in a repository leads to a secret               test_escape every_attempt_is_refused
 * edits and writes
 *   $1 or \1 in a replacement is expanded                   test_edit "replacement is literal"
 *   a byte order mark is lost, or in the way               test_edit "a byte order mark stays", test_files line_ends_and_marks_are_left_as_they_are,
 *                                                          test_syntax
 *   UTF-16 and binary files are edited to pieces           test_edit "UTF-16 is said", test_files what_is_no_text_is_named
 *   a fuzzy match takes a blank too many                   test_edit_random random_edits_are_as_plain_ones (bytes outside the spans)
 *   white space makes a match fail, or two places match    test_edit "fuzzy", "two fuzzy matches", "an occurrence of them", "not found: what comes near"
 *   a link is replaced by a file, a hard link broken       test_files links_inside_are_followed, writes_whole_or_not_at_all
 *   a change by another is lost silently                   test_files a_stale_hash_is_a_conflict, only_one_creates
 * paths and searches
 *   a link, also a dangling one, leads outside             test_files no_path_leads_out, links_inside_are_followed
 *   a folder is swapped between check and use              test_files a_swapped_folder_leads_nowhere
 *   one huge line ends a search or hides its match         test_search_answers test_little_is_kept_of_a_long_line, test_search_pages test_lines_are_clipped_around_the_match
 *   node_modules fill the answer                           http/test_search lines_are_found
 *   a pattern means another thing elsewhere                test_search_patterns test_patterns_find, test_patterns_exclude
 * watching
 *   events are lost in a storm                             test_watch a_storm_is_told_as_an_overflow_and_harms_nobody, test_watcher a_full_queue_...
 *   children of new folders are never told                 test_watcher folders_made_at_once_are_told_with_all_in_them, no_child_is_lost_...
 *   a renaming comes in two halves                         test_watch a_renaming_is_told_with_both_names, a_saved_file_is_a_modification_...
 *   the system's limit of watches is passed over           test_watcher the_systems_limits_are_told */
/* clang-format on */
#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "tests/support/inside.h"
#include "tests/support/workspace_case.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void expect(const char *command, const char *output)
{
    inside_expect(the, ws, command, output);
}

static json_t *status_of(const char *ex)
{
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    return api(the, 200, "GET", path, NULL);
}

static void post(const char *what, json_t *body)
{
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/%s", ws, what);
    json_decref(api(the, 200, "POST", path, body));
}

/* ---- output ---- */

START_TEST(redrawn_lines_stay_as_they_are)
{
    struct exec_log log;
    exec_run_command(the, ws,
                     "for k in 1 50 100; do printf '\\r\\033[2KReceiving: %d%%' $k; sleep 0.05; done; printf "
                     "'\\n\\b\\t\\v'",
                     &log);
    ck_assert_str_eq(log.out,
                     "\r\033[2KReceiving: 1%\r\033[2KReceiving: 50%\r\033[2KReceiving: 100%\n\b\t\v");
    exec_log_clear(&log);
}
END_TEST

START_TEST(quick_deaths_lose_nothing)
{
    enum { COUNT = 40 };
    char ids[COUNT][40], command[100], out[40], err[40];
    for (int k = 0; k < COUNT; k++) {
        snprintf(command, sizeof command, "echo out %d; echo err %d >&2; kill -%d $$", k, k, k % 2 ? 9 : 15);
        exec_start_command(the, ws, command, ids[k]);
    }
    for (int round = 0; round < 2; round++) { /* long after the end; once more when nothing runs any more */
        for (int k = 0; k < COUNT; k++) {
            struct exec_log log;
            snprintf(out, sizeof out, "out %d\n", k);
            snprintf(err, sizeof err, "err %d\n", k);
            exec_follow(the, ws, ids[k], 20000, &log);
            ck_assert_str_eq(log.out, out);
            ck_assert_str_eq(log.err, err);
            ck_assert_int_eq(member_number(log.exit, "returncode"), k % 2 ? -9 : -15);
            exec_log_clear(&log);
        }
        post("stop", NULL);
    }
}
END_TEST

static void kill_all(void)
{
    static const char *const kinds[] = { "keep", "warden", "serve" };
    struct http_options quick = { .token = "", .timeout_ms = 2000, .unchecked = true };
    int good = 0;
    for (int k = 0; k < 3; k++)
        instance_signal(the, kinds[k], SIGKILL);
    for (long long deadline = now_ms() + 20000; good < 20 && now_ms() < deadline; sleep_ms(20)) {
        struct answer a = http_send(the, "GET", "/healthz", &quick);
        good = a.status == 200 ? good + 1 : 0;
        answer_clear(&a);
    }
}

START_TEST(an_end_is_durable)
{
    static const char *const commands[] = { "echo done; exit 3", "echo done; kill -TERM $$", "echo done" };
    char ids[3][40];
    struct exec_log before, after;
    for (int k = 0; k < 3; k++) {
        exec_start_command(the, ws, commands[k], ids[k]);
        exec_follow(the, ws, ids[k], 10000, &before);
        kill_all();
        json_auto_t *status = status_of(ids[k]);
        ck_assert_str_eq(member_text(status, "state"), "finished");
        ck_assert_int_eq(member_number(status, "returncode"), member_number(before.exit, "returncode"));
        exec_follow(the, ws, ids[k], 10000, &after);
        ck_assert_str_eq(after.out, "done\n");
        ck_assert_int_eq(after.last_seq, before.last_seq);
        ck_assert(json_equal(after.exit, before.exit));
        exec_log_clear(&before);
        exec_log_clear(&after);
    }
}
END_TEST

/* A client of few lines that can go away at any byte: HTTP/1.0, so that the body comes as it is. */
static int open_stream(const char *ex, long last_seq)
{
    char request[600];
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    address.sin_port = htons((uint16_t)atoi(strrchr(instance_url(the), ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    int length =
        snprintf(request, sizeof request,
                 "GET /api/workspaces/%s/realtime-execs/%s/events HTTP/1.0\r\nAuthorization: Bearer %s\r\n"
                 "Accept: text/event-stream\r\nLast-Event-ID: %ld\r\n\r\n",
                 ws, ex, instance_token(the), last_seq);
    ck_assert_int_eq(write(fd, request, (size_t)length), length);
    return fd;
}

/* Reads at most so many bytes; false: the stream has ended. */
static bool read_some(int fd, struct buffer *text, size_t most)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    ck_assert_int_eq(poll(&wait, 1, 20000), 1);
    ssize_t got = read(fd, buffer_reserve(text, most), most);
    ck_assert_int_ge(got, 0);
    text->length += (size_t)got;
    return got > 0;
}

/* Whole events only: what was cut off is sent again after the last whole one. */
static void take_whole_events(struct buffer *text, struct buffer *out, long *last, bool *ended)
{
    const char *at = strstr(buffer_text(text), "\r\n\r\n");
    for (at = at ? strstr(at, "id: ") : NULL; at;) {
        const char *end = strstr(at, "\n\n"), *data = strstr(at, "\ndata: ");
        if (!end || !data || data > end)
            break;
        long seq = strtol(at + 4, NULL, 10);
        ck_assert_msg(seq == *last + 1, "%ld after %ld", seq, *last);
        *last = seq;
        json_auto_t *event = json_loadb(data + 7, (size_t)(end - data - 7), 0, NULL);
        const char *type = member_text(event, "type");
        if (strcmp(type, "stdout") == 0)
            buffer_append_text(out, member_text(event, "data"));
        *ended = *ended || strcmp(type, "exit") == 0;
        at = strstr(end, "id: ");
    }
}

START_TEST(who_goes_away_loses_nothing)
{
    char ex[40];
    long last = 0, connections = 0;
    bool ended = false;
    unsigned seed = 7;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT, want = BUFFER_INIT;
    for (int k = 1; k <= 60000; k++)
        buffer_printf(&want, "%d\n", k);
    exec_start_command(the, ws,
                       "for k in $(seq 30); do seq $((k * 2000 - 1999)) $((k * 2000)); sleep 0.05; done", ex);
    for (; !ended; connections++) {
        _cleanup_buffer_ struct buffer text = BUFFER_INIT;
        size_t patience = (size_t)rand_r(&seed) % 40000;
        ck_assert_int_lt(connections, 3000);
        int fd = open_stream(ex, last);
        while (text.length < patience && read_some(fd, &text, patience - text.length))
            continue;
        close(fd);
        take_whole_events(&text, &out, &last, &ended);
    }
    ck_assert_int_gt(connections, 10);
    ck_assert_uint_eq(out.length, want.length);
    ck_assert_mem_eq(out.data, want.data, want.length);
}
END_TEST

START_TEST(a_cursor_says_where_the_reader_is)
{
    char ex[40], path[240];
    struct exec_log log;
    exec_start_command(the, ws, "echo one", ex);
    exec_follow(the, ws, ex, 10000, &log);
    for (long beyond = 0; beyond < 3000000000; beyond = beyond * 70 + 1) {
        snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?cursor=%ld&wait_seconds=20",
                 ws, ex, log.last_seq + beyond);
        if (beyond > 0) {
            api_refused(the, 400, "beyond this command's last event", "GET", path, NULL);
            continue;
        }
        long long begun = now_ms();
        json_auto_t *page = api(the, 200, "GET", path, NULL);
        ck_assert_int_lt(now_ms() - begun, 3000); /* there is nothing to wait for */
        ck_assert_uint_eq(json_array_size(json_object_get(page, "events")), 0);
        ck_assert_str_eq(member_text(page, "state"), "finished");
        ck_assert(!member_flag(page, "cursor_expired") && !member_flag(page, "has_more"));
    }
    exec_log_clear(&log);
    for (const char *const *bad = (const char *const[]){ "-1", "x", "1.5", "99999999999999999999", NULL };
         *bad; bad++) {
        snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?cursor=%s", ws, ex, *bad);
        api_refused(the, 422, "cursor", "GET", path, NULL);
    }
}
END_TEST

START_TEST(a_quiet_stream_shows_that_it_lives)
{
    char ex[40];
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    exec_start_command(the, ws, "sleep 16.5", ex);
    int fd = open_stream(ex, 0);
    while (read_some(fd, &text, 4096))
        continue;
    close(fd);
    const char *started = strstr(buffer_text(&text), "\"started\""), *from = started ? started : text.data;
    const char *comment = strstr(from, "\n: "), *end = strstr(from, "event: exit");
    ck_assert_msg(comment && end && comment < end, "%s", text.data);
}
END_TEST

START_TEST(full_pipes_lock_nobody)
{
    char ex[40];
    struct exec_log log;
    exec_start_command(the, ws, "tee /dev/stderr", ex);
    _cleanup_buffer_ struct buffer block = BUFFER_INIT;
    for (int k = 0; k < 9000; k++)
        buffer_printf(&block, "%09d\n", k);
    for (int k = 0; k < 8; k++) /* and nobody reads */
        exec_send(the, ws, ex, buffer_text(&block), k == 7);
    exec_follow(the, ws, ex, 30000, &log);
    ck_assert_uint_eq(log.out_length, 8 * block.length);
    ck_assert_uint_eq(log.err_length, 8 * block.length);
    for (int k = 0; k < 8; k++)
        ck_assert_mem_eq(log.out + (size_t)k * block.length, block.data, block.length);
    exec_log_clear(&log);
}
END_TEST

/* ---- starts and ends ---- */

static const struct {
    const char *prepare, *workdir, *error;
} failing[] = {
    { "true", "/workspace/none", "ENOENT" },
    { "true", "/etc/passwd", "ENOTDIR" },
    { "mkdir closed; chmod 0 closed", "/workspace/closed", "EACCES" },
    { "ln -s loop loop", "/workspace/loop", "ELOOP" },
    { "ln -s /nowhere gone", "/workspace/gone", "ENOENT" },
};

static void expect_failed_start(json_t *body, const char *error)
{
    char ex[40];
    struct exec_log log;
    exec_start(the, ws, body, ex);
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_str_eq(log.state, "failed");
    ck_assert(json_is_null(json_object_get(log.exit, "returncode")));
    char *text = json_dumps(log.error, 0);
    ck_assert_msg(strstr(text, error) != NULL, "%s is not in %s", error, text);
    free(text);
    json_auto_t *status = status_of(ex);
    ck_assert_str_eq(member_text(status, "state"), "failed");
    ck_assert_ptr_nonnull(strstr(member_text(status, "reason"), error));
    exec_log_clear(&log);
}

START_TEST(starts_that_fail_are_told)
{
    for (size_t k = 0; k < sizeof failing / sizeof failing[0]; k++) {
        expect(failing[k].prepare, "");
        expect_failed_start(make_json("{s:s, s:s}", "command", "pwd", "workdir", failing[k].workdir),
                            failing[k].error);
    }
    _cleanup_free_ char *large = xcalloc(1, 100001);
    memset(large, 'x', 100000);
    json_t *env = json_object();
    for (int k = 0; k < 40; k++) { /* together more than the kernel hands over */
        char name[16];
        snprintf(name, sizeof name, "LARGE_%d", k);
        json_object_set_new(env, name, json_string(large));
    }
    expect_failed_start(make_json("{s:s, s:o}", "command", "pwd", "env", env), "E2BIG");
    /* What a shell cannot execute is the shell's to tell. */
    struct exec_log log;
    exec_run_command(the, ws, "printf '\\177ELF nonsense' > odd; chmod +x odd; exec ./odd", &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 126);
    ck_assert_ptr_nonnull(strstr(log.err, "Exec format error"));
    exec_log_clear(&log);
    expect("echo fine", "fine\n");
}
END_TEST

START_TEST(the_last_bytes_are_there)
{
    struct exec_log log;
    for (int k = 0; k < 10; k++) {
        exec_run_command(
            the, ws,
            "exec python3 -c 'import os; os.write(2, b\"e\" * 65536); os.write(1, b\"x\" * 65535 + b\"!\"); "
            "os._exit(3)'",
            &log);
        ck_assert_uint_eq(log.out_length, 65536);
        ck_assert_uint_eq(log.err_length, 65536);
        ck_assert_int_eq(log.out[65535], '!');
        ck_assert_int_eq(member_number(log.exit, "returncode"), 3);
        ck_assert_int_eq(member_number(log.exit, "seq"), log.last_seq);
        exec_log_clear(&log);
    }
}
END_TEST

START_TEST(nobody_is_asked)
{
    char path[100];
    long long begun = now_ms();
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    json_auto_t *answer =
        api(the, 200, "POST", path,
            make_json("{s:s}", "command",
                      "read -r x; echo \"input $?\"; { read -r x < /dev/tty; } 2>/dev/null; echo "
                      "\"terminal $?\"; test -t 0 || echo none; "
                      "echo $CI $DEBIAN_FRONTEND $GIT_TERMINAL_PROMPT $PAGER $GIT_PAGER"));
    ck_assert_str_eq(member_text(answer, "stdout"),
                     "input 1\nterminal 1\nnone\n1 noninteractive 0 cat cat\n");
    ck_assert_int_lt(now_ms() - begun, 5000);
}
END_TEST

START_TEST(an_interrupt_reaches_one_command)
{
    char hit[40], other[40];
    struct exec_log log;
    exec_start_command(the, ws, "echo ready; sleep 100", hit);
    exec_start(the, ws,
               make_json("{s:s, s:b}", "command", "echo ready; read -r x; echo \"got $x\"", "pty", 1), other);
    exec_wait_output(the, ws, hit, "ready", 5000);
    exec_wait_output(the, ws, other, "ready", 5000);
    char what[120];
    snprintf(what, sizeof what, "realtime-execs/%s/cancel", hit);
    post(what, make_json("{s:s}", "signal_name", "INT"));
    exec_follow(the, ws, hit, 10000, &log);
    ck_assert_str_eq(log.state, "cancelled");
    ck_assert_int_eq(member_number(log.exit, "returncode"), -2);
    exec_log_clear(&log);
    exec_send(the, ws, other, "it\n", false);
    exec_follow(the, ws, other, 10000, &log);
    ck_assert_ptr_nonnull(strstr(log.out, "got it"));
    exec_log_clear(&log);
}
END_TEST

START_TEST(ends_are_told_apart)
{
    static const struct {
        const char *command, *state, *signal;
        bool timed_out;
    } rows[] = { { "true", "finished", NULL, false },
                 { "kill -9 $$", "finished", "KILL", false },
                 { "sleep 100", "finished", "TERM", true } };
    char ex[40], path[200];
    struct exec_log log;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        exec_start(the, ws, make_json("{s:s, s:i}", "command", rows[k].command, "timeout_seconds", 1), ex);
        exec_follow(the, ws, ex, 15000, &log);
        exec_log_clear(&log);
        json_auto_t *status = status_of(ex);
        const char *signal = json_string_value(json_object_get(status, "signal"));
        ck_assert_str_eq(member_text(status, "state"), rows[k].state);
        ck_assert_msg(rows[k].signal ? signal && !strcmp(signal, rows[k].signal) : !signal, "%s", signal);
        ck_assert_int_eq(member_flag(status, "timed_out"), rows[k].timed_out);
    }
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/ex-%032d", ws, 0);
    api_refused(the, 404, "", "GET", path, NULL);
    snprintf(path, sizeof path, "/api/workspaces/ws-%032d/realtime-execs/%s", 0, ex);
    api_refused(the, 404, "", "GET", path, NULL);
}
END_TEST

/* ---- on the way ---- */

START_TEST(events_come_one_by_one)
{
    char ex[40], line[32];
    long long last = 0;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    exec_start_command(the, ws, "for k in 1 2 3 4 5; do echo line $k; sleep 0.4; done", ex);
    int fd = open_stream(ex, 0);
    for (int k = 1; k <= 5; k++) {
        snprintf(line, sizeof line, "line %d", k);
        while (!strstr(buffer_text(&text), line))
            ck_assert(read_some(fd, &text, 4096));
        ck_assert_msg(k == 1 || now_ms() - last > 100, "line %d came %lld ms after the one before", k,
                      now_ms() - last);
        snprintf(line, sizeof line, "line %d", k + 1);
        ck_assert_ptr_null(strstr(buffer_text(&text), line));
        last = now_ms();
    }
    close(fd);
    ck_assert_ptr_nonnull(strcasestr(text.data, "\r\nX-Accel-Buffering: no\r\n"));
    ck_assert_ptr_nonnull(strcasestr(text.data, "\r\nContent-Type: text/event-stream"));
    ck_assert_ptr_nonnull(strcasestr(text.data, "no-transform\r\n"));
    ck_assert_ptr_null(strcasestr(text.data, "Content-Encoding"));
}
END_TEST

/* ---- limits ---- */

START_TEST(out_of_memory_is_told)
{
    static const char *const commands[] = {
        "exec python3 -c 'x = b\"x\" * (700 << 20); print(len(x))'",
        "python3 -c 'x = b\"x\" * (700 << 20); print(len(x))'",
        "python3 -c 'import time\nx = b\"x\" * (200 << 20)\nwhile True: x += b\"y\" "
        "* (1 << 20)'"
    };
    char small[40], ex[40];
    struct exec_log log;
    workspace_create(the, make_json("{s:i, s:i}", "memory_mib", 128, "memory_limit_mib", 256), small);
    for (int k = 0; k < 3; k++) {
        exec_start_command(the, small, commands[k], ex);
        exec_follow(the, small, ex, 60000, &log);
        long long code = member_number(log.exit, "returncode");
        ck_assert_msg(member_flag(log.exit, "oom_killed"), "%s: returncode %lld, not told", commands[k],
                      code);
        ck_assert_msg(code == -9 || code == 137, "returncode %lld", code);
        exec_log_clear(&log);
        exec_run_command(the, small, "kill -9 $$", &log); /* and any kill is not taken for it */
        ck_assert(!member_flag(log.exit, "oom_killed"));
        exec_log_clear(&log);
    }
    inside_expect(the, small, "echo alive", "alive\n");
    workspace_terminate(the, small);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("field faults");
    TCase *c = tcase_create("one workspace for each test");
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_set_timeout(c, 90);
    tcase_add_test(c, redrawn_lines_stay_as_they_are);
    tcase_add_test(c, quick_deaths_lose_nothing);
    tcase_add_test(c, an_end_is_durable);
    tcase_add_test(c, who_goes_away_loses_nothing);
    tcase_add_test(c, a_cursor_says_where_the_reader_is);
    tcase_add_test(c, a_quiet_stream_shows_that_it_lives);
    tcase_add_test(c, full_pipes_lock_nobody);
    tcase_add_test(c, starts_that_fail_are_told);
    tcase_add_test(c, the_last_bytes_are_there);
    tcase_add_test(c, nobody_is_asked);
    tcase_add_test(c, an_interrupt_reaches_one_command);
    tcase_add_test(c, ends_are_told_apart);
    tcase_add_test(c, events_come_one_by_one);
    tcase_add_test(c, out_of_memory_is_told);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
