/* The sandbox's end: frames of the agent become entries of the journal, what is asked of execs becomes
 * frames. Nothing that the agent says is trusted: unknown streams, double ends and over-long texts change
 * nothing. */
#include "lib/base/process.h"
#include "lib/keeper/internal.h"
#include "lib/schema/field.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#define READ_A_TURN (1u << 20)

/* ---- from the agent ---- */

static json_t *parse_object(const char *data, size_t length)
{
    json_t *message = field_parse_json(data, length, NULL);
    if (json_is_object(message))
        return message;
    json_decref(message);
    return NULL;
}

static int member_int(const json_t *message, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(message, name));
    return value < INT32_MIN || value > INT32_MAX ? 0 : (int)value;
}

static void on_started(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                       size_t length)
{
    json_auto_t *message = parse_object(data, length);
    (void)frame;
    const char *rewritten = json_string_value(json_object_get(message, "rewritten"));
    journal_add_started(k, e, member_int(message, "pid"), member_int(message, "pgid"), rewritten);
}

static void on_failed(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                      size_t length)
{
    json_auto_t *message = parse_object(data, length);
    const char *name = json_string_value(json_object_get(message, "errno"));
    const char *text = json_string_value(json_object_get(message, "message"));
    (void)frame;
    name = name != NULL ? name : "";
    text = text != NULL ? text : "the command could not be started";
    bool named = name[0] == '\0' || strstr(text, name) != NULL;
    _cleanup_free_ char *why = named ? xstrdup(text) : xasprintf("%.32s: %s", name, text);
    journal_add_text(k, e, ENTRY_FAILED, why, strlen(why));
}

/* A refused start may also come as the request's reply. */
static void on_reply(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                     size_t length)
{
    json_auto_t *message = parse_object(data, length);
    json_t *packed = json_object_get(message, "error");
    _cleanup_error_ struct error err = ERROR_INIT;
    (void)frame;
    if (packed == NULL)
        return;
    error_unpack(&err, packed);
    journal_add_text(k, e, ENTRY_FAILED, err.message, strlen(err.message));
}

static void on_data(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                    size_t length)
{
    unsigned channel = frame->flags & FRAME_CHANNEL;
    if (channel == 1 || channel == 2)
        journal_add_data(k, e, channel - 1, data, length);
}

static void on_end(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                   size_t length)
{
    unsigned channel = frame->flags & FRAME_CHANNEL;
    (void)data;
    (void)length;
    if (channel == 1 || channel == 2)
        journal_add_flush(k, e, channel - 1);
}

static bool looks_killed(int status)
{
    return (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
           (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL);
}

static void on_exit_frame(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                          size_t length)
{
    json_auto_t *message = parse_object(data, length);
    int status = member_int(message, "status");
    (void)frame;
    if (!json_is_integer(json_object_get(message, "status"))) /* no end is made up: the close tells of one */
        return;
    bool oom = json_is_true(json_object_get(message, "oom_killed")) ||
               (looks_killed(status) && life_oom_kills(k) > e->oom_base);
    journal_add(k, e, ENTRY_EXIT, status, oom);
}

static void on_waiting(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                       size_t length)
{
    (void)frame;
    if (length == 1)
        journal_add_waiting(k, e, data[0] != 0);
}

static void on_close(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                     size_t length)
{
    (void)data;
    (void)length;
    journal_add(k, e, ENTRY_CLOSE, 0, 0);
    channel_forget(k->agent, frame->stream);
}

typedef void on_frame(struct keeper *k, struct exec *e, const struct frame *frame, const char *data,
                      size_t length);
static on_frame *const handlers[FRAME_TYPE_COUNT] = {
    [FRAME_STARTED] = on_started, [FRAME_FAILED] = on_failed, [FRAME_REPLY] = on_reply,
    [FRAME_DATA] = on_data,       [FRAME_END] = on_end,       [FRAME_EXIT] = on_exit_frame,
    [FRAME_WAITING] = on_waiting, [FRAME_CLOSE] = on_close,
};

static void receive(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct keeper *k = user;
    if (frame->stream >= RELAY_STREAMS) {
        if (!watch_agent_frame(k, frame, data, length))
            relay_agent_frame(k, frame, data, length);
        return;
    }
    struct exec *e = live_find(k, frame->stream);
    on_frame *handler = frame->type < FRAME_TYPE_COUNT ? handlers[frame->type] : NULL;
    if (handler != NULL && e != NULL && !e->now.closed)
        handler(k, e, frame, data, length);
}

/* ---- reading ---- */

static void agent_lost(struct keeper *k)
{
    k->agent_gone = true;
    stop_want(k, "stopped", "the sandbox ended");
}

bool box_is_over(struct keeper *k)
{
    struct pollfd fds[2] = { { .fd = channel_fd(k->agent), .events = POLLRDHUP },
                             { .fd = k->driver->watch_fd(k->sandbox), .events = POLLIN } };
    if (!k->agent_gone && poll(fds, 2, 0) > 0)
        agent_lost(k);
    return k->agent_gone;
}

static int read_some(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    int rc = channel_read(k->agent, READ_A_TURN, receive, k, &err);
    if (rc < 0 && !k->stop.wanted) /* else it is said already */
        log_warning("%s: the agent's channel: %s", k->workspace_id, err.message);
    journal_write(k);
    watches_write(k);
    return rc;
}

static void agent_ready(void *user, uint32_t events)
{
    struct keeper *k = user;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0 || k->agent_gone)
        return;
    if (held_is_much(&k->journal) && (events & (EPOLLHUP | EPOLLERR)) == 0)
        return;
    if (read_some(k) != 0)
        agent_lost(k);
}

