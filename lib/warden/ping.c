/* Whether keepers still turn their loops. The sign of life is the greeting that each connection gets from a
 * live one; who owes it for long is ended, and its workspace mended. Time is counted in steps that this
 * process lived through itself: neither a suspended machine nor a stopped warden is held against keepers. */
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/warden/internal.h"

#define STEP_MS     5000
#define WARN_STEPS  2
#define DEAF_STEPS  6  /* it owes a greeting */
#define LEAVE_STEPS 24 /* it takes no connection: it is about to end */

void ping_end(struct place *p)
{
    reactor_remove(STEAL(p->ping.source));
    channel_free(STEAL(p->ping.channel));
}

static void ignore_frame(void *user, const struct frame *frame, const char *data, size_t length)
{
    (void)user;
    (void)frame;
    (void)data;
    (void)length;
}

static void answered(void *user, uint32_t events)
{
    struct place *p = user;
    (void)events;
    if (channel_read(p->ping.channel, 4096, ignore_frame, NULL, NULL) == 0 &&
        !channel_is_ready(p->ping.channel))
        return;
    ping_end(p);
    if (p->ping.silent >= WARN_STEPS)
        log_info("workspace=%s its keeper answers again", p->id);
    p->ping.silent = 0;
}

/* False: nobody listens. */
static bool call(struct warden *w, struct place *p)
{
    _cleanup_free_ char *leaf = xasprintf("%s.sock", p->id);
    _cleanup_free_ char *path = config_path(w->config, "run", leaf);
    int fd = io_connect_unix(path, NULL);
    if (fd < 0)
        return false;
    p->ping.channel = channel_new(fd);
    p->ping.source = reactor_try_add(w->reactor, fd, EPOLLIN, answered, p);
    if (p->ping.source == NULL)
        ping_end(p);
    return true;
}

/* A process that the disk keeps waiting cannot answer, and could not be ended either. */
static bool waits_for_disk(const struct child *keeper)
{
    return keeper->pid > 0 && process_state(keeper->pid) == 'D';
}

static void judge(struct place *p)
{
    if (waits_for_disk(p->keeper))
        return;
    p->ping.silent++;
    if (p->ping.silent == WARN_STEPS)
        log_warning("workspace=%s its keeper does not answer", p->id);
    if (p->ping.silent < (p->ping.channel != NULL ? DEAF_STEPS : LEAVE_STEPS))
        return;
    log_error("workspace=%s ITS KEEPER DOES NOT ANSWER FOR %d SECONDS: it is ended, its commands are lost",
              p->id, p->ping.silent * STEP_MS / 1000);
    p->ping.silent = 0;
    ping_end(p);
    child_kill(p->keeper);
}

static void step(struct warden *w, struct place *p)
{
    if (p->keeper == NULL || !p->keeper->told) {
        ping_end(p);
        p->ping.silent = 0;
    } else if (p->ping.channel != NULL || !call(w, p)) {
        judge(p);
    }
}

void ping_tick(struct warden *w)
{
    int64_t now = clock_boottime_ms();
    if (w->ping_ms > now)
        return;
    w->ping_ms = now + STEP_MS;
    for (struct place *p = w->places; p != NULL; p = p->next)
        step(w, p);
}
