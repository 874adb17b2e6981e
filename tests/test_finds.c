/* Searches of a real agent, as the keeper's end of the channel sees them: on trees that are odd, deep, large
 * or changing, what is found is all that is there, in order, in pages of any size; nothing hangs them or
 * leads out. */
#include "lib/agent/search/glob.h"
#include "lib/agent/search/order.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "tests/support/agent_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static int folder_fd; /* the workspace, seen from outside */

static void set_up(void)
{
    agent_setup();
    folder_fd = open(peer->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
}

static void tear_down(void)
{
    char command[200];
    snprintf(command, sizeof command, "chmod -R u+rwx '%s' 2>/dev/null; rm -rf '%s'/*", peer->workspace,
             peer->workspace);
    ck_assert_int_ge(system(command), 0);
    close(folder_fd);
    agent_teardown();
}

/* ---- calls ---- */

static json_t *message_of(const char *call, const char *format, va_list arguments)
{
    json_error_t problem;
    json_t *message = json_vpack_ex(&problem, 0, format, arguments);
    ck_assert_msg(message != NULL, "%s", problem.text);
    json_object_set_new(message, "op", json_string("file"));
    json_object_set_new(message, "call", json_string(call));
    return message;
}

/* The reply's error or ret, which lives as long as the peer. */
static const json_t *ask(const json_t *message, bool good)
{
    struct peer_exec *call = peer_request(peer, message);
    ck_assert(peer_until(peer, call->closed, 60000));
    ck_assert(call->replied);
    const json_t *part = json_object_get(call->reply, good ? "ret" : "error");
    _cleanup_free_ char *text = json_dumps(call->reply, 0);
    ck_assert_msg(part != NULL, "%.300s", text);
    return part;
}

static const json_t *search(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_auto_t *message = message_of("search", format, arguments);
    va_end(arguments);
    return ask(message, true);
}

/* With what the operation fills in where nothing is said. */
static json_t *grep_message(const char *format, va_list arguments)
{
    json_t *message = message_of("grep", format, arguments);
    json_auto_t *usual = json_pack("{s:s, s:b, s:b, s:b, s:b}", "path", ".", "case_sensitive", 1, "gitignore",
                                   1, "hidden", 1, "default_ignores", 1);
    json_object_update_missing(message, usual);
    return message;
}

static const json_t *grep(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_auto_t *message = grep_message(format, arguments);
    va_end(arguments);
    return ask(message, true);
}

static const char *grep_refused(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_auto_t *message = grep_message(format, arguments);
    va_end(arguments);
    return json_string_value(json_object_get(ask(message, false), "message"));
}

static const char *text(const json_t *ret, const char *name)
{
    const char *value = json_string_value(json_object_get(ret, name));
    return value ? value : "";
}

static long long number(const json_t *ret, const char *name)
{
    ck_assert_msg(json_is_integer(json_object_get(ret, name)), "%s is no number", name);
    return json_integer_value(json_object_get(ret, name));
}

/* Exact paths of what was found, a line each (a newline in one is shown as \n). */
static void append_paths(struct buffer *out, const json_t *list)
{
    const json_t *item;
    size_t index;
    json_array_foreach(list, index, item) {
        _cleanup_buffer_ struct buffer path = BUFFER_INIT;
        const char *exact = text(item, "path_base64");
        if (!*exact || !base64_decode(exact, strlen(exact), &path))
            buffer_append_text(&path, text(item, "path"));
        for (size_t i = 0; i < path.length; i++)
            if (path.data[i] == '\n')
                buffer_append_text(out, "\\n");
            else
                buffer_append_char(out, path.data[i]);
        buffer_append_char(out, '\n');
    }
}

static void expect_found(const char *pattern, const char *paths)
{
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    const json_t *ret = search("{s:s, s:i}", "pattern", pattern, "limit", 1000);
    append_paths(&found, json_object_get(ret, "matches"));
    ck_assert_msg(!strcmp(buffer_text(&found), paths), "%s found:\n%s", pattern, buffer_text(&found));
}

/* "path:line:text" a line each. */
static void append_lines(struct buffer *out, const json_t *ret)
{
    const json_t *file, *line;
    size_t i, k;
    json_array_foreach(json_object_get(ret, "files"), i, file)
        json_array_foreach(json_object_get(file, "lines"), k, line)
            buffer_printf(out, "%s%c%lld%c%s\n", text(file, "path"),
                          json_is_true(json_object_get(line, "matched")) ? ':' : '-', number(line, "line"),
                          json_is_true(json_object_get(line, "matched")) ? ':' : '-', text(line, "text"));
}

static void expect_lines(const json_t *ret, const char *lines)
{
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    append_lines(&found, ret);
    ck_assert_msg(!strcmp(buffer_text(&found), lines), "found:\n%s\nnot:\n%s", buffer_text(&found), lines);
}

/* ---- the disk ---- */

static void put(const char *name, const char *data, size_t length)
{
    int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_msg(fd >= 0, "%s", name);
    ck_assert_int_eq(io_write_all(fd, data, length, NULL), 0);
    close(fd);
}

static void put_text(const char *name, const char *data)
{
    put(name, data, strlen(data));
}

static void in_workspace(const char *command)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (fchdir(folder_fd) == 0)
            execl("/bin/bash", "bash", "-c", command, NULL);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", command);
}

