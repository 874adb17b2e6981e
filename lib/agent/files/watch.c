/* Owns the call that watches: {"path", "recursive", "types": [...], "exclude_patterns": [...]}. Its reply
 * says that all is watched; from then on it writes changes (lib/wire/change.h) until nobody reads them, or
 * what it watches is gone. It never waits for its reader: changes are looked at meanwhile. All watches are
 * one process's, each a thread: nothing here may be shared but the instance. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/patterns.h"
#include "lib/agent/watch/watcher.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#define WRITE_AHEAD (64u << 10) /* changes that are bytes already; others are still joined and bounded */

struct watching {
    struct watcher *watcher;
    int output;
    struct buffer out;
    bool ended, broken;
};

static unsigned types_of(const struct file_call_context *call)
{
    unsigned wanted = 0;
    const json_t *name;
    enum change_type type;
    size_t index;
    json_array_foreach(json_object_get(call->request, "types"), index, name)
        if (json_is_string(name) && change_type_find(json_string_value(name), &type))
            wanted |= 1u << type;
    return wanted;
}

static void encode_pending(struct watching *g)
{
    struct pending *pending = watcher_pending(g->watcher);
    const struct change *change;
    int64_t now_us = clock_boottime_us();
    while (g->out.length < WRITE_AHEAD && !g->ended && (change = pending_next(pending, now_us))) {
        change_encode(change, &g->out);
        g->ended = change->type == CHANGE_END;
        pending_done(pending, now_us);
    }
}

static void write_some(struct watching *g)
{
    ssize_t done = g->out.length ? write(g->output, g->out.data, g->out.length) : 0;
    if (done > 0)
        buffer_consume(&g->out, (size_t)done);
    g->broken = done < 0 && errno != EAGAIN && errno != EINTR;
}

static int timeout_of(const struct watching *g)
{
    int64_t due_us = pending_due(watcher_pending(g->watcher)), other = watcher_due(g->watcher);
    int64_t left_us = (due_us < other ? due_us : other) - clock_boottime_us();
    if (left_us > 3600 * INT64_C(1000000))
        return -1;
    return left_us <= 0 ? 0 : (int)((left_us + 999) / 1000);
}

/* What waits for its reader has no time of its own; without a reader nothing is waited for. */
static void wait_for_more(struct watching *g)
{
    bool blocked = g->out.length > 0;
    struct pollfd fds[] = { { .fd = watcher_fd(g->watcher), .events = POLLIN },
                            { .fd = g->output, .events = blocked ? POLLOUT : 0 } };
    if (poll(fds, N_ELEMENTS(fds), blocked ? -1 : timeout_of(g)) > 0)
        g->broken |= (fds[1].revents & POLLERR) != 0;
}

static void watch(struct watching *g)
{
    while (!g->broken && !(g->ended && g->out.length == 0)) {
        bool all = watcher_read(g->watcher);
        encode_pending(g);
        write_some(g);
        if (all)
            wait_for_more(g);
    }
}

/* A link may lead to a name that is no text. */
static json_t *reply_of(const struct watching *g)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    const char *bytes = watcher_path(g->watcher);
    buffer_append_utf8(&path, bytes, strlen(bytes));
    return json_pack("{s:s%}", "path", buffer_text(&path), path.length);
}

int file_watch(struct file_call_context *call, json_t **ret, struct error *err)
{
    _cleanup_glob_ struct glob *excluded = glob_new(GLOB_EXCLUDE);
    if (patterns_add_all(excluded, call, "exclude_patterns", err) < 0)
        return -1;
    const struct watcher_options options = { .root = &call->root,
                                             .path = file_call_path(call, "path"),
                                             .recursive = file_call_flag(call, "recursive"),
                                             .types = types_of(call),
                                             .excluded = excluded,
                                             .instance = call->instance,
                                             .reader_fd = call->output };
    struct watching g = { .output = call->output, .watcher = watcher_open(&options, err) };
    (void)ret;
    if (!g.watcher)
        return -1;
    json_auto_t *reply = reply_of(&g);
    file_call_reply(call, reply, NULL);
    fcntl(call->output, F_SETFL, O_NONBLOCK);
    watch(&g);
    watcher_free(g.watcher);
    buffer_free(&g.out);
    return 1;
}
