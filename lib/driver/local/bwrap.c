/* Describes a sandbox to bubblewrap and starts it. The arguments go through --args, so that no path of the
 * host stands in a command line that could be seen inside; descriptors: 0-2 null and a pipe, 3 the channel, 4
 * the system call filter for the agent's children, 5 the arguments, 6 bubblewrap's status, then files that it
 * copies. Knows nothing of handles. */
#include "lib/driver/local/bwrap.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/driver/local/packages.h"
#include "lib/driver/local/root.h"
#include "lib/driver/local/seccomp.h"
#include "lib/driver/local/spawn.h"
#include "lib/driver/local/tools.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { FD_NULL, FD_OUTPUT, FD_ERROR, FD_CHANNEL, FD_SECCOMP, FD_ARGUMENTS, FD_STATUS, FD_FIRST_FREE };

/* ---- programs ---- */

char *bwrap_find_program(struct error *err)
{
    static const char *const places[] = { "/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap" };
    for (size_t i = 0; i < N_ELEMENTS(places); i++)
        if (!access(places[i], X_OK))
            return xstrdup(places[i]);
    error_set(err, ERROR_DRIVER, "bubblewrap is not installed: apt install bubblewrap");
    return NULL;
}

static char *own_folder(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    return xstrdup(path);
}

char *bwrap_find_agent(const struct config *config, struct error *err)
{
    if (config->agent && *config->agent) {
        if (!access(config->agent, X_OK))
            return xstrdup(config->agent);
        error_set(err, ERROR_DRIVER, "workspace-agent is not where WORKSPACE_AGENT says");
        return NULL;
    }
    static const char *const places[] = { "", "/../libexec/workspace-fcgi" };
    _cleanup_free_ char *folder = own_folder();
    for (size_t i = 0; i < N_ELEMENTS(places) && folder; i++) {
        _cleanup_free_ char *path = xasprintf("%s%s/workspace-agent", folder, places[i]);
        if (!access(path, X_OK))
            return STEAL(path);
    }
    error_set(err, ERROR_DRIVER,
              "workspace-agent is not installed beside this program: make install, or set WORKSPACE_AGENT");
    return NULL;
}

/* ---- what is asked for ---- */

void bwrap_sizes(const struct sandbox_spec *spec, int64_t *ret_tmp, int64_t *ret_shm)
{
    int64_t memory = spec->memory_limit_mib > 0 ? spec->memory_limit_mib
                     : spec->memory_mib > 0     ? spec->memory_mib
                                                : 4096;
    *ret_tmp = memory / 4 > 64 ? memory / 4 : 64;
    *ret_shm = memory / 8 > 64 ? memory / 8 : 64;
}

static char *fd_path(int fd, struct error *err)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length < 0) {
        error_errno(err, ERROR_DRIVER, errno, "cannot find a directory of the workspace");
        return NULL;
    }
    path[length] = '\0';
    return xstrdup(path);
}

/* The kernel uid of the sandbox: 0 = stays the caller's. Root never runs one as itself: its uid 1000 would be
 * the host's root. */
static int choose_uid(const struct sandbox_spec *spec, uid_t *ret, struct error *err)
{
    struct stat files, home;
    if (fstat(spec->files_fd, &files) || fstat(spec->home_fd, &home))
        return error_errno(err, ERROR_DRIVER, errno, "cannot look at the workspace's directories");
    uid_t uid = geteuid() ? geteuid() : spec->uid ? spec->uid : files.st_uid;
    if (uid == 0)
        return error_set(
            err, ERROR_DRIVER,
            "as root each workspace needs a uid of its own: set WORKSPACE_UID_BASE and WORKSPACE_UID_COUNT");
    if (files.st_uid != uid || home.st_uid != uid)
        return error_set(
            err, ERROR_DRIVER,
            "the workspace's directories belong to uid %u and %u, its sandbox runs as uid %u: chown them",
            (unsigned)files.st_uid, (unsigned)home.st_uid, (unsigned)uid);
    *ret = geteuid() ? 0 : uid;
    return 0;
}

