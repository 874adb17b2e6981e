/* Looks at the warden that there is, by what the kernel tells of its socket, and takes its place where it
 * gives way. Knows nothing of what wardens do. */
#include "lib/warden/takeover.h"

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
    LOOK_EVERY_MS = 20,
    WAIT_EVERY_MS = 250,
    ANSWER_MS = 2000, /* who holds the lock may have begun just now */
    END_MS = 10000,
};

/* ---- looking ---- */

/* Its command line says so: no secret, and nobody gains by pretending. */
static bool is_spare(pid_t pid)
{
    char path[40];
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    if (pid <= 0 || io_read_file(AT_FDCWD, path, 1 << 20, &line, NULL) < 0)
        return false;
    buffer_text(&line);
    for (size_t at = 0; at < line.length; at += strlen(line.data + at) + 1)
        if (strcmp(line.data + at, "--spare") == 0)
            return true;
    return false;
}

/* A process that a killed warden was just starting keeps its socket listening, and its lock, until it has
 * become its program. */
static bool is_alive(pid_t pid)
{
    _cleanup_close_ int pidfd = process_pidfd_open(pid);
    return pidfd >= 0 ? process_pidfd_wait(pidfd, 0) == 0 : errno != ESRCH && errno != EINVAL;
}

bool warden_look(const struct config *config, struct warden_seen *ret)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    _cleanup_free_ char *path = config_path(config, "run/warden.sock", NULL);
    _cleanup_close_ int fd = io_connect_unix(path, NULL);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || size != sizeof(peer) ||
        !is_alive(peer.pid))
        return false;
    *ret = (struct warden_seen){ .pid = peer.pid, .uid = peer.uid, .spare = is_spare(peer.pid) };
    return true;
}

/* Only to one that was started on purpose: what root does in passing leaves a plain user's installation to
 * the warden that its owner started, and could not end root's. */
bool warden_gives_way(const struct warden_seen *seen, unsigned flags)
{
    bool weaker = geteuid() == 0 && seen->uid != 0, stronger = geteuid() != 0 && seen->uid == 0;
    return (weaker && (flags & (WARDEN_FRESH | WARDEN_EQUAL))) ||
           (seen->spare && !stronger && (flags & WARDEN_FRESH));
}

bool warden_await(const struct config *config, unsigned flags, int timeout_ms, struct warden_seen *ret)
{
    int64_t end = clock_boottime_ms() + timeout_ms;
    do {
        if (warden_look(config, ret) && !warden_gives_way(ret, flags))
            return true;
        usleep(LOOK_EVERY_MS * 1000);
    } while (clock_boottime_ms() < end);
    return false;
}

/* ---- taking its place ---- */

static bool runs_as(const struct warden_seen *seen)
{
    char path[40];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d", (int)seen->pid);
    return stat(path, &st) == 0 && st.st_uid == seen->uid;
}

/* Who may make sockets here can have one listen whose maker is gone, and its number with another process:
 * held first, then looked at, it must be a process of that very user. */
static int end_former(const struct config *config, const struct warden_seen *seen, struct error *err)
{
    struct warden_seen again;
    _cleanup_close_ int pidfd = seen->pid > 0 ? process_pidfd_open(seen->pid) : -1;
    if (pidfd < 0)
        return error_errno(err, ERROR_CONFLICT, errno, "the warden %d cannot be reached", (int)seen->pid);
    if (!warden_look(config, &again) || again.pid != seen->pid || !runs_as(seen))
        return 0; /* gone meanwhile */
    log_warning("the warden %d of uid %u gives way%s", (int)seen->pid, (unsigned)seen->uid,
                seen->spare ? "" : ": workspaces that it started keep its weaker isolation until they stop");
    if (process_pidfd_signal(pidfd, SIGTERM) < 0)
        return error_errno(err, ERROR_CONFLICT, errno, "the warden %d cannot be ended", (int)seen->pid);
    return 0;
}

struct takeover {
    const struct config *config;
    unsigned flags;
    int64_t begun_ms;
    pid_t ended; /* it was told to give way */
    bool told;   /* that another one is waited for */
};

static void tell_other(struct takeover *t, const struct warden_seen *seen)
{
    if (t->told)
        return;
    t->told = true;
    log_info("another warden (pid %d, uid %u) watches over %s%s", (int)seen->pid, (unsigned)seen->uid,
             t->config->state_dir, t->flags & WARDEN_WAITS ? ": waiting for its end" : " already");
}

/* The lock is another's. 1 = try again, 0 = leave it to that one. */
static int look_at_holder(struct takeover *t, struct error *err)
{
    struct warden_seen seen;
    int64_t waited_ms = clock_boottime_ms() - t->begun_ms;
    bool waits = t->flags & WARDEN_WAITS;
    if (!warden_look(t->config, &seen)) {
        if (waits || waited_ms < (t->ended ? END_MS : ANSWER_MS))
            return 1;
        return error_set(err, ERROR_CONFLICT, "another process holds %s/run/warden.lock and does not answer",
                         t->config->state_dir);
    }
    if (!warden_gives_way(&seen, t->flags)) {
        tell_other(t, &seen);
        return waits;
    }
    if (seen.pid != t->ended) {
        t->ended = seen.pid;
        t->begun_ms = clock_boottime_ms();
        return end_former(t->config, &seen, err) < 0 ? -1 : 1;
    }
    if (waited_ms < END_MS)
        return 1;
    return error_set(err, ERROR_TIMEOUT, "the warden %d does not end", (int)seen.pid);
}

int takeover_lock(const struct config *config, unsigned flags, int *ret_fd, struct error *err)
{
    struct takeover t = { .config = config, .flags = flags, .begun_ms = clock_boottime_ms() };
    _cleanup_free_ char *path = config_path(config, "run/warden.lock", NULL);
    for (;;) {
        int rc = io_lock_file(path, ret_fd, err);
        if (rc == 0)
            rc = look_at_holder(&t, err);
        else
            return rc;
        if (rc <= 0)
            return rc;
        usleep((t.told ? WAIT_EVERY_MS : LOOK_EVERY_MS) * 1000);
    }
}
