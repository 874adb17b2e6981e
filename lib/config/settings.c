/* Owns the rows of the settings and the sample file that is printed from them. */
#include "lib/config/settings.h"

#include "lib/config/config.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- sets of tools ---- */
const char *const config_toolsets[CONFIG_TOOLSETS] = { "workspace", "repo",    "file",
                                                       "watch",     "sandbox", "function" };

int config_parse_toolsets(const char *text, unsigned *ret)
{
    *ret = 0;
    for (text += strspn(text, ", "); *text; text += strspn(text, ", ")) {
        size_t length = strcspn(text, ", "), i = 0;
        while (i < CONFIG_TOOLSETS &&
               (strlen(config_toolsets[i]) != length || memcmp(config_toolsets[i], text, length) != 0))
            i++;
        if (i == CONFIG_TOOLSETS)
            return -1;
        *ret |= 1u << i;
        text += length;
    }
    return 0;
}

/* ---- rules ---- */
static const char *rule_token(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return "must be printable ASCII without spaces";
    return *text && strlen(text) < 16 ? "must have at least 16 characters" : NULL;
}

static const char *rule_base_url(const char *text)
{
    const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
                       : strncmp(text, "https://", 8) == 0 ? text + 8
                                                           : "";
    if (*text && (strspn(host, "/:@") > 0 || !*host || strpbrk(text, " ?#\"<>\\")))
        return "must be an http or https URL with a host and without query";
    return NULL;
}

static const char *rule_mount(const char *text)
{
    if (*text && (*text != '/' || strpbrk(text, " ?#%\"<>\\") || strstr(text, "//") || strstr(text, "/..")))
        return "must be empty or a path such as /workspace";
    return NULL;
}

static const char *rule_path(const char *text)
{
    return *text && *text != '/' ? "must be an absolute path" : NULL;
}

static const char *rule_present(const char *text)
{
    return *text ? NULL : "must not be empty";
}

static const char *rule_word(const char *text)
{
    if (!*text)
        return "must not be empty";
    for (const char *p = text; *p; p++)
        if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p))
            return "must be a word of small letters";
    return NULL;
}

static const char *rule_network(const char *text)
{
    return strcmp(text, "host") == 0 || strcmp(text, "none") == 0 ? NULL : "must be host or none";
}

/* Names with commas between; none of ours, whose values may be secrets. */
static const char *rule_variables(const char *text)
{
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length > 200 || isdigit((unsigned char)*at))
            return "must be names of variables with commas between";
        for (size_t i = 0; i < length; i++)
            if (!isalnum((unsigned char)at[i]) && at[i] != '_')
                return "must be names of variables with commas between";
        if (strncmp(at, "WORKSPACE_", 10) == 0)
            return "must not name the gateway's own settings";
        at += length + (at[length] == ',');
    }
    return NULL;
}

static const char *rule_toolsets(const char *text)
{
    unsigned sets;
    return config_parse_toolsets(text, &sets) == 0
               ? NULL
               : "must be of workspace, repo, file, watch, sandbox and function, with commas between";
}

static const char *rule_log_level(const char *text)
{
    static const char *const levels[] = { "DEBUG", "INFO", "WARNING", "ERROR" };
    for (size_t i = 0; i < N_ELEMENTS(levels); i++)
        if (strcasecmp(text, levels[i]) == 0)
            return NULL;
    return "must be DEBUG, INFO, WARNING or ERROR";
}

static const char *rule_audit(const char *text)
{
    static const char *const levels[] = { "all", "changes", "off" };
    for (size_t i = 0; i < N_ELEMENTS(levels); i++)
        if (strcmp(text, levels[i]) == 0)
            return NULL;
    return "must be all, changes or off";
}

static const char *rule_on_off(const char *text)
{
    static const char *const words[] = { "on", "off" };
    for (size_t i = 0; i < N_ELEMENTS(words); i++)
        if (strcmp(text, words[i]) == 0)
            return NULL;
    return "must be on or off";
}

/* ---- the table ---- */
#define TEXT(NAME, member, DEFAULT, RULE, ...)                                                               \
    {                                                                                                        \
        "WORKSPACE_" NAME, SETTING_TEXT, offsetof(struct config, member), DEFAULT, .rule = RULE, __VA_ARGS__ \
    }
#define NUMBER(NAME, member, DEFAULT, MIN, MAX, ...)                                                         \
    {                                                                                                        \
        "WORKSPACE_" NAME, SETTING_INTEGER, offsetof(struct config, member), #DEFAULT, MIN, MAX, __VA_ARGS__ \
    }
#define OLD(...)    .aliases = { __VA_ARGS__ }
#define HELP(text_) .help = text_
#define NOT_LOCAL   .not_local = true
#define NOT_YET     .not_yet = true

