/* Owns one agent as a child of a test, and the keeper's half of the protocol in its plainest form. Checks
 * nothing itself. */
#include "tests/support/agent_peer.h"

#include "lib/base/clock.h"
#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *agent_path(void)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    _cleanup_free_ char *beside = xasprintf("%s/../workspace-agent", self);
    char *path = realpath(beside, NULL);
    if (!path)
        fprintf(stderr, "no agent at %s\n", beside);
    return path;
}

static size_t add_all(const char **argv, size_t count, const char *const *more)
{
    for (; more && *more && count < 60; more++)
        argv[count++] = *more;
    return count;
}

static _Noreturn void run_agent(const struct peer *peer, int fd, const char *const *wrapper,
                                const char *const *extra)
{
    _cleanup_free_ char *path = agent_path();
    char number[16];
    int channel = fcntl(fd, F_DUPFD, 40);
    snprintf(number, sizeof number, "%d", channel);
    const char *const own[] = { path, "--channel", number, NULL };
    const char *const folders[] = { "--workspace", peer->workspace, "--home", peer->workspace,
                                    "--ripgrep",   "/usr/bin/rg",   NULL };
    const char *argv[64] = { NULL };
    size_t count = add_all(argv, 0, wrapper);
    count = add_all(argv, count, own);
    if (!wrapper)
        count = add_all(argv, count, folders);
    add_all(argv, count, extra);
    process_reset_signals();
    execvp(argv[0], (char *const *)argv);
    _exit(126);
}

