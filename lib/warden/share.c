/* Finds out which Python packages workspaces have brought for themselves, and has the driver bring the same
 * for all. What it reads lies in homes of workspaces and is written by anybody: names of directories alone
 * are taken, of the form that packages have, so many at most, by handles that follow no link. No file is
 * opened.
 */
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/driver/driver.h"
#include "lib/warden/chore.h"
#include "lib/warden/internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SHARE_STEP_MS 5000
#define CACHE         "home/.cache/uv"
#define NAME_LIMIT    100
#define ENTRIES_LIMIT 20000 /* directory entries looked at in one workspace */
#define WISHES_LIMIT  1000
#define AT_A_TIME     32
#define ROUNDS        16
#define REFUSED_LIMIT (1u << 20)
#define REFUSED_FOR_S 3600
#define RENEW_AFTER_S 86400

/* ---- names ---- */

static bool is_word(const char *text, size_t length, const char *also)
{
    if (length == 0 || length > NAME_LIMIT || !isalnum((unsigned char)*text))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(also, text[i]))
            return false;
    return true;
}

/* "2.3.1-py3-none-any.http" of the folder "iniconfig" is iniconfig==2.3.1. */
static char *package_of(const char *name, const char *file)
{
    size_t version = strcspn(file, "-"), length = strlen(file);
    bool complete = file[version] == '-' && length > 5 && !strcmp(file + length - 5, ".http");
    if (!complete || !is_word(name, strlen(name), "._-") || !is_word(file, version, "._+!"))
        return NULL;
    return xasprintf("%s==%.*s", name, (int)version, file);
}

/* ---- folders ---- */

static int open_below(int at, const char *path)
{
    struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    return (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
}

struct walk {
    json_t *packages; /* a set: names of members */
    size_t entries;
};

typedef void visit_entry(struct walk *walk, int folder, const char *parent, const char *name);

/* Takes the descriptor. */
static void each_entry(struct walk *walk, int fd, const char *parent, visit_entry *visit)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && walk->entries < ENTRIES_LIMIT && (entry = readdir(dir));) {
        walk->entries++;
        if (entry->d_name[0] != '.')
            visit(walk, dirfd(dir), parent, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static void visit_wheel(struct walk *walk, int folder, const char *parent, const char *name)
{
    (void)folder;
    _cleanup_free_ char *package = package_of(parent, name);
    if (package && json_object_size(walk->packages) < WISHES_LIMIT)
        json_object_set_new(walk->packages, package, json_true());
}

static void visit_package(struct walk *walk, int folder, const char *parent, const char *name)
{
    (void)parent;
    each_entry(walk, open_below(folder, name), name, visit_wheel);
}

static void visit_bucket(struct walk *walk, int folder, const char *parent, const char *name)
{
    if (strncmp(name, "wheels-v", 8) != 0 || strlen(name) > 16)
        return;
    _cleanup_free_ char *path = xasprintf("%s/pypi", name);
    each_entry(walk, open_below(folder, path), parent, visit_package);
}

/* Adds what lies in the cache below path to a set. */
static void read_cache(int at, const char *path, json_t *packages)
{
    struct walk walk = { .packages = packages };
    each_entry(&walk, open_below(at, path), "", visit_bucket);
}

/* ---- what is wanted ---- */

/* Who has no network has no wishes either: what the gateway fetches, and what it asks an index for, could
 * carry something out. */
static bool may_wish(const struct chore *c, const char *id)
{
    json_auto_t *record = NULL;
    return id_is_valid(ID_WORKSPACE, id) && state_get_workspace(c->state, id, &record, NULL) == 0 &&
           !json_is_true(json_object_get(json_object_get(record, "spec"), "block_network"));
}

static void read_wishes(const struct chore *c, json_t *wishes)
{
    _cleanup_free_ char *path = config_path(c->config, "workspaces", NULL);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!may_wish(c, entry->d_name))
            continue;
        _cleanup_free_ char *cache = xasprintf("%s/" CACHE, entry->d_name);
        read_cache(dirfd(dir), cache, wishes);
    }
    if (dir)
        closedir(dir);
}

static void read_refused(int store, json_t *packages)
{
    char *save = NULL;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    struct stat status;
    bool is_old = fstatat(store, "refused", &status, AT_SYMLINK_NOFOLLOW) < 0 ||
                  clock_wall_us() / 1000000 - status.st_mtime > REFUSED_FOR_S;
    if (is_old || io_read_file(store, "refused", REFUSED_LIMIT, &text, NULL) < 0)
        return;
    buffer_text(&text);
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        json_object_set_new(packages, line, json_true());
}

