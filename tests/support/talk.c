/* The test's end of run/<ws>.sock and run/warden.sock, and its reading of the store. Blocking, with
 * deadlines. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/wire/channel.h"
#include "tests/support/house.h"

#include <check.h>
#include <poll.h>
#include <sys/epoll.h>

#define ANSWER_MS 20000
#define NOTICES   512

struct reply {
    struct reply *next;
    uint32_t number;
    json_t *message;
};

struct talk {
    struct channel *channel;
    uint32_t next;
    struct reply *replies;
    bool ended, farewell;
    struct {
        uint32_t number;
        size_t total, seen;
    } notices[NOTICES];
    size_t notice_count;
};

struct talk *talk_open(struct house *h, const char *leaf)
{
    _cleanup_free_ char *path = config_path(h->config, "run", leaf);
    int fd = io_connect_unix(path, NULL);
    if (fd < 0)
        return NULL;
    struct talk *t = xcalloc(1, sizeof(*t));
    t->channel = channel_new(fd);
    t->next = 1;
    return t;
}

void talk_close(struct talk *t)
{
    if (t == NULL)
        return;
    while (t->replies != NULL) {
        struct reply *r = t->replies;
        t->replies = r->next;
        json_decref(r->message);
        free(r);
    }
    channel_free(t->channel);
    free(t);
}

static void receive(void *user, const struct frame *frame, const char *data, size_t length)
{
    struct talk *t = user;
    if (frame->type == FRAME_REPLY) {
        struct reply *r = xcalloc(1, sizeof(*r));
        *r = (struct reply){ .next = t->replies,
                             .number = frame->stream,
                             .message = json_loadb(data, length, JSON_ALLOW_NUL, NULL) };
        t->replies = r;
    }
    t->farewell |= frame->type == FRAME_END && frame->stream == 0;
    for (size_t i = 0; frame->type == FRAME_NOTIFY && i < t->notice_count; i++)
        if (t->notices[i].number == frame->stream)
            t->notices[i].total++;
}

/* One wait and one read. */
static void turn(struct talk *t, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = channel_fd(t->channel), .events = POLLIN };
    if (channel_events(t->channel) & EPOLLOUT) {
        if (channel_write(t->channel, NULL) < 0)
            t->ended = true;
        if (channel_events(t->channel) & EPOLLOUT)
            poll_fd.events |= POLLOUT;
    }
    if (poll(&poll_fd, 1, timeout_ms) > 0 && (poll_fd.revents & ~POLLOUT) != 0 &&
        channel_read(t->channel, 1 << 20, receive, t, NULL) != 0)
        t->ended = true;
}

uint32_t talk_send(struct talk *t, json_t *message)
{
    uint32_t number = t->next++;
    ck_assert_ptr_nonnull(message);
    channel_send_json(t->channel, FRAME_REQUEST, number, message);
    json_decref(message);
    channel_write(t->channel, NULL);
    return number;
}

static json_t *take_reply(struct talk *t, uint32_t number)
{
    for (struct reply **link = &t->replies; *link != NULL; link = &(*link)->next) {
        struct reply *r = *link;
        if (r->number != number)
            continue;
        json_t *message = r->message;
        *link = r->next;
        free(r);
        return message;
    }
    return NULL;
}

json_t *talk_wait(struct talk *t, uint32_t number)
{
    int64_t deadline = clock_boottime_ms() + ANSWER_MS;
    for (;;) {
        json_t *message = take_reply(t, number);
        if (message != NULL || t->ended)
            return message;
        ck_assert_msg(clock_boottime_ms() < deadline, "no answer in time");
        turn(t, 100);
    }
}

json_t *talk_ask(struct talk *t, json_t *message)
{
    return talk_wait(t, talk_send(t, message));
}

json_t *talk_call(struct talk *t, const char *operation, json_t *in)
{
    return talk_ask(t, json_pack("{s:s, s:o, s:s, s:s}", "operation", operation, "in",
                                 in != NULL ? in : json_object(), "principal", "owner", "request_id", "r1"));
}

json_t *talk_call_keyed(struct talk *t, const char *operation, json_t *in, const char *key,
                        const char *digest)
{
    return talk_ask(t, json_pack("{s:s, s:o, s:s, s:s, s:s, s:s}", "operation", operation, "in", in,
                                 "principal", "owner", "request_id", "r1", "key", key, "digest", digest));
}

