/* Owns the state environment: its tables, its transactions, the growth of its map. Values are JSON texts
 * here; what a record means is known above (state*.c). Hands out copies only. */
#include "lib/store/transaction.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/store/environment.h"
#include "lib/store/migrate.h"
#include "lib/store/record_cache.h"
#include "lib/store/reserve.h"
#include "lib/store/state.h"

#include <pthread.h>

#define STATE_READERS   1024
#define STATE_TABLES    32
#define STATE_MAP_BYTES (INT64_C(1) << 30)
#define KEY_LIMIT       511 /* LMDB's */
#define REMOVE_ATTEMPTS 4

static const char *const table_names[TABLE_COUNT] = {
    [TABLE_META] = "meta",   [TABLE_WORKSPACE] = "workspace", [TABLE_OWNER] = "owner",
    [TABLE_UID] = "uid",     [TABLE_KEY] = "idempotency",     [TABLE_WORKSPACE_KEY] = "workspace_idempotency",
    [TABLE_TOKEN] = "token", [TABLE_TOKEN_ID] = "token_id",
};

struct state {
    MDB_env *env;
    char *directory;
    MDB_dbi tables[TABLE_COUNT];
    MDB_txn *reader;            /* renewed for each read */
    struct record_cache *seen;  /* of transaction_see; under read_lock as the reader is */
    pthread_mutex_t read_lock;  /* of the reader, and of the map's size */
    pthread_mutex_t write_lock; /* one writer of this process at a time; taken before read_lock */
};

struct transaction {
    struct state *state;
    MDB_txn *txn;
    int failure; /* LMDB's result that made an operation fail */
};

/* ---- operations ---- */
static int fail(struct transaction *t, int result, struct error *err)
{
    t->failure = result;
    return environment_error(err, result, "the state store");
}

static int check_key(const char *key, struct error *err)
{
    size_t length = strlen(key);
    if (length == 0 || length > KEY_LIMIT)
        return error_set(err, ERROR_INVALID, "a key of the state store has 1 to %d bytes", KEY_LIMIT);
    return 0;
}

static int damaged(enum state_table table, struct error *err)
{
    log_error("state: damaged: a value of the table %s", table_names[table]);
    return error_set(err, ERROR_INTERNAL, "a record of the state store is damaged");
}

