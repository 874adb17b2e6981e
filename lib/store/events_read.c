/* Owns reading execs and their events from one open environment. A read costs a descent of the tree and the
 * bytes that it hands out; nothing is allocated on the way. Whatever it finds may be damaged. */
#include "lib/store/events_internal.h"

#include "lib/base/log.h"
#include "lib/store/crc32c.h"

/* ---- one read transaction, renewed again and again ---- */
static int first_begin(struct events_reader *r, struct error *err)
{
    if (environment_begin(r->env, MDB_RDONLY, &r->txn, err) < 0)
        return -1;
    int result = mdb_dbi_open(r->txn, NULL, 0, &r->table);
    if (result == 0)
        result = mdb_cursor_open(r->txn, r->table, &r->cursor);
    if (result == 0)
        return 0;
    mdb_txn_abort(STEAL(r->txn));
    return environment_error(err, result, "read the log");
}

int reader_begin(struct events_reader *r, struct error *err)
{
    if (r->reading)
        return error_set(err, ERROR_INTERNAL, "a read of this log is under way");
    if (!r->txn) {
        if (first_begin(r, err) < 0)
            return -1;
    } else {
        if (environment_renew(r->txn, err) < 0) {
            r->suspect = true;
            return -1;
        }
        mdb_cursor_renew(r->txn, r->cursor);
    }
    r->reading = true;
    return 0;
}

void reader_end(struct events_reader *r)
{
    mdb_txn_reset(r->txn);
    r->reading = false;
}

void reader_close(struct events_reader *r)
{
    if (r->cursor)
        mdb_cursor_close(STEAL(r->cursor));
    if (r->txn)
        mdb_txn_abort(STEAL(r->txn));
    if (r->owns_env && r->env)
        mdb_env_close(STEAL(r->env));
}

static int damaged(struct events_reader *r, const char *what, struct error *err)
{
    r->suspect = true;
    log_error("events: %s: damaged: %s", r->workspace_id, what);
    return error_set(err, ERROR_INTERNAL, "the log is damaged: %s", what);
}

/* 1 = found, 0 = not. */
static int get(struct events_reader *r, const struct events_key *key, MDB_val *ret, struct error *err)
{
    MDB_val name = { key->size, (void *)key->bytes };
    int result = mdb_get(r->txn, r->table, &name, ret);
    if (result == MDB_NOTFOUND)
        return 0;
    if (result == 0)
        return 1;
    r->suspect = true;
    return environment_error(err, result, "read the log");
}

static int get_head(struct events_reader *r, const char *exec_id, struct exec_head *ret, struct error *err)
{
    MDB_val value;
    struct disk_stream record;
    if (!id_is_valid(ID_EXEC, exec_id))
        return error_set(err, ERROR_NOT_FOUND, "no such exec");
    struct events_key key = key_id(exec_id);
    int found = get(r, &key, &value, err);
    if (found <= 0)
        return found < 0 ? -1 : error_set(err, ERROR_NOT_FOUND, "no such exec: %s", exec_id);
    if (parse_sealed(value.mv_data, value.mv_size, &record, sizeof record) < 0)
        return damaged(r, "the number of an exec", err);
    key = key_stream(KEY_HEAD, record.stream);
    found = get(r, &key, &value, err);
    if (found < 0)
        return -1;
    if (found == 0 || parse_head(value.mv_data, value.mv_size, ret) < 0 || ret->stream != record.stream ||
        strcmp(ret->id, exec_id) != 0)
        return damaged(r, "the record of an exec", err);
    return 0;
}

int events_get_exec(struct events_reader *r, const char *exec_id, struct exec_head *ret, struct error *err)
{
    struct exec_head head;
    if (reader_begin(r, err) < 0)
        return -1;
    int result = get_head(r, exec_id, &head, err);
    reader_end(r);
    if (result == 0)
        *ret = head;
    return result;
}

static int get_info(struct events_reader *r, const char *exec_id, json_t **ret, struct error *err)
{
    struct exec_head head;
    MDB_val value;
    uint32_t crc;
    if (get_head(r, exec_id, &head, err) < 0)
        return -1;
    struct events_key key = key_stream(KEY_INFO, head.stream);
    int found = get(r, &key, &value, err);
    if (found < 0)
        return -1;
    if (found == 0 || value.mv_size <= sizeof crc)
        return damaged(r, "the description of an exec", err);
    memcpy(&crc, value.mv_data, sizeof crc);
    const char *text = (const char *)value.mv_data + sizeof crc;
    size_t length = value.mv_size - sizeof crc;
    if (crc != crc32c(0, text, length) ||
        !(*ret = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)))
        return damaged(r, "the description of an exec", err);
    return 0;
}

int events_get_exec_info(struct events_reader *r, const char *exec_id, json_t **ret, struct error *err)
{
    if (reader_begin(r, err) < 0)
        return -1;
    int result = get_info(r, exec_id, ret, err);
    reader_end(r);
    return result;
}