/* Folders in folders, without paths that are too long. */
static void make_deep(int levels)
{
    int fd = dup(folder_fd);
    for (int i = 0; i < levels; i++) {
        ck_assert_int_eq(mkdirat(fd, "d", 0755), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(next, 0);
        close(fd);
        fd = next;
        if (i % 1000 == 7)
            close(openat(fd, "needle.txt", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
    close(fd);
}

/* ---- names ---- */

START_TEST(names_are_found_in_order)
{
    in_workspace(
        "mkdir -p a/b .git .h node_modules x/.venv && touch a/b/z.py a/b.py a.py .h/q.py b.txt .git/c.py "
        "node_modules/m.py x/.venv/v.py x/.venv2.py");
    expect_found("*.py", ".h/q.py\na/b/z.py\na/b.py\na.py\nnode_modules/m.py\nx/.venv2.py\n");
    expect_found("a/**/*.py", "a/b/z.py\na/b.py\n");
    expect_found("a", "");
    expect_found("a/", "a/b/z.py\na/b.py\n");
    expect_found("none", "");
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    append_paths(&found, json_object_get(search("{s:s, s:[s, s]}", "pattern", "**/*.py", "exclude_patterns",
                                                "a/b", ".h*"),
                                         "matches"));
    ck_assert_str_eq(buffer_text(&found), "a/b.py\na.py\nnode_modules/m.py\nx/.venv2.py\n");
}
END_TEST

START_TEST(what_is_odd_is_told_as_it_is)
{
    in_workspace("mkdir d && ln -s d to-folder && ln -s f to-file && ln -s nowhere dangling && ln -s . loop "
                 "&& ln -s /etc out && "
                 "mkfifo fifo && touch f d/f $'new\\nline' $'bad\\xff' && ln -s / root && ln -s ../d d/up");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", peer->workspace);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    /* Links out of the workspace lead to no folder of it. */
    expect_found("**", "bad\xff\nd/f\ndangling\nf\nfifo\nnew\\nline\nout\nroot\nsocket\nto-file\n");
    const json_t *found = json_object_get(search("{s:s}", "pattern", "{fifo,f,to-file}"), "matches");
    ck_assert_uint_eq(json_array_size(found), 4);
    ck_assert_str_eq(text(json_array_get(found, 0), "type"), "file");
    ck_assert_str_eq(text(json_array_get(found, 2), "type"), "other");
    ck_assert_str_eq(text(json_array_get(found, 3), "type"), "link");
}
END_TEST

START_TEST(ten_thousand_levels_are_no_problem)
{
    make_deep(10000);
    put_text("last", "needle\n");
    const json_t *ret = search("{s:s}", "pattern", "*");
    ck_assert_uint_eq(json_array_size(json_object_get(ret, "matches")),
                      4); /* 7, 1007, (2007 is too deep by one name) */
    ck_assert_int_ge(number(ret, "too_deep"), 1);
    ret = grep("{s:s}", "pattern", "needle");
    expect_lines(ret, "last:1:needle\n");
    ck_assert_int_ge(number(ret, "unreadable"), 1);
    in_workspace("rm -rf d");
}
END_TEST

/* ---- pages ---- */

static void make_tree(unsigned seed, int files)
{
    static const char *const parts[] = { "a", "b", "a.d", "a b", "-x", "a\xff", "\x01", "zz", "A", ".h" };
    for (int i = 0; i < files; i++) {
        char path[200] = "";
        for (unsigned depth = (unsigned)rand_r(&seed) % 4; depth > 0; depth--) {
            strcat(path, parts[(unsigned)rand_r(&seed) % N_ELEMENTS(parts)]);
            mkdirat(folder_fd, path, 0755);
            strcat(path, "/");
        }
        char name[40];
        snprintf(name, sizeof name, "%s%u", parts[(unsigned)rand_r(&seed) % N_ELEMENTS(parts)],
                 (unsigned)rand_r(&seed) % 100);
        strcat(path, name);
        int fd = openat(folder_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        ck_assert_msg(fd >= 0, "%s", path);
        ck_assert_int_eq(write(fd, "needle one\nnothing\nneedle two\n", 29), 29);
        close(fd);
    }
}

static void search_in_pages(const char *pattern, int limit, struct buffer *found)
{
    _cleanup_free_ char *at = xstrdup("");
    for (int pages = 0; at; pages++) {
        ck_assert_int_lt(pages, 5000);
        const json_t *ret = search("{s:s, s:i, s:s, s:i}", "pattern", pattern, "limit", limit, "at", at,
                                   "max_bytes", 8000000);
        const char *next = json_string_value(json_object_get(ret, "next_cursor"));
        size_t count = json_array_size(json_object_get(ret, "matches"));
        append_paths(found, json_object_get(ret, "matches"));
        ck_assert(next ? count == (size_t)limit : count <= (size_t)limit);
        ck_assert(!next || count > 0);
        free(at);
        at = next ? xstrdup(next) : NULL;
    }
}

START_TEST(pages_of_any_size_are_the_same)
{
    make_tree(7, 300);
    static const char *const patterns[] = { "**", "*1*", "a/**", "{a,b}/**/*[0-5]" };
    for (size_t i = 0; i < N_ELEMENTS(patterns); i++) {
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT;
        search_in_pages(patterns[i], 5000, &whole);
        ck_assert_uint_gt(whole.length, 0);
        for (int limit = 1; limit < 60; limit = limit * 3 + 1) {
            _cleanup_buffer_ struct buffer paged = BUFFER_INIT;
            search_in_pages(patterns[i], limit, &paged);
            ck_assert_str_eq(buffer_text(&paged), buffer_text(&whole));
        }
    }
}
END_TEST

START_TEST(what_was_found_is_in_the_order_of_paths)
{
    make_tree(11, 400);
    const json_t *found = json_object_get(search("{s:s, s:i}", "pattern", "**", "limit", 5000), "matches"),
                 *item;
    _cleanup_buffer_ struct buffer before = BUFFER_INIT;
    size_t index;
    json_array_foreach(found, index, item) {
        _cleanup_buffer_ struct buffer path = BUFFER_INIT;
        const char *exact = text(item, "path_base64");
        if (!*exact || !base64_decode(exact, strlen(exact), &path))
            buffer_append_text(&path, text(item, "path"));
        ck_assert(index == 0 || order_of_paths(buffer_text(&before), buffer_text(&path)) < 0);
        before.length = 0;
        buffer_append_text(&before, buffer_text(&path));
    }
    char command[200];
    snprintf(command, sizeof command, "[ $(find . -type f -printf x | wc -c) = %zu ]",
             json_array_size(found));
    in_workspace(command);
}
END_TEST

/* A folder with more names than are held at once. */
START_TEST(a_large_folder_comes_whole)
{
    in_workspace("mkdir many && cd many && seq 40000 | xargs touch");
    _cleanup_buffer_ struct buffer whole = BUFFER_INIT;
    search_in_pages("many/*", 5000, &whole);
    size_t lines = 0;
    for (size_t i = 0; i < whole.length; i++)
        lines += whole.data[i] == '\n';
    ck_assert_uint_eq(lines, 40000);
}
END_TEST

START_TEST(time_is_over_and_nothing_is_lost)
{
    make_tree(3, 400);
    _cleanup_buffer_ struct buffer whole = BUFFER_INIT, pieces = BUFFER_INIT;
    search_in_pages("**", 5000, &whole);
    _cleanup_free_ char *at = xstrdup("");
    for (int pages = 0; at; pages++) {
        ck_assert_int_lt(pages, 2000);
        const json_t *ret =
            search("{s:s, s:i, s:s, s:i}", "pattern", "**", "limit", 5000, "at", at, "wait_ms", 0);
        const char *next = json_string_value(json_object_get(ret, "next_cursor"));
        ck_assert(!next || !strcmp(text(ret, "over"), "time"));
        append_paths(&pieces, json_object_get(ret, "matches"));
        free(at);
        at = next ? xstrdup(next) : NULL;
        ck_assert(pages > 0 || at);
    }
    ck_assert_str_eq(buffer_text(&pieces), buffer_text(&whole));
}
END_TEST

static pid_t disturb(void)
{
    pid_t pid = fork();
    if (pid > 0)
        return pid;
    mkdirat(folder_fd, "t0/folder", 0755);
    symlinkat("/etc", folder_fd, "t0/link");
    for (unsigned i = 0; i < 1000000; i++) {
        char a[40], b[40];
        for (int k = 0; k < 50; k++)
            syscall(SYS_renameat2, folder_fd, "t0/folder", folder_fd, "t0/link", 2 /* exchanged */);
        snprintf(a, sizeof a, "t%u/u", i % 10);
        snprintf(b, sizeof b, "t%u/v", (i + 3) % 10);
        mkdirat(folder_fd, a, 0755);
        renameat(folder_fd, a, folder_fd, b);
        symlinkat("/etc", folder_fd, a);
        unlinkat(folder_fd, a, 0);
        unlinkat(folder_fd, b, AT_REMOVEDIR);
        int fd = openat(folder_fd, a, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd >= 0) {
            (void)!write(fd, "needle\n", 7);
            (void)!ftruncate(fd, 2);
            close(fd);
        }
        unlinkat(folder_fd, a, 0);
    }
    _exit(0);
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* What stays is found once, whatever comes and goes beside it. */
START_TEST(a_tree_that_changes_is_searched)
{
    in_workspace("for i in 0 1 2 3 4 5 6 7 8 9; do mkdir t$i; for k in 1 2 3 4 5; do echo needle > "
                 "t$i/stays$k; done; done");
    pid_t pid = disturb();
    int64_t until = clock_boottime_ms() + 3000;
    while (clock_boottime_ms() < until) {
        _cleanup_buffer_ struct buffer found = BUFFER_INIT;
        search_in_pages("stays*", 7, &found);
        size_t lines = 0;
        for (size_t i = 0; i < found.length; i++)
            lines += found.data[i] == '\n';
        ck_assert_uint_eq(lines, 50);
        const json_t *ret = grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "stays*");
        ck_assert_int_eq(number(ret, "matches"), 50);
        ret = search("{s:s}", "pattern", "{passwd,group,hosts,nsswitch.conf}");
        ck_assert_uint_eq(json_array_size(json_object_get(ret, "matches")), 0);
    }
    end_child(pid);
}
END_TEST

/* A place that is another thing by now is still a place in the order. */
START_TEST(a_cursor_outlives_what_it_names)
{
    put_text("a", "needle\n");
    in_workspace("mkdir -p b/c && echo needle > b/c/d && echo needle > c");
    static const struct {
        const char *at, *found;
    } cases[] = { { "a/b", "b/c/d\nc\n" }, { "a", "a\nb/c/d\nc\n" }, { "b/c", "b/c/d\nc\n" },
                  { "b/c/d/e", "c\n" },    { "b/d", "c\n" },         { "zz", "" } };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        _cleanup_buffer_ struct buffer at = BUFFER_INIT, found = BUFFER_INIT;
        buffer_append_base64(&at, cases[i].at, strlen(cases[i].at));
        append_paths(
            &found, json_object_get(search("{s:s, s:s}", "pattern", "*", "at", buffer_text(&at)), "matches"));
        ck_assert_msg(!strcmp(buffer_text(&found), cases[i].found), "%s: %s", cases[i].at,
                      buffer_text(&found));
        _cleanup_buffer_ struct buffer line_at = BUFFER_INIT, place = BUFFER_INIT;
        buffer_printf(&place, "1:%s", cases[i].at);
        buffer_append_base64(&line_at, place.data, place.length);
        found.length = 0;
        append_paths(
            &found,
            json_object_get(grep("{s:s, s:s}", "pattern", "needle", "at", buffer_text(&line_at)), "files"));
        ck_assert_msg(!strcmp(buffer_text(&found), cases[i].found), "%s: %s", cases[i].at,
                      buffer_text(&found));
    }
}
END_TEST

START_TEST(cursors_of_others_are_refused)
{
    const char *const none[] = { "x", "AA==" };
    for (size_t i = 0; i < N_ELEMENTS(none); i++) {
        json_auto_t *message =
            json_pack("{s:s, s:s, s:s, s:s}", "op", "file", "call", "search", "pattern", "*", "at", none[i]);
        ck_assert(strstr(text(ask(message, false), "message"), "cursor") != NULL);
        ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "at", none[i]), "cursor") != NULL);
    }
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "at", "YS9i"), "cursor") !=
              NULL); /* a/b: of the other one */
}
END_TEST

