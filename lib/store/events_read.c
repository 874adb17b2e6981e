/* Owns reading execs and their events from one open environment. A read costs a descent of the tree and the
 * bytes that it hands out; nothing is allocated on the way. Whatever it finds may be damaged. */
#include "lib/store/events_records.h"

#include "lib/base/log.h"
#include "lib/store/fault.h"

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

static int reader_begin(struct events_reader *r, struct error *err)
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

static void reader_end(struct events_reader *r)
{
    mdb_txn_reset(r->txn);
    r->reading = false;
}

static void end_transaction(void *user)
{
    struct events_reader *r = user;
    if (r->cursor)
        mdb_cursor_close(STEAL(r->cursor));
    if (r->txn)
        mdb_txn_abort(STEAL(r->txn));
}

static void close_environment(void *user)
{
    struct events_reader *r = user;
    mdb_env_close(STEAL(r->env));
}

/* What faults even now stays open until the process ends. */
void reader_close(struct events_reader *r)
{
    if (fault_guard(end_transaction, r) && r->owns_env && r->env)
        fault_guard(close_environment, r);
}

int reader_damaged(struct events_reader *r, const char *what, struct error *err)
{
    r->suspect = r->damaged = true;
    log_error("events: %s: damaged: %s", r->workspace_id, what);
    return error_set(err, ERROR_INTERNAL, "the log is damaged: %s", what);
}

int reader_failed(struct events_reader *r, int result, struct error *err)
{
    r->suspect = true;
    if (environment_is_damage(result))
        return reader_damaged(r, mdb_strerror(result), err);
    return environment_error(err, result, "read the log");
}

/* ---- one read, whatever it meets ---- */
struct reading {
    struct events_reader *reader;
    reader_body *body;
    void *user;
    struct error *err;
    long result;
};

static void run_body(void *user)
{
    struct reading *g = user;
    g->result = -1;
    if (reader_begin(g->reader, g->err) < 0)
        return;
    g->result = g->body(g->reader, g->user, g->err);
    reader_end(g->reader);
}

long reader_run(struct events_reader *r, reader_body *body, void *user, struct error *err)
{
    struct reading g = { .reader = r, .body = body, .user = user, .err = err };
    if (fault_guard(run_body, &g))
        return g.result;
    r->reading = false;
    if (!fault_guard(end_transaction, r))
        r->cursor = NULL, r->txn = NULL;
    return reader_damaged(r, "it cannot be walked", err);
}

int reader_get(struct events_reader *r, const struct events_key *key, MDB_val *ret, struct error *err)
{
    MDB_val name = { key->size, (void *)key->bytes };
    int result = mdb_get(r->txn, r->table, &name, ret);
    if (result == MDB_NOTFOUND)
        return 0;
    if (result == 0)
        return 1;
    return reader_failed(r, result, err);
}

/* ---- records ---- */
int events_get_exec(struct events_reader *r, const char *exec_id, struct exec_head *ret, struct error *err)
{
    return record_get(r, RECORD_EXEC, exec_id, ret, err);
}

int events_get_exec_info(struct events_reader *r, const char *exec_id, json_t **ret, struct error *err)
{
    return record_get_info(r, RECORD_EXEC, exec_id, ret, err);
}

long events_list_execs(struct events_reader *r, uint32_t before, struct exec_head *ret, size_t limit,
                       struct error *err)
{
    return record_list(r, RECORD_EXEC, before, ret, limit, err);
}

/* ---- events ---- */
/* The event to which step leads, which must be this one. */
static int step_to(struct events_reader *r, uint32_t stream, uint64_t seq, MDB_cursor_op step,
                   struct event *ret, struct error *err)
{
    struct events_key name = key_event(stream, seq);
    MDB_val key = { name.size, name.bytes }, value;
    int result = mdb_cursor_get(r->cursor, &key, &value, step);
    if (result != 0 && result != MDB_NOTFOUND)
        return reader_failed(r, result, err);
    if (result != 0 || key.mv_size != name.size || memcmp(key.mv_data, name.bytes, name.size) != 0)
        return reader_damaged(r, "an event is missing", err);
    if (parse_event(value.mv_data, value.mv_size, seq, ret) < 0)
        return reader_damaged(r, "an event", err);
    return 0;
}

int reader_hand_out(struct events_reader *r, uint32_t stream, uint64_t seq, uint64_t last, events_take *take,
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

struct request {
    const char *exec_id;
    uint64_t cursor;
    struct exec_head *head;
    events_take *take, *back;
    void *user;
};

static long read_body(struct events_reader *r, void *user, struct error *err)
{
    const struct request *q = user;
    struct exec_head head;
    if (record_find(r, RECORD_EXEC, q->exec_id, &head, err) < 0)
        return -1;
    uint64_t seq = q->cursor < head.first_seq ? head.first_seq : q->cursor + 1;
    *q->head = head;
    if (q->cursor >= head.last_seq)
        return 0;
    return reader_hand_out(r, head.stream, seq, head.last_seq, q->take, q->user, &seq, err);
}

int events_read(struct events_reader *r, const char *exec_id, uint64_t cursor, struct exec_head *ret_head,
                events_take *take, void *user, struct error *err)
{
    struct request q = { .exec_id = exec_id, .cursor = cursor, .head = ret_head, .take = take, .user = user };
    return (int)reader_run(r, read_body, &q, err);
}

static long ends_body(struct events_reader *r, void *user, struct error *err)
{
    const struct request *q = user;
    struct exec_head head;
    if (record_find(r, RECORD_EXEC, q->exec_id, &head, err) < 0)
        return -1;
    uint64_t last = head.exit_seq > 0 ? head.exit_seq : head.last_seq, next = head.first_seq;
    *q->head = head;
    if (reader_hand_out(r, head.stream, head.first_seq, last, q->take, q->user, &next, err) < 0)
        return -1;
    return hand_out_backwards(r, head.stream, next, last, q->back, q->user, err);
}

int events_read_ends(struct events_reader *r, const char *exec_id, struct exec_head *ret_head,
                     events_take *front, events_take *back, void *user, struct error *err)
{
    struct request q = { .exec_id = exec_id, .head = ret_head, .take = front, .back = back, .user = user };
    return (int)reader_run(r, ends_body, &q, err);
}