struct peer *peer_start(const char *const *wrapper, const char *const *extra)
{
    struct peer *peer = xcalloc(1, sizeof *peer);
    char folder[] = "/tmp/agent-test-XXXXXX";
    int ends[2];
    if (!mkdtemp(folder) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        abort();
    chmod(folder, 0777);
    peer->workspace = xstrdup(folder);
    peer->agent = fork();
    if (peer->agent == 0)
        run_agent(peer, ends[1], wrapper, extra);
    close(ends[1]);
    peer->raw_fd = ends[0];
    peer->channel = channel_new(ends[0]);
    return peer;
}

static void free_exec(struct peer_exec *exec)
{
    for (int i = 0; i < 3; i++) {
        buffer_free(&exec->out[i]);
        buffer_free(&exec->late_out[i]);
    }
    json_decref(exec->failure);
    json_decref(exec->reply);
    free(exec);
}

void peer_free(struct peer *peer)
{
    channel_free(peer->channel);
    int64_t until = clock_boottime_ms() + 8000;
    while (waitpid(peer->agent, NULL, WNOHANG) == 0 && clock_boottime_ms() < until)
        usleep(2000);
    while (peer->execs) {
        struct peer_exec *exec = peer->execs;
        peer->execs = exec->next;
        free_exec(exec);
    }
    _cleanup_free_ char *command = xasprintf("rm -rf '%s'", peer->workspace);
    if (system(command) != 0)
        fprintf(stderr, "%s is left\n", peer->workspace);
    free(peer->workspace);
    free(peer);
}

static struct peer_exec *find(struct peer *peer, uint32_t number)
{
    for (struct peer_exec *exec = peer->execs; exec; exec = exec->next)
        if (exec->number == number)
            return exec;
    return NULL;
}

static void on_data(struct peer *peer, struct peer_exec *exec, const struct frame *frame, const char *data,
                    size_t length)
{
    int which = frame->flags & FRAME_CHANNEL;
    bool late = frame->flags & FRAME_LATE;
    exec->bytes[which % 3] += length;
    exec->late[which % 3] |= late;
    exec->after_exit += exec->exited && !late;
    if (!exec->drops)
        buffer_append(late ? &exec->late_out[which % 3] : &exec->out[which % 3], data, length);
    if (!exec->holds)
        channel_grant(peer->channel, exec->number, length);
}

static void on_started(struct peer_exec *exec, const char *data, size_t length)
{
    json_auto_t *message = json_loadb(data, length, 0, NULL);
    exec->started = true;
    exec->pid = (pid_t)json_integer_value(json_object_get(message, "pid"));
}

static void on_exit_frame(struct peer_exec *exec, const char *data, size_t length)
{
    json_auto_t *message = json_loadb(data, length, 0, NULL);
    exec->exited = true;
    exec->exits++;
    exec->status = (int)json_integer_value(json_object_get(message, "status"));
}

static void on_frame(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct peer *peer = user;
    struct peer_exec *exec = find(peer, frame->stream);
    if (!exec)
        return;
    switch (frame->type) {
    case FRAME_DATA:
        on_data(peer, exec, frame, data, length);
        break;
    case FRAME_END:
        exec->ended[(frame->flags & FRAME_CHANNEL) % 3] = true;
        break;
    case FRAME_STARTED:
        on_started(exec, data, length);
        break;
    case FRAME_FAILED:
        exec->failed = true;
        exec->failure = json_loadb(data, length, 0, NULL);
        break;
    case FRAME_EXIT:
        on_exit_frame(exec, data, length);
        break;
    case FRAME_WAITING:
        exec->waiting = length == 1 ? data[0] : -1;
        exec->waiting_changes++;
        break;
    case FRAME_REPLY:
        exec->replied = true;
        exec->reply = json_loadb(data, length, 0, NULL);
        break;
    case FRAME_CLOSE:
        exec->closed = true;
        exec->broken = length == 1 && data[0] != 0;
        channel_forget(peer->channel, exec->number);
        break;
    }
}

void peer_turn(struct peer *peer, int timeout_ms)
{
    uint32_t events = channel_events(peer->channel);
    struct pollfd fd = { .fd = channel_fd(peer->channel),
                         .events = POLLIN | (events & EPOLLOUT ? POLLOUT : 0) };
    _cleanup_error_ struct error err = ERROR_INIT;
    if (poll(&fd, 1, timeout_ms) < 0)
        return;
    if (channel_write(peer->channel, &err) < 0 ||
        channel_read(peer->channel, 1 << 20, on_frame, peer, &err) != 0)
        peer->gone = true;
    error_clear(&err);
    if (!peer->gone && channel_write(peer->channel, &err) < 0)
        peer->gone = true;
}

struct peer_exec *peer_request(struct peer *peer, const json_t *request)
{
    struct peer_exec *exec = xcalloc(1, sizeof *exec);
    exec->number = ++peer->last;
    exec->next = peer->execs;
    peer->execs = exec;
    channel_send_json(peer->channel, FRAME_REQUEST, exec->number, request);
    return exec;
}

struct peer_exec *peer_run(struct peer *peer, const char *command, const char *members)
{
    json_auto_t *request = json_loads(members, 0, NULL);
    json_object_set_new(request, "op", json_string("exec"));
    json_object_set_new(request, "command", json_string(command));
    return peer_request(peer, request);
}

void peer_input(struct peer *peer, struct peer_exec *exec, const char *data, size_t length, bool end)
{
    while (length) {
        size_t room = channel_data_room(peer->channel, exec->number);
        size_t piece = room < length ? room : length;
        channel_send_data(peer->channel, 0, exec->number, data, piece);
        data += piece;
        length -= piece;
        peer_turn(peer, length ? 20 : 0);
        if (peer->gone || exec->closed)
            return;
    }
    if (end)
        channel_send_after_data(peer->channel, FRAME_END, 0, exec->number, NULL, 0);
}

void peer_signal(struct peer *peer, struct peer_exec *exec, int signal_number, bool tree)
{
    char payload[2] = { (char)signal_number, tree };
    channel_send(peer->channel, FRAME_SIGNAL, 0, exec->number, payload, 2);
}

void peer_resize(struct peer *peer, struct peer_exec *exec, unsigned rows, unsigned cols)
{
    char payload[4] = { (char)(rows >> 8), (char)rows, (char)(cols >> 8), (char)cols };
    channel_send(peer->channel, FRAME_RESIZE, 0, exec->number, payload, 4);
}

const char *peer_text(struct peer_exec *exec, int which)
{
    return buffer_text(&exec->out[which]);
}