/* ---- lists ---- */
/* To the last head below the stream `before`. */
static int seek_below(struct events_reader *r, uint32_t before, MDB_val *key, MDB_val *value)
{
    struct events_key from = before ? key_stream(KEY_HEAD, before) : key_kind(KEY_HEAD + 1);
    *key = (MDB_val){ from.size, from.bytes };
    int result = mdb_cursor_get(r->cursor, key, value, MDB_SET_RANGE);
    return mdb_cursor_get(r->cursor, key, value, result == MDB_NOTFOUND ? MDB_LAST : MDB_PREV);
}

static long list(struct events_reader *r, uint32_t before, struct exec_head *ret, size_t limit,
                 struct error *err)
{
    MDB_val key, value;
    struct events_key_parts parts;
    size_t count = 0;
    int result = 0;
    while (count < limit) {
        result = count == 0 ? seek_below(r, before, &key, &value)
                            : mdb_cursor_get(r->cursor, &key, &value, MDB_PREV);
        if (result != 0)
            break;
        if (!key_parse(key.mv_data, key.mv_size, &parts) || parts.kind != KEY_HEAD)
            break;
        if (parse_head(value.mv_data, value.mv_size, &ret[count]) < 0)
            return damaged(r, "the record of an exec", err);
        count++;
    }
    if (result != 0 && result != MDB_NOTFOUND) {
        r->suspect = true;
        return environment_error(err, result, "read the log");
    }
    return (long)count;
}

long events_list_execs(struct events_reader *r, uint32_t before, struct exec_head *ret, size_t limit,
                       struct error *err)
{
    if (reader_begin(r, err) < 0)
        return -1;
    long count = list(r, before, ret, limit, err);
    reader_end(r);
    return count;
}

/* ---- events ---- */
/* The event to which step leads, which must be this one. */
static int step_to(struct events_reader *r, uint32_t stream, uint64_t seq, MDB_cursor_op step,
                   struct event *ret, struct error *err)
{
    struct events_key name = key_event(stream, seq);
    MDB_val key = { name.size, name.bytes }, value;
    int result = mdb_cursor_get(r->cursor, &key, &value, step);
    if (result != 0 && result != MDB_NOTFOUND) {
        r->suspect = true;
        return environment_error(err, result, "read the log");
    }
    if (result != 0 || key.mv_size != name.size || memcmp(key.mv_data, name.bytes, name.size) != 0)
        return damaged(r, "an event is missing", err);
    if (parse_event(value.mv_data, value.mv_size, seq, ret) < 0)
        return damaged(r, "an event", err);
    return 0;
}

/* From seq to last, until take has enough; *ret_next = the one after those that were handed out. */
static int hand_out(struct events_reader *r, uint32_t stream, uint64_t seq, uint64_t last, events_take *take,
                    void *user, uint64_t *ret_next, struct error *err)
{
    MDB_cursor_op step = MDB_SET_KEY;
    struct event event;
    for (bool more = true; more && seq <= last; seq++, step = MDB_NEXT) {
        if (step_to(r, stream, seq, step, &event, err) < 0)
            return -1;
        more = take(user, &event);
    }
    *ret_next = seq;
    return 0;
}

static int hand_out_backwards(struct events_reader *r, uint32_t stream, uint64_t first, uint64_t seq,
                              events_take *take, void *user, struct error *err)
{
    MDB_cursor_op step = MDB_SET_KEY;
    struct event event;
    for (; seq >= first; seq--, step = MDB_PREV) {
        if (step_to(r, stream, seq, step, &event, err) < 0)
            return -1;
        if (!take(user, &event))
            return 0;
    }
    return 0;
}

int events_read(struct events_reader *r, const char *exec_id, uint64_t cursor, struct exec_head *ret_head,
                events_take *take, void *user, struct error *err)
{
    struct exec_head head;
    if (reader_begin(r, err) < 0)
        return -1;
    int result = get_head(r, exec_id, &head, err);
    if (result == 0) {
        uint64_t seq = cursor < head.first_seq ? head.first_seq : cursor + 1;
        *ret_head = head;
        if (cursor < head.last_seq)
            result = hand_out(r, head.stream, seq, head.last_seq, take, user, &seq, err);
    }
    reader_end(r);
    return result;
}

static int read_ends(struct events_reader *r, const struct exec_head *head, events_take *front,
                     events_take *back, void *user, struct error *err)
{
    uint64_t last = head->exit_seq > 0 ? head->exit_seq : head->last_seq, next = head->first_seq;
    if (hand_out(r, head->stream, head->first_seq, last, front, user, &next, err) < 0)
        return -1;
    return hand_out_backwards(r, head->stream, next, last, back, user, err);
}

int events_read_ends(struct events_reader *r, const char *exec_id, struct exec_head *ret_head,
                     events_take *front, events_take *back, void *user, struct error *err)
{
    struct exec_head head;
    if (reader_begin(r, err) < 0)
        return -1;
    int result = get_head(r, exec_id, &head, err);
    if (result == 0) {
        *ret_head = head;
        result = read_ends(r, &head, front, back, user, err);
    }
    reader_end(r);
    return result;
}
