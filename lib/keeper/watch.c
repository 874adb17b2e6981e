/* Owns the watches that live: what the agent tells of them becomes events in rings, as many at once as came
 * in a turn. What it tells is bounded before: by its stream's credit in bytes, by the ring in number. While
 * the log takes no more nothing is granted, so the agent joins and bounds on its side. */
#include "lib/keeper/internal.h"
#include "lib/schema/field.h"
#include "lib/store/watches.h"
#include "lib/wire/change.h"

/* How a watch came, or is to come, to its end. */
struct ending {
    bool wanted;
    enum exec_state state;
    char reason[200];
};

struct watch {
    struct watch *next;
    struct watch_head head;   /* as last written */
    uint32_t stream;          /* the agent's */
    struct keeper_call *call; /* that asked for it, until it is answered */
    json_t *info;
    int64_t timeout_ms;
    bool live;           /* recorded */
    bool closed;         /* the agent has nothing more of it */
    struct buffer bytes; /* changes that are not written yet */
    bool fresh;          /* some came since they were looked at */
    struct ending ending;
    /* of the batch that is being written */
    struct watch_head after;
    size_t used;
};

static struct watch *find(const struct keeper *k, uint32_t stream)
{
    for (struct watch *w = k->watches; w != NULL; w = w->next)
        if (w->stream == stream)
            return w;
    return NULL;
}

bool watch_knows(const struct keeper *k, uint32_t stream)
{
    return find(k, stream) != NULL;
}

static void watch_free(struct watch *w)
{
    json_decref(w->info);
    buffer_free(&w->bytes);
    free(w);
}

void watches_free(struct keeper *k)
{
    while (k->watches != NULL) {
        struct watch *w = k->watches;
        k->watches = w->next;
        watch_free(w);
    }
    k->watch_count = 0;
}

void watch_call_over(struct keeper *k, const struct keeper_call *call)
{
    for (struct watch *w = k->watches; w != NULL; w = w->next)
        if (w->call == call)
            w->call = NULL;
}

/* The agent is told that nobody wants it any more. */
static void let_go(struct keeper *k, const struct watch *w)
{
    if (k->agent_gone)
        return;
    if (!w->closed)
        channel_send(k->agent, FRAME_CLOSE, 0, w->stream, NULL, 0);
    channel_forget(k->agent, w->stream);
}

static void forget(struct keeper *k, struct watch *w)
{
    struct watch **link = &k->watches;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    k->watch_count--;
    if (w->live)
        events_keep_room(k->events, life_ends(k), NULL);
    watch_free(w);
    life_active(k);
}

static void want_end(struct watch *w, enum exec_state state, const char *reason)
{
    if (w->ending.wanted)
        return;
    w->ending = (struct ending){ .wanted = true, .state = state };
    snprintf(w->ending.reason, sizeof(w->ending.reason), "%s", reason);
}

/* ---- what is written ---- */

static const enum event_type event_types[CHANGE_TYPES] = {
    [CHANGE_UNKNOWN] = EVENT_UNKNOWN, [CHANGE_ACCESS] = EVENT_ACCESS, [CHANGE_CREATE] = EVENT_CREATE,
    [CHANGE_MODIFY] = EVENT_MODIFY,   [CHANGE_REMOVE] = EVENT_REMOVE, [CHANGE_OVERFLOW] = EVENT_OVERFLOW,
};

/* Path, and where there is more to say, NUL and that. */
static void event_data(const struct change *change, struct buffer *data)
{
    const char *why = change_why_name(change->why);
    data->length = 0;
    buffer_append(data, change->path, change->length);
    if (change->type != CHANGE_OVERFLOW && !(change->flags & CHANGE_MOVED))
        return;
    buffer_append_char(data, '\0');
    if (change->type == CHANGE_OVERFLOW)
        buffer_append_text(data, why);
    else
        buffer_append(data, change->other, change->other_length);
}

