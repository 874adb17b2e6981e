/* The test-only driver: starts the agent as a plain child whose folders are the workspace's. The agent adopts
 * all orphans, so the tree below it is all there is to end. */
#include "tests/support/bare.h"

#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct sandbox {
    int pidfd, channel_fd;
    bool ended;
    int status;
};

static int bare_probe(const struct config *config, struct error *err)
{
    return access(config->agent, X_OK) ? error_set(err, ERROR_DRIVER, "no agent: make programs") : 0;
}

static char *path_of(int fd)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    return xstrndup(path, length > 0 ? (size_t)length : 0);
}

static _Noreturn void run_agent(const struct config *config, int channel, const char *files, const char *home,
                                const char *processes)
{
    process_reset_signals();
    setsid();
    dup2(channel, 3);
    process_close_on_exec_from(4);
    execl(config->agent, "workspace-agent", "--channel", "3", "--workspace", files, "--home", home,
          "--ripgrep", "/usr/bin/rg", processes ? "--processes" : NULL, processes, NULL);
    _exit(127);
}

static int bare_create(const struct config *config, const struct sandbox_spec *spec, struct sandbox **ret,
                       json_t **ret_handle, struct error *err)
{
    int pair[2];
    char processes[24];
    struct process_identity identity;
    _cleanup_free_ char *files = path_of(spec->files_fd), *home = path_of(spec->home_fd);
    snprintf(processes, sizeof processes, "%lld", (long long)spec->processes);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return error_errno(err, ERROR_DRIVER, errno, "socketpair");
    pid_t pid = fork();
    if (pid == 0)
        run_agent(config, pair[1], files, home, spec->processes ? processes : NULL);
    close(pair[1]);
    if (pid < 0 || process_identify(pid, &identity, err))
        return -1;
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    *ret = xcalloc(1, sizeof **ret);
    (*ret)->channel_fd = pair[0];
    (*ret)->pidfd = process_pidfd_open(pid);
    *ret_handle = process_identity_to_json(&identity);
    return 0;
}

static int bare_open_channel(struct sandbox *sandbox, struct error *err)
{
    struct pollfd wait = { .fd = sandbox->channel_fd, .events = POLLIN };
    char byte;
    if (wait.fd < 0 || poll(&wait, 1, 5000) <= 0 || recv(sandbox->channel_fd, &byte, 1, MSG_PEEK) <= 0)
        return error_set(err, ERROR_DRIVER, "the agent did not start");
    return STEAL_FD(sandbox->channel_fd);
}

static int bare_watch_fd(struct sandbox *sandbox)
{
    return sandbox->pidfd;
}

static void reap(struct sandbox *sandbox)
{
    siginfo_t info = { 0 };
    if (sandbox->ended || waitid(P_PIDFD, (id_t)sandbox->pidfd, &info, WEXITED | WNOHANG) || !info.si_pid)
        return;
    sandbox->ended = true;
    sandbox->status = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

static int open_handle(const json_t *handle)
{
    struct process_identity identity;
    return process_identity_from_json(handle, &identity) ? -1 : process_open(&identity);
}

static int bare_inspect(const struct config *config, struct sandbox *sandbox, const json_t *handle,
                        struct sandbox_status *ret, struct error *err)
{
    (void)config, (void)err;
    _cleanup_close_ int fd = open_handle(handle);
    if (sandbox)
        reap(sandbox);
    *ret = (struct sandbox_status){ .running = fd >= 0 && process_pidfd_wait(fd, 0) == 0 };
    ret->has_returncode = sandbox && sandbox->ended;
    ret->returncode = ret->has_returncode ? sandbox->status : 0;
    return 0;
}

/* Returns how many there were. */
static int kill_below(pid_t pid)
{
    char path[64], text[8192];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    for (char *at = text, *end; strtol(at, &end, 10) > 0; at = end) {
        pid_t child = (pid_t)strtol(at, NULL, 10);
        _cleanup_close_ int pidfd = process_pidfd_open(child);
        count += 1 + kill_below(child);
        process_pidfd_signal(pidfd, SIGKILL);
    }
    return count;
}

static int bare_terminate(const struct config *config, struct sandbox *sandbox, const json_t *handle,
                          struct error *err)
{
    (void)config;
    _cleanup_close_ int fd = open_handle(handle);
    int64_t deadline = clock_boottime_ms() + 10000;
    while (fd >= 0 && kill_below((pid_t)json_integer_value(json_object_get(handle, "pid"))) &&
           clock_boottime_ms() < deadline)
        poll(NULL, 0, 5);
    if (fd >= 0) {
        process_pidfd_signal(fd, SIGKILL);
        if (process_pidfd_wait(fd, 10000) != 1)
            return error_set(err, ERROR_TIMEOUT, "the agent did not end");
    }
    if (sandbox)
        reap(sandbox);
    return 0;
}

static void bare_release(struct sandbox *sandbox)
{
    if (!sandbox)
        return;
    memory_close_fd(&sandbox->channel_fd);
    memory_close_fd(&sandbox->pidfd);
    free(sandbox);
}

/* Command line: workspace-agent --channel 3 --workspace STATE/workspaces/WS/files ... */
static void list_one(const char *pid, const char *prefix, json_t *list)
{
    char path[64], id[ID_SIZE];
    struct process_identity identity;
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;
    snprintf(path, sizeof path, "/proc/%.12s/cmdline", pid);
    if (io_read_file(AT_FDCWD, path, 64 << 10, &line, NULL) ||
        strncmp(buffer_text(&line), "workspace-agent", 15))
        return;
    const char *at = memmem(line.data, line.length, prefix, strlen(prefix));
    if (!at)
        return;
    snprintf(id, sizeof id, "%s", at + strlen(prefix));
    if (id_is_valid(ID_WORKSPACE, id) && !process_identify((pid_t)strtol(pid, NULL, 10), &identity, NULL))
        json_array_append_new(
            list, json_pack("{s:s, s:o}", "workspace_id", id, "handle", process_identity_to_json(&identity)));
}

static int bare_list(const struct config *config, json_t **ret, struct error *err)
{
    _cleanup_free_ char *prefix = xasprintf("%s/workspaces/", config->state_dir);
    DIR *processes = opendir("/proc");
    if (processes == NULL)
        return error_errno(err, ERROR_INTERNAL, errno, "/proc");
    json_t *list = json_array();
    for (struct dirent *entry; (entry = readdir(processes));)
        if (isdigit((unsigned char)entry->d_name[0]))
            list_one(entry->d_name, prefix, list);
    closedir(processes);
    *ret = list;
    return 0;
}

static json_t *bare_capabilities(const struct config *config, struct sandbox *sandbox)
{
    (void)config, (void)sandbox;
    return json_pack("{s:n, s:n, s:s, s:s, s:b}", "memory", "cpu", "processes", "rlimit", "network", "host",
                     "seccomp", 0);
}

const struct driver driver_bare = {
    .name = "bare",
    .probe = bare_probe,
    .create = bare_create,
    .open_channel = bare_open_channel,
    .watch_fd = bare_watch_fd,
    .inspect = bare_inspect,
    .terminate = bare_terminate,
    .release = bare_release,
    .list = bare_list,
    .capabilities = bare_capabilities,
};