static int parse_value(enum state_table table, const MDB_val *value, json_t **ret, struct error *err)
{
    *ret = json_loadb(value->mv_data, value->mv_size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return *ret ? 0 : damaged(table, err);
}

/* 1 = *ret lies in the map, 0 = absent. */
static int look_up(struct transaction *t, enum state_table table, const char *key, MDB_val *ret,
                   struct error *err)
{
    MDB_val name = { strlen(key), (void *)key };
    if (name.mv_size == 0 || name.mv_size > KEY_LIMIT)
        return 0;
    int result = mdb_get(t->txn, t->state->tables[table], &name, ret);
    if (result == MDB_NOTFOUND)
        return 0;
    return result == 0 ? 1 : fail(t, result, err);
}

int transaction_get(struct transaction *t, enum state_table table, const char *key, json_t **ret,
                    struct error *err)
{
    MDB_val value;
    int found = look_up(t, table, key, &value, err);
    if (found == 1 && ret && parse_value(table, &value, ret, err) < 0)
        return -1;
    return found;
}

int transaction_see(struct transaction *t, enum state_table table, const char *key, json_t **ret,
                    struct error *err)
{
    MDB_val value;
    int found = look_up(t, table, key, &value, err);
    if (found != 1)
        return found;
    *ret = record_cache_parse(t->state->seen, key, value.mv_data, value.mv_size);
    return *ret ? 1 : damaged(table, err);
}

int transaction_put(struct transaction *t, enum state_table table, const char *key, const json_t *value,
                    struct error *err)
{
    _cleanup_free_ char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (check_key(key, err) < 0)
        return -1;
    if (!text)
        return error_set(err, ERROR_INTERNAL, "a record is not JSON");
    MDB_val name = { strlen(key), (void *)key }, data = { strlen(text), text };
    int result = mdb_put(t->txn, t->state->tables[table], &name, &data, 0);
    return result == 0 ? 0 : fail(t, result, err);
}

int transaction_delete(struct transaction *t, enum state_table table, const char *key, struct error *err)
{
    MDB_val name = { strlen(key), (void *)key };
    if (name.mv_size == 0 || name.mv_size > KEY_LIMIT)
        return 0;
    int result = mdb_del(t->txn, t->state->tables[table], &name, NULL);
    return result == 0 || result == MDB_NOTFOUND ? 0 : fail(t, result, err);
}

static int take_pair(enum state_table table, const MDB_val *name, const MDB_val *value,
                     transaction_take *take, void *user, struct error *err)
{
    char key[KEY_LIMIT + 1];
    json_auto_t *parsed = NULL;
    if (name->mv_size > KEY_LIMIT || parse_value(table, value, &parsed, err) < 0)
        return -1;
    memcpy(key, name->mv_data, name->mv_size);
    key[name->mv_size] = '\0';
    return take(user, key, parsed, err);
}

int transaction_each(struct transaction *t, enum state_table table, const char *from, transaction_take *take,
                     void *user, struct error *err)
{
    MDB_cursor *cursor;
    MDB_val name = { strlen(from), (void *)from }, value;
    MDB_cursor_op step = name.mv_size > 0 && name.mv_size <= KEY_LIMIT ? MDB_SET_RANGE : MDB_FIRST;
    int status = 0, result = mdb_cursor_open(t->txn, t->state->tables[table], &cursor);
    if (result != 0)
        return fail(t, result, err);
    for (; status == 0 && (result = mdb_cursor_get(cursor, &name, &value, step)) == 0; step = MDB_NEXT)
        status = take_pair(table, &name, &value, take, user, err);
    mdb_cursor_close(cursor);
    if (status == 0 && result != MDB_NOTFOUND)
        return fail(t, result, err);
    return status;
}

int64_t transaction_count(struct transaction *t, enum state_table table)
{
    MDB_stat stat;
    return mdb_stat(t->txn, t->state->tables[table], &stat) == 0 ? (int64_t)stat.ms_entries : 0;
}

/* ---- transactions ---- */
static int begin_read(struct state *s, struct error *err)
{
    return s->reader ? environment_renew(s->reader, err)
                     : environment_begin(s->env, MDB_RDONLY, &s->reader, err);
}

int transaction_read(struct state *s, transaction_body *body, void *arguments, struct error *err)
{
    pthread_mutex_lock(&s->read_lock);
    int result = begin_read(s, err);
    if (result == 0) {
        struct transaction t = { .state = s, .txn = s->reader };
        result = body(&t, arguments, err);
        mdb_txn_reset(s->reader);
    }
    pthread_mutex_unlock(&s->read_lock);
    return result;
}

/* Begin and grow change the map: no read may be under way. The read lock is not held while waiting for
 * another process's write. */
static int begin_write(struct state *s, MDB_txn **ret, struct error *err)
{
    int result;
    while ((result = mdb_txn_begin(s->env, NULL, 0, ret)) == MDB_MAP_RESIZED) {
        pthread_mutex_lock(&s->read_lock);
        result = mdb_env_set_mapsize(s->env, 0);
        pthread_mutex_unlock(&s->read_lock);
        if (result != 0)
            break;
    }
    return result == 0 ? 0 : environment_error(err, result, "the state store");
}

static int grow(struct state *s, struct error *err)
{
    pthread_mutex_lock(&s->read_lock);
    int result = environment_grow(s->env, err);
    pthread_mutex_unlock(&s->read_lock);
    return result;
}

/* One try. *ret_full = the map was too small: nothing was written, err is not set. */
static int try_write(struct state *s, transaction_body *body, void *arguments, bool *ret_full,
                     struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    struct transaction t = { .state = s };
    if (begin_write(s, &t.txn, err) < 0)
        return -1;
    int result = body(&t, arguments, &problem);
    if (result != 0) {
        mdb_txn_abort(t.txn);
        *ret_full = result < 0 && t.failure == MDB_MAP_FULL;
        if (result < 0 && !*ret_full)
            error_move(err, &problem);
        return result;
    }
    int committed = environment_commit(t.txn);
    *ret_full = committed == MDB_MAP_FULL;
    return committed == 0 || *ret_full ? 0 : environment_error(err, committed, "the state store");
}

int transaction_write(struct state *s, transaction_body *body, void *arguments, struct error *err)
{
    bool full;
    int result;
    pthread_mutex_lock(&s->write_lock);
    do {
        full = false;
        result = try_write(s, body, arguments, &full, err);
        if (full && grow(s, err) < 0) {
            result = -1;
            break;
        }
    } while (full);
    pthread_mutex_unlock(&s->write_lock);
    return result;
}

/* What was released may be taken by others before it is used here, and made again by another process: hence
 * a few tries. */
int transaction_remove(struct state *s, transaction_body *body, void *arguments, struct error *err)
{
    int result;
    for (int attempt = 0; attempt < REMOVE_ATTEMPTS; attempt++) {
        _cleanup_error_ struct error problem = ERROR_INIT;
        result = transaction_write(s, body, arguments, &problem);
        if (result >= 0)
            return result;
        bool again = problem.code == ERROR_FULL && reserve_release(s->directory);
        error_move(err, &problem);
        if (!again)
            break;
    }
    return result;
}

/* ---- opening ---- */
/* 1 = every table is there. */
static int open_tables(struct state *s, MDB_txn *txn, unsigned flags, struct error *err)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        int result = mdb_dbi_open(txn, table_names[i], flags, &s->tables[i]);
        if (result == MDB_NOTFOUND)
            return 0;
        if (result != 0)
            return environment_error(err, result, "open the state store");
    }
    return 1;
}

