/* Owns turning a request into what execve(2) takes: shell arguments, environment, folder. It opens no pipe
 * and starts nothing. */
#include "lib/agent/launch.h"

#include "lib/base/io.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define COMMAND_MAX     (2u << 20)
#define ENVIRONMENT_MAX 4096
/* Last: what the place that the sandbox runs in has of its own. */
#define OWN_PROGRAMS "/run/workspace/bin:/run/workspace/tools"
/* Linux: MAX_ARG_STRLEN, 32 pages with the NUL. */
#define ARGUMENT_MAX 131071

/* The text is expanded before eval runs, and the first thing that runs closes the descriptor: the command's
 * children never see it. The rest is what -c does, word for word, in the same shell. */
static const char script_runner[] = "eval \"exec 9<&-; $(</dev/fd/9)\"";
_Static_assert(LAUNCH_SCRIPT_FD == 9, "script_runner names the descriptor");

struct variable {
    const char *name, *value;
};

void launch_close_fds(struct launch *launch)
{
    for (int i = 0; i < 3; i++) {
        int fd = launch->fds[i];
        if (fd < 0)
            continue;
        close(fd);
        for (int k = i; k < 3; k++)
            if (launch->fds[k] == fd)
                launch->fds[k] = -1;
    }
}

void launch_clear(struct launch *launch)
{
    launch_close_fds(launch);
    if (launch->script_fd >= 0)
        close(launch->script_fd);
    if (launch->rewritten_fd >= 0)
        close(launch->rewritten_fd);
    for (char **at = launch->environment; at && *at; at++)
        free(*at);
    free(launch->environment);
    free(launch->directory);
    free(launch->directory_shown);
    free(launch->command);
    *launch = (struct launch)LAUNCH_INIT;
}

static int make_script(const char *command, size_t length, struct error *err)
{
    _cleanup_close_ int fd = memfd_create("command", MFD_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERROR_DRIVER, errno, "command");
    if (io_write_all(fd, command, length, err) < 0)
        return -1;
    return STEAL_FD(fd);
}

static int take_command(struct launch *launch, const json_t *request, int *ret_errno, struct error *err)
{
    const json_t *value = json_object_get(request, "command");
    size_t length = json_string_length(value);
    if (!json_is_string(value) || length > COMMAND_MAX || memchr(json_string_value(value), 0, length))
        return error_set(err, ERROR_INVALID, "command must be text of at most %u bytes without NUL",
                         COMMAND_MAX);
    launch->argv[0] = "bash";
    launch->argv[1] = "-lc";
    if (length <= ARGUMENT_MAX) {
        launch->command = xstrndup(json_string_value(value), length);
        launch->argv[2] = launch->command;
        return 0;
    }
    launch->argv[2] = script_runner;
    launch->script_fd = make_script(json_string_value(value), length, err);
    if (launch->script_fd < 0)
        *ret_errno = errno;
    return launch->script_fd < 0 ? -1 : 0;
}

/* "/workspace" is a name that only the client uses: where the folder lies elsewhere, paths below it are moved
 * there. */
static int take_directory(struct launch *launch, const struct launch_rules *rules, const json_t *request,
                          struct error *err)
{
    static const char shown[] = "/workspace";
    const json_t *value = json_object_get(request, "workdir");
    if (value && !json_is_null(value) && !json_is_string(value))
        return error_set(err, ERROR_INVALID, "workdir must be text or null");
    const char *path = json_is_string(value) ? json_string_value(value) : shown;
    if (strlen(path) >= 4096 || (value && json_is_string(value) && strlen(path) != json_string_length(value)))
        return error_set(err, ERROR_INVALID, "workdir must be a path");
    size_t length = sizeof shown - 1;
    bool inside = !strncmp(path, shown, length) && (path[length] == '/' || path[length] == '\0');
    launch->directory_shown = xstrdup(path);
    launch->directory = inside ? xasprintf("%s%s", rules->workspace, path + length) : xstrdup(path);
    return 0;
}