/* ---- lines ---- */

START_TEST(lines_are_found)
{
    in_workspace("mkdir d && printf 'one\\nA needle, needle\\nthree\\nneedles\\n' > d/f.c && printf 'needle' "
                 "> a.h && printf 'x\\r\\nNeedle\\r\\n' > z");
    expect_lines(grep("{s:s}", "pattern", "needle"),
                 "a.h:1:needle\nd/f.c:2:A needle, needle\nd/f.c:4:needles\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "case_sensitive", 0),
                 "a.h:1:needle\nd/f.c:2:A needle, needle\nd/f.c:4:needles\nz:2:Needle\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "whole_words", 1),
                 "a.h:1:needle\nd/f.c:2:A needle, needle\n");
    expect_lines(grep("{s:s}", "pattern", "^ne+dles$"), "d/f.c:4:needles\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "^ne+dles$", "literal", 1), "");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle, n", "literal", 1), "d/f.c:2:A needle, needle\n");
    expect_lines(grep("{s:s}", "pattern", "--files"), "");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "*.h"), "a.h:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "d/**"),
                 "d/f.c:2:A needle, needle\nd/f.c:4:needles\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "exclude_patterns", "d"), "a.h:1:needle\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "three", "path", "d"), "d/f.c:3:three\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "three", "path", "/workspace/d/f.c"), "d/f.c:3:three\n");
    expect_lines(grep("{s:s, s:i}", "pattern", "three", "context_lines", 1),
                 "d/f.c-2-A needle, needle\nd/f.c:3:three\nd/f.c-4-needles\n");
    const json_t *line = json_array_get(
        json_object_get(
            json_array_get(json_object_get(grep("{s:s}", "pattern", "needle,? needle|needle"), "files"), 1),
            "lines"),
        0);
    ck_assert_int_eq(number(line, "column"), 3);
    ck_assert_int_eq(number(line, "count"), 1);
}
END_TEST

START_TEST(what_is_no_pattern_or_place_is_refused)
{
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(foo"), "unclosed group") != NULL);
    put_text("f", "x");
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(foo"), "unclosed group") != NULL);
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(?=foo)"), "look-around") != NULL);
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "(?=foo)"), "Consider") == NULL);
    ck_assert(strstr(grep_refused("{s:s}", "pattern", "a{99999}{99999}"), "pattern") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:[s]}", "pattern", "x", "include_patterns", "[a"),
                     "include_patterns") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:[s]}", "pattern", "x", "exclude_patterns", "../a"),
                     "exclude_patterns") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "none"), "does not exist") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "/etc"), "leads out") != NULL);
    in_workspace("mkfifo fifo && ln -s /etc out");
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "fifo"), "FIFO") != NULL);
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "path", "out"), "leads out") != NULL);
    char pattern[1001];
    memset(pattern, 'a', 1000);
    pattern[999] = '(';
    pattern[1000] = '\0';
    const char *message = grep_refused("{s:s}", "pattern", pattern);
    ck_assert_msg(strstr(message, "unclosed group") != NULL && strlen(message) < 500, "%s", message);
}
END_TEST

/* ripgrep takes "NAME:include:OTHERS" for words of its own. */
START_TEST(a_colon_in_a_pattern_is_a_character)
{
    in_workspace("echo needle > include:c; echo needle > include:a; echo needle > c.c; echo needle > x:y:z");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "include:{c,h}"),
                 "include:c:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "include:c"),
                 "include:c:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "{x:y:z,q}"),
                 "x:y:z:1:needle\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "exclude_patterns", "include:{c,a}"),
                 "c.c:1:needle\nx:y:z:1:needle\n");
}
END_TEST

