/* Owns giving up root: whom a process started as root becomes, and becoming it. Knows only the two settings
 * that say who that is. */
#include "lib/config/config.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

void owner_clear(struct owner *owner)
{
    free(owner->name);
    *owner = (struct owner){ 0 };
}

static int find_user(const char *name, struct owner *ret, struct error *err)
{
    struct passwd entry, *found = NULL;
    char space[16384];
    int result = getpwnam_r(name, &entry, space, sizeof space, &found);
    if (result != 0)
        return error_errno(err, ERROR_INTERNAL, result, "look up the user %.64s", name);
    if (!found)
        return error_set(err, ERROR_INVALID, "WORKSPACE_USER: there is no user %.64s", name);
    *ret = (struct owner){ entry.pw_uid, entry.pw_gid, xstrdup(entry.pw_name) };
    return 0;
}

/* A number without a name is an owner too. The directory's group may be one that a web server shares; root's
 * is nobody's to have. */
static void take_owner(const struct stat *st, struct owner *ret)
{
    struct passwd entry, *found = NULL;
    char space[16384];
    if (getpwuid_r(st->st_uid, &entry, space, sizeof space, &found) != 0)
        found = NULL;
    gid_t gid = st->st_gid == 0 && found ? entry.pw_gid : st->st_gid;
    *ret = (struct owner){ st->st_uid, gid, found ? xstrdup(entry.pw_name) : NULL };
}

int config_find_owner(const struct config *config, struct owner *ret, struct error *err)
{
    struct stat st;
    int result = stat(config->state_dir, &st);
    if (result < 0 && errno != ENOENT)
        return error_errno(err, ERROR_INTERNAL, errno, "%s", config->state_dir);
    if (result < 0 || st.st_uid == 0)
        return find_user(config->user, ret, err);
    take_owner(&st, ret);
    return 0;
}

int owner_become(const struct owner *owner, struct error *err)
{
    int groups = owner->name ? initgroups(owner->name, owner->gid) : setgroups(0, NULL);
    if (groups < 0 || setresgid(owner->gid, owner->gid, owner->gid) < 0 ||
        setresuid(owner->uid, owner->uid, owner->uid) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "become the owner of the state directory");
    return 0;
}

int config_become_owner(const struct config *config, struct error *err)
{
    _cleanup_owner_ struct owner owner = { 0 };
    if (geteuid() != 0)
        return 0;
    if (config_find_owner(config, &owner, err) < 0)
        return -1;
    return owner.uid == 0 ? 0 : owner_become(&owner, err);
}
