/* Owns where the trash of a directory is. When it is emptied, and how slowly, is others' to know. */
#include "lib/base/trash.h"

#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>

int trash_open(const char *directory)
{
    _cleanup_free_ char *path = xasprintf("%s/" TRASH_NAME, directory);
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int trash_put(const char *directory, const char *entry, const char *name, struct error *err)
{
    _cleanup_free_ char *trash = xasprintf("%s/" TRASH_NAME, directory);
    _cleanup_free_ char *from = xasprintf("%s/%s", directory, entry), *to = xasprintf("%s/%s", trash, name);
    if (io_ensure_directory(trash, 0700, err) < 0)
        return -1;
    if (rename(from, to) < 0 && errno != ENOENT)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot be removed");
    return 0;
}