uint32_t talk_subscribe(struct talk *t, const char *exec_id)
{
    uint32_t number = t->next++;
    ck_assert_uint_lt(t->notice_count, NOTICES);
    t->notices[t->notice_count++].number = number;
    channel_send(t->channel, FRAME_SUBSCRIBE, 0, number, exec_id, ID_SIZE - 1);
    channel_write(t->channel, NULL);
    return number;
}

bool talk_notified(struct talk *t, uint32_t number, int timeout_ms)
{
    int64_t deadline = clock_boottime_ms() + timeout_ms;
    for (size_t i = 0; i < t->notice_count; i++) {
        if (t->notices[i].number != number)
            continue;
        while (t->notices[i].total == t->notices[i].seen && clock_boottime_ms() < deadline && !t->ended)
            turn(t, 10);
        bool any = t->notices[i].total > t->notices[i].seen;
        t->notices[i].seen = t->notices[i].total;
        return any;
    }
    return false;
}

size_t talk_notices(const struct talk *t, uint32_t number)
{
    for (size_t i = 0; i < t->notice_count; i++)
        if (t->notices[i].number == number)
            return t->notices[i].total;
    return 0;
}

bool talk_farewell(const struct talk *t)
{
    return t->farewell;
}

int talk_error(const json_t *answer)
{
    return (int)json_integer_value(json_object_get(json_object_get(answer, "error"), "code"));
}

void talk_start(struct talk *t, const char *command, json_t *extra, char exec_id[static ID_SIZE])
{
    json_t *in = json_pack("{s:s}", "command", command);
    if (extra != NULL)
        json_object_update(in, extra);
    json_decref(extra);
    json_auto_t *answer = talk_call(t, "start", in);
    const char *id = json_string_value(json_object_get(json_object_get(answer, "ret"), "exec_id"));
    _cleanup_free_ char *text = json_dumps(answer, 0);
    ck_assert_msg(id != NULL, "start: %s", text);
    memcpy(exec_id, id, ID_SIZE);
}

/* ---- the store ---- */

void told_clear(struct told *t)
{
    buffer_free(&t->out);
    buffer_free(&t->err);
    buffer_free(&t->late);
    buffer_free(&t->errors);
    buffer_free(&t->exit);
    memset(t, 0, sizeof(*t));
}

struct reading {
    struct told *told;
    uint64_t cursor;
};

static bool take(void *user, const struct event *event)
{
    struct reading *r = user;
    struct told *t = r->told;
    struct buffer *const by_type[] = { [EVENT_STDOUT] = &t->out,
                                       [EVENT_STDERR] = &t->err,
                                       [EVENT_ERROR] = &t->errors,
                                       [EVENT_EXIT] = &t->exit };
    t->gap |= r->cursor != 0 && event->seq != r->cursor + 1;
    r->cursor = event->seq;
    t->events++;
    t->exits += event->type == EVENT_EXIT;
    if (event->flags & EVENT_LATE)
        buffer_append(&t->late, event->data, event->length);
    else if (event->type != EVENT_STATUS)
        buffer_append(by_type[event->type], event->data, event->length);
    t->replaced |= (event->flags & EVENT_BINARY) != 0;
    return true;
}

void told_read(struct house *h, const char *id, const char *exec_id, struct told *ret)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct reading reading = { .told = ret };
    told_clear(ret);
    struct events_reader *reader = events_cache_get(h->events, id, &err);
    ck_assert_msg(reader != NULL, "%s", err.message);
    ck_assert_msg(events_read(reader, exec_id, 0, &ret->head, take, &reading, &err) == 0, "%s", err.message);
    buffer_text(&ret->exit);
    buffer_text(&ret->errors);
    buffer_text(&ret->out);
    buffer_text(&ret->err);
    buffer_text(&ret->late);
}

struct exec_head house_head(struct house *h, const char *id, const char *exec_id)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct exec_head head;
    struct events_reader *reader = events_cache_get(h->events, id, &err);
    ck_assert_msg(reader != NULL, "%s", err.message);
    ck_assert_msg(events_get_exec(reader, exec_id, &head, &err) == 0, "%s", err.message);
    return head;
}

bool told_wait(struct house *h, const char *id, const char *exec_id, struct told *ret, int timeout_ms)
{
    int64_t deadline = clock_boottime_ms() + timeout_ms;
    while (house_head(h, id, exec_id).exit_seq == 0 && clock_boottime_ms() < deadline)
        usleep(1000);
    told_read(h, id, exec_id, ret);
    return ret->head.exit_seq != 0;
}
