/* The operator's command that says what this host can and cannot do, and the exact cure of what it cannot: a
 * table of checks. It changes nothing that lasts. What needs the rights it was started with comes first; the
 * stores come last, read as the owner of the state directory. */
#include "fcgi/commands.h"

#include "fcgi/doctor.h"
#include "lib/base/io.h"
#include "lib/base/utf8.h"
#include "lib/driver/driver.h"
#include "lib/driver/local/bwrap.h"
#include "lib/driver/local/probe.h"
#include "lib/driver/local/seccomp.h"
#include "lib/driver/local/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const char *const level_names[] = { "ok", "warn", "fail" };

void doctor_say(struct finding *f, enum level level, const char *cure, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    f->level = level;
    vsnprintf(f->text, sizeof f->text, format, list);
    va_end(list);
    snprintf(f->cure, sizeof f->cure, "%s", cure ? cure : "");
}

void doctor_say_error(struct finding *f, enum level level, struct error *err)
{
    char *cure = strstr(err->message, ": ");
    if (cure)
        *cure = '\0';
    doctor_say(f, level, cure ? cure + 2 : NULL, "%s", err->message);
    error_clear(err);
}

/* ---- programs ---- */

/* First line of what argv prints, "" where it cannot run. */
static void first_line(char *const argv[], char *line, size_t size)
{
    int pair[2];
    pid_t pid;
    extern char **environ;
    posix_spawn_file_actions_t actions;
    *line = '\0';
    if (pipe2(pair, O_CLOEXEC))
        return;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    /* To the end: a program whose reader goes away complains. */
    char rest[512];
    size_t length = 0;
    struct pollfd wait = { .fd = pair[0], .events = POLLIN };
    for (ssize_t n = 1; !failed && n > 0 && poll(&wait, 1, 5000) == 1;) {
        bool room = length < size - 1;
        n = room ? read(pair[0], line + length, size - 1 - length) : read(pair[0], rest, sizeof rest);
        length += room && n > 0 ? (size_t)n : 0;
    }
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
    close(pair[0]);
    if (!failed)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
}

/* What commands in workspaces find: one line to copy brings all that is missing. */
static void check_tools(const struct config *config, struct finding *f)
{
    _cleanup_buffer_ struct buffer there = BUFFER_INIT, missing = BUFFER_INIT, packages = BUFFER_INIT;
    for (size_t i = 0; i < tool_count; i++) {
        _cleanup_free_ char *path = tools_find(config, &tools[i]);
        if (!tools[i].package)
            continue;
        buffer_printf(path ? &there : &missing, " %s", tools[i].name);
        if (!path)
            buffer_printf(&packages, " %s", tools[i].package);
    }
    _cleanup_free_ char *cure = xasprintf("apt-get install%s", buffer_text(&packages));
    if (packages.length > 0)
        doctor_say(f, LEVEL_WARN, cure,
                   "not in /usr/bin or /usr/local/bin, where commands in workspaces find programs:%s",
                   buffer_text(&missing));
    else
        doctor_say(f, LEVEL_OK, NULL, "commands in workspaces find%s", buffer_text(&there));
}

/* The one that each sandbox gets beside its agent, for searches. */
static void check_ripgrep(const struct config *config, struct finding *f)
{
    (void)config;
    char line[128];
    _cleanup_free_ char *path = tools_find_in_usr("rg");
    if (!path) {
        doctor_say(f, LEVEL_WARN, "apt-get install ripgrep, then stop the workspaces that run",
                   "rg is not in /usr: searching in files answers 501 without it");
        return;
    }
    first_line((char *[]){ path, (char *)"--version", NULL }, line, sizeof line);
    doctor_say(f, LEVEL_OK, NULL, "%s", *line ? line : path);
}

/* One in the state directory is not run here: whoever owns that directory could have put it there, and this
 * may be root. */
static void check_uv(const struct config *config, struct finding *f)
{
    static const struct tool uv = { "uv", NULL, NULL };
    char line[128] = "";
    _cleanup_free_ char *own = tools_find_in_usr(uv.name), *path = tools_find(config, &uv);
    if (!path) {
        doctor_say(f, LEVEL_WARN,
                   "where PyPI is reached, `make run` brings it, or bring_uv.sh DIR (in share/workspace-fcgi, or conf of "
                   "the sources) and workspace-fcgi tools add DIR/uv DIR/uvx",
                   "uv is neither in /usr nor in %s/tools: Python projects need it", config->state_dir);
        return;
    }
    if (own)
        first_line((char *[]){ path, (char *)"--version", NULL }, line, sizeof line);
    doctor_say(f, LEVEL_OK, NULL, "%s", own && *line ? line : path);
}