/* clang-format off */
const struct setting settings[] = {
    TEXT("STATE_DIR", state_dir, "/var/lib/workspace-fcgi", rule_present,
         HELP("Where everything that lasts lies: records, logs, the workspaces' files, sockets. A relative path begins where the program is started.")),
    TEXT("TOKEN", token, "", rule_token, .secret = true, OLD("MODAL_WORKSPACE_MCP_TOKEN"),
         HELP("The owner's bearer token, 16 characters or more. Empty: only tokens made by `workspace-fcgi token add` count; without any the gateway answers 503.")),
    TEXT("BASE_URL", base_url, "", rule_base_url,
         HELP("The public URL with the mount path. Absolute URLs come from it; from the Host header only where it is empty and the address is loopback.")),
    TEXT("MOUNT", mount, "", rule_mount,
         HELP("The path prefix under which the web server mounts the gateway, such as /workspace. Empty: the root.")),
    TEXT("DRIVER", driver, "local", rule_word,
         HELP("What makes the sandboxes.")),
    TEXT("USER", user, "www-data", rule_present,
         HELP("Whom the workers and operators' commands become when started as root and the state directory is new, or root's and empty; otherwise they become its owner.")),
    NUMBER("UID_BASE", uid_base, 200000, 1000, 4294900000,
         HELP("Started as root: the first of the user ids that workspaces get, one each.")),
    NUMBER("UID_COUNT", uid_count, 65536, 0, 1000000000,
         HELP("How many user ids there are for workspaces. 0: all run as WORKSPACE_USER.")),
    TEXT("ALLOWED_SECRETS", allowed_secrets, "", NULL, NOT_LOCAL, OLD("MODAL_WORKSPACE_ALLOWED_SECRETS"),
         HELP("Names of secrets that workspaces may ask for, with commas between. Empty: none.")),
    TEXT("ALLOWED_VOLUMES", allowed_volumes, "", NULL, NOT_LOCAL, OLD("MODAL_WORKSPACE_ALLOWED_VOLUMES"),
         HELP("Names of volumes that workspaces may mount, with commas between. Empty: none.")),
    TEXT("SECRETS_DIR", secrets_dir, "", rule_path, NOT_LOCAL,
         HELP("Where secrets lie, a file each. Empty: `secrets` in the state directory.")),
    TEXT("DEFAULT_IMAGE_NAME", default_image_name, "", NULL, NOT_LOCAL, OLD("MODAL_WORKSPACE_DEFAULT_IMAGE_NAME"),
         HELP("The image of a workspace that names none. Empty: the host's own programs.")),
    TEXT("NETWORK", network, "host", rule_network,
         HELP("The network of a workspace that does not block it: host or none.")),
    TEXT("PASS_ENV", pass_env, "", rule_variables,
         HELP("Variables of the gateway's own environment that commands in workspaces get too: names with commas between, such as UV_DEFAULT_INDEX,PIP_INDEX_URL,HTTPS_PROXY,SSL_CERT_FILE. Whoever may run a command can read them, passwords in URLs included. Empty: none.")),
    TEXT("AGENT", agent, "", rule_path,
         HELP("The program workspace-agent. Empty: beside this program, then in libexec.")),
    TEXT("MCP_TOOLSETS", mcp_toolsets, "workspace,repo,file,watch,sandbox", rule_toolsets,
         HELP("Sets of tools that /mcp lists, with commas between: workspace, file, watch. The sets repo, sandbox and function have no tools yet. A tool that is not listed may still be called.")),
    TEXT("LOG_LEVEL", log_level, "INFO", rule_log_level, OLD("LOG_LEVEL"),
         HELP("DEBUG, INFO, WARNING or ERROR.")),
    TEXT("LOG_FILE", log_file, "", rule_path,
         HELP("Where log lines go. Empty: to stderr.")),
    TEXT("AUDIT", audit, "all", rule_audit,
         HELP("What `audit/audit.log` in the state directory gets a line of: all calls and changes of state, changes (calls that only read are left out), or off.")),
    NUMBER("AUDIT_BYTES", audit_bytes, 5242880, 65536, 1099511627776,
         HELP("An audit.log that would grow beyond is set aside as audit.log.1, and so on.")),
    NUMBER("AUDIT_FILES", audit_files, 2, 1, 100,
         HELP("How many audit logs that were set aside are kept.")),
    TEXT("RTK", rtk, "off", rule_on_off,
         HELP("on: where a sandbox has the program rtk, run_bash lets it rewrite commands (rtk rewrite).")),
    TEXT("GITHUB_URL", github_url, "https://github.com", rule_base_url, NOT_YET,
         HELP("Where GitHub repositories are cloned from.")),
    TEXT("GITHUB_API_URL", github_api_url, "https://api.github.com", rule_base_url, NOT_YET,
         HELP("GitHub's REST API, for pull requests.")),
    NUMBER("MAX_OUTPUT_CHARS", max_output_chars, 120000, 1000, 8388608, OLD("MODAL_WORKSPACE_MAX_OUTPUT_CHARS"),
         HELP("The longest output of a synchronous command, in characters for each stream.")),
    NUMBER("MAX_FILE_CHARS", max_file_chars, 500000, 1000, 67108864, NOT_YET, OLD("MODAL_WORKSPACE_MAX_FILE_CHARS"),
         HELP("The longest file that operations on raw sandboxes read or write, in characters.")),
    NUMBER("MAX_LIST_ENTRIES", max_list_entries, 500, 1, 100000, OLD("MODAL_WORKSPACE_MAX_LIST_ENTRIES"),
         HELP("The most entries in a page of a list of a directory, whatever `limit` asks for.")),
    NUMBER("EVENT_LOG_BYTES", event_log_bytes, 67108864, 65536, 1099511627776,
         HELP("Output kept of each command, in bytes; the oldest goes first and is counted.")),
    NUMBER("EVENT_LOG_TTL", event_log_ttl, 86400, 1, 315360000,
         HELP("How long the log of an ended command is kept, in seconds.")),
    NUMBER("KEEP", keep, 2592000, 0, 3153600000,
         HELP("A workspace unused for that many seconds is removed with its files. 0: never.")),
    NUMBER("EVENT_MAP_BYTES", event_map_bytes, 268435456, 65536, 1099511627776,
         HELP("First size of the address range of a workspace's log store; doubled when full. It takes no disk space.")),
    NUMBER("MAX_WORKSPACES", max_workspaces, 1000, 1, 1000000,
         HELP("The most workspaces that there may be.")),
    NUMBER("MAX_PARKED", max_parked, 20000, 1, 1000000,
         HELP("The most requests that may wait at a time, in each worker.")),
    NUMBER("MAX_PARKED_PER_PRINCIPAL", max_parked_per_principal, 10000, 1, 1000000,
         HELP("The same for each principal.")),
    NUMBER("COMMAND_TIMEOUT", command_timeout, 60, 1, 86400, OLD("COMMAND_TIMEOUT"),
         HELP("Timeout of run_bash where a call gives none, in seconds.")),
    NUMBER("MAX_SEARCH_RESULTS", max_search_results, 50, 1, 100000, OLD("MAX_SEARCH_RESULTS"),
         HELP("The files or matches in a page of a search that names no `limit`.")),
    NUMBER("MAX_READ_SIZE_BYTES", max_read_size_bytes, 1048576, 1, 1073741824, OLD("MAX_READ_SIZE_BYTES"),
         HELP("The largest image that read_file shows, and the largest text that it reads with a limit of 0, which means to the end. By lines it reads files of any size.")),
    NUMBER("MAX_WRITE_SIZE_BYTES", max_write_size_bytes, 5242880, 1, 1073741824, OLD("MAX_WRITE_SIZE_BYTES"),
         HELP("The largest content that write_file takes.")),
    NUMBER("PROCESSES", processes, 256, 8, 1000000,
         HELP("The most processes in a workspace.")),
    NUMBER("SHARED_PACKAGES_MIB", shared_packages_mib, 2048, 0, 1048576,
         HELP("Room for the Python packages that workspaces share, in MiB; what comes when it is full is not shared. 0: nothing is.")),
    NUMBER("SHARED_PACKAGES_SECONDS", shared_packages_seconds, 120, 1, 3600,
         HELP("How long the gateway takes to bring one of these packages at most; what takes longer is not shared.")),
    NUMBER("WORKERS", workers, 2, 1, 64,
         HELP("How many worker processes serve requests.")),
};
/* clang-format on */
const size_t setting_count = N_ELEMENTS(settings);

