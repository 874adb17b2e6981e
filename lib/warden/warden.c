/* The warden's main: one for each state directory, by lock; its socket and its loop. What is to be done for a
 * workspace is place.c's. */
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/base/trash.h"
#include "lib/schema/field.h"
#include "lib/warden/internal.h"
#include "lib/warden/settings.h"
#include "lib/warden/takeover.h"

#include <malloc.h>
#include <signal.h>

/* ---- requests ---- */

static void on_start(struct warden *w, struct peer *peer, uint32_t stream, const json_t *message,
                     const char *id)
{
    (void)message;
    place_request_start(w, id, peer, stream);
}

static void on_create(struct warden *w, struct peer *peer, uint32_t stream, const json_t *message,
                      const char *id)
{
    json_t *idempotency = json_object_get(message, "idempotency");
    if (json_object_get(message, "record") == NULL) {
        peer_refuse(peer, stream, ERROR_INVALID, "no record is given");
        return;
    }
    json_auto_t *spec = json_pack("{s:O}", "record", json_object_get(message, "record"));
    if (json_is_object(idempotency))
        json_object_set(spec, "idempotency", idempotency);
    place_request_create(w, id, spec, peer, stream);
}

static void on_remove(struct warden *w, struct peer *peer, uint32_t stream, const json_t *message,
                      const char *id)
{
    bool force = json_is_true(json_object_get(message, "force"));
    if (force && json_is_true(json_object_get(message, "unwanted")))
        place_request_take_back(w, id, peer, stream);
    else
        place_request_remove(w, id, force, peer, stream);
}

static void on_ping(struct warden *w, struct peer *peer, uint32_t stream, const json_t *message,
                    const char *id)
{
    json_auto_t *ret = json_pack("{s:i}", "pid", (int)getpid());
    (void)w;
    (void)message;
    (void)id;
    channel_send_reply(peer_channel(peer), stream, ret, NULL);
}

static const struct request {
    const char *op;
    const char
        *id_in; /* the member that names the workspace; "" = the message itself, NULL = none is named */
    void (*run)(struct warden *w, struct peer *peer, uint32_t stream, const json_t *message, const char *id);
} requests[] = {
    { "start", "", on_start },
    { "create", "record", on_create },
    { "remove", "", on_remove },
    { "ping", NULL, on_ping },
};

static const struct request *find_request(const char *op)
{
    for (size_t i = 0; op != NULL && i < N_ELEMENTS(requests); i++)
        if (strcmp(requests[i].op, op) == 0)
            return &requests[i];
    return NULL;
}

static const char *workspace_of(const struct request *request, const json_t *message)
{
    const json_t *in = request->id_in[0] != '\0' ? json_object_get(message, request->id_in) : message;
    return json_string_value(json_object_get(in, "workspace_id"));
}

static void peer_frame(void *user, struct peer *peer, const struct frame *frame, const char *data,
                       size_t length)
{
    if (frame->type != FRAME_REQUEST)
        return;
    json_auto_t *message = field_parse_json(data, length, NULL);
    const struct request *request = find_request(json_string_value(json_object_get(message, "op")));
    bool names = request != NULL && request->id_in != NULL;
    const char *id = names ? workspace_of(request, message) : NULL;
    if (request == NULL)
        peer_refuse(peer, frame->stream, ERROR_INVALID, "no such request");
    else if (names && !id_is_valid(ID_WORKSPACE, id))
        peer_refuse(peer, frame->stream, ERROR_INVALID, "no workspace is named");
    else
        request->run(user, peer, frame->stream, message, id);
}

static void peer_gone(void *user, struct peer *peer)
{
    place_forget_peer(user, peer);
}

static const struct peers_handlers handlers = { .frame = peer_frame, .gone = peer_gone };

/* ---- main ---- */

static void signal_ready(void *user, uint32_t events)
{
    struct warden *w = user;
    (void)events;
    if (process_was_told_to_end(w->signal_fd))
        w->ending = true;
}

static int make_folders(const struct config *config, struct error *err)
{
    static const char *const names[] = { "run", "workspaces/" TRASH_NAME, "events/" TRASH_NAME };
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        _cleanup_free_ char *path = config_path(config, names[i], NULL);
        if (io_ensure_directory(path, 0700, err) < 0)
            return -1;
    }
    return 0;
}

static int open_house(struct warden *w, struct error *err)
{
    _cleanup_free_ char *path = config_path(w->config, "run/warden.sock", NULL);
    w->signal_fd = process_catch_end(err);
    if (w->signal_fd < 0)
        return -1;
    w->state = state_open(w->config->state_dir, err);
    w->reactor = w->state != NULL ? reactor_new(err) : NULL;
    if (w->reactor == NULL)
        return -1;
    w->peers = peers_listen(w->reactor, path, w->config->state_dir, &handlers, w, err);
    return w->peers != NULL ? 0 : -1;
}

static int64_t next_deadline(const struct warden *w)
{
    int64_t deadline = places_deadline(w);
    if (w->round_ms < deadline)
        deadline = w->round_ms;
    if (w->places != NULL && w->ping_ms < deadline)
        deadline = w->ping_ms;
    if (w->places != NULL && w->share == NULL && w->config->shared_packages_mib > 0 && w->share_ms < deadline)
        deadline = w->share_ms;
    return w->trash_ms < deadline ? w->trash_ms : deadline;
}

static void loop(struct warden *w)
{
    struct reactor_source *signals = reactor_add(w->reactor, w->signal_fd, EPOLLIN, signal_ready, w);
    w->trash_ms = INT64_MAX;
    malloc_trim(0);
    while (!w->ending) {
        round_tick(w);
        ping_tick(w);
        share_tick(w);
        places_advance(w);
        peers_flush(w->peers);
        reactor_turn(w->reactor, next_deadline(w));
    }
    reactor_remove(signals);
}

static void take_down(struct warden *w)
{
    peers_free(w->peers);
    while (w->children != NULL)
        child_free(w->children);
    while (w->places != NULL) {
        struct place *p = w->places;
        w->places = p->next;
        place_free(p);
    }
    reactor_free(w->reactor);
    if (w->state != NULL)
        state_close(w->state);
    memory_close_fd(&w->signal_fd);
}

static int run_locked(struct warden *w, struct error *err)
{
    w->environment = settings_environment(w->config);
    int rc = open_house(w, err);
    if (rc == 0) {
        log_info("watching over %s as uid %u", w->config->state_dir, (unsigned)geteuid());
        loop(w);
    }
    take_down(w);
    settings_free_environment(w->environment);
    return rc;
}

int warden_run(const struct config *config, const char *program, unsigned flags)
{
    struct warden w = { .config = config, .program = program, .signal_fd = -1 };
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_close_ int lock_fd = -1;
    int rc = make_folders(config, &err);
    if (rc == 0)
        rc = takeover_lock(config, flags, &lock_fd, &err);
    if (rc == 1)
        rc = run_locked(&w, &err);
    if (rc < 0)
        log_error("%s: %s", config->state_dir, err.message);
    return rc < 0 ? 1 : 0;
}
