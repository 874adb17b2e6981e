/* Searches through a real web server and a real sandbox: as REST and as tools, their layouts, what is refused
 * with which status, and that neither a command nor a setting of the sandbox stands in for ripgrep. */
#include "lib/base/buffer.h"
#include "tests/support/fcgi.h"
#include "tests/support/workspace_case.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void run(const char *command)
{
    struct exec_log log;
    exec_run_command(the, ws, command, &log);
    ck_assert_str_eq(log.out, "");
    ck_assert_str_eq(log.err, "");
    exec_log_clear(&log);
}

static const json_t *item(const json_t *object, const char *list, size_t index)
{
    const json_t *found = json_array_get(json_object_get(object, list), index);
    ck_assert_msg(found != NULL, "no %s[%zu]", list, index);
    return found;
}

static size_t count(const json_t *object, const char *list)
{
    return json_array_size(json_object_get(object, list));
}

/* ---- REST ---- */

START_TEST(names_are_found_in_pages)
{
    run("mkdir -p src/a/b .git && touch src/x.c src/a/y.c src/a/b/z.c src/x_test.c .git/g.c .h.c && touch "
        "$'new\\nl\\xff.c'");
    json_auto_t *all = ws_get("search?pattern=*.c");
    ck_assert_uint_eq(count(all, "matches"), 6);
    ck_assert_str_eq(member_text(item(all, "matches", 0), "path"), ".h.c");
    ck_assert_str_eq(member_text(item(all, "matches", 1), "path"), "new\nl\xef\xbf\xbd.c");
    ck_assert_str_eq(member_text(item(all, "matches", 1), "path_base64"), "bmV3Cmz/LmM=");
    ck_assert(!member_flag(all, "has_more") && !member_flag(all, "timed_out"));
    json_auto_t *deep =
        ws_get("search?pattern=src/**/*.c&exclude_patterns=*_test.c&exclude_patterns=src/a/b");
    ck_assert_uint_eq(count(deep, "matches"), 2);
    json_auto_t *exact = ws_get("search?pattern=*.c&limit=6");
    ck_assert(!member_flag(exact, "has_more"));
    json_auto_t *page = ws_get("search?pattern=*.c&limit=5");
    ck_assert(member_flag(page, "has_more"));
    run("rm src/x_test.c .h.c; touch src/x_u.c");
    char rest[300];
    snprintf(rest, sizeof rest, "search?pattern=*.c&limit=5&cursor=%s", member_text(page, "next_cursor"));
    json_auto_t *next = ws_get(rest);
    ck_assert_uint_eq(count(next, "matches"), 1);
    ck_assert_str_eq(member_text(item(next, "matches", 0), "path"), "src/x_u.c");
}
END_TEST

START_TEST(lines_are_found)
{
    run("mkdir src && printf 'int main(void)\\n{\\n    return 0;\\n}\\n' > src/main.c && printf 'def "
        "main():\\n    pass\\n' > main.py");
    json_auto_t *all = ws_get("grep?pattern=main%5C(&context_lines=1");
    ck_assert_int_eq(member_number(all, "matches"), 2);
    const json_t *file = item(all, "files", 1);
    ck_assert_str_eq(member_text(file, "path"), "src/main.c");
    const json_t *line = item(file, "lines", 0);
    ck_assert_int_eq(member_number(line, "line"), 1);
    ck_assert_int_eq(member_number(line, "column"), 5);
    ck_assert_str_eq(member_text(line, "text"), "int main(void)");
    ck_assert(!member_flag(item(file, "lines", 1), "matched"));
    json_auto_t *c = ws_get("grep?pattern=MAIN(&literal=true&case_sensitive=false&include_patterns=*.c");
    ck_assert_int_eq(member_number(c, "matches"), 1);
    json_auto_t *page = ws_get("grep?pattern=main&limit=1");
    ck_assert(member_flag(page, "has_more"));
    char rest[300];
    snprintf(rest, sizeof rest, "grep?pattern=main&limit=1&cursor=%s", member_text(page, "next_cursor"));
    json_auto_t *next = ws_get(rest);
    ck_assert_str_eq(member_text(item(next, "files", 0), "path"), "src/main.c");
    ck_assert(!member_flag(next, "has_more"));
}
END_TEST

