/* The local driver: bubblewrap on this machine. Owns the life of one sandbox: handle, ends, status; the parts
 * (arguments, cgroups, watching, finding) are beside it. Knows nothing of stores, requests and frames. */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/driver/driver.h"
#include "lib/driver/local/bounds.h"
#include "lib/driver/local/bwrap.h"
#include "lib/driver/local/cgroup.h"
#include "lib/driver/local/find.h"
#include "lib/driver/local/guard.h"
#include "lib/driver/local/packages.h"
#include "lib/driver/local/probe.h"
#include "lib/driver/local/tools.h"
#include "lib/driver/local/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define START_TIMEOUT_MS 10000
#define END_TIMEOUT_MS   10000
#define OOM_SCORE        -900 /* of PID 1 and what starts commands */

struct sandbox {
    struct bwrap bwrap;
    struct cgroup cgroup;
    struct watch watch;
    struct guard *guard; /* NULL = enforce samples */
    int child_pidfd;
    bool reaped;
    int wait_status;
};

/* ---- start ---- */

static int local_probe(const struct config *config, struct error *err)
{
    _cleanup_free_ char *program = bwrap_find_program(err);
    _cleanup_free_ char *agent = program ? bwrap_find_agent(config, err) : NULL;
    return agent ? probe_namespaces(err) : -1;
}

static void local_release(struct sandbox *sandbox)
{
    if (!sandbox)
        return;
    guard_stop(sandbox->guard);
    bwrap_clear(&sandbox->bwrap);
    cgroup_clear(&sandbox->cgroup);
    memory_close_fd(&sandbox->child_pidfd);
    free(sandbox);
}

static void make_cgroup(const struct config *config, const struct sandbox_spec *spec, struct cgroup *ret)
{
    char prefix[CGROUP_PREFIX_SIZE];
    cgroup_prefix(config->state_dir, prefix);
    _cleanup_free_ char *name = xasprintf("%s%s", prefix, spec->workspace_id);
    struct cgroup_limits limits = { spec->memory_limit_mib << 20, spec->cpu, spec->cpu_limit,
                                    spec->processes };
    cgroup_create(ret, name, &limits);
}

static void reap(struct sandbox *sandbox)
{
    siginfo_t info = { 0 };
    if (sandbox->reaped || sandbox->bwrap.pidfd < 0)
        return;
    if (waitid(P_PIDFD, (id_t)sandbox->bwrap.pidfd, &info, WEXITED | WNOHANG) || info.si_pid == 0)
        return;
    sandbox->reaped = true;
    sandbox->wait_status = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

/* What bubblewrap said goes to the log; a client hears the short form. */
static int tell_failure(struct sandbox *sandbox, struct error *err)
{
    _cleanup_free_ char *line = bwrap_output(&sandbox->bwrap);
    log_error("the sandbox did not start: %s", *line ? line : "no message");
    return error_set(
        err, ERROR_DRIVER,
        "the sandbox did not start; the gateway's log has the reason, `workspace-fcgi doctor` the cure");
}

static void abandon(struct sandbox *sandbox)
{
    json_auto_t *directories = cgroup_to_json(&sandbox->cgroup);
    if (sandbox->bwrap.pidfd >= 0) {
        process_pidfd_signal(sandbox->bwrap.pidfd, SIGKILL);
        process_pidfd_wait(sandbox->bwrap.pidfd, END_TIMEOUT_MS);
        reap(sandbox);
    }
    cgroup_remove(directories, 1000, NULL);
    local_release(sandbox);
}

static json_t *make_handle(struct sandbox *sandbox, pid_t child, struct error *err)
{
    struct process_identity outer, inner;
    if (process_identify(sandbox->bwrap.pid, &outer, err) || process_identify(child, &inner, err))
        return NULL;
    sandbox->child_pidfd = process_open(&inner);
    /* What all commands depend on goes last; for who is not root the difference is that commands go first. */
    process_set_oom_score(sandbox->bwrap.pid, OOM_SCORE);
    process_set_oom_score(child, OOM_SCORE);
    json_t *handle = process_identity_to_json(&outer);
    json_object_set_new(handle, "child", process_identity_to_json(&inner));
    json_object_set_new(handle, "cgroup", cgroup_to_json(&sandbox->cgroup));
    return handle;
}

static int local_create(const struct config *config, const struct sandbox_spec *spec, struct sandbox **ret,
                        json_t **ret_handle, struct error *err)
{
    pid_t child = 0;
    json_t *handle = NULL;
    struct sandbox *sandbox = xcalloc(1, sizeof(*sandbox));
    int64_t deadline = clock_boottime_ms() + START_TIMEOUT_MS;
    _cleanup_error_ struct error failure = ERROR_INIT;
    sandbox->child_pidfd = -1;
    make_cgroup(config, spec, &sandbox->cgroup);
    if (bwrap_start(config, spec, &sandbox->cgroup, &sandbox->bwrap, err)) {
        abandon(sandbox);
        return -1;
    }
    cgroup_close_join(&sandbox->cgroup);
    if (bwrap_read_child(&sandbox->bwrap, deadline, &child, &failure) ||
        !(handle = make_handle(sandbox, child, &failure))) {
        if (failure.code == ERROR_TIMEOUT)
            error_move(err, &failure);
        else
            tell_failure(sandbox, err);
        abandon(sandbox);
        return -1;
    }
    sandbox->watch.root = child;
    sandbox->watch.limit = spec->memory_limit_mib << 20;
    sandbox->guard = guard_start(&sandbox->cgroup, &sandbox->watch);
    *ret = sandbox;
    *ret_handle = handle;
    return 0;
}

/* A sandbox without them works: it can harm its neighbours more. */
static void set_bounds(struct sandbox *sandbox)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (bounds_set(sandbox->watch.root, geteuid() != 0, &err))
        log_warning("the sandbox's share of terminals and file watches has no bound: %s", err.message);
}

