/* Owns how old execs leave: the record goes in one step (nobody finds the exec any more), its events in the
 * steps after, a bounded number in each, so that no transaction frees so many pages that the free list weighs
 * on every later commit. */
#include "lib/store/events_internal.h"

#include "lib/base/clock.h"
#include "lib/store/watches.h"

#define PRUNE_BUDGET   512
#define IDEMPOTENCY_US (INT64_C(86400) * 1000000)

/* The first key of a kind whose time lies before that: 1 = *ret and its parts. */
static int first_aged(struct events_writer *w, enum key_kind kind, int64_t before_us, struct events_key *ret,
                      struct events_key_parts *parts, struct error *err)
{
    struct events_key from = key_kind(kind);
    int found = batch_seek(w, &from, ret, err);
    if (found <= 0)
        return found;
    return key_parse(ret->bytes, ret->size, parts) && parts->kind == (int)kind && parts->wall_us < before_us;
}

static int forget_old_keys(struct events_writer *w, size_t *budget, struct error *err)
{
    struct events_key age;
    struct events_key_parts parts;
    int found = 0;
    int64_t before_us = clock_wall_us() - IDEMPOTENCY_US;
    while (*budget > 0 && (found = first_aged(w, KEY_IDEMPOTENCY_AGE, before_us, &age, &parts, err)) > 0) {
        struct events_key key = key_hash(parts.rest);
        MDB_val value;
        struct disk_idempotency record;
        found = batch_get(w, &key, &value, err);
        /* The key may have been used again since: then a younger age belongs to it. */
        bool is_old = found > 0 && (parse_sealed(value.mv_data, value.mv_size, &record, sizeof record) < 0 ||
                                    record.created_us <= parts.wall_us);
        if (found < 0 || (is_old && batch_delete(w, &key, err) < 0) || batch_delete(w, &age, err) < 0)
            return -1;
        --*budget;
    }
    return found < 0 ? -1 : 0;
}

/* 1 = all events of the stream are gone. */
static int remove_events(struct events_writer *w, uint32_t stream, size_t *budget, struct error *err)
{
    struct events_key from = key_event(stream, 1), key;
    struct events_key_parts parts;
    for (; *budget > 0; --*budget) {
        int found = batch_seek(w, &from, &key, err);
        if (found < 0)
            return -1;
        if (found == 0 || !key_parse(key.bytes, key.size, &parts) || parts.kind != 0 ||
            parts.stream != stream)
            return 1;
        if (batch_delete(w, &key, err) < 0)
            return -1;
    }
    return 0;
}

static int sweep_removed(struct events_writer *w, size_t *budget, struct error *err)
{
    struct events_key from = key_kind(KEY_REMOVED), key;
    struct events_key_parts parts;
    while (*budget > 0) {
        int found = batch_seek(w, &from, &key, err);
        if (found <= 0 || !key_parse(key.bytes, key.size, &parts) || parts.kind != KEY_REMOVED)
            return found < 0 ? -1 : 0;
        int done = remove_events(w, parts.stream, budget, err);
        if (done < 0 || (done > 0 && batch_delete(w, &key, err) < 0))
            return -1;
    }
    return 0;
}

/* An exec's or a watch's. */
struct record {
    uint32_t stream;
    char id[ID_SIZE];
    int64_t finished_us;
};

static int remove_record(struct events_writer *w, const struct record *record, struct error *err)
{
    const struct events_key keys[] = {
        key_stream(KEY_HEAD, record->stream),
        key_stream(KEY_WATCH, record->stream),
        key_stream(KEY_INFO, record->stream),
        key_id(record->id),
    };
    for (size_t i = 0; i < N_ELEMENTS(keys); i++)
        if (batch_delete(w, &keys[i], err) < 0)
            return -1;
    struct events_key removed = key_stream(KEY_REMOVED, record->stream);
    return batch_put(w, &removed, NULL, 0, NULL, 0, err);
}

/* 1, 0, -1 */
static int find_record(struct events_writer *w, uint32_t stream, struct record *ret, struct error *err)
{
    struct exec_head exec;
    struct watch_head watch;
    int found = batch_get_head(w, stream, &exec, err);
    *ret = (struct record){ .stream = stream };
    if (found > 0) {
        memcpy(ret->id, exec.id, ID_SIZE);
        ret->finished_us = exec.finished_us;
    }
    if (found != 0)
        return found;
    found = batch_get_watch(w, stream, &watch, err);
    if (found > 0) {
        memcpy(ret->id, watch.id, ID_SIZE);
        ret->finished_us = watch.finished_us;
    }
    return found;
}

static int remove_finished(struct events_writer *w, int64_t before_us, size_t *budget, size_t *removed,
                           struct error *err)
{
    struct events_key age;
    struct events_key_parts parts;
    int found = 0;
    while (*budget > 0 && (found = first_aged(w, KEY_FINISHED, before_us, &age, &parts, err)) > 0) {
        struct record record;
        found = find_record(w, parts.stream, &record, err);
        if (found < 0 || batch_delete(w, &age, err) < 0)
            return -1;
        --*budget;
        /* Written again with another time: the other age counts. */
        if (found == 0 || record.finished_us != parts.wall_us)
            continue;
        ++*removed;
        if (remove_record(w, &record, err) < 0 || sweep_removed(w, budget, err) < 0)
            return -1;
    }
    return found < 0 ? -1 : 0;
}

static int prune(struct events_writer *w, int64_t finished_before_us, size_t *ret_removed, struct error *err)
{
    size_t budget = PRUNE_BUDGET;
    if (forget_old_keys(w, &budget, err) < 0 || sweep_removed(w, &budget, err) < 0 ||
        remove_finished(w, finished_before_us, &budget, ret_removed, err) < 0)
        return -1;
    return budget == 0;
}

/* LMDB uses a transaction's freed pages again only after the next one. On a full disk that next one must be
 * small: it is this. */
static void settle(struct events_writer *w)
{
    _cleanup_error_ struct error ignored = ERROR_INIT;
    struct disk_meta meta;
    struct events_key key = key_kind(KEY_META);
    MDB_val value;
    if (events_begin_end(w, &ignored) < 0)
        return;
    int found = batch_get(w, &key, &value, &ignored);
    if (found > 0 && parse_sealed(value.mv_data, value.mv_size, &meta, sizeof meta) == 0 &&
        batch_put(w, &key, &meta, sizeof meta, NULL, 0, &ignored) == 0)
        events_commit(w, &ignored);
    else
        events_abort(w);
}

static int prune_in_own_batch(struct events_writer *w, int64_t finished_before_us, size_t *ret_removed,
                              struct error *err)
{
    if (events_begin_end(w, err) < 0) /* what is removed makes more room than it takes */
        return -1;
    int more = prune(w, finished_before_us, ret_removed, err);
    if (more < 0)
        events_abort(w);
    else if (events_commit(w, err) < 0)
        more = -1;
    if (more < 0)
        *ret_removed = 0;
    else if (*ret_removed > 0 || more > 0)
        settle(w);
    return more;
}

int events_prune(struct events_writer *w, int64_t finished_before_us, size_t *ret_removed, struct error *err)
{
    *ret_removed = 0;
    return (w->txn ? prune : prune_in_own_batch)(w, finished_before_us, ret_removed, err);
}
