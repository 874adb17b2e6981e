/* What a sandbox sees of the host: the written list, and what is made for it. */
#ifndef DRIVER_LOCAL_ROOT_H
#define DRIVER_LOCAL_ROOT_H

#include "lib/driver/local/vector.h"

#include <stdint.h>

#define SANDBOX_AGENT     "/run/workspace/agent"
#define SANDBOX_RIPGREP   "/run/workspace/rg" /* where the agent looks for it */
#define SANDBOX_WORKSPACE "/workspace"
#define SANDBOX_HOME      "/home/workspace"
#define SANDBOX_USER      "workspace"
#define SANDBOX_UID       "1000"

struct root {
    /* Paths outside. agent, ripgrep and tools may be NULL; home too: then it is a tmpfs. */
    const char *agent, *ripgrep, *files, *home, *tools;
    bool packages; /* shared ones, which lie among the tools */
    const char *hostname;
    int64_t tmp_mib, shm_mib;
};

/* Appends what builds the root, its writable places and its read-only lock. */
int root_describe(const struct root *root, struct vector *v, struct error *err);
/* The written list, for tests: the patterns below /, NULL-ended. */
const char *const *root_patterns(void);

#endif
