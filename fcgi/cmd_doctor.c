/* The operator's command that says what this host can and cannot do, and the exact cure of what it cannot: a
 * table of checks. It changes nothing that lasts. What needs the rights it was started with comes first; the
 * stores come last, read as the owner of the state directory. */
#include "fcgi/commands.h"

#include "fcgi/state_directory.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/utf8.h"
#include "lib/driver/driver.h"
#include "lib/driver/local/bwrap.h"
#include "lib/driver/local/probe.h"
#include "lib/driver/local/seccomp.h"
#include "lib/store/events.h"
#include "lib/store/state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

enum level { LEVEL_OK, LEVEL_WARN, LEVEL_FAIL };
static const char *const level_names[] = { "ok", "warn", "fail" };

/* One row of the answer. */
struct finding {
    enum level level;
    char text[400], cure[400];
};

static void say(struct finding *f, enum level level, const char *cure, const char *format, ...)
    PRINTF_LIKE(4, 5);

static void say(struct finding *f, enum level level, const char *cure, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    f->level = level;
    vsnprintf(f->text, sizeof f->text, format, list);
    va_end(list);
    snprintf(f->cure, sizeof f->cure, "%s", cure ? cure : "");
}

/* An error's message is "problem: cure" by the driver's rule. */
static void say_error(struct finding *f, enum level level, struct error *err)
{
    char *cure = strstr(err->message, ": ");
    if (cure)
        *cure = '\0';
    say(f, level, cure ? cure + 2 : NULL, "%s", err->message);
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

/* Sandboxes see /usr alone, so programs for them are looked for there and nowhere else. */
static bool find_in_usr(const char *name, char *path, size_t size)
{
    static const char *const folders[] = { "/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin" };
    for (size_t i = 0; i < N_ELEMENTS(folders); i++) {
        snprintf(path, size, "%s/%s", folders[i], name);
        if (!access(path, X_OK))
            return true;
    }
    return false;
}

static void check_tool(struct finding *f, const char *name, const char *package, const char *use)
{
    char path[128], line[128], cure[128];
    snprintf(cure, sizeof cure, "%s", package);
    if (!find_in_usr(name, path, sizeof path)) {
        say(f, LEVEL_WARN, cure, "%s is not in /usr, where sandboxes see it: %s", name, use);
        return;
    }
    first_line((char *[]){ path, (char *)"--version", NULL }, line, sizeof line);
    say(f, LEVEL_OK, NULL, "%s", *line ? line : path);
}

static void check_rg(const struct config *config, struct finding *f)
{
    (void)config;
    check_tool(f, "rg", "apt-get install ripgrep", "searching files needs it");
}
static void check_git(const struct config *config, struct finding *f)
{
    (void)config;
    check_tool(f, "git", "apt-get install git", "repositories need it");
}
static void check_python(const struct config *config, struct finding *f)
{
    (void)config;
    check_tool(f, "python3", "apt-get install python3", "many commands of agents need it");
}
static void check_uv(const struct config *config, struct finding *f)
{
    (void)config;
    check_tool(f, "uv", "put uv into /usr/local/bin: pip install --prefix /usr/local uv",
               "Python functions need it");
}

static void check_lighttpd(const struct config *config, struct finding *f)
{
    (void)config;
    char path[128], line[128];
    if (!find_in_usr("lighttpd", path, sizeof path)) {
        say(f, LEVEL_WARN, "apt-get install lighttpd",
            "lighttpd is not installed: `make run` needs it, another web server does as well");
        return;
    }
    first_line((char *[]){ path, (char *)"-v", NULL }, line, sizeof line);
    say(f, LEVEL_OK, NULL, "%s", *line ? line : path);
}

static void check_bubblewrap(const struct config *config, struct finding *f)
{
    (void)config;
    struct error err = ERROR_INIT;
    char line[128];
    int major = 0, minor = 0;
    _cleanup_free_ char *program = bwrap_find_program(&err);
    if (!program) {
        say_error(f, LEVEL_FAIL, &err);
        return;
    }
    first_line((char *[]){ program, (char *)"--version", NULL }, line, sizeof line);
    if (sscanf(line, "bubblewrap %d.%d", &major, &minor) != 2 || (major == 0 && minor < 8))
        say(f, LEVEL_FAIL, "install bubblewrap 0.8 or later (Debian 12 has it)",
            "%s is too old: --disable-userns is missing", line);
    else
        say(f, LEVEL_OK, NULL, "%s", line);
}

static void check_agent(const struct config *config, struct finding *f)
{
    struct error err = ERROR_INIT;
    _cleanup_free_ char *agent = bwrap_find_agent(config, &err);
    if (agent)
        say(f, LEVEL_OK, NULL, "%s", agent);
    else
        say_error(f, LEVEL_FAIL, &err);
}

/* ---- the kernel ---- */

static void check_namespaces(const struct config *config, struct finding *f)
{
    (void)config;
    struct error err = ERROR_INIT;
    if (probe_namespaces(&err))
        say_error(f, LEVEL_FAIL, &err);
    else
        say(f, LEVEL_OK, NULL, "user, mount and PID namespaces work, /proc can be mounted in them");
}

static void check_seccomp(const struct config *config, struct finding *f)
{
    (void)config;
    struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer actions = BUFFER_INIT;
    _cleanup_close_ int fd = seccomp_program(&err);
    if (fd < 0)
        say_error(f, LEVEL_FAIL, &err);
    else if (io_read_file(AT_FDCWD, "/proc/sys/kernel/seccomp/actions_avail", 4096, &actions, NULL) ||
             !strstr(buffer_text(&actions), "errno"))
        say(f, LEVEL_FAIL, "a kernel with CONFIG_SECCOMP_FILTER", "the kernel has no system call filters");
    else
        say(f, LEVEL_OK, NULL, "system calls are filtered");
}

static void check_limits(const struct config *config, struct finding *f)
{
    json_auto_t *told = driver_local.capabilities(config, NULL);
    const char *memory = json_string_value(json_object_get(told, "memory"));
    const char *cpu = json_string_value(json_object_get(told, "cpu")),
               *processes = json_string_value(json_object_get(told, "processes"));
    bool all =
        !strncmp(memory, "cgroup", 6) && !strncmp(cpu, "cgroup", 6) && !strncmp(processes, "cgroup", 6);
    say(f, all ? LEVEL_OK : LEVEL_WARN,
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
    say(f, enough ? LEVEL_OK : LEVEL_WARN,
        enough ? NULL : "ulimit -Hn 65536, or LimitNOFILE=65536 in the systemd unit",
        "at most %llu open files for each process%s", (unsigned long long)files.rlim_max,
        enough ? "" : ": fewer clients can wait at a time");
}

/* ---- the state directory ---- */

static void check_user(const struct config *config, struct finding *f)
{
    if (geteuid() != 0)
        say(f, LEVEL_OK, NULL, "all run as uid %u; sandboxes are told apart by namespaces alone",
            (unsigned)geteuid());
    else if (!getpwnam(config->user))
        say(f, LEVEL_FAIL, "set WORKSPACE_USER to a user of this host", "the user %s does not exist",
            config->user);
    else if (config->uid_count == 0)
        say(f, LEVEL_WARN, "set WORKSPACE_UID_COUNT to 65536",
            "started as root, but workspaces share one uid");
    else
        say(f, LEVEL_OK, NULL, "started as root: workers become %s, workspaces get uids from %lld to %lld",
            config->user, (long long)config->uid_base, (long long)(config->uid_base + config->uid_count - 1));
}

static void check_state_directory(const struct config *config, struct finding *f)
{
    struct stat status;
    char cure[300];
    if (stat(config->state_dir, &status)) {
        if (errno == ENOENT)
            say(f, LEVEL_WARN, NULL, "%s does not exist yet: the first start makes it", config->state_dir);
        else
            say(f, LEVEL_FAIL, "give the user of the gateway the right to reach it", "%s: %s",
                config->state_dir, strerror(errno));
        return;
    }
    snprintf(cure, sizeof cure, "chmod o-rwx %.200s", config->state_dir);
    if (!S_ISDIR(status.st_mode))
        say(f, LEVEL_FAIL, "set WORKSPACE_STATE_DIR to a directory", "%s is not a directory",
            config->state_dir);
    else if (status.st_mode & 0007)
        say(f, LEVEL_FAIL, cure, "%s is open to every user (mode %04o)", config->state_dir,
            status.st_mode & 07777);
    else if (geteuid() && status.st_uid != geteuid())
        say(f, LEVEL_FAIL, "run this as its owner or as root", "%s belongs to uid %u, this is uid %u",
            config->state_dir, (unsigned)status.st_uid, (unsigned)geteuid());
    else
        say(f, LEVEL_OK, NULL, "%s, owner uid %u, mode %04o", config->state_dir, (unsigned)status.st_uid,
            status.st_mode & 07777);
}

static void check_path_length(const struct config *config, struct finding *f)
{
    size_t length = strlen(config->state_dir);
    if (length > 1024)
        say(f, LEVEL_FAIL, "choose a shorter WORKSPACE_STATE_DIR", "the state directory's path has %zu bytes",
            length);
    else
        say(f, LEVEL_OK, NULL, "%zu bytes%s", length,
            length > 40 ? ": long for a socket, so sockets are bound through /proc" : "");
}

static void check_space(const struct config *config, struct finding *f)
{
    struct statvfs space;
    if (statvfs(config->state_dir, &space)) {
        say(f, LEVEL_WARN, NULL, "not known before the state directory exists");
        return;
    }
    double mib = (double)space.f_bavail * (double)space.f_frsize / (1 << 20);
    enum level level = mib < 100 || space.f_favail < 1000     ? LEVEL_FAIL
                       : mib < 2048 || space.f_favail < 50000 ? LEVEL_WARN
                                                              : LEVEL_OK;
    say(f, level, level ? "free space or inodes, or move WORKSPACE_STATE_DIR" : NULL,
        "%.1f GiB and %llu inodes free", mib / 1024, (unsigned long long)space.f_favail);
}

static void check_warden(const struct config *config, struct finding *f)
{
    struct error err = ERROR_INIT;
    char hello[4];
    _cleanup_free_ char *path = config_path(config, "run/warden.sock", NULL);
    _cleanup_close_ int fd = io_connect_unix(path, &err);
    if (fd < 0) {
        error_clear(&err);
        say(f, LEVEL_WARN, NULL, "no warden runs: the first request starts one");
        return;
    }
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    if (poll(&wait, 1, 3000) == 1 && read(fd, hello, sizeof hello) > 0)
        say(f, LEVEL_OK, NULL, "runs and answers");
    else
        say(f, LEVEL_FAIL, "end it: another is started by the next request",
            "its socket is there, but it does not answer");
}

/* ---- stores ---- */

static bool verify_logs(const struct config *config, const json_t *workspaces, struct finding *f,
                        size_t *ret_checked)
{
    int64_t deadline = clock_boottime_ms() + 20000;
    struct events_cache *cache = events_cache_new(config->state_dir, 4);
    bool good = true;
    size_t i;
    json_t *record;
    json_array_foreach(workspaces, i, record) {
        _cleanup_error_ struct error err = ERROR_INIT;
        const char *id = json_string_value(json_object_get(record, "workspace_id"));
        if (!id || clock_boottime_ms() > deadline)
            break;
        struct events_reader *reader = events_cache_get(cache, id, &err);
        if (reader && events_verify(reader, &err)) {
            say(f, LEVEL_FAIL,
                "stop the workspace: its next start sets a log aside that cannot be walked; a single wrong "
                "event costs "
                "its own command alone; nothing else is touched",
                "the log of %s is damaged: %s", id, err.message);
            good = false;
        }
        *ret_checked += reader != NULL;
    }
    events_cache_free(cache);
    return good;
}

static void check_store(const struct config *config, struct finding *f)
{
    struct error err = ERROR_INIT;
    size_t checked = 0;
    json_auto_t *workspaces = NULL;
    _cleanup_free_ char *path = config_path(config, "state", NULL);
    if (access(path, F_OK)) {
        say(f, LEVEL_WARN, NULL, "there is none yet: the first start makes it");
        return;
    }
    struct state *state = state_directory_enter(config, &err) ? NULL : state_open(config->state_dir, &err);
    if (!state || state_list_workspaces(state, NULL, NULL, 1000000, &workspaces, &err)) {
        say_error(f, LEVEL_FAIL, &err);
    } else if (verify_logs(config, workspaces, f, &checked)) {
        bool token = *config->token || state_count_tokens(state, &err) > 0;
        say(f, token ? LEVEL_OK : LEVEL_WARN,
            token ? NULL : "set WORKSPACE_TOKEN, or: workspace-fcgi token add NAME",
            "%zu workspaces, %zu logs verified%s", json_array_size(workspaces), checked,
            token ? "" : "; no token is configured: every request gets 503");
    }
    if (state)
        state_close(state);
    error_clear(&err);
}

/* ---- the table ---- */

static const struct check {
    const char *name;
    void (*run)(const struct config *config, struct finding *f);
} checks[] = {
    { "namespaces", check_namespaces },
    { "bubblewrap", check_bubblewrap },
    { "seccomp", check_seccomp },
    { "limits", check_limits },
    { "agent", check_agent },
    { "user", check_user },
    { "open files", check_files_limit },
    { "state directory", check_state_directory },
    { "path length", check_path_length },
    { "space", check_space },
    { "warden", check_warden },
    { "lighttpd", check_lighttpd },
    { "rg", check_rg },
    { "git", check_git },
    { "python3", check_python },
    { "uv", check_uv },
    { "store", check_store },
};

static void print_finding(const char *name, const struct finding *f)
{
    printf("%-5s %-16s %s\n", level_names[f->level], name, f->text);
    if (*f->cure)
        printf("%-5s %-16s cure: %s\n", "", "", f->cure);
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
    if (argc > 1 && !as_json) {
        fprintf(stderr, "usage: workspace-fcgi doctor [--json]\n");
        return 2;
    }
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
