/* Files, directories and sockets, close-on-exec throughout. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "lib/base/buffer.h"
#include "lib/base/error.h"

#include <sys/types.h>

int io_write_all(int fd, const void *data, size_t length, struct error *err);
/* Reads a whole file of at most limit bytes, else ERROR_TOO_LARGE. dirfd as in openat(2). */
int io_read_file(int dirfd, const char *path, size_t limit, struct buffer *ret, struct error *err);
/* Temporary file in the same directory, fsync, rename, fsync of the directory. */
int io_replace_file(int dirfd, const char *path, const void *data, size_t length, mode_t mode,
                    struct error *err);
/* mkdir -p with mode for what is missing; where euid is 0 new directories get the owner of their parent. */
int io_ensure_directory(const char *path, mode_t mode, struct error *err);
/* Where euid is 0: gives fd the owner and group of the directory dirfd. Else nothing. */
int io_inherit_owner(int dirfd, int fd, struct error *err);
/* Removes the tree name below dirfd, never following a symbolic link, whatever modes its directories have,
 * without recursion on the stack. A missing tree is fine. */
int io_remove_tree(int dirfd, const char *name, struct error *err);
/* The same, for who knows better what a failure means: 0, or the errno. ENOTDIR, ENOTEMPTY, ENOENT, EEXIST,
 * ELOOP and EINVAL say that somebody changed the tree meanwhile. */
int io_try_remove_tree(int dirfd, const char *name);
int io_set_nonblocking(int fd, struct error *err);
/* UNIX stream sockets, close-on-exec and non-blocking; paths over 60 bytes go through /proc/self/fd of their
 * directory. listen: takes the place of an old one (hold a lock before), mode and owner as the directory's. */
int io_listen_unix(const char *path, mode_t mode, int backlog, struct error *err);
int io_connect_unix(const char *path, struct error *err); /* ERROR_UNAVAILABLE where nobody listens */
/* 1 = got it: *ret_fd holds the lock until closed; 0 = another holds it; -1 = error. flock(2). Creates the
 * file. */
int io_lock_file(const char *path, int *ret_fd, struct error *err);
/* Credentials of the peer: its uid is 0, our own, or the owner of directory. */
bool io_peer_is_trusted(int fd, const char *directory);

#endif
