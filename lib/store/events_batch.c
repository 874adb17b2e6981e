/* Owns a batch: one write transaction and the journal of its operations. A map that is full cannot grow under
 * a live transaction, so the batch is aborted, the map doubled and the journal played again; the caller never
 * sees it; but on a full disk, where the map is no larger than the room that the batch may use
 * (events_room.c). Knows keys and values as bytes only. */
#include "lib/store/events_internal.h"

#include "lib/base/clock.h"

#define JOURNAL_KEPT     (1u << 20) /* what an idle writer may hold on to */
#define MARKER_AFTER     (4u << 20)
#define READERS_CHECK_MS 10000
#define OPERATION_DELETE 0x80000000u

/* Followed by the key and the value. */
struct operation {
    uint32_t flags, key_size, value_size;
};

int batch_require(const struct events_writer *w, struct error *err)
{
    if (!w->txn)
        return error_set(err, ERROR_INTERNAL, w->failed ? "the batch failed before" : "no batch is open");
    return 0;
}

static int apply(struct events_writer *w, const char *at)
{
    struct operation operation;
    memcpy(&operation, at, sizeof operation);
    MDB_val key = { operation.key_size, (void *)(at + sizeof operation) };
    MDB_val value = { operation.value_size, (void *)(at + sizeof operation + operation.key_size) };
    if (operation.flags & OPERATION_DELETE) {
        int result = mdb_del(w->txn, w->table, &key, NULL);
        return result == MDB_NOTFOUND ? 0 : result;
    }
    int result = mdb_put(w->txn, w->table, &key, &value, operation.flags);
    /* Not the last key after all: an ordinary put finds the place. */
    return result == MDB_KEYEXIST && operation.flags ? mdb_put(w->txn, w->table, &key, &value, 0) : result;
}

static size_t operation_size(const char *at)
{
    struct operation operation;
    memcpy(&operation, at, sizeof operation);
    return sizeof operation + operation.key_size + operation.value_size;
}

static void drop_transaction(struct events_writer *w)
{
    if (w->txn)
        mdb_txn_abort(w->txn);
    w->txn = NULL;
}

static int fail(struct events_writer *w)
{
    drop_transaction(w);
    w->failed = true;
    return -1;
}

static int play_journal(struct events_writer *w)
{
    for (size_t at = 0; at < w->journal.length; at += operation_size(w->journal.data + at)) {
        int result = apply(w, w->journal.data + at);
        if (result != 0)
            return result;
    }
    return 0;
}

/* 0 = there is a transaction with the batch in it, or LMDB's result. */
static int replay(struct events_writer *w, struct error *err)
{
    if (environment_begin(w->env, 0, &w->txn, err) < 0)
        return -1;
    return play_journal(w);
}

static int enlarge(struct events_writer *w, struct error *err)
{
    if (!room_is_limit(w))
        return environment_grow(w->env, err);
    return room_widen(w) ? 0 : room_full(err);
}

static int replay_in_larger_map(struct events_writer *w, struct error *err)
{
    int result;
    do {
        drop_transaction(w);
        if (enlarge(w, err) < 0)
            return fail(w);
        result = replay(w, err);
    } while (result == MDB_MAP_FULL);
    if (result > 0 || result < -1)
        writer_failed(w, result, "write to the log", err);
    return result == 0 ? 0 : fail(w);
}

/* The disk was found full only now, with the batch already in the map. */
static int replay_in_limit(struct events_writer *w, struct error *err)
{
    drop_transaction(w);
    room_limit(w);
    int result = replay(w, err);
    if (result == MDB_MAP_FULL)
        return replay_in_larger_map(w, err);
    if (result > 0 || result < -1)
        writer_failed(w, result, "write to the log", err);
    return result == 0 ? 0 : fail(w);
}

static int perform(struct events_writer *w, size_t at, struct error *err)
{
    int result = apply(w, w->journal.data + at);
    if (result == 0)
        return 0;
    if (result == MDB_MAP_FULL)
        return replay_in_larger_map(w, err);
    writer_failed(w, result, "write to the log", err);
    return fail(w);
}

static size_t journal_add(struct events_writer *w, unsigned flags, const struct events_key *key,
                          const void *head, size_t head_size, const void *data, size_t size)
{
    struct operation operation = { flags, (uint32_t)key->size, (uint32_t)(head_size + size) };
    size_t at = w->journal.length;
    room_count(w, head_size + size);
    buffer_reserve(&w->journal, sizeof operation + key->size + head_size + size);
    buffer_append(&w->journal, &operation, sizeof operation);
    buffer_append(&w->journal, key->bytes, key->size);
    buffer_append(&w->journal, head, head_size);
    buffer_append(&w->journal, data, size);
    return at;
}

