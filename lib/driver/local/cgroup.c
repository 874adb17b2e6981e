/* Finds the controllers, makes one directory for each sandbox and hierarchy, writes the limits: a table of
 * files for each version. The base is this process's own cgroup; under version 2, where processes may sit in
 * leaves only, a leaf named "gateway" stands for its parent (systemd: Delegate=yes,
 * DelegateSubgroup=gateway). Knows nothing of bubblewrap and workspaces. */
#include "lib/driver/local/cgroup.h"

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define MOUNT_POINT "/sys/fs/cgroup/"
#define NAME_PREFIX "workspace-fcgi-"
#define GATEWAY     "/gateway"
#define PERIOD_US   100000

static const char *const names[CGROUP_CONTROLLERS] = { "memory", "cpu", "pids" };

/* ---- where each controller is ---- */

/* The hierarchy's path of this process: version 1 lines name controllers ("4:memory:/x"), version 2's is
 * "0::/x". */
static bool own_path(char *text, const char *controller, char *ret, size_t size)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        char *inner = NULL;
        bool hit = !controller && !controllers[1];
        for (char *c = strtok_r(controllers + 1, ",", &inner); c && controller && !hit;
             c = strtok_r(NULL, ",", &inner))
            hit = !strcmp(c, controller);
        if (hit)
            return snprintf(ret, size, "%s", path) < (int)size;
    }
    return false;
}

static bool has_word(const char *list, const char *word, const char *separators)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || strchr(separators, at[-1])) && (!at[length] || strchr(separators, at[length])))
            return true;
    return false;
}

/* Mount point and mounted root of the hierarchy; controller NULL = version 2. proc_pid_mountinfo(5): fields
 * 4, 5, and after " - " the type. */
static bool find_mount(char *text, const char *controller, char *point, char *root)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char type[32], options[256];
        char *rest = strstr(line, " - ");
        if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %255s %255s", root, point) != 2)
            continue;
        if (controller ? !strcmp(type, "cgroup") && has_word(options, controller, ",")
                       : !strcmp(type, "cgroup2"))
            return true;
    }
    return false;
}

static char *own_directory(const char *controller)
{
    _cleanup_buffer_ struct buffer mounts = BUFFER_INIT, paths = BUFFER_INIT;
    char point[256], root[256], path[256];
    if (io_read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, &mounts, NULL) ||
        io_read_file(AT_FDCWD, "/proc/self/cgroup", 1 << 16, &paths, NULL))
        return NULL;
    buffer_text(&mounts);
    buffer_text(&paths);
    if (!find_mount(mounts.data, controller, point, root) ||
        !own_path(paths.data, controller, path, sizeof(path)))
        return NULL;
    size_t skip = strcmp(root, "/") && !strncmp(path, root, strlen(root)) ? strlen(root) : 0;
    return xasprintf("%s%s", point, strcmp(path + skip, "/") ? path + skip : "");
}

static bool file_has_word(const char *directory, const char *file, const char *word)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, file);
    return !io_read_file(AT_FDCWD, path, 4096, &text, NULL) && has_word(buffer_text(&text), word, " \n");
}

static int write_file(const char *directory, const char *file, const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, file);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* The version 2 base, or NULL; nothing is changed. */
static char *unified_base(void)
{
    char *base = own_directory(NULL);
    char *leaf = base ? strrchr(base, '/') : NULL;
    if (leaf && !strcmp(leaf, GATEWAY))
        *leaf = '\0';
    return base;
}

/* Children have a controller once it is in cgroup.subtree_control: needs the right to write and, but in the
 * root, no process beside them. */
static bool unified_enable(const char *base, const char *controller)
{
    char text[16];
    if (!base || access(base, W_OK) || !file_has_word(base, "cgroup.controllers", controller))
        return false;
    if (file_has_word(base, "cgroup.subtree_control", controller))
        return true;
    snprintf(text, sizeof(text), "+%s", controller);
    return !write_file(base, "cgroup.subtree_control", text);
}

/* Returns the version and the base directory. */
static int find_base(enum cgroup_controller controller, char **ret)
{
    char *base = unified_base();
    if (unified_enable(base, names[controller])) {
        *ret = base;
        return 2;
    }
    free(base);
    base = own_directory(names[controller]);
    if (base && !access(base, W_OK)) {
        *ret = base;
        return 1;
    }
    free(base);
    return 0;
}

void cgroup_detect(int version[static CGROUP_CONTROLLERS])
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        _cleanup_free_ char *base = NULL;
        version[i] = find_base((enum cgroup_controller)i, &base);
    }
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
    snprintf(text, size, "%lld", clamp(l->cpu * 1024, 2, 262144));
    return l->cpu > 0;
}
static bool value_weight(const struct cgroup_limits *l, char *text, size_t size)
{
    snprintf(text, size, "%lld", clamp(l->cpu * 100, 1, 10000));
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

static bool create_one(struct cgroup *c, enum cgroup_controller controller, const char *name,
                       const struct cgroup_limits *limits)
{
    _cleanup_free_ char *base = NULL;
    int version = find_base(controller, &base);
    if (!version)
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
    *ret = (struct cgroup){ .fd = -1 };
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        create_one(ret, (enum cgroup_controller)i, name, limits);
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
    json_t *list = json_array();
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        _cleanup_free_ char *base = NULL;
        if (!find_base((enum cgroup_controller)i, &base))
            continue;
        _cleanup_free_ char *directory = xasprintf("%s/%s", base, name);
        if (!access(directory, F_OK))
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
    json_array_foreach(directories, i, value)
    {
        if (is_ours(json_string_value(value)) && remove_one(json_string_value(value), deadline, err))
            return -1;
    }
    return 0;
}

static void sweep_directory(const char *base)
{
    DIR *directory = opendir(base);
    struct dirent *entry;
    struct stat status;
    while (directory && (entry = readdir(directory))) {
        if (strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) ||
            fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
            continue;
        if (status.st_mtime + 60 < clock_wall_s() && !unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR))
            log_debug("removed a cgroup that was left behind: %s", entry->d_name);
    }
    if (directory)
        closedir(directory);
}

void cgroup_sweep(void)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        _cleanup_free_ char *base = NULL;
        if (find_base((enum cgroup_controller)i, &base))
            sweep_directory(base);
    }
}

void cgroup_prefix(const char *state_dir, char prefix[static CGROUP_PREFIX_SIZE])
{
    char hash[ID_HASH_SIZE];
    id_hash(state_dir, strlen(state_dir), hash);
    snprintf(prefix, CGROUP_PREFIX_SIZE, NAME_PREFIX "%.8s-", hash);
}
