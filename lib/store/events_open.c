/* Owns how a writer comes up and goes: verification after a power cut, the marker, the environment, what a
 * new one begins with. */
#include "lib/store/events_internal.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define VERIFY_QUICK_MS     500
#define VERIFY_AGAIN_MS     5000 /* its last writer died */
#define VERIFY_BASE_MS      30000
#define VERIFY_BYTES_PER_MS 20000 /* 20 MB/s: a slow disk just after boot */
#define DEFAULT_MAP_BYTES   (INT64_C(256) << 20)
#define SMALLEST_MAP_BYTES  (INT64_C(64) << 10)

static int64_t data_size(const char *directory)
{
    struct stat st;
    _cleanup_free_ char *path = xasprintf("%s/data.mdb", directory);
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static int make_directory(const char *directory, struct error *err)
{
    return io_ensure_directory(directory, 0770, err);
}

static int replace_damaged(const char *directory, const char *why, struct error *err)
{
    return events_set_aside(directory, why, err) < 0 ? -1 : make_directory(directory, err);
}

/* Also one that was closed in order is looked over: what is wrong in it would crash its writer again and
 * again. Where the machine went down, every byte is in doubt; else there is little time, somebody waits. */
static int verify(const char *directory, struct error *err)
{
    int64_t size = data_size(directory);
    if (size == 0)
        return 0;
    if (!marker_is_foreign(directory)) {
        int64_t time_ms = marker_is_there(directory) ? VERIFY_AGAIN_MS : VERIFY_QUICK_MS;
        return verify_in_child(directory, true, time_ms, NULL) == 0
                   ? replace_damaged(directory, "it did not pass verification", err)
                   : 0;
    }
    log_warning("events: the machine went down while a log was open: verifying it");
    int sound = verify_in_child(directory, false, VERIFY_BASE_MS + size / VERIFY_BYTES_PER_MS, err);
    if (sound < 0)
        return -1;
    return sound
               ? 0
               : replace_damaged(directory, "it did not pass verification after the machine went down", err);
}

static int try_open(struct events_writer *w, bool *ret_damaged, struct error *err)
{
    struct environment_options options = {
        .path = w->directory,
        .flags = MDB_NOSYNC,
        .readers = EVENTS_READERS,
        .map_bytes = w->map_bytes <= 0                   ? DEFAULT_MAP_BYTES
                     : w->map_bytes < SMALLEST_MAP_BYTES ? SMALLEST_MAP_BYTES
                                                         : w->map_bytes,
    };
    if (environment_open(&options, &w->env, ret_damaged, err) < 0)
        return -1;
    room_open(w);
    return 0;
}

/* Its content is nobody's loss: readers that still have it open read damage at worst, and look again. */
static void remove_lock(struct events_writer *w)
{
    _cleanup_free_ char *path = xasprintf("%s/lock.mdb", w->directory);
    unlink(path);
}

static int open_environment(struct events_writer *w, struct error *err)
{
    bool damaged = false;
    _cleanup_error_ struct error first = ERROR_INIT, second = ERROR_INIT;
    if (try_open(w, &damaged, &first) == 0)
        return 0;
    if (damaged) {
        remove_lock(w);
        if (try_open(w, &damaged, &second) == 0)
            return 0;
    }
    if (!damaged) {
        error_move(err, second.code != ERROR_NONE ? &second : &first);
        return -1;
    }
    if (replace_damaged(w->directory, first.message, err) < 0 || marker_write(w->directory, err) < 0)
        return -1;
    return try_open(w, NULL, err);
}

/* ---- what a new environment begins with ---- */
static int put_first_meta(struct events_writer *w, struct error *err)
{
    struct disk_meta meta = { .version = EVENTS_VERSION, .next_stream = 1 };
    struct events_key key = key_kind(KEY_META);
    format_seal(&meta, sizeof meta);
    return batch_put(w, &key, &meta, sizeof meta, NULL, 0, err);
}

static bool is_empty(struct events_writer *w)
{
    MDB_stat stat;
    return mdb_stat(w->txn, w->table, &stat) == 0 && stat.ms_entries == 0;
}

/* An environment of an older program: what this one writes into it, that one must not read. */
static int raise_version(struct events_writer *w, struct disk_meta *meta, struct error *err)
{
    struct events_key key = key_kind(KEY_META);
    log_info("events: version %u: from version %u", EVENTS_VERSION, meta->version);
    meta->version = EVENTS_VERSION;
    format_seal(meta, sizeof *meta);
    return batch_put(w, &key, meta, sizeof *meta, NULL, 0, err);
}

/* 1 = there is a readable meta, 0 = the environment is new. */
static int check_meta(struct events_writer *w, struct error *err)
{
    MDB_val value;
    struct disk_meta meta;
    struct events_key key = key_kind(KEY_META);
    int found = batch_get(w, &key, &value, err);
    if (found < 0 || (found == 0 && is_empty(w)))
        return found;
    if (found == 0 || parse_sealed(value.mv_data, value.mv_size, &meta, sizeof meta) < 0)
        return writer_damaged(w, "what the environment is", err);
    if (meta.version > EVENTS_VERSION)
        return error_set(err, ERROR_UNAVAILABLE, "the logs were written by a newer version of this program");
    return meta.version < EVENTS_VERSION && raise_version(w, &meta, err) < 0 ? -1 : 1;
}

static int find_last_stream(struct events_writer *w, struct error *err)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    struct events_key_parts parts;
    int result = mdb_cursor_open(w->txn, w->table, &cursor);
    if (result == 0) {
        result = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
        if (result == 0 && key_parse(key.mv_data, key.mv_size, &parts) && parts.kind == 0)
            w->last_stream = parts.stream;
        mdb_cursor_close(cursor);
    }
    return result == 0 || result == MDB_NOTFOUND ? 0 : writer_failed(w, result, "read the log", err);
}

