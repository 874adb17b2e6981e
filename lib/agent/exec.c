/* Owns the states of one command: asked for, started, exited, exit told, closed; and which frames each step
 * sends. How it is forked, read, fed and signalled is in the files beside this one. */
#include "lib/agent/exec.h"

#include "lib/agent/agent.h"
#include "lib/agent/pty.h"
#include "lib/agent/rewrite.h"
#include "lib/agent/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

static void close_exec(struct exec *exec)
{
    channel_send_after_data(exec->agent->channel, FRAME_CLOSE, 0, exec->number, NULL, 0);
    exec->closed = true;
}

static void fail(struct exec *exec, int number, const struct error *err)
{
    json_auto_t *message =
        json_pack("{s:s, s:s}", "errno", error_errno_name(number), "message", err->message);
    channel_send_json(exec->agent->channel, FRAME_FAILED, exec->number, message);
    close_exec(exec);
}

static void send_exit(struct exec *exec)
{
    json_auto_t *message = json_pack("{s:i, s:b}", "status", exec->status, "oom_killed", 0);
    _cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);
    channel_send_after_data(exec->agent->channel, FRAME_EXIT, 0, exec->number, text, strlen(text));
    exec->exit_sent = true;
    exec->out[0].late = exec->out[1].late = true;
}

/* Moves on to whatever has become true. Each change of a stream, a report or a child ends here. */
static void advance(void *user)
{
    struct exec *exec = user;
    if (exec->exited && !exec->exit_sent && !exec->out[0].draining && !exec->out[1].draining)
        send_exit(exec);
    if (exec->exit_sent && !exec->closed && exec->out[0].fd < 0 && exec->out[1].fd < 0 && !exec->supervisor)
        close_exec(exec);
}

/* ---- descriptors ---- */

static void add_output(struct exec *exec, int i, int fd)
{
    struct output *out = &exec->out[i];
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    out->which = (uint8_t)(i + 1);
    output_open(out, fd);
}

static int open_terminal(struct exec *exec, struct launch *launch, struct error *err)
{
    int master, slave;
    if (pty_open(launch->rows, launch->cols, &master, &slave, err) < 0)
        return -1;
    launch->fds[0] = launch->fds[1] = launch->fds[2] = slave;
    exec->master = master;
    add_output(exec, 0, master);
    /* A second number for the same terminal, so that the loop can wait for either direction. */
    int writer = fcntl(master, F_DUPFD_CLOEXEC, 3);
    if (writer < 0)
        return -1;
    exec->input.terminal = true;
    input_open(&exec->input, writer);
    waiting_on_terminal(&exec->waiting, slave);
    return 0;
}

static int open_input(struct exec *exec, struct launch *launch)
{
    if (launch->stdin_is_null) {
        launch->fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return launch->fds[0] < 0 ? -1 : 0;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    launch->fds[0] = ends[0];
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    input_open(&exec->input, ends[1]);
    waiting_on_pipe(&exec->waiting, ends[1]);
    return 0;
}

static int open_output(struct exec *exec, struct launch *launch, int i)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    launch->fds[i + 1] = ends[1];
    add_output(exec, i, ends[0]);
    return 0;
}

static int open_pipes(struct exec *exec, struct launch *launch)
{
    if (open_input(exec, launch) < 0 || open_output(exec, launch, 0) < 0)
        return -1;
    if (!launch->merge_stderr)
        return open_output(exec, launch, 1);
    launch->fds[2] = launch->fds[1];
    return 0;
}

static int open_descriptors(struct exec *exec, struct launch *launch, struct error *err)
{
    if (launch->terminal)
        return open_terminal(exec, launch, err);
    if (open_pipes(exec, launch) == 0)
        return 0;
    int number = errno;
    error_set(err, ERROR_DRIVER, "pipe: %s", strerror(number));
    errno = number;
    return -1;
}

/* ---- what the supervisor reports ---- */

/* What the supervisor left there. */
static void add_rewritten(json_t *message, const struct launch *launch)
{
    char text[REWRITE_MAX + 1];
    ssize_t length = launch->rewritten_fd < 0 ? 0 : pread(launch->rewritten_fd, text, sizeof text, 0);
    if (length > 0 && length <= REWRITE_MAX)
        json_object_set_new(message, "rewritten", json_stringn(text, (size_t)length));
}

static void started(struct exec *exec, pid_t pid)
{
    exec->command = pid;
    json_auto_t *message = json_pack("{s:i, s:i}", "pid", (int)pid, "pgid", (int)pid);
    add_rewritten(message, exec->launch);
    launch_clear(exec->launch);
    free(STEAL(exec->launch));
    channel_send_json(exec->agent->channel, FRAME_STARTED, exec->number, message);
    for (int i = 0; i < 2; i++)
        output_start(&exec->out[i]);
    waiting_start(&exec->waiting);
    agent_sample(exec->agent);
    if (exec->pending_signal)
        signals_send(exec, exec->pending_signal, exec->pending_tree);
}

static void failed(struct exec *exec, const struct report *report)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    supervise_describe(report, exec->launch, &err);
    fail(exec, report->failed.number, &err);
}

static void exited(struct exec *exec, int status)
{
    exec->exited = true;
    exec->status = status;
    input_close(&exec->input);
    for (int i = 0; i < 2; i++)
        exec->out[i].draining = exec->out[i].fd >= 0;
    for (int i = 0; i < 2; i++)
        output_drain(&exec->out[i]);
    advance(exec);
}

static void on_report(struct exec *exec, const struct report *report)
{
    if (report->kind == REPORT_FORKED)
        exec->forked = report->pid;
    else if (report->kind == REPORT_STARTED && !exec->command)
        started(exec, report->pid);
    else if (report->kind == REPORT_FAILED && !exec->command)
        failed(exec, report);
    else if (report->kind == REPORT_EXITED && exec->command && !exec->exited)
        exited(exec, report->status);
}

