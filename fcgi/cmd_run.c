/* `run`: everything on one machine in the foreground: state directory, token, listening socket, warden,
 * workers, lighttpd. It holds the socket, so that requests wait while workers are started again, and ends all
 * that it started. */
#include "fcgi/commands.h"

#include "fcgi/leftovers.h"
#include "fcgi/lighttpd.h"
#include "fcgi/options.h"
#include "fcgi/socket.h"
#include "fcgi/state_directory.h"
#include "fcgi/supervise.h"
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/memory.h"
#include "lib/warden/warden.h"

#include <fcntl.h>
#include <stdio.h>

enum { WARDEN, SERVE, FRONT, DAEMONS };
enum { SERVE_END_MS = 12000, END_MS = 3000, KEEPER_END_MS = 4000, READY_MS = 10000 };

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value != NULL && *value ? value : otherwise;
}

/* ---- what the environment says ---- */

struct wishes {
    const char *port, *host, *workers, *token; /* workers, token: "" = not given */
};

static int check_port(const char *port, struct error *err)
{
    size_t digits = strspn(port, "0123456789");
    int number = digits > 0 && digits <= 5 && port[digits] == 0 ? atoi(port) : 0;

    if (number >= 1 && number <= 65535)
        return 0;
    return error_set(err, ERROR_INVALID, "PORT must be from 1 to 65535, not '%.40s'", port);
}

/* Before anything is made: what a daemon would refuse would be started again and again. */
static int read_wishes(const struct config *config, struct wishes *ret, struct error *err)
{
    *ret = (struct wishes){ .port = environment("PORT", "8080"),
                            .host = environment("HOST", "127.0.0.1"),
                            .workers = environment("WORKERS", ""),
                            .token = environment("TOKEN", config->token) };
    if (check_port(ret->port, err) < 0 ||
        (*ret->workers && config_check("WORKSPACE_WORKERS", ret->workers, "WORKERS", err) < 0))
        return -1;
    return *ret->token ? config_check("WORKSPACE_TOKEN", ret->token, "TOKEN", err) : 0;
}

/* ---- the token ---- */

static int read_token(const char *path, char **ret, struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;

    if (io_read_file(AT_FDCWD, path, 4096, &text, err) < 0)
        return error_wrap(err, "%s", path);
    size_t length = strcspn(buffer_text(&text), "\r\n");
    _cleanup_free_ char *token = xstrndup(text.data, length);
    if (length == 0)
        return error_set(err, ERROR_INVALID, "%s is empty: remove it for a new token", path);
    if (config_check("WORKSPACE_TOKEN", token, "the token", err) < 0)
        return error_wrap(err, "%s: remove it for a new token", path);
    *ret = STEAL(token);
    return 0;
}

/* The file always holds the token in force. */
static int find_token(const struct config *config, const char *given, char **ret, struct error *err)
{
    _cleanup_free_ char *path = config_path(config, "token", NULL);
    char fresh[41];

    if (*given == 0 && access(path, F_OK) == 0)
        return read_token(path, ret, err);
    id_random_hex(fresh, 40);
    const char *token = *given ? given : fresh;
    _cleanup_free_ char *line = xasprintf("%s\n", token);
    if (io_replace_file(AT_FDCWD, path, line, strlen(line), 0600, err) < 0)
        return error_wrap(err, "%s", path);
    *ret = xstrdup(token);
    return 0;
}

/* ---- daemons ---- */

/* This program's subcommand with the options that this process got, and one more argument. */
static char **own_argv(const char *subcommand, const char *more, const struct config *config)
{
    const struct options *o = options_of_process();
    size_t overrides = 0, count = 0;

    while (o->overrides[overrides] != NULL)
        overrides++;
    char **argv = xcalloc(overrides * 2 + 10, sizeof(char *));
    argv[count++] = options_program();
    argv[count++] = xstrdup(subcommand);
    argv[count++] = xstrdup("--state");
    argv[count++] = xstrdup(config->state_dir);
    if (o->config != NULL) {
        argv[count++] = xstrdup("--config");
        argv[count++] = xstrdup(o->config);
    }
    for (size_t i = 0; i < overrides; i++) {
        if (strncmp(o->overrides[i], "WORKSPACE_STATE_DIR=", 20) == 0)
            continue;
        argv[count++] = xstrdup("--set");
        argv[count++] = xstrdup(o->overrides[i]);
    }
    argv[count++] = xstrdup(more);
    return argv;
}

static char **front_argv(const struct lighttpd *front)
{
    char **argv = xcalloc(5, sizeof(char *));

    argv[0] = xstrdup(front->program);
    argv[1] = xstrdup("-D");
    argv[2] = xstrdup("-f");
    argv[3] = xstrdup(front->conf);
    return argv;
}

static void free_argv(char **argv)
{
    for (size_t i = 0; argv[i] != NULL; i++)
        free(argv[i]);
    free(argv);
}

/* Requests first, then who would start keepers, then the keepers, which outlive all else on purpose. */
static void end_all(struct daemon *daemons, const struct config *config)
{
    supervise_end(&daemons[SERVE], SERVE_END_MS);
    supervise_end(&daemons[FRONT], END_MS);
    supervise_end(&daemons[WARDEN], END_MS);
    leftovers_end(&(struct leftover){ daemons[SERVE].argv[0], "warden", "--state", config->state_dir },
                  END_MS);
    leftovers_end(&(struct leftover){ daemons[SERVE].argv[0], "keep", "--state", config->state_dir },
                  KEEPER_END_MS);
    for (int i = 0; i < DAEMONS; i++)
        free_argv(daemons[i].argv);
}

