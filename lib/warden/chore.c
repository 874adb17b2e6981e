/* What the warden has done in processes of their own: mend a workspace whose keeper died, remove one, sweep,
 * empty the trash. Each works under the workspace's lock, each may be killed at any point and done again. */
#include "lib/warden/chore.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/trash.h"
#include "lib/driver/driver.h"
#include "lib/keeper/lost.h"

#include <errno.h>
#include <stdio.h>

/* ---- parts ---- */

static char *run_path(const struct config *config, const char *id, const char *ending)
{
    _cleanup_free_ char *leaf = xasprintf("%s.%s", id, ending);
    return config_path(config, "run", leaf);
}

int chore_lock(const struct chore *c, const char *id, struct error *err)
{
    _cleanup_free_ char *path = run_path(c->config, id, "lock");
    int fd = -1;
    int rc = io_lock_file(path, &fd, err);
    if (rc == 0)
        return error_set(err, ERROR_CONFLICT, "the workspace is running");
    return rc < 0 ? -1 : fd;
}

void chore_forget_lock(const struct chore *c, const char *id)
{
    _cleanup_free_ char *lock = run_path(c->config, id, "lock");
    unlink(lock);
}

bool chore_is_live(const json_t *record)
{
    const char *state = json_string_value(json_object_get(record, "state"));
    return state != NULL && (strcmp(state, "running") == 0 || strcmp(state, "creating") == 0);
}

int chore_end_sandbox(const struct chore *c, const json_t *record, const json_t *handle, struct error *err)
{
    const struct driver *driver = driver_find(json_string_value(json_object_get(record, "driver")));
    if (driver == NULL)
        driver = driver_find(c->config->driver);
    if (!json_is_object(handle))
        return 0;
    if (driver == NULL)
        return error_set(err, ERROR_UNSUPPORTED, "there is no driver %s", c->config->driver);
    return driver->terminate(c->config, NULL, handle, err);
}

static int discard_files(const struct chore *c, const char *id, struct error *err)
{
    char random[9];
    id_random_hex(random, 8);
    _cleanup_free_ char *name = xasprintf("%s-%s", id, random);
    _cleanup_free_ char *workspaces = config_path(c->config, "workspaces", NULL);
    return trash_put(workspaces, id, name, err) == 0 ? 0 : error_wrap(err, "the workspace's files");
}

/* On a disk so full that not even this can be written, what lies in the trash already makes room. */
static int discard_record(const struct chore *c, const char *id, bool forget_key, struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (state_remove_workspace(c->state, id, forget_key, &problem) == 0)
        return 0;
    if (problem.code == ERROR_FULL && chore_trash(c, NULL, NULL) == 0)
        return state_remove_workspace(c->state, id, forget_key, err);
    error_move(err, &problem);
    return -1;
}

static int discard(const struct chore *c, const char *id, bool forget_key, struct error *err)
{
    if (discard_files(c, id, err) < 0 || events_discard(c->config->state_dir, id, err) < 0 ||
        discard_record(c, id, forget_key, err) < 0)
        return -1;
    _cleanup_free_ char *socket = run_path(c->config, id, "sock"), *lock = run_path(c->config, id, "lock");
    unlink(socket);
    unlink(lock);
    log_info("workspace=%s removed", id);
    return 0;
}

/* ---- mend ---- */

static long finish_logs(const struct chore *c, const char *id, struct error *err)
{
    struct events_options options = { .state_dir = c->config->state_dir,
                                      .workspace_id = id,
                                      .map_bytes = c->config->event_map_bytes,
                                      .log_bytes = c->config->event_log_bytes };
    struct events_writer *writer = events_writer_open(&options, err);
    if (writer == NULL)
        return -1;
    long count = lost_finish(writer, id, LOST_KEEPER, err);
    events_writer_close(writer);
    return count;
}

static int write_lost(const struct chore *c, const char *id, const char *state, struct error *err)
{
    json_auto_t *changes = json_pack("{s:s, s:s, s:I, s:I, s:n, s:n, s:n}", "state", state, "reason",
                                     "lost: " LOST_KEEPER, "expires_us", (json_int_t)0, "stopped_us",
                                     (json_int_t)clock_wall_us(), "handle", "keeper", "returncode");
    return state_patch_workspace(c->state, id, changes, NULL, err);
}