static int append(struct keeper *k, struct watch *w, const struct change *change, int64_t wall_us,
                  struct buffer *data, struct error *err)
{
    event_data(change, data);
    struct event event = { .type = event_types[change->type],
                           .flags = (change->flags & CHANGE_FOLDER ? EVENT_FOLDER : 0) |
                                    (change->flags & CHANGE_MOVED ? EVENT_MOVED : 0),
                           .wall_us = wall_us,
                           .data = data->data,
                           .length = data->length };
    return watches_append(k->events, &w->after, &event, err);
}

/* The first change from at on, but for an end, which is noted: *ret_size 0 = there is none. */
static void look(struct watch *w, size_t at, struct change *ret, size_t *ret_size)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    long size = change_decode(w->bytes.data + at, w->bytes.length - at, ret, &err);
    *ret_size = size > 0 ? (size_t)size : 0;
    if (size < 0)
        want_end(w, EXEC_FAILED, err.message);
    if (size <= 0 || ret->type != CHANGE_END)
        return;
    want_end(w, EXEC_FINISHED, change_why_name(ret->why));
    *ret_size = 0;
}

static size_t count_changes(struct watch *w)
{
    struct change change;
    size_t count = 0, size;
    for (size_t at = 0; at < w->bytes.length; at += size, count++) {
        look(w, at, &change, &size);
        if (size == 0)
            break;
    }
    return count;
}

/* More than the ring holds are counted only. */
static int write_changes(struct keeper *k, struct watch *w, struct error *err)
{
    _cleanup_buffer_ struct buffer data = BUFFER_INIT;
    int64_t wall_us = clock_wall_us();
    struct change change;
    size_t count = count_changes(w), skipped = count > WATCH_RING ? count - WATCH_RING : 0, size;
    w->used = 0;
    if (skipped > 0 && watches_skip(k->events, &w->after, skipped, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++, w->used += size) {
        look(w, w->used, &change, &size);
        if (i >= skipped && append(k, w, &change, wall_us, &data, err) < 0)
            return -1;
    }
    return 0;
}

static void set_end(struct watch *w)
{
    w->after.state = w->ending.state;
    w->after.finished_us = clock_wall_us();
    memcpy(w->after.reason, w->ending.reason, sizeof(w->after.reason));
}

/* without: on a full disk there is no place for them. That they are missing shows where the ring begins. */
static int write_one(struct keeper *k, struct watch *w, bool without, struct error *err)
{
    w->after = w->head;
    if (without && watches_skip(k->events, &w->after, count_changes(w), err) < 0)
        return -1;
    if (!without && write_changes(k, w, err) < 0)
        return -1;
    if (w->ending.wanted)
        set_end(w);
    return watches_put(k->events, &w->after, err);
}

static bool is_dirty(const struct watch *w)
{
    return w->live && (w->fresh || w->ending.wanted);
}

/* only NULL: all that have something. */
static int write_batch(struct keeper *k, struct watch *only, bool without, struct error *err)
{
    if ((only != NULL ? events_begin_end : events_begin)(k->events, err) < 0)
        return -1;
    for (struct watch *w = k->watches; w != NULL; w = w->next)
        if (is_dirty(w) && (only == NULL || w == only) && write_one(k, w, without, err) < 0) {
            events_abort(k->events);
            return -1;
        }
    return events_commit(k->events, err);
}

static void after_write(struct keeper *k, struct watch *w)
{
    bool changed = w->used > 0 || w->ending.wanted;
    w->head = w->after;
    if (w->used > 0) {
        buffer_consume(&w->bytes, w->used);
        if (w->bytes.length == 0)
            buffer_free(&w->bytes);
        if (!w->closed && !k->agent_gone)
            channel_grant(k->agent, w->stream, w->used);
    }
    w->used = 0;
    w->fresh = false;
    if (changed)
        server_notify(k, w->head.id);
    if (!w->ending.wanted)
        return;
    let_go(k, w);
    forget(k, w);
}

static bool write_all(struct keeper *k, struct error *err)
{
    if (write_batch(k, NULL, false, err) < 0)
        return false;
    flusher_mark(k->flusher);
    for (struct watch *w = k->watches, *next; w != NULL; w = next) {
        next = w->next;
        if (is_dirty(w))
            after_write(k, w);
    }
    return true;
}

/* An end does not wait for room: it has its own. */
static bool write_ends(struct keeper *k)
{
    bool all = true;
    for (struct watch *w = k->watches, *next; w != NULL; w = next) {
        next = w->next;
        if (!w->live || !w->ending.wanted)
            continue;
        if (write_batch(k, w, true, NULL) == 0)
            after_write(k, w);
        else
            all = false;
    }
    return all;
}

static bool have_work(const struct keeper *k)
{
    for (const struct watch *w = k->watches; w != NULL; w = w->next)
        if (is_dirty(w))
            return true;
    return false;
}

bool watches_write(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!have_work(k))
        return true;
    if (k->watch_retry_ms <= clock_boottime_ms()) {
        if (write_all(k, &err)) {
            k->watch_retry_ms = 0;
            return true;
        }
        if (k->watch_retry_ms == 0)
            log_error("%s: changes of files are held back, the log takes no more: %s", k->workspace_id,
                      err.message);
        k->watch_retry_ms = clock_boottime_ms() + KEEPER_FULL_RETRY_MS;
    }
    return write_ends(k);
}

