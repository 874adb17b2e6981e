/* Owns the file calls of the agent from their request to their CLOSE: who runs, who waits, what is relayed,
 * when a call is given up. It must never touch a file itself: a FIFO, a slow disk or a large folder would
 * stop the whole sandbox. */
#include "lib/agent/files/service.h"

#include "lib/agent/files/host.h"
#include "lib/agent/files/reply.h"
#include "lib/agent/files/seats.h"
#include "lib/agent/files/turn.h"
#include "lib/agent/input.h"
#include "lib/agent/output.h"
#include "lib/base/clock.h"

#include <signal.h>
#include <sys/wait.h>

#define WAITING_MAX   256        /* beyond those: refused */
#define REPLY_QUEUED  (1u << 20) /* control that waits in the channel: a reply waits for less */
#define CLOSED_BROKEN 1
#define WAIT          "wait_ms"  /* of a request, where it says how long it is waited for */
#define ASKED         "asked_ms" /* what that was before the call waited for a place */

#define PLACE_WAIT_MS 10000 /* for a place: then refused */
#define RETRY_AFTER   5     /* seconds, told to who is refused */

struct file_call {
    struct file_call *next;
    int64_t until_ms; /* CLOCK_BOOTTIME: nobody waits for it any longer; it must have begun before */
    struct files *files;
    uint32_t number;
    const struct file_kind *kind;
    json_t *request;        /* until it runs */
    pid_t pid;              /* 0 = waits, or is reaped, or has none of its own */
    struct file_host *host; /* whose process it shares */
    struct seat seat;
    bool begun, broken, closed;
    bool writes; /* what it writes is relayed: not before its reply */
    struct input input;
    struct output output;
    struct reply reply;
    struct loop_timer timer;
    uint64_t fed; /* bytes that came for it to read */
};

struct files {
    struct loop *loop;
    struct channel *channel;
    const struct launch_rules *rules;
    int turns;
    struct file_call *calls; /* oldest first */
    struct file_host *host;  /* for new calls that share a process */
    struct seats seats;
    unsigned waiting;
};

struct files *files_new(struct loop *loop, struct channel *channel, const struct launch_rules *rules)
{
    struct files *files = xcalloc(1, sizeof *files);
    *files = (struct files){ .loop = loop, .channel = channel, .rules = rules, .turns = turns_open() };
    if (files->turns < 0)
        abort();
    return files;
}

static struct file_call *find(const struct files *files, uint32_t number)
{
    for (struct file_call *call = files->calls; call; call = call->next)
        if (call->number == number && !call->closed)
            return call;
    return NULL;
}

bool files_knows(const struct files *files, uint32_t number)
{
    return find(files, number) != NULL;
}

bool files_owns(const struct files *files, pid_t pid)
{
    for (const struct file_call *call = files->calls; call; call = call->next)
        if (call->pid == pid || (call->host && call->host->pid == pid))
            return true;
    return false;
}

/* ---- ends ---- */

/* Our unreaped child: its number is nobody else's. One that shares its process ends with its output. */
static void kill_process(struct file_call *call)
{
    if (call->pid)
        kill(call->pid, SIGKILL);
}

static void call_free(struct file_call *call)
{
    kill_process(call);
    if (call->host)
        file_host_leave(&call->files->host, call->host);
    loop_disarm(call->files->loop, &call->timer);
    input_close(&call->input);
    output_close(&call->output);
    reply_clear(&call->reply);
    json_decref(call->request);
    free(call);
}

void files_free(struct files *files)
{
    while (files->calls) {
        struct file_call *call = files->calls;
        files->calls = call->next;
        call_free(call);
    }
    close(files->turns);
    free(files);
}

/* One that waits for a place does so no more. */
static void withdraw(struct file_call *call)
{
    if (!call->begun)
        call->files->waiting--;
    call->begun = true;
}

static void answer_error(struct file_call *call, const struct error *err)
{
    channel_send_reply(call->files->channel, call->number, NULL, err);
    call->reply.sent = true;
}

static void give_up(struct file_call *call, enum error_code code, const char *why)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, code, "%s", why);
    err.retry_after = code == ERROR_TOO_MANY ? RETRY_AFTER : 0;
    withdraw(call);
    if (!call->reply.sent)
        answer_error(call, &err);
    call->broken = true;
    kill_process(call);
    input_close(&call->input);
    output_close(&call->output);
}

/* ---- places ---- */

static bool waits(const struct file_call *call)
{
    return !call->begun || call->seat.place == FILE_PARKED;
}

/* Nothing was done: the same call may do better later. */
static void refuse_place(struct file_call *call)
{
    give_up(
        call, ERROR_TOO_MANY,
        "too many calls like this one are under way in this workspace, and none of them was over in time for "
        "this one to begin: nothing was done, try again");
}

static uint64_t moved(const struct file_call *call)
{
    return call->output.total + call->fed;
}

