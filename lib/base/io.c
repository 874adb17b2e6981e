/* Owns: files, directories, locks and local sockets on the host, relative to descriptors and close-on-exec
 * throughout. It must not know: what the files mean. Errors carry no path (they may reach a client); callers
 * add what they name it. Removing whole trees has its own page, remove_tree.c. */
#include "lib/base/io.h"

#include "lib/base/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { TEMPORARY_DIGITS = 16, READ_STEP = 16 << 10, SOCKET_PATH_MAX = 60, LOCK_TRIES = 16 };

int io_write_all(int fd, const void *data, size_t length, struct error *err)
{
    const char *at = data;
    while (length > 0) {
        ssize_t written = write(fd, at, length);
        if (written < 0 && errno != EINTR)
            return error_errno(err, ERROR_INTERNAL, errno, "cannot write");
        if (written > 0) {
            at += written;
            length -= (size_t)written;
        }
    }
    return 0;
}

static int read_to_end(int fd, size_t limit, struct buffer *ret, struct error *err)
{
    for (;;) {
        ssize_t got = read(fd, buffer_reserve(ret, READ_STEP), READ_STEP);
        if (got < 0 && errno != EINTR)
            return error_errno(err, ERROR_INTERNAL, errno, "cannot read a file");
        if (got == 0)
            return 0;
        if (got > 0)
            ret->length += (size_t)got;
        if (ret->length > limit)
            return error_set(err, ERROR_TOO_LARGE, "a file is larger than %zu bytes", limit);
    }
}

/* O_NONBLOCK: a FIFO that somebody put there must not hold us in open(2). */
int io_read_file(int dirfd, const char *path, size_t limit, struct buffer *ret, struct error *err)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0)
        return error_errno(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INTERNAL, errno,
                           "cannot open a file");
    if (!S_ISREG(info.st_mode))
        return error_set(err, ERROR_INVALID, "not a regular file");
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    if (info.st_size > 0 && (size_t)info.st_size <= limit)
        buffer_reserve(&content, (size_t)info.st_size + READ_STEP);
    if (read_to_end(fd, limit, &content, err) < 0)
        return -1;
    if (ret->length == 0) {
        buffer_free(ret);
        *ret = content;
        content = (struct buffer)BUFFER_INIT;
    } else
        buffer_append(ret, content.data, content.length);
    return 0;
}

/* The directory that path lies in, for *at* calls; *name points into path. */
static int open_parent(int dirfd, const char *path, int flags, const char **name, struct error *err)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    _cleanup_free_ char *parent = xstrndup(slash == NULL ? "." : path, length);
    *name = slash == NULL ? path : slash + 1;
    if (**name == '\0')
        return error_set(err, ERROR_INVALID, "a path names no file");
    int fd = openat(dirfd, parent, flags | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INTERNAL, errno,
                           "cannot open a directory");
    return fd;
}

static int fill_file(int parent, const char *name, const void *data, size_t length, mode_t mode,
                     struct error *err)
{
    _cleanup_close_ int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot create a file");
    if (io_inherit_owner(parent, fd, err) < 0 || io_write_all(fd, data, length, err) < 0)
        return -1;
    if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot write a file");
    return 0;
}

