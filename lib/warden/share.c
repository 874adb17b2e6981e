/* Finds out which Python packages workspaces have brought for themselves, and has the driver bring the same
 * for all. What it reads lies in homes of workspaces and is written by anybody: names of directories alone
 * are taken, of the form that packages have, so many at most, by handles that follow no link. No file is
 * opened. Who was asked for least comes first, so that no workspace keeps another waiting.
 */
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/driver/driver.h"
#include "lib/warden/allowance.h"
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
#define AT_A_TIME     32
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
    json_t *packages;    /* a set: names of members */
    const json_t *known; /* not these; may be NULL */
    size_t limit, entries;
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
    if (package && !json_object_get(walk->known, package) && json_object_size(walk->packages) < walk->limit)
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
static void read_cache(int at, const char *path, const json_t *known, size_t limit, json_t *packages)
{
    struct walk walk = { .packages = packages, .known = known, .limit = limit };
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

/* Lines of "time name": each is refused for an hour from its own time on. The sandbox that brings packages
 * writes them. */
static void read_refused(int store, json_t *packages)
{
    char *save = NULL;
    int64_t now = clock_wall_us() / 1000000;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    if (io_read_file(store, "refused", REFUSED_LIMIT, &text, NULL) < 0)
        return;
    buffer_text(&text);
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *name = NULL;
        int64_t at = strtoll(line, &name, 10);
        if (*name == ' ' && at <= now && at > now - REFUSED_FOR_S)
            json_object_set_new(packages, name + 1, json_true());
    }
}

static int open_store(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

struct wisher {
    struct wisher *next;
    char *ws;
    json_t *wishes; /* a set */
    size_t left;    /* that may still be asked for in this round */
};

static void wishers_clear(struct wisher **first)
{
    for (struct wisher *w = *first, *next; w; w = next) {
        next = w->next;
        json_decref(w->wishes);
        free(w->ws);
        free(w);
    }
    *first = NULL;
}

/* What is there, was refused, or was asked for by this chore: no wish. New reference. */
static json_t *read_known(const char *store_path, json_t *asked)
{
    json_t *known = json_copy(asked);
    _cleanup_close_ int store = open_store(store_path);
    if (store >= 0) {
        read_cache(store, ".", NULL, ENTRIES_LIMIT, known);
        read_refused(store, known);
    }
    return known;
}

/* Of each workspace as many as one round could take. */
static struct wisher *read_wishes(const struct chore *c, const json_t *known, const json_t *allowance)
{
    struct wisher *first = NULL;
    _cleanup_free_ char *path = config_path(c->config, "workspaces", NULL);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t left = allowance_left(allowance, entry->d_name);
        if (left == 0 || !may_wish(c, entry->d_name))
            continue;
        _cleanup_free_ char *cache = xasprintf("%s/" CACHE, entry->d_name);
        struct wisher *w = xcalloc(1, sizeof(*w));
        *w = (struct wisher){
            .next = first, .ws = xstrdup(entry->d_name), .wishes = json_object(), .left = left
        };
        read_cache(dirfd(dir), cache, known, AT_A_TIME, w->wishes);
        first = w;
    }
    if (dir)
        closedir(dir);
    return first;
}

static struct wisher *least_served(struct wisher *first, const json_t *allowance)
{
    struct wisher *found = NULL;
    for (struct wisher *w = first; w; w = w->next)
        if (w->left > 0 && json_object_size(w->wishes) > 0 &&
            (!found || allowance_asked(allowance, w->ws) < allowance_asked(allowance, found->ws)))
            found = w;
    return found;
}

/* Takes up to so many out of the wishes, and charges them. asked: name -> whose wish, of all rounds; it keeps
 * the names. */
static size_t choose(struct wisher *first, json_t *allowance, json_t *asked,
                     const char *ret[static AT_A_TIME])
{
    size_t count = 0;
    for (struct wisher *w; count < AT_A_TIME && (w = least_served(first, allowance));) {
        const char *wish = json_object_iter_key(json_object_iter(w->wishes));
        if (!json_object_get(asked, wish)) {
            json_object_set_new(asked, wish, json_string(w->ws));
            ret[count++] = json_object_iter_key(json_object_iter_at(asked, wish));
            allowance_charge(allowance, w->ws, 1, 0);
            w->left--;
        }
        json_object_del(w->wishes, wish);
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

/* Whose wishes were refused pays for it. */
static void charge_refused(const char *store_path, const char *const *wanted, size_t count,
                           const json_t *asked, json_t *allowance)
{
    json_auto_t *refused = json_object();
    _cleanup_close_ int store = open_store(store_path);
    if (store >= 0)
        read_refused(store, refused);
    for (size_t i = 0; i < count; i++)
        if (json_object_get(refused, wanted[i]))
            allowance_charge(allowance, json_string_value(json_object_get(asked, wanted[i])), 0, 1);
}

/* What is asked for is counted before, and stays so if this process ends amid it. */
static int ask(const struct config *config, const char *store, const char *const *wanted, size_t count,
               const json_t *asked, json_t *allowance, struct error *err)
{
    const struct driver *driver = driver_find(config->driver);
    if (allowance_save(config, allowance, err) < 0)
        return -1;
    int result = driver->share_packages(config, wanted, count, err);
    charge_refused(store, wanted, count, asked, allowance);
    return allowance_save(config, allowance, result < 0 ? NULL : err) < 0 ? -1 : result;
}

/* Reads all of it anew, so that who comes while others are served is served next. asked: as in choose. 0 =
 * nothing is left to do. */
static int bring_some(const struct chore *c, const char *store, json_t *asked, struct error *err)
{
    const struct config *config = c->config;
    const char *wanted[AT_A_TIME];
    bool is_old;
    json_auto_t *allowance = allowance_load(config), *known = read_known(store, asked);
    __attribute__((cleanup(wishers_clear))) struct wisher *wishers = read_wishes(c, known, allowance);
    size_t count = choose(wishers, allowance, asked, wanted);
    bool full = count > 0 && is_full(config, store, &is_old);
    if (full && !is_old)
        log_info("shared packages: no room for %zu more; see WORKSPACE_SHARED_PACKAGES_MIB", count);
    if (count == 0 || (full && !is_old))
        return 0;
    if ((full && renew(config, err) < 0) || ask(config, store, wanted, count, asked, allowance, err) < 0)
        return -1;
    return 1;
}

/* Each round takes of somebody's allowance, so that it ends. */
static int bring(const struct chore *c, struct error *err)
{
    int result;
    json_auto_t *asked = json_object();
    _cleanup_free_ char *store = config_path(c->config, "tools", ".packages");
    while ((result = bring_some(c, store, asked, err)) > 0)
        ;
    return result;
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
    int result = held == 1 ? bring(c, err) : held;
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