static void sandbox_ended(void *user, uint32_t events)
{
    struct keeper *k = user;
    (void)events;
    agent_lost(k);
}

void box_watch(struct keeper *k)
{
    int fd = k->driver->watch_fd(k->sandbox);
    k->agent_source = reactor_add(k->reactor, channel_fd(k->agent), channel_events(k->agent), agent_ready, k);
    if (fd >= 0)
        k->sandbox_source = reactor_add(k->reactor, fd, EPOLLIN, sandbox_ended, k);
}

void box_flush(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (k->agent_gone)
        return;
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        box_pump_input(k, e);
    relays_pump(k);
    if ((channel_events(k->agent) & EPOLLOUT) != 0 && channel_write(k->agent, &err) < 0) {
        agent_lost(k);
        return;
    }
    uint32_t events = channel_events(k->agent);
    reactor_change(k->agent_source, held_is_much(&k->journal) ? events & ~(uint32_t)EPOLLIN : events);
}

void box_drain(struct keeper *k, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - clock_boottime_ms();
        struct pollfd poll_fd = { .fd = channel_fd(k->agent), .events = POLLIN };
        if (left <= 0 || poll(&poll_fd, 1, (int)left) <= 0 || read_some(k) != 0 || held_is_much(&k->journal))
            return;
        channel_write(k->agent, NULL);
    }
}

/* ---- to the agent ---- */

bool box_start_exec(struct keeper *k, const struct exec *e, const json_t *request)
{
    return channel_send_json(k->agent, FRAME_REQUEST, e->now.head.stream, request);
}

void box_signal(struct keeper *k, uint32_t stream, int signal_number, bool tree)
{
    unsigned char payload[2] = { (unsigned char)signal_number, tree };
    if (!k->agent_gone)
        channel_send(k->agent, FRAME_SIGNAL, 0, stream, payload, sizeof(payload));
}

void box_detach(struct keeper *k, uint32_t stream)
{
    if (!k->agent_gone)
        channel_send(k->agent, FRAME_DETACH, 0, stream, NULL, 0);
}

void box_pump_input(struct keeper *k, struct exec *e)
{
    uint32_t stream = e->now.head.stream;
    size_t room;
    if (e->now.over || e->now.closed || k->agent_gone)
        return;
    while (e->input.length > 0 && (room = channel_data_room(k->agent, stream)) > 0) {
        size_t piece = e->input.length < room ? e->input.length : room;
        channel_send_data(k->agent, 0, stream, e->input.data, piece);
        buffer_consume(&e->input, piece);
    }
    if (e->input.length > 0)
        return;
    buffer_free(&e->input);
    if (e->input_eof && !e->eof_sent) {
        channel_send_after_data(k->agent, FRAME_END, 0, stream, NULL, 0);
        e->eof_sent = true;
    }
}