START_TEST(problems_have_their_status)
{
    run("mkfifo f; ln -s /etc out");
    ws_refused(400, "traversal", "GET", "search?pattern=../../etc/passwd", NULL);
    ws_refused(400, "absolute", "GET", "search?pattern=/etc/*", NULL);
    ws_refused(400, "traversal", "GET", "search?pattern=~/x", NULL);
    ws_refused(400, "'[' has no ']'", "GET", "search?pattern=%5Ba", NULL);
    ws_refused(400, "exclude_patterns", "GET", "search?pattern=a&exclude_patterns=%7Ba", NULL);
    ws_refused(422, "pattern", "GET", "search", NULL);
    ws_refused(422, "pattern", "GET", "search?pattern=", NULL);
    ws_refused(422, "limit", "GET", "search?pattern=a&limit=0", NULL);
    ws_refused(422, "wait_seconds", "GET", "search?pattern=a&wait_seconds=51", NULL);
    ws_refused(400, "cursor", "GET", "search?pattern=a&cursor=AAAA", NULL);
    ws_refused(422, "cursor", "GET", "search?pattern=a&cursor=x", NULL);
    ws_refused(400, "unclosed group", "GET", "grep?pattern=(a", NULL);
    ws_refused(400, "line end", "GET", "grep?pattern=a%0Ab", NULL);
    ws_refused(400, "pattern", "GET", "grep?pattern=a%5Cnb", NULL);
    ws_refused(400, "cursor", "GET", "grep?pattern=a&cursor=AAAA", NULL);
    ws_refused(404, "does not exist", "GET", "grep?pattern=a&path=none", NULL);
    ws_refused(400, "FIFO", "GET", "grep?pattern=a&path=f", NULL);
    ws_refused(400, "leads out", "GET", "grep?pattern=a&path=out", NULL);
    ws_refused(400, "leads out", "GET", "grep?pattern=root&path=/etc/passwd", NULL);
    ws_refused(400, "NUL", "GET", "search?pattern=a%00b", NULL);
    api_refused(the, 404, "no workspace", "GET",
                "/api/workspaces/ws-00000000000000000000000000000000/grep?pattern=x", NULL);
}
END_TEST

START_TEST(links_lead_nowhere)
{
    run("ln -s /etc etc; ln -s / root; ln -s /etc/passwd passwd; ln -s . loop; echo root: > real");
    json_auto_t *lines = ws_get("grep?pattern=root:&limit=1000&gitignore=false&default_ignores=false");
    ck_assert_int_eq(member_number(lines, "matches"), 1);
    json_auto_t *names = ws_get("search?pattern=passwd*&limit=1000");
    ck_assert_uint_eq(count(names, "matches"), 1);
    ck_assert_str_eq(member_text(item(names, "matches", 0), "type"), "link");
    json_auto_t *below = ws_get("search?pattern=etc/*");
    ck_assert_uint_eq(count(below, "matches"), 0);
}
END_TEST

