/* The agent whole: a keeper's bytes, the commands' output, what supervisors report and which children end, in
 * any order. Commands are not started: their ends of the pipes lie here. What the agent sends must be frames
 * of the protocol, and each exec's in the order that it promises.
 *
 * An input is a row of steps: kind, exec, then what the kind needs. Linked with --wrap for what a step stands
 * for. */
#include "lib/agent/agent.h"
#include "lib/agent/files/host.h"
#include "lib/agent/supervise.h"
#include "lib/agent/tree.h"
#include "lib/base/memory.h"
#include "tests/fuzz/input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { EXECS = 8, CHILDREN = 16, IMPOSSIBLE_PID = 0x7FFF0000 };

static struct input steps;
static int peer, after;
static struct channel *keeper; /* the reading side of peer */

static struct fake {
    int fds[3], report_fd;
} fakes[EXECS];
static size_t fake_count;

static struct {
    pid_t pid;
    int status;
} children[CHILDREN];
static size_t child_count;

/* ---- what the agent finds instead of processes ---- */

pid_t __wrap_supervise_start(const struct launch_rules *rules, const struct launch *launch, int *ret_report);
pid_t __wrap_supervise_start(const struct launch_rules *rules, const struct launch *launch, int *ret_report)
{
    int ends[2];
    (void)rules;
    for (char **at = launch->environment; *at != NULL; at++)
        holds(strchr(*at, '=') != NULL);
    holds(launch->argv[0] != NULL && launch->argv[2] != NULL && launch->directory != NULL);
    if (fake_count == EXECS || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        errno = EAGAIN;
        return -1;
    }
    struct fake *f = &fakes[fake_count++];
    *f = (struct fake){ .report_fd = ends[1] };
    for (int i = 0; i < 3; i++) {
        f->fds[i] = fcntl(launch->fds[i], F_DUPFD_CLOEXEC, 3);
        fcntl(f->fds[i], F_SETFL, O_NONBLOCK);
    }
    *ret_report = ends[0];
    return IMPOSSIBLE_PID + (pid_t)fake_count;
}

/* Calls on files are relays like execs, with fewer frames: each finds no process here. */
pid_t __wrap_file_process_start(const struct launch_rules *rules, const struct file_kind *kind,
                                const json_t *request, struct file_pipes *ret);
pid_t __wrap_file_process_start(const struct launch_rules *rules, const struct file_kind *kind,
                                const json_t *request, struct file_pipes *ret)
{
    (void)rules;
    (void)kind;
    (void)request;
    (void)ret;
    errno = EAGAIN;
    return -1;
}

struct file_host *__wrap_file_host_join(struct file_host **at, const struct launch_rules *rules,
                                        const struct file_kind *kind, const json_t *request,
                                        struct file_pipes *ret);
struct file_host *__wrap_file_host_join(struct file_host **at, const struct launch_rules *rules,
                                        const struct file_kind *kind, const json_t *request,
                                        struct file_pipes *ret)
{
    (void)at;
    (void)rules;
    (void)kind;
    (void)request;
    (void)ret;
    errno = EAGAIN;
    return NULL;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    (void)options;
    if (child_count == 0 || (pid != -1 && pid != children[child_count - 1].pid)) {
        errno = ECHILD;
        return pid == -1 ? 0 : -1;
    }
    child_count--;
    if (status != NULL)
        *status = children[child_count].status;
    return children[child_count].pid;
}

/* What runs below this process is none of the agent's. */
size_t __wrap_tree_kill_round(pid_t root, tree_filter *filter, void *user);
size_t __wrap_tree_kill_round(pid_t root, tree_filter *filter, void *user)
{
    (void)root;
    if (filter != NULL)
        filter(user, IMPOSSIBLE_PID);
    return 0;
}

void __wrap_tree_signal(pid_t root, int signal_number, tree_filter *filter, void *user);
void __wrap_tree_signal(pid_t root, int signal_number, tree_filter *filter, void *user)
{
    (void)signal_number;
    __wrap_tree_kill_round(root, filter, user);
}

/* No step waits. */
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    (void)timeout;
    return __real_poll(fds, count, 0);
}

/* ---- what the agent says ---- */

static struct told {
    bool started, failed, exited;
    bool replied; /* a call on files is */
} told[256];

static void hear(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct told *t = &told[frame->stream & 255];
    (void)user;
    (void)data;
    if (frame->stream > 255)
        return;
    switch (frame->type) {
    case FRAME_STARTED:
        holds(!t->started && !t->failed && !t->exited);
        t->started = true;
        break;
    case FRAME_FAILED:
        holds(!t->started && !t->failed && !t->exited);
        t->failed = true;
        break;
    case FRAME_EXIT:
        holds(t->started && !t->exited);
        t->exited = true;
        break;
    case FRAME_DATA:
        holds(t->started && ((frame->flags & FRAME_LATE) != 0) == t->exited);
        channel_grant(keeper, frame->stream, length);
        break;
    case FRAME_REPLY:
        t->replied = true;
        break;
    case FRAME_CLOSE:
        holds(t->exited || t->failed || t->replied);
        *t = (struct told){ 0 };
        break;
    default:
        break;
    }
}

