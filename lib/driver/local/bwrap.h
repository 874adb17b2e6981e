/* One bubblewrap with an agent in it. */
#ifndef DRIVER_LOCAL_BWRAP_H
#define DRIVER_LOCAL_BWRAP_H

#include "lib/driver/driver.h"
#include "lib/driver/local/cgroup.h"
#include "lib/driver/local/vector.h"

struct bwrap {
    pid_t pid;
    int pidfd;
    int status_fd;  /* bubblewrap's JSON lines */
    int output_fd;  /* what it and the agent say on stdout and stderr, non-blocking */
    int channel_fd; /* our end */
};

/* Names on bubblewrap's command line by which its process is found again: --setenv NAME VALUE, cleared before
 * anything runs inside. */
#define BWRAP_MARK_WORKSPACE "WORKSPACE_SANDBOX"
#define BWRAP_MARK_STATE_DIR "WORKSPACE_STATE_DIR"

/* Paths for programs: NULL with a cure. */
char *bwrap_find_program(struct error *err);
char *bwrap_find_agent(const struct config *config, struct error *err);

/* Namespaces, user and a bare environment: what every sandbox has. */
void bwrap_describe_isolation(bool block_network, const char *hostname, struct vector *v);
int bwrap_start(const struct config *config, const struct sandbox_spec *spec, const struct cgroup *cgroup,
                struct bwrap *ret, struct error *err);
/* Waits for the line that tells the sandbox's PID 1. -1: it ended or deadline_ms (boottime) passed. */
int bwrap_read_child(struct bwrap *b, int64_t deadline_ms, pid_t *ret, struct error *err);
/* What was said so far, first line, for the log; caller frees; never NULL. */
char *bwrap_output(struct bwrap *b);
void bwrap_clear(struct bwrap *b);
/* What the sizes of /tmp and /dev/shm are for this spec, in MiB. */
void bwrap_sizes(const struct sandbox_spec *spec, int64_t *ret_tmp, int64_t *ret_shm);

#endif
