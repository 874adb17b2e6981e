/* Names that a real agent finds, as the keeper's end of the channel sees them: on trees that are odd, deep,
 * large or changing, what is found is all that is there, in order, in pages of any size; nothing leads out.
 */
#include "lib/agent/search/order.h"
#include "lib/base/clock.h"
#include "tests/support/find_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

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
    ck_assert_str_eq(found_text(json_array_get(found, 0), "type"), "file");
    ck_assert_str_eq(found_text(json_array_get(found, 2), "type"), "other");
    ck_assert_str_eq(found_text(json_array_get(found, 3), "type"), "link");
}
END_TEST

START_TEST(ten_thousand_levels_are_no_problem)
{
    make_deep(10000);
    folder_put_text("last", "needle\n");
    const json_t *ret = search("{s:s}", "pattern", "*");
    ck_assert_uint_eq(json_array_size(json_object_get(ret, "matches")),
                      4); /* 7, 1007, (2007 is too deep by one name) */
    ck_assert_int_ge(ret_number(ret, "too_deep"), 1);
    ret = grep("{s:s}", "pattern", "needle");
    expect_lines(ret, "last:1:needle\n");
    ck_assert_int_ge(ret_number(ret, "unreadable"), 1);
    in_workspace("rm -rf d");
}
END_TEST

/* ---- pages ---- */

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
        append_path(&path, item);
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

static void search_in_time(const char *pattern, int wait_ms, struct buffer *found, int *ret_late)
{
    _cleanup_free_ char *at = xstrdup("");
    for (int pages = 0; at; pages++) {
        ck_assert_int_lt(pages, 8000);
        const json_t *ret = search("{s:s, s:i, s:s, s:i, s:i}", "pattern", pattern, "limit", 5000, "at", at,
                                   "wait_ms", wait_ms, "max_bytes", 8000000);
        const char *next = json_string_value(json_object_get(ret, "next_cursor"));
        *ret_late += !strcmp(found_text(ret, "over"), "time");
        ck_assert_msg(!next || strcmp(next, at) != 0, "page %d leads to itself", pages);
        append_paths(found, json_object_get(ret, "matches"));
        free(at);
        at = next ? xstrdup(next) : NULL;
    }
}

START_TEST(time_is_over_and_nothing_is_lost)
{
    make_tree(3, 400);
    in_workspace("mkdir -p many/empty{1..20} many/d/d/d && cd many && seq 400 | xargs touch && seq 30 | sed "
                 "'s,^,d/d/d/,' | xargs touch");
    static const char *const patterns[] = { "**", "*7", "many/d/**", "none" };
    int late = 0;
    for (size_t i = 0; i < N_ELEMENTS(patterns); i++) {
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT;
        search_in_pages(patterns[i], 5000, &whole);
        for (int wait_ms = 0; wait_ms < 10; wait_ms += 4) {
            _cleanup_buffer_ struct buffer pieces = BUFFER_INIT;
            search_in_time(patterns[i], wait_ms, &pieces, &late);
            ck_assert_str_eq(buffer_text(&pieces), buffer_text(&whole));
        }
    }
    ck_assert_int_gt(late, 0);
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
        ck_assert_int_eq(ret_number(ret, "matches"), 50);
        ret = search("{s:s}", "pattern", "{passwd,group,hosts,nsswitch.conf}");
        ck_assert_uint_eq(json_array_size(json_object_get(ret, "matches")), 0);
    }
    end_child(pid);
}
END_TEST

/* d is a folder and a link to the outside by turns, x a file and such a link. */
static pid_t lead_out(const char *outside)
{
    _cleanup_free_ char *secret = xasprintf("%s/f", outside);
    int fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    ck_assert_int_eq(write(fd, "a secret needle\n", 16), 16);
    close(fd);
    in_workspace("mkdir -p d && echo needle | tee d/f > x");
    ck_assert_int_eq(symlinkat(outside, folder_fd, "l"), 0);
    ck_assert_int_eq(symlinkat(secret, folder_fd, "y"), 0);
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            for (int i = 0; i < 2; i++)
                syscall(SYS_renameat2, folder_fd, i ? "d" : "x", folder_fd, i ? "l" : "y", 2 /* exchanged */);
    return pid;
}

/* Nor where so many files come before that ripgrep finds those that are left by itself. */
START_TEST(a_link_that_is_exchanged_leads_no_search_out)
{
    for (int many = 0; many < 2; many++) {
        char outside[] = "/tmp/finds-outside-XXXXXX";
        ck_assert_ptr_nonnull(mkdtemp(outside));
        chmod(outside, 0777);
        if (many)
            in_workspace("rm -rf d l x y; mkdir a && cd a && seq 2700 | xargs touch");
        pid_t pid = lead_out(outside);
        int64_t found = 0, until = clock_boottime_ms() + 5000;
        while (clock_boottime_ms() < until) {
            const json_t *ret = grep("{s:s, s:i}", "pattern", "secret", "context_lines", 1);
            ck_assert_int_eq(ret_number(ret, "matches"), 0);
            found += ret_number(grep("{s:s}", "pattern", "needle"), "matches");
        }
        end_child(pid);
        ck_assert_int_gt(found, 0);
    }
}
END_TEST

/* A place that is another thing by now is still a place in the order. */
START_TEST(a_cursor_outlives_what_it_names)
{
    folder_put_text("a", "needle\n");
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
        json_t *message = file_message("search", "{s:s, s:s}", "pattern", "*", "at", none[i]);
        ck_assert(strstr(found_text(file_error(message), "message"), "cursor") != NULL);
        ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "at", none[i]), "cursor") != NULL);
    }
    ck_assert(strstr(grep_refused("{s:s, s:s}", "pattern", "x", "at", "YS9i"), "cursor") !=
              NULL); /* a/b: of the other one */
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
        a_link_that_is_exchanged_leads_no_search_out,
        a_cursor_outlives_what_it_names,
        cursors_of_others_are_refused,
    };
    return unit_run_tests("finds", tests, N_ELEMENTS(tests), files_set_up, finds_tear_down, 120);
}
