/* Owns how a writer comes up and goes: verification after a power cut, the marker, the environment, what a
 * new one begins with. */
#include "lib/store/events_internal.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

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

static int verify_after_crash(const char *directory, struct error *err)
{
    int64_t size = data_size(directory);
    if (size == 0 || !marker_is_foreign(directory))
        return 0;
    int sound =
        verify_in_child(directory, clock_boottime_ms() + VERIFY_BASE_MS + size / VERIFY_BYTES_PER_MS, err);
    if (sound < 0)
        return -1;
    return sound
               ? 0
               : replace_damaged(directory, "it did not pass verification after the machine went down", err);
}

static int open_environment(struct events_writer *w, int64_t map_bytes, struct error *err)
{
    bool damaged = false;
    struct environment_options options = {
        .path = w->directory,
        .flags = MDB_NOSYNC,
        .readers = EVENTS_READERS,
        .map_bytes = map_bytes <= 0                   ? DEFAULT_MAP_BYTES
                     : map_bytes < SMALLEST_MAP_BYTES ? SMALLEST_MAP_BYTES
                                                      : map_bytes,
    };
    _cleanup_error_ struct error first = ERROR_INIT;
    if (environment_open(&options, &w->env, &damaged, &first) == 0)
        return 0;
    if (!damaged) {
        error_move(err, &first);
        return -1;
    }
    if (replace_damaged(w->directory, first.message, err) < 0 || marker_write(w->directory, err) < 0)
        return -1;
    return environment_open(&options, &w->env, NULL, err);
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
    if (found == 0 || parse_sealed(value.mv_data, value.mv_size, &meta, sizeof meta) < 0) {
        w->damaged = true;
        return events_damaged(err, "what the environment is");
    }
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
    return result == 0 || result == MDB_NOTFOUND ? 0 : environment_error(err, result, "read the log");
}

static int prepare_table(struct events_writer *w, struct error *err)
{
    int result = mdb_dbi_open(w->txn, NULL, 0, &w->table);
    if (result != 0)
        return environment_error(err, result, "open the log");
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

static int start_anew(struct events_writer *w, const struct events_options *options, struct error *err)
{
    mdb_env_close(STEAL(w->env));
    w->damaged = false;
    if (replace_damaged(w->directory, "what the environment is cannot be read", err) < 0 ||
        marker_write(w->directory, err) < 0)
        return -1;
    return open_environment(w, options->map_bytes, err) < 0 ? -1 : prepare(w, err);
}

static int open_all(struct events_writer *w, const struct events_options *options, struct error *err)
{
    if (make_directory(w->directory, err) < 0 || verify_after_crash(w->directory, err) < 0)
        return -1;
    if (marker_write(w->directory, err) < 0 || open_environment(w, options->map_bytes, err) < 0)
        return -1;
    _cleanup_error_ struct error first = ERROR_INIT;
    if (prepare(w, &first) == 0)
        return 0;
    if (w->damaged)
        return start_anew(w, options, err);
    error_move(err, &first);
    return -1;
}

struct events_writer *events_writer_open(const struct events_options *options, struct error *err)
{
    if (!id_is_valid(ID_WORKSPACE, options->workspace_id)) {
        error_set(err, ERROR_NOT_FOUND, "no such workspace");
        return NULL;
    }
    struct events_writer *w = xcalloc(1, sizeof *w);
    w->sync_fd = -1;
    w->log_bytes = options->log_bytes;
    w->directory = events_directory(options->state_dir, options->workspace_id);
    memcpy(w->reader.workspace_id, options->workspace_id, ID_SIZE);
    pthread_mutex_init(&w->sync_lock, NULL);
    if (open_all(w, options, err) == 0)
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

/* The marker stays where the flush failed: the next writer verifies after a power cut. */
void events_writer_close(struct events_writer *w)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!w)
        return;
    events_abort(w);
    if (events_writer_flush(w, &err) == 0)
        marker_remove(w->directory);
    else
        log_error("events: %s", err.message);
    release(w);
}

struct events_reader *events_writer_reader(struct events_writer *w)
{
    return &w->reader;
}
