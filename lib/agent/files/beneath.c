/* Owns the one call that says it all, and the way by hand where the kernel, or who guards it, has none such.
 */
#include "lib/agent/files/beneath.h"

#include "lib/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

/* The folder that the last name is in, each entered on its own. */
static int enter_folders(int folder_fd, const char **path)
{
    char name[NAME_MAX + 1];
    int at = openat(folder_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; at >= 0 && (slash = strchr(*path, '/')); *path = slash + 1) {
        size_t length = (size_t)(slash - *path);
        if (length > NAME_MAX || (length == 2 && !memcmp(*path, "..", 2))) {
            errno = length > NAME_MAX ? ENAMETOOLONG : EXDEV;
            close(at);
            return -1;
        }
        if (length == 0)
            continue;
        memcpy(name, *path, length);
        name[length] = '\0';
        int next = openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    return at;
}

static int open_by_hand(int folder_fd, const char *path)
{
    _cleanup_close_ int at = enter_folders(folder_fd, &path);
    return at < 0 ? -1 : openat(at, path, FLAGS);
}

static int open_any(int folder_fd, const char *path)
{
    struct open_how how = { .flags = FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    int fd = (int)syscall(SYS_openat2, folder_fd, path, &how, sizeof how);
    bool is_answer = fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN);
    return is_answer ? fd : open_by_hand(folder_fd, path);
}

int beneath_open(int folder_fd, const char *path)
{
    struct stat stat;
    int fd = open_any(folder_fd, path);
    if (fd < 0 || (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}