/* ---- from the agent ---- */

static json_t *watch_answer(const struct keeper *k, const struct watch *w)
{
    return json_pack("{s:s, s:O?, s:s, s:s, s:O?}", "watch_id", w->head.id, "path",
                     json_object_get(w->info, "path"), "state", exec_state_name(w->head.state),
                     "workspace_id", k->workspace_id, "sandbox_id", json_object_get(k->record, "sandbox_id"));
}

static int record(struct keeper *k, struct watch *w, struct error *err)
{
    id_make(ID_WATCH, w->head.id);
    w->head.state = EXEC_RUNNING;
    w->head.created_us = w->head.started_us = clock_wall_us();
    if (events_begin(k->events, err) < 0)
        return -1;
    if (watches_add(k->events, &w->head, w->info, err) < 0) {
        events_abort(k->events);
        return -1;
    }
    if (events_commit(k->events, err) < 0)
        return -1;
    flusher_mark(k->flusher);
    return 0;
}

static void refuse(struct keeper *k, struct watch *w, const struct error *err)
{
    struct keeper_call *call = STEAL(w->call);
    if (call != NULL)
        keeper_reply(call, NULL, err);
    let_go(k, w);
    forget(k, w);
}

/* The path that the agent found is what is told from now on. */
static void begin(struct keeper *k, struct watch *w, const json_t *ret)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const char *path = json_string_value(json_object_get(ret, "path"));
    if (path != NULL && strlen(path) <= CHANGE_PATH_MAX)
        json_object_set_new(w->info, "path",
                            strcmp(path, ".") == 0 ? json_string("/workspace")
                                                   : json_sprintf("/workspace/%s", path));
    if (record(k, w, &err) < 0) {
        refuse(k, w, &err);
        return;
    }
    w->live = true;
    json_auto_t *answer = watch_answer(k, w);
    keeper_reply(STEAL(w->call), answer, NULL);
}

static void on_reply(struct keeper *k, struct watch *w, const char *data, size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *message = field_parse_json(data, length, &err);
    const json_t *packed = json_object_get(message, "error"), *ret = json_object_get(message, "ret");
    if (w->live)
        return;
    if (packed != NULL)
        error_unpack(&err, packed);
    else if (!json_is_object(ret))
        error_set(&err, ERROR_UNAVAILABLE, "the sandbox gave no answer that can be understood");
    else if (w->call == NULL || w->call->peer == NULL) /* nobody would know of it */
        error_set(&err, ERROR_UNAVAILABLE, "nobody waits for it");
    if (err.code != ERROR_NONE)
        refuse(k, w, &err);
    else
        begin(k, w, ret);
}

static void on_data(struct keeper *k, struct watch *w, const struct frame *frame, const char *data,
                    size_t length)
{
    if (!w->live || w->ending.wanted || (frame->flags & FRAME_CHANNEL) != 1)
        channel_grant(k->agent, w->stream, length);
    else {
        buffer_append(&w->bytes, data, length);
        w->fresh = true;
    }
}