static void set_variable(struct launch *launch, size_t *count, const char *name, const char *value)
{
    size_t length = strlen(name), at = 0;
    while (at < *count &&
           (strncmp(launch->environment[at], name, length) || launch->environment[at][length] != '='))
        at++;
    if (at < *count) {
        free(launch->environment[at]);
        launch->environment[at] = launch->environment[--*count];
        launch->environment[*count] = NULL;
    }
    if (value)
        launch->environment[(*count)++] = xasprintf("%s=%s", name, value);
}

static void set_defaults(struct launch *launch, const struct launch_rules *rules, size_t *count)
{
    _cleanup_free_ char *path =
        xasprintf("%s/.local/bin:/usr/local/bin:/usr/bin:/bin:" OWN_PROGRAMS, rules->home);
    const struct variable defaults[] = {
        { "PATH", path },
        { "HOME", rules->home },
        { "USER", "workspace" },
        { "LOGNAME", "workspace" },
        { "SHELL", "/bin/bash" },
        { "LANG", "C.UTF-8" },
        { "TERM", launch->terminal ? "xterm-256color" : "dumb" },
        { "CI", "1" },
        { "DEBIAN_FRONTEND", "noninteractive" },
        /* For who commits before saying who it is: git asks its settings first, and takes the name of passwd. */
        { "EMAIL", "workspace@localhost" },
        { "GIT_PAGER", "cat" },
        { "GIT_TERMINAL_PROMPT", "0" },
        { "PAGER", "cat" },
        { "TMPDIR", "/tmp" },
        /* Output is watched live. */
        { "PYTHONUNBUFFERED", "1" },
        /* The cache lies in the home, another mount than the workspace: there are no links between. */
        { "UV_LINK_MODE", "copy" },
        /* Whom the host trusts, not a list that was compiled in; the second is the older name. */
        { "UV_SYSTEM_CERTS", "1" },
        { "UV_NATIVE_TLS", "1" },
        { "PIP_DISABLE_PIP_VERSION_CHECK", "1" },
    };
    launch->environment = xcalloc(N_ELEMENTS(defaults) + ENVIRONMENT_MAX + 1, sizeof *launch->environment);
    for (size_t i = 0; i < N_ELEMENTS(defaults); i++)
        set_variable(launch, count, defaults[i].name, defaults[i].value);
}

static int take_environment(struct launch *launch, const struct launch_rules *rules, const json_t *request,
                            struct error *err)
{
    const json_t *env = json_object_get(request, "env");
    if (env && !json_is_null(env) && (!json_is_object(env) || json_object_size(env) > ENVIRONMENT_MAX))
        return error_set(err, ERROR_INVALID, "env must be an object of at most %d members", ENVIRONMENT_MAX);
    size_t count = 0;
    set_defaults(launch, rules, &count);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)env, name, value) {
        if (!*name || strchr(name, '='))
            return error_set(err, ERROR_INVALID, "env has a name that is empty or holds '='");
        if (!json_is_string(value) && !json_is_null(value))
            return error_set(err, ERROR_INVALID, "env values must be text or null");
        set_variable(launch, &count, name, json_string_value(value));
    }
    return 0;
}

static uint16_t size_or(const json_t *value, uint16_t fallback)
{
    json_int_t size = json_integer_value(value);
    return size >= 1 && size <= 65535 ? (uint16_t)size : fallback;
}

static void take_flags(struct launch *launch, const json_t *request)
{
    const char *input = json_string_value(json_object_get(request, "stdin"));
    launch->terminal = json_is_true(json_object_get(request, "pty"));
    launch->merge_stderr = json_is_true(json_object_get(request, "merge_stderr"));
    launch->stdin_is_null = input && !strcmp(input, "null");
    launch->rows = size_or(json_object_get(request, "rows"), 24);
    launch->cols = size_or(json_object_get(request, "cols"), 80);
    if (json_is_true(json_object_get(request, "rtk")))
        launch->rewritten_fd = memfd_create("rewritten", MFD_CLOEXEC);
}

int launch_prepare(struct launch *launch, const struct launch_rules *rules, const json_t *request,
                   int *ret_errno, struct error *err)
{
    *ret_errno = EINVAL;
    take_flags(launch, request);
    if (take_directory(launch, rules, request, err) < 0 || take_environment(launch, rules, request, err) < 0)
        return -1;
    return take_command(launch, request, ret_errno, err);
}
