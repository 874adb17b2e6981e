/* Owns the turn: frames in, each to its exec or operation; children reaped; frames out. It holds the list of
 * execs; what one of them does is in exec.c. Every frame is checked as a stranger's. */
#include "lib/agent/agent.h"

#include "lib/agent/exec.h"
#include "lib/agent/signals.h"
#include "lib/agent/tree.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/schema/field.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define READ_TURN     (512u << 10)
#define REPLIES_MAX   (4u << 20) /* a keeper that asks and does not read is not one */
#define END_FOR_MS    5000
#define TRIM_AFTER_MS 1000

static struct exec *find_exec(struct agent *agent, uint32_t number)
{
    for (struct exec *exec = agent->execs; exec; exec = exec->next)
        if (exec->number == number && !exec->closed)
            return exec;
    return NULL;
}

void agent_add(struct agent *agent, struct exec *exec)
{
    exec->next = agent->execs;
    agent->execs = exec;
}

/* ---- requests ---- */

static void request_exec(struct agent *agent, uint32_t number, const json_t *request)
{
    exec_start(agent, number, request);
}

static void request_file(struct agent *agent, uint32_t number, const json_t *request)
{
    files_request(agent->files, number, request);
}

static void request_ping(struct agent *agent, uint32_t number, const json_t *request)
{
    (void)request;
    json_auto_t *ret = json_object();
    channel_send_reply(agent->channel, number, ret, NULL);
}

static const struct {
    const char *op;
    void (*run)(struct agent *agent, uint32_t number, const json_t *request);
} requests[] = {
    { "exec", request_exec },
    { "file", request_file },
    { "ping", request_ping },
};

static int run_request(struct agent *agent, uint32_t number, const json_t *request, struct error *err)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    if (!op)
        return error_set(err, ERROR_INVALID, "request must be an object with op");
    for (size_t i = 0; i < N_ELEMENTS(requests); i++)
        if (!strcmp(op, requests[i].op)) {
            requests[i].run(agent, number, request);
            return 0;
        }
    return error_set(err, ERROR_UNSUPPORTED, "the agent has no operation of that name");
}

static void on_request(struct agent *agent, const struct frame *frame, const char *data, size_t length)
{
    if (find_exec(agent, frame->stream) || files_knows(agent->files, frame->stream))
        return;
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *request = field_parse_json(data, length, &err);
    if (!request || run_request(agent, frame->stream, request, &err) < 0)
        channel_send_reply(agent->channel, frame->stream, NULL, &err);
    if (channel_control_queued(agent->channel) > REPLIES_MAX)
        agent->ends = true;
}

/* ---- frames for an exec ---- */

static void on_data(struct exec *exec, const struct frame *frame, const char *data, size_t length)
{
    if ((frame->flags & FRAME_CHANNEL) == 0)
        exec_data(exec, data, length);
    else
        channel_grant(exec->agent->channel, exec->number, length);
}

static void on_end(struct exec *exec, const struct frame *frame, const char *data, size_t length)
{
    (void)data;
    (void)length;
    if ((frame->flags & FRAME_CHANNEL) == 0)
        exec_end_input(exec);
}

static void on_signal(struct exec *exec, const struct frame *frame, const char *data, size_t length)
{
    (void)frame;
    if (length == 2)
        signals_send(exec, (unsigned char)data[0], data[1] == 1);
}

static void on_resize(struct exec *exec, const struct frame *frame, const char *data, size_t length)
{
    (void)frame;
    const unsigned char *bytes = (const unsigned char *)data;
    if (length == 4)
        exec_resize(exec, (uint16_t)(bytes[0] << 8 | bytes[1]), (uint16_t)(bytes[2] << 8 | bytes[3]));
}

static void on_detach(struct exec *exec, const struct frame *frame, const char *data, size_t length)
{
    (void)frame;
    (void)data;
    (void)length;
    exec_detach(exec);
}

typedef void exec_frame(struct exec *exec, const struct frame *frame, const char *data, size_t length);
static exec_frame *const exec_frames[FRAME_TYPE_COUNT] = {
    [FRAME_DATA] = on_data,     [FRAME_END] = on_end,       [FRAME_SIGNAL] = on_signal,
    [FRAME_RESIZE] = on_resize, [FRAME_DETACH] = on_detach,
};

static void on_frame(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct agent *agent = user;
    if (frame->type == FRAME_REQUEST) {
        on_request(agent, frame, data, length);
        return;
    }
    if (files_frame(agent->files, frame, data, length))
        return;
    if (frame->type >= FRAME_TYPE_COUNT || !exec_frames[frame->type])
        return;
    struct exec *exec = find_exec(agent, frame->stream);
    if (exec)
        exec_frames[frame->type](exec, frame, data, length);
    else
        channel_forget(agent->channel, frame->stream);
}