/* What it told last may still be an end. */
static void on_close(struct keeper *k, struct watch *w)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    w->closed = true;
    if (!w->live) {
        error_set(&err, ERROR_UNAVAILABLE, "the sandbox ended the watch before it began: try again");
        refuse(k, w, &err);
        return;
    }
    count_changes(w);
    want_end(w, EXEC_FAILED, "lost: the process that watched was ended");
}

bool watch_agent_frame(struct keeper *k, const struct frame *frame, const char *data, size_t length)
{
    struct watch *w = find(k, frame->stream);
    if (w == NULL)
        return false;
    if (w->closed)
        channel_forget(k->agent, frame->stream);
    else if (frame->type == FRAME_REPLY)
        on_reply(k, w, data, length);
    else if (frame->type == FRAME_DATA)
        on_data(k, w, frame, data, length);
    else if (frame->type == FRAME_CLOSE)
        on_close(k, w);
    return true;
}

/* ---- time ---- */

int64_t watches_deadline(const struct keeper *k)
{
    int64_t deadline = have_work(k) && k->watch_retry_ms > 0 ? k->watch_retry_ms : INT64_MAX;
    for (const struct watch *w = k->watches; w != NULL; w = w->next)
        if (w->live && !w->ending.wanted && w->timeout_ms < deadline)
            deadline = w->timeout_ms;
    return deadline;
}

void watches_tick(struct keeper *k, int64_t now)
{
    for (struct watch *w = k->watches; w != NULL; w = w->next)
        if (w->live && w->timeout_ms <= now)
            want_end(w, EXEC_FINISHED, "watch_timeout");
    watches_write(k);
}

bool watches_finish(struct keeper *k, const char *reason)
{
    for (struct watch *w = k->watches; w != NULL; w = w->next)
        if (w->live)
            want_end(w, EXEC_FAILED, reason);
    return watches_write(k);
}

/* ---- for the operations ---- */

static int check_start(struct keeper *k, struct error *err)
{
    if (k->stop.wanted || k->agent_gone)
        return error_set(err, ERROR_UNAVAILABLE, "the workspace is stopping");
    if (k->watch_count >= KEEPER_WATCHES_MAX) {
        error_set(err, ERROR_TOO_MANY, "%d watches live in this workspace already: cancel one that is done",
                  KEEPER_WATCHES_MAX);
        if (err != NULL)
            err->retry_after = 1;
        return -1;
    }
    return events_keep_room(k->events, life_ends(k) + 1, err);
}

static json_t *watch_info(const struct watch_request *r)
{
    return json_pack("{s:s, s:b, s:O, s:O, s:I}", "path", r->path, "recursive", r->recursive, "event_types",
                     r->types, "exclude_patterns", r->exclude, "timeout_seconds", (json_int_t)r->timeout_s);
}

int keeper_watch_start(struct keeper_call *call, const struct watch_request *r, struct error *err)
{
    struct keeper *k = keeper_of(call);
    if (check_start(k, err) < 0)
        return -1;
    json_auto_t *info = watch_info(r);
    json_auto_t *message =
        json_pack("{s:s, s:s, s:s, s:b, s:O, s:O}", "op", "file", "call", "watch", "path", r->path,
                  "recursive", r->recursive, "types", r->types, "exclude_patterns", r->exclude);
    uint32_t stream = relay_next_stream(k);
    if (info == NULL || !channel_send_json(k->agent, FRAME_REQUEST, stream, message))
        return error_set(err, ERROR_TOO_LARGE, "the request is larger than one may be");
    struct watch *w = xcalloc(1, sizeof(*w));
    *w = (struct watch){ .next = k->watches,
                         .stream = stream,
                         .call = call,
                         .info = json_incref(info),
                         .timeout_ms = clock_boottime_ms() + r->timeout_s * 1000 };
    k->watches = w;
    k->watch_count++;
    return 1;
}

int keeper_watch_cancel(struct keeper *k, const char *watch_id, struct error *err)
{
    struct watch_head head;
    for (struct watch *w = k->watches; w != NULL; w = w->next) {
        if (!w->live || strcmp(w->head.id, watch_id) != 0)
            continue;
        want_end(w, EXEC_CANCELLED, "cancelled_by_client");
        watches_write(k);
        return 0;
    }
    return watches_get(events_writer_reader(k->events), watch_id, &head, err);
}