int batch_put(struct events_writer *w, const struct events_key *key, const void *head, size_t head_size,
              const void *data, size_t size, struct error *err)
{
    if (batch_require(w, err) < 0)
        return -1;
    return perform(w, journal_add(w, 0, key, head, head_size, data, size), err);
}

int batch_append(struct events_writer *w, const struct events_key *key, const void *head, size_t head_size,
                 const void *data, size_t size, struct error *err)
{
    if (batch_require(w, err) < 0)
        return -1;
    return perform(w, journal_add(w, MDB_APPEND, key, head, head_size, data, size), err);
}

int batch_delete(struct events_writer *w, const struct events_key *key, struct error *err)
{
    if (batch_require(w, err) < 0)
        return -1;
    return perform(w, journal_add(w, OPERATION_DELETE, key, NULL, 0, NULL, 0), err);
}

int batch_get(struct events_writer *w, const struct events_key *key, MDB_val *ret, struct error *err)
{
    if (batch_require(w, err) < 0)
        return -1;
    MDB_val name = { key->size, (void *)key->bytes };
    int result = mdb_get(w->txn, w->table, &name, ret);
    if (result == MDB_NOTFOUND)
        return 0;
    return result == 0 ? 1 : writer_failed(w, result, "read the log", err);
}

int batch_seek(struct events_writer *w, const struct events_key *from, struct events_key *ret,
               struct error *err)
{
    if (batch_require(w, err) < 0)
        return -1;
    MDB_cursor *cursor;
    MDB_val name = { from->size, (void *)from->bytes }, value;
    int result = mdb_cursor_open(w->txn, w->table, &cursor);
    if (result != 0)
        return writer_failed(w, result, "read the log", err);
    result = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
    if (result == 0) {
        ret->size = name.mv_size < sizeof ret->bytes ? name.mv_size : sizeof ret->bytes;
        memcpy(ret->bytes, name.mv_data, ret->size);
    }
    mdb_cursor_close(cursor);
    if (result == MDB_NOTFOUND)
        return 0;
    return result == 0 ? 1 : writer_failed(w, result, "read the log", err);
}

int batch_get_head(struct events_writer *w, uint32_t stream, struct exec_head *ret, struct error *err)
{
    MDB_val value;
    struct events_key key = key_stream(KEY_HEAD, stream);
    int found = batch_get(w, &key, &value, err);
    if (found <= 0)
        return found;
    if (parse_head(value.mv_data, value.mv_size, ret) < 0 || ret->stream != stream)
        return writer_damaged(w, "the record of an exec", err);
    return 1;
}

/* A reader that was killed in the middle of a read would keep every page from being used again. */
static void check_readers(struct events_writer *w)
{
    int64_t now = clock_boottime_ms();
    if (now - w->readers_checked_ms < READERS_CHECK_MS)
        return;
    w->readers_checked_ms = now;
    mdb_reader_check(w->env, NULL);
}

static int begin(struct events_writer *w, bool for_ends, struct error *err)
{
    if (w->txn)
        return error_set(err, ERROR_INTERNAL, "a batch is open already");
    check_readers(w);
    w->failed = false;
    w->journal.length = 0;
    room_begin(w, for_ends);
    return environment_begin(w->env, 0, &w->txn, err);
}

int events_begin(struct events_writer *w, struct error *err)
{
    return begin(w, false, err);
}

int events_begin_end(struct events_writer *w, struct error *err)
{
    return begin(w, true, err);
}

static void finish(struct events_writer *w)
{
    if (w->journal.capacity > JOURNAL_KEPT)
        buffer_free(&w->journal);
    w->journal.length = 0;
}

static int secure_marker(struct events_writer *w, struct error *err)
{
    if (atomic_load_explicit(&w->marker_durable, memory_order_relaxed))
        return 0;
    w->written += w->journal.length;
    return w->written < MARKER_AFTER ? 0 : events_secure_marker(w, err);
}

int events_commit(struct events_writer *w, struct error *err)
{
    int result;
    if (batch_require(w, err) < 0)
        return -1;
    if (secure_marker(w, err) < 0) {
        events_abort(w);
        return -1;
    }
    if (!room_secure(w) && replay_in_limit(w, err) < 0) {
        finish(w);
        return -1;
    }
    while ((result = environment_commit(STEAL(w->txn))) == MDB_MAP_FULL)
        if (replay_in_larger_map(w, err) < 0)
            break;
    finish(w);
    if (w->failed)
        return -1;
    return result == 0 ? 0 : writer_failed(w, result, "write to the log", err);
}

void events_abort(struct events_writer *w)
{
    drop_transaction(w);
    finish(w);
}

double events_fill(struct events_writer *w)
{
    return environment_fill(w->env);
}
