/* Prepares lighttpd with conf/lighttpd.conf, which takes address, socket and sizes from the environment.
 * Knows nothing of how it is kept alive. */
#include "fcgi/lighttpd.h"

#include "fcgi/leftovers.h"
#include "fcgi/options.h"
#include "fcgi/state_directory.h"
#include "lib/base/io.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

enum { HEALTH_S = 2, MOST_FILES = 60000, LARGEST_CONF = 1 << 20, FORMER_END_MS = 2000 };

static char *find_program(void)
{
    _cleanup_free_ char *path =
        xasprintf("%s:/usr/sbin:/usr/local/sbin:/sbin", getenv("PATH") ? getenv("PATH") : "");
    char *rest = path;

    for (char *folder; (folder = strsep(&rest, ":")) != NULL;) {
        _cleanup_free_ char *program = xasprintf("%s/lighttpd", folder);
        if (*folder && access(program, X_OK) == 0)
            return STEAL(program);
    }
    return NULL;
}

/* ---- address ---- */

static struct addrinfo *resolve(const char *host, const char *port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;

    return getaddrinfo(*host ? host : NULL, port, &hints, &found) == 0 ? found : NULL;
}

static int check_address(const char *host, const char *port, struct error *err)
{
    struct addrinfo *found = resolve(host, port);

    if (found == NULL)
        return error_set(err, ERROR_INVALID, "HOST=%s PORT=%s is no address", host, port);
    _cleanup_close_ int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    int bound = bind(fd, found->ai_addr, found->ai_addrlen), number = errno;
    freeaddrinfo(found);
    if (bound == 0 && (bound = listen(fd, 1)) < 0)
        number = errno;
    if (bound == 0)
        return 0;
    if (number == EADDRINUSE)
        return error_set(err, ERROR_CONFLICT,
                         "port %s on %s is in use: stop what listens there or choose another PORT", port,
                         host);
    return error_errno(err, ERROR_INVALID, number, "cannot listen on port %s of %s", port, host);
}

char *lighttpd_url(const struct lighttpd *l)
{
    bool any = strcmp(l->host, "0.0.0.0") == 0 || strcmp(l->host, "::") == 0 || *l->host == 0;
    bool bracketed = strchr(l->host, ':') != NULL && *l->host != '[' && !any;

    return xasprintf("http://%s%s%s:%s%s", bracketed ? "[" : "", any ? "127.0.0.1" : l->host,
                     bracketed ? "]" : "", l->port, l->mount);
}

static bool is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;

    if (address->sa_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

bool lighttpd_is_private(const struct lighttpd *l)
{
    struct addrinfo *found = resolve(l->host, l->port);
    bool private = found != NULL;

    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next)
    private = private && is_loopback(a->ai_addr);
    if (found != NULL)
        freeaddrinfo(found);
    return private;
}

static int connect_to(const struct lighttpd *l)
{
    struct addrinfo *found = resolve(l->host, l->port);
    _cleanup_close_ int fd = found ? socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    const struct timeval patience = { .tv_sec = HEALTH_S };
    bool connected = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
                     connect(fd, found->ai_addr, found->ai_addrlen) == 0;

    if (found != NULL)
        freeaddrinfo(found);
    return connected ? STEAL_FD(fd) : -1;
}

bool lighttpd_is_healthy(const struct lighttpd *l)
{
    static const char good[] = "HTTP/1.0 200";
    char head[sizeof(good)] = "";
    _cleanup_free_ char *request = xasprintf("GET %s/healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", l->mount);
    _cleanup_close_ int fd = connect_to(l);

    return fd >= 0 && io_write_all(fd, request, strlen(request), NULL) == 0 &&
           recv(fd, head, sizeof(good) - 1, MSG_WAITALL) == sizeof(good) - 1 && strcmp(head, good) == 0;
}

/* ---- configuration ---- */