/* ---- steps ---- */

static void send_bytes(const void *data, size_t length)
{
    if (peer >= 0)
        (void)!send(peer, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_frame(uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t length)
{
    char header[FRAME_HEADER_SIZE];
    const struct frame frame = { .stream = stream, .length = (uint32_t)length, .type = type, .flags = flags };
    frame_encode_header(header, &frame);
    send_bytes(header, sizeof(header));
    send_bytes(data, length);
}

static void step_start(uint8_t stream)
{
    size_t length;
    const char *text = input_line(&steps, &length);
    send_frame(FRAME_REQUEST, 0, stream, text, length);
}

static void step_frame(uint8_t stream)
{
    uint8_t type = input_u8(&steps), flags = input_u8(&steps);
    size_t length;
    const char *data = input_bytes(&steps, input_u8(&steps), &length);
    send_frame(type, flags, stream, data, length);
}

static void step_raw(uint8_t stream)
{
    size_t length;
    const char *data = input_bytes(&steps, stream, &length);
    send_bytes(data, length);
}

static struct fake *fake_at(uint8_t number)
{
    return fake_count > 0 ? &fakes[number % fake_count] : NULL;
}

static void step_report(uint8_t number)
{
    struct fake *f = fake_at(number);
    struct report report = { .kind = input_u8(&steps) };
    if (report.kind == REPORT_FAILED) {
        report.failed.step = (enum launch_step)(input_u8(&steps) % STEP_COUNT);
        report.failed.number = input_u8(&steps);
    } else {
        report.pid = IMPOSSIBLE_PID + 1000 + number;
        if (report.kind == REPORT_EXITED)
            report.status = input_u16(&steps);
    }
    if (f != NULL && f->report_fd >= 0)
        (void)!write(f->report_fd, &report, sizeof(report));
}

static void step_output(uint8_t number)
{
    struct fake *f = fake_at(number);
    uint8_t which = input_u8(&steps);
    size_t length, times = (which >> 4) * 100u + 1;
    const char *data = input_bytes(&steps, input_u8(&steps), &length);
    for (size_t i = 0; f != NULL && i < times && f->fds[1 + (which & 1)] >= 0; i++)
        if (write(f->fds[1 + (which & 1)], data, length) <= 0)
            return;
}

static void step_read(uint8_t number)
{
    static char sink[70000];
    struct fake *f = fake_at(number);
    if (f != NULL && f->fds[0] >= 0)
        (void)!read(f->fds[0], sink, sizeof(sink));
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void step_close(uint8_t number)
{
    struct fake *f = fake_at(number);
    uint8_t which = input_u8(&steps) & 3;
    if (f != NULL)
        close_one(which == 3 ? &f->report_fd : &f->fds[which]);
}

static void step_child(uint8_t number)
{
    pid_t pid = IMPOSSIBLE_PID + (number & 0x40 ? 1000 : 1) + (number & 0x3F);
    if (child_count == CHILDREN)
        return;
    children[child_count].status = input_u16(&steps);
    children[child_count++].pid = pid;
    raise(SIGCHLD);
}

static void (*const kinds[])(uint8_t) = { step_start,  step_frame, step_raw,   step_report,
                                          step_output, step_read,  step_close, step_child };

void __real_loop_turn(struct loop *loop);
void __wrap_loop_turn(struct loop *loop);
void __wrap_loop_turn(struct loop *loop)
{
    if (steps.left > 0) {
        uint8_t kind = input_u8(&steps);
        kinds[kind % N_ELEMENTS(kinds)](input_u8(&steps));
    } else if (after++ == 0) {
        shutdown(peer, SHUT_WR);
    }
    holds(after < 1000);
    __real_loop_turn(loop);
    holds(channel_read(keeper, 1 << 20, hear, NULL, NULL) >= 0);
    channel_write(keeper, NULL);
}

/* ---- one life ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct launch_rules rules = { .workspace = "/nonexistent/files", .home = "/nonexistent/home" };
    int fds[2];
    if (size > 60000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    steps = (struct input){ data, size };
    peer = fds[1];
    after = 0;
    memset(told, 0, sizeof(told));
    keeper = channel_new(peer);
    channel_write(keeper, NULL);
    agent_run(&rules, fds[0]);
    channel_free(keeper);
    for (; fake_count > 0; fake_count--) {
        for (int i = 0; i < 3; i++)
            close_one(&fakes[fake_count - 1].fds[i]);
        close_one(&fakes[fake_count - 1].report_fd);
    }
    child_count = 0;
    return 0;
}
