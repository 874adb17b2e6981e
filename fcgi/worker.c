/* One worker: a listener and the service on one loop, and its end in order. Knows nothing of what is served.
 */
#include "fcgi/worker.h"

#include "fcgi/audited.h"
#include "fcgi/listener.h"
#include "fcgi/service.h"
#include "lib/base/audit.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <malloc.h>
#include <signal.h>

enum { DRAIN_MS = 10 * 1000, AUDIT_MS = 5 /* a busy worker's lines go together */ };

struct worker {
    struct loop *loop;
    struct listener *listener;
    struct service *service;
    struct loop_timer deadline, audit;
    bool draining;
};

static void stop(void *user)
{
    struct worker *w = user;

    loop_stop(w->loop);
}

static void give_up(void *user)
{
    struct worker *w = user;

    log_warning("ending with %zu exchanges unanswered", listener_open_exchanges(w->listener));
    loop_stop(w->loop);
}

/* The listener first: what the service answers now shall close its connection. */
static void drain(void *user)
{
    struct worker *w = user;

    if (w->draining)
        return;
    w->draining = true;
    loop_timer_start(w->loop, &w->deadline, clock_boottime_ms() + DRAIN_MS, give_up, w);
    listener_drain(w->listener, stop, w);
    service_drain(w->service);
}

static void flush_audit(void *user)
{
    (void)user;
    audit_flush();
}

static void flush_logs(void *user)
{
    struct worker *w = user;

    log_flush();
    if (audit_waits() && w->audit.heap_index == 0)
        loop_timer_start(w->loop, &w->audit, clock_boottime_ms() + AUDIT_MS, flush_audit, w);
}

static void ignore(void *user)
{
    (void)user;
}

static void take_signals(struct worker *w)
{
    signal(SIGPIPE, SIG_IGN);
    loop_signal(w->loop, SIGTERM, drain, w);
    loop_signal(w->loop, SIGINT, drain, w);
    loop_signal(w->loop, SIGHUP, ignore, w); /* the master answers it with new workers */
}

int worker_run(const struct config *config, int listen_fd, int wish_fd)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct worker w = { .loop = loop_new() };

    /* Helper threads do little: one more arena would only hold memory. */
    mallopt(M_ARENA_MAX, 2);
    audited_setup("serve", config); /* the settings may have been loaded again */
    take_signals(&w);
    w.service = service_new(w.loop, config, &err);
    if (w.service == NULL) {
        log_error("the worker cannot start: %s", err.message);
        loop_free(w.loop);
        return 1;
    }
    service_ask_for_warden(w.service, wish_fd);
    w.listener = listener_new(w.loop, listen_fd, config, service_handle, w.service);
    listener_set_follows(w.listener, service_follows);
    loop_at_turn_end(w.loop, flush_logs, &w);
    log_batch(true);
    audit_batch(true);
    loop_run(w.loop);
    listener_free(w.listener);
    service_free(w.service);
    loop_timer_stop(w.loop, &w.audit);
    loop_free(w.loop);
    audit_batch(false);
    log_batch(false);
    return 0;
}
