/* Owns the handle on the folder of a test's agent, and file calls put together and taken apart. */
#include "tests/support/file_case.h"

#include "lib/base/io.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

int folder_fd;

void files_set_up(void)
{
    agent_setup();
    folder_fd = open(peer->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
}

void files_tear_down(void)
{
    close(folder_fd);
    agent_teardown();
}

/* ---- calls ---- */

json_t *file_message_of(const char *call, const char *format, va_list arguments)
{
    json_error_t problem;
    json_t *message = json_vpack_ex(&problem, 0, format, arguments);
    ck_assert_msg(message != NULL, "%s", problem.text);
    json_object_set_new(message, "op", json_string("file"));
    json_object_set_new(message, "call", json_string(call));
    return message;
}

json_t *file_message(const char *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *message = file_message_of(call, format, arguments);
    va_end(arguments);
    return message;
}

struct peer_exec *file_begin(json_t *message)
{
    struct peer_exec *call = peer_request(peer, message);
    json_decref(message);
    return call;
}

const json_t *file_finish(struct peer_exec *call)
{
    ck_assert(peer_until(peer, call->closed, 60000));
    ck_assert(call->replied);
    return call->reply;
}

static const json_t *part_of(json_t *message, const char *name)
{
    const json_t *reply = file_finish(file_begin(message)), *part = json_object_get(reply, name);
    _cleanup_free_ char *text = json_dumps(reply, 0);
    ck_assert_msg(part != NULL, "no %s: %.300s", name, text);
    return part;
}

const json_t *file_ask(json_t *message)
{
    return part_of(message, "ret");
}

const json_t *file_error(json_t *message)
{
    return part_of(message, "error");
}

const char *file_refusal(const json_t *reply)
{
    const char *text = json_string_value(json_object_get(json_object_get(reply, "error"), "message"));
    ck_assert_msg(text != NULL, "it was not refused");
    return text;
}

void file_refused(json_t *message, const char *contains)
{
    const char *text = file_refusal(file_finish(file_begin(message)));
    ck_assert_msg(strstr(text, contains) != NULL, "'%s' is not in: %s", contains, text);
}

const json_t *file_read_lines(const char *path, int offset, int limit)
{
    return file_ask(file_message("read", "{s:s, s:i, s:i}", "path", path, "offset", offset, "limit", limit));
}

const json_t *file_write_reply(const char *content, size_t length, json_t *message)
{
    json_object_set_new(message, "length", json_integer((json_int_t)length));
    struct peer_exec *call = file_begin(message);
    peer_input(peer, call, content, length, true);
    return file_finish(call);
}

const json_t *file_written(const char *path, const char *content, bool create_only)
{
    const json_t *reply =
        file_write_reply(content, strlen(content),
                         file_message("write", "{s:s, s:b}", "path", path, "create_only", create_only));
    const json_t *ret = json_object_get(reply, "ret");
    ck_assert_msg(ret != NULL, "%s", file_refusal(reply));
    return ret;
}

/* ---- what is returned ---- */

const char *ret_text(const json_t *ret, const char *name)
{
    const char *value = json_string_value(json_object_get(ret, name));
    return value ? value : "(none)";
}

long long ret_number(const json_t *ret, const char *name)
{
    ck_assert_msg(json_is_integer(json_object_get(ret, name)), "%s is no number", name);
    return json_integer_value(json_object_get(ret, name));
}

bool ret_flag(const json_t *ret, const char *name)
{
    return json_is_true(json_object_get(ret, name));
}

/* ---- the disk ---- */

void folder_put(const char *name, const char *data, size_t length)
{
    int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_msg(fd >= 0, "%s", name);
    ck_assert_int_eq(io_write_all(fd, data, length, NULL), 0);
    close(fd);
}

void folder_put_text(const char *name, const char *data)
{
    folder_put(name, data, strlen(data));
}

void folder_expect(const char *name, const char *data)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    ck_assert_int_eq(io_read_file(folder_fd, name, 64 << 20, &content, NULL), 0);
    ck_assert_str_eq(buffer_text(&content), data);
}

bool folder_has(const char *name)
{
    return faccessat(folder_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

size_t folder_entries(const char *name)
{
    size_t count = 0;
    DIR *folder = fdopendir(openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}