START_TEST(what_is_left_out_is_asked_for)
{
    in_workspace("mkdir -p .git node_modules/m sub/.hidden .venv && echo 'ignored*' > .gitignore && echo "
                 "needle > ignored.txt && "
                 "echo needle > sub/ignored.txt && echo needle > .git/x && echo needle > node_modules/m/x && "
                 "echo needle > "
                 "sub/.hidden/x && echo needle > .venv/x && echo needle > .h && echo needle > seen && echo "
                 "needle > sub/z");
    expect_lines(grep("{s:s}", "pattern", "needle"),
                 ".h:1:needle\nseen:1:needle\nsub/.hidden/x:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "hidden", 0), "seen:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:b, s:[s]}", "pattern", "needle", "hidden", 0, "include_patterns", ".h"), "");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "gitignore", 0),
                 ".h:1:needle\nignored.txt:1:needle\nseen:1:needle\nsub/.hidden/x:1:needle\nsub/"
                 "ignored.txt:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:b}", "pattern", "needle", "default_ignores", 0),
                 ".git/x:1:needle\n.h:1:needle\n.venv/x:1:needle\nnode_modules/m/"
                 "x:1:needle\nseen:1:needle\nsub/.hidden/x:1:needle\nsub/z:1:needle\n");
    /* What a pattern asks for is not brought back by it. */
    expect_lines(grep("{s:s, s:[s]}", "pattern", "needle", "include_patterns", "*.txt"), "");
    /* The rules of folders above hold in one below; a place that is named is searched. */
    expect_lines(grep("{s:s, s:s}", "pattern", "needle", "path", "sub"),
                 "sub/.hidden/x:1:needle\nsub/z:1:needle\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "needle", "path", "node_modules/m"),
                 "node_modules/m/x:1:needle\n");
    expect_lines(grep("{s:s, s:s}", "pattern", "needle", "path", "ignored.txt"), "ignored.txt:1:needle\n");
}
END_TEST

