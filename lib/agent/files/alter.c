/* Owns what changes names and not contents: folders made, things moved and removed. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/turn.h"
#include "lib/agent/search/names.h"
#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#endif

static int not_the_root(const struct place *place, const char *path, struct error *err)
{
    if (strcmp(place->name, ".") != 0)
        return 0;
    return error_set(err, ERROR_INVALID, "'%.200s' is the workspace itself", path);
}

/* ---- folders ---- */

int file_make_directory(struct file_call_context *call, json_t **ret, struct error *err)
{
    const char *path = file_call_path(call, "path");
    bool parents = file_call_flag(call, "create_parents");
    _cleanup_place_ struct place place = PLACE_INIT;
    if (path_find(&call->root, path, parents ? PATH_MAKE_PARENTS : 0, &place, err) < 0)
        return -1;
    if (place.parents_missing)
        return error_set(err, ERROR_NOT_FOUND, "the folder that '%.200s' lies in does not exist", path);
    bool created = !place.exists && mkdirat(place.folder_fd, place.name, 0777) == 0;
    if (!created && !place.exists && errno != EEXIST)
        return path_fail(err, errno, path, "cannot be made");
    if (place.exists && !S_ISDIR(place.stat.st_mode))
        return error_set(err, ERROR_CONFLICT, "'%.200s' is %s", path, path_kind(place.stat.st_mode));
    *ret = json_pack("{s:b}", "created", created);
    names_put(*ret, "path", place.shown, strlen(place.shown));
    return 0;
}

/* ---- moving ---- */

static int rename_place(const struct place *from, const struct place *to, bool overwrite)
{
    if (overwrite)
        return renameat(from->folder_fd, from->name, to->folder_fd, to->name);
    int rc = renameat2(from->folder_fd, from->name, to->folder_fd, to->name, RENAME_NOREPLACE);
    if (rc == 0 || (errno != EINVAL && errno != ENOSYS) || to->exists)
        return rc;
    return renameat(from->folder_fd, from->name, to->folder_fd, to->name);
}

static int fail_to_move(const char *source, const char *destination, int number, struct error *err)
{
    if (number == EINVAL)
        return error_set(err, ERROR_INVALID, "'%.200s' cannot be moved into itself", source);
    return path_fail(err, number, number == ENOENT ? source : destination, "cannot be moved");
}

/* What is there, and what replaces it, if anything does. */
static int check_destination(const struct place *from, const struct place *to, const char *destination,
                             bool overwrite, struct error *err)
{
    bool folder = S_ISDIR(from->stat.st_mode), onto_folder = S_ISDIR(to->stat.st_mode);
    if (!to->exists || (overwrite && folder == onto_folder))
        return 0;
    if (onto_folder)
        return error_set(err, ERROR_CONFLICT,
                         "'%.200s' is a folder: destination is the new path itself, such as %.200s/%.200s%s",
                         destination, destination, from->name,
                         folder ? "; only with overwrite true, and while it is empty, is it replaced" : "");
    if (folder)
        return error_set(
            err, ERROR_CONFLICT,
            "'%.200s' is %s, which a folder does not replace: remove it first, or choose another "
            "destination",
            destination, path_kind(to->stat.st_mode));
    return error_set(err, ERROR_CONFLICT, "'%.200s' exists already: set overwrite to true to replace it",
                     destination);
}

int file_move(struct file_call_context *call, json_t **ret, struct error *err)
{
    const char *source = file_call_path(call, "source"), *destination = file_call_path(call, "destination");
    bool overwrite = file_call_flag(call, "overwrite");
    _cleanup_place_ struct place from = PLACE_INIT, to = PLACE_INIT;
    if (path_find_existing(&call->root, source, PATH_THE_LINK, &from, err) < 0 ||
        not_the_root(&from, source, err) < 0 ||
        path_find(&call->root, destination, PATH_THE_LINK | PATH_MAKE_PARENTS, &to, err) < 0 ||
        not_the_root(&to, destination, err) < 0 ||
        (!S_ISDIR(from.stat.st_mode) && path_check_file(&to, destination, err) < 0) ||
        check_destination(&from, &to, destination, overwrite, err) < 0 ||
        turn_take_both(call->turns, &from, &to, destination, err) < 0)
        return -1;
    if (rename_place(&from, &to, overwrite) < 0)
        return fail_to_move(source, destination, errno, err);
    *ret = json_pack("{s:b}", "replaced", to.exists);
    names_put(*ret, "source", from.shown, strlen(from.shown));
    names_put(*ret, "destination", to.shown, strlen(to.shown));
    return 0;
}

/* ---- removing ---- */

static int remove_place(const struct place *place, const char *path, bool recursive, struct error *err)
{
    bool folder = S_ISDIR(place->stat.st_mode);
    if (unlinkat(place->folder_fd, place->name, folder ? AT_REMOVEDIR : 0) == 0)
        return 0;
    if (folder && recursive && (errno == ENOTEMPTY || errno == EEXIST))
        return io_remove_tree(place->folder_fd, place->name, err);
    if (folder && (errno == ENOTEMPTY || errno == EEXIST))
        return error_set(err, ERROR_CONFLICT,
                         "'%.200s' is a folder that is not empty: set recursive to true to remove it", path);
    return path_fail(err, errno, path, "cannot be removed");
}

int file_remove(struct file_call_context *call, json_t **ret, struct error *err)
{
    const char *path = file_call_path(call, "path");
    _cleanup_place_ struct place place = PLACE_INIT;
    if (path_find_existing(&call->root, path, PATH_THE_LINK, &place, err) < 0 ||
        not_the_root(&place, path, err) < 0 || turn_take(call->turns, &place, path, err) < 0 ||
        remove_place(&place, path, file_call_flag(call, "recursive"), err) < 0)
        return -1;
    *ret = json_pack("{s:b}", "removed", 1);
    names_put(*ret, "path", place.shown, strlen(place.shown));
    return 0;
}