static void watch_rate(struct file_call *call)
{
    call->seat.seen = moved(call);
    loop_arm(call->files->loop, &call->timer, SEAT_LOOK_MS);
}

/* What is bounded is silence: a long transfer is none, nor a watch that has nothing to tell. */
static void on_time(void *user)
{
    struct file_call *call = user;
    if (waits(call)) {
        refuse_place(call);
        return;
    }
    if (call->seat.place == FILE_WATCH && call->reply.sent)
        return;
    switch (seats_rate(&call->files->seats, &call->seat, call->kind, moved(call), call->input.ends)) {
    case SEAT_IS_SILENT:
        give_up(call, ERROR_TIMEOUT, "the file operation took too long and was ended");
        break;
    case SEAT_IS_SLOW:
        give_up(call, ERROR_TIMEOUT,
                "the bytes moved too slowly while others waited: the transfer was ended");
        break;
    case SEAT_GOES_ON:
        watch_rate(call);
        break;
    }
}

/* A long download gets its place when it is known to be one; until then it keeps nobody else's. */
static bool may_reply(struct file_call *call)
{
    struct files *files = call->files;
    int place = call->seat.place;
    if (!reply_has_much_behind(&call->reply) || place == FILE_DOWNLOAD || place == NO_PLACE)
        return true;
    if (seats_have_room(&files->seats, FILE_DOWNLOAD)) {
        seats_change(&files->seats, &call->seat, FILE_DOWNLOAD);
        watch_rate(call);
        return true;
    }
    if (place == FILE_PARKED)
        return false;
    if (!seats_have_room(&files->seats, FILE_PARKED)) {
        refuse_place(call);
        return false;
    }
    seats_change(&files->seats, &call->seat, FILE_PARKED);
    loop_arm(files->loop, &call->timer, PLACE_WAIT_MS);
    return false;
}

static void deliver_reply(struct file_call *call)
{
    struct files *files = call->files;
    if (call->reply.sent || !reply_is_whole(&call->reply))
        return;
    if (channel_control_queued(files->channel) <= REPLY_QUEUED && may_reply(call))
        reply_send(&call->reply, files->channel, call->number);
}

/* ---- the process ---- */

static void output_changed(void *user)
{
    (void)user; /* files_settle looks */
}

/* A search counts its time itself, and the time in which it waited is part of it. */
static void count_waiting(struct file_call *call)
{
    int64_t left = call->until_ms - clock_boottime_ms();
    json_t *asked = json_object_get(call->request, WAIT);
    if (!json_is_integer(asked))
        return;
    json_object_set(call->request, ASKED, asked);
    json_object_set_new(call->request, WAIT, json_integer(left > 1 ? left : 1));
}

static bool start_process(struct file_call *call, struct file_pipes *ret)
{
    struct files *files = call->files;
    if (call->kind->place == FILE_WATCH) {
        call->host = file_host_join(&files->host, files->rules, call->kind, call->request, ret);
        return call->host != NULL;
    }
    pid_t pid = file_process_start(files->rules, files->turns, call->kind, call->request, ret);
    call->pid = pid > 0 ? pid : 0;
    return pid > 0;
}

static void run(struct file_call *call)
{
    struct files *files = call->files;
    struct file_pipes pipes;
    withdraw(call);
    count_waiting(call);
    bool started = start_process(call, &pipes);
    json_decref(STEAL(call->request));
    if (!started) {
        give_up(call, ERROR_UNAVAILABLE, "no process could be started for the file operation: try again");
        return;
    }
    seats_change(&files->seats, &call->seat, call->kind->place);
    input_open(&call->input, pipes.input);
    output_open(&call->output, pipes.output);
    reply_open(&call->reply, pipes.reply);
    watch_rate(call);
}

/* All that shared it have their pipes' ends before them. */
static bool host_child(struct files *files, struct file_host *host, int status)
{
    if (WIFSTOPPED(status)) {
        kill(host->pid, SIGCONT);
        return true;
    }
    host->pid = 0;
    for (struct file_call *call = files->calls; call; call = call->next)
        call->broken |= call->host == host;
    if (files->host == host)
        files->host = NULL;
    return true;
}

bool files_child(struct files *files, pid_t pid, int status)
{
    for (struct file_call *call = files->calls; call; call = call->next) {
        if (call->host && call->host->pid == pid)
            return host_child(files, call->host, status);
        if (call->pid != pid)
            continue;
        if (WIFSTOPPED(status)) { /* by a command: it holds a place of others meanwhile */
            kill(pid, SIGCONT);
            return true;
        }
        call->pid = 0;
        call->broken |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        seats_change(&files->seats, &call->seat, NO_PLACE);
        return true;
    }
    return false;
}

/* ---- requests ---- */

static void refuse(struct files *files, uint32_t number, enum error_code code, const char *why)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, code, "%s", why);
    err.retry_after = code == ERROR_TOO_MANY;
    channel_send_reply(files->channel, number, NULL, &err);
    channel_send(files->channel, FRAME_CLOSE, 0, number, NULL, 0);
}