static void long_line(const char *name, const char *before, size_t n_before, const char *match,
                      const char *after, size_t n_after)
{
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    for (size_t i = 0; i < n_before; i++)
        buffer_append_text(&line, before);
    buffer_append_text(&line, match);
    for (size_t i = 0; i < n_after; i++)
        buffer_append_text(&line, after);
    put(name, line.data, line.length);
}

static const json_t *the_line(const json_t *ret)
{
    ck_assert_int_eq(number(ret, "matches"), 1);
    return json_array_get(json_object_get(json_array_get(json_object_get(ret, "files"), 0), "lines"), 0);
}

START_TEST(a_huge_line_is_shown_around_its_match)
{
    long_line("min.js", "var a=1;", 655360, "/*needle*/", "b();", 1310720);
    const json_t *line = the_line(grep("{s:s}", "pattern", "needle"));
    ck_assert_int_eq(number(line, "column"), 8 * 655360 + 3);
    ck_assert(json_is_true(json_object_get(line, "clipped")));
    ck_assert_msg(strlen(text(line, "text")) < 600, "%zu", strlen(text(line, "text")));
    ck_assert(strstr(text(line, "text"), "a=1;var a=1;/*needle*/b();b();") != NULL);
    ck_assert(strncmp(text(line, "text"), "[... 52427", 10) == 0);
    long_line("min.js", "\xc3\xa9", 1000000, "needle", "\xe2\x98\xba", 1000000);
    line = the_line(grep("{s:s}", "pattern", "needle"));
    ck_assert(strstr(text(line, "text"), "\xc3\xa9needle\xe2\x98\xba") != NULL);
    ck_assert(strstr(text(line, "text"), "\xef\xbf\xbd") == NULL);
    ck_assert_ptr_null(json_object_get(line, "text_base64"));
    long_line("min.js", "\xe9", 1000000, "needle", "\xe9", 1000000);
    line = the_line(grep("{s:s}", "pattern", "needle"));
    _cleanup_buffer_ struct buffer exact = BUFFER_INIT;
    ck_assert(base64_decode(text(line, "text_base64"), strlen(text(line, "text_base64")), &exact));
    ck_assert(strstr(buffer_text(&exact), "\xe9needle\xe9") != NULL);
    /* A match that is longer than what is shown. */
    long_line("min.js", "x", 1000000, "", "y", 1000000);
    line = the_line(grep("{s:s}", "pattern", "y+"));
    ck_assert_int_eq(number(line, "column"), 1000001);
    ck_assert(strncmp(text(line, "text"), "[... 1000000 bytes ...] yyyy", 28) == 0);
    long_line("min.js", "\n", 0, "a\nneedle\n", "z", 5000000);
    expect_lines(grep("{s:s, s:i, s:i}", "pattern", "needle", "context_lines", 1, "max_bytes", 300),
                 "min.js-1-a\nmin.js:2:needle\n");
}
END_TEST

