/* From an empty process to a live workspace: lock, record, folders, sandbox, agent, socket. The record is
 * durable before a sandbox exists, so that an orphan is always found; what can wait for a disk waits in a
 * second thread. */
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/keeper/internal.h"
#include "lib/keeper/lost.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES    (1u << 20)
#define IDEMPOTENCY_TTL_S 86400
#define LOCK_WAIT_MS      3000
#define SPEC_MOST         1e12 /* so that seconds are still microseconds, and MiB bytes */

int64_t spec_integer(const json_t *record, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(json_object_get(record, "spec"), name);
    double number = json_number_value(value);
    return json_is_number(value) && number > -SPEC_MOST && number < SPEC_MOST ? (int64_t)number : otherwise;
}

int keeper_patch(struct keeper *k, json_t *changes, struct error *err)
{
    json_auto_t *owned = changes;
    json_t *record = NULL;
    if (owned == NULL)
        return error_set(err, ERROR_INTERNAL, "cannot make a record");
    if (state_patch_workspace(k->state, k->workspace_id, owned, &record, err) < 0)
        return -1;
    json_decref(k->record);
    k->record = record;
    return 0;
}

void keeper_ready(struct keeper *k, const json_t *line)
{
    struct keeper_options *options = (struct keeper_options *)k->options;
    if (options->ready_fd < 0)
        return;
    _cleanup_free_ char *text = json_dumps(line, JSON_COMPACT);
    _cleanup_free_ char *whole =
        text != NULL ? xasprintf("%s\n", text) : xstrdup("{\"error\":{\"message\":\"cannot answer\"}}\n");
    io_write_all(options->ready_fd, whole, strlen(whole), NULL);
    close(STEAL_FD(options->ready_fd));
}

/* ---- record ---- */

