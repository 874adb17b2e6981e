/* Owns the life of a sandbox in a driver's test: user, folders, create, channel, commands. Knows what the
 * agent's frames mean. */
#include "tests/support/box.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "tests/support/bare.h"

#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

const struct box_kind box_kinds[BOX_KINDS] = {
    { "local as root", &driver_local, 0, true },
    { "local as www-data", &driver_local, 33, true },
    { "bare", &driver_bare, 33, false },
};

static char *agent_path(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 3; i++) /* BUILD/tests/contract/test_x -> BUILD */
        *strrchr(path, '/') = '\0';
    return xasprintf("%s/workspace-agent", path);
}

bool box_prepare(struct box *b, const struct box_kind *kind)
{
    char template[] = "/tmp/wsf-driver-XXXXXX";
    if (geteuid() ? kind->as == 0 : kind->as && (setgid(kind->as) || setuid(kind->as)))
        return false;
    *b = (struct box){ .kind = kind };
    ck_assert_ptr_nonnull(mkdtemp(template));
    b->config.state_dir = xstrdup(template);
    b->config.agent = agent_path();
    return true;
}

static int make_folder(struct box *b, const char *leaf, uid_t uid)
{
    _cleanup_free_ char *path = xasprintf("%s/workspaces/%s/%s", b->config.state_dir, b->id, leaf);
    struct error err = ERROR_INIT;
    ck_assert_msg(!io_ensure_directory(path, 0700, &err), "%s", err.message);
    ck_assert_int_eq(chown(path, uid, uid), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

void box_make_folders(struct box *b, uid_t uid)
{
    id_make(ID_WORKSPACE, b->id);
    uid_t owner = geteuid() ? geteuid() : b->kind->isolated ? uid : 0;
    b->spec = (struct sandbox_spec){
        .workspace_id = b->id,
        .hostname = "ws-test",
        .files_fd = make_folder(b, "files", owner),
        .home_fd = make_folder(b, "home", owner),
        .uid = owner,
        .cpu = 2,
        .cpu_limit = 4,
        .memory_mib = 1024,
        .memory_limit_mib = 1024,
        .processes = 256,
    };
}

static void ignore(void *user, const struct frame *frame, const char *data, size_t length)
{
    (void)user, (void)frame, (void)data, (void)length;
}

static void turn(struct channel *c, channel_receive *receive, void *user, int timeout_ms)
{
    struct error err = ERROR_INIT;
    struct pollfd wait = { .fd = channel_fd(c), .events = (short)channel_events(c) };
    ck_assert_msg(channel_write(c, &err) == 0, "the agent is gone: %s", err.message);
    wait.events = (short)(POLLIN | channel_events(c));
    if (poll(&wait, 1, timeout_ms) > 0)
        ck_assert_msg(channel_read(c, 1 << 20, receive, user, &err) == 0, "the agent closed: %s",
                      err.message);
}

void box_start(struct box *b)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(!b->kind->driver->create(&b->config, &b->spec, &b->sandbox, &b->handle, &err), "create: %s",
                  err.message);
    int fd = b->kind->driver->open_channel(b->sandbox, &err);
    ck_assert_msg(fd >= 0, "open_channel: %s", err.message);
    b->channel = channel_new(fd);
    for (int64_t end = clock_boottime_ms() + 5000; !channel_is_ready(b->channel);) {
        ck_assert_int_lt(clock_boottime_ms(), end);
        turn(b->channel, ignore, NULL, 100);
    }
}

void box_leave(struct box *b)
{
    struct error err = ERROR_INIT;
    if (b->handle)
        ck_assert_msg(!b->kind->driver->terminate(&b->config, b->sandbox, b->handle, &err), "terminate: %s",
                      err.message);
    size_t i;
    json_t *directory;
    json_array_foreach(json_object_get(b->handle, "cgroup"), i, directory) {
        ck_assert_msg(access(json_string_value(directory), F_OK) != 0, "%s is left",
                      json_string_value(directory));
    }
    b->kind->driver->release(b->sandbox);
    channel_free(b->channel);
    json_decref(b->handle);
    memory_close_fd(&b->spec.files_fd);
    memory_close_fd(&b->spec.home_fd);
}

void box_end(struct box *b)
{
    box_leave(b);
    io_remove_tree(AT_FDCWD, b->config.state_dir, NULL);
    free(b->config.state_dir);
    free(b->config.agent);
    *b = (struct box){ .spec = { .files_fd = -1, .home_fd = -1 } };
}

struct reading {
    struct box_result *result;
    struct channel *channel;
    uint32_t stream;
    bool closed;
};

static void receive(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct reading *r = user;
    if (frame->stream != r->stream)
        return;
    if (frame->type == FRAME_DATA) {
        buffer_append((frame->flags & FRAME_CHANNEL) == 2 ? &r->result->err : &r->result->out, data, length);
        channel_grant(r->channel, frame->stream, length);
    } else if (frame->type == FRAME_EXIT) {
        json_auto_t *message = json_loadb(data, length, 0, NULL);
        r->result->status = (int)json_integer_value(json_object_get(message, "status"));
    } else if (frame->type == FRAME_FAILED || frame->type == FRAME_REPLY)
        buffer_append(&r->result->err, data, length);
    r->closed |= frame->type == FRAME_CLOSE ||
                 frame->type == FRAME_EXIT; /* what runs on in the background is not waited for */
}

void box_run(struct box *b, const char *command, bool pty, int timeout_ms, struct box_result *ret)
{
    *ret = (struct box_result){ BUFFER_INIT, BUFFER_INIT, -1 };
    json_auto_t *request = json_pack("{s:s, s:s, s:s, s:b}", "op", "exec", "command", command, "stdin",
                                     pty ? "pipe" : "null", "pty", pty);
    struct reading reading = { ret, b->channel, ++b->last_stream, false };
    channel_send_json(b->channel, FRAME_REQUEST, reading.stream, request);
    int64_t now = clock_boottime_ms(), end = now + timeout_ms, look = now;
    bool watches = b->kind->driver->enforce != NULL;
    for (; !reading.closed; now = clock_boottime_ms()) {
        ck_assert_msg(now < end, "%s: no end after %d ms; so far: %.200s", command, timeout_ms,
                      buffer_text(&ret->out));
        if (watches && now >= look) {
            bool killed;
            int interval = b->kind->driver->enforce(b->sandbox, &killed, NULL);
            watches = interval > 0;
            look = now + interval;
        }
        int64_t next = watches && look < end ? look : end;
        turn(b->channel, receive, &reading, next > now ? (int)(next - now) : 0);
    }
}

void box_result_clear(struct box_result *r)
{
    buffer_free(&r->out);
    buffer_free(&r->err);
}

json_t *box_file(struct box *b, json_t *request, const char *input, struct buffer *out)
{
    struct box_result result = { BUFFER_INIT, BUFFER_INIT, -1 };
    struct reading reading = { &result, b->channel, ++b->last_stream, false };
    size_t length = input ? strlen(input) : 0;
    json_object_set_new(request, "op", json_string("file"));
    json_object_set_new(request, "length", json_integer((json_int_t)length));
    channel_send_json(b->channel, FRAME_REQUEST, reading.stream, request);
    json_decref(request);
    channel_send_data(b->channel, 0, reading.stream, input, length);
    channel_send_after_data(b->channel, FRAME_END, 0, reading.stream, NULL, 0);
    for (int64_t end = clock_boottime_ms() + 20000; !reading.closed;) {
        ck_assert_int_lt(clock_boottime_ms(), end);
        turn(b->channel, receive, &reading, 100);
    }
    json_t *reply = json_loadb(result.err.data, result.err.length, 0, NULL);
    if (out)
        buffer_append(out, result.out.data, result.out.length);
    box_result_clear(&result);
    return reply;
}

const char *box_output(struct box *b, const char *command)
{
    static char text[64 << 10];
    struct box_result result;
    box_run(b, command, false, 20000, &result);
    snprintf(text, sizeof text, "%s", buffer_text(&result.out));
    ck_assert_msg(result.status == 0, "%s: status %d: %s%s", command, result.status, text,
                  buffer_text(&result.err));
    box_result_clear(&result);
    return text;
}

bool box_succeeds(struct box *b, const char *command)
{
    struct box_result result;
    box_run(b, command, false, 20000, &result);
    int status = result.status;
    box_result_clear(&result);
    return status == 0;
}