int io_replace_file(int dirfd, const char *path, const void *data, size_t length, mode_t mode,
                    struct error *err)
{
    const char *name;
    _cleanup_close_ int parent = open_parent(dirfd, path, O_RDONLY, &name, err);
    if (parent < 0)
        return -1;
    char temporary[8 + TEMPORARY_DIGITS + 1] = ".new-";
    id_random_hex(temporary + strlen(temporary), TEMPORARY_DIGITS);
    if (fill_file(parent, temporary, data, length, mode, err) < 0) {
        unlinkat(parent, temporary, 0);
        return -1;
    }
    if (renameat(parent, temporary, parent, name) < 0) {
        error_errno(err, ERROR_INTERNAL, errno, "cannot replace a file");
        unlinkat(parent, temporary, 0);
        return -1;
    }
    if (fsync(parent) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot write a directory");
    return 0;
}

int io_inherit_owner(int dirfd, int fd, struct error *err)
{
    struct stat info;
    if (geteuid() != 0)
        return 0;
    if (fstat(dirfd, &info) < 0 || fchown(fd, info.st_uid, info.st_gid) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot give a file its owner");
    return 0;
}

/* Opens name below parent, making it where it is missing. Owner before mode: chown(2) drops bits of the mode.
 */
static int enter_directory(int parent, const char *name, mode_t mode, struct error *err)
{
    bool made = mkdirat(parent, name, 0700) == 0;
    if (!made && errno != EEXIST)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot make a directory");
    _cleanup_close_ int fd =
        openat(parent, name, (made ? O_RDONLY | O_NOFOLLOW : O_PATH) | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot open a directory");
    if (made && io_inherit_owner(parent, fd, err) < 0)
        return -1;
    if (made && fchmod(fd, mode) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot set the mode of a directory");
    return STEAL_FD(fd);
}

int io_ensure_directory(const char *path, mode_t mode, struct error *err)
{
    _cleanup_free_ char *copy = xstrdup(path);
    _cleanup_close_ int at = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot open a directory");
    char *rest = NULL;
    for (char *name = strtok_r(copy, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
        int next = enter_directory(at, name, mode, err);
        if (next < 0)
            return -1;
        close(at);
        at = next;
    }
    return 0;
}

int io_set_nonblocking(int fd, struct error *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot make a descriptor non-blocking");
    return 0;
}

/* sun_path holds 108 bytes: long paths go by their directory's descriptor. */
static int make_address(struct sockaddr_un *address, const char *path, int parent, const char *name,
                        struct error *err)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int length =
        strlen(path) <= SOCKET_PATH_MAX
            ? snprintf(address->sun_path, sizeof(address->sun_path), "%s", path)
            : snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s", parent, name);
    if (length >= (int)sizeof(address->sun_path))
        return error_set(err, ERROR_INVALID, "the name of a socket is too long");
    return 0;
}

static int new_socket(struct error *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot make a socket");
    return fd;
}

/* Mode and owner are set before listen(2): nobody connects in between. */
static int set_socket_access(int parent, const char *name, mode_t mode, struct error *err)
{
    struct stat info;
    if (geteuid() == 0 && (fstat(parent, &info) < 0 ||
                           fchownat(parent, name, info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) < 0))
        return error_errno(err, ERROR_INTERNAL, errno, "cannot give a socket its owner");
    if (fchmodat(parent, name, mode, 0) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot set the mode of a socket");
    return 0;
}

/* The kernel tells everybody in a network namespace what its sockets were bound as, and sandboxes may share
 * the host's: that must be neither a path of the host nor the id of a workspace. */
static int bind_nameless(int fd, int parent, const char *temporary, struct error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", parent, temporary);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot bind a socket");
    return 0;
}

static int start_listening(int fd, int backlog, struct error *err)
{
    return listen(fd, backlog) == 0 ? 0
                                    : error_errno(err, ERROR_INTERNAL, errno, "cannot listen on a socket");
}

/* What has the name already, an old socket or anything else, goes. */
static int take_name(int parent, const char *temporary, const char *name, struct error *err)
{
    return renameat(parent, temporary, parent, name) == 0
               ? 0
               : error_errno(err, ERROR_INTERNAL, errno, "cannot name a socket");
}

int io_listen_unix(const char *path, mode_t mode, int backlog, struct error *err)
{
    const char *name;
    struct sockaddr_un address;
    _cleanup_close_ int parent = open_parent(AT_FDCWD, path, O_PATH, &name, err);
    if (parent < 0 || make_address(&address, path, parent, name, err) < 0)
        return -1;
    _cleanup_close_ int fd = new_socket(err);
    if (fd < 0)
        return -1;
    char temporary[8 + TEMPORARY_DIGITS + 1] = ".new-";
    id_random_hex(temporary + strlen(temporary), TEMPORARY_DIGITS);
    if (bind_nameless(fd, parent, temporary, err) < 0)
        return -1;
    if (set_socket_access(parent, temporary, mode, err) == 0 && start_listening(fd, backlog, err) == 0 &&
        take_name(parent, temporary, name, err) == 0)
        return STEAL_FD(fd);
    unlinkat(parent, temporary, 0);
    return -1;
}

static bool means_nobody_listens(int number)
{
    return number == ENOENT || number == ECONNREFUSED || number == EAGAIN || number == ENOTSOCK;
}

int io_connect_unix(const char *path, struct error *err)
{
    const char *name;
    struct sockaddr_un address;
    _cleanup_error_ struct error missing = ERROR_INIT;
    _cleanup_close_ int parent = open_parent(AT_FDCWD, path, O_PATH, &name, &missing);
    if (parent < 0 && missing.code == ERROR_NOT_FOUND)
        return error_set(err, ERROR_UNAVAILABLE, "nobody listens");
    if (parent < 0) {
        error_move(err, &missing);
        return -1;
    }
    _cleanup_close_ int fd = new_socket(err);
    if (fd < 0 || make_address(&address, path, parent, name, err) < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return error_errno(err, means_nobody_listens(errno) ? ERROR_UNAVAILABLE : ERROR_INTERNAL, errno,
                           "cannot connect");
    return STEAL_FD(fd);
}

/* A holder may have removed the file: a lock on a name that is gone locks nobody out. */
static bool is_still_there(int parent, const char *name, int fd)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

static int open_lock(int parent, const char *name, struct error *err)
{
    int made = openat(parent, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made >= 0 && io_inherit_owner(parent, made, err) < 0) {
        close(made);
        return -1;
    }
    int fd =
        made >= 0 ? made : openat(parent, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot open a lock file");
    return fd;
}

int io_lock_file(const char *path, int *ret_fd, struct error *err)
{
    const char *name;
    _cleanup_close_ int parent = open_parent(AT_FDCWD, path, O_PATH, &name, err);
    if (parent < 0)
        return -1;
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        _cleanup_close_ int fd = open_lock(parent, name, err);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
            return errno == EWOULDBLOCK ? 0 : error_errno(err, ERROR_INTERNAL, errno, "cannot lock a file");
        if (is_still_there(parent, name, fd)) {
            *ret_fd = STEAL_FD(fd);
            return 1;
        }
    }
    return error_set(err, ERROR_INTERNAL, "a lock file does not stay in its place");
}

bool io_peer_is_trusted(int fd, const char *directory)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    struct stat info;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || size != sizeof(peer))
        return false;
    if (peer.uid == 0 || peer.uid == geteuid())
        return true;
    return stat(directory, &info) == 0 && peer.uid == info.st_uid;
}
