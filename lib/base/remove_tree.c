/* Owns: removing trees. A tree left behind by a sandbox is hostile: deep, without permissions, full of links,
 * with names of any bytes. Directories are therefore never walked into: each one found inside another is
 * moved up to the top of the tree first, so that three descriptors and no memory do for any depth, and
 * neither ".." nor a path is ever used. */
#include "lib/base/io.h"

#include "lib/base/ids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

enum { RENAME_TRIES = 1000 };

static void close_directory(DIR **dir)
{
    if (*dir != NULL)
        closedir(*dir);
}
#define _cleanup_dir_ __attribute__((cleanup(close_directory)))

struct removal {
    int top;       /* the tree's first directory */
    uint64_t next; /* number for the name of the next directory that moves up */
    bool moved;    /* something was removed or moved in this pass */
    int failed;    /* errno of what could not be removed */
};

/* Gives the owner all rights on a directory that denies them; the O_PATH descriptor pins what is changed. */
static void make_accessible(int dirfd, const char *name)
{
    char path[32];
    _cleanup_close_ int fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    chmod(path, 0700);
}

static int open_directory(int dirfd, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dirfd, name, flags);
    if (fd < 0 && errno == EACCES) {
        make_accessible(dirfd, name);
        fd = openat(dirfd, name, flags);
    }
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0 && (info.st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    return fd;
}

static int move_up_once(struct removal *r, int dirfd, const char *name)
{
    for (int tries = 0; tries < RENAME_TRIES; tries++) {
        char target[24];
        snprintf(target, sizeof(target), ".%016llx", (unsigned long long)r->next++);
        if (renameat(dirfd, name, r->top, target) == 0)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return -1;
    }
    return -1;
}

/* Moving a directory changes its "..", so that it must be writable itself. */
static int move_up(struct removal *r, int dirfd, const char *name)
{
    if (move_up_once(r, dirfd, name) == 0)
        return 0;
    if (errno != EACCES)
        return -1;
    make_accessible(dirfd, name);
    return move_up_once(r, dirfd, name);
}

static void note(struct removal *r, int result)
{
    if (result == 0 || errno == ENOENT)
        r->moved = true;
    else
        r->failed = errno;
}

static DIR *list_directory(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL && copy >= 0)
        close(copy);
    if (dir != NULL)
        rewinddir(dir);
    return dir;
}

/* Next entry that is not . or .. */
static const struct dirent *next_entry(DIR *dir)
{
    const struct dirent *entry = readdir(dir);
    while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
        entry = readdir(dir);
    return entry;
}

/* Whether name is a directory that still stands; all else is unlinked. */
static bool is_directory_left(struct removal *r, int dirfd, const char *name, unsigned char type)
{
    if (type == DT_DIR)
        return true;
    int result = unlinkat(dirfd, name, 0);
    if (result < 0 && (errno == EISDIR || errno == EPERM)) {
        struct stat info;
        int unlink_errno = errno;
        if (fstatat(dirfd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode))
            return true;
        errno = unlink_errno;
    }
    note(r, result);
    return false;
}

/* Empties a directory of the top: files are unlinked, directories moved to the top. */
static void empty_directory(struct removal *r, int fd)
{
    _cleanup_dir_ DIR *dir = list_directory(fd);
    if (dir == NULL) {
        r->failed = errno;
        return;
    }
    for (const struct dirent *entry = next_entry(dir); entry != NULL; entry = next_entry(dir)) {
        if (!is_directory_left(r, fd, entry->d_name, entry->d_type))
            continue;
        if (unlinkat(fd, entry->d_name, AT_REMOVEDIR) == 0)
            r->moved = true;
        else
            note(r, move_up(r, fd, entry->d_name));
    }
}

static void remove_directory(struct removal *r, const char *name)
{
    if (unlinkat(r->top, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        r->moved = true;
        return;
    }
    _cleanup_close_ int fd = open_directory(r->top, name);
    if (fd < 0) {
        r->failed = errno;
        return;
    }
    empty_directory(r, fd);
    if (unlinkat(r->top, name, AT_REMOVEDIR) == 0)
        r->moved = true;
    else if (errno != ENOTEMPTY)
        r->failed = errno;
}

/* One look at the top; returns whether entries were seen. */
static bool remove_pass(struct removal *r, DIR *dir)
{
    bool seen = false;
    r->moved = false;
    rewinddir(dir);
    for (const struct dirent *entry = next_entry(dir); entry != NULL; entry = next_entry(dir)) {
        seen = true;
        if (is_directory_left(r, r->top, entry->d_name, entry->d_type))
            remove_directory(r, entry->d_name);
    }
    return seen;
}

/* Passes go on as long as each removes something: readdir(3) may miss entries of a directory that changes.
 * Returns an errno. */
static int empty_top(int top)
{
    struct removal r = { .top = top, .failed = ENOTEMPTY };
    id_random(&r.next, sizeof(r.next));
    _cleanup_dir_ DIR *dir = list_directory(top);
    if (dir == NULL)
        return errno;
    while (remove_pass(&r, dir)) {
        if (!r.moved)
            return r.failed;
        r.failed = ENOTEMPTY;
    }
    return 0;
}

int io_try_remove_tree(int dirfd, const char *name)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    _cleanup_close_ int top = open_directory(dirfd, name);
    if (top < 0)
        return errno;
    int number = empty_top(top);
    if (number == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        number = errno;
    return number;
}

int io_remove_tree(int dirfd, const char *name, struct error *err)
{
    int number = io_try_remove_tree(dirfd, name);
    return number == 0 ? 0 : error_errno(err, ERROR_INTERNAL, number, "cannot remove a tree");
}
