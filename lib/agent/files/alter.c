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

/* What somebody changes meanwhile is looked at again, so often. */
enum { TRIES = 20 };

static int not_the_root(const struct place *place, const char *path, struct error *err)
{
    if (strcmp(place->name, ".") != 0)
        return 0;
    return error_set(err, ERROR_INVALID, "'%.200s' is the workspace itself", path);
}

static int keeps_changing(const char *path, struct error *err)
{
    return error_set(err, ERROR_CONFLICT, "'%.200s' is changed by others again and again: try later", path);
}

/* ---- folders ---- */

/* 1 = made, 2 = somebody changed what is there meanwhile. */
static int make(struct file_call_context *call, const char *path, struct place *place, struct error *err)
{
    bool parents = file_call_flag(call, "create_parents");
    place_clear(place);
    if (path_find(&call->root, path, parents ? PATH_MAKE_PARENTS : 0, place, err) < 0)
        return -1;
    if (place->parents_missing)
        return error_set(err, ERROR_NOT_FOUND, "the folder that '%.200s' lies in does not exist", path);
    if (place->exists && !S_ISDIR(place->stat.st_mode))
        return error_set(err, ERROR_CONFLICT, "'%.200s' is %s", path, path_kind(place->stat.st_mode));
    if (place->exists)
        return 0;
    if (mkdirat(place->folder_fd, place->name, 0777) == 0)
        return 1;
    return errno == EEXIST || (errno == ENOENT && parents) ? 2
                                                           : path_fail(err, errno, path, "cannot be made");
}

int file_make_directory(struct file_call_context *call, json_t **ret, struct error *err)
{
    const char *path = file_call_path(call, "path");
    _cleanup_place_ struct place place = PLACE_INIT;
    int made = 2;
    for (int tries = 0; made == 2 && tries < TRIES; tries++)
        made = make(call, path, &place, err);
    if (made == 2)
        return keeps_changing(path, err);
    if (made < 0)
        return -1;
    *ret = json_pack("{s:b}", "created", made);
    names_put(*ret, "path", place.shown, strlen(place.shown));
    return 0;
}

/* ---- moving ---- */

static bool is_same_place(const struct place *a, const struct place *b)
{
    struct stat folder_a, folder_b;
    return strcmp(a->name, b->name) == 0 && fstat(a->folder_fd, &folder_a) == 0 &&
           fstat(b->folder_fd, &folder_b) == 0 && folder_a.st_ino == folder_b.st_ino &&
           folder_a.st_dev == folder_b.st_dev;
}

/* rename(2) does nothing where both are names of one file: the one that is moved from has to go. */
static int leave_one_name(const struct place *from, const struct place *to)
{
    struct stat old, new;
    if (fstatat(from->folder_fd, from->name, &old, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    bool is_one = fstatat(to->folder_fd, to->name, &new, AT_SYMLINK_NOFOLLOW) == 0 &&
                  old.st_ino == new.st_ino && old.st_dev == new.st_dev && !is_same_place(from, to);
    return is_one ? unlinkat(from->folder_fd, from->name, 0) : 0;
}

static int rename_place(const struct place *from, const struct place *to, bool overwrite)
{
    if (overwrite)
        return renameat(from->folder_fd, from->name, to->folder_fd, to->name) < 0 ? -1
                                                                                  : leave_one_name(from, to);
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

/* Whether somebody changed what a name stands for, or what is below it, between two steps. */
static bool is_change(int number)
{
    static const int changes[] = { ENOENT, ENOTDIR, EISDIR, ENOTEMPTY, EEXIST, ELOOP, EINVAL };
    for (size_t i = 0; i < N_ELEMENTS(changes); i++)
        if (changes[i] == number)
            return true;
    return false;
}

/* What the name stands for now, whatever it was. Returns an errno. */
static int remove_once(const struct place *place, bool recursive)
{
    if (unlinkat(place->folder_fd, place->name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return errno;
    if (unlinkat(place->folder_fd, place->name, AT_REMOVEDIR) == 0)
        return 0;
    return recursive && (errno == ENOTEMPTY || errno == EEXIST)
               ? io_try_remove_tree(place->folder_fd, place->name)
               : errno;
}

static int remove_place(const struct place *place, const char *path, bool recursive, struct error *err)
{
    for (int tries = 0; tries < TRIES; tries++) {
        int number = remove_once(place, recursive);
        if (number == 0 || (number == ENOENT && tries > 0))
            return 0;
        if (!recursive && (number == ENOTEMPTY || number == EEXIST))
            return error_set(err, ERROR_CONFLICT,
                             "'%.200s' is a folder that is not empty: set recursive to true to remove it",
                             path);
        if (number == ENOENT || !is_change(number))
            return path_fail(err, number, path, "cannot be removed");
    }
    return keeps_changing(path, err);
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
