/* What a place that runs sandboxes must and may do. A driver knows its settings and its handle, never the
 * store, never a request. NULL = unsupported: ERROR_UNSUPPORTED, shown in capabilities. All may block (a
 * keeper calls them). Handles are JSON, kept by the caller in the workspace's record, so that a later process
 * can inspect and terminate. */
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include "lib/base/error.h"
#include "lib/config/config.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sandbox_spec {
    const char *workspace_id, *hostname;
    int files_fd, home_fd; /* directories that are /workspace and /home/workspace inside; borrowed */
    uid_t uid;             /* kernel uid and gid of the sandbox where the driver is root; 0 = as the caller */
    double cpu, cpu_limit; /* CPUs; cpu_limit 0 = none */
    int64_t memory_mib, memory_limit_mib; /* limit 0 = none */
    int64_t processes;
    bool block_network;
    const json_t *spec; /* the whole create request, for drivers that have more (gpu, image, region) */
};

struct sandbox_status {
    bool running;
    bool has_returncode;
    int returncode;
    bool oom_killed;
};

struct sandbox; /* the driver's, while this process has it open */

struct driver {
    const char *name;
    /* must. Cheap check that it can work here; messages name the cure. */
    int (*probe)(const struct config *config, struct error *err);
    /* must. Starts a sandbox with an agent in it; *ret_handle is a new reference to be recorded at once. */
    int (*create)(const struct config *config, const struct sandbox_spec *spec, struct sandbox **ret,
                  json_t **ret_handle, struct error *err);
    /* must. A byte stream to the agent (non-blocking fd, the caller's). Once for each create. */
    int (*open_channel)(struct sandbox *sandbox, struct error *err);
    /* must. A descriptor that polls readable when the sandbox has ended (pidfd or pipe), borrowed; -1 = ask
     * inspect. */
    int (*watch_fd)(struct sandbox *sandbox);
    /* must. Gone is a status, not an error. sandbox may be NULL: by handle alone, from any process. */
    int (*inspect)(const struct config *config, struct sandbox *sandbox, const json_t *handle,
                   struct sandbox_status *ret, struct error *err);
    /* must. Ends every process and waits until they are really gone (deadline 10 s: ERROR_TIMEOUT). Of a gone
     * one: fine. sandbox may be NULL. */
    int (*terminate)(const struct config *config, struct sandbox *sandbox, const json_t *handle,
                     struct error *err);
    /* must. Frees what create gave; does not end the sandbox. */
    void (*release)(struct sandbox *sandbox);
    /* must. Handles of all its sandboxes for this state directory: [{"workspace_id", "handle"}], for orphan
     * clean-up. */
    int (*list)(const struct config *config, json_t **ret, struct error *err);
    /* may. */
    int (*set_tags)(const struct config *config, const json_t *handle, const json_t *tags, struct error *err);
    /* may. Called by the keeper every interval_ms that it returned last (first call at once) while execs run:
     * enforces by watching what the host cannot enforce itself (summed PSS). Returns the next interval in ms,
     * 0 = never again; *ret_killed: it had to end processes. */
    int (*enforce)(struct sandbox *sandbox, bool *ret_killed, struct error *err);
    /* may. Processes killed by the memory limit so far (cgroup's oom_kill + enforce's own). */
    int64_t (*oom_kills)(struct sandbox *sandbox);
    /* must. By which means each limit holds here: {"memory": "cgroup-v1" | "cgroup-v2" | "watched", "cpu":
     * ..., "processes": ..., "network": ..., "seccomp": bool, ...}. A new reference. sandbox may be NULL. */
    json_t *(*capabilities)(const struct config *config, struct sandbox *sandbox);
    /* may. Brings Python packages ("name==version") into what its sandboxes share read-only, one after the
     * other, for some seconds and one package's time at most: *ret_tried, on failure too, the first so many.
     * ERROR_UNSUPPORTED where they share none. */
    int (*share_packages)(const struct config *config, const char *const *packages, size_t count,
                          size_t *ret_tried, struct error *err);
    /* may: later. */
    int (*snapshot)(struct sandbox *sandbox, const json_t *request, json_t **ret, struct error *err);
};

extern const struct driver driver_local;
const struct driver *driver_find(const char *name); /* NULL where unknown */
extern const char *const driver_names[];            /* NULL-ended */

#endif
