/* Owns giving up root: a process started as root becomes the owner of the state directory. Knows only the two
 * settings that say who that is. */
#include "lib/config/config.h"

#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

struct identity {
    uid_t uid;
    gid_t gid;
    char *name; /* NULL where the number has none */
};

static void identity_clear(struct identity *identity)
{
    free(identity->name);
}

static int find_user(const char *name, struct identity *ret, struct error *err)
{
    struct passwd entry, *found = NULL;
    char space[16384];
    int result = getpwnam_r(name, &entry, space, sizeof space, &found);
    if (result != 0)
        return error_errno(err, ERROR_INTERNAL, result, "look up the user %.64s", name);
    if (!found)
        return error_set(err, ERROR_INVALID, "WORKSPACE_USER: there is no user %.64s", name);
    *ret = (struct identity){ entry.pw_uid, entry.pw_gid, xstrdup(entry.pw_name) };
    return 0;
}

/* A number without a name is an owner too. */
static int find_owner(const struct stat *st, struct identity *ret)
{
    struct passwd entry, *found = NULL;
    char space[16384];
    getpwuid_r(st->st_uid, &entry, space, sizeof space, &found);
    *ret = (struct identity){ st->st_uid, st->st_gid, found ? xstrdup(entry.pw_name) : NULL };
    return 0;
}

/* What lies above it must let its owner through. */
static int make_directories(const char *path, struct error *err)
{
    _cleanup_free_ char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    if (*parent && io_ensure_directory(parent, 0755, err) < 0)
        return -1;
    return io_ensure_directory(path, 0770, err);
}

static int make_state_directory(const struct config *config, const struct identity *identity,
                                struct error *err)
{
    if (make_directories(config->state_dir, err) < 0)
        return error_wrap(err, "WORKSPACE_STATE_DIR");
    _cleanup_close_ int fd = open(config->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fchown(fd, identity->uid, identity->gid) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "WORKSPACE_STATE_DIR");
    return 0;
}

static int find_identity(const struct config *config, struct identity *ret, struct error *err)
{
    struct stat st;
    if (stat(config->state_dir, &st) == 0)
        return find_owner(&st, ret);
    if (errno != ENOENT)
        return error_errno(err, ERROR_INTERNAL, errno, "WORKSPACE_STATE_DIR");
    return find_user(config->user, ret, err) < 0 ? -1 : make_state_directory(config, ret, err);
}

static int become(const struct identity *identity, struct error *err)
{
    int groups = identity->name ? initgroups(identity->name, identity->gid) : setgroups(0, NULL);
    if (groups < 0 || setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
        setresuid(identity->uid, identity->uid, identity->uid) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "become the owner of the state directory");
    return 0;
}

int config_become_owner(const struct config *config, struct error *err)
{
    __attribute__((cleanup(identity_clear))) struct identity identity = { 0 };
    if (geteuid() != 0)
        return make_directories(config->state_dir, err);
    if (find_identity(config, &identity, err) < 0)
        return -1;
    return identity.uid == 0 ? 0 : become(&identity, err);
}
