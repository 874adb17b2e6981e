/* Has the driver bring for all what workspaces have brought for themselves. A batch is one principal's; who
 * took least of the time is next, so that nobody's packages keep another one's waiting, whatever they are.
 */
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/driver/driver.h"
#include "lib/warden/allowance.h"
#include "lib/warden/internal.h"
#include "lib/warden/wishes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SHARE_STEP_MS 5000
#define REFUSED_LIMIT (1u << 20)
#define REFUSED_FOR_S 3600
#define RENEW_AFTER_S 86400

/* ---- what is there ---- */

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

/* What is there, was refused, or was tried by this chore: no wish. New reference. */
static json_t *read_known(const char *store_path, json_t *tried)
{
    json_t *known = json_copy(tried);
    _cleanup_close_ int store = open_store(store_path);
    if (store >= 0) {
        wishes_read_cache(store, ".", NULL, WISHES_ENTRIES_LIMIT, known);
        read_refused(store, known);
    }
    return known;
}

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

/* ---- the chore ---- */

/* Of one chore: sets of names and of principals. */
struct tally {
    json_t *tried, *failed;
};

static void tally_clear(struct tally *t)
{
    json_decref(t->tried);
    json_decref(t->failed);
}

static struct wisher *find_next(struct wisher *first, const json_t *allowance, const struct tally *t)
{
    struct wisher *found = NULL;
    for (struct wisher *w = first; w; w = w->next)
        if (json_object_size(w->names) > 0 && !json_object_get(t->failed, w->principal) &&
            (!found || allowance_took(allowance, w->principal) < allowance_took(allowance, found->principal)))
            found = w;
    return found;
}

static size_t list_names(const struct wisher *w, const char *ret[static WISHES_AT_A_TIME])
{
    size_t count = 0;
    for (void *i = json_object_iter(w->names); i && count < WISHES_AT_A_TIME;
         i = json_object_iter_next(w->names, i))
        ret[count++] = json_object_iter_key(i);
    return count;
}

static int count_refused(const char *store_path, const char *const *names, size_t count)
{
    int sum = 0;
    json_auto_t *refused = json_object();
    _cleanup_close_ int store = open_store(store_path);
    if (store >= 0)
        read_refused(store, refused);
    for (size_t i = 0; i < count; i++)
        sum += json_object_get(refused, names[i]) != NULL;
    return sum;
}

/* All is charged before, and stays so if this process ends amid it; what was not tried is given back. The
 * last one of a batch that failed is paid for like a refusal. */
static int ask(const struct config *config, const char *store, const struct wisher *w, json_t *allowance,
               struct tally *t, struct error *err)
{
    const char *names[WISHES_AT_A_TIME];
    size_t count = list_names(w, names), tried = 0;
    struct charge charge = { .asked = (int)count };
    allowance_charge(allowance, w->principal, &charge);
    if (allowance_save(config, allowance, err) < 0)
        return -1;
    int64_t begun = clock_boottime_ms();
    int result = driver_find(config->driver)->share_packages(config, names, count, &tried, err);
    for (size_t i = 0; i < tried; i++)
        json_object_set_new(t->tried, names[i], json_true());
    charge = (struct charge){ .asked = (int)tried - (int)count,
                              .refused = count_refused(store, names, tried) + (result < 0 && tried > 0),
                              .took_ms = clock_boottime_ms() - begun };
    allowance_charge(allowance, w->principal, &charge);
    if (allowance_save(config, allowance, result < 0 ? NULL : err) < 0)
        return -1;
    return result < 0 ? -1 : tried > 0;
}

/* A batch that fails amid its packages is over for its principal, not for others. */
static int ask_or_pass_over(const struct config *config, const char *store, const struct wisher *w,
                            json_t *allowance, struct tally *t, struct error *err)
{
    size_t before = json_object_size(t->tried);
    _cleanup_error_ struct error failure = ERROR_INIT;
    int result = ask(config, store, w, allowance, t, &failure);
    if (result >= 0)
        return result;
    if (json_object_size(t->tried) == before)
        return error_move(err, &failure), -1;
    log_error("%s", failure.message);
    json_object_set_new(t->failed, w->principal, json_true());
    return 1;
}

/* Reads all of it anew, so that who comes while others are served is served next. 0 = nothing is left to do.
 */
static int bring_some(const struct chore *c, const char *store, struct tally *t, struct error *err)
{
    bool is_old;
    const struct config *config = c->config;
    json_auto_t *allowance = allowance_load(config), *known = read_known(store, t->tried);
    __attribute__((cleanup(wishes_clear))) struct wisher *wishers = wishes_read(c, known, allowance);
    const struct wisher *next = find_next(wishers, allowance, t);
    bool full = next && is_full(config, store, &is_old);
    if (full && !is_old)
        log_info("shared packages: no room for %zu more; see WORKSPACE_SHARED_PACKAGES_MIB",
                 json_object_size(next->names));
    if (!next || (full && !is_old))
        return 0;
    if (full && renew(config, err) < 0)
        return -1;
    return ask_or_pass_over(config, store, next, allowance, t, err);
}

/* Each round takes of somebody's allowance, so that it ends. */
static int bring(const struct chore *c, struct error *err)
{
    int result;
    __attribute__((cleanup(tally_clear))) struct tally t = { json_object(), json_object() };
    _cleanup_free_ char *store = config_path(c->config, "tools", ".packages");
    while ((result = bring_some(c, store, &t, err)) > 0)
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
    _cleanup_free_ char *path = xasprintf("%s/" WISHES_CACHE "/archive-v0", id);
    _cleanup_close_ int fd = wishes_open_below(workspaces, path);
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