/* bubblewrap told the child before it built the root: the agent's first bytes show that all went well. */
static int local_open_channel(struct sandbox *sandbox, struct error *err)
{
    char byte;
    struct pollfd wait = { .fd = sandbox->bwrap.channel_fd, .events = POLLIN };
    if (wait.fd < 0)
        return error_set(err, ERROR_CONFLICT, "the sandbox's channel was opened before");
    if (poll(&wait, 1, START_TIMEOUT_MS) <= 0)
        return error_set(err, ERROR_TIMEOUT, "the sandbox's agent did not answer in time");
    if (recv(wait.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
        return tell_failure(sandbox, err);
    set_bounds(sandbox);
    return STEAL_FD(sandbox->bwrap.channel_fd);
}

static int local_watch_fd(struct sandbox *sandbox)
{
    return sandbox->bwrap.pidfd;
}

/* ---- by handle, from any process ---- */

/* -1 = gone. */
static int open_process(const json_t *json)
{
    struct process_identity identity;
    return process_identity_from_json(json, &identity) ? -1 : process_open(&identity);
}

static bool is_running(int pidfd)
{
    return pidfd >= 0 && process_pidfd_wait(pidfd, 0) == 0;
}

static int local_inspect(const struct config *config, struct sandbox *sandbox, const json_t *handle,
                         struct sandbox_status *ret, struct error *err)
{
    (void)config, (void)err;
    _cleanup_close_ int outer = sandbox ? -1 : open_process(handle),
                        inner = sandbox ? -1 : open_process(json_object_get(handle, "child"));
    *ret = (struct sandbox_status){ 0 };
    if (!sandbox) {
        ret->running = is_running(outer) || is_running(inner);
        return 0;
    }
    reap(sandbox);
    ret->running = !sandbox->reaped && is_running(sandbox->bwrap.pidfd);
    ret->has_returncode = sandbox->reaped;
    ret->returncode = sandbox->wait_status > 128 ? 128 - sandbox->wait_status : sandbox->wait_status;
    ret->oom_killed = sandbox->watch.kills > 0 || cgroup_oom_kills(&sandbox->cgroup) > 0;
    return 0;
}

/* The kernel ends a PID namespace with its PID 1 and lets that one go last, so its end is the end of all. */
static int local_terminate(const struct config *config, struct sandbox *sandbox, const json_t *handle,
                           struct error *err)
{
    (void)config;
    int64_t deadline = clock_boottime_ms() + END_TIMEOUT_MS;
    _cleanup_close_ int outer = open_process(handle), inner = open_process(json_object_get(handle, "child"));
    if (inner >= 0)
        process_pidfd_signal(inner, SIGKILL);
    if (inner >= 0 && process_pidfd_wait(inner, END_TIMEOUT_MS) != 1)
        return error_set(err, ERROR_TIMEOUT, "the sandbox did not end in time");
    if (outer >= 0 && process_pidfd_wait(outer, inner >= 0 ? 500 : 0) != 1)
        process_pidfd_signal(outer, SIGKILL);
    if (outer >= 0 && process_pidfd_wait(outer, (int)(deadline - clock_boottime_ms())) != 1)
        return error_set(err, ERROR_TIMEOUT, "the sandbox did not end in time");
    if (sandbox)
        reap(sandbox);
    return cgroup_remove(json_object_get(handle, "cgroup"), (int)(deadline - clock_boottime_ms()), err);
}

/* ---- all of them ---- */

struct listing {
    json_t *list;
    const char *prefix;
};

static void list_one(void *user, const char *workspace_id, pid_t pid, pid_t child)
{
    struct listing *listing = user;
    struct process_identity identity;
    if (process_identify(pid, &identity, NULL))
        return;
    json_t *handle = process_identity_to_json(&identity);
    if (child > 0 && !process_identify(child, &identity, NULL))
        json_object_set_new(handle, "child", process_identity_to_json(&identity));
    _cleanup_free_ char *name = xasprintf("%s%s", listing->prefix, workspace_id);
    json_object_set_new(handle, "cgroup", cgroup_find(name));
    json_array_append_new(listing->list,
                          json_pack("{s:s, s:o}", "workspace_id", workspace_id, "handle", handle));
}

static int local_list(const struct config *config, json_t **ret, struct error *err)
{
    char prefix[CGROUP_PREFIX_SIZE];
    cgroup_prefix(config->state_dir, prefix);
    json_auto_t *list = json_array();
    struct listing listing = { list, prefix };
    if (find_sandboxes(config->state_dir, list_one, &listing, err))
        return -1;
    cgroup_sweep();
    *ret = STEAL(list);
    return 0;
}

/* ---- limits ---- */

static int local_enforce(struct sandbox *sandbox, bool *ret_killed, struct error *err)
{
    (void)err;
    *ret_killed = false;
    if (sandbox->guard || sandbox->watch.limit <= 0 || !is_running(sandbox->child_pidfd))
        return 0;
    return watch_sample(&sandbox->watch, ret_killed);
}

static int64_t local_oom_kills(struct sandbox *sandbox)
{
    return sandbox->watch.kills + cgroup_oom_kills(&sandbox->cgroup);
}

static json_t *local_capabilities(const struct config *config, struct sandbox *sandbox)
{
    static const char *const means[CGROUP_CONTROLLERS][3] = {
        [CGROUP_MEMORY] = { "watched", "cgroup-v1", "cgroup-v2" },
        [CGROUP_CPU] = { "affinity", "cgroup-v1", "cgroup-v2" },
        [CGROUP_PIDS] = { "rlimit", "cgroup-v1", "cgroup-v2" },
    };
    int version[CGROUP_CONTROLLERS];
    bool is_blocked = config->network && !strcmp(config->network, "none");
    if (!sandbox)
        cgroup_detect(version);
    for (int i = 0; sandbox && i < CGROUP_CONTROLLERS; i++)
        version[i] = sandbox->cgroup.version[i];
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:o}", "memory",
                     means[CGROUP_MEMORY][version[CGROUP_MEMORY]], "cpu",
                     means[CGROUP_CPU][version[CGROUP_CPU]], "processes",
                     means[CGROUP_PIDS][version[CGROUP_PIDS]], "network", is_blocked ? "none" : "host",
                     "block_network", "namespace", "seccomp", 1, "own_uid", geteuid() == 0, "gpu", 0,
                     "missing_tools", tools_missing(config));
}

const struct driver driver_local = {
    .name = "local",
    .probe = local_probe,
    .create = local_create,
    .open_channel = local_open_channel,
    .watch_fd = local_watch_fd,
    .inspect = local_inspect,
    .terminate = local_terminate,
    .release = local_release,
    .list = local_list,
    .enforce = local_enforce,
    .oom_kills = local_oom_kills,
    .capabilities = local_capabilities,
    .share_packages = packages_bring,
};