void bwrap_describe_isolation(bool block_network, const char *hostname, struct vector *v)
{
    vector_add(v, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
               "--disable-userns", "--die-with-parent", "--uid", SANDBOX_UID, "--gid", SANDBOX_UID,
               "--cap-drop", "ALL", NULL);
    if (block_network)
        vector_add(v, "--unshare-net", NULL);
    vector_add(v, "--hostname", hostname, NULL);
    vector_add(v, "--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME",
               SANDBOX_HOME, "--setenv", "USER", SANDBOX_USER, "--setenv", "LOGNAME", SANDBOX_USER,
               "--setenv", "SHELL", "/bin/bash", "--setenv", "LANG", "C.UTF-8", NULL);
}

/* hostname(7): letters, digits and hyphens, at most 63. */
#define LABEL_MAX 63
static char *make_hostname(const char *name)
{
    char *label = xstrndup(name ? name : "", LABEL_MAX);
    for (char *c = label; *c; c++)
        if (!isascii((unsigned char)*c) || !isalnum((unsigned char)*c))
            *c = '-';
    if (*label && *label != '-')
        return label;
    free(label);
    return xstrdup("workspace");
}

/* ---- descriptors ---- */

/* ret[0] ours, ret[1] the child's; at least 3, so that placing the child's descriptors does not cover it. */
static int make_pair(bool stream, int ret[2], struct error *err)
{
    if (stream ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret) : pipe2(ret, O_CLOEXEC))
        return error_errno(err, ERROR_DRIVER, errno, "cannot make a channel");
    return 0;
}

static int open_descriptors(struct vector *v, struct bwrap *b, struct error *err)
{
    int pair[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0)
        return error_errno(err, ERROR_DRIVER, errno, "cannot open the null device");
    vector_add_fd(v, null);
    if (make_pair(false, pair, err))
        return -1;
    b->output_fd = pair[0];
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    fcntl(pair[1], F_SETFL,
          O_NONBLOCK); /* nobody reads before the end: what does not fit is lost, the writer never waits */
    vector_add_fd(v, pair[1]);
    vector_add_fd(v, fcntl(pair[1], F_DUPFD_CLOEXEC, 3));
    if (make_pair(true, pair, err))
        return -1;
    b->channel_fd = pair[0];
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    vector_add_fd(v, pair[1]);
    int filter = seccomp_program(err);
    if (filter < 0)
        return -1;
    vector_add_fd(v, filter);
    vector_add_fd(v, fcntl(null, F_DUPFD_CLOEXEC, 3)); /* the arguments, once they are known */
    if (make_pair(false, pair, err))
        return -1;
    b->status_fd = pair[0];
    vector_add_fd(v, pair[1]);
    return 0;
}

/* ---- start ---- */

/* Without a CPU controller: as many CPUs as the limit, chosen by the workspace's id so that workspaces
 * spread. */
static bool choose_cpus(const struct sandbox_spec *spec, cpu_set_t *ret)
{
    cpu_set_t allowed;
    int wanted = (int)spec->cpu_limit + (spec->cpu_limit > (int)spec->cpu_limit), start = 0;
    if (spec->cpu_limit <= 0 || sched_getaffinity(0, sizeof(allowed), &allowed) ||
        wanted >= CPU_COUNT(&allowed))
        return false;
    for (const char *c = spec->workspace_id; *c; c++)
        start = (start * 31 + *c) & 0xffff;
    CPU_ZERO(ret);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(ret) < wanted; i++) {
        int cpu = (start + i) % CPU_SETSIZE;
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, ret);
    }
    return true;
}

static int run(const struct config *config, const struct sandbox_spec *spec, const struct cgroup *cgroup,
               uid_t uid, const struct spawn_view *views, size_t n_views, const struct vector *v,
               struct bwrap *b, struct error *err)
{
    cpu_set_t cpus;
    char processes[24];
    _cleanup_free_ char *program = bwrap_find_program(err);
    if (!program)
        return -1;
    snprintf(processes, sizeof(processes), "%lld", (long long)spec->processes);
    const char *const argv[] = { "bwrap",
                                 "--setenv",
                                 BWRAP_MARK_WORKSPACE,
                                 spec->workspace_id,
                                 "--setenv",
                                 BWRAP_MARK_STATE_DIR,
                                 config->state_dir,
                                 "--args",
                                 "5",
                                 "--",
                                 SANDBOX_AGENT,
                                 "--channel",
                                 "3",
                                 "--seccomp",
                                 "4",
                                 spec->processes > 0 ? "--processes" : NULL,
                                 processes,
                                 NULL };
    const struct spawn s = {
        .program = program,
        .argv = (char *const *)(uintptr_t)argv,
        .uid = uid,
        .views = views,
        .n_views = n_views,
        .fds = v->fds,
        .n_fds = v->n_fds,
        .join_fds = cgroup->join_fds,
        .n_join = cgroup->n_join,
        .cgroup_fd = cgroup->fd,
        .cpus = !cgroup->version[CGROUP_CPU] && choose_cpus(spec, &cpus) ? &cpus : NULL,
    };
    return spawn_run(&s, &b->pid, &b->pidfd, err);
}