static void on_channel(void *user, short events)
{
    struct agent *agent = user;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!agent->trimmer.armed)
        loop_arm(agent->loop, &agent->trimmer, TRIM_AFTER_MS);
    if (events & (POLLIN | POLLHUP | POLLERR) &&
        channel_read(agent->channel, READ_TURN, on_frame, agent, &err) != 0)
        agent->ends = true;
}

/* ---- children ---- */

static void on_child(struct agent *agent, pid_t pid, int status)
{
    if (files_child(agent->files, pid, status))
        return;
    for (struct exec *exec = agent->execs; exec; exec = exec->next)
        if (exec_child(exec, pid, status))
            return;
}

static void reap(struct agent *agent)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;)
        on_child(agent, pid, status);
}

static void on_sigchld(void *user, short events)
{
    struct agent *agent = user;
    (void)events;
    struct signalfd_siginfo info;
    while (read(agent->children_source.fd, &info, sizeof info) == sizeof info)
        ;
    reap(agent);
}

/* ---- timers ---- */

static void tell_waiting(struct exec *exec)
{
    pid_t root = exec->supervisor ? exec->supervisor : getpid();
    if (exec->exited ||
        !waiting_look(&exec->waiting, root, exec->input.ends && !exec->input.terminal ? -1 : exec->input.fd))
        return;
    char now = exec->waiting.now;
    channel_send(exec->agent->channel, FRAME_WAITING, 0, exec->number, &now, 1);
}

void agent_sample(struct agent *agent)
{
    int64_t first = -1;
    for (struct exec *exec = agent->execs; exec; exec = exec->next) {
        int64_t due = exec->exited || exec->closed ? -1 : waiting_due(&exec->waiting);
        if (due >= 0 && (first < 0 || due < first))
            first = due;
    }
    if (first >= 0)
        loop_arm(agent->loop, &agent->sampler, first ? first : 1);
}

static void on_sample(void *user)
{
    struct agent *agent = user;
    for (struct exec *exec = agent->execs; exec; exec = exec->next)
        tell_waiting(exec);
    agent_sample(agent);
}

/* At most once in a while, and a last time when it has become quiet. */
static void on_trim(void *user)
{
    (void)user;
    malloc_trim(0);
}

/* ---- the turn ---- */

static void sweep(struct agent *agent)
{
    struct exec **at = &agent->execs;
    while (*at) {
        struct exec *exec = *at;
        if (exec->closed) {
            *at = exec->next;
            channel_forget(agent->channel, exec->number);
            exec_free(exec);
        } else {
            at = &exec->next;
        }
    }
}

static void write_channel(struct agent *agent)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (channel_write(agent->channel, &err) < 0)
        agent->ends = true;
}

static short wanted(const struct agent *agent)
{
    return channel_events(agent->channel) & EPOLLOUT ? POLLIN | POLLOUT : POLLIN;
}

/* Room comes from credit that was read or from bytes that were written: then streams that wait for it go on.
 */
static void settle(struct agent *agent)
{
    write_channel(agent);
    for (struct exec *exec = agent->execs; exec; exec = exec->next)
        exec_resume(exec);
    files_settle(agent->files);
    write_channel(agent);
    sweep(agent);
    if (!agent->ends)
        loop_watch(agent->loop, &agent->channel_source, wanted(agent));
}

/* Supervisors too. Children have to be reaped meanwhile, or the dead would be counted as left. */
static void kill_everything(void)
{
    int64_t until = clock_boottime_ms() + END_FOR_MS;
    while (tree_kill_round(getpid(), NULL, NULL) && clock_boottime_ms() < until) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        usleep(1000);
    }
}

static void watch_children(struct agent *agent)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    agent->children_source = (struct loop_source){ .ready = on_sigchld, .user = agent };
    agent->children_source.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (agent->children_source.fd < 0)
        abort();
    loop_watch(agent->loop, &agent->children_source, POLLIN);
}

void agent_run(const struct launch_rules *rules, int channel_fd)
{
    struct agent agent = { .rules = *rules, .loop = loop_new(), .channel = channel_new(channel_fd) };
    agent.channel_source = (struct loop_source){ .fd = channel_fd, .ready = on_channel, .user = &agent };
    agent.sampler = (struct loop_timer){ .fire = on_sample, .user = &agent };
    agent.trimmer = (struct loop_timer){ .fire = on_trim, .user = &agent };
    agent.files = files_new(agent.loop, agent.channel, &agent.rules);
    watch_children(&agent);
    settle(&agent);
    while (!agent.ends) {
        loop_turn(agent.loop);
        settle(&agent);
    }
    kill_everything();
    for (struct exec *exec = agent.execs; exec; exec = exec->next)
        exec->closed = true;
    sweep(&agent);
    files_free(agent.files);
    channel_free(agent.channel);
    close(agent.children_source.fd);
    loop_free(agent.loop);
}
