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

#include <fcntl.h>
#include <stdio.h>

enum { WARDEN, SERVE, FRONT, DAEMONS };
enum { SERVE_END_MS = 12000, END_MS = 3000, KEEPER_END_MS = 4000, READY_MS = 10000 };

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value != NULL && *value ? value : otherwise;
}

/* ---- paths and token ---- */

static int read_token(const char *path, char **ret, struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;

    if (io_read_file(AT_FDCWD, path, 4096, &text, err) < 0)
        return -1;
    size_t length = strcspn(buffer_text(&text), "\r\n");
    if (length == 0)
        return error_set(err, ERROR_INVALID,
                         "the file token in the state directory is empty: remove it for a new one");
    *ret = xstrndup(text.data, length);
    return 0;
}

/* One that is given is used as it is and written nowhere. */
static int find_token(const struct config *config, char **ret, struct error *err)
{
    const char *given = environment("TOKEN", config->token);
    _cleanup_free_ char *path = config_path(config, "token", NULL);
    char fresh[41];

    if (given != NULL && *given) {
        *ret = xstrdup(given);
        return 0;
    }
    if (access(path, F_OK) == 0)
        return read_token(path, ret, err);
    id_random_hex(fresh, 40);
    _cleanup_free_ char *line = xasprintf("%s\n", fresh);
    if (io_replace_file(AT_FDCWD, path, line, strlen(line), 0600, err) < 0)
        return -1;
    *ret = xstrdup(fresh);
    return 0;
}

/* ---- daemons ---- */

/* This program's subcommand with the options that this process got. */
static char **own_argv(const char *subcommand, const struct config *config)
{
    const struct options *o = options_of_process();
    size_t overrides = 0, count = 0;

    while (o->overrides[overrides] != NULL)
        overrides++;
    char **argv = xcalloc(overrides * 2 + 9, sizeof(char *));
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
    printf("Make a workspace, run a command in it, read its events:\n"
           "  WS=$(curl -s -X POST -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' -d '{}' "
           "%s/api/workspaces"
           " | sed -n 's/.*\"workspace_id\": *\"\\([^\"]*\\)\".*/\\1/p'); echo $WS\n"
           "  EX=$(curl -s -X POST -H 'Authorization: Bearer %s' -H 'Content-Type: application/json'"
           " -d '{\"command\":\"echo hello; uname -a\"}' %s/api/workspaces/$WS/realtime-execs"
           " | sed -n 's/.*\"exec_id\": *\"\\([^\"]*\\)\".*/\\1/p'); echo $EX\n"
           "  curl -s -H 'Authorization: Bearer %s' "
           "\"%s/api/workspaces/$WS/realtime-execs/$EX/events?wait_seconds=10\"\n\n"
           "Ctrl-C ends all of it.\n",
           token, url, token, url, token, url);
    fflush(stdout);
}

/* The warden makes what is missing below the state directory; workers, who are not root, come after. True =
 * asked to end meanwhile. */
static bool wait_for_warden(struct daemon *daemons, const struct config *config)
{
    _cleanup_free_ char *path = config_path(config, "run/warden.sock", NULL);

    for (int64_t end = clock_boottime_ms() + READY_MS; clock_boottime_ms() < end;) {
        int fd = io_connect_unix(path, NULL);
        if (fd >= 0) {
            close(fd);
            return false;
        }
        if (supervise_wait(daemons, 1, 5))
            return true;
    }
    return false;
}

/* True = asked to end meanwhile. */
static bool wait_for_front(struct daemon *daemons, const struct lighttpd *front)
{
    for (int64_t end = clock_boottime_ms() + READY_MS; clock_boottime_ms() < end;) {
        if (lighttpd_answers(front))
            return false;
        if (supervise_wait(daemons, DAEMONS, 20))
            return true;
    }
    fprintf(stderr, "run: lighttpd does not listen yet; see its messages above\n");
    return false;
}

static void serve_until_signal(const struct config *config, const struct lighttpd *front, const char *token,
                               int socket_fd)
{
    struct daemon daemons[DAEMONS] = {
        [WARDEN] = { .name = "the warden", .argv = own_argv("warden", config), .stdin_fd = -1 },
        [SERVE] = { .name = "the pool of workers",
                    .argv = own_argv("serve", config),
                    .stdin_fd = socket_fd,
                    .token = token },
        [FRONT] = { .name = "lighttpd", .argv = front_argv(front), .stdin_fd = -1 },
    };

    supervise_begin();
    supervise_start(&daemons[WARDEN]);
    bool asked = wait_for_warden(daemons, config);
    for (int i = SERVE; i < DAEMONS && !asked; i++)
        supervise_start(&daemons[i]);
    if (!asked && !wait_for_front(daemons, front)) {
        print_welcome(front, token);
        supervise_wait(daemons, DAEMONS, -1);
    }
    end_all(daemons, config);
}

static int run(const struct config *config, struct lighttpd *front, struct error *err)
{
    _cleanup_free_ char *token = NULL;
    _cleanup_close_ int lock = -1, socket_fd = -1;
    size_t files = socket_raise_file_limit();

    if (state_directory_make(config, err) < 0 || find_token(config, &token, err) < 0 ||
        (socket_fd = socket_open_local(config, NULL, &lock, err)) < 0 ||
        lighttpd_prepare(config, environment("HOST", "127.0.0.1"), environment("PORT", "8080"), files, front,
                         err) < 0 ||
        state_directory_reach(config, err) < 0)
        return -1;
    unsetenv("WORKSPACE_TOKEN"); /* the workers alone get it */
    unsetenv("TOKEN");
    if (*environment("WORKERS", ""))
        setenv("WORKSPACE_WORKERS", getenv("WORKERS"), 1);
    serve_until_signal(config, front, token, socket_fd);
    return 0;
}

int cmd_run(const struct config *config, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct lighttpd front = { 0 };

    (void)argv;
    if (argc > 1) {
        fprintf(stderr, "run takes no arguments; PORT, HOST, WORKERS and TOKEN come from the environment\n");
        return 2;
    }
    int status = run(config, &front, &err) < 0;
    if (status != 0)
        fprintf(stderr, "run: %s\n", err.message);
    lighttpd_clear(&front);
    return status;
}
