/* Owns watches in an events environment: their records and the rings of their events. In the table an event's
 * number is one higher than its seq, as no event there has the number 0. */
#include "lib/store/watches.h"

#include "lib/store/events_records.h"

/* ---- values ---- */
struct disk_watch {
    uint32_t crc;
    uint8_t version, state;
    uint16_t unused;
    uint32_t stream, unused2;
    int64_t created_us, started_us, finished_us;
    uint64_t base, next, dropped;
    char id[ID_SIZE];
    char reason[200];
    uint32_t unused3;
};
_Static_assert(sizeof(struct disk_watch) == DISK_WATCH_SIZE, "a watch's head has no padding");

enum { WATCH_VERSION = 1 };

void format_watch(const struct watch_head *head, unsigned char value[static DISK_WATCH_SIZE])
{
    struct disk_watch disk = {
        .version = WATCH_VERSION,
        .state = (uint8_t)head->state,
        .stream = head->stream,
        .created_us = head->created_us,
        .started_us = head->started_us,
        .finished_us = head->finished_us,
        .base = head->base,
        .next = head->next,
        .dropped = head->dropped,
    };
    memcpy(disk.id, head->id, strnlen(head->id, ID_SIZE - 1));
    memcpy(disk.reason, head->reason, strnlen(head->reason, sizeof disk.reason - 1));
    format_seal(&disk, sizeof disk);
    memcpy(value, &disk, sizeof disk);
}

static bool is_sound(const struct disk_watch *disk)
{
    return disk->version == WATCH_VERSION && disk->state <= EXEC_FAILED && disk->stream != 0 &&
           disk->id[ID_SIZE - 1] == '\0' && disk->reason[sizeof disk->reason - 1] == '\0' &&
           id_is_valid(ID_WATCH, disk->id) && disk->next < UINT64_MAX && disk->base <= disk->next &&
           disk->next - disk->base <= WATCH_RING;
}

int parse_watch(const void *data, size_t size, struct watch_head *ret)
{
    struct disk_watch disk;
    if (parse_sealed(data, size, &disk, sizeof disk) < 0 || !is_sound(&disk))
        return -1;
    *ret = (struct watch_head){
        .stream = disk.stream,
        .state = disk.state,
        .created_us = disk.created_us,
        .started_us = disk.started_us,
        .finished_us = disk.finished_us,
        .base = disk.base,
        .next = disk.next,
        .dropped = disk.dropped,
    };
    memcpy(ret->id, disk.id, sizeof ret->id);
    memcpy(ret->reason, disk.reason, sizeof ret->reason);
    return 0;
}

/* ---- writing ---- */
int batch_get_watch(struct events_writer *w, uint32_t stream, struct watch_head *ret, struct error *err)
{
    MDB_val value;
    struct events_key key = key_stream(KEY_WATCH, stream);
    int found = batch_get(w, &key, &value, err);
    if (found <= 0)
        return found;
    if (parse_watch(value.mv_data, value.mv_size, ret) < 0 || ret->stream != stream)
        return writer_damaged(w, "the record of a watch", err);
    return 1;
}

static int put_head(struct events_writer *w, const struct watch_head *head, struct error *err)
{
    unsigned char value[DISK_WATCH_SIZE];
    struct events_key key = key_stream(KEY_WATCH, head->stream);
    format_watch(head, value);
    return batch_put(w, &key, value, sizeof value, NULL, 0, err);
}

int watches_add(struct events_writer *w, struct watch_head *head, const json_t *info, struct error *err)
{
    if (!id_is_valid(ID_WATCH, head->id))
        return error_set(err, ERROR_INTERNAL, "a watch needs its id");
    head->base = head->next = head->dropped = 0;
    if (batch_allot_stream(w, &head->stream, err) < 0 || batch_put_id(w, head->id, head->stream, err) < 0 ||
        batch_put_info(w, head->stream, info, err) < 0)
        return -1;
    return put_head(w, head, err);
}

static int drop_oldest(struct events_writer *w, struct watch_head *head, struct error *err)
{
    struct events_key key = key_event(head->stream, head->base + 1);
    if (batch_delete(w, &key, err) < 0)
        return -1;
    head->base++;
    head->dropped++;
    return 0;
}

int watches_append(struct events_writer *w, struct watch_head *head, struct event *event, struct error *err)
{
    if (event->length > EVENT_DATA_MAX)
        abort();
    if (head->next - head->base >= WATCH_RING && drop_oldest(w, head, err) < 0)
        return -1;
    if (batch_put_event(w, head->stream, head->next + 1, event, err) < 0)
        return -1;
    event->seq = head->next++;
    return 0;
}

int watches_skip(struct events_writer *w, struct watch_head *head, uint64_t count, struct error *err)
{
    while (count > 0 && head->base < head->next)
        if (drop_oldest(w, head, err) < 0)
            return -1;
    head->base = head->next += count;
    head->dropped += count;
    return 0;
}

int watches_put(struct events_writer *w, const struct watch_head *head, struct error *err)
{
    if (put_head(w, head, err) < 0)
        return -1;
    if (!exec_state_is_terminal(head->state) || head->finished_us <= 0)
        return 0;
    return batch_put_age(w, head->stream, head->finished_us, err);
}

/* ---- reading ---- */
int watches_get(struct events_reader *r, const char *watch_id, struct watch_head *ret, struct error *err)
{
    return record_get(r, RECORD_WATCH, watch_id, ret, err);
}

int watches_get_info(struct events_reader *r, const char *watch_id, json_t **ret, struct error *err)
{
    return record_get_info(r, RECORD_WATCH, watch_id, ret, err);
}

long watches_list(struct events_reader *r, uint32_t before, struct watch_head *ret, size_t limit,
                  struct error *err)
{
    return record_list(r, RECORD_WATCH, before, ret, limit, err);
}

/* Events as their readers know them. */
struct renumbering {
    events_take *take;
    void *user;
};

static bool take_renumbered(void *user, const struct event *event)
{
    const struct renumbering *n = user;
    struct event told = *event;
    told.seq--;
    return n->take(n->user, &told);
}

struct request {
    const char *watch_id;
    uint64_t cursor;
    struct watch_head *head;
    events_take *take;
    void *user;
};

static long read_body(struct events_reader *r, void *user, struct error *err)
{
    const struct request *q = user;
    struct watch_head head;
    struct renumbering numbers = { q->take, q->user };
    if (record_find(r, RECORD_WATCH, q->watch_id, &head, err) < 0)
        return -1;
    uint64_t seq = q->cursor < head.base ? head.base : q->cursor;
    *q->head = head;
    if (seq >= head.next)
        return 0;
    return reader_hand_out(r, head.stream, seq + 1, head.next, take_renumbered, &numbers, &seq, err);
}

int watches_read(struct events_reader *r, const char *watch_id, uint64_t cursor, struct watch_head *ret_head,
                 events_take *take, void *user, struct error *err)
{
    struct request q = {
        .watch_id = watch_id, .cursor = cursor, .head = ret_head, .take = take, .user = user
    };
    return (int)reader_run(r, read_body, &q, err);
}
