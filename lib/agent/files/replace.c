/* Owns the steps between a content and its name. A process that is killed on the way leaves nothing: the
 * content has no name until the last two steps; where a file system has no nameless files, it has one that
 * starts with a dot and ends in .tmp. */
#include "lib/agent/files/replace.h"

#include "lib/agent/files/turn.h"
#include "lib/base/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define MODE_NEW 0666 /* less the umask */

static void name_temporary(struct replacement *r)
{
    char random[17];
    id_random_hex(random, 16);
    snprintf(r->temporary, sizeof r->temporary, ".ws-%s.tmp", random);
}

static void end_turn(struct replacement *r)
{
    if (r->turns >= 0)
        turn_end(r->turns);
    r->turns = -1;
}

void replacement_abandon(struct replacement *r)
{
    end_turn(r);
    if (r->temporary[0] && r->place)
        unlinkat(r->place->folder_fd, r->temporary, 0);
    memory_close_fd(&r->fd);
    memory_close_fd(&r->folder_fd);
    *r = (struct replacement)REPLACEMENT_INIT;
}

static int open_new(struct replacement *r)
{
    int folder = r->place->folder_fd;
    int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE_NEW);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    name_temporary(r);
    fd = openat(folder, r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE_NEW);
    if (fd < 0)
        r->temporary[0] = '\0';
    return fd;
}

/* Where the owner cannot be kept, for who is not root, the group may be. */
static int keep_owner_and_mode(struct replacement *r)
{
    const struct stat *old = &r->place->stat;
    struct stat now;
    if (!r->place->exists || fstat(r->fd, &now) < 0)
        return 0;
    if ((now.st_uid != old->st_uid || now.st_gid != old->st_gid) &&
        fchown(r->fd, old->st_uid, old->st_gid) < 0 && fchown(r->fd, (uid_t)-1, old->st_gid) < 0)
        errno = 0;
    return fchmod(r->fd, old->st_mode & 07777);
}

int replacement_begin(struct replacement *r, const struct place *place, const char *path, struct error *err)
{
    r->place = place;
    r->path = path;
    r->folder_fd = openat(place->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r->fd = open_new(r);
    if (r->fd < 0 || keep_owner_and_mode(r) < 0)
        return path_fail(err, errno, path, "cannot be written");
    return 0;
}

/* The nameless file gets this one. */
static int give_name(struct replacement *r, const char *name)
{
    char self[40];
    int folder = r->place->folder_fd;
    if (r->temporary[0])
        return linkat(folder, r->temporary, folder, name, 0);
    snprintf(self, sizeof self, "/proc/self/fd/%d", r->fd);
    if (linkat(AT_FDCWD, self, folder, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return errno == ENOENT ? linkat(r->fd, "", folder, name, AT_EMPTY_PATH) : -1;
}

static int put_in_place(struct replacement *r, bool exclusive)
{
    int folder = r->place->folder_fd;
    if (exclusive || !r->place->exists) {
        if (give_name(r, r->place->name) == 0)
            return 0;
        if (exclusive || errno != EEXIST)
            return -1;
    }
    if (!r->temporary[0]) {
        struct replacement named = *r;
        name_temporary(&named);
        if (give_name(r, named.temporary) < 0)
            return -1;
        memcpy(r->temporary, named.temporary, sizeof r->temporary);
    }
    if (renameat(folder, r->temporary, folder, r->place->name) < 0)
        return -1;
    r->temporary[0] = '\0';
    return 0;
}

/* The slow step comes before the turn: others wait for a look and a rename at most. */
int replacement_take_turn(struct replacement *r, int turns, struct error *err)
{
    if (fsync(r->fd) < 0)
        return path_fail(err, errno, r->path, "cannot be written");
    if (turn_take(turns, r->place, r->path, err) < 0)
        return -1;
    r->turns = turns;
    return 0;
}

int replacement_finish(struct replacement *r, bool exclusive, struct error *err)
{
    if (put_in_place(r, exclusive) < 0)
        return path_fail(err, errno, r->path, "cannot be written");
    end_turn(r);
    if (r->folder_fd >= 0 && fsync(r->folder_fd) < 0 && errno != EINVAL)
        return path_fail(err, errno, r->path, "cannot be written");
    return 0;
}