static int prepare_table(struct events_writer *w, struct error *err)
{
    int result = mdb_dbi_open(w->txn, NULL, 0, &w->table);
    if (result != 0)
        return writer_failed(w, result, "open the log", err);
    int found = check_meta(w, err);
    if (found < 0 || (found == 0 && put_first_meta(w, err) < 0))
        return -1;
    return find_last_stream(w, err);
}

static int prepare(struct events_writer *w, struct error *err)
{
    int fd;
    if (events_begin(w, err) < 0)
        return -1;
    if (prepare_table(w, err) < 0) {
        events_abort(w);
        return -1;
    }
    if (events_commit(w, err) < 0)
        return -1;
    if (mdb_env_get_fd(w->env, &fd) != 0 || (w->sync_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "open the log");
    w->reader.env = w->env;
    return 0;
}

static void release(struct events_writer *w)
{
    events_abort(w);
    reader_close(&w->reader);
    if (w->env)
        mdb_env_close(w->env);
    if (w->sync_fd >= 0)
        close(w->sync_fd);
    pthread_mutex_destroy(&w->sync_lock);
    buffer_free(&w->journal);
    free(w->directory);
    free(w);
}

static int start_anew(struct events_writer *w, const char *why, struct error *err)
{
    events_abort(w);
    reader_close(&w->reader);
    mdb_env_close(STEAL(w->env));
    memory_close_fd(&w->sync_fd);
    w->sync_fd = -1;
    w->last_stream = 0;
    w->written = 0;
    w->damaged = w->reader.damaged = w->reader.suspect = false;
    atomic_store(&w->marker_durable, false);
    if (replace_damaged(w->directory, why, err) < 0 || marker_write(w->directory, err) < 0)
        return -1;
    return open_environment(w, err) < 0 ? -1 : prepare(w, err);
}

int events_writer_start_anew(struct events_writer *w, const char *why, struct error *err)
{
    pthread_mutex_lock(&w->sync_lock);
    int result = start_anew(w, why, err);
    pthread_mutex_unlock(&w->sync_lock);
    return result;
}

bool events_writer_is_damaged(const struct events_writer *w)
{
    return w->damaged || w->reader.damaged;
}

/* Whatever lies under the name and is no folder. */
static int clear_place(const char *directory, struct error *err)
{
    struct stat st;
    if (lstat(directory, &st) == 0 && !S_ISDIR(st.st_mode))
        return events_set_aside(directory, "it is no folder", err);
    return 0;
}

static int open_all(struct events_writer *w, struct error *err)
{
    if (clear_place(w->directory, err) < 0 || make_directory(w->directory, err) < 0 ||
        verify(w->directory, err) < 0)
        return -1;
    if (marker_write(w->directory, err) < 0 || open_environment(w, err) < 0)
        return -1;
    _cleanup_error_ struct error first = ERROR_INIT;
    if (prepare(w, &first) == 0)
        return 0;
    if (w->damaged)
        return start_anew(w, first.message, err);
    error_move(err, &first);
    return -1;
}

struct events_writer *events_writer_open(const struct events_options *options, struct error *err)
{
    if (!id_is_valid(ID_WORKSPACE, options->workspace_id)) {
        error_set(err, ERROR_NOT_FOUND, "there is no workspace %.64s",
                  options->workspace_id ? options->workspace_id : "");
        return NULL;
    }
    struct events_writer *w = xcalloc(1, sizeof *w);
    w->sync_fd = -1;
    w->map_bytes = options->map_bytes;
    w->log_bytes = options->log_bytes;
    w->directory = events_directory(options->state_dir, options->workspace_id);
    memcpy(w->reader.workspace_id, options->workspace_id, ID_SIZE);
    pthread_mutex_init(&w->sync_lock, NULL);
    if (open_all(w, err) == 0)
        return w;
    release(w);
    return NULL;
}

static int secure_marker_locked(struct events_writer *w, struct error *err)
{
    if (atomic_load(&w->marker_durable))
        return 0;
    if (marker_sync(w->directory, err) < 0)
        return -1;
    atomic_store(&w->marker_durable, true);
    return 0;
}

int events_secure_marker(struct events_writer *w, struct error *err)
{
    pthread_mutex_lock(&w->sync_lock);
    int result = secure_marker_locked(w, err);
    pthread_mutex_unlock(&w->sync_lock);
    return result;
}

int events_writer_flush(struct events_writer *w, struct error *err)
{
    pthread_mutex_lock(&w->sync_lock);
    int result = secure_marker_locked(w, err);
    if (result == 0 && fdatasync(w->sync_fd) < 0)
        result = error_errno(err, ERROR_INTERNAL, errno, "flush the log");
    pthread_mutex_unlock(&w->sync_lock);
    return result;
}

/* The marker stays where the flush failed, or what was read made no sense: the next writer verifies. */
void events_writer_close(struct events_writer *w)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!w)
        return;
    events_abort(w);
    if (events_writer_flush(w, &err) < 0)
        log_error("events: %s", err.message);
    else if (!events_writer_is_damaged(w))
        marker_remove(w->directory);
    room_close(w); /* need not be durable: nobody waits for it */
    release(w);
}

void events_writer_drop(struct events_writer *w)
{
    if (w)
        release(w);
}

struct events_reader *events_writer_reader(struct events_writer *w)
{
    return &w->reader;
}
