/* Opens the listening FastCGI socket: the lock, the mode, the group. Serves nothing. */
#include "fcgi/socket.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <fcgiapp.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { BACKLOG = 4096, WANTED_FILES = 65536 };

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
    const struct passwd *user = geteuid() == 0 && config->user ? getpwnam(config->user) : NULL;

    if (user != NULL && chown(path, (uid_t)-1, user->pw_gid) < 0)
        log_warning("the socket's group stays: %s", strerror(errno));
}

/* The lock comes before the socket: opening unlinks what lies there, and a second server would take over
 * silently. */
int socket_open_local(const struct config *config, const char *given, int *ret_lock, struct error *err)
{
    _cleanup_free_ char *path = given ? xstrdup(given) : config_path(config, "fcgi.sock", NULL);
    _cleanup_free_ char *lock = xasprintf("%s.lock", path);
    _cleanup_close_ int lock_fd = -1;

    int locked = io_lock_file(lock, &lock_fd, err);
    if (locked < 0)
        return -1;
    if (locked == 0)
        return error_set(err, ERROR_CONFLICT,
                         "another server uses this socket (is one running on this state directory?)");
    int fd = io_listen_unix(path, 0660, BACKLOG, err);
    if (fd < 0)
        return -1;
    give_to_group(path, config);
    *ret_lock = STEAL_FD(lock_fd);
    return fd;
}

/* FCGX_OpenSocket ends the process where it fails, having said why. */
int socket_open_network(const char *address, struct error *err)
{
    int fd = FCGX_OpenSocket(address, BACKLOG);

    if (fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, "cannot listen on %s", address);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}
