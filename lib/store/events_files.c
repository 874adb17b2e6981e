/* Owns the directory of an events environment: its marker, setting a damaged one aside, throwing one away.
 * Knows nothing of what lies inside. */
#include "lib/store/events_internal.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

char *events_directory(const char *state_dir, const char *workspace_id)
{
    return xasprintf("%s/events/%s", state_dir, workspace_id);
}

int events_damaged(struct error *err, const char *what)
{
    log_error("events: damaged: %s", what);
    return error_set(err, ERROR_INTERNAL, "the log is damaged: %s", what);
}

int writer_damaged(struct events_writer *w, const char *what, struct error *err)
{
    w->damaged = true;
    return events_damaged(err, what);
}

/* A page far behind all others is one that a damaged page has named. */
int writer_failed(struct events_writer *w, int result, const char *what, struct error *err)
{
    if (environment_is_damage(result) || result == EFBIG || result == EINVAL)
        return writer_damaged(w, mdb_strerror(result), err);
    return environment_error(err, result, what);
}

/* ---- the marker ---- */
/* Never half written: a marker that cannot be read hides the logs. Not durable yet, see marker_sync. One that
 * says the same is left as it is, so that ends of a dead keeper can be written on a full disk. */
int marker_write(const char *directory, struct error *err)
{
    char text[CLOCK_BOOT_ID_SIZE];
    if (marker_is_there(directory) && !marker_is_foreign(directory))
        return 0;
    _cleanup_close_ int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "open the log");
    _cleanup_close_ int fd =
        openat(dirfd, MARKER_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0660);
    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "mark the log as open");
    clock_boot_id(text);
    if (io_inherit_owner(dirfd, fd, err) < 0 || io_write_all(fd, text, strlen(text), err) < 0) {
        unlinkat(dirfd, MARKER_NEW, 0);
        return -1;
    }
    if (renameat(dirfd, MARKER_NEW, dirfd, MARKER_NAME) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "mark the log as open");
    return 0;
}

int marker_sync(const char *directory, struct error *err)
{
    _cleanup_close_ int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = dirfd < 0 ? -1 : openat(dirfd, MARKER_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0 || fsync(dirfd) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "mark the log as open");
    return 0;
}

void marker_remove(const char *directory)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, MARKER_NAME);
    unlink(path);
}

bool marker_is_there(const char *directory)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, MARKER_NAME);
    return access(path, F_OK) == 0;
}

/* Cannot be read = not of this boot: looking once too often is harmless. */
bool marker_is_foreign(const char *directory)
{
    char now[CLOCK_BOOT_ID_SIZE], then[CLOCK_BOOT_ID_SIZE] = "";
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, MARKER_NAME);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT;
    ssize_t length = read(fd, then, sizeof then - 1);
    clock_boot_id(now);
    return length <= 0 || now[0] == '\0' || strcmp(now, then) != 0;
}

/* ---- whole environments ---- */
int events_set_aside(const char *directory, const char *why, struct error *err)
{
    char stamp[32];
    struct tm parts;
    time_t now = (time_t)clock_wall_s();
    gmtime_r(&now, &parts);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &parts);
    _cleanup_free_ char *aside = xasprintf("%s.damaged-%s", directory, stamp);
    /* Another one in the same second gets a number. */
    for (int i = 2; access(aside, F_OK) == 0 && i < 100; i++) {
        free(aside);
        aside = xasprintf("%s.damaged-%s.%d", directory, stamp, i);
    }
    if (rename(directory, aside) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "set the damaged log aside");
    log_error("events: DAMAGED LOG SET ASIDE (%s): the execs of this workspace and their output are lost to "
              "clients, the files are "
              "kept as %s",
              why, aside);
    return 0;
}

/* The environment and what was set aside of it. */
static bool is_of_workspace(const char *name, const char *workspace_id)
{
    size_t length = strlen(workspace_id);
    return strncmp(name, workspace_id, length) == 0 &&
           (name[length] == '\0' || strncmp(name + length, ".damaged-", 9) == 0);
}

static int throw_away(const char *events, const char *name, struct error *err)
{
    char random[9];
    id_random_hex(random, 8);
    _cleanup_free_ char *target = xasprintf("%s.events-%s", name, random);
    return trash_put(events, name, target, err) == 0 ? 0 : error_wrap(err, "the log");
}

static void close_directory(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

static int throw_all_away(const char *events, const char *workspace_id, struct error *err)
{
    __attribute__((cleanup(close_directory))) DIR *directory = opendir(events);
    if (!directory)
        return errno == ENOENT ? 0 : error_errno(err, ERROR_INTERNAL, errno, "open the logs");
    for (struct dirent *entry; (entry = readdir(directory));)
        if (is_of_workspace(entry->d_name, workspace_id) && throw_away(events, entry->d_name, err) < 0)
            return -1;
    return 0;
}

int events_discard(const char *state_dir, const char *workspace_id, struct error *err)
{
    if (!id_is_valid(ID_WORKSPACE, workspace_id))
        return error_set(err, ERROR_NOT_FOUND, "there is no workspace %.64s",
                         workspace_id ? workspace_id : "");
    _cleanup_free_ char *events = xasprintf("%s/events", state_dir);
    return throw_all_away(events, workspace_id, err);
}
