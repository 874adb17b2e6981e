/* `serve`: finds or opens the listening socket, then runs the pool on it. */
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
#include <stdio.h>

static int find_socket(const char *given, const struct config *config, int *ret_lock, struct error *err)
{
    if (given == NULL && socket_is_listening(STDIN_FILENO))
        return STDIN_FILENO;
    if (given != NULL && strchr(given, '/') == NULL && strchr(given, ':') != NULL)
        return socket_open_network(given, err);
    return socket_open_local(config, given, ret_lock, err);
}

static struct config *reload(struct error *err)
{
    const struct options *options = options_of_process();

    if (options != NULL)
        return options_load(options, err);
    error_set(err, ERROR_UNSUPPORTED, "they were not loaded from options");
    return NULL;
}

/* The master's rights are those that keepers need: as root each workspace has a user of its own. */
static void start_warden(const struct config *config)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *program = options_program();

    if (warden_ensure(config, program, &err) < 0)
        log_error("the warden cannot be started: %s", err.message);
}

int cmd_serve(const struct config *config, int argc, char **argv)
{
    static const struct option known[] = { { "socket", required_argument, NULL, 's' }, { NULL, 0, NULL, 0 } };
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_close_ int lock = -1;
    const char *given = NULL;

    for (int option; (option = getopt_long(argc, argv, "s:", known, NULL)) != -1;) {
        if (option != 's')
            return 2;
        given = optarg;
    }
    socket_raise_file_limit();
    int fd = state_directory_make(config, &err) < 0 ? -1 : find_socket(given, config, &lock, &err);
    if (fd < 0) {
        fprintf(stderr, "serve: %s\n", err.message);
        return 1;
    }
    config_log_unused(config);
    log_info("serving with %d workers", (int)config->workers);
    return pool_run(config, fd, worker_run, reload, start_warden);
}
