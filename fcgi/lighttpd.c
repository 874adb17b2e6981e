/* Prepares lighttpd with conf/lighttpd.conf, which takes address, socket and sizes from the environment.
 * Knows nothing of how it is kept alive. */
#include "fcgi/lighttpd.h"

#include "fcgi/leftovers.h"
#include "fcgi/options.h"
#include "lib/base/io.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/socket.h>

enum { MOST_FILES = 60000, LARGEST_CONF = 1 << 20, FORMER_END_MS = 2000 };

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

    return xasprintf("http://%s%s%s:%s", bracketed ? "[" : "", any ? "127.0.0.1" : l->host,
                     bracketed ? "]" : "", l->port);
}

bool lighttpd_answers(const struct lighttpd *l)
{
    struct addrinfo *found = resolve(l->host, l->port);
    _cleanup_close_ int fd = found ? socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    bool connected = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0;

    if (found != NULL)
        freeaddrinfo(found);
    return connected;
}

/* ---- configuration ---- */

/* WORKSPACE_LIGHTTPD_CONF, else the repository's, else the installed one. */
static int read_conf(struct buffer *ret, struct error *err)
{
    static const char *const places[] = { "../conf", "../../conf", "../share/workspace-fcgi" };
    _cleanup_free_ char *folder = options_program();
    const char *given = getenv("WORKSPACE_LIGHTTPD_CONF");

    if (given != NULL && *given)
        return io_read_file(AT_FDCWD, given, LARGEST_CONF, ret, err);
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
static void append_user(struct buffer *conf, const struct config *config)
{
    const struct passwd *user = geteuid() == 0 && config->user ? getpwnam(config->user) : NULL;

    if (user == NULL || user->pw_uid == 0)
        return;
    buffer_printf(conf, "\nserver.username  = \"%s\"\n", user->pw_name);
}

static void set_environment(const struct config *config, const struct lighttpd *l, size_t file_limit)
{
    char text[24];
    size_t files = file_limit < MOST_FILES ? file_limit : MOST_FILES;

    setenv("WORKSPACE_STATE_DIR", config->state_dir, 1);
    setenv("HOST", l->host, 1);
    setenv("PORT", l->port, 1);
    setenv("LIGHTTPD_WORKERS", "0", 0);
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

    *ret = (struct lighttpd){ .host = host, .port = port, .program = find_program() };
    if (ret->program == NULL)
        return error_set(err, ERROR_UNSUPPORTED, "lighttpd is not installed: apt-get install lighttpd");
    ret->conf = config_path(config, "lighttpd.conf", NULL);
    end_former(ret);
    if (check_address(host, port, err) < 0 || read_conf(&conf, err) < 0)
        return -1;
    append_user(&conf, config);
    set_environment(config, ret, file_limit);
    return io_replace_file(AT_FDCWD, ret->conf, conf.data, conf.length, 0644, err);
}

void lighttpd_clear(struct lighttpd *l)
{
    free(l->program);
    free(l->conf);
    *l = (struct lighttpd){ 0 };
}
