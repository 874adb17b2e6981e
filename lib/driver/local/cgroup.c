/* One directory for each sandbox and hierarchy, with its limits: a table of files for each version. Knows
 * nothing of where they may be made (place.c), of bubblewrap and of workspaces. */
#include "lib/driver/local/cgroup.h"

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/driver/local/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define MOUNT_POINT "/sys/fs/cgroup/"
#define NAME_PREFIX "workspace-fcgi-"
#define PERIOD_US   100000

#define LEFT_BEHIND_S 60
/* Well below the 1024 and 100 of everything else: the gateway answers before workspaces compute. */
#define SHARES_PER_CPU 128
#define WEIGHT_PER_CPU 12.5

void cgroup_detect(int version[static CGROUP_CONTROLLERS])
{
    _cleanup_place_ struct place place;
    place_find(&place);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        place_of(&place, (enum cgroup_controller)i, &version[i]);
}

static int write_file(const char *directory, const char *file, const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, file);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* ---- limits ---- */

static bool value_memory(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%lld", (long long)l->memory_bytes);
    return l->memory_bytes > 0;
}
static bool value_zero(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "0");
    return l->memory_bytes > 0;
}
static bool value_period(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%d", PERIOD_US);
    return l->cpu_limit > 0;
}
static bool value_quota(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%lld", (long long)(l->cpu_limit * PERIOD_US));
    return l->cpu_limit > 0;
}
static bool value_quota_of_period(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%lld %d", (long long)(l->cpu_limit * PERIOD_US), PERIOD_US);
    return l->cpu_limit > 0;
}
static long long clamp(double value, long long low, long long high)
{
    return value < (double)low ? low : value > (double)high ? high : (long long)value;
}
static bool value_shares(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%lld", clamp(l->cpu * SHARES_PER_CPU, 2, 262144));
    return l->cpu > 0;
}
static bool value_weight(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%lld", clamp(l->cpu * WEIGHT_PER_CPU, 1, 10000));
    return l->cpu > 0;
}
static bool value_processes(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%lld",
             (long long)l->processes + 2); /* bubblewrap and the agent are not the workspace's */
    return l->processes > 0;
}

static const struct setting {
    enum cgroup_controller controller;
    int version;
    bool optional; /* absent files (swap accounting) are fine */
    const char *file;
    bool (*value)(const struct cgroup_limits *limits, char *text,
                  size_t size); /* false = no such limit is asked for */
} settings[] = {
    { CGROUP_MEMORY, 2, false, "memory.max", value_memory },
    { CGROUP_MEMORY, 2, true, "memory.swap.max", value_zero },
    { CGROUP_MEMORY, 1, false, "memory.limit_in_bytes", value_memory },
    { CGROUP_MEMORY, 1, true, "memory.memsw.limit_in_bytes", value_memory },
    { CGROUP_CPU, 2, false, "cpu.max", value_quota_of_period },
    { CGROUP_CPU, 2, true, "cpu.weight", value_weight },
    { CGROUP_CPU, 1, false, "cpu.cfs_period_us", value_period },
    { CGROUP_CPU, 1, false, "cpu.cfs_quota_us", value_quota },
    { CGROUP_CPU, 1, true, "cpu.shares", value_shares },
    { CGROUP_PIDS, 2, false, "pids.max", value_processes },
    { CGROUP_PIDS, 1, false, "pids.max", value_processes },
};

static int apply(const char *directory, enum cgroup_controller controller, int version,
                 const struct cgroup_limits *limits)
{
    char text[64];
    for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
        const struct setting *s = &settings[i];
        if (s->controller != controller || s->version != version || !s->value(limits, text, sizeof(text)))
            continue;
        if (write_file(directory, s->file, text) && !s->optional) {
            log_warning("cgroup limit %s is not set: %s", s->file, strerror(errno));
            return -1;
        }
    }
    return 0;
}

static int open_in(const char *directory, const char *file, int flags)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, file);
    return open(path, flags | O_CLOEXEC);
}