/* WORKSPACE_LIGHTTPD_CONF, else the repository's, else the installed one. */
static int read_conf(struct buffer *ret, struct error *err)
{
    static const char *const places[] = { "../conf", "../../conf", "../share/workspace-fcgi" };
    _cleanup_free_ char *folder = options_program();
    const char *given = getenv("WORKSPACE_LIGHTTPD_CONF");

    if (given != NULL && *given)
        return io_read_file(AT_FDCWD, given, LARGEST_CONF, ret, err) < 0 ? error_wrap(err, "%s", given) : 0;
    *strrchr(folder, '/') = 0;
    for (size_t i = 0; i < N_ELEMENTS(places); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s/lighttpd.conf", folder, places[i]);
        if (access(path, R_OK) == 0)
            return io_read_file(AT_FDCWD, path, LARGEST_CONF, ret, err);
    }
    return error_set(err, ERROR_UNSUPPORTED,
                     "conf/lighttpd.conf is not beside this program: set WORKSPACE_LIGHTTPD_CONF");
}

/* lighttpd started as root becomes the workers' user; it refuses to stay root. */
static int append_user(struct buffer *conf, const struct config *config, struct error *err)
{
    _cleanup_owner_ struct owner owner = { 0 };

    if (geteuid() != 0)
        return 0;
    if (config_find_owner(config, &owner, err) < 0)
        return -1;
    if (owner.name == NULL)
        return error_set(err, ERROR_INVALID,
                         "%s belongs to uid %u, which has no name on this host, as lighttpd needs: chown -R "
                         "--from=%u %s: '%s'",
                         config->state_dir, (unsigned)owner.uid, (unsigned)owner.uid, config->user,
                         config->state_dir);
    if (owner.uid != 0)
        buffer_printf(conf, "\nserver.username  = \"%s\"\n", owner.name);
    return 0;
}

/* What a former one left there, killed amid uploads, goes. */
static int prepare_uploads(const struct config *config, struct error *err)
{
    _cleanup_free_ char *path = config_path(config, "uploads", NULL);

    io_remove_tree(AT_FDCWD, path, NULL);
    return state_directory_make_uploads(config, err);
}

/* Watches of epoll are counted for each user: where sandboxes are its own user's, one of them could take all
 * of them, and nobody would get an answer any more. */
static bool shares_user(const struct config *config)
{
    return geteuid() != 0 || config->uid_count == 0;
}

static void set_environment(const struct config *config, const struct lighttpd *l, size_t file_limit)
{
    char text[24];
    size_t files = file_limit < MOST_FILES ? file_limit : MOST_FILES;

    setenv("WORKSPACE_STATE_DIR", config->state_dir, 1);
    setenv("HOST", l->host, 1);
    setenv("PORT", l->port, 1);
    setenv("LIGHTTPD_WORKERS", "0", 0);
    setenv("LIGHTTPD_EVENTS", shares_user(config) ? "poll" : "linux-sysepoll", 0);
    snprintf(text, sizeof(text), "%zu", files);
    setenv("LIGHTTPD_FDS", text, 0);
    snprintf(text, sizeof(text), "%zu", files / 2);
    setenv("LIGHTTPD_CONNECTIONS", text, 0);
}

/* It gives up its parent-death signal with its privileges, and so outlives a `run` that was killed. The
 * caller holds the lock of the socket: nobody else's is meant. */
static void end_former(const struct lighttpd *l)
{
    leftovers_end(&(struct leftover){ l->program, "-D", "-f", l->conf }, FORMER_END_MS);
}

int lighttpd_prepare(const struct config *config, const char *host, const char *port, size_t file_limit,
                     struct lighttpd *ret, struct error *err)
{
    _cleanup_buffer_ struct buffer conf = BUFFER_INIT;

    *ret = (struct lighttpd){ .host = host, .port = port, .mount = config->mount, .program = find_program() };
    if (ret->program == NULL)
        return error_set(err, ERROR_UNSUPPORTED, "lighttpd is not installed: apt-get install lighttpd");
    ret->conf = config_path(config, "lighttpd.conf", NULL);
    end_former(ret);
    if (check_address(host, port, err) < 0 || read_conf(&conf, err) < 0)
        return -1;
    if (append_user(&conf, config, err) < 0 || prepare_uploads(config, err) < 0)
        return -1;
    set_environment(config, ret, file_limit);
    if (io_replace_file(AT_FDCWD, ret->conf, conf.data, conf.length, 0644, err) < 0)
        return error_wrap(err, "%s", ret->conf);
    return 0;
}

void lighttpd_clear(struct lighttpd *l)
{
    free(l->program);
    free(l->conf);
    *l = (struct lighttpd){ 0 };
}
