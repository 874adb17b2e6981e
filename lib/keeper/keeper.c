/* The keeper's main: makes the struct, turns the loop, takes everything down. Its parts are told in
 * lib/keeper/internal.h. */
#include "lib/base/process.h"
#include "lib/keeper/internal.h"

#include <malloc.h>

const json_t *keeper_record(const struct keeper *k)
{
    return k->record;
}

const struct config *keeper_config(const struct keeper *k)
{
    return k->config;
}

static void signal_ready(void *user, uint32_t events)
{
    struct keeper *k = user;
    (void)events;
    if (process_was_told_to_end(k->signal_fd))
        stop_want(k, "stopped", "the gateway was stopped");
}

static void loop(struct keeper *k)
{
    while (!k->stop.wanted) {
        reactor_turn(k->reactor, life_deadline(k));
        life_tick(k);
        do {
            k->relayed = false;
            box_flush(k);
            peers_flush(k->peers);
        } while (k->relayed && !k->stop.wanted);
        relays_reap(k);
    }
    stop_now(k);
}

static void tell_ready(struct keeper *k)
{
    json_auto_t *line = json_pack("{s:O}", "ret", k->record);
    keeper_ready(k, line);
    log_info("workspace=%s running", k->workspace_id);
}

static void live(struct keeper *k)
{
    k->signal_source = reactor_add(k->reactor, k->signal_fd, EPOLLIN, signal_ready, k);
    box_watch(k);
    life_begin(k);
    tell_ready(k);
    malloc_trim(0);
    loop(k);
}

static void tell_failure(struct keeper *k, const struct error *err)
{
    json_auto_t *line = json_object();
    json_object_set_new(line, "error", error_pack(err));
    /* removed, or started by another, just before: that happens */
    bool usual = err->code == ERROR_NOT_FOUND || err->code == ERROR_CONFLICT;
    log_write(usual ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "workspace=%s could not start: %s", k->workspace_id,
              err->message);
    keeper_ready(k, line);
}

static void take_down(struct keeper *k)
{
    while (k->execs != NULL) {
        struct exec *e = k->execs;
        k->execs = e->next;
        live_free(e);
    }
    relays_free(k);
    watches_free(k);
    journal_free(&k->journal);
    peers_free(k->peers);
    channel_free(k->agent);
    if (k->sandbox != NULL)
        k->driver->release(k->sandbox);
    reactor_remove(k->agent_source);
    reactor_remove(k->sandbox_source);
    reactor_remove(k->signal_source);
    reactor_free(k->reactor);
    flusher_free(k->flusher);
    if (k->events != NULL)
        events_writer_close(k->events);
    if (k->state != NULL)
        state_close(k->state);
    json_decref(k->record);
    memory_close_fd(&k->signal_fd);
    memory_close_fd(&k->lock_fd);
}

/* Fixed, so that busy times pay for no brk and fresh pages with each batch (a quarter of the time that output
 * took); journal.c trims when it is quiet. */
static void prepare_memory(void)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

int keeper_run(const struct keeper_options *options)
{
    struct keeper_options own = *options; /* ready_fd is closed once it was used */
    struct keeper k = { .options = &own,
                        .config = own.config,
                        .workspace_id = own.workspace_id,
                        .lock_fd = -1,
                        .signal_fd = -1 };
    _cleanup_error_ struct error err = ERROR_INIT;
    prepare_memory();
    k.signal_fd = process_catch_end(&err);
    int rc = k.signal_fd < 0 ? -1 : keeper_start(&k, &err);
    if (rc == 0) {
        live(&k);
    } else {
        keeper_undo(&k, &err);
        if (rc < 0)
            tell_failure(&k, &err);
    }
    take_down(&k);
    return rc < 0 ? 1 : 0;
}