/* Up to so many that are wished for and neither there nor refused. */
static size_t choose(const char *store_path, json_t *wishes, const char *ret[static AT_A_TIME])
{
    size_t count = 0;
    const char *name;
    json_t *value;
    json_auto_t *there = json_object();
    _cleanup_close_ int store = open(store_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (store >= 0) {
        read_cache(store, ".", there);
        read_refused(store, there);
    }
    json_object_foreach(wishes, name, value) {
        if (count < AT_A_TIME && !json_object_get(there, name))
            ret[count++] = name;
    }
    return count;
}

/* ---- the chore ---- */

static bool is_full(const struct config *config, const char *store_path, bool *ret_is_old)
{
    char id[32];
    long long packages, mib;
    struct stat status;
    _cleanup_buffer_ struct buffer stamp = BUFFER_INIT;
    _cleanup_free_ char *path = xasprintf("%s/stamp", store_path), *born = xasprintf("%s/born", store_path);
    *ret_is_old = !stat(born, &status) && clock_wall_us() / 1000000 - status.st_mtime > RENEW_AFTER_S;
    return io_read_file(AT_FDCWD, path, 200, &stamp, NULL) == 0 &&
           sscanf(buffer_text(&stamp), "%31s %lld %lld", id, &packages, &mib) == 3 &&
           mib >= config->shared_packages_mib;
}

/* A full one begins anew, with what is used now, but once a day: else wishes without end would be downloads
 * without end. Sandboxes that run see it go, and the new one come. */
static int renew(const struct config *config, struct error *err)
{
    _cleanup_free_ char *folder = config_path(config, "tools", NULL);
    _cleanup_close_ int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return 0;
    log_info("shared packages: full, and older than a day: they begin anew");
    io_remove_tree(at, ".packages.old", NULL);
    if (renameat(at, ".packages", at, ".packages.old") < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot put the shared packages away");
    return io_remove_tree(at, ".packages.old", err);
}

static int bring(const struct chore *c, const struct driver *driver, struct error *err)
{
    const struct config *config = c->config;
    const char *wanted[AT_A_TIME];
    size_t count;
    bool is_old;
    json_auto_t *wishes = json_object();
    _cleanup_free_ char *store = config_path(config, "tools", ".packages");
    read_wishes(c, wishes);
    for (int round = 0; round < ROUNDS && (count = choose(store, wishes, wanted)) > 0; round++) {
        bool full = is_full(config, store, &is_old);
        if (full && !is_old) {
            log_info("shared packages: no room for %zu more; see WORKSPACE_SHARED_PACKAGES_MIB", count);
            return 0;
        }
        if ((full && renew(config, err) < 0) || driver->share_packages(config, wanted, count, err) < 0)
            return -1;
    }
    return 0;
}

/* No lock of a workspace is needed: nothing in there is changed, and what is half written is a wish all the
 * same. */
int chore_share(const struct chore *c, const char *unused, struct error *err)
{
    (void)unused;
    const struct driver *driver = driver_find(c->config->driver);
    _cleanup_free_ char *lock = config_path(c->config, "run", "packages.lock");
    _cleanup_close_ int lock_fd = -1;
    setpriority(PRIO_PROCESS, 0, 10);
    bool offline = strcmp(c->config->network, "none") == 0;
    if (c->config->shared_packages_mib == 0 || offline || driver == NULL || driver->share_packages == NULL)
        return 0;
    int held = io_lock_file(lock, &lock_fd, err);
    int result = held == 1 ? bring(c, driver, err) : held;
    return result < 0 && err->code == ERROR_UNSUPPORTED ? (error_clear(err), 0) : result;
}

/* ---- when ---- */

/* Each archive that comes into a cache changes its folder of archives. */
static uint64_t look_at_cache(int workspaces, const char *id)
{
    struct stat status;
    _cleanup_free_ char *path = xasprintf("%s/" CACHE "/archive-v0", id);
    _cleanup_close_ int fd = open_below(workspaces, path);
    if (fd < 0 || fstat(fd, &status) < 0)
        return 0;
    return ((uint64_t)status.st_mtim.tv_sec * 1000000007u + (uint64_t)status.st_mtim.tv_nsec) ^ status.st_ino;
}

void share_tick(struct warden *w)
{
    int64_t now = clock_boottime_ms();
    _cleanup_error_ struct error err = ERROR_INIT;
    uint64_t seen = 0;
    if (w->share_ms > now || w->share != NULL || w->config->shared_packages_mib == 0)
        return;
    w->share_ms = now + SHARE_STEP_MS;
    _cleanup_free_ char *path = config_path(w->config, "workspaces", NULL);
    _cleanup_close_ int workspaces = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (struct place *p = w->places; p != NULL && workspaces >= 0; p = p->next)
        seen ^= look_at_cache(workspaces, p->id);
    if (seen == w->share_seen || seen == 0)
        return;
    w->share_seen = seen;
    w->share = child_start(w, CHILD_SHARE, NULL, NULL, &err);
    if (w->share == NULL)
        log_error("%s", err.message);
}
