/* The kernel's own way of ending processes at a limit, one by one, costs 0.2 s and a hundred lines on the
 * console for each (measured: a hundred hogs kept the whole machine busy for 20 s). This thread is woken by
 * the kernel shortly before the limit and ends the largest, whole commands where need be; the kernel's way
 * stays behind it. An idle sandbox costs nothing. (Putting processes to sleep at the limit, version 1's
 * oom_kill_disable, was tried: the agent's own calls then fail with ENOMEM.) Knows nothing of sandboxes
 * beyond their processes and directory. */
#include "lib/driver/local/guard.h"

#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>

#define ROUND_MS    20
#define ROUND_MAX   1000
#define FILL_PER_MS (int64_t)(4 << 20)
#define STACK_SIZE  (128 << 10)

struct guard {
    pthread_t thread;
    int version, stop_fd, wake_fd;
    char *directory;
    struct watch *watch;
};

static int open_in(const char *directory, const char *file, int flags)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, file);
    return open(path, flags | O_CLOEXEC);
}

static bool read_text(const struct guard *g, const char *file, struct buffer *ret)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", g->directory, file);
    return !io_read_file(AT_FDCWD, path, 64 << 10, ret, NULL) && buffer_text(ret);
}

/* Of a line "name value". */
static int64_t value_of(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, length) && line[length] == ' ')
            return strtoll(line + length, NULL, 10);
    return 0;
}

static const struct files {
    const char *usage, *inactive, *active;
} files[] = {
    [1] = { "memory.usage_in_bytes", "total_inactive_file", "total_active_file" },
    [2] = { "memory.current", "inactive_file", "active_file" },
};

static int64_t threshold(const struct guard *g)
{
    return g->watch->limit - g->watch->limit / 16;
}

/* What is used and cannot be had back, as the page cache can. -1: the sandbox is gone. *ret_usage: all of it.
 */
static int64_t read_use(const struct guard *g, int64_t *ret_usage)
{
    _cleanup_buffer_ struct buffer usage = BUFFER_INIT, parts = BUFFER_INIT;
    const struct files *f = &files[g->version];
    if (!read_text(g, f->usage, &usage) || !read_text(g, "memory.stat", &parts))
        return -1;
    *ret_usage = strtoll(usage.data, NULL, 10);
    int64_t cache = value_of(parts.data, f->inactive) + value_of(parts.data, f->active);
    return *ret_usage > cache ? *ret_usage - cache : 0;
}

/* One look. Returns ms until the next, -1 = when the kernel says so, -2 = the sandbox is gone. */
static int look(const struct guard *g)
{
    int64_t usage = 0, used = read_use(g, &usage);
    if (used < 0)
        return -2;
    if (used >= threshold(g)) {
        watch_relieve(g->watch);
        return ROUND_MS;
    }
    if (usage < threshold(g))
        return -1; /* it will cross the threshold again */
    int64_t ms = (g->watch->limit - used) / FILL_PER_MS;
    return (int)(ms < ROUND_MS ? ROUND_MS : ms > ROUND_MAX ? ROUND_MAX : ms);
}

/* The kernel's word: version 1 counts an eventfd up, version 2 marks memory.events. true = stop. */
static bool wait_for_word(const struct guard *g, int timeout_ms)
{
    uint64_t count;
    struct pollfd waits[] = { { .fd = g->stop_fd, .events = POLLIN },
                              { .fd = g->wake_fd, .events = g->version == 1 ? POLLIN : POLLPRI } };
    if (poll(waits, 2, timeout_ms) < 0 && errno != EINTR)
        return true;
    if (g->version == 1 && waits[1].revents & POLLIN && read(g->wake_fd, &count, sizeof(count)) < 0)
        return true;
    char text[256];
    if (g->version == 2 && waits[1].revents && pread(g->wake_fd, text, sizeof(text), 0) < 0)
        return true;
    return waits[0].revents != 0;
}

static int write_text(const char *directory, const char *file, const char *text)
{
    _cleanup_close_ int fd = open_in(directory, file, O_WRONLY);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static int register_v1(struct guard *g, const char *file, const char *argument)
{
    char text[96];
    _cleanup_close_ int control = open_in(g->directory, file, O_RDONLY);
    snprintf(text, sizeof(text), "%d %d %s", g->wake_fd, control, argument);
    return control < 0 ? -1 : write_text(g->directory, "cgroup.event_control", text);
}

static int prepare_v1(struct guard *g)
{
    g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return g->wake_fd < 0 ? -1 : register_v1(g, "memory.oom_control", "");
}

static int prepare_v2(struct guard *g)
{
    char text[64];
    g->wake_fd = open_in(g->directory, "memory.events", O_RDONLY);
    snprintf(text, sizeof(text), "%lld", (long long)(g->watch->limit - g->watch->limit / 16));
    return g->wake_fd < 0 || pread(g->wake_fd, text + 32, 1, 0) < 0
               ? -1
               : write_text(g->directory, "memory.high", text);
}

/* In the thread: the kernel takes a grace period for it (15 ms measured). It counts the page cache in. */
static void register_threshold(struct guard *g)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)threshold(g));
    if (g->version == 1 && register_v1(g, "memory.usage_in_bytes", text) &&
        errno != ENOENT /* the sandbox ended at once */)
        log_warning("the kernel tells only when memory is out, not before: %s", strerror(errno));
}

static void *run(void *user)
{
    struct guard *g = user;
    register_threshold(g);
    for (int wait_ms = 0; wait_ms >= -1 && !wait_for_word(g, wait_ms);)
        wait_ms = look(g);
    return NULL;
}

static void guard_free(struct guard *g)
{
    memory_close_fd(&g->stop_fd);
    memory_close_fd(&g->wake_fd);
    free(g->directory);
    free(g);
}

static int start_thread(struct guard *g)
{
    pthread_attr_t attributes;
    sigset_t all, old;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int result = pthread_create(&g->thread, &attributes, run, g);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return result;
}

struct guard *guard_start(const struct cgroup *cgroup, struct watch *watch)
{
    int version = cgroup->version[CGROUP_MEMORY];
    if (!version || watch->limit <= 0)
        return NULL;
    struct guard *g = xcalloc(1, sizeof(*g));
    *g = (struct guard){
        .version = version, .stop_fd = eventfd(0, EFD_CLOEXEC), .wake_fd = -1, .watch = watch
    };
    g->directory = xstrdup(cgroup->directory[CGROUP_MEMORY]);
    if (g->stop_fd >= 0 && !(version == 1 ? prepare_v1(g) : prepare_v2(g)) && !start_thread(g))
        return g;
    log_warning("the kernel does not tell when memory is out: %s", strerror(errno));
    guard_free(g);
    return NULL;
}

void guard_stop(struct guard *g)
{
    if (!g)
        return;
    eventfd_write(g->stop_fd, 1);
    pthread_join(g->thread, NULL);
    guard_free(g);
}
