/* Owns the table of file calls and the life of a call's process, from fork to its last write. What a call
 * does is in a file of its own. */
#include "lib/agent/files/process.h"

#include "lib/base/io.h"
#include "lib/base/json_text.h"
#include "lib/wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>

#define SHORT_MS    60000
#define TRANSFER_MS 300000
#define SEARCH_MS   60000 /* they end themselves, before */
#define REPLY_FD    3
#define TURNS_FD    4
#define PIPE_USUAL  (60u << 10)
#define PIPE_LARGE  (256 << 10)

static const struct file_kind kinds[] = {
    { "read", FILE_SHORT, SHORT_MS, file_read },
    { "write", FILE_SHORT, SHORT_MS, file_write },
    { "edit", FILE_SHORT, SHORT_MS, file_edit },
    { "list", FILE_SHORT, SHORT_MS, file_list },
    { "mkdir", FILE_SHORT, SHORT_MS, file_make_directory },
    { "move", FILE_SHORT, SHORT_MS, file_move },
    { "remove", FILE_SHORT, SHORT_MS, file_remove },
    { "download", FILE_LOOK, TRANSFER_MS, file_download },
    { "upload", FILE_UPLOAD, TRANSFER_MS, file_upload },
    { "search", FILE_SEARCH, SEARCH_MS, file_search },
    { "grep", FILE_SEARCH, SEARCH_MS, file_grep },
    { "watch", FILE_WATCH, SHORT_MS, file_watch },
};

const struct file_kind *file_kind_find(const char *name)
{
    for (size_t i = 0; i < N_ELEMENTS(kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

/* ---- inside ---- */

const char *file_call_path(const struct file_call_context *call, const char *name)
{
    const json_t *value = json_object_get(call->request, name);
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value)
               ? json_string_value(value)
               : "";
}

int64_t file_call_integer(const struct file_call_context *call, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(call->request, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

int64_t file_call_bounded(const struct file_call_context *call, const char *name, int64_t otherwise,
                          int64_t least, int64_t most)
{
    int64_t value = file_call_integer(call, name, otherwise);
    return value < least ? least : value > most ? most : value;
}

bool file_call_flag(const struct file_call_context *call, const char *name)
{
    return json_is_true(json_object_get(call->request, name));
}

void file_call_reply(struct file_call_context *call, const json_t *ret, const struct error *err)
{
    json_auto_t *message =
        err ? json_pack("{s:o}", "error", error_pack(err)) : json_pack("{s:O}", "ret", ret);
    _cleanup_buffer_ struct buffer out = BUFFER_INIT; /* one piece, so that PID 1 is woken once */
    uint32_t told = 0;
    buffer_append(&out, &told, sizeof told);
    json_text_append(&out, message);
    size_t length = out.length - sizeof told;
    if (length > FRAME_MESSAGE_MAX) {
        _cleanup_error_ struct error large = ERROR_INIT;
        error_set(&large, ERROR_TOO_LARGE, "the answer is longer than %u bytes", FRAME_MESSAGE_MAX);
        file_call_reply(call, NULL, &large);
        return;
    }
    told = (uint32_t)length | (call->much_follows ? FILE_REPLY_MUCH : 0);
    memcpy(out.data, &told, sizeof told);
    if (out.length > PIPE_USUAL)
        fcntl(call->reply_fd, F_SETPIPE_SZ, PIPE_LARGE);
    io_write_all(call->reply_fd, out.data, out.length, NULL);
    close(STEAL_FD(call->reply_fd));
}

int file_call_input(struct file_call_context *call, size_t limit, struct buffer *ret, struct error *err)
{
    for (;;) {
        char *to = buffer_reserve(ret, 64 << 10);
        ssize_t got = read(call->input, to, 64 << 10);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        ret->length += (size_t)got;
        if (ret->length > limit)
            return error_set(err, ERROR_TOO_LARGE, "the content has more than %zu bytes", limit);
    }
    if ((int64_t)ret->length != file_call_integer(call, "length", -1))
        return error_set(err, ERROR_UNAVAILABLE, "the content did not come whole: nothing was written");
    return 0;
}

/* Nothing of PID 1 may stay open here: not the channel, nor an end of another call's pipes. */
static void take_descriptors(struct file_call_context *call)
{
    int reply = fcntl(call->reply_fd, F_DUPFD, 16);
    int output = fcntl(call->output, F_DUPFD, 16);
    int turns = fcntl(call->turns, F_DUPFD, 16);
    if (reply < 0 || output < 0 || turns < 0 || dup2(call->input, 0) < 0 || dup2(output, 1) < 0 ||
        dup2(reply, REPLY_FD) < 0 || dup2(turns, TURNS_FD) < 0)
        _exit(2);
    if (close_range(TURNS_FD + 1, ~0U, 0) < 0)
        for (int fd = TURNS_FD + 1; fd < 4096; fd++)
            close(fd);
    call->input = 0;
    call->output = 1;
    call->reply_fd = REPLY_FD;
    call->turns = TURNS_FD;
    fcntl(REPLY_FD, F_SETFD, FD_CLOEXEC);
    fcntl(TURNS_FD, F_SETFD, FD_CLOEXEC);
}

static int open_root(struct file_call_context *call, const struct launch_rules *rules, struct error *err)
{
    call->root = (struct path_root){ .path = rules->workspace };
    call->root.fd = open(rules->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return call->root.fd >= 0 ? 0 : error_errno(err, ERROR_DRIVER, errno, "the workspace cannot be opened");
}

static _Noreturn void run(const struct launch_rules *rules, const struct file_kind *kind,
                          struct file_call_context *call)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *ret = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "ws-files");
    take_descriptors(call);
    int rc = open_root(call, rules, &err) < 0 ? -1 : kind->run(call, &ret, &err);
    if (call->reply_fd >= 0)
        file_call_reply(call, ret, rc < 0 ? &err : NULL);
    else if (rc < 0)
        _exit(1);
    _exit(0);
}

/* ---- outside ---- */

struct ends {
    int input[2], output[2], reply[2]; /* reading, writing */
};

static void close_pair(int pair[2])
{
    memory_close_fd(&pair[0]);
    memory_close_fd(&pair[1]);
}

static void close_ends(struct ends *ends)
{
    close_pair(ends->input);
    close_pair(ends->output);
    close_pair(ends->reply);
}
#define _cleanup_ends_ __attribute__((cleanup(close_ends)))

static int open_ends(struct ends *ends)
{
    if (pipe2(ends->input, O_CLOEXEC) < 0 || pipe2(ends->output, O_CLOEXEC) < 0 ||
        pipe2(ends->reply, O_CLOEXEC) < 0)
        return -1;
    fcntl(ends->input[1], F_SETFL, O_NONBLOCK);
    fcntl(ends->output[0], F_SETFL, O_NONBLOCK);
    fcntl(ends->reply[0], F_SETFL, O_NONBLOCK);
    return 0;
}

pid_t file_process_start(const struct launch_rules *rules, int turns, const struct file_kind *kind,
                         const json_t *request, struct file_pipes *ret)
{
    _cleanup_ends_ struct ends ends = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    if (open_ends(&ends) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct file_call_context call = { .request = request,
                                          .rules = rules,
                                          .input = ends.input[0],
                                          .output = ends.output[1],
                                          .reply_fd = ends.reply[1],
                                          .turns = turns };
        run(rules, kind, &call);
    }
    if (pid < 0)
        return -1;
    ret->input = STEAL_FD(ends.input[1]);
    ret->output = STEAL_FD(ends.output[0]);
    ret->reply = STEAL_FD(ends.reply[0]);
    return pid;
}