static int open_tables_in(struct state *s, unsigned begin_flags, unsigned flags, struct error *err)
{
    MDB_txn *txn;
    if (environment_begin(s->env, begin_flags, &txn, err) < 0)
        return -1;
    int found = open_tables(s, txn, flags, err);
    if (found <= 0) {
        mdb_txn_abort(txn);
        return found;
    }
    int result = environment_commit(txn);
    return result == 0 ? 1 : environment_error(err, result, "open the state store");
}

/* A durable commit only where a table is missing: most processes open a store that is complete. */
static int prepare(struct state *s, struct error *err)
{
    int found = open_tables_in(s, MDB_RDONLY, 0, err);
    if (found == 0)
        found = open_tables_in(s, 0, MDB_CREATE, err);
    return found < 0 ? -1 : migrate_state(s, err);
}

static int open_environment(struct state *s, const char *state_dir, int64_t map_bytes, struct error *err)
{
    s->directory = xasprintf("%s/state", state_dir);
    if (io_ensure_directory(s->directory, 0770, err) < 0)
        return -1;
    reserve_keep(s->directory);
    struct environment_options options = {
        .path = s->directory,
        .readers = STATE_READERS,
        .tables = STATE_TABLES,
        .map_bytes = map_bytes,
    };
    return environment_open(&options, &s->env, NULL, err);
}

struct state *state_open(const char *state_dir, struct error *err)
{
    return state_open_sized(state_dir, STATE_MAP_BYTES, err);
}

struct state *state_open_sized(const char *state_dir, int64_t map_bytes, struct error *err)
{
    struct state *s = xcalloc(1, sizeof *s);
    pthread_mutex_init(&s->read_lock, NULL);
    s->seen = record_cache_new();
    pthread_mutex_init(&s->write_lock, NULL);
    if (open_environment(s, state_dir, map_bytes, err) == 0 && prepare(s, err) == 0)
        return s;
    state_close(s);
    return NULL;
}

void state_close(struct state *s)
{
    if (!s)
        return;
    if (s->reader)
        mdb_txn_abort(s->reader);
    if (s->env)
        mdb_env_close(s->env);
    free(s->directory);
    record_cache_free(s->seen);
    pthread_mutex_destroy(&s->read_lock);
    pthread_mutex_destroy(&s->write_lock);
    free(s);
}

int state_check_readers(struct state *s)
{
    int dead = 0;
    mdb_reader_check(s->env, &dead);
    return dead;
}
