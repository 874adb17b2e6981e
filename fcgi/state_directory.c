/* Makes the state directory for whoever will work in it, and finds out at once what would stop them: a
 * foreign owner, a closed folder above, a disk that cannot be written. Of what lies inside it looks at owners
 * alone. */
#include "fcgi/state_directory.h"

#include "fcgi/options.h"
#include "fcgi/reach.h"
#include "lib/base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { LONGEST_PATH = 1024, NAME_SIZE = 64 };

/* ---- what is wrong with it ---- */

static const char *name_of(uid_t uid, char name[static NAME_SIZE])
{
    const struct passwd *user = getpwuid(uid);

    if (user != NULL)
        snprintf(name, NAME_SIZE, "%.*s", NAME_SIZE - 1, user->pw_name);
    else
        snprintf(name, NAME_SIZE, "uid %u", (unsigned)uid);
    return name;
}

static int cannot_look(const char *path, int number, struct error *err)
{
    _cleanup_free_ char *shut = number == EACCES ? reach_shut_part(path) : NULL;
    char me[NAME_SIZE];

    if (number == ENOENT)
        return error_set(err, ERROR_NOT_FOUND, "there is no state directory at %s", path);
    if (shut != NULL)
        return error_set(err, ERROR_FORBIDDEN,
                         "%s lies below %s, which %s may not enter: choose another place, or chmod o+x '%s'",
                         path, shut, name_of(geteuid(), me), shut);
    return error_errno(err, ERROR_INVALID, number, "%s", path);
}

/* Commands of one workspace's user are told apart by owner, so that only root's own files are given away. */
static int refuse_owner(const char *what, const struct stat *st, const char *wanted, const char *state_dir,
                        struct error *err)
{
    char theirs[NAME_SIZE];

    return error_set(
        err, ERROR_FORBIDDEN,
        "%s belongs to %s, and workers become %s, who could not use it: chown -R --from=%u %s: '%s'", what,
        name_of(st->st_uid, theirs), wanted, (unsigned)st->st_uid, wanted, state_dir);
}

static bool is_empty(const char *path)
{
    DIR *dir = opendir(path);
    bool empty = dir != NULL;

    /* A file system of its own may be mounted there. */
    for (struct dirent *entry; empty && (entry = readdir(dir)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                strcmp(entry->d_name, "lost+found") == 0;
    if (dir != NULL)
        closedir(dir);
    return empty;
}

/* What an earlier start as somebody else left behind. */
static int check_entries(const struct config *config, uid_t owner, const char *owner_name, struct error *err)
{
    static const char *const names[] = { "state",     "state/data.mdb", "state/lock.mdb", "run",
                                         "events",    "workspaces",     "trash",          "token",
                                         "fcgi.sock", "fcgi.sock.lock" };
    struct stat st;

    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        _cleanup_free_ char *path = config_path(config, names[i], NULL);
        if (lstat(path, &st) == 0 && st.st_uid != owner)
            return refuse_owner(path, &st, owner_name, config->state_dir, err);
    }
    return 0;
}

static int check_as_root(const struct config *config, const struct stat *st, struct error *err)
{
    _cleanup_owner_ struct owner owner = { 0 };
    char name[NAME_SIZE];

    if (config_find_owner(config, &owner, err) < 0)
        return -1;
    name_of(owner.uid, name);
    if (st->st_uid == 0 && owner.uid != 0)
        return is_empty(config->state_dir)
                   ? 0
                   : refuse_owner(config->state_dir, st, name, config->state_dir, err);
    return check_entries(config, owner.uid, name, err);
}

static int check_as_user(const struct config *config, const struct stat *st, struct error *err)
{
    char theirs[NAME_SIZE], mine[NAME_SIZE];

    name_of(st->st_uid, theirs);
    name_of(geteuid(), mine);
    if (st->st_uid != geteuid())
        return error_set(err, ERROR_FORBIDDEN, "%s belongs to %s, and this is %s: run it as %s or as root",
                         config->state_dir, theirs, mine, theirs);
    if (access(config->state_dir, R_OK | W_OK | X_OK) < 0)
        return error_errno(err, ERROR_FORBIDDEN, errno, "%s is closed to its owner: chmod u+rwx '%s'",
                           config->state_dir, config->state_dir);
    return check_entries(config, geteuid(), mine, err);
}

static int check(const struct config *config, const struct stat *st, struct error *err)
{
    struct statvfs fs;

    if (!S_ISDIR(st->st_mode))
        return error_set(err, ERROR_INVALID,
                         "%s is not a directory: set WORKSPACE_STATE_DIR (--state) to one",
                         config->state_dir);
    if (strlen(config->state_dir) > LONGEST_PATH)
        return error_set(err, ERROR_INVALID,
                         "the path of the state directory has %zu bytes: choose a shorter one",
                         strlen(config->state_dir));
    if (statvfs(config->state_dir, &fs) == 0 && fs.f_flag & ST_RDONLY)
        return error_set(err, ERROR_INVALID,
                         "%s lies on a file system that is mounted read-only: mount it writable, or choose "
                         "another place",
                         config->state_dir);
    return geteuid() == 0 ? check_as_root(config, st, err) : check_as_user(config, st, err);
}

int state_directory_check(const struct config *config, struct error *err)
{
    struct stat st;

    if (stat(config->state_dir, &st) < 0)
        return cannot_look(config->state_dir, errno, err);
    return check(config, &st, err);
}

int state_directory_find(const struct config *config, struct error *err)
{
    struct stat st;

    if (state_directory_check(config, err) < 0)
        return -1;
    if (stat(config->state_dir, &st) == 0 && is_empty(config->state_dir))
        return error_set(err, ERROR_NOT_FOUND,
                         "%s is empty: run, serve, warden or token add make a state directory of it",
                         config->state_dir);
    return 0;
}

/* ---- making it ---- */

static int give(const char *path, const struct owner *owner, struct error *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fchown(fd, owner->uid, owner->gid) < 0 || fchmod(fd, 0750) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "%s cannot be given to %s", path,
                           owner->name != NULL ? owner->name : "its user");
    return 0;
}