START_TEST(binary_files_are_told_not_shown)
{
    put("before", "\0\0needle\n", 9);
    put("behind", "needle\n\0\0", 9);
    put_text("good", "needle\n");
    put("wide", "\xff\xfen\0e\0e\0d\0l\0e\0\n\0", 16);
    const json_t *ret = grep("{s:s}", "pattern", "needle");
    expect_lines(ret, "good:1:needle\nwide:1:needle\n");
    ck_assert_int_eq(number(ret, "binary_files"), 2);
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    append_paths(&found, json_object_get(ret, "binary"));
    ck_assert_msg(strstr(buffer_text(&found), "before\n") && strstr(buffer_text(&found), "behind\n"), "%s",
                  buffer_text(&found));
}
END_TEST

START_TEST(odd_things_are_no_lines)
{
    in_workspace("mkfifo fifo && ln -s . loop && ln -s /etc/passwd passwd && ln -s /etc etc && echo root: > "
                 "$'new\\nline' && echo root: > "
                 "$'bad\\xff' && echo root: > ./- && echo root: > ./--files && echo root: > no && chmod 0 no "
                 "&& ln -s - link");
    const json_t *ret = grep("{s:s}", "pattern", "root:");
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    append_paths(&found, json_object_get(ret, "files"));
    bool reads_all = geteuid() == 0;
    ck_assert_str_eq(buffer_text(&found), reads_all ? "-\n--files\nbad\xff\nnew\\nline\nno\n"
                                                    : "-\n--files\nbad\xff\nnew\\nline\n");
    ck_assert_int_eq(number(ret, "unreadable"), reads_all ? 0 : 1);
}
END_TEST

/* ---- pages of lines ---- */

static int grep_in_pages(const char *pattern, int limit, int context, struct buffer *found)
{
    _cleanup_free_ char *at = xstrdup("");
    int pages = 0;
    for (; at; pages++) {
        ck_assert_int_lt(pages, 3000);
        const json_t *ret = grep("{s:s, s:i, s:s, s:i, s:i}", "pattern", pattern, "limit", limit, "at", at,
                                 "context_lines", context, "max_bytes", 8000000);
        const char *next = json_string_value(json_object_get(ret, "next_cursor"));
        append_lines(found, ret);
        ck_assert(next ? number(ret, "matches") == limit : number(ret, "matches") <= limit);
        free(at);
        at = next ? xstrdup(next) : NULL;
    }
    return pages;
}

START_TEST(pages_of_lines_are_the_same)
{
    make_tree(5, 120);
    _cleanup_buffer_ struct buffer whole = BUFFER_INIT;
    ck_assert_int_eq(grep_in_pages("needle", 5000, 0, &whole), 1);
    for (int limit = 5; limit < 100; limit = limit * 7 + 2) {
        _cleanup_buffer_ struct buffer paged = BUFFER_INIT;
        grep_in_pages("needle", limit, 0, &paged);
        ck_assert_str_eq(buffer_text(&paged), buffer_text(&whole));
    }
}
END_TEST

/* More files than are searched one by one: then ripgrep searches the rest at once. */
START_TEST(many_files_are_searched_in_order)
{
    in_workspace("for d in $(seq 10 49); do mkdir d$d; for f in $(seq 10 99); do echo \"a needle $d $f\" > "
                 "d$d/f$f; done; done; "
                 "echo 'rare thing' > d49/f99; echo 'rare thing' > d10/f10; echo 'rare thing' > d49/.f");
    expect_lines(grep("{s:s}", "pattern", "rare"),
                 "d10/f10:1:rare thing\nd49/.f:1:rare thing\nd49/f99:1:rare thing\n");
    expect_lines(grep("{s:s, s:b, s:[s]}", "pattern", "rare", "hidden", 0, "include_patterns", "d49/*"),
                 "d49/f99:1:rare thing\n");
    expect_lines(grep("{s:s, s:[s]}", "pattern", "rare", "exclude_patterns", "d4?/f99"),
                 "d10/f10:1:rare thing\nd49/.f:1:rare thing\n");
    _cleanup_buffer_ struct buffer whole = BUFFER_INIT, paged = BUFFER_INIT;
    ck_assert_int_eq(grep_in_pages("needle", 2500, 0, &whole), 2);
    grep_in_pages("needle", 900, 0, &paged);
    ck_assert_str_eq(buffer_text(&paged), buffer_text(&whole));
    size_t lines = 0;
    for (size_t i = 0; i < whole.length; i++)
        lines += whole.data[i] == '\n';
    ck_assert_uint_eq(lines, 3598);
    expect_lines(grep("{s:s, s:i}", "pattern", "4[89] 9[89]$", "limit", 2),
                 "d48/f98:1:a needle 48 98\nd48/f99:1:a needle 48 99\n");
}
END_TEST