/* Whoever wanted it was told that it could not be made. */
static bool never_ran(const json_t *record)
{
    const char *state = json_string_value(json_object_get(record, "state"));
    return state != NULL && strcmp(state, "creating") == 0 &&
           json_integer_value(json_object_get(record, "started_us")) == 0;
}

/* The sandbox is really gone before the last events say so; they are read before the record says "stopped".
 */
int chore_mend_locked(const struct chore *c, const char *id, struct error *err)
{
    json_auto_t *record = NULL;
    if (state_get_workspace(c->state, id, &record, err) < 0)
        return -1;
    if (!chore_is_live(record))
        return 0;
    if (chore_end_sandbox(c, record, json_object_get(record, "handle"), err) < 0)
        return error_wrap(err, "the sandbox does not end");
    if (never_ran(record))
        return discard(c, id, true, err);
    long count = finish_logs(c, id, err);
    if (count < 0 || write_lost(c, id, "stopped", err) < 0)
        return -1;
    _cleanup_free_ char *socket = run_path(c->config, id, "sock");
    unlink(socket);
    log_info("workspace=%s mended, commands=%ld", id, count);
    return 0;
}

static int mend(const struct chore *c, const char *id, struct error *err)
{
    _cleanup_close_ int lock_fd = chore_lock(c, id, err);
    if (lock_fd < 0)
        return -1;
    int rc = chore_mend_locked(c, id, err);
    if (rc < 0 && err->code == ERROR_NOT_FOUND)
        chore_forget_lock(c, id);
    return rc < 0 && err->code == ERROR_NOT_FOUND ? (error_clear(err), 0) : rc; /* removed meanwhile */
}

/* ---- remove ---- */

int chore_remove_locked(const struct chore *c, const char *id, struct error *err)
{
    json_auto_t *record = NULL;
    if (state_get_workspace(c->state, id, &record, err) < 0)
        return -1;
    if (chore_end_sandbox(c, record, json_object_get(record, "handle"), err) < 0)
        return error_wrap(err, "the sandbox does not end");
    return discard(c, id, false, err);
}

static int remove_one(const struct chore *c, const char *id, struct error *err)
{
    _cleanup_close_ int lock_fd = chore_lock(c, id, err);
    int rc = lock_fd < 0 ? -1 : chore_remove_locked(c, id, err);
    if (lock_fd >= 0 && rc < 0 && err->code == ERROR_NOT_FOUND)
        chore_forget_lock(c, id);
    return rc;
}

/* ---- table ---- */

static const struct {
    const char *name;
    bool needs_id, needs_state;
    int (*run)(const struct chore *c, const char *id, struct error *err);
} chores[] = {
    { "mend", true, true, mend },          { "remove", true, true, remove_one },
    { "sweep", false, true, chore_sweep }, { "trash", false, false, chore_trash },
    { "share", false, true, chore_share },
};

static int run(struct chore *c, const char *name, const char *id, struct error *err)
{
    for (size_t i = 0; i < N_ELEMENTS(chores); i++) {
        if (strcmp(chores[i].name, name) != 0)
            continue;
        if (chores[i].needs_id && !id_is_valid(ID_WORKSPACE, id))
            return error_set(err, ERROR_INVALID, "no workspace is named");
        if (chores[i].needs_state && (c->state = state_open(c->config->state_dir, err)) == NULL)
            return -1;
        return chores[i].run(c, id, err);
    }
    return error_set(err, ERROR_INVALID, "there is no chore %s", name);
}

int warden_chore(const struct config *config, const char *name, const char *workspace_id, int ready_fd)
{
    struct chore c = { .config = config };
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *line = json_object();
    int rc = run(&c, name, workspace_id, &err);
    if (c.state != NULL)
        state_close(c.state);
    if (rc < 0 && err.code != ERROR_CONFLICT && err.code != ERROR_NOT_FOUND)
        log_error("%s %s: %s", name, workspace_id != NULL ? workspace_id : "", err.message);
    json_object_set_new(line, rc < 0 ? "error" : "ret", rc < 0 ? error_pack(&err) : json_object());
    _cleanup_free_ char *text = json_dumps(line, JSON_COMPACT);
    _cleanup_free_ char *whole = xasprintf("%s\n", text);
    if (ready_fd >= 0)
        io_write_all(ready_fd, whole, strlen(whole), NULL);
    return rc < 0 ? 1 : 0;
}