/* ---- what the person sees ---- */

static void print_welcome(const struct lighttpd *front, const char *token)
{
    _cleanup_free_ char *url = lighttpd_url(front);

    printf("\nworkspace-fcgi is ready\n  URL    %s\n  MCP    %s/mcp\n  token  %s\n\n", url, url, token);
    printf("Make a workspace, start a command in it, watch its output live:\n"
           "  WS=$(curl -s -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{}' "
           "%s/api/workspaces"
           " | sed -n 's/.*\"workspace_id\": *\"\\([^\"]*\\)\".*/\\1/p'); echo $WS\n"
           "  EX=$(curl -s -H 'Authorization: Bearer %s' -H 'Content-Type: application/json'"
           " -d '{\"command\":\"for i in 1 2 3; do echo hello $i; sleep 1; done\"}' "
           "%s/api/workspaces/$WS/realtime-execs"
           " | sed -n 's/.*\"exec_id\": *\"\\([^\"]*\\)\".*/\\1/p'); echo $EX\n"
           "  curl -sN -H 'Authorization: Bearer %s' "
           "\"%s/api/workspaces/$WS/realtime-execs/$EX/events?stream=true\"\n\n"
           "Ctrl-C ends all of it; workspaces keep their files and start again with their next command or "
           "call on files.\n",
           token, url, token, url, token, url);
    fflush(stdout);
}

/* The warden makes what is missing below the state directory, and one that was there may have to give way;
 * workers come after. True = asked to end meanwhile. */
static bool wait_for_warden(struct daemon *daemons, const struct config *config)
{
    struct warden_seen seen;

    for (int64_t end = clock_boottime_ms() + READY_MS; clock_boottime_ms() < end;) {
        if (warden_await(config, WARDEN_FRESH, 0, &seen))
            return false;
        if (supervise_wait(daemons, 1, 5))
            return true;
    }
    fprintf(stderr, "run: no warden answers yet; see its messages above\n");
    return false;
}

/* Until a worker has answered through lighttpd. True = asked to end meanwhile. */
static bool wait_until_ready(struct daemon *daemons, const struct lighttpd *front)
{
    int64_t patience = clock_boottime_ms() + READY_MS;

    while (!lighttpd_is_healthy(front)) {
        if (supervise_wait(daemons, DAEMONS, 20))
            return true;
        if (clock_boottime_ms() < patience)
            continue;
        fprintf(stderr, "run: not ready yet: no worker answers through lighttpd; see the messages above\n");
        patience = INT64_MAX;
    }
    return false;
}

static void serve_until_signal(const struct config *config, const struct lighttpd *front, const char *token,
                               int socket_fd)
{
    /* Nobody but this process starts a warden: it shall end with it. */
    struct daemon daemons[DAEMONS] = {
        [WARDEN] = { .name = "the warden", .argv = own_argv("warden", "--wait", config), .stdin_fd = -1 },
        [SERVE] = { .name = "the pool of workers",
                    .argv = own_argv("serve", "--no-warden", config),
                    .stdin_fd = socket_fd,
                    .token = token },
        [FRONT] = { .name = "lighttpd", .argv = front_argv(front), .stdin_fd = -1 },
    };

    supervise_begin();
    supervise_start(&daemons[WARDEN]);
    bool asked = wait_for_warden(daemons, config);
    for (int i = SERVE; i < DAEMONS && !asked; i++)
        supervise_start(&daemons[i]);
    if (!asked && !wait_until_ready(daemons, front)) {
        print_welcome(front, token);
        supervise_wait(daemons, DAEMONS, -1);
    }
    end_all(daemons, config);
    fprintf(stderr, "run: all has ended; files and logs are kept in %s\n", config->state_dir);
}

static void set_environment(const struct wishes *wishes)
{
    unsetenv("WORKSPACE_TOKEN"); /* the workers alone get it */
    if (*wishes->workers)
        setenv("WORKSPACE_WORKERS", wishes->workers, 1);
    unsetenv("TOKEN");
}

static int run(const struct config *config, struct lighttpd *front, struct error *err)
{
    _cleanup_free_ char *token = NULL;
    _cleanup_close_ int lock = -1, socket_fd = -1;
    size_t files = socket_raise_file_limit();
    struct wishes wishes;

    if (read_wishes(config, &wishes, err) < 0 || socket_check(config, NULL, err) < 0 ||
        state_directory_make(config, err) < 0 || (socket_fd = socket_open(config, NULL, &lock, err)) < 0)
        return -1;
    /* The lock is held: what belongs to another run of this directory is left alone. */
    if (lighttpd_prepare(config, wishes.host, wishes.port, files, front, err) < 0 ||
        find_token(config, wishes.token, &token, err) < 0 || state_directory_reach(config, err) < 0) {
        socket_remove(config, NULL);
        return -1;
    }
    if (!lighttpd_is_private(front))
        fprintf(stderr,
                "run: HOST=%s is not this machine alone: the token and all data travel in the clear; put a "
                "web server "
                "with TLS in front (conf/lighttpd-fragment.conf)\n",
                wishes.host);
    set_environment(&wishes);
    serve_until_signal(config, front, token, socket_fd);
    return 0;
}

int cmd_run(const struct config *config, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct lighttpd front = { 0 };

    if (argc > 1)
        return command_wrong_use(argv[0], argv[1]);
    int status = run(config, &front, &err) < 0;
    if (status != 0)
        fprintf(stderr, "run: %s\n", err.message);
    lighttpd_clear(&front);
    return status;
}
