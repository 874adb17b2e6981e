/* Once a minute: what is too old or belongs to nobody goes. Expired idempotency records, logs of workspaces
 * that stopped long ago, workspaces nobody uses, sandboxes without a keeper, sockets and locks of the dead.
 */
#include "lib/base/log.h"
#include "lib/base/steady.h"
#include "lib/driver/driver.h"
#include "lib/warden/chore.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define REMEMBER_US (INT64_C(3600) * 1000000)

static int64_t member_us(const json_t *record, const char *name)
{
    return json_integer_value(json_object_get(record, name));
}

/* ---- records ---- */

static bool is_unused(const struct chore *c, const json_t *record)
{
    int64_t used_us = member_us(record, "used_us"), created_us = member_us(record, "created_us");
    if (used_us < created_us)
        used_us = created_us;
    return c->config->keep > 0 && used_us > 0 && c->now_us - used_us > c->config->keep * 1000000;
}

/* All its logs ended before it stopped. */
static bool has_old_logs(const struct chore *c, const char *id, const json_t *record)
{
    int64_t stopped_us = member_us(record, "stopped_us");
    _cleanup_free_ char *path = config_path(c->config, "events", id);
    return stopped_us > 0 && c->now_us - stopped_us > c->config->event_log_ttl * 1000000 &&
           access(path, F_OK) == 0;
}

/* Read again under the lock: it may have been started meanwhile. */
static void clean_up(const struct chore *c, const char *id)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *record = NULL;
    _cleanup_close_ int lock_fd = chore_lock(c, id, NULL);
    if (lock_fd < 0)
        return;
    if (state_get_workspace(c->state, id, &record, &err) < 0) {
        if (err.code == ERROR_NOT_FOUND)
            chore_forget_lock(c, id);
        return;
    }
    if (chore_is_live(record))
        return;
    if (is_unused(c, record)) {
        log_info("workspace=%s is removed: nobody used it for %lld seconds", id, (long long)c->config->keep);
        if (chore_remove_locked(c, id, &err) < 0)
            log_error("%s: %s", id, err.message);
    } else if (has_old_logs(c, id, record) && events_discard(c->config->state_dir, id, &err) < 0) {
        log_error("%s: %s", id, err.message);
    }
}

static void sweep_record(void *user, const char *id, const json_t *record)
{
    const struct chore *c = user;
    if (!chore_is_live(record) && (is_unused(c, record) || has_old_logs(c, id, record)))
        clean_up(c, id);
}

static void sweep_records(const struct chore *c)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (state_visit_workspaces(c->state, sweep_record, (void *)c, &err) < 0)
        log_error("cannot read the records: %s", err.message);
}

/* ---- sandboxes without a keeper ---- */

/* The list is older than the lock: its keeper may have ended it meanwhile. */
static bool still_runs(const struct chore *c, const json_t *record, const json_t *handle)
{
    struct sandbox_status status = { 0 };
    const struct driver *driver = driver_find(json_string_value(json_object_get(record, "driver")));
    if (driver == NULL)
        driver = driver_find(c->config->driver);
    return driver == NULL || driver->inspect(c->config, NULL, handle, &status, NULL) < 0 || status.running;
}

static void end_orphan(const struct chore *c, const json_t *entry)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *record = NULL;
    const char *id = json_string_value(json_object_get(entry, "workspace_id"));
    if (!id_is_valid(ID_WORKSPACE, id))
        return;
    _cleanup_close_ int lock_fd = chore_lock(c, id, NULL);
    if (lock_fd < 0)
        return;
    bool known = state_get_workspace(c->state, id, &record, &err) == 0;
    if (err.code == ERROR_NOT_FOUND)
        chore_forget_lock(c, id);
    error_clear(&err);
    if (!still_runs(c, record, json_object_get(entry, "handle")))
        return;
    log_warning("workspace=%s has a sandbox without a keeper: it is ended", id);
    if (chore_end_sandbox(c, known ? record : NULL, json_object_get(entry, "handle"), &err) < 0)
        log_error("%s: %s", id, err.message);
}

static void sweep_sandboxes(const struct chore *c)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *list = NULL;
    json_t *entry;
    size_t i;
    const struct driver *driver = driver_find(c->config->driver);
    if (driver == NULL)
        return;
    if (driver->list(c->config, &list, &err) < 0) {
        log_error("cannot list the sandboxes: %s", err.message);
        return;
    }
    json_array_foreach(list, i, entry)
        end_orphan(c, entry);
}

/* ---- sockets and locks ---- */

/* "ws-....sock" or "ws-....lock" -> id */
static bool id_of_name(const char *name, char id[static ID_SIZE])
{
    size_t length = strcspn(name, ".");
    if (length != ID_SIZE - 1 || (strcmp(name + length, ".sock") != 0 && strcmp(name + length, ".lock") != 0))
        return false;
    memcpy(id, name, length);
    id[length] = '\0';
    return id_is_valid(ID_WORKSPACE, id);
}

static void sweep_name(const struct chore *c, int dir_fd, const char *name)
{
    char id[ID_SIZE];
    json_auto_t *record = NULL;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!id_of_name(name, id))
        return;
    bool is_socket = strcmp(name + ID_SIZE, "sock") == 0;
    bool known = state_get_workspace(c->state, id, &record, &err) == 0 || err.code != ERROR_NOT_FOUND;
    if (known && !is_socket)
        return;
    _cleanup_close_ int lock_fd = chore_lock(c, id, NULL);
    if (lock_fd < 0)
        return;
    unlinkat(dir_fd, name, 0);
    if (!known)
        chore_forget_lock(c, id);
}

static void sweep_run(const struct chore *c)
{
    _cleanup_free_ char *path = config_path(c->config, "run", NULL);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        sweep_name(c, dirfd(dir), entry->d_name);
    closedir(dir);
}

/* A durable commit, so only now and then: after a restart up to an hour counts as time that was slept. */
static void remember_clock(const struct chore *c, const struct steady *before, const struct steady *now)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    bool changed = !before->known || before->held_us != now->held_us ||
                   strcmp(before->last.boot_id, now->last.boot_id) != 0 ||
                   now->last.boot_us - before->last.boot_us >= REMEMBER_US;
    json_auto_t *json = changed ? steady_to_json(now) : NULL;
    if (now->held_us > before->held_us)
        log_warning("the wall clock is %lld s ahead of what this machine ran: nothing ages by that before "
                    "it has stayed there for an hour",
                    (long long)now->held_us / 1000000);
    if (json != NULL && state_put_clock(c->state, json, &err) < 0)
        log_error("cannot remember the clock: %s", err.message);
}

static int64_t look_at_clock(const struct chore *c)
{
    struct steady before, now;
    json_auto_t *json = NULL;
    state_get_clock(c->state, &json);
    steady_from_json(&before, json);
    now = before;
    int64_t now_us = steady_look(&now);
    remember_clock(c, &before, &now);
    return now_us;
}

int chore_sweep(const struct chore *given, const char *unused, struct error *err)
{
    struct chore own = *given, *c = &own;
    (void)unused;
    setpriority(PRIO_PROCESS, 0, 10);
    own.now_us = look_at_clock(c);
    if (state_prune(c->state, own.now_us / 1000000, err) < 0)
        return -1;
    sweep_sandboxes(c);
    sweep_records(c);
    sweep_run(c);
    return 0;
}
