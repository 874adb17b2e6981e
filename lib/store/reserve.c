/* Owns the file `reserve` beside the state store: blocks that are really allocated and hold nothing. Knows
 * nothing of what is stored. */
#include "lib/store/reserve.h"

#include "lib/base/io.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define NAME     "reserve"
#define NAME_NEW "reserve.new" /* taken away where it could not be filled, or somebody died over it */

static bool has_room(int dirfd)
{
    struct statvfs fs;
    return fstatvfs(dirfd, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= RESERVE_BYTES + RESERVE_ROOM;
}

static bool is_kept(int dirfd)
{
    struct stat st;
    return fstatat(dirfd, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size >= RESERVE_BYTES;
}

static int fill(int dirfd)
{
    unlinkat(dirfd, NAME_NEW, 0);
    _cleanup_close_ int fd =
        openat(dirfd, NAME_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
    if (fd < 0)
        return errno;
    int result = posix_fallocate(fd, 0, RESERVE_BYTES);
    return result == 0 && io_inherit_owner(dirfd, fd, NULL) < 0 ? EPERM : result;
}

void reserve_keep(const char *directory)
{
    _cleanup_close_ int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0 || is_kept(dirfd) || !has_room(dirfd))
        return;
    int result = fill(dirfd);
    if (result == 0 && renameat(dirfd, NAME_NEW, dirfd, NAME) < 0)
        result = errno;
    if (result == 0 || result == EEXIST || result == ENOENT) /* another process makes it just now */
        return;
    log_warning("state: no room can be kept back for removals on a full disk: %s", error_errno_name(result));
    unlinkat(dirfd, NAME_NEW, 0);
}

bool reserve_release(const char *directory)
{
    _cleanup_free_ char *path = xasprintf("%s/" NAME, directory);
    if (unlink(path) < 0)
        return false;
    log_warning("state: the disk is full: the room kept back for removals is used");
    return true;
}