static void check_packages(const struct config *config, struct finding *f)
{
    char id[32];
    long long count = 0, mib = 0, most = (long long)config->shared_packages_mib;
    _cleanup_buffer_ struct buffer stamp = BUFFER_INIT;
    _cleanup_free_ char *path = config_path(config, "tools", ".packages/stamp");
    bool some = io_read_file(AT_FDCWD, path, 200, &stamp, NULL) == 0 &&
                sscanf(buffer_text(&stamp), "%31s %lld %lld", id, &count, &mib) == 3;
    if (most == 0)
        doctor_say(f, LEVEL_OK, NULL, "workspaces share no Python packages");
    else if (some && mib >= most)
        doctor_say(f, LEVEL_WARN, "raise WORKSPACE_SHARED_PACKAGES_MIB, or wait: they begin anew once a day",
                   "workspaces share %lld Python packages, %lld MiB: there is no room for more", count, mib);
    else
        doctor_say(f, LEVEL_OK, NULL, "workspaces share %lld Python packages, %lld of %lld MiB", count, mib,
                   most);
}

static void check_lighttpd(const struct config *config, struct finding *f)
{
    (void)config;
    static const char *const places[] = { "/usr/sbin/lighttpd", "/usr/local/sbin/lighttpd",
                                          "/usr/bin/lighttpd", "/usr/local/bin/lighttpd" };
    const char *path = NULL;
    char line[128];
    for (size_t i = 0; i < N_ELEMENTS(places) && !path; i++)
        path = !access(places[i], X_OK) ? places[i] : NULL;
    if (!path) {
        doctor_say(f, LEVEL_WARN, "apt-get install lighttpd",
                   "lighttpd is not installed: `make run` needs it, another web server does as well");
        return;
    }
    first_line((char *[]){ (char *)path, (char *)"-v", NULL }, line, sizeof line);
    doctor_say(f, LEVEL_OK, NULL, "%s", *line ? line : path);
}

static void check_bubblewrap(const struct config *config, struct finding *f)
{
    (void)config;
    struct error err = ERROR_INIT;
    char line[128];
    int major = 0, minor = 0;
    _cleanup_free_ char *program = bwrap_find_program(&err);
    if (!program) {
        doctor_say_error(f, LEVEL_FAIL, &err);
        return;
    }
    first_line((char *[]){ program, (char *)"--version", NULL }, line, sizeof line);
    if (sscanf(line, "bubblewrap %d.%d", &major, &minor) != 2 || (major == 0 && minor < 8))
        doctor_say(f, LEVEL_FAIL, "install bubblewrap 0.8 or later (Debian 12 has it)",
                   "%s is too old: --disable-userns is missing", line);
    else
        doctor_say(f, LEVEL_OK, NULL, "%s", line);
}

static void check_driver(const struct config *config, struct finding *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const struct driver *driver = driver_find(config->driver);
    if (!driver) /* who loaded the settings has refused it already */
        doctor_say(f, LEVEL_FAIL, "set WORKSPACE_DRIVER", "there is no driver %.80s", config->driver);
    else if (driver->probe(config, &err) < 0)
        doctor_say_error(f, LEVEL_FAIL, &err);
    else
        doctor_say(f, LEVEL_OK, NULL, "%s can make sandboxes", driver->name);
}

static void check_agent(const struct config *config, struct finding *f)
{
    struct error err = ERROR_INIT;
    _cleanup_free_ char *agent = bwrap_find_agent(config, &err);
    if (agent) {
        doctor_say(f, LEVEL_OK, NULL, "%s", agent);
        return;
    }
    doctor_say_error(f, LEVEL_FAIL, &err);
    if (*config->agent)
        doctor_say(f, LEVEL_FAIL, "set WORKSPACE_AGENT to the program workspace-agent, or leave it empty",
                   "WORKSPACE_AGENT=%s is no program that can be executed", config->agent);
}

/* ---- the kernel ---- */

static void check_namespaces(const struct config *config, struct finding *f)
{
    (void)config;
    struct error err = ERROR_INIT;
    if (probe_namespaces(&err))
        doctor_say_error(f, LEVEL_FAIL, &err);
    else
        doctor_say(f, LEVEL_OK, NULL, "user, mount and PID namespaces work, /proc can be mounted in them");
}

static void check_seccomp(const struct config *config, struct finding *f)
{
    (void)config;
    struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer actions = BUFFER_INIT;
    _cleanup_close_ int fd = seccomp_program(&err);
    if (fd < 0)
        doctor_say_error(f, LEVEL_FAIL, &err);
    else if (io_read_file(AT_FDCWD, "/proc/sys/kernel/seccomp/actions_avail", 4096, &actions, NULL) ||
             !strstr(buffer_text(&actions), "errno"))
        doctor_say(f, LEVEL_FAIL, "a kernel with CONFIG_SECCOMP_FILTER",
                   "the kernel has no system call filters");
    else
        doctor_say(f, LEVEL_OK, NULL, "system calls are filtered");
}

static void check_limits(const struct config *config, struct finding *f)
{
    json_auto_t *told = driver_local.capabilities(config, NULL);
    const char *memory = json_string_value(json_object_get(told, "memory"));
    const char *cpu = json_string_value(json_object_get(told, "cpu")),
               *processes = json_string_value(json_object_get(told, "processes"));
    bool all =
        !strncmp(memory, "cgroup", 6) && !strncmp(cpu, "cgroup", 6) && !strncmp(processes, "cgroup", 6);
    doctor_say(f, all ? LEVEL_OK : LEVEL_WARN,
               all ? NULL : "start it as root, or by systemd with Delegate=yes (cgroup v2)",
               "memory: %s, CPU: %s, processes: %s%s", memory, cpu, processes,
               all ? "" : "; every limit holds, the watched ones some milliseconds late");
}