/* Programs of that name, settings, and whatever a command puts where programs are looked for. */
START_TEST(nothing_stands_in_for_ripgrep)
{
    run("mkdir -p ~/.local/bin && printf '#!/bin/sh\\necho run >> /workspace/was-run\\n' | tee rg "
        "~/.local/bin/rg > /dev/null && "
        "chmod +x rg ~/.local/bin/rg && echo needle > f && printf -- "
        "'--invert-match\\n--pre=/workspace/rg\\n' > ~/.ripgreprc && "
        "echo 'export RIPGREP_CONFIG_PATH=~/.ripgreprc PATH=/workspace:$PATH' | tee ~/.profile ~/.bashrc > "
        "~/.bash_profile && "
        "mkdir -p ~/.config/git && echo '*' > ~/.config/git/ignore");
    json_auto_t *lines = ws_get("grep?pattern=needle&include_patterns=f");
    _cleanup_free_ char *told = json_dumps(lines, 0);
    ck_assert_msg(member_number(lines, "matches") == 1, "%s", told);
    json_auto_t *names = ws_get("search?pattern=was-run");
    ck_assert_uint_eq(count(names, "matches"), 0);
    struct exec_log log;
    exec_run_command(the, ws,
                     "for f in /run/workspace/rg /usr/bin/rg; do echo x > $f || rm $f || mv $f x || ln -sf x "
                     "$f || mount --bind rg $f || "
                     "echo kept; done 2>/dev/null; mv /run/workspace /run/x 2>/dev/null || echo kept",
                     &log);
    ck_assert_str_eq(log.out, "kept\nkept\nkept\n");
    exec_log_clear(&log);
}
END_TEST

START_TEST(a_stopped_workspace_starts_for_a_search)
{
    run("echo needle > f");
    json_decref(ws_post("stop", json_object()));
    json_auto_t *lines = ws_get("grep?pattern=needle");
    ck_assert_int_eq(member_number(lines, "matches"), 1);
}
END_TEST

START_TEST(an_endless_search_is_ended)
{
    run("echo needle > a; truncate -s 900G big; echo needle > z");
    long long started = now_ms();
    json_auto_t *lines = ws_get("grep?pattern=needle&wait_seconds=2");
    ck_assert_int_lt(now_ms() - started, 12000);
    ck_assert(member_flag(lines, "timed_out") && member_flag(lines, "has_more"));
    ck_assert(strstr(member_text(lines, "notice"), "ended after 2 seconds") != NULL);
    struct exec_log log;
    exec_run_command(the, ws, "pgrep -c -x rg; true", &log);
    ck_assert_str_eq(log.out, "0\n");
    exec_log_clear(&log);
}
END_TEST

/* What it never comes to the end of is told by name, and what stands behind it is found. */
START_TEST(an_endless_file_is_told_and_passed)
{
    run("echo needle > a; truncate -s 900G big; echo needle > z");
    char found[200] = "", rest[300] = "grep?pattern=needle&wait_seconds=1", at[200] = "";
    for (int pages = 0;; pages++) {
        ck_assert_int_lt(pages, 8);
        json_auto_t *page = ws_get(rest);
        for (size_t i = 0; i < count(page, "files"); i++)
            strcat(strcat(found, " "), member_text(item(page, "files", i), "path"));
        for (size_t i = 0; i < count(page, "skipped"); i++) {
            strcat(strcat(found, " -"), member_text(item(page, "skipped", i), "path"));
            ck_assert(strstr(member_text(page, "notice"), "; big alone takes longer") != NULL);
        }
        if (!member_flag(page, "has_more"))
            break;
        ck_assert_str_ne(member_text(page, "next_cursor"), at);
        snprintf(at, sizeof at, "%s", member_text(page, "next_cursor"));
        snprintf(rest, sizeof rest, "grep?pattern=needle&wait_seconds=1&cursor=%s", at);
    }
    ck_assert_str_eq(found, " a -big z");
}
END_TEST