START_TEST(one_file_is_bounded)
{
    in_workspace("seq 100 | sed 's/^/needle /' > a; echo needle > b");
    const json_t *ret = grep("{s:s, s:i}", "pattern", "needle", "max_per_file", 3);
    expect_lines(ret, "a:1:needle 1\na:2:needle 2\na:3:needle 3\nb:1:needle\n");
    ck_assert(json_is_true(json_object_get(json_array_get(json_object_get(ret, "files"), 0), "more")));
    ck_assert(json_is_false(json_object_get(json_array_get(json_object_get(ret, "files"), 1), "more")));
    ret = grep("{s:s, s:i, s:i}", "pattern", "needle", "max_per_file", 90, "max_bytes", 2000);
    ck_assert_int_lt(number(ret, "matches"), 30);
    ck_assert_str_ne(text(ret, "next_cursor"), "");
}
END_TEST

/* ---- time, and harm ---- */

START_TEST(a_search_ends_at_its_deadline_with_what_it_has)
{
    in_workspace("echo needle > a; truncate -s 900G b; for i in $(seq 300); do echo needle > c$i; done");
    int64_t started = clock_boottime_ms();
    const json_t *ret = grep("{s:s, s:i}", "pattern", "needle", "wait_ms", 700);
    ck_assert_int_lt(clock_boottime_ms() - started, 10000);
    ck_assert_str_eq(text(ret, "over"), "time");
    ck_assert_str_ne(text(ret, "next_cursor"), "");
    ck_assert(none_left(2000));
    /* It goes on behind what took so long. */
    ret = grep("{s:s, s:s, s:i}", "pattern", "needle", "at", text(ret, "next_cursor"), "limit", 1000);
    ck_assert_str_eq(text(ret, "over"), "");
    ck_assert_int_ge(number(ret, "matches"), 100);
}
END_TEST

START_TEST(the_rest_goes_on_file_by_file_when_time_was_over)
{
    in_workspace("for i in $(seq 1000 5000); do echo \"needle $i\"> f$i; done; truncate -s 900G g; echo "
                 "'needle rare' > h");
    const json_t *ret = grep("{s:s, s:i}", "pattern", "rare", "wait_ms", 3000);
    ck_assert_str_eq(text(ret, "over"), "time");
    bool found = number(ret, "matches") > 0;
    for (int i = 0; i < 5 && *text(ret, "next_cursor"); i++) {
        _cleanup_free_ char *at = xstrdup(text(ret, "next_cursor"));
        ret = grep("{s:s, s:i, s:s}", "pattern", "rare", "wait_ms", 3000, "at", at);
        found |= number(ret, "matches") > 0;
    }
    ck_assert_str_eq(text(ret, "next_cursor"), "");
    ck_assert(found);
}
END_TEST

static struct peer_exec *begin_grep(const char *pattern, int wait_ms)
{
    json_auto_t *message = json_pack("{s:s, s:s, s:s, s:s, s:i}", "op", "file", "call", "grep", "path", ".",
                                     "pattern", pattern, "wait_ms", wait_ms);
    return peer_request(peer, message);
}

/* Neither those that run nor those that wait for a place are worked on when nobody waits for them. */
START_TEST(searches_that_nobody_waits_for_give_their_places_back)
{
    struct peer_exec *calls[40];
    in_workspace("echo needle > a; truncate -s 900G b");
    for (size_t i = 0; i < N_ELEMENTS(calls); i++)
        calls[i] = begin_grep("nothing", 50000);
    peer_until(peer, false, 500);
    for (size_t i = 0; i < N_ELEMENTS(calls); i++)
        channel_send(peer->channel, FRAME_CLOSE, 0, calls[i]->number, NULL, 0);
    int64_t started = clock_boottime_ms();
    const json_t *ret = grep("{s:s, s:s, s:i}", "pattern", "needle", "path", "a", "wait_ms", 20000);
    ck_assert_int_lt(clock_boottime_ms() - started, 5000);
    ck_assert_int_eq(number(ret, "matches"), 1);
    for (size_t i = 0; i < N_ELEMENTS(calls); i++) {
        ck_assert(peer_until(peer, calls[i]->closed, 5000));
        ck_assert(!calls[i]->replied);
    }
    ck_assert(none_left(2000));
}
END_TEST

