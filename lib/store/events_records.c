/* Owns how readers find and list records, of execs and of watches alike. What a record holds is its format's
 * business; events are events_read.c's. Whatever is found may be damaged. */
#include "lib/store/events_records.h"

#include "lib/store/crc32c.h"
#include "lib/store/watches.h"

/* Both begin with the same members (C17, 6.5.2.3, 6). */
union head {
    struct {
        char id[ID_SIZE];
        uint32_t stream;
    };
    struct exec_head exec;
    struct watch_head watch;
};
_Static_assert(offsetof(union head, stream) == offsetof(struct exec_head, stream) &&
                   offsetof(union head, stream) == offsetof(struct watch_head, stream),
               "heads begin alike");

static int parse_exec(const MDB_val *value, union head *ret)
{
    return parse_head(value->mv_data, value->mv_size, &ret->exec);
}

static int parse_one_watch(const MDB_val *value, union head *ret)
{
    return parse_watch(value->mv_data, value->mv_size, &ret->watch);
}

static const struct kind {
    const char *name, *record;
    enum id_kind id;
    int key;     /* enum key_kind */
    size_t size; /* of a head */
    int (*parse)(const MDB_val *value, union head *ret);
} kinds[] = {
    [RECORD_EXEC] = { "exec", "the record of an exec", ID_EXEC, KEY_HEAD, sizeof(struct exec_head),
                      parse_exec },
    [RECORD_WATCH] = { "watch", "the record of a watch", ID_WATCH, KEY_WATCH, sizeof(struct watch_head),
                       parse_one_watch },
};

struct request {
    enum record_kind kind;
    const char *id;
    uint32_t before;
    size_t limit;
    void *head; /* or heads */
    json_t **info;
};

/* ---- by id ---- */
/* 1 = found, 0 = not, -1 */
static int find_stream(struct events_reader *r, const char *id, uint32_t *ret, struct error *err)
{
    MDB_val value;
    struct disk_stream record;
    struct events_key key = key_id(id);
    int found = reader_get(r, &key, &value, err);
    if (found <= 0)
        return found;
    if (parse_sealed(value.mv_data, value.mv_size, &record, sizeof record) < 0)
        return reader_damaged(r, "the number of an exec or a watch", err);
    *ret = record.stream;
    return 1;
}

static int find(struct events_reader *r, const struct kind *kind, const char *id, union head *ret,
                struct error *err)
{
    MDB_val value;
    uint32_t stream = 0;
    if (!id_is_valid(kind->id, id))
        return error_set(err, ERROR_NOT_FOUND, "no such %s", kind->name);
    int found = find_stream(r, id, &stream, err);
    if (found <= 0)
        return found < 0 ? -1 : error_set(err, ERROR_NOT_FOUND, "no such %s: %s", kind->name, id);
    struct events_key key = key_stream(kind->key, stream);
    found = reader_get(r, &key, &value, err);
    if (found < 0)
        return -1;
    if (found == 0 || kind->parse(&value, ret) < 0 || ret->stream != stream || strcmp(ret->id, id) != 0)
        return reader_damaged(r, kind->record, err);
    return 0;
}

int record_find(struct events_reader *r, enum record_kind kind, const char *id, void *ret_head,
                struct error *err)
{
    union head head;
    if (find(r, &kinds[kind], id, &head, err) < 0)
        return -1;
    memcpy(ret_head, &head, kinds[kind].size);
    return 0;
}

static long get_body(struct events_reader *r, void *user, struct error *err)
{
    const struct request *q = user;
    return record_find(r, q->kind, q->id, q->head, err);
}

int record_get(struct events_reader *r, enum record_kind kind, const char *id, void *ret_head,
               struct error *err)
{
    struct request q = { .kind = kind, .id = id, .head = ret_head };
    return (int)reader_run(r, get_body, &q, err);
}

static long info_body(struct events_reader *r, void *user, struct error *err)
{
    static const char what[] = "the description of an exec or a watch";
    const struct request *q = user;
    union head head = { .stream = 0 };
    MDB_val value;
    uint32_t crc;
    if (find(r, &kinds[q->kind], q->id, &head, err) < 0)
        return -1;
    struct events_key key = key_stream(KEY_INFO, head.stream);
    int found = reader_get(r, &key, &value, err);
    if (found < 0)
        return -1;
    if (found == 0 || value.mv_size <= sizeof crc)
        return reader_damaged(r, what, err);
    memcpy(&crc, value.mv_data, sizeof crc);
    const char *text = (const char *)value.mv_data + sizeof crc;
    size_t length = value.mv_size - sizeof crc;
    if (crc != crc32c(0, text, length) ||
        !(*q->info = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)))
        return reader_damaged(r, what, err);
    return 0;
}

int record_get_info(struct events_reader *r, enum record_kind kind, const char *id, json_t **ret,
                    struct error *err)
{
    struct request q = { .kind = kind, .id = id, .info = ret };
    return (int)reader_run(r, info_body, &q, err);
}

/* ---- lists ---- */
/* To the last key of the kind whose stream lies below before (0 = to the last one): LMDB's result. */
static int seek_below(struct events_reader *r, enum key_kind kind, uint32_t before, MDB_val *key,
                      MDB_val *value)
{
    struct events_key from = before ? key_stream(kind, before) : key_kind(kind + 1);
    *key = (MDB_val){ from.size, from.bytes };
    int result = mdb_cursor_get(r->cursor, key, value, MDB_SET_RANGE);
    return mdb_cursor_get(r->cursor, key, value, result == MDB_NOTFOUND ? MDB_LAST : MDB_PREV);
}

static long list_body(struct events_reader *r, void *user, struct error *err)
{
    const struct request *q = user;
    const struct kind *kind = &kinds[q->kind];
    MDB_val key, value;
    struct events_key_parts parts;
    union head head;
    size_t count = 0;
    int result = 0;
    while (count < q->limit) {
        result = count == 0 ? seek_below(r, kind->key, q->before, &key, &value)
                            : mdb_cursor_get(r->cursor, &key, &value, MDB_PREV);
        if (result != 0)
            break;
        if (!key_parse(key.mv_data, key.mv_size, &parts) || parts.kind != kind->key)
            break;
        if (kind->parse(&value, &head) < 0)
            return reader_damaged(r, kind->record, err);
        memcpy((char *)q->head + count++ * kind->size, &head, kind->size);
    }
    return result != 0 && result != MDB_NOTFOUND ? reader_failed(r, result, err) : (long)count;
}

long record_list(struct events_reader *r, enum record_kind kind, uint32_t before, void *ret_heads,
                 size_t limit, struct error *err)
{
    struct request q = { .kind = kind, .before = before, .head = ret_heads, .limit = limit };
    return reader_run(r, list_body, &q, err);
}
