/* Owns searches of a test's agent put together and taken apart, and the trees that they are made in. */
#include "tests/support/find_case.h"

#include "lib/base/base64.h"
#include "lib/base/memory.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void finds_tear_down(void)
{
    char command[200];
    snprintf(command, sizeof command, "chmod -R u+rwx '%s' 2>/dev/null; rm -rf '%s'/*", peer->workspace,
             peer->workspace);
    ck_assert_int_ge(system(command), 0);
    files_tear_down();
}

/* ---- calls ---- */

const json_t *search(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *message = file_message_of("search", format, arguments);
    va_end(arguments);
    return file_ask(message);
}

/* With what the operation fills in where nothing is said. */
static json_t *grep_message(const char *format, va_list arguments)
{
    json_t *message = file_message_of("grep", format, arguments);
    json_auto_t *usual = json_pack("{s:s, s:b, s:b, s:b, s:b}", "path", ".", "case_sensitive", 1, "gitignore",
                                   1, "hidden", 1, "default_ignores", 1);
    json_object_update_missing(message, usual);
    return message;
}

const json_t *grep(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *message = grep_message(format, arguments);
    va_end(arguments);
    return file_ask(message);
}

const char *grep_refused(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *message = grep_message(format, arguments);
    va_end(arguments);
    return json_string_value(json_object_get(file_error(message), "message"));
}

/* ---- what was found ---- */

const char *found_text(const json_t *ret, const char *name)
{
    const char *value = json_string_value(json_object_get(ret, name));
    return value ? value : "";
}

void append_path(struct buffer *out, const json_t *item)
{
    const char *exact = found_text(item, "path_base64");
    if (!*exact || !base64_decode(exact, strlen(exact), out))
        buffer_append_text(out, found_text(item, "path"));
}

void append_paths(struct buffer *out, const json_t *list)
{
    const json_t *item;
    size_t index;
    json_array_foreach(list, index, item) {
        _cleanup_buffer_ struct buffer path = BUFFER_INIT;
        append_path(&path, item);
        for (size_t i = 0; i < path.length; i++)
            if (path.data[i] == '\n')
                buffer_append_text(out, "\\n");
            else
                buffer_append_char(out, path.data[i]);
        buffer_append_char(out, '\n');
    }
}

void expect_found(const char *pattern, const char *paths)
{
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    const json_t *ret = search("{s:s, s:i}", "pattern", pattern, "limit", 1000);
    append_paths(&found, json_object_get(ret, "matches"));
    ck_assert_msg(!strcmp(buffer_text(&found), paths), "%s found:\n%s", pattern, buffer_text(&found));
}

void append_lines(struct buffer *out, const json_t *ret)
{
    const json_t *file, *line;
    size_t i, k;
    json_array_foreach(json_object_get(ret, "files"), i, file)
        json_array_foreach(json_object_get(file, "lines"), k, line)
            buffer_printf(
                out, "%s%c%lld%c%s\n", found_text(file, "path"),
                json_is_true(json_object_get(line, "matched")) ? ':' : '-', ret_number(line, "line"),
                json_is_true(json_object_get(line, "matched")) ? ':' : '-', found_text(line, "text"));
}

void expect_lines(const json_t *ret, const char *lines)
{
    _cleanup_buffer_ struct buffer found = BUFFER_INIT;
    append_lines(&found, ret);
    ck_assert_msg(!strcmp(buffer_text(&found), lines), "found:\n%s\nnot:\n%s", buffer_text(&found), lines);
}

/* ---- the disk ---- */

void in_workspace(const char *command)
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

void make_tree(unsigned seed, int files)
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
