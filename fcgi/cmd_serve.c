/* `serve`: finds or opens the listening socket, then runs the pool on it. */
#include "fcgi/commands.h"

#include "fcgi/options.h"
#include "fcgi/pool.h"
#include "fcgi/worker.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <fcgiapp.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { BACKLOG = 4096, WANTED_FILES = 65536 };

static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (geteuid() == 0 && limit.rlim_max < WANTED_FILES)
        limit.rlim_max = WANTED_FILES;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_warning("the limit of open files stays: %s", strerror(errno));
}

static bool is_listening(int fd)
{
    int listening = 0;
    socklen_t length = sizeof(listening);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening;
}

/* Web server and workers meet at this socket: it belongs to the workers' group. */
static void give_to_group(const char *path, const struct config *config)
{
    const struct passwd *user = geteuid() == 0 && config->user ? getpwnam(config->user) : NULL;

    if (user != NULL && chown(path, (uid_t)-1, user->pw_gid) < 0)
        log_warning("the socket's group stays: %s", strerror(errno));
}

/* The lock comes before the socket: opening unlinks what lies there, and a second server would take over
 * silently. */
static int open_local(const char *path, const struct config *config, int *ret_lock, struct error *err)
{
    _cleanup_free_ char *lock = xasprintf("%s.lock", path);
    int locked = io_lock_file(lock, ret_lock, err);

    if (locked < 0)
        return -1;
    if (locked == 0)
        return error_set(err, ERROR_CONFLICT, "another server holds %s", path);
    int fd = io_listen_unix(path, 0660, BACKLOG, err);
    if (fd >= 0)
        give_to_group(path, config);
    return fd;
}

/* FCGX_OpenSocket ends the process where it fails, having said why; it takes "host:port" and ":port". */
static int open_network(const char *address, struct error *err)
{
    int fd = FCGX_OpenSocket(address, BACKLOG);

    if (fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, "cannot listen on %s", address);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

static int find_socket(const char *given, const struct config *config, int *ret_lock, struct error *err)
{
    _cleanup_free_ char *usual = config_path(config, "fcgi.sock", NULL);

    if (given == NULL && is_listening(STDIN_FILENO))
        return STDIN_FILENO;
    if (given != NULL && strchr(given, '/') == NULL && strchr(given, ':') != NULL)
        return open_network(given, err);
    if (given == NULL && io_ensure_directory(config->state_dir, 0750, err) < 0)
        return -1;
    return open_local(given ? given : usual, config, ret_lock, err);
}

static struct config *reload(struct error *err)
{
    const struct options *options = options_of_process();

    if (options == NULL) {
        error_set(err, ERROR_UNSUPPORTED, "they were not loaded from options");
        return NULL;
    }
    return options_load(options, err);
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
    raise_file_limit();
    int fd = find_socket(given, config, &lock, &err);
    if (fd < 0) {
        fprintf(stderr, "serve: %s\n", err.message);
        return 1;
    }
    log_info("serving with %d workers", (int)config->workers);
    return pool_run(config, fd, worker_run, reload);
}