/* As a web server that closes when its client goes. */
static int ask_as_web_server(const char *rest)
{
    char path[300], authorization[200];
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    const char *const pairs[] = { "CONTENT_LENGTH", "0", "HTTP_AUTHORIZATION", authorization, NULL };
    snprintf(path, sizeof path, "%s/fcgi.sock", instance_state(the));
    snprintf(authorization, sizeof authorization, "Bearer %s", instance_token(the));
    int fd = fcgi_connect(path);
    fcgi_add_begin(&out, 1, 1, false);
    fcgi_add_params(&out, 1, "GET", ws_path(rest), pairs);
    fcgi_add_stdin(&out, 1, NULL, 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    return fd;
}

static void expect_greps_end(int within_ms)
{
    struct exec_log log = { 0 };
    long long end = now_ms() + within_ms;
    do {
        exec_log_clear(&log);
        exec_run_command(the, ws, "pgrep -c -x 'rg|ws-files'; true", &log);
    } while (strcmp(log.out, "0\n") != 0 && now_ms() < end);
    ck_assert_str_eq(log.out, "0\n");
    exec_log_clear(&log);
}

static void ask_forty(int fds[static 40], const char *rest)
{
    run("echo needle > a; truncate -s 900G big");
    for (size_t i = 0; i < 40; i++)
        fds[i] = ask_as_web_server(rest);
    sleep_ms(2000);
}

/* Nobody waits for them: others get their places. */
START_TEST(searches_of_clients_that_went_keep_nobody_waiting)
{
    int fds[40];
    ask_forty(fds, "grep?pattern=nothing&wait_seconds=25");
    for (size_t i = 0; i < 40; i++)
        close(fds[i]);
    long long started = now_ms();
    json_auto_t *lines = ws_get("grep?pattern=needle&path=a&wait_seconds=20");
    ck_assert_int_lt(now_ms() - started, 10000);
    ck_assert_int_eq(member_number(lines, "matches"), 1);
    expect_greps_end(5000);
}
END_TEST

/* More than have a place: each has its answer in its time, and nothing works on after it. */
START_TEST(searches_beyond_the_places_end_in_their_time)
{
    int fds[40], whole = 0, refusals = 0;
    long long started = now_ms();
    ask_forty(fds, "grep?pattern=nothing&wait_seconds=6");
    ws_refused(429, "nothing was done", "GET", "grep?pattern=needle&path=a&wait_seconds=1", NULL);
    ck_assert_int_lt(now_ms() - started, 6000);
    for (size_t i = 0; i < 40; i++) {
        struct fcgi_answer a;
        ck_assert(fcgi_read(fds[i], 1, &a));
        whole += a.status == 200;
        refusals += a.status == 429;
        fcgi_answer_free(&a);
        close(fds[i]);
    }
    ck_assert_int_lt(now_ms() - started, 15000);
    ck_assert_int_ge(whole, 8);
    ck_assert_int_eq(whole + refusals, 40);
    expect_greps_end(3000);
}
END_TEST

/* ---- tools ---- */

/* All blocks of text, a line between them. */
static void expect_text(const char *tool, json_t *arguments, const char *expected)
{
    json_auto_t *result = tool_call_here(tool, arguments);
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    const json_t *block;
    size_t index;
    json_array_foreach(json_object_get(result, "content"), index, block)
        buffer_printf(&text, "%s%s", index ? "\n====\n" : "", member_text(block, "text"));
    ck_assert_str_eq(buffer_text(&text), expected);
}

START_TEST(names_have_the_known_layout)
{
    run("mkdir d && touch a.py b.py d/c.py $'new\\nline.txt' $'bad\\xff.txt'");
    expect_text("search_workspace", make_json("{s:s}", "pattern", "*.py"),
                "Found 3 matches:\na.py\nb.py\nd/c.py");
    expect_text("search_workspace", make_json("{s:s, s:[s]}", "pattern", "*.py", "exclude_patterns", "d/*"),
                "Found 2 matches:\na.py\nb.py");
    expect_text("search_workspace", make_json("{s:s, s:i}", "pattern", "*.py", "limit", 3),
                "Found 3 matches:\na.py\nb.py\nd/c.py");
    expect_text("search_workspace", make_json("{s:s, s:i}", "pattern", "*.py", "limit", 2),
                "Found 2 matches:\na.py\nb.py\n... truncated at 2 results. Narrow your pattern.\n====\n[go "
                "on with cursor ZC9jLnB5]");
    expect_text("search_workspace", make_json("{s:s}", "pattern", "*.rs"),
                "No files found matching pattern '*.rs'.");
    expect_text(
        "search_workspace", make_json("{s:s}", "pattern", "d"),
        "No files found matching pattern 'd'.\n====\n[only folders match, which are not told: end the "
        "pattern with / (docs/) to find the files in them]");
    expect_text("search_workspace", make_json("{s:s}", "pattern", "d/"), "Found 1 matches:\nd/c.py");
    expect_text("search_workspace", make_json("{s:s}", "pattern", "*.rs,*.go"),
                "No files found matching pattern '*.rs,*.go'.\n====\n[a comma in pattern is part of a name: "
                "several patterns are {*.c,*.h}]");
    expect_text(
        "search_workspace",
        make_json("{s:s, s:[s, s]}", "pattern", "*.py", "exclude_patterns", "a.py,b.py", "{x,y},[,]\\,"),
        "Found 3 matches:\na.py\nb.py\nd/c.py\n====\n[a comma in exclude_patterns is part of a name: "
        "give several patterns as several items, or as {a,b}]");
    expect_text("search_workspace", make_json("{s:s}", "pattern", "*.txt"),
                "Found 2 matches:\nbad\\xff.txt\nnew\\x0aline.txt");
    run("touch $(seq -f f%g 60)");
    json_auto_t *most = tool_call_here("search_workspace", make_json("{s:s}", "pattern", "f*"));
    ck_assert_uint_eq(count(json_object_get(most, "structuredContent"), "matches"), 50);
}
END_TEST

#define NOT_SEARCHED                                                                                         \
    "[not searched: what .gitignore says (gitignore=false), node_modules, .git, .venv and the like "         \
    "(default_ignores=false)]"

START_TEST(lines_have_a_layout)
{
    run("mkdir d && printf 'one\\ntwo needle\\nthree\\n4\\n5\\nneedle\\n' > d/a.txt && printf 'needle "
        "needle\\n' > b && seq 30 | sed 's/$/ needle/' > c && "
        "printf 'needle\\n\\0' > bin && (head -c 2000 /dev/zero | tr '\\0' x; echo needle) > $'wide\\n'");
    expect_text("grep_workspace",
                make_json("{s:s, s:s, s:i}", "pattern", "needle", "path", "d", "context_lines", 1),
                "Found 2 matching lines in 1 file:\nd/a.txt\n1- one\n2: two needle\n3- three\n--\n5- 5\n6: "
                "needle\n====\n" NOT_SEARCHED);
    expect_text("grep_workspace",
                make_json("{s:s, s:[s]}", "pattern", "needle", "exclude_patterns", "{wide*,bin,d}"),
                "Found 21 matching lines in 2 files:\nb\n1: needle needle\nc\n1: 1 needle\n2: 2 needle\n3: 3 "
                "needle\n4: 4 needle\n5: 5 needle\n6: 6 "
                "needle\n7: 7 needle\n8: 8 needle\n9: 9 needle\n10: 10 needle\n11: 11 needle\n12: 12 "
                "needle\n13: 13 needle\n14: 14 needle\n15: 15 "
                "needle\n16: 16 needle\n17: 17 needle\n18: 18 needle\n19: 19 needle\n20: 20 needle\n... more "
                "than 20 lines of this file match.\n====\n[1 file has more matching lines than max_per_file "
                "(20)]");
    expect_text(
        "grep_workspace",
        make_json("{s:s, s:[s], s:i}", "pattern", "needle", "include_patterns", "{b,bin,d/*}", "limit", 2),
        "Found 2 matching lines in 2 files:\nb\n1: needle needle\nd/a.txt\n2: two needle\n====\n[1 binary "
        "file matches and is not "
        "shown; go on with cursor NjpkL2EudHh0]");
    expect_text("grep_workspace", make_json("{s:s}", "pattern", "nothing such"),
                "No lines found matching 'nothing such'.\n====\n" NOT_SEARCHED);
    expect_text(
        "grep_workspace",
        make_json("{s:s, s:s}", "pattern", "nothing such", "path", "d/a.txt"), /* whatever is ignored */
        "No lines found matching 'nothing such'.");
    expect_text(
        "grep_workspace",
        make_json("{s:s, s:b, s:b, s:[s]}", "pattern", "nothing such", "gitignore", 0, "default_ignores", 0,
                  "exclude_patterns", "*.md,b"),
        "No lines found matching 'nothing such'.\n====\n[a comma in exclude_patterns is part of a name: "
        "give several patterns as several items, or as {a,b}]");
    json_auto_t *wide = tool_call_here(
        "grep_workspace", make_json("{s:s, s:[s]}", "pattern", "needle$", "include_patterns", "wide*"));
    const char *text = member_text(item(wide, "content", 0), "text");
    ck_assert_msg(strstr(text, "\nwide\\x0a\n1: (column 2001) [... 1506 bytes ...] xxxx") != NULL, "%.200s",
                  text);
}
END_TEST

START_TEST(answers_hold_their_bounds)
{
    run("for i in $(seq 100); do seq -f '%06g \"a\" \\ é needle \\\"' 100 > f$i; done");
    json_auto_t *result = tool_call_here("grep_workspace", make_json("{s:s, s:i, s:i}", "pattern", "needle",
                                                                     "limit", 5000, "max_per_file", 100));
    char *text = json_dumps(result, JSON_COMPACT);
    ck_assert_uint_le(strlen(text), 90000);
    ck_assert_uint_ge(strlen(text), 40000);
    free(text);
    struct answer a = http_send(the, "GET", ws_path("grep?pattern=needle&limit=5000&max_per_file=100"), NULL);
    ck_assert_uint_le(a.length, 90000);
    ck_assert_uint_ge(a.length, 60000);
    answer_clear(&a);
    a = http_send(the, "GET", ws_path("grep?pattern=needle&limit=5000&max_bytes=1024"), NULL);
    ck_assert_uint_le(a.length, 1024);
    answer_clear(&a);
    run("mkdir many && cd many && touch $(seq -f 'a-name-of-a-file-%g' 5000)");
    json_auto_t *names =
        tool_call_here("search_workspace", make_json("{s:s, s:i}", "pattern", "many/*", "limit", 5000));
    text = json_dumps(names, JSON_COMPACT);
    ck_assert_uint_le(strlen(text), 90000);
    free(text);
    a = http_send(the, "GET", ws_path("search?pattern=many/*&limit=5000"), NULL);
    ck_assert_uint_le(a.length, 90000);
    ck_assert_uint_ge(a.length, 40000);
    answer_clear(&a);
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_LOG_LEVEL=debug", NULL };
    Suite *suite = suite_create("search");
    TCase *tests = tcase_create("search");
    tcase_add_checked_fixture(tests, ws_make, ws_end);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, names_are_found_in_pages);
    tcase_add_test(tests, lines_are_found);
    tcase_add_test(tests, problems_have_their_status);
    tcase_add_test(tests, links_lead_nowhere);
    tcase_add_test(tests, nothing_stands_in_for_ripgrep);
    tcase_add_test(tests, a_stopped_workspace_starts_for_a_search);
    tcase_add_test(tests, an_endless_search_is_ended);
    tcase_add_test(tests, an_endless_file_is_told_and_passed);
    tcase_add_test(tests, searches_of_clients_that_went_keep_nobody_waiting);
    tcase_add_test(tests, searches_beyond_the_places_end_in_their_time);
    tcase_add_test(tests, names_have_the_known_layout);
    tcase_add_test(tests, lines_have_a_layout);
    tcase_add_test(tests, answers_hold_their_bounds);
    suite_add_tcase(suite, tests);
    return suite_main(suite, environment);
}
