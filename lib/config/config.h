/* The settings: one table (config.c) with name, type, default, bounds, help. A file of KEY=VALUE lines, then
 * the environment, which wins. `describe config` prints the commented sample from the table. Names start with
 * WORKSPACE_; old names are aliases and leave a log line. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "lib/base/buffer.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config {
    char *state_dir; /* absolute; sub-paths: see config_path */
    char *token;     /* the owner's bearer token; "" = none */
    char *base_url, *mount, *driver, *user;
    char *allowed_secrets, *allowed_volumes, *secrets_dir, *default_image_name;
    char *network;  /* "host" (default) or "none" */
    char *pass_env; /* names of variables, see config_passed_variables */
    char *agent;    /* path of workspace-agent; "" = beside this program, then in libexec */
    char *audit;    /* "all" (default), "changes" or "off" */
    char *mcp_toolsets, *log_level, *log_file, *rtk, *github_url, *github_api_url;
    int64_t uid_base, uid_count;
    int64_t max_output_chars, max_file_chars, max_list_entries;
    int64_t event_log_bytes, event_log_ttl, keep;
    int64_t event_map_bytes; /* first size of an events environment's map */
    int64_t max_workspaces, max_parked, max_parked_per_principal;
    int64_t command_timeout, max_search_results, max_read_size_bytes, max_write_size_bytes;
    int64_t processes;           /* processes in a workspace: 256 */
    int64_t shared_packages_mib; /* 0 = workspaces share none */
    int64_t shared_packages_seconds;
    int64_t workers; /* 2 */
    int64_t audit_bytes, audit_files;
};

/* file: NULL = none. Returns NULL on error; err->detail then has every problem: {"loc": ["FILE:LINE"],
 * "msg"}. overrides: "NAME=VALUE" strings that beat the environment (from argv), NULL-ended, may be NULL. */
struct config *config_load(const char *file, const char *const *overrides, struct error *err);
void config_free(struct config *config);
/* The path under which clients see the gateway: WORKSPACE_MOUNT, else the path of WORKSPACE_BASE_URL; "" =
 * the root. */
const char *config_prefix(const struct config *config);
/* What WORKSPACE_PASS_ENV names and this process's environment has: {"NAME": value}. A new reference. */
json_t *config_passed_variables(const struct config *config);
/* Log lines for what is set and has no effect with this driver, or none yet. */
void config_log_unused(const struct config *config);
/* <state_dir>/name or <state_dir>/name/leaf; caller frees. The names: "state", "events", "workspaces", "run",
 * "trash", "audit", "fcgi.sock", "run/warden.sock", "run/warden.lock", "run/<ws>.sock", "run/<ws>.lock". */
char *config_path(const struct config *config, const char *name, const char *leaf);
/* The sample file, from the table. */
void config_describe(struct buffer *out);
/* Settings as NAME=VALUE strings, NULL-ended, for the environment of keepers, chores and wardens: what
 * differs from the defaults, but no secret: none of them answers clients. Caller frees with
 * config_free_environment. */
char **config_environment(const struct config *config);
void config_free_environment(char **environment);
/* Whether a variable of the environment ("NAME=VALUE") sets a secret, also under an old name. */
bool config_is_secret(const char *variable);
/* The sets of tools that WORKSPACE_MCP_TOOLSETS may name; bit i of *ret stands for the i-th. Commas or spaces
 * are between them. -1: there is no such set. */
enum { CONFIG_TOOLSETS = 6 };
extern const char *const config_toolsets[CONFIG_TOOLSETS];
int config_parse_toolsets(const char *text, unsigned *ret);
/* Whether the named setting may have this value; a message begins with shown. */
int config_check(const char *setting, const char *value, const char *shown, struct error *err);

/* Whom the workers, the web server and operators' commands become when started as root: the owner of the
 * state directory; WORKSPACE_USER where there is none yet or it is root's. */
struct owner {
    uid_t uid;
    gid_t gid;
    char *name; /* NULL where the number has none */
};
#define _cleanup_owner_ __attribute__((cleanup(owner_clear)))
void owner_clear(struct owner *owner);
int config_find_owner(const struct config *config, struct owner *ret, struct error *err);
int owner_become(const struct owner *owner, struct error *err);
/* Makes this process that owner where it is root; else nothing. */
int config_become_owner(const struct config *config, struct error *err);

#endif