static void check_files_limit(const struct config *config, struct finding *f)
{
    (void)config;
    struct rlimit files = { 0 };
    getrlimit(RLIMIT_NOFILE, &files);
    bool enough = files.rlim_max >= 16384;
    doctor_say(f, enough ? LEVEL_OK : LEVEL_WARN,
               enough ? NULL : "ulimit -Hn 65536, or LimitNOFILE=65536 in the systemd unit",
               "at most %llu open files for each process%s", (unsigned long long)files.rlim_max,
               enough ? "" : ": fewer clients can wait at a time");
}

/* ---- what the settings mean ---- */

static void check_network(const struct config *config, struct finding *f)
{
    if (!strcmp(config->network, "none"))
        doctor_say(f, LEVEL_OK, NULL, "workspaces have no network");
    else
        doctor_say(
            f, LEVEL_WARN,
            "WORKSPACE_NETWORK=none, or block_network when a workspace is created; a password for every "
            "service that listens here",
            "workspaces use the host's network: their commands reach what listens on 127.0.0.1, and what "
            "they listen on is the host's");
}

static void check_address(const struct config *config, struct finding *f)
{
    const char *authority = strstr(config->base_url, "://"),
               *path = authority ? strchr(authority + 3, '/') : NULL;
    size_t length = path ? strlen(path) : 0;
    while (length > 0 && path[length - 1] == '/')
        length--;
    if (!*config->base_url)
        doctor_say(f, LEVEL_WARN, "set WORKSPACE_BASE_URL to the public URL",
                   "no public URL is set: the OpenAPI documents name this host's loopback address alone");
    else if (length != strlen(config->mount) || strncmp(path ? path : "", config->mount, length) != 0)
        doctor_say(f, LEVEL_FAIL, "let WORKSPACE_BASE_URL end with what WORKSPACE_MOUNT says",
                   "the public URL %.200s has another path than WORKSPACE_MOUNT=%.100s", config->base_url,
                   config->mount);
    else
        doctor_say(f, LEVEL_OK, NULL, "%.300s", config->base_url);
}

/* ---- the table ---- */

static const struct check {
    const char *name;
    doctor_check *run;
} checks[] = {
    { "namespaces", check_namespaces },
    { "bubblewrap", check_bubblewrap },
    { "seccomp", check_seccomp },
    { "limits", check_limits },
    { "driver", check_driver },
    { "agent", check_agent },
    { "user", doctor_user },
    { "open files", check_files_limit },
    { "state directory", doctor_state_directory },
    { "folders above", doctor_folders_above },
    { "path length", doctor_path_length },
    { "space", doctor_space },
    { "warden", doctor_warden },
    { "network", check_network },
    { "address", check_address },
    { "lighttpd", check_lighttpd },
    { "tools", check_tools },
    { "ripgrep", check_ripgrep },
    { "uv", check_uv },
    { "packages", check_packages },
    { "store", doctor_store },
};

/* Paths are among it, of whatever name. */
static void print_finding(const char *name, const struct finding *f)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT, cure = BUFFER_INIT;
    buffer_append_shown_text(&text, f->text, strlen(f->text));
    buffer_append_shown_text(&cure, f->cure, strlen(f->cure));
    printf("%-5s %-16s %s\n", level_names[f->level], name, buffer_text(&text));
    if (*f->cure)
        printf("%-5s %-16s cure: %s\n", "", "", buffer_text(&cure));
}

static json_t *finding_to_json(const char *name, const struct finding *f)
{
    json_t *row = json_pack("{s:s, s:s, s:s#}", "check", name, "level", level_names[f->level], "text",
                            f->text, (int)utf8_valid_prefix(f->text, strlen(f->text)));
    if (*f->cure)
        json_object_set_new(row, "cure", json_string(f->cure));
    return row;
}

int cmd_doctor(const struct config *config, int argc, char **argv)
{
    bool as_json = argc == 2 && !strcmp(argv[1], "--json"), failed = false;
    if (argc > 1 && !as_json)
        return command_wrong_use(argv[0], argv[argc > 2 && !strcmp(argv[1], "--json") ? 2 : 1]);
    json_auto_t *rows = json_array();
    for (size_t i = 0; i < N_ELEMENTS(checks); i++) {
        struct finding finding = { LEVEL_OK, "", "" };
        checks[i].run(config, &finding);
        failed |= finding.level == LEVEL_FAIL;
        if (as_json)
            json_array_append_new(rows, finding_to_json(checks[i].name, &finding));
        else
            print_finding(checks[i].name, &finding);
    }
    if (as_json) {
        json_auto_t *answer = json_pack("{s:b, s:O}", "ok", !failed, "checks", rows);
        json_dumpf(answer, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    return failed ? 1 : 0;
}