/* The time counts from the request on: who waits for a place has no more of it than who runs. */
START_TEST(a_search_without_a_place_ends_at_its_deadline)
{
    struct peer_exec *busy[8];
    in_workspace("echo needle > a; truncate -s 900G b");
    for (size_t i = 0; i < N_ELEMENTS(busy); i++)
        busy[i] = begin_grep("nothing", 6000);
    peer_until(peer, false, 300);
    int64_t started = clock_boottime_ms();
    struct peer_exec *longer = begin_grep("nothing", 8000), *call = begin_grep("needle", 1000);
    ck_assert(peer_until(peer, call->closed, 30000));
    ck_assert_int_lt(clock_boottime_ms() - started, 4000);
    const json_t *error = json_object_get(call->reply, "error");
    ck_assert_int_eq(number(error, "code"), ERROR_TOO_MANY);
    ck_assert_ptr_nonnull(strstr(text(error, "message"), "nothing was done"));
    ck_assert(peer_until(peer, longer->closed, 30000));
    ck_assert_int_lt(clock_boottime_ms() - started, 11000);
    ck_assert_str_eq(text(json_object_get(longer->reply, "ret"), "over"), "time");
    for (size_t i = 0; i < N_ELEMENTS(busy); i++)
        ck_assert(busy[i]->closed && json_object_get(busy[i]->reply, "ret") != NULL);
}
END_TEST

/* A command may end what works for it: the call says so, or has what it could, and the next one works. */
START_TEST(a_killed_ripgrep_is_noticed)
{
    put_text("f", "needle\n");
    /* Those of this workspace alone: there is no sandbox around this agent. */
    struct peer_exec *killer = peer_run(
        peer,
        "while :; do for p in $(pgrep -x rg); do [ \"$(readlink /proc/$p/cwd)\" != \"$PWD\" ] || kill "
        "-KILL $p; done; done 2>/dev/null",
        "{}");
    for (int i = 0; i < 20; i++) {
        json_auto_t *message =
            json_pack("{s:s, s:s, s:s, s:s}", "op", "file", "call", "grep", "pattern", "needle", "path", ".");
        struct peer_exec *call = peer_request(peer, message);
        ck_assert(peer_until(peer, call->closed, 60000));
        ck_assert(call->replied);
    }
    peer_signal(peer, killer, SIGKILL, true);
    ck_assert(peer_until(peer, killer->closed, 10000));
    expect_lines(grep("{s:s}", "pattern", "needle"), "f:1:needle\n");
}
END_TEST

/* It breaks by itself: what is left of the files is searched all the same. */
START_TEST(a_line_without_end_harms_itself_alone)
{
    in_workspace("for i in $(seq 20); do echo needle > f$i; done; head -c 700M /dev/zero | tr '\\0' x > "
                 "endless; echo needle > z");
    const json_t *ret = grep("{s:s, s:i}", "pattern", "needle", "wait_ms", 50000);
    ck_assert_int_eq(number(ret, "matches"), 21);
    ck_assert_int_eq(number(ret, "unreadable"), 1);
    ck_assert_str_eq(text(ret, "over"), "");
}
END_TEST

START_TEST(without_ripgrep_it_says_so)
{
    peer_free(peer);
    const char *const extra[] = { "--ripgrep", "/nonexistent/rg", NULL };
    peer = peer_start(NULL, extra);
    json_auto_t *message =
        json_pack("{s:s, s:s, s:s, s:s}", "op", "file", "call", "grep", "pattern", "x", "path", ".");
    const json_t *error = ask(message, false);
    ck_assert_int_eq(number(error, "code"), ERROR_UNSUPPORTED);
    ck_assert(strstr(text(error, "message"), "apt-get install ripgrep") != NULL);
    ck_assert(strstr(text(error, "message"), "/nonexistent") == NULL);
    expect_found("*", "");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        names_are_found_in_order,
        what_is_odd_is_told_as_it_is,
        ten_thousand_levels_are_no_problem,
        pages_of_any_size_are_the_same,
        what_was_found_is_in_the_order_of_paths,
        a_large_folder_comes_whole,
        time_is_over_and_nothing_is_lost,
        a_tree_that_changes_is_searched,
        a_cursor_outlives_what_it_names,
        cursors_of_others_are_refused,
        lines_are_found,
        what_is_no_pattern_or_place_is_refused,
        a_colon_in_a_pattern_is_a_character,
        what_is_left_out_is_asked_for,
        a_huge_line_is_shown_around_its_match,
        binary_files_are_told_not_shown,
        odd_things_are_no_lines,
        pages_of_lines_are_the_same,
        many_files_are_searched_in_order,
        one_file_is_bounded,
        a_search_ends_at_its_deadline_with_what_it_has,
        the_rest_goes_on_file_by_file_when_time_was_over,
        searches_that_nobody_waits_for_give_their_places_back,
        a_search_without_a_place_ends_at_its_deadline,
        a_killed_ripgrep_is_noticed,
        a_line_without_end_harms_itself_alone,
        without_ripgrep_it_says_so,
    };
    return unit_run_tests("finds", tests, N_ELEMENTS(tests), set_up, tear_down, 120);
}