static int read_spec(int fd, json_t **ret, struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    ssize_t got;
    while ((got = read(fd, buffer_reserve(&text, 4096), 4096)) > 0) {
        text.length += (size_t)got;
        if (text.length > LINE_MAX_BYTES)
            return error_set(err, ERROR_TOO_LARGE, "the workspace's specification is too large");
    }
    if (got < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot read the workspace's specification");
    *ret = json_loadb(text.data != NULL ? text.data : "", text.length, 0, NULL);
    return *ret != NULL ? 0 : error_set(err, ERROR_INVALID, "the workspace's specification is not JSON");
}

static json_t *own_identity(void)
{
    struct process_identity identity;
    return process_identify(getpid(), &identity, NULL) == 0 ? process_identity_to_json(&identity)
                                                            : json_null();
}

/* What holds from now on, whether the workspace is new or comes back. */
static json_t *creating_members(const struct keeper *k)
{
    char sandbox_id[ID_SIZE];
    id_make(ID_SANDBOX, sandbox_id);
    return json_pack("{s:s, s:n, s:n, s:s, s:s, s:o, s:I}", "state", "creating", "reason", "returncode",
                     "driver", k->driver->name, "sandbox_id", sandbox_id, "keeper", own_identity(), "used_us",
                     (json_int_t)clock_wall_us());
}

/* 1 = the key was used before, or the name is taken: told. */
static int create_record(struct keeper *k, json_t *spec, struct error *err)
{
    json_t *record = json_object_get(spec, "record"), *idem = json_object_get(spec, "idempotency");
    json_auto_t *members = creating_members(k);
    json_auto_t *existing = NULL;
    const char *id = json_string_value(json_object_get(record, "workspace_id"));
    if (id == NULL || strcmp(id, k->workspace_id) != 0)
        return error_set(err, ERROR_INVALID, "the specification is of another workspace");
    json_object_update(record, members);
    bool by_name = json_is_true(json_object_get(idem, "by_name"));
    struct state_idempotency key = { .principal = json_string_value(json_object_get(idem, "principal")),
                                     .key = by_name ? NULL : json_string_value(json_object_get(idem, "key")),
                                     .digest = json_string_value(json_object_get(idem, "digest")),
                                     .ttl_s = IDEMPOTENCY_TTL_S };
    bool root = geteuid() == 0, keyed = by_name || (key.principal != NULL && key.key != NULL);
    key.digest = key.digest != NULL ? key.digest : "";
    int rc = state_create_workspace(k->state, record, keyed ? &key : NULL, k->config->max_workspaces,
                                    root ? k->config->uid_base : 0, root ? k->config->uid_count : 0,
                                    &existing, err);
    if (rc == 1) {
        json_auto_t *line = json_pack("{s:O}", "existing", existing);
        keeper_ready(k, line);
    }
    if (rc == 0)
        k->record = json_incref(record);
    k->is_new = rc == 0;
    return rc;
}

/* Without root its files cannot even be opened; nothing is changed, so that one with root may still start it.
 */
static int check_rights(const struct keeper *k, const json_t *record, struct error *err)
{
    json_int_t uid = json_integer_value(json_object_get(record, "uid"));
    if (geteuid() == 0 || uid == 0 || uid == (json_int_t)geteuid())
        return 0;
    return error_set(err, ERROR_UNAVAILABLE,
                     "%s has a user of its own: its keeper needs a warden that runs as root",
                     k->workspace_id);
}

static int load_record(struct keeper *k, struct error *err)
{
    json_auto_t *record = NULL;
    if (state_get_workspace(k->state, k->workspace_id, &record, err) < 0 || check_rights(k, record, err) < 0)
        return -1;
    k->record = STEAL(record);
    const struct driver *made_by = driver_find(json_string_value(json_object_get(k->record, "driver")));
    if (made_by != NULL)
        k->driver = made_by;
    json_t *handle = json_object_get(k->record, "handle");
    if (json_is_object(handle) && k->driver->terminate(k->config, NULL, handle, err) < 0)
        return error_wrap(err, "the old sandbox does not end");
    json_t *members = creating_members(k);
    json_object_set_new(members, "handle", json_null());
    return keeper_patch(k, members, err);
}

static int make_record(struct keeper *k, struct error *err)
{
    json_auto_t *spec = NULL;
    k->state = state_open(k->config->state_dir, err);
    if (k->state == NULL)
        return -1;
    if (k->options->spec_fd < 0)
        return load_record(k, err);
    if (read_spec(k->options->spec_fd, &spec, err) < 0)
        return -1;
    return create_record(k, spec, err);
}

/* ---- logs ---- */

/* Opened beside all else, since that waits for the disk. It is this one and not the sandbox: a sandbox dies
 * with the thread that made it. */
struct logs_job {
    struct keeper *k;
    int rc;
    struct error err;
    pthread_t thread;
    bool threaded;
};

static int open_logs(struct keeper *k, struct error *err)
{
    struct events_options options = { .state_dir = k->config->state_dir,
                                      .workspace_id = k->workspace_id,
                                      .map_bytes = k->config->event_map_bytes,
                                      .log_bytes = k->config->event_log_bytes };
    k->events = events_writer_open(&options, err);
    if (k->events == NULL)
        return -1;
    k->flusher = flusher_new(k->events);
    return 0;
}

static void *logs_main(void *user)
{
    struct logs_job *job = user;
    job->rc = open_logs(job->k, &job->err);
    return NULL;
}

static void logs_begin(struct logs_job *job)
{
    job->threaded = pthread_create(&job->thread, NULL, logs_main, job) == 0;
    if (!job->threaded)
        logs_main(job);
}

static int logs_end(struct logs_job *job, struct error *err)
{
    if (job->threaded)
        pthread_join(job->thread, NULL);
    if (job->rc < 0 && err->code == ERROR_NONE)
        error_move(err, &job->err);
    error_clear(&job->err);
    return job->rc;
}

/* ---- folders ---- */

/* A command may have closed it to its own user; then no sandbox would start there any more. */
static int unclose(const char *path, struct error *err)
{
    struct stat status;
    char link[32];
    _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (fd < 0 || fstat(fd, &status) < 0 ||
        ((status.st_mode & S_IRWXU) != S_IRWXU && chmod(link, (status.st_mode & 01777) | S_IRWXU) < 0))
        return error_errno(err, ERROR_INTERNAL, errno, "cannot open the workspace's folder");
    return 0;
}

static int open_folder(struct keeper *k, const char *name, uid_t uid, struct error *err)
{
    _cleanup_free_ char *leaf = xasprintf("%s/%s", k->workspace_id, name);
    _cleanup_free_ char *path = config_path(k->config, "workspaces", leaf);
    struct stat status;
    if (io_ensure_directory(path, 0700, err) < 0 || unclose(path, err) < 0)
        return -1;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot open the workspace's folder");
    if (uid != 0 && status.st_uid != uid && fchown(fd, uid, uid) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot give the folder to the workspace's user");
    return STEAL_FD(fd);
}

/* ---- sandbox ---- */

static double spec_number(const struct keeper *k, const char *name, double otherwise)
{
    const json_t *value = json_object_get(json_object_get(k->record, "spec"), name);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static int create_sandbox(struct keeper *k, json_t **ret_handle, struct error *err)
{
    const json_t *spec = json_object_get(k->record, "spec");
    const char *name = json_string_value(json_object_get(k->record, "name"));
    uid_t uid = geteuid() == 0 ? (uid_t)json_integer_value(json_object_get(k->record, "uid")) : 0;
    _cleanup_close_ int files_fd = open_folder(k, "files", uid, err);
    if (files_fd < 0)
        return -1;
    _cleanup_close_ int home_fd = open_folder(k, "home", uid, err);
    if (home_fd < 0)
        return -1;
    struct sandbox_spec sandbox = { .workspace_id = k->workspace_id,
                                    .hostname = name != NULL ? name : "workspace",
                                    .files_fd = files_fd,
                                    .home_fd = home_fd,
                                    .uid = uid,
                                    .cpu = spec_number(k, "cpu", 2),
                                    .cpu_limit = spec_number(k, "cpu_limit", 0),
                                    .memory_mib = spec_integer(k->record, "memory_mib", 4096),
                                    .memory_limit_mib = spec_integer(k->record, "memory_limit_mib", 0),
                                    .processes = k->config->processes,
                                    .block_network = json_is_true(json_object_get(spec, "block_network")),
                                    .spec = spec };
    return k->driver->create(k->config, &sandbox, &k->sandbox, ret_handle, err);
}

static int record_running(struct keeper *k, json_t *handle, struct error *err)
{
    int64_t now = clock_wall_us(), timeout_s = spec_integer(k->record, "timeout_seconds", 0);
    json_t *changes = json_pack("{s:s, s:o, s:I, s:I, s:I}", "state", "running", "handle", handle,
                                "started_us", (json_int_t)now, "used_us", (json_int_t)now, "expires_us",
                                (json_int_t)(timeout_s > 0 ? now + timeout_s * 1000000 : 0));
    json_t *sandbox_id = json_object_get(handle, "sandbox_id");
    const json_t *spec = json_object_get(k->record, "spec");
    if (changes != NULL && json_is_string(sandbox_id)) /* a driver that has ids of its own */
        json_object_set(changes, "sandbox_id", sandbox_id);
    if (changes != NULL) {
        json_object_set_new(changes, "capabilities", k->driver->capabilities(k->config, k->sandbox));
        json_object_set(changes, "timeout_seconds", json_object_get(spec, "timeout_seconds"));
        json_object_set(changes, "idle_timeout_seconds", json_object_get(spec, "idle_timeout_seconds"));
    }
    return keeper_patch(k, changes, err);
}

static void ignore_frame(void *user, const struct frame *frame, const char *data, size_t length)
{
    (void)user;
    (void)frame;
    (void)data;
    (void)length;
}

/* Whatever it does wrong is the sandbox's fault, not the gateway's. */
static int blame_agent(const struct error *problem, struct error *err)
{
    return error_set(err, ERROR_DRIVER, "the sandbox's agent: %s", problem->message);
}

static int wait_for_agent(struct keeper *k, struct error *err)
{
    int64_t deadline_ms = clock_boottime_ms() + KEEPER_START_MS;
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (channel_write(k->agent, &problem) < 0)
        return blame_agent(&problem, err);
    while (!channel_is_ready(k->agent)) {
        int64_t left = deadline_ms - clock_boottime_ms();
        struct pollfd fds[2] = { { .fd = channel_fd(k->agent), .events = POLLIN },
                                 { .fd = k->driver->watch_fd(k->sandbox), .events = POLLIN } };
        if (left <= 0)
            return error_set(err, ERROR_TIMEOUT, "the sandbox's agent did not answer in time");
        if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
            return error_errno(err, ERROR_INTERNAL, errno, "poll");
        int rc = fds[0].revents != 0 ? channel_read(k->agent, 4096, ignore_frame, NULL, &problem) : 0;
        if (rc < 0)
            return blame_agent(&problem, err);
        if (rc == 1 || (fds[0].revents == 0 && fds[1].revents != 0))
            return error_set(err, ERROR_DRIVER, "the sandbox ended while it was started");
    }
    return 0;
}

/* The second commit runs while the agent starts. */
static int bring_up(struct keeper *k, struct error *err)
{
    json_t *handle = NULL;
    if (create_sandbox(k, &handle, err) < 0 || record_running(k, handle, err) < 0)
        return -1;
    int fd = k->driver->open_channel(k->sandbox, err);
    if (fd < 0)
        return -1;
    k->agent = channel_new(fd);
    return wait_for_agent(k, err);
}

static int take_lock(struct keeper *k, struct error *err)
{
    _cleanup_free_ char *leaf = xasprintf("%s.lock", k->workspace_id);
    _cleanup_free_ char *path = config_path(k->config, "run", leaf);
    _cleanup_free_ char *run = config_path(k->config, "run", NULL);
    int64_t deadline_ms = clock_boottime_ms() + LOCK_WAIT_MS;
    int rc = io_ensure_directory(run, 0700, err);
    if (rc < 0)
        return -1;
    /* the warden may look after the workspace just now, or the last keeper be about to end */
    while ((rc = io_lock_file(path, &k->lock_fd, err)) == 0 && clock_boottime_ms() < deadline_ms)
        usleep(5000);
    if (rc == 0)
        return error_set(err, ERROR_CONFLICT, "the workspace is running already");
    return rc < 0 ? -1 : 0;
}

static int listen_for_workers(struct keeper *k, struct error *err)
{
    _cleanup_free_ char *leaf = xasprintf("%s.sock", k->workspace_id);
    _cleanup_free_ char *path = config_path(k->config, "run", leaf);
    k->peers = peers_listen(k->reactor, path, k->config->state_dir, &server_handlers, k, err);
    return k->peers != NULL ? 0 : -1;
}

static const struct driver *find_driver(const struct keeper *k, struct error *err)
{
    const struct driver *driver = driver_find(k->config->driver);
    if (driver == NULL)
        error_set(err, ERROR_UNSUPPORTED, "there is no driver %s", k->config->driver);
    return driver;
}

/* 1 = there is an older workspace for the key. */
static int bring_up_with_record(struct keeper *k, struct error *err)
{
    int rc = make_record(k, err);
    if (rc != 0)
        return rc;
    k->reactor = reactor_new(err);
    return k->reactor != NULL ? bring_up(k, err) : -1;
}

static int finish_lost(struct keeper *k, struct error *err)
{
    long count = lost_finish(k->events, k->workspace_id, LOST_KEEPER, err);
    if (count > 0)
        flusher_mark(k->flusher);
    return count < 0 ? -1 : 0;
}

int keeper_start(struct keeper *k, struct error *err)
{
    struct logs_job logs = { .k = k, .err = ERROR_INIT };
    k->driver = find_driver(k, err);
    if (k->driver == NULL || take_lock(k, err) < 0)
        return -1;
    logs_begin(&logs);
    int rc = bring_up_with_record(k, err);
    if (logs_end(&logs, err) < 0 && rc == 0)
        rc = -1;
    if (rc == 0 && !k->is_new)
        rc = finish_lost(k, err);
    return rc != 0 ? rc : listen_for_workers(k, err);
}

/* ---- where it fails ---- */

static void end_half_made(struct keeper *k)
{
    if (k->sandbox == NULL)
        return;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (k->driver->terminate(k->config, k->sandbox, json_object_get(k->record, "handle"), &err) < 0)
        log_error("%s: cannot end the sandbox: %s", k->workspace_id, err.message);
}

static void forget_logs(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (events_discard(k->config->state_dir, k->workspace_id, &err) < 0)
        log_warning("%s: %s", k->workspace_id, err.message);
}

static void forget_new(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *workspaces = config_path(k->config, "workspaces", NULL);
    _cleanup_close_ int fd = open(workspaces, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        io_remove_tree(fd, k->workspace_id, NULL);
    forget_logs(k);
    if (state_remove_workspace(k->state, k->workspace_id, true, &err) < 0)
        log_error("%s: cannot take the record back: %s", k->workspace_id, err.message);
}

/* The logs were opened before it was known whether there would be a record for them. */
static bool has_no_record(struct keeper *k)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *record = NULL;
    return k->state != NULL && state_get_workspace(k->state, k->workspace_id, &record, &err) < 0 &&
           err.code == ERROR_NOT_FOUND;
}

static void write_failure(struct keeper *k, const struct error *why)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *changes = json_pack("{s:s, s:s, s:n, s:n, s:I}", "state", "failed", "reason", why->message,
                                "handle", "keeper", "expires_us", (json_int_t)0);
    if (keeper_patch(k, changes, &err) < 0)
        log_error("%s: cannot write the record: %s", k->workspace_id, err.message);
}

/* Whoever waits for it finds that its name is gone, and makes it anew. */
static void forget_lock(struct keeper *k)
{
    _cleanup_free_ char *leaf = xasprintf("%s.lock", k->workspace_id);
    _cleanup_free_ char *path = config_path(k->config, "run", leaf);
    unlink(path);
}

void keeper_undo(struct keeper *k, const struct error *why)
{
    end_half_made(k);
    flusher_free(STEAL(k->flusher));
    if (k->events != NULL)
        events_writer_close(STEAL(k->events));
    if (k->is_new)
        forget_new(k);
    else if (k->lock_fd >= 0 && has_no_record(k))
        forget_logs(k);
    else if (k->record != NULL)
        write_failure(k, why);
    if (k->lock_fd >= 0 && has_no_record(k))
        forget_lock(k);
}
