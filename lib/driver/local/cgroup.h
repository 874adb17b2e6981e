/* Limits by control groups: for each controller version 2 where it is delegated, else version 1, else none.
 */
#ifndef DRIVER_LOCAL_CGROUP_H
#define DRIVER_LOCAL_CGROUP_H

#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum cgroup_controller { CGROUP_MEMORY, CGROUP_CPU, CGROUP_PIDS, CGROUP_CONTROLLERS };

struct cgroup_limits {
    int64_t memory_bytes;  /* 0 = none */
    double cpu, cpu_limit; /* share; ceiling, 0 = none */
    int64_t processes;     /* 0 = none */
};

/* One sandbox's directories. */
struct cgroup {
    int version[CGROUP_CONTROLLERS];     /* 2, 1, 0 = no such limit */
    char *directory[CGROUP_CONTROLLERS]; /* NULL where version is 0 */
    int join_fds[CGROUP_CONTROLLERS];    /* version 1: `tasks`, to be written by the process that joins */
    size_t n_join;
    int fd; /* version 2: the directory, for CLONE_INTO_CGROUP; -1 */
};

/* Which version each controller would have here; nothing is made. */
void cgroup_detect(int version[static CGROUP_CONTROLLERS]);
/* Makes directories of that name and sets limits; what fails has version 0 (told in the log). */
void cgroup_create(struct cgroup *ret, const char *name, const struct cgroup_limits *limits);
void cgroup_close_join(struct cgroup *c);
void cgroup_clear(struct cgroup *c); /* frees; the directories stay */
int64_t cgroup_oom_kills(const struct cgroup *c);
/* For the handle: an array of the directories. */
json_t *cgroup_to_json(const struct cgroup *c);
/* The same for a sandbox of another process: directories of that name that exist. */
json_t *cgroup_find(const char *name);
/* Removes them, waiting up to timeout_ms for the last process to be gone. Hostile or foreign paths are not
 * touched. */
int cgroup_remove(const json_t *directories, int timeout_ms, struct error *err);
/* Removes every sandbox's directory that is empty and was seen so a minute ago: left by owners that died, of
 * whatever state directory. */
void cgroup_sweep(void);
/* workspace-fcgi-<8 hex of the state directory>- */
#define CGROUP_PREFIX_SIZE 32
void cgroup_prefix(const char *state_dir, char prefix[static CGROUP_PREFIX_SIZE]);

#endif