/* What lies above it must let its owner through. */
static int make_above(const char *path, struct error *err)
{
    _cleanup_free_ char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    char me[NAME_SIZE];

    if (*parent == 0 || io_ensure_directory(parent, 0755, err) == 0)
        return 0;
    return error_wrap(err, "%s cannot be made by %s", path, name_of(geteuid(), me));
}

static int make_new(const struct config *config, const struct owner *owner, struct error *err)
{
    const char *path = config->state_dir;
    char me[NAME_SIZE];

    if (make_above(path, err) < 0)
        return -1;
    int number = mkdir(path, 0750) < 0 ? errno : 0;
    if (number != 0 && number != EEXIST)
        return error_errno(
            err, ERROR_INVALID, number,
            "%s cannot be made by %s: make it for that user, or choose another place with --state", path,
            name_of(geteuid(), me));
    if (geteuid() == 0 && owner->uid != 0 && give(path, owner, err) < 0)
        return -1;
    fprintf(stderr, "workspace-fcgi: made the state directory %s of %s\n", path,
            name_of(geteuid() == 0 ? owner->uid : geteuid(), me));
    return 0;
}

int state_directory_make(const struct config *config, struct error *err)
{
    _cleanup_owner_ struct owner owner = { 0 };
    struct stat st;

    if (geteuid() == 0 && config_find_owner(config, &owner, err) < 0)
        return -1;
    if (stat(config->state_dir, &st) < 0)
        return errno == ENOENT ? make_new(config, &owner, err) : cannot_look(config->state_dir, errno, err);
    if (check(config, &st, err) < 0)
        return -1;
    return geteuid() == 0 && st.st_uid == 0 && owner.uid != 0 ? give(config->state_dir, &owner, err) : 0;
}

int state_directory_make_uploads(const struct config *config, struct error *err)
{
    _cleanup_free_ char *path = config_path(config, "uploads", NULL);

    return io_ensure_directory(path, 0700, err);
}

/* ---- using it ---- */

/* The settings' file is read again on a reload. */
int state_directory_reach(const struct config *config, struct error *err)
{
    _cleanup_free_ char *programs = options_program();
    const struct options *options = options_of_process(); /* NULL where a test calls a command */
    const char *file = options != NULL ? options->config : NULL;
    const char *const paths[] = { config->state_dir, programs, file };

    *strrchr(programs, '/') = 0;
    return reach_paths(config, paths, file != NULL && *file == '/' ? 3 : 2, err);
}

int state_directory_enter(const struct config *config, bool make, struct error *err)
{
    if ((make ? state_directory_make(config, err) : state_directory_find(config, err)) < 0 ||
        state_directory_reach(config, err) < 0)
        return -1;
    return config_become_owner(config, err);
}
