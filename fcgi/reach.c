/* In a mount namespace of its own, a folder that shuts the workers' user out is covered by an empty one, in
 * which only the wanted paths are mounted again under their old names. Nothing changes for other processes,
 * and no mode is touched. */
#include "fcgi/reach.h"

#include "lib/base/io.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MOST_PATHS = 4 };

/* Its length; 0 = none. */
static size_t shut_length(const char *path)
{
    _cleanup_free_ char *part = xstrdup(path);

    for (size_t i = 1; path[i]; i++) {
        if (path[i] != '/')
            continue;
        part[i] = 0;
        if (access(part, X_OK) < 0 && errno == EACCES)
            return i;
        part[i] = '/';
    }
    return 0;
}

char *reach_shut_part(const char *path)
{
    size_t length = shut_length(path);

    return length > 0 ? xstrndup(path, length) : NULL;
}

char *reach_find_shut(const struct owner *user, const char *path)
{
    size_t length = 0;
    int ends[2], status;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0) {
        length = owner_become(user, NULL) == 0 ? shut_length(path) : 0;
        _exit(write(ends[1], &length, sizeof(length)) < 0 ? 1 : 0);
    }
    close(ends[1]);
    if (pid > 0 && read(ends[0], &length, sizeof(length)) != (ssize_t)sizeof(length))
        length = 0;
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, &status, 0);
    return length > 0 && length < strlen(path) ? xstrndup(path, length) : NULL;
}

static int refuse(const struct owner *user, const char *folder, const char *shut, struct error *err)
{
    return error_set(
        err, ERROR_FORBIDDEN,
        "%s lies below %s, which %s may not enter: choose another place (STATE=/var/lib/workspace-fcgi) "
        "or let others pass (chmod o+x %s)",
        folder, shut, user->name != NULL ? user->name : "its owner", shut);
}

static int cover(const char *shut)
{
    return mount("none", shut, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m");
}

static int make_place(int fd, const char *path)
{
    _cleanup_free_ char *folder = xstrdup(path);
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        return io_ensure_directory(path, 0755, NULL);
    *strrchr(folder, '/') = 0;
    if (io_ensure_directory(folder, 0755, NULL) < 0)
        return -1;
    _cleanup_close_ int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return file < 0 ? -1 : 0;
}

static int bind_again(int fd, const char *path)
{
    char source[40];

    snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
    if (make_place(fd, path) < 0)
        return -1;
    return mount(source, path, NULL, MS_BIND | MS_REC, NULL);
}

static bool seen_before(char *const *shut, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (shut[k] != NULL && strcmp(shut[k], shut[i]) == 0)
            return true;
    return false;
}

/* shut[i] NULL = paths[i] is reachable as it is. */
static int mount_anew(const char *const *paths, char *const *shut, size_t count)
{
    int fds[MOST_PATHS], failed = 0;

    /* Opened in the new namespace and before anything is covered. */
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        fds[i] = shut[i] != NULL ? open(paths[i], O_PATH | O_CLOEXEC) : -1;
    for (size_t i = 0; i < count; i++)
        if (shut[i] != NULL && !seen_before(shut, i))
            failed |= cover(shut[i]);
    for (size_t i = 0; i < count; i++)
        if (shut[i] != NULL)
            failed |= fds[i] < 0 || bind_again(fds[i], paths[i]) < 0;
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return failed ? -1 : 0;
}

int reach_paths(const struct config *config, const char *const *paths, size_t count, struct error *err)
{
    _cleanup_owner_ struct owner user = { 0 };
    char *shut[MOST_PATHS] = { NULL };
    size_t first = count;
    int result = 0;

    if (geteuid() != 0 || count > MOST_PATHS)
        return 0;
    if (config_find_owner(config, &user, err) < 0)
        return -1;
    for (size_t i = count; i > 0 && user.uid != 0; i--)
        if ((shut[i - 1] = reach_find_shut(&user, paths[i - 1])) != NULL)
            first = i - 1;
    if (first < count && mount_anew(paths, shut, count) < 0)
        result = refuse(&user, paths[first], shut[first], err);
    for (size_t i = 0; i < count; i++)
        free(shut[i]);
    return result;
}