/* A member without a row would never be set: every member is one pointer or one 64-bit number. */
_Static_assert(N_ELEMENTS(settings) * sizeof(int64_t) == sizeof(struct config),
               "every member of struct config has a row");

static bool is_alias_of(const struct setting *row, const char *name)
{
    for (size_t i = 0; i < N_ELEMENTS(row->aliases) && row->aliases[i]; i++)
        if (strcmp(row->aliases[i], name) == 0)
            return true;
    return false;
}

const struct setting *setting_find(const char *name, bool *ret_is_alias)
{
    for (const struct setting *row = settings; row < settings + setting_count; row++) {
        *ret_is_alias = strcmp(row->name, name) != 0;
        if (!*ret_is_alias || is_alias_of(row, name))
            return row;
    }
    return NULL;
}

/* ---- the sample ---- */
void config_describe(struct buffer *out)
{
    buffer_append_text(
        out, "# Settings of workspace-fcgi: NAME=VALUE lines; the environment wins over this file.\n"
             "# White space and a # end a value, and a comment follows; in quotes they are part of it.\n"
             "# Every line below shows a default. Printed by `workspace-fcgi describe config`.\n");
    for (const struct setting *row = settings; row < settings + setting_count; row++) {
        buffer_append_char(out, '\n');
        buffer_append_wrapped(out, "# ", "# ", row->help, 98);
        if (row->not_local)
            buffer_append_text(out, "# No effect with the local driver.\n");
        if (row->not_yet)
            buffer_append_text(out, "# No effect yet.\n");
        if (row->type == SETTING_INTEGER)
            buffer_printf(out, "# From %lld to %lld.\n", (long long)row->min, (long long)row->max);
        for (size_t i = 0; i < N_ELEMENTS(row->aliases) && row->aliases[i]; i++)
            buffer_printf(out, "# Old name: %s\n", row->aliases[i]);
        buffer_printf(out, "#%s=%s\n", row->name, row->dflt);
    }
}
