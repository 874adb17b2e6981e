/* Starts a program as another user, in given cgroups, with given descriptors and nothing else of this
 * process. */
#ifndef DRIVER_LOCAL_SPAWN_H
#define DRIVER_LOCAL_SPAWN_H

#include "lib/base/error.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Where the caller is root: the program gets a mount namespace with each source at its target below /tmp, so
 * that it needs no right to walk the directories that lead there. */
#define SPAWN_VIEW "/tmp/"
struct spawn_view {
    const char *source, *target;
};

#define SPAWN_FDS_MAX 128
struct spawn {
    const char *program; /* absolute */
    char *const *argv;
    uid_t uid; /* 0 = as the caller */
    const struct spawn_view *views;
    size_t n_views; /* 0 = no mount namespace */
    const int *fds; /* fds[i] becomes descriptor i; the rest is closed */
    int n_fds;
    const int *join_fds; /* files `tasks` of cgroup v1 directories */
    size_t n_join;
    int cgroup_fd;         /* cgroup v2 directory, or -1 */
    const cpu_set_t *cpus; /* NULL = all */
};

/* The program dies with the calling thread. What goes wrong in the child is told on its descriptor 2, status
 * 127. */
int spawn_run(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd, struct error *err);
/* May this process make mount namespaces and become another user? */
bool spawn_is_privileged(void);

#endif