/* How long it waits for a place: as long as who asks waits, where the request says so. */
static int64_t time_of(const struct file_kind *kind, const json_t *request)
{
    const json_t *told = json_object_get(request, WAIT);
    int64_t ms = json_is_integer(told) ? json_integer_value(told) : PLACE_WAIT_MS;
    return ms < 1 ? 1 : ms < kind->silence_ms ? ms : kind->silence_ms;
}

static void append(struct files *files, struct file_call *call)
{
    struct file_call **at = &files->calls;
    while (*at)
        at = &(*at)->next;
    *at = call;
    files->waiting++;
}

void files_request(struct files *files, uint32_t number, const json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "call"));
    const struct file_kind *kind = name ? file_kind_find(name) : NULL;
    if (!kind) {
        refuse(files, number, ERROR_UNSUPPORTED, "the agent has no file operation of that name");
        return;
    }
    if (files->waiting >= WAITING_MAX) {
        refuse(files, number, ERROR_TOO_MANY, "too many file operations wait in this workspace");
        return;
    }
    struct file_call *call = xcalloc(1, sizeof *call);
    *call = (struct file_call){ .files = files,
                                .number = number,
                                .kind = kind,
                                .request = json_incref((json_t *)request),
                                .input = { .loop = files->loop,
                                           .channel = files->channel,
                                           .number = number,
                                           .fd = -1,
                                           .early = true },
                                .output = { .loop = files->loop,
                                            .channel = files->channel,
                                            .number = number,
                                            .which = 1,
                                            .fd = -1,
                                            .changed = output_changed,
                                            .user = call },
                                .reply = REPLY_INIT(files->loop),
                                .seat = { .place = NO_PLACE },
                                .timer = { .fire = on_time, .user = call } };
    int64_t time = time_of(kind, request);
    call->until_ms = clock_boottime_ms() + time;
    loop_arm(files->loop, &call->timer, time);
    append(files, call);
}

/* ---- frames ---- */

static void take_data(struct file_call *call, const struct frame *frame, const char *data, size_t length)
{
    if ((frame->flags & FRAME_CHANNEL) != 0) {
        channel_grant(call->files->channel, call->number, length);
        return;
    }
    call->fed += length;
    input_data(&call->input, data, length);
}

/* Nobody wants it any more: nothing is answered. */
static void take_close(struct file_call *call)
{
    withdraw(call);
    call->reply.sent = true;
    kill_process(call);
    output_discard(&call->output);
    output_close(&call->output);
}

bool files_frame(struct files *files, const struct frame *frame, const char *data, size_t length)
{
    struct file_call *call = find(files, frame->stream);
    if (!call)
        return false;
    if (frame->type == FRAME_DATA)
        take_data(call, frame, data, length);
    else if (frame->type == FRAME_END && (frame->flags & FRAME_CHANNEL) == 0)
        input_end(&call->input);
    else if (frame->type == FRAME_CLOSE)
        take_close(call);
    return true;
}

/* ---- the turn ---- */

static void start_waiting(struct files *files)
{
    for (struct file_call *call = files->calls; call && files->waiting; call = call->next) {
        if (!call->begun && seats_have_room(&files->seats, call->kind->place))
            run(call);
    }
}

static void let_write(struct file_call *call)
{
    if (waits(call) || call->writes || !(call->reply.sent || call->reply.source.fd < 0))
        return;
    call->writes = true;
    output_start(&call->output);
}

/* Over: the process is reaped, what it wrote is relayed, the reply is out. */
static bool is_over(struct file_call *call)
{
    if (!call->begun || call->pid || call->output.fd >= 0 || call->reply.source.fd >= 0)
        return false;
    deliver_reply(call);
    if (!call->reply.sent && !reply_is_whole(&call->reply))
        give_up(call, ERROR_UNAVAILABLE,
                "the file operation's process was ended before it had answered: try again");
    return call->reply.sent;
}

static void finish(struct file_call *call)
{
    char broken = call->broken ? CLOSED_BROKEN : 0;
    seats_change(&call->files->seats, &call->seat, NO_PLACE);
    channel_send_after_data(call->files->channel, FRAME_CLOSE, 0, call->number, &broken, 1);
    channel_forget(call->files->channel, call->number);
    call->closed = true;
}

static void sweep(struct files *files)
{
    for (struct file_call **at = &files->calls; *at;) {
        struct file_call *call = *at;
        if (!call->closed) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        call_free(call);
    }
}

void files_settle(struct files *files)
{
    if (!files->calls)
        return;
    start_waiting(files);
    for (struct file_call *call = files->calls; call; call = call->next) {
        output_resume(&call->output);
        deliver_reply(call);
        let_write(call);
        if (is_over(call))
            finish(call);
    }
    sweep(files);
}
