/* Empties the trash of workspaces and logs, whatever lies there and however it is protected. As slowly as the
 * machine's other work wants, while that is fast enough. */
#include "lib/base/trash.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/warden/chore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define IOPRIO_IDLE        (3 << 13) /* ioprio_set(2) */
#define IOPRIO_WHO_PROCESS 1
#define BACKLOG            64 /* entries: with more, a busy machine would fill its disk with what is removed */

static void be_nice(void)
{
    setpriority(PRIO_PROCESS, 0, 10);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
}

static struct dirent *next_entry(DIR *dir)
{
    struct dirent *entry = readdir(dir);
    while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
        entry = readdir(dir);
    return entry;
}

/* A priority that was given up cannot be had back: one round has one. */
static void be_nice_unless_late(DIR *dir)
{
    int entries = 0;
    while (entries <= BACKLOG && next_entry(dir) != NULL)
        entries++;
    rewinddir(dir);
    if (entries <= BACKLOG)
        be_nice();
}

/* How many entries could not be removed. */
static int empty(DIR *dir)
{
    int failed = 0;
    for (struct dirent *entry; (entry = next_entry(dir)) != NULL;) {
        _cleanup_error_ struct error one = ERROR_INIT;
        if (io_remove_tree(dirfd(dir), entry->d_name, &one) == 0)
            continue;
        log_warning("trash: %s", one.message);
        failed++;
    }
    return failed;
}

static int empty_trash_of(const struct chore *c, const char *room, struct error *err)
{
    _cleanup_free_ char *directory = config_path(c->config, room, NULL);
    int fd = trash_open(directory);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return errno == ENOENT ? 0 : error_errno(err, ERROR_INTERNAL, errno, "cannot open the trash");
    be_nice_unless_late(dir);
    int failed = empty(dir);
    closedir(dir);
    return failed == 0 ? 0 : error_set(err, ERROR_INTERNAL, "%d entries could not be removed", failed);
}

int chore_trash(const struct chore *c, const char *unused, struct error *err)
{
    _cleanup_free_ char *lock = config_path(c->config, "run", "trash.lock");
    _cleanup_close_ int lock_fd = -1;
    (void)unused;
    _cleanup_error_ struct error problem = ERROR_INIT;
    int locked = io_lock_file(lock, &lock_fd, &problem);
    if (locked == 0)
        return 0;
    if (locked < 0 &&
        problem.code != ERROR_FULL) { /* no room for a lock: it is only against doing work twice */
        error_move(err, &problem);
        return -1;
    }
    int files = empty_trash_of(c, "workspaces", err);
    return empty_trash_of(c, "events", files < 0 ? NULL : err) < 0 ? -1 : files;
}
