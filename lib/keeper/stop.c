/* The end of a workspace's run, whatever the cause: sandbox, last output, final events, record, answers, and,
 * where it is to be removed, its files and logs. What could not be written keeps the record at "running", so
 * that the warden does it later. A removal needs nothing written first: it is what makes room on a full disk.
 */
#include "lib/base/io.h"
#include "lib/base/trash.h"
#include "lib/keeper/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#define DRAIN_MS      1000
#define FULL_STORE_MS 500 /* for room that just comes free: ends have theirs */
#define ANSWER_MS     1000

void stop_want(struct keeper *k, const char *state, const char *format, ...)
{
    va_list arguments;
    if (k->stop.wanted)
        return;
    k->stop.wanted = true;
    k->stop.state = state;
    va_start(arguments, format);
    vsnprintf(k->stop.reason, sizeof(k->stop.reason), format, arguments);
    va_end(arguments);
}

int keeper_stop(struct keeper_call *call, bool remove, struct error *err)
{
    struct keeper *k = keeper_of(call);
    if (k->stop.wanted)
        return error_set(err, ERROR_CONFLICT, "the workspace is stopping");
    stop_want(k, "stopped", remove ? "workspace terminated" : "workspace stopped");
    k->stop.call = call;
    k->stop.remove = remove;
    return 1;
}

static json_t *returncode_of(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct sandbox_status status = { 0 };
    if (k->driver->inspect(k->config, k->sandbox, json_object_get(k->record, "handle"), &status, &err) < 0 ||
        !status.has_returncode)
        return json_null();
    return json_integer(status.returncode);
}

static void end_sandbox(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (k->driver->terminate(k->config, k->sandbox, json_object_get(k->record, "handle"), &err) < 0)
        log_error("%s: cannot end the sandbox: %s", k->workspace_id, err.message);
}

static bool write_last(struct keeper *k, const char *reason)
{
    bool execs = journal_write(k), watches = watches_finish(k, reason);
    return execs && watches;
}

/* All that is known goes into the log, also where that takes some patience; but for logs that are to be
 * thrown away, or set aside by the next keeper. */
static bool finish_execs(struct keeper *k)
{
    char text[sizeof(k->stop.reason) + 8];
    int64_t deadline_ms = k->stop.remove ? 0 : clock_boottime_ms() + FULL_STORE_MS;
    snprintf(text, sizeof(text), "lost: %s", k->stop.reason);
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (!e->now.over)
            journal_add_text(k, e, ENTRY_LOST, text, strlen(text));
        else if (e->held > 0) /* late output: what has a place is written now */
            journal_add(k, e, ENTRY_CLOSE, 0, 0);
    while (!write_last(k, text) && !events_writer_is_damaged(k->events)) {
        if (clock_boottime_ms() > deadline_ms)
            return false;
        usleep(50000);
        life_tick(k);
    }
    return true;
}

static void write_record(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    int64_t now = clock_wall_us();
    json_t *changes = json_pack("{s:s, s:s, s:I, s:I, s:I, s:n, s:n}", "state", k->stop.state, "reason",
                                k->stop.reason, "expires_us", (json_int_t)0, "stopped_us", (json_int_t)now,
                                "used_us", (json_int_t)now, "handle", "keeper");
    if (changes != NULL)
        json_object_set_new(changes, "returncode", returncode_of(k));
    if (keeper_patch(k, changes, &err) < 0)
        log_error("%s: cannot write the record: %s", k->workspace_id, err.message);
}

static void drop_logs(struct keeper *k)
{
    flusher_free(STEAL(k->flusher));
    events_writer_drop(STEAL(k->events));
}

/* On a disk so full that not even this can be written, the files that are in the trash already make room. */
static int discard_record(struct keeper *k, const char *workspaces, const char *name, struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (state_remove_workspace(k->state, k->workspace_id, false, &problem) == 0)
        return 0;
    _cleanup_close_ int fd = trash_open(workspaces);
    if (problem.code == ERROR_FULL && fd >= 0 && io_remove_tree(fd, name, NULL) == 0)
        return state_remove_workspace(k->state, k->workspace_id, false, err);
    error_move(err, &problem);
    return -1;
}

/* Out of sight now; the warden empties the trash. */
static int discard_all(struct keeper *k, struct error *err)
{
    char random[9];
    id_random_hex(random, 8);
    _cleanup_free_ char *workspaces = config_path(k->config, "workspaces", NULL);
    _cleanup_free_ char *name = xasprintf("%s-%s", k->workspace_id, random);
    drop_logs(k);
    if (trash_put(workspaces, k->workspace_id, name, err) < 0)
        return error_wrap(err, "the workspace's files");
    if (events_discard(k->config->state_dir, k->workspace_id, err) < 0 ||
        discard_record(k, workspaces, name, err) < 0)
        return -1;
    _cleanup_free_ char *lock = xasprintf("%s.lock", k->workspace_id);
    _cleanup_free_ char *path = config_path(k->config, "run", lock);
    unlink(path);
    return 0;
}

static json_t *terminated_answer(const struct keeper *k, json_t *returncode)
{
    json_t *sandbox_id = json_object_get(k->record, "sandbox_id");
    return json_pack("{s:b, s:O, s:O, s:s}", "terminated", 1, "returncode", returncode, "sandbox_id",
                     sandbox_id != NULL ? sandbox_id : json_null(), "workspace_id", k->workspace_id);
}

static void answer(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *ret = NULL, *returncode = returncode_of(k);
    struct keeper_call *call = STEAL(k->stop.call);
    if (k->stop.remove && discard_all(k, &err) == 0)
        ret = terminated_answer(k, returncode);
    else if (!k->stop.remove)
        ret = json_incref(k->record);
    if (call != NULL)
        keeper_reply(call, ret, ret != NULL ? NULL : &err);
    if (ret == NULL)
        log_error("%s: %s", k->workspace_id, err.message);
    _cleanup_error_ struct error stopping = ERROR_INIT;
    error_set(&stopping, ERROR_UNAVAILABLE, "%s", k->stop.reason);
    server_fail_calls(k, &stopping);
    peers_read(k->peers);
    peers_tell(k->peers, FRAME_END, 0);
    peers_drain(k->peers, clock_boottime_ms() + ANSWER_MS);
}

void stop_now(struct keeper *k)
{
    log_info("workspace=%s stopping: %s", k->workspace_id, k->stop.reason);
    peers_close_listener(k->peers);
    peers_tell(k->peers, FRAME_CLOSE, 0);
    peers_flush(k->peers);
    box_flush(k);
    end_sandbox(k);
    box_drain(k, clock_boottime_ms() + DRAIN_MS);
    k->agent_gone = true;
    bool finished = finish_execs(k);
    if (finished && !k->stop.remove)
        write_record(k);
    else if (!k->stop.remove)
        log_error("%s: the last events could not be written; left to the warden", k->workspace_id);
    answer(k);
}