int bwrap_start(const struct config *config, const struct sandbox_spec *spec, const struct cgroup *cgroup,
                struct bwrap *ret, struct error *err)
{
    uid_t uid = 0;
    _cleanup_vector_ struct vector v = { .arguments = BUFFER_INIT };
    *ret = (struct bwrap){ .pidfd = -1, .status_fd = -1, .output_fd = -1, .channel_fd = -1 };
    _cleanup_free_ char *agent = bwrap_find_agent(config, err);
    _cleanup_free_ char *files = agent ? fd_path(spec->files_fd, err) : NULL;
    _cleanup_free_ char *home = files ? fd_path(spec->home_fd, err) : NULL;
    if (!home || choose_uid(spec, &uid, err) || open_descriptors(&v, ret, err))
        return -1;
    _cleanup_free_ char *tools_path = tools_folder(config);
    const struct spawn_view views[] = { { agent, SPAWN_VIEW "agent" },
                                        { files, SPAWN_VIEW "files" },
                                        { home, SPAWN_VIEW "home" },
                                        { tools_path, SPAWN_VIEW "tools" } };
    _cleanup_free_ char *ripgrep = tools_find_in_usr("rg");
    _cleanup_free_ char *hostname = make_hostname(spec->hostname);
    bool viewed = uid && spawn_is_privileged();
    struct root root = { .agent = agent,
                         .ripgrep = ripgrep,
                         .files = files,
                         .home = home,
                         .tools = tools_path,
                         .packages = packages_are_shared(config),
                         .hostname = hostname };
    if (viewed) {
        root.agent = views[0].target;
        root.files = views[1].target;
        root.home = views[2].target;
        root.tools = tools_path ? views[3].target : NULL;
    }
    bwrap_sizes(spec, &root.tmp_mib, &root.shm_mib);
    bwrap_describe_isolation(spec->block_network || (config->network && !strcmp(config->network, "none")),
                             hostname, &v);
    vector_add(&v, "--as-pid-1", "--json-status-fd", NULL);
    vector_add_printf(&v, "%d", FD_STATUS);
    if (root_describe(&root, &v, err) || vector_seal(&v, FD_ARGUMENTS, err))
        return -1;
    size_t n_views = 3 + (tools_path != NULL);
    return run(config, spec, cgroup, uid, views, viewed ? n_views : 0, &v, ret, err);
}

/* ---- what it says ---- */

int bwrap_read_child(struct bwrap *b, int64_t deadline_ms, pid_t *ret, struct error *err)
{
    char text[1024];
    size_t length = 0;
    for (;;) {
        struct pollfd wait = { .fd = b->status_fd, .events = POLLIN };
        int64_t left = deadline_ms - clock_boottime_ms();
        if (left <= 0 || poll(&wait, 1, (int)left) == 0)
            return error_set(err, ERROR_TIMEOUT, "the sandbox did not start in time");
        ssize_t n = read(b->status_fd, text + length, sizeof(text) - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set(err, ERROR_DRIVER, "the sandbox did not start");
        length += (size_t)n;
        json_auto_t *line = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, NULL);
        json_int_t child = json_integer_value(json_object_get(line, "child-pid"));
        if (child > 0 && child <= INT_MAX) {
            *ret = (pid_t)child;
            return 0;
        }
        if (length == sizeof(text))
            return error_set(err, ERROR_DRIVER, "bubblewrap said something unexpected");
    }
}

char *bwrap_output(struct bwrap *b)
{
    char text[1024];
    ssize_t length = b->output_fd < 0 ? 0 : read(b->output_fd, text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return xstrdup(text);
}

void bwrap_clear(struct bwrap *b)
{
    memory_close_fd(&b->pidfd);
    memory_close_fd(&b->status_fd);
    memory_close_fd(&b->output_fd);
    memory_close_fd(&b->channel_fd);
    *b = (struct bwrap){ .pidfd = -1, .status_fd = -1, .output_fd = -1, .channel_fd = -1 };
}