static bool create_one(struct cgroup *c, const struct place *place, enum cgroup_controller controller,
                       const char *name, const struct cgroup_limits *limits)
{
    int version;
    const char *base = place_of(place, controller, &version);
    if (!base)
        return false;
    _cleanup_free_ char *directory = xasprintf("%s/%s", base, name);
    if (version == 1 || c->fd < 0)
        rmdir(directory); /* one that was left behind is old, and a sweep would take it for such */
    if (mkdir(directory, 0755) && errno != EEXIST)
        return false;
    int fd = -1;
    if (apply(directory, controller, version, limits))
        return false;
    if (version == 2 && c->fd < 0 && (c->fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return false;
    if (version == 1 && (fd = open_in(directory, "tasks", O_WRONLY)) < 0)
        return false;
    if (version == 1)
        c->join_fds[c->n_join++] = fd;
    c->version[controller] = version;
    c->directory[controller] = STEAL(directory);
    return true;
}

void cgroup_create(struct cgroup *ret, const char *name, const struct cgroup_limits *limits)
{
    _cleanup_place_ struct place place;
    place_find(&place);
    *ret = (struct cgroup){ .fd = -1 };
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        create_one(ret, &place, (enum cgroup_controller)i, name, limits);
}

void cgroup_close_join(struct cgroup *c)
{
    for (size_t i = 0; i < c->n_join; i++)
        close(c->join_fds[i]);
    c->n_join = 0;
    memory_close_fd(&c->fd);
    c->fd = -1;
}

void cgroup_clear(struct cgroup *c)
{
    cgroup_close_join(c);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        free(STEAL(c->directory[i]));
}

int64_t cgroup_oom_kills(const struct cgroup *c)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    if (!c->version[CGROUP_MEMORY])
        return 0;
    _cleanup_free_ char *path =
        xasprintf("%s/%s", c->directory[CGROUP_MEMORY],
                  c->version[CGROUP_MEMORY] == 2 ? "memory.events" : "memory.oom_control");
    if (io_read_file(AT_FDCWD, path, 4096, &text, NULL))
        return 0;
    const char *line = strstr(buffer_text(&text), "oom_kill ");
    return line ? strtoll(line + strlen("oom_kill "), NULL, 10) : 0;
}

/* ---- ends ---- */

json_t *cgroup_to_json(const struct cgroup *c)
{
    json_t *list = json_array();
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        bool again = false;
        for (int j = 0; j < i && c->directory[i]; j++)
            again |= c->directory[j] && !strcmp(c->directory[i], c->directory[j]);
        if (c->directory[i] && !again)
            json_array_append_new(list, json_string(c->directory[i]));
    }
    return list;
}

json_t *cgroup_find(const char *name)
{
    _cleanup_place_ struct place place;
    int version;
    json_t *list = json_array();
    place_find(&place);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        const char *base = place_of(&place, (enum cgroup_controller)i, &version);
        _cleanup_free_ char *directory = base ? xasprintf("%s/%s", base, name) : NULL;
        if (directory && !access(directory, F_OK))
            json_array_append_new(list, json_string(directory));
    }
    return list;
}

static bool is_ours(const char *directory)
{
    const char *leaf = directory ? strrchr(directory, '/') : NULL;
    return leaf && !strncmp(directory, MOUNT_POINT, strlen(MOUNT_POINT)) && !strstr(directory, "/../") &&
           !strncmp(leaf + 1, NAME_PREFIX, strlen(NAME_PREFIX));
}

static int remove_one(const char *directory, int64_t deadline, struct error *err)
{
    while (rmdir(directory) && errno != ENOENT) {
        if (errno != EBUSY)
            return error_errno(err, ERROR_DRIVER, errno, "cannot remove the workspace's cgroup");
        if (clock_boottime_ms() >= deadline)
            return error_set(err, ERROR_TIMEOUT, "the workspace's cgroup still has processes");
        nanosleep(&(struct timespec){ 0, 300000 }, NULL);
    }
    return 0;
}

int cgroup_remove(const json_t *directories, int timeout_ms, struct error *err)
{
    int64_t deadline = clock_boottime_ms() + timeout_ms;
    size_t i;
    json_t *value;
    json_array_foreach(directories, i, value) {
        if (is_ours(json_string_value(value)) && remove_one(json_string_value(value), deadline, err))
            return -1;
    }
    return 0;
}

/* How long it lay there is told by a stamp of the clock that nobody sets, where its time of change would
 * stand: the first look makes it. A directory that is in use is not empty, and one that is made anew has no
 * stamp. */
static bool is_left_behind(int base, const char *name)
{
    struct stat status;
    int64_t now = clock_boottime_ms() / 1000;
    struct timespec stamp[2] = { { .tv_sec = now }, { .tv_sec = now } };
    if (fstatat(base, name, &status, AT_SYMLINK_NOFOLLOW))
        return false;
    if (status.st_mtime <= now)
        return status.st_mtime + LEFT_BEHIND_S < now;
    utimensat(base, name, stamp, AT_SYMLINK_NOFOLLOW);
    return false;
}

static void sweep_directory(const char *base)
{
    DIR *directory = opendir(base);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (!strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) &&
            is_left_behind(dirfd(directory), entry->d_name) &&
            !unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR))
            log_debug("removed a cgroup that was left behind: %s", entry->d_name);
    if (directory)
        closedir(directory);
}

void cgroup_sweep(void)
{
    _cleanup_place_ struct place place;
    int version;
    place_find(&place);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        const char *base = place_of(&place, (enum cgroup_controller)i, &version);
        if (base)
            sweep_directory(base);
    }
}

void cgroup_prefix(const char *state_dir, char prefix[static CGROUP_PREFIX_SIZE])
{
    char hash[ID_HASH_SIZE];
    id_hash(state_dir, strlen(state_dir), hash);
    snprintf(prefix, CGROUP_PREFIX_SIZE, NAME_PREFIX "%.8s-", hash);
}