static void close_reports(struct exec *exec)
{
    if (exec->reports.fd < 0)
        return;
    loop_watch(exec->agent->loop, &exec->reports, 0);
    close(STEAL_FD(exec->reports.fd));
}

static void read_reports(struct exec *exec)
{
    struct report report;
    while (exec->reports.fd >= 0 && !exec->closed) {
        ssize_t got = read(exec->reports.fd, &report, sizeof report);
        if (got == sizeof report)
            on_report(exec, &report);
        else if (got < 0 && errno == EINTR)
            continue;
        else if (got < 0 && errno == EAGAIN)
            return;
        else
            close_reports(exec);
    }
}

static void on_reports(void *user, short events)
{
    (void)events;
    read_reports(user);
}

/* ---- children of the agent ---- */

/* Somebody in the sandbox killed the supervisor. The command, if it lives, is the agent's child now and is
 * waited for as such; if it was reaped before that could be told, all that is known is that it is gone. */
static void lost_supervisor(struct exec *exec)
{
    exec->orphaned = true;
    if (exec->exited || exec->closed)
        return;
    if (!exec->command && exec->forked)
        started(exec, exec->forked);
    if (!exec->command) {
        _cleanup_error_ struct error err = ERROR_INIT;
        error_set(&err, ERROR_DRIVER,
                  "process: ended by another process of the sandbox before it had started");
        fail(exec, ECHILD, &err);
        return;
    }
    int status;
    pid_t pid = waitpid(exec->command, &status, WNOHANG);
    if (pid == exec->command)
        exited(exec, status);
    else if (pid < 0)
        exited(exec, SIGKILL);
}

bool exec_child(struct exec *exec, pid_t pid, int status)
{
    if (pid == exec->supervisor && WIFSTOPPED(status)) {
        /* It reports nothing while it is stopped, so it may not be. */
        kill(pid, SIGCONT);
        return true;
    }
    if (WIFSTOPPED(status))
        return false;
    if (pid == exec->supervisor) {
        read_reports(exec);
        exec->supervisor = 0;
        close_reports(exec);
        if (!WIFEXITED(status))
            lost_supervisor(exec);
        advance(exec);
        return true;
    }
    if (pid != exec->command || exec->exited || !pid)
        return false;
    read_reports(exec);
    if (!exec->exited)
        exited(exec, status);
    return true;
}

/* ---- what the keeper asks for ---- */

static struct exec *new_exec(struct agent *agent, uint32_t number)
{
    struct exec *exec = xcalloc(1, sizeof *exec);
    *exec = (struct exec){ .agent = agent, .number = number, .master = -1 };
    exec->reports = (struct loop_source){ .fd = -1, .ready = on_reports, .user = exec };
    exec->input =
        (struct input){ .loop = agent->loop, .channel = agent->channel, .number = number, .fd = -1 };
    for (int i = 0; i < 2; i++)
        exec->out[i] = (struct output){ .loop = agent->loop,
                                        .channel = agent->channel,
                                        .number = number,
                                        .fd = -1,
                                        .changed = advance,
                                        .user = exec };
    exec->launch = xcalloc(1, sizeof *exec->launch);
    *exec->launch = (struct launch)LAUNCH_INIT;
    signals_init(exec);
    return exec;
}

static int prepare(struct exec *exec, const json_t *request, int *ret_errno, struct error *err)
{
    if (launch_prepare(exec->launch, &exec->agent->rules, request, ret_errno, err) < 0)
        return -1;
    if (open_descriptors(exec, exec->launch, err) == 0)
        return 0;
    *ret_errno = errno;
    return -1;
}

static int start(struct exec *exec, int *ret_errno, struct error *err)
{
    exec->supervisor = supervise_start(&exec->agent->rules, exec->launch, &exec->reports.fd);
    *ret_errno = errno;
    launch_close_fds(exec->launch);
    if (exec->supervisor < 0) {
        exec->supervisor = 0;
        return error_set(err, ERROR_DRIVER, "process: %s", strerror(*ret_errno));
    }
    loop_watch(exec->agent->loop, &exec->reports, POLLIN);
    return 0;
}

void exec_start(struct agent *agent, uint32_t number, const json_t *request)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct exec *exec = new_exec(agent, number);
    agent_add(agent, exec);
    int failure = 0;
    if (prepare(exec, request, &failure, &err) < 0 || start(exec, &failure, &err) < 0)
        fail(exec, failure, &err);
}

void exec_data(struct exec *exec, const char *data, size_t length)
{
    waiting_touch(&exec->waiting);
    agent_sample(exec->agent);
    input_data(&exec->input, data, length);
}

void exec_end_input(struct exec *exec)
{
    waiting_touch(&exec->waiting);
    agent_sample(exec->agent);
    input_end(&exec->input);
}

void exec_resize(struct exec *exec, uint16_t rows, uint16_t cols)
{
    if (exec->master >= 0 && exec->out[0].fd >= 0)
        pty_resize(exec->master, rows, cols);
}

void exec_detach(struct exec *exec)
{
    for (int i = 0; i < 2; i++)
        output_discard(&exec->out[i]);
}

void exec_resume(struct exec *exec)
{
    for (int i = 0; i < 2; i++)
        output_resume(&exec->out[i]);
}

void exec_free(struct exec *exec)
{
    loop_disarm(exec->agent->loop, &exec->kill_timer);
    close_reports(exec);
    input_close(&exec->input);
    for (int i = 0; i < 2; i++)
        output_close(&exec->out[i]);
    if (exec->launch)
        launch_clear(exec->launch);
    free(exec->launch);
    free(exec);
}
