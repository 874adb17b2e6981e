/* `serve`: finds or opens the listening socket, sees to the warden, then runs the pool. */
#include "fcgi/commands.h"

#include "fcgi/options.h"
#include "fcgi/pool.h"
#include "fcgi/socket.h"
#include "fcgi/state_directory.h"
#include "fcgi/worker.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"
#include "lib/warden/warden.h"

#include <getopt.h>

enum { WARDEN_MS = 5000 };

struct serve {
    const char *socket; /* as given; NULL = descriptor 0 where it listens, else the state directory's */
    bool no_warden;
    int lock_fd;
};

static int parse(int argc, char **argv, struct serve *ret)
{
    static const struct option known[] = { { "socket", required_argument, NULL, 's' },
                                           { "no-warden", no_argument, NULL, 'n' },
                                           { NULL, 0, NULL, 0 } };

    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 's')
            ret->socket = optarg;
        else if (option == 'n')
            ret->no_warden = true;
        else
            return -1;
    }
    if (optind < argc)
        command_wrong_use(argv[0], argv[optind]);
    return optind < argc ? -1 : 0;
}

static bool is_inherited(const struct serve *s)
{
    return s->socket == NULL && socket_is_listening(STDIN_FILENO);
}

/* Web servers also know HOST:PORT, where everybody on the network could speak to the workers: not here. */
static int check_socket(const struct serve *s, const struct config *config, struct error *err)
{
    const char *given = s->socket;

    if (given != NULL && (*given == 0 || (strchr(given, ':') != NULL && strchr(given, '/') == NULL)))
        return error_set(err, ERROR_INVALID, "--socket takes the path of a UNIX socket, not '%s'", given);
    return is_inherited(s) ? 0 : socket_check(config, given, err);
}

/* ---- the warden ---- */

/* The master's rights are those that keepers need: as root each workspace has a user of its own. */
static void start_warden(const struct config *config, unsigned flags)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *program = options_program();

    _cleanup_free_ char *log = warden_log(config, flags);

    int started = warden_ensure(config, program, WARDEN_SPARE | flags, &err);
    if (started < 0)
        log_error("the warden cannot be started: %s", err.message);
    if (started > 0 && log != NULL)
        log_info("a warden was started; its messages: %s", log);
}

static void grant_warden(const struct config *config)
{
    start_warden(config, 0);
}

static void grant_nothing(const struct config *config)
{
    (void)config;
}

/* Before the workers, who would find one that is to give way. */
static void begin_warden(const struct config *config)
{
    struct warden_seen seen;

    start_warden(config, WARDEN_FRESH);
    if (!warden_await(config, WARDEN_EQUAL, WARDEN_MS, &seen))
        log_error("no warden answers yet: see its messages");
}

/* ---- settings loaded again ---- */

static struct config *reload(struct error *err)
{
    const struct options *options = options_of_process();

    if (options != NULL)
        return options_load(options, err);
    error_set(err, ERROR_UNSUPPORTED, "they were not loaded from options");
    return NULL;
}

static struct config *reload_with_warden(struct error *err)
{
    struct config *config = reload(err);

    if (config != NULL)
        start_warden(config, WARDEN_FRESH);
    return config;
}

/* ---- all ---- */

static int serve(struct serve *s, const struct config *config, struct error *err)
{
    if (check_socket(s, config, err) < 0 || state_directory_make(config, err) < 0 ||
        state_directory_make_uploads(config, err) < 0 || state_directory_reach(config, err) < 0)
        return -1;
    int fd = is_inherited(s) ? STDIN_FILENO : socket_open(config, s->socket, &s->lock_fd, err);
    if (fd < 0)
        return -1;
    if (!s->no_warden)
        begin_warden(config);
    config_log_unused(config);
    _cleanup_free_ char *name = fd == STDIN_FILENO ? xstrdup("descriptor 0") : socket_path(config, s->socket);
    log_info("serving with %d workers on %s", (int)config->workers, name);
    return s->no_warden ? pool_run(config, fd, worker_run, reload, grant_nothing)
                        : pool_run(config, fd, worker_run, reload_with_warden, grant_warden);
}

int cmd_serve(const struct config *config, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct serve s = { .lock_fd = -1 };

    if (parse(argc, argv, &s) < 0)
        return COMMAND_WRONG_USE;
    socket_raise_file_limit();
    int status = serve(&s, config, &err);
    if (status < 0)
        fprintf(stderr, "serve: %s\n", err.message);
    memory_close_fd(&s.lock_fd);
    return status < 0 ? 1 : status;
}
