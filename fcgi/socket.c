/* Opens the listening FastCGI socket: the lock, the mode, the group. Serves nothing. */
#include "fcgi/socket.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { BACKLOG = 4096, WANTED_FILES = 65536, SOCKET_PATH_LONGEST = 107 /* unix(7) */ };

size_t socket_raise_file_limit(void)
{
    struct rlimit limit, wanted;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 1024;
    wanted = (struct rlimit){ WANTED_FILES, WANTED_FILES };
    /* Root may lack the capability, as in most containers. */
    if (limit.rlim_max < WANTED_FILES && geteuid() == 0 && setrlimit(RLIMIT_NOFILE, &wanted) == 0)
        return WANTED_FILES;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_warning("the limit of open files stays: %s", strerror(errno));
    return limit.rlim_cur;
}

bool socket_is_listening(int fd)
{
    int listening = 0;
    socklen_t length = sizeof(listening);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening;
}

/* Web server and workers meet here: the socket belongs to the workers' group. */
static void give_to_group(const char *path, const struct config *config)
{
    _cleanup_owner_ struct owner owner = { 0 };

    if (geteuid() == 0 && config_find_owner(config, &owner, NULL) == 0 &&
        chown(path, (uid_t)-1, owner.gid) < 0)
        log_warning("%s: the socket's group stays: %s", path, strerror(errno));
}

/* The lock comes before the socket: opening unlinks what lies there, and a second server would take over
 * silently. */
static int open_locked(const char *path, const struct config *config, int *ret_lock, struct error *err)
{
    _cleanup_free_ char *lock = xasprintf("%s.lock", path);
    _cleanup_close_ int lock_fd = -1;

    int locked = io_lock_file(lock, &lock_fd, err);
    if (locked < 0)
        return error_wrap(err, "%s", lock);
    if (locked == 0)
        return error_set(err, ERROR_CONFLICT, "another server uses the socket %s: end it first", path);
    int fd = io_listen_unix(path, 0660, BACKLOG, err);
    if (fd < 0)
        return error_wrap(err, "%s", path);
    give_to_group(path, config);
    *ret_lock = STEAL_FD(lock_fd);
    return fd;
}

char *socket_path(const struct config *config, const char *given)
{
    return given ? xstrdup(given) : config_path(config, "fcgi.sock", NULL);
}

int socket_check(const struct config *config, const char *given, struct error *err)
{
    _cleanup_free_ char *path = socket_path(config, given);

    if (strlen(path) <= SOCKET_PATH_LONGEST)
        return 0;
    return error_set(err, ERROR_INVALID,
                     "no web server reaches the socket %s: its path has %zu bytes, %d are the most; choose a "
                     "shorter state directory (STATE, --state), or serve --socket",
                     path, strlen(path), SOCKET_PATH_LONGEST);
}

int socket_open(const struct config *config, const char *given, int *ret_lock, struct error *err)
{
    _cleanup_free_ char *path = socket_path(config, given);

    return open_locked(path, config, ret_lock, err);
}

void socket_remove(const struct config *config, const char *given)
{
    _cleanup_free_ char *path = socket_path(config, given);

    unlink(path);
}
